"""Context pack for a thread, a task, a subcortex, an artifact or a piece of code.

Records are collected in slots: first those linked to the subject in either direction, then those of
its subcortex, then similar ones. A record is in one slot only. Read-only; the caller decides how
much of it is shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import (
    FOUND_KINDS,
    OPEN_TASK_STATES,
    CodeLink,
    Record,
    RecordFilter,
    Thread,
)
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.families.team.bootstrap_pack import Bootstrap, Topic, Word, bootstrap, successor_of
from cortex.families.team.caveats import SETTLED, unsettled
from cortex.families.team.code_links import changes_in
from cortex.families.team.pack_entries import PackEntry, claim_of, entries_of
from cortex.families.team.references import resolve_ref
from cortex.families.team.search import RecordQuery, find

__all__ = [
    "SLOTS",
    "Bootstrap",
    "ContextPack",
    "PackEntry",
    "PackSlot",
    "PackSubject",
    "Topic",
    "Word",
    "bootstrap",
    "context_pack",
]

CANON, THREADS, OBSERVATIONS = "canon_artifacts", "recent_threads", "recent_observations"
TASKS, CONTRADICTIONS, RELATED = "in_progress_tasks", "contradictions", "related"
SLOTS = (CANON, THREADS, OBSERVATIONS, TASKS, CONTRADICTIONS, RELATED)
MOST: Mapping[str, int] = {
    CANON: 8,
    THREADS: 5,
    OBSERVATIONS: 8,
    TASKS: 8,
    CONTRADICTIONS: 8,
    RELATED: 6,
}
MOST_COMMENTS = 6
# Records that refer to the subject and are considered.
MOST_POINTING = 80
UNDER_WAY = tuple(state for state in OPEN_TASK_STATES if state != "inbox")
# Search hits that are considered as similar.
ALIKE = 20
# Longest query for similar records.
ALIKE_CHARACTERS = 400
# A title of so many words is a query by itself; text of the body would only add common words.
TELLING_WORDS = 3
# Above the usual threshold: the subject itself matches, so a single shared word scores higher than
# usual.
LEAST_ALIKE = 0.68
# Time limit for reading linked files.
LOOK_SECONDS = 0.5
KINDS_OF = ("thread", "task", "subcortex", "artifact", "code")
_SLOT_OF = {"artifact": CANON, "thread": THREADS, "observation": OBSERVATIONS, "task": TASKS}


@dataclass(frozen=True, slots=True)
class PackSubject:
    """Subject of a pack: a record, or code."""

    # One of KINDS_OF.
    kind: str
    # An id, or the slug of a subcortex.
    ref: str = ""
    # For "code"; its path may be empty if it has a symbol, and may be a folder's.
    link: CodeLink | None = None


@dataclass(frozen=True, slots=True)
class PackSlot:
    """Records of one slot."""

    # One of SLOTS.
    name: str
    entries: tuple[PackEntry, ...]


@dataclass(frozen=True, slots=True)
class ContextPack:
    """Records that are relevant to a subject."""

    subject: PackSubject
    # The subject's record; None for code.
    about: PackEntry | None
    # The thread that discusses the subject, or the subject itself; its body has the summary.
    thread: PackEntry | None
    # The important comments of that thread, oldest first.
    comments: tuple[PackEntry, ...]
    # Without empty slots.
    slots: tuple[PackSlot, ...]
    notes: tuple[str, ...] = ()


def context_pack(
    library: Library,
    subject: PackSubject,
    include: Iterable[str] = SLOTS,
    *,
    cancel: Cancel | None = None,
) -> ContextPack:
    """Collect the context of a subject in the requested slots.

    Raises: InputError RECORD_UNKNOWN, ARGUMENT_INVALID; StoreError, Cancelled.
    """
    requested = [slot for slot in SLOTS if slot in set(include)]
    gathered = _Gathered(library)
    gathered.seen.update(library.store.outbox.withheld())
    with library.store.reading():
        about = _resolve_subject(library, subject)
        thread = _thread_of(library, about) if about else None
        core = [record for record in (about, thread) if record]
        gathered.leave_out(core)
        _add_linked(gathered, subject, about, thread)
    scope = _scope_of(about)
    notes = _add_similar(library, gathered, subject, about, scope, cancel)
    with library.store.reading():
        _add_recent(gathered, scope)
        now, changes_of = int(time.time() * 1000), changes_in(library, LOOK_SECONDS)
        comments = _select_comments(library, thread) if thread else []
        gathered.note_clashes(core)
        slots = [PackSlot(name, gathered.entries(name, now, changes_of)) for name in requested]
        core_entries = {
            entry.id: entry for entry in entries_of(library, core, now, changes_of, whole=True)
        }
        return ContextPack(
            subject,
            core_entries[about.id] if about else None,
            core_entries[thread.id] if thread else None,
            entries_of(library, comments, now, changes_of),
            tuple(slot for slot in slots if slot.entries),
            notes,
        )


# -- collection


@dataclass(slots=True)
class _Gathered:
    """Records in their slots, each with the reason for it; the first reason counts."""

    library: Library
    slots: dict[str, dict[str, tuple[Record[Any], str]]] = field(
        default_factory=lambda: {name: {} for name in SLOTS}
    )
    seen: set[str] = field(default_factory=set)

    def leave_out(self, records: Iterable[Record[Any]]) -> None:
        """Exclude records from all slots."""
        self.seen.update(record.id for record in records)

    def add(self, slot: str, records: Iterable[Record[Any]], why: str) -> None:
        """Add records to a slot until it is full."""
        for record in records:
            if record.id not in self.seen and len(self.slots[slot]) < MOST[slot]:
                self.seen.add(record.id)
                self.slots[slot][record.id] = (record, why)

    def sort(self, records: Iterable[Record[Any]], why: str) -> None:
        """Put records into the slots of their kinds.

        Finished ones and comments are only related.
        """
        for record in records:
            is_finished = record.body.state in (*SETTLED, "done", "cancelled", "archived")
            self.add(RELATED if is_finished else _SLOT_OF.get(record.kind, RELATED), [record], why)

    def left(self, slot: str) -> int:
        """Return the free places of a slot."""
        return MOST[slot] - len(self.slots[slot])

    def note_clashes(self, core: Sequence[Record[Any]]) -> None:
        """Add the open contradictions of the subject and of the collected records."""
        shown = [record.id for record in core] + [
            record_id for name in SLOTS for record_id in self.slots[name]
        ]
        lookup = self.library.store.records
        links = unsettled(lookup, lookup.links(shown))
        core_ids = {record.id for record in core}
        links.sort(
            key=lambda link: (
                link.body.state != "confirmed",
                not core_ids & {link.body.source, link.body.target},
            )
        )
        self.add(CONTRADICTIONS, links, "")

    def entries(self, slot: str, now: int, changes_of: Any) -> tuple[PackEntry, ...]:
        """Return the entries of a slot."""
        whys = {record_id: why for record_id, (_, why) in self.slots[slot].items()}
        entries = entries_of(
            self.library, (record for record, _ in self.slots[slot].values()), now, changes_of
        )
        return tuple(
            PackEntry(entry.record, entry.claim, entry.warnings, whys[entry.id])
            for entry in entries
        )


def _resolve_subject(library: Library, subject: PackSubject) -> Record[Any] | None:
    """Return the subject's record, None for code.

    Raises: InputError ARGUMENT_INVALID, RECORD_UNKNOWN.
    """
    if subject.kind not in KINDS_OF:
        raise InputError("ARGUMENT_INVALID", f"a pack is about one of: {', '.join(KINDS_OF)}")
    if subject.kind != "code":
        return resolve_ref(library.store.records, subject.ref, subject.kind)
    if subject.link is None or not (subject.link.path or subject.link.symbol):
        raise InputError("ARGUMENT_INVALID", "a link to code has a path, a symbol, or both")
    return None


def _thread_of(library: Library, about: Record[Any]) -> Record[Thread] | None:
    """Return the thread that discusses a record."""
    lookup = library.store.records
    if about.kind == "thread":
        return about
    refs = [getattr(about.body, "thread", "")]
    refs += [item.ref for item in getattr(about.body, "evidence", ()) if item.kind == "thread"]
    return next(
        (record for record in lookup.get(filter(None, refs)).values() if record.kind == "thread"),
        None,
    )


def _scope_of(about: Record[Any] | None) -> str:
    """Return the subcortex of a subject, "" for none and for code."""
    if about is None:
        return ""
    return about.id if about.kind == "subcortex" else getattr(about.body, "subcortex", "")


def _add_linked(
    gathered: _Gathered,
    subject: PackSubject,
    about: Record[Any] | None,
    thread: Record[Thread] | None,
) -> None:
    """Add what speaks of a piece of code, is pinned in a subcortex, or linked to a record."""
    library = gathered.library
    if about is None:
        assert subject.link is not None
        gathered.sort(_find_by_code(library, subject.link), "speaks of it")
    elif about.kind == "subcortex":
        body, lookup = about.body, library.store.records
        pins = (*body.pinned_artifacts, *body.pinned_threads, *body.pinned_tasks)
        pinned = (successor_of(lookup, record) for record in lookup.get(pins).values())
        gathered.sort(pinned, "pinned")
    else:
        gathered.sort(_linked_records(library, about, thread), "linked")


def _linked_records(
    library: Library, about: Record[Any], thread: Record[Any] | None
) -> list[Record[Any]]:
    """Return the records that a record and its thread refer to, and those that refer to them."""
    lookup, body = library.store.records, about.body
    core = [about.id, *([thread.id] if thread else [])]
    refs = [getattr(body, name, "") for name in ("task", "supersedes", "superseded_by")]
    refs += [item.ref for item in getattr(body, "evidence", ()) if item.kind != "url"]
    links = [link.body for link in lookup.links(core) if link.body.state == "confirmed"]
    refs += [end for link in links for end in (link.source, link.target)]
    pointing = [
        lookup.select(RecordFilter(kinds=(kind,), refs=(("thread", core[-1]),)), 20)
        for kind in ("observation", "task")
    ]
    pointing.append(
        lookup.pointing(core, ("task", "evidence", "citation", "supersedes"), MOST_POINTING)
    )
    records = [*lookup.get(filter(None, refs)).values()]
    records += [record for batch in pointing for record in batch]
    return [record for record in records if record.kind in FOUND_KINDS]


def _find_by_code(library: Library, link: CodeLink) -> list[Record[Any]]:
    """Return the records that link a piece of code; first those that name its symbol, if any."""
    lookup, symbol = library.store.records, link.symbol.strip().casefold()
    names = dict.fromkeys(filter(None, (symbol, symbol.replace("::", ".").rpartition(".")[2])))
    of_symbol = lookup.pointing(list(names), ("symbol",), MOST_POINTING) if names else []
    of_file = lookup.by_path(link.path.strip("/"), MOST_POINTING) if link.path.strip("/") else []
    file_ids = {record.id for record in of_file}
    matching = (record for record in of_symbol if not file_ids or record.id in file_ids)
    records = {record.id: record for record in (*matching, *of_file)}
    return [
        record
        for record in records.values()
        if record.kind in FOUND_KINDS and _in_repository(record, link.repo)
    ]


def _in_repository(record: Record[Any], repo: str) -> bool:
    """True if a record's links may be in a repository; a link that names none may."""
    names = {link.repo.casefold() for link in getattr(record.body, "code_links", ())}
    return not repo or not names or "" in names or repo.casefold() in names


