"""What matters about a subject: a thread, a task, a topic, an artifact, or a piece of code; in
slots, each with what it is for.

First comes what points to the subject or is pointed to, then what belongs to its topic, then what
says something alike. A record stands in one slot only. Only reads; how much of it is told is the
caller's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import FOUND_KINDS, CodeLink, Record, RecordFilter, Thread
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.families.team.bootstrap_pack import (
    UNFINISHED,
    Bootstrap,
    Topic,
    Word,
    bootstrap,
    successor_of,
)
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
MOST_POINTING = 80  # records that point to the subject and are looked at
UNDER_WAY = tuple(state for state in UNFINISHED if state != "inbox")
ALIKE = 20  # hits of a search that are looked at
ALIKE_CHARACTERS = 400  # of what is searched by
TELLING_WORDS = 3  # of a title: what is said below it would only add words that everybody says
# Above the cut: the subject itself answers, so that whatever shares one word with it is not below
LEAST_ALIKE = 0.68
LOOK_SECONDS = 0.5  # for which it is looked into linked files
KINDS_OF = ("thread", "task", "subcortex", "artifact", "code")
_SLOT_OF = {"artifact": CANON, "thread": THREADS, "observation": OBSERVATIONS, "task": TASKS}


@dataclass(frozen=True, slots=True)
class PackSubject:
    """What a pack is about: a record, or code."""

    kind: str  # of KINDS_OF
    ref: str = ""  # an id, or the slug of a subcortex
    # Of "code"; its path may be "" where its symbol isn't, and be a folder's
    link: CodeLink | None = None


@dataclass(frozen=True, slots=True)
class PackSlot:
    """Records that are there for one reason."""

    name: str  # of SLOTS
    entries: tuple[PackEntry, ...]


@dataclass(frozen=True, slots=True)
class ContextPack:
    """What matters about a subject."""

    subject: PackSubject
    about: PackEntry | None  # the record that it is; None for code
    # In which it is discussed, or the subject itself; its body has the summary
    thread: PackEntry | None
    comments: tuple[PackEntry, ...]  # that count there, in the order they were written
    slots: tuple[PackSlot, ...]  # without those in which nothing is
    notes: tuple[str, ...] = ()


def context_pack(
    library: Library,
    subject: PackSubject,
    include: Iterable[str] = SLOTS,
    *,
    cancel: Cancel | None = None,
) -> ContextPack:
    """What matters about a subject, in the slots that are included.

    Raises: InputError RECORD_UNKNOWN, ARGUMENT_INVALID; StoreError, Cancelled.
    """
    wished = [slot for slot in SLOTS if slot in set(include)]
    gathered = _Gathered(library)
    gathered.seen.update(library.store.outbox.withheld())
    with library.store.reading():
        about = _about(library, subject)
        thread = _thread_of(library, about) if about else None
        scope = (
            ""
            if about is None
            else about.id
            if about.kind == "subcortex"
            else getattr(about.body, "subcortex", "")
        )
        gathered.leave_out(one for one in (about, thread) if one)
        if about is None:
            assert subject.link is not None
            gathered.sort(_citing(library, subject.link), "speaks of it")
        elif about.kind == "subcortex":
            pins = (
                *about.body.pinned_artifacts,
                *about.body.pinned_threads,
                *about.body.pinned_tasks,
            )
            lookup = library.store.recorded
            gathered.sort(
                (successor_of(lookup, one) for one in lookup.get(pins).values()), "pinned"
            )
        else:
            gathered.sort(_around(library, about, thread), "linked")
    notes = _add_alike(library, gathered, subject, about, scope, cancel)
    with library.store.reading():
        _add_recent(gathered, scope)
        now, changes_of = int(time.time() * 1000), changes_in(library, LOOK_SECONDS)
        comments = _comments(library, thread) if thread else []
        gathered.note_clashes([one for one in (about, thread) if one])
        slots = [PackSlot(name, gathered.entries(name, now, changes_of)) for name in wished]
        alone = {
            one.id: one
            for one in entries_of(
                library, [one for one in (about, thread) if one], now, changes_of, whole=True
            )
        }
        return ContextPack(
            subject,
            alone[about.id] if about else None,
            alone[thread.id] if thread else None,
            entries_of(library, comments, now, changes_of),
            tuple(slot for slot in slots if slot.entries),
            notes,
        )


# -- what is there
# -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Gathered:
    """Records in their slots, each with why it is there; the first reason counts."""

    library: Library
    slots: dict[str, dict[str, tuple[Record[Any], str]]] = field(
        default_factory=lambda: {name: {} for name in SLOTS}
    )
    seen: set[str] = field(default_factory=set)

    def leave_out(self, records: Iterable[Record[Any]]) -> None:
        self.seen.update(record.id for record in records)

    def add(self, slot: str, records: Iterable[Record[Any]], why: str) -> None:
        for record in records:
            if record.id not in self.seen and len(self.slots[slot]) < MOST[slot]:
                self.seen.add(record.id)
                self.slots[slot][record.id] = (record, why)

    def sort(self, records: Iterable[Record[Any]], why: str) -> None:
        """Put records where their kind belongs; what is settled or done, and comments, are only
        related.
        """
        for record in records:
            over = record.body.state in (*SETTLED, "done", "cancelled", "archived")
            self.add(RELATED if over else _SLOT_OF.get(record.kind, RELATED), [record], why)

    def left(self, slot: str) -> int:
        return MOST[slot] - len(self.slots[slot])

    def note_clashes(self, core: Sequence[Record[Any]]) -> None:
        """What speaks against the subject, or against what is shown of it."""
        shown = [one.id for one in core] + [number for name in SLOTS for number in self.slots[name]]
        lookup = self.library.store.recorded
        links = unsettled(lookup, lookup.links(shown))
        near = {one.id for one in core}
        links.sort(
            key=lambda one: (
                one.body.state != "confirmed",
                not near & {one.body.source, one.body.target},
            )
        )
        self.add(CONTRADICTIONS, links, "")

    def entries(self, slot: str, now: int, changes_of: Any) -> tuple[PackEntry, ...]:
        whys = {number: why for number, (_, why) in self.slots[slot].items()}
        found = entries_of(
            self.library, (one for one, _ in self.slots[slot].values()), now, changes_of
        )
        return tuple(PackEntry(one.record, one.claim, one.warnings, whys[one.id]) for one in found)


def _about(library: Library, subject: PackSubject) -> Record[Any] | None:
    """The record that a pack is about. Raises: InputError ARGUMENT_INVALID, RECORD_UNKNOWN."""
    if subject.kind not in KINDS_OF:
        raise InputError("ARGUMENT_INVALID", f"a pack is about one of: {', '.join(KINDS_OF)}")
    if subject.kind != "code":
        return resolve_ref(library.store.recorded, subject.ref, subject.kind)
    if subject.link is None or not (subject.link.path or subject.link.symbol):
        raise InputError("ARGUMENT_INVALID", "a link to code has a path, a symbol, or both")
    return None


def _thread_of(library: Library, about: Record[Any]) -> Record[Thread] | None:
    """The thread in which something is discussed."""
    lookup = library.store.recorded
    if about.kind == "thread":
        return about
    told = [getattr(about.body, "thread", "")]
    told += [one.ref for one in getattr(about.body, "evidence", ()) if one.kind == "thread"]
    return next(
        (one for one in lookup.get(filter(None, told)).values() if one.kind == "thread"), None
    )


def _around(library: Library, about: Record[Any], thread: Record[Any] | None) -> list[Record[Any]]:
    """What points to a record or its thread, and what they point to: the last made first."""
    lookup, body = library.store.recorded, about.body
    core = [about.id, *([thread.id] if thread else [])]
    told = [getattr(body, name, "") for name in ("task", "supersedes", "superseded_by")]
    told += [one.ref for one in getattr(body, "evidence", ()) if one.kind != "url"]
    links = [one.body for one in lookup.links(core) if one.body.state == "confirmed"]
    told += [end for link in links for end in (link.source, link.target)]
    pointing = [
        lookup.select(RecordFilter(kinds=(kind,), refs=(("thread", core[-1]),)), 20)
        for kind in ("observation", "task")
    ]
    pointing.append(
        lookup.pointing(core, ("task", "evidence", "citation", "supersedes"), MOST_POINTING)
    )
    found = [*lookup.get(filter(None, told)).values(), *(one for many in pointing for one in many)]
    return [one for one in found if one.kind in FOUND_KINDS]


def _citing(library: Library, link: CodeLink) -> list[Record[Any]]:
    """The records that speak of a piece of code; of the symbol first, where one is asked for."""
    lookup, symbol = library.store.recorded, link.symbol.strip().casefold()
    names = dict.fromkeys(filter(None, (symbol, symbol.replace("::", ".").rpartition(".")[2])))
    of_symbol = lookup.pointing(list(names), ("symbol",), MOST_POINTING) if names else []
    of_file = lookup.by_path(link.path.strip("/"), MOST_POINTING) if link.path.strip("/") else []
    here = {one.id for one in of_file}
    found = {
        one.id: one for one in (*(one for one in of_symbol if not here or one.id in here), *of_file)
    }
    return [
        one for one in found.values() if one.kind in FOUND_KINDS and _in_repository(one, link.repo)
    ]


def _in_repository(record: Record[Any], repo: str) -> bool:
    """Whether what a record links may be in a repository: a link that names none may."""
    names = {link.repo.casefold() for link in getattr(record.body, "code_links", ())}
    return not repo or not names or "" in names or repo.casefold() in names


# -- what belongs to it
# ------------------------------------------------------------------------------------------------


def _add_alike(
    library: Library,
    gathered: _Gathered,
    subject: PackSubject,
    about: Record[Any] | None,
    scope: str,
    cancel: Cancel | None,
) -> tuple[str, ...]:
    """What says something alike, wherever it belongs; a topic has its own."""
    if about is not None and about.kind == "subcortex":
        return ()
    if about is not None:
        title = about.body.title
        text = title if len(title.split()) >= TELLING_WORDS else f"{title} {claim_of(about)}"
    else:
        link = subject.link or CodeLink("")
        text = f"{link.path} {link.symbol}"
    # They say again what their thread says
    kinds = tuple(kind for kind in FOUND_KINDS if kind != "comment")
    found = find(library, RecordQuery(text[:ALIKE_CHARACTERS], types=kinds, limit=ALIKE), cancel)
    hits = [hit.record for hit in found.hits if hit.relevance >= LEAST_ALIKE]
    # Keeps the order of each half
    hits.sort(key=lambda one: scope != getattr(one.body, "subcortex", ""))
    gathered.add(
        CANON,
        (one for one in hits if one.kind == "artifact" and one.body.state == "accepted"),
        "alike",
    )
    gathered.add(RELATED, hits, "alike")
    return found.notes


def _add_recent(gathered: _Gathered, scope: str) -> None:
    """What else belongs to the topic: what counts there, and what was last said and done."""
    if not scope:
        return
    lookup, within = gathered.library.store.recorded, (("subcortex", scope),)
    for slot, kind, states in (
        (CANON, "artifact", ("accepted",)),
        (THREADS, "thread", ("open",)),
        (OBSERVATIONS, "observation", ()),
        (TASKS, "task", UNDER_WAY),
    ):
        if gathered.left(slot):
            found = lookup.select(
                RecordFilter(kinds=(kind,), states=states, refs=within),
                MOST[slot] + len(gathered.seen),
            )
            gathered.add(slot, found, "same subcortex")


def _comments(library: Library, thread: Record[Thread]) -> list[Record[Any]]:
    """The comments that the summary rests on, then the last ones; in the order they were written."""
    lookup = library.store.recorded
    cited = [
        one for one in lookup.get(thread.body.summary_sources).values() if one.kind == "comment"
    ]
    last = lookup.select(
        RecordFilter(kinds=("comment",), refs=(("thread", thread.id),)), MOST_COMMENTS
    )
    chosen = {one.id: one for one in (*cited[-MOST_COMMENTS + 1 :], *last)}
    return sorted(list(chosen.values())[:MOST_COMMENTS], key=lambda one: one.id)
