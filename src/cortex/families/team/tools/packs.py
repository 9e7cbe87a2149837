"""The two packs: what somebody new should know, and what matters about one subject.

What belongs in them is chosen in `records`.

Here they become slots of an answer, with what the code, the plugins, the documents and the memories
add to a subject. The order of the slots is their importance, the share what each may claim when
there isn't room for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from cortex.base.errors import InputError
from cortex.base.record_model import SENSITIVE, CodeLink, Link
from cortex.engine.store import kind_of_id
from cortex.families.team import context_pack
from cortex.families.team.bootstrap_pack import GLOBAL, SUBCORTEX, WORKSPACE
from cortex.families.team.caveats import absence_of, warnings_of
from cortex.families.team.context_pack import Bootstrap, ContextPack
from cortex.families.team.references import resolve_ref
from cortex.families.team.tools import render
from cortex.families.team.tools.arguments import (
    GetBootstrapPack,
    GetContextPack,
    Include,
    SubjectArgument,
)
from cortex.families.team.tools.code_context import CodeLocation, locate, mentions
from cortex.families.team.tools.offline_notice import sync_warnings
from cortex.families.team.tools.read_tools import now, open_call, slug_of
from cortex.families.team.tools.render import (
    Part,
    RenderedSlot,
    Row,
    call_text,
    chosen_budget,
    cut,
    same,
    told,
)
from cortex.families.team.tools.row_views import entry_row, opened_row, short_row
from cortex.families.team.tools.session import TeamSession
from cortex.families.team.tools.write_tools import NO_PLACE
from cortex.families.team.writes.placement import Placement, route
from cortex.plugins import Line, Section
from cortex.plugins import Subject as Asked
from cortex.plugins.builtin_coldstart import BOOTSTRAP
from cortex.toolkit.pagination import make_cursor, read_cursor
from cortex.toolkit.tool import Answer, Call

BOOTSTRAP_BUDGET, MOST_BOOTSTRAP = 4_000, 32_000  # tokens
CONTEXT_BUDGET, MOST_CONTEXT = 8_000, 64_000
CHARTER_CHARACTERS = 2_000
PINNED_SHARE = 3
FAMILIES = {"memories": "memory", "documents": "kb", "chunks": "chunks"}  # what a ref begins with
# By importance; the share of each.
RECORD_SLOTS: Mapping[str, int] = {
    "contradictions": 2, "thread": 3, "canon_artifacts": 3, "comments": 2, "in_progress_tasks": 2, "recent_observations": 2,
    "recent_threads": 1, "sections": 1, "related": 1,
}  # fmt: skip
CODE_SLOTS: Mapping[str, int] = {
    "code": 4, "contradictions": 2, "canon_artifacts": 3, "recent_observations": 2, "in_progress_tasks": 2, "callers": 2,
    "sections": 2, "memories": 1, "documents": 1, "recent_threads": 1, "related": 1,
}  # fmt: skip


# -- for somebody new
# --------------------------------------------------------------------------------------------------


def get_bootstrap_pack(context: TeamSession, arguments: GetBootstrapPack, call: Call) -> Answer:
    """What an agent should know that is new here."""
    budget = chosen_budget(arguments.budget, arguments.max_chars, BOOTSTRAP_BUDGET, MOST_BOOTSTRAP)
    scope = arguments.scope or (WORKSPACE if context.root else GLOBAL)
    if scope not in (GLOBAL, WORKSPACE) and not scope.startswith(SUBCORTEX):
        raise InputError(
            "ARGUMENT_INVALID",
            f"scope is global, workspace or subcortex:<slug>, not {scope[:60]!r}",
        )
    with context.open() as library:
        way = route(library.store.recorded, context.routes)
        found = context_pack.bootstrap(library, scope, workspace_route=way)
        head = _bootstrap_head(found, way, slug_of(library)(way.subcortex), sync_warnings(library))
    notes: list[str] = []
    slots = _bootstrap_slots(found)
    if _tells_nothing(found) and context.root and scope in (GLOBAL, WORKSPACE):
        project = Asked(BOOTSTRAP, title=context.root.name, repo_root=str(context.root))
        slots.append(RenderedSlot("sections", _plugin_rows(context, project, (), notes), 3))
    head = {**head, "warnings": [*_texts(head), *notes]} if notes else head
    following = _after_bootstrap(found, way)
    wider = (
        _wider("get_bootstrap_pack", budget, MOST_BOOTSTRAP, scope=same(arguments.scope))
        or following
    )
    text = render.slots_text(
        head, slots, budget, next_call=following, more_call=lambda after: wider
    )
    return Answer(text)


def _tells_nothing(found: Bootstrap) -> bool:
    """Whether a team has written down nothing that somebody new should know."""
    return not (found.topics or found.lately or found.priorities or found.incidents or found.here)


def _texts(head: Row) -> list[str]:
    warnings = head.get("warnings")
    return [str(warning) for warning in warnings] if isinstance(warnings, list) else []


def _bootstrap_head(found: Bootstrap, way: Placement, slug: str, syncing: Sequence[str]) -> Row:
    posts = told({"thread": way.thread, "task": way.task, "subcortex": slug})
    notes = list(found.notes) if posts else [*way.missing, NO_PLACE]
    if not found.topics:
        notes.append("there are no subcortexes yet; a person makes one: `cortex subcortex create`")
    return told({"scope": found.scope, "posts_to": posts, "warnings": [*notes, *syncing]})


def _bootstrap_slots(found: Bootstrap) -> list[RenderedSlot]:
    whole = found.scope != GLOBAL
    topics = [
        told(
            {
                "slug": topic.record.body.slug,
                "name": topic.record.body.name,
                "charter": cut(topic.record.body.charter, CHARTER_CHARACTERS)
                if topic.ours and whole
                else topic.claim,
                "warnings": list(topic.warnings),
            }
        )
        for topic in found.topics
    ]
    several = len([one for one in found.topics if one.pinned]) > 1
    pinned = [
        {**entry_row(entry, why=False), **({"subcortex": one.record.body.slug} if several else {})}
        for one in found.topics
        for entry in one.pinned
    ]
    glossary = [f"{word.term.term}: {word.term.meaning}" for word in found.glossary]
    return [
        RenderedSlot("rules", found.rules, 3),
        RenderedSlot("here", _rows(found.here), 1),
        RenderedSlot("incidents", _rows(found.incidents), 1),
        RenderedSlot("priorities", _rows(found.priorities), 2),
        RenderedSlot("pinned", pinned, PINNED_SHARE),
        RenderedSlot("accepted", _rows(found.lately), PINNED_SHARE),
        RenderedSlot("subcortexes", topics, 3),
        RenderedSlot("glossary", glossary, 2),
        RenderedSlot("naming", found.naming, 1),
    ]


def _after_bootstrap(found: Bootstrap, way: Placement) -> str:
    for id in (way.task, way.thread):
        if id:
            return open_call(id)
    if ours := [topic for topic in found.topics if topic.ours]:
        return call_text("get_context_pack", subject={"subcortex_slug": ours[0].record.body.slug})
    return call_text("search", query="…")


# -- about one subject
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Call:
    """One call for a pack: what was asked, by whom, and how much it may say."""

    context: TeamSession
    arguments: GetContextPack
    budget: int
    call: Call

    @property
    def include(self) -> list[str]:
        chosen = self.arguments.include
        return [
            name
            for name in context_pack.SLOTS
            if name not in Include.model_fields or getattr(chosen, name)
        ]


def get_context_pack(context: TeamSession, arguments: GetContextPack, call: Call) -> Answer:
    """What matters about a thread, a task, a topic, an artifact, a piece of code, or whatever a
    search found.
    """
    budget = chosen_budget(arguments.budget, arguments.max_chars, CONTEXT_BUDGET, MOST_CONTEXT)
    asked = _Call(context, arguments, budget, call)
    kind, ref = _subject(arguments.subject)
    if kind == "code":
        return _code_pack(asked)
    if kind == "ref":
        family, _, id = ref.partition(":")
        if family in FAMILIES and id:
            return _opened_elsewhere(asked, family, id)
        kind = kind_of_id(ref)
        if kind not in context_pack.KINDS_OF:
            return _opened(asked, ref)
    return _record_pack(asked, kind, ref)


def _subject(subject: SubjectArgument) -> tuple[str, str]:
    """What a pack is about. Raises: InputError ARGUMENT_INVALID, unless it is one thing."""
    named = {
        "thread": subject.thread_id,
        "task": subject.task_id,
        "subcortex": subject.subcortex_slug,
        "artifact": subject.artifact_id,
        "ref": subject.ref,
        "code": subject.code_link and (subject.code_link.path or subject.code_link.symbol),
    }
    given = [(kind, ref.strip()) for kind, ref in named.items() if ref and ref.strip()]
    if len(given) != 1:
        raise InputError(
            "ARGUMENT_INVALID",
            f"subject names {len(given)} things: say one of {', '.join(SubjectArgument.model_fields)}",
            context={"field": "subject"},
        )
    return given[0]


def _record_pack(asked: _Call, kind: str, ref: str) -> Answer:
    with asked.context.open() as library:
        pack = context_pack.context_pack(
            library, context_pack.PackSubject(kind, ref), asked.include, cancel=asked.call.cancel
        )
        assert pack.about is not None
        head = opened_row(pack.about.record, slug_of(library), pack.about.warnings)
    about = pack.about.record
    parts = _pack_rows(pack)
    if pack.thread is not None and (asked.arguments.include.recent_threads or kind == "thread"):
        if pack.thread.id != about.id:
            body = pack.thread.record.body
            parts["thread"] = [
                {**entry_row(pack.thread, why=False), **told({"summary": body.summary})}
            ]
            parts["thread"][0].pop("claim", None)
        # A comment that stands there needs no row of its own
        said = pack.thread.record.body.summary
        parts["comments"] = [
            entry_row(comment, why=False) for comment in pack.comments if comment.claim not in said
        ]
    notes = list(pack.notes)
    plugged = Asked(
        kind=kind,
        id=about.id,
        title="" if about.body.sensitivity == SENSITIVE else about.body.title,
    )
    parts["sections"] = _sections(asked.context, plugged, pack, notes)
    return _told_pack(asked, head, parts, RECORD_SLOTS, notes, _first_call(pack))


def _code_pack(asked: _Call) -> Answer:
    wanted = asked.arguments.subject.code_link
    assert wanted is not None
    found = locate(asked.context, wanted, asked.call.cancel)
    link = CodeLink(found.path, repo=wanted.repo or "", symbol=found.symbol)
    notes = list(found.notes)
    with asked.context.open() as library:
        pack = context_pack.context_pack(
            library,
            context_pack.PackSubject("code", link=link),
            asked.include,
            cancel=asked.call.cancel,
        )
        parts = _pack_rows(pack)
        with asked.context.others(tuple(FAMILIES.values())) as (places, failures):
            parts |= mentions(places, found, asked.call.cancel)
            notes += [*pack.notes, *failures]
    parts |= {"code": list(found.rows), "callers": list(found.callers)}
    parts["sections"] = _sections(asked.context, _plugged(found), pack, notes)
    head = told(
        {
            "path": found.path,
            "symbol": found.symbol,
            "repo": found.root.name if found.root else wanted.repo,
        }
    )
    return _told_pack(asked, head, parts, CODE_SLOTS, notes, _first_call(pack))


def _plugged(found: CodeLocation) -> Asked:
    root = str(found.root) if found.root else ""
    symbol = found.symbol if found.lines else ""
    return Asked(
        "code",
        path=found.path,
        symbol=symbol,
        repo_root=root,
        lines=found.lines if symbol else None,
    )


def _told_pack(
    asked: _Call,
    head: Row,
    parts: Mapping[str, Sequence[Part]],
    order: Mapping[str, int],
    notes: Sequence[str],
    following: str,
) -> Answer:
    slots = [
        RenderedSlot(name, parts[name], share) for name, share in order.items() if parts.get(name)
    ]
    slots += [
        RenderedSlot(name, rows) for name, rows in parts.items() if rows and name not in order
    ]
    if notes:
        head = {**head, "notes": [cut(note, 200) for note in dict.fromkeys(notes)][:3]}
    subject = same(asked.arguments.subject.model_dump(exclude_none=True))
    left_out = {
        name: False for name in Include.model_fields if not getattr(asked.arguments.include, name)
    }
    wider = (
        _wider(
            "get_context_pack", asked.budget, MOST_CONTEXT, subject=subject, include=same(left_out)
        )
        or following
    )
    text = render.slots_text(
        head, slots, asked.budget, next_call=following, more_call=lambda after: wider
    )
    return Answer(text)


def _pack_rows(pack: ContextPack) -> dict[str, list[Row]]:
    return {slot.name: _rows(slot.entries) for slot in pack.slots}


def _rows(entries: Sequence[context_pack.PackEntry]) -> list[Row]:
    return [entry_row(entry) for entry in entries]


def _sections(
    context: TeamSession, subject: Asked, pack: ContextPack, notes: list[str]
) -> list[Row]:
    """What the plugins add to a pack, a row for each section."""
    return _plugin_rows(context, subject, passed_on(pack), notes)


def _plugin_rows(
    context: TeamSession, subject: Asked, partial: Sequence[Section], notes: list[str]
) -> list[Row]:
    sections, warnings = context.plugins.enrich(subject, partial)
    notes += warnings
    return [
        told(
            {
                "title": cut(section.title, 160),
                "plugin": section.plugin,
                "lines": [line.text for line in section.lines],
            }
        )
        for section in sections
    ]


def passed_on(pack: ContextPack) -> list[Section]:
    """What plugins hear of a pack: nothing that is sensitive, since a plugin may pass on whatever
    it gets.
    """
    return [
        Section(
            slot.name,
            tuple(
                Line(entry.claim or entry.record.body.title, entry.id)
                for entry in slot.entries
                if entry.record.body.sensitivity != SENSITIVE
            ),
        )
        for slot in pack.slots
    ]


def _first_call(pack: ContextPack) -> str:
    """What to open next: what counts most and isn't told whole."""
    for slot in pack.slots:
        if slot.name == context_pack.CANON:
            return open_call(slot.entries[0].id)
    return open_call(pack.thread.id) if pack.thread and pack.comments else ""