# -- related records


def _add_similar(
    library: Library,
    gathered: _Gathered,
    subject: PackSubject,
    about: Record[Any] | None,
    scope: str,
    cancel: Cancel | None,
) -> tuple[str, ...]:
    """Add similar records of any subcortex; a pack about a subcortex has none."""
    if about is not None and about.kind == "subcortex":
        return ()
    if about is not None:
        title = about.body.title
        text = title if len(title.split()) >= TELLING_WORDS else f"{title} {claim_of(about)}"
    else:
        link = subject.link or CodeLink("")
        text = f"{link.path} {link.symbol}"
    # Comments repeat what their thread says.
    kinds = tuple(kind for kind in FOUND_KINDS if kind != "comment")
    results = find(library, RecordQuery(text[:ALIKE_CHARACTERS], types=kinds, limit=ALIKE), cancel)
    hits = [hit.record for hit in results.hits if hit.relevance >= LEAST_ALIKE]
    # Stable sort: records of the same subcortex first.
    hits.sort(key=lambda record: scope != getattr(record.body, "subcortex", ""))
    gathered.add(
        CANON,
        (
            record
            for record in hits
            if record.kind == "artifact" and record.body.state == "accepted"
        ),
        "alike",
    )
    gathered.add(RELATED, hits, "alike")
    return results.notes