def _wider(tool: str, budget: int, most: int, **arguments: object) -> str:
    """The same call with more room, "" where there is no more."""
    return call_text(tool, **arguments, budget=min(2 * budget, most)) if budget < most else ""


# -- what a search found
# -----------------------------------------------------------------------------------------------


def _opened(asked: _Call, ref: str) -> Answer:
    """A record that no pack is about: an observation, a comment, a draft, a link."""
    with asked.context.open() as library:
        record = resolve_ref(library.store.recorded, ref)
        head = opened_row(record, slug_of(library), warnings_of(library, record, now()))
        if isinstance(record.body, Link):
            ends = library.store.recorded.get((record.body.source, record.body.target))
            absent = library.store.outbox.absent()
            head["linked"] = [short_row(end, absence_of(end.id, absent)) for end in ends.values()]
    text = str(head.pop("text", ""))
    above = getattr(record.body, "thread", "")
    return _paged(asked, record.id, head, text, open_call(above) if above else "")


def _opened_elsewhere(asked: _Call, name: str, id: str) -> Answer:
    """A memory, a document or a chunk whose own tools the client doesn't have."""
    with asked.context.others([FAMILIES[name]]) as (places, failures):
        for place in places:
            if place.read is not None:
                title, text = place.read(id)
                return _paged(
                    asked,
                    f"{name}:{id}",
                    {"ref": f"{name}:{id}", "title": cut(title, 300)},
                    text,
                    "",
                )
    raise InputError(
        "DOCUMENT_UNKNOWN",
        "; ".join(failures) or f"there are no {name} here",
        context={"ref": f"{name}:{id[:100]}"},
    )


def _paged(asked: _Call, ref: str, head: Row, text: str, following: str) -> Answer:
    offset = read_cursor(ref, asked.arguments.cursor)

    def more(after: str) -> str:
        return call_text("get_context_pack", subject={"ref": ref}, cursor=after)

    if offset:
        head = {name: value for name, value in head.items() if name in ("id", "ref", "title")}
    return Answer(
        render.paged_text(
            head,
            "text",
            text,
            offset,
            asked.budget,
            cursor=partial(make_cursor, ref),
            more_call=more,
            next_call=following,
        )
    )