def _add_recent(gathered: _Gathered, scope: str) -> None:
    """Fill the slots with accepted artifacts and recent activity of the subcortex."""
    if not scope:
        return
    lookup, within = gathered.library.store.records, (("subcortex", scope),)
    for slot, kind, states in (
        (CANON, "artifact", ("accepted",)),
        (THREADS, "thread", ("open",)),
        (OBSERVATIONS, "observation", ()),
        (TASKS, "task", UNDER_WAY),
    ):
        if gathered.left(slot):
            records = lookup.select(
                RecordFilter(kinds=(kind,), states=states, refs=within),
                MOST[slot] + len(gathered.seen),
            )
            gathered.add(slot, records, "same subcortex")


def _select_comments(library: Library, thread: Record[Thread]) -> list[Record[Any]]:
    """Select the comments cited by the summary, then the newest; oldest first."""
    lookup = library.store.records
    cited = [
        record
        for record in lookup.get(thread.body.summary_sources).values()
        if record.kind == "comment"
    ]
    last = lookup.select(
        RecordFilter(kinds=("comment",), refs=(("thread", thread.id),)), MOST_COMMENTS
    )
    chosen = {comment.id: comment for comment in (*cited[-MOST_COMMENTS + 1 :], *last)}
    return sorted(list(chosen.values())[:MOST_COMMENTS], key=lambda comment: comment.id)
