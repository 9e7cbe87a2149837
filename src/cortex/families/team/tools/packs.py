"""Pack tools: the bootstrap pack for a new agent, and the context pack of a subject.

The contents are selected in `bootstrap_pack` and `context_pack`. Here they become slots of an
answer, together with code, plugin sections, documents and memories. The order of the slots is their
importance, the share the part of the room that each may claim if there isn't enough for all.
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
    without_empty,
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

# Tokens.
BOOTSTRAP_BUDGET, MOST_BOOTSTRAP = 4_000, 32_000
CONTEXT_BUDGET, MOST_CONTEXT = 8_000, 64_000
CHARTER_CHARACTERS = 2_000
PINNED_SHARE = 3
# Families by the prefix of a reference.
FAMILIES = {"memories": "memory", "documents": "kb", "chunks": "chunks"}
# Slots by importance, with their shares.
RECORD_SLOTS: Mapping[str, int] = {
    "contradictions": 2, "thread": 3, "canon_artifacts": 3, "comments": 2, "in_progress_tasks": 2,
    "recent_observations": 2, "recent_threads": 1, "sections": 1, "related": 1,
}  # fmt: skip
CODE_SLOTS: Mapping[str, int] = {
    "code": 4, "contradictions": 2, "canon_artifacts": 3, "recent_observations": 2,
    "in_progress_tasks": 2, "callers": 2, "sections": 2, "memories": 1, "documents": 1,
    "recent_threads": 1, "related": 1,
}  # fmt: skip


# -- bootstrap pack


def get_bootstrap_pack(context: TeamSession, arguments: GetBootstrapPack, call: Call) -> Answer:
    """Return the bootstrap pack of a scope."""
    budget = chosen_budget(arguments.budget, arguments.max_chars, BOOTSTRAP_BUDGET, MOST_BOOTSTRAP)
    scope = arguments.scope or (WORKSPACE if context.root else GLOBAL)
    if scope not in (GLOBAL, WORKSPACE) and not scope.startswith(SUBCORTEX):
        raise InputError(
            "ARGUMENT_INVALID",
            f"scope is global, workspace or subcortex:<slug>, not {scope[:60]!r}",
        )
    with context.open() as library:
        placement = route(library.store.records, context.routes)
        pack = context_pack.bootstrap(library, scope, workspace_route=placement)
        head = _bootstrap_head(
            pack, placement, slug_of(library)(placement.subcortex), sync_warnings(library)
        )
    notes: list[str] = []
    slots = _bootstrap_slots(pack)
    if _is_empty(pack) and context.root and scope in (GLOBAL, WORKSPACE):
        project = Asked(BOOTSTRAP, title=context.root.name, repo_root=str(context.root))
        slots.append(RenderedSlot("sections", _plugin_rows(context, project, (), notes), 3))
    head = {**head, "warnings": [*_warnings_of(head), *notes]} if notes else head
    following = _next_call(pack, placement)
    wider = (
        _larger_budget_call(
            "get_bootstrap_pack", budget, MOST_BOOTSTRAP, scope=same(arguments.scope)
        )
        or following
    )
    text = render.slots_text(
        head, slots, budget, next_call=following, more_call=lambda after: wider
    )
    return Answer(text)


def _is_empty(pack: Bootstrap) -> bool:
    """True if the team has no records yet that belong in a bootstrap pack."""
    return not (pack.topics or pack.lately or pack.priorities or pack.incidents or pack.here)


def _warnings_of(head: Row) -> list[str]:
    """Return the warnings of a head."""
    warnings = head.get("warnings")
    return [str(warning) for warning in warnings] if isinstance(warnings, list) else []


def _bootstrap_head(
    pack: Bootstrap, placement: Placement, slug: str, syncing: Sequence[str]
) -> Row:
    """Return the head of the answer: scope, default places and warnings."""
    posts = without_empty({"thread": placement.thread, "task": placement.task, "subcortex": slug})
    notes = list(pack.notes) if posts else [*placement.missing, NO_PLACE]
    if not pack.topics:
        notes.append(
            "there are no subcortexes yet; a person makes one: `cortex team subcortex create`"
        )
    return without_empty({"scope": pack.scope, "posts_to": posts, "warnings": [*notes, *syncing]})


def _bootstrap_slots(pack: Bootstrap) -> list[RenderedSlot]:
    """Return the slots of a bootstrap pack, by importance."""
    is_scoped = pack.scope != GLOBAL
    topics = [
        without_empty(
            {
                "slug": topic.record.body.slug,
                "name": topic.record.body.name,
                "charter": cut(topic.record.body.charter, CHARTER_CHARACTERS)
                if topic.ours and is_scoped
                else topic.claim,
                "warnings": list(topic.warnings),
            }
        )
        for topic in pack.topics
    ]
    is_ambiguous = len([topic for topic in pack.topics if topic.pinned]) > 1
    pinned = [
        {
            **entry_row(entry, why=False),
            **({"subcortex": topic.record.body.slug} if is_ambiguous else {}),
        }
        for topic in pack.topics
        for entry in topic.pinned
    ]
    glossary = [f"{word.term.term}: {word.term.meaning}" for word in pack.glossary]
    return [
        RenderedSlot("rules", pack.rules, 3),
        RenderedSlot("here", _rows(pack.here), 1),
        RenderedSlot("incidents", _rows(pack.incidents), 1),
        RenderedSlot("priorities", _rows(pack.priorities), 2),
        RenderedSlot("pinned", pinned, PINNED_SHARE),
        RenderedSlot("accepted", _rows(pack.lately), PINNED_SHARE),
        RenderedSlot("subcortexes", topics, 3),
        RenderedSlot("glossary", glossary, 2),
        RenderedSlot("naming", pack.naming, 1),
    ]


def _next_call(pack: Bootstrap, placement: Placement) -> str:
    """Return the next recommended call: the project's task or thread, its topic, or a search."""
    for record_id in (placement.task, placement.thread):
        if record_id:
            return open_call(record_id)
    if ours := [topic for topic in pack.topics if topic.ours]:
        return call_text("get_context_pack", subject={"subcortex_slug": ours[0].record.body.slug})
    return call_text("search", query="…")


# -- context pack


@dataclass(frozen=True, slots=True)
class _Call:
    """One request for a context pack: session, arguments and budget."""

    context: TeamSession
    arguments: GetContextPack
    budget: int
    call: Call

    @property
    def include(self) -> list[str]:
        """The slots of records to include."""
        chosen = self.arguments.include
        return [
            name
            for name in context_pack.SLOTS
            if name not in Include.model_fields or getattr(chosen, name)
        ]


def get_context_pack(context: TeamSession, arguments: GetContextPack, call: Call) -> Answer:
    """Return the context pack of a record or a piece of code, or open a search result."""
    budget = chosen_budget(arguments.budget, arguments.max_chars, CONTEXT_BUDGET, MOST_CONTEXT)
    request = _Call(context, arguments, budget, call)
    kind, ref = _parse_subject(arguments.subject)
    if kind == "code":
        return _code_pack(request)
    if kind == "ref":
        family, _, item_id = ref.partition(":")
        if family in FAMILIES and item_id:
            return _open_in_family(request, family, item_id)
        kind = kind_of_id(ref)
        if kind not in context_pack.KINDS_OF:
            return _open_record(request, ref)
    return _record_pack(request, kind, ref)


def _parse_subject(subject: SubjectArgument) -> tuple[str, str]:
    """Return the kind and reference of the subject, which must be exactly one.

    Raises: InputError ARGUMENT_INVALID.
    """
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
            f"subject names {len(given)} things: say one of "
            f"{', '.join(SubjectArgument.model_fields)}",
            context={"field": "subject"},
        )
    return given[0]


def _record_pack(request: _Call, kind: str, ref: str) -> Answer:
    """Return the context pack of a record."""
    with request.context.open() as library:
        pack = context_pack.context_pack(
            library,
            context_pack.PackSubject(kind, ref),
            request.include,
            cancel=request.call.cancel,
        )
        assert pack.about is not None
        head = opened_row(pack.about.record, slug_of(library), pack.about.warnings)
    about = pack.about.record
    parts = _pack_rows(pack)
    if pack.thread is not None and (request.arguments.include.recent_threads or kind == "thread"):
        if pack.thread.id != about.id:
            body = pack.thread.record.body
            parts["thread"] = [
                {**entry_row(pack.thread, why=False), **without_empty({"summary": body.summary})}
            ]
            parts["thread"][0].pop("claim", None)
        # A comment that the summary quotes needs no row of its own.
        summary = pack.thread.record.body.summary
        parts["comments"] = [
            entry_row(comment, why=False)
            for comment in pack.comments
            if comment.claim not in summary
        ]
    notes = list(pack.notes)
    subject = Asked(
        kind=kind,
        id=about.id,
        title="" if about.body.sensitivity == SENSITIVE else about.body.title,
    )
    parts["sections"] = _sections(request.context, subject, pack, notes)
    return _render_pack(request, head, parts, RECORD_SLOTS, notes, _recommended_call(pack))


def _code_pack(request: _Call) -> Answer:
    """Return the context pack of a piece of code."""
    wanted = request.arguments.subject.code_link
    assert wanted is not None
    location = locate(request.context, wanted, request.call.cancel)
    link = CodeLink(location.path, repo=wanted.repo or "", symbol=location.symbol)
    notes = list(location.notes)
    with request.context.open() as library:
        pack = context_pack.context_pack(
            library,
            context_pack.PackSubject("code", link=link),
            request.include,
            cancel=request.call.cancel,
        )
        parts = _pack_rows(pack)
        with request.context.others(tuple(FAMILIES.values())) as (places, failures):
            parts |= mentions(places, location, request.call.cancel)
            notes += [*pack.notes, *failures]
    parts |= {"code": list(location.rows), "callers": list(location.callers)}
    parts["sections"] = _sections(request.context, _plugin_subject(location), pack, notes)
    head = without_empty(
        {
            "path": location.path,
            "symbol": location.symbol,
            "repo": location.root.name if location.root else wanted.repo,
        }
    )
    return _render_pack(request, head, parts, CODE_SLOTS, notes, _recommended_call(pack))


def _plugin_subject(location: CodeLocation) -> Asked:
    """Return the subject for plugins; a symbol only with its lines."""
    root = str(location.root) if location.root else ""
    symbol = location.symbol if location.lines else ""
    return Asked(
        "code",
        path=location.path,
        symbol=symbol,
        repo_root=root,
        lines=location.lines if symbol else None,
    )


def _render_pack(
    request: _Call,
    head: Row,
    parts: Mapping[str, Sequence[Part]],
    order: Mapping[str, int],
    notes: Sequence[str],
    following: str,
) -> Answer:
    """Render a pack within the budget, with its slots in order of importance."""
    slots = [
        RenderedSlot(name, parts[name], share) for name, share in order.items() if parts.get(name)
    ]
    slots += [
        RenderedSlot(name, rows) for name, rows in parts.items() if rows and name not in order
    ]
    if notes:
        head = {**head, "notes": [cut(note, 200) for note in dict.fromkeys(notes)][:3]}
    subject = same(request.arguments.subject.model_dump(exclude_none=True))
    left_out = {
        name: False for name in Include.model_fields if not getattr(request.arguments.include, name)
    }
    wider = (
        _larger_budget_call(
            "get_context_pack",
            request.budget,
            MOST_CONTEXT,
            subject=subject,
            include=same(left_out),
        )
        or following
    )
    text = render.slots_text(
        head, slots, request.budget, next_call=following, more_call=lambda after: wider
    )
    return Answer(text)


def _pack_rows(pack: ContextPack) -> dict[str, list[Row]]:
    """Return the rows of a pack by slot."""
    return {slot.name: _rows(slot.entries) for slot in pack.slots}


def _rows(entries: Sequence[context_pack.PackEntry]) -> list[Row]:
    """Return the rows of entries."""
    return [entry_row(entry) for entry in entries]


def _sections(
    context: TeamSession, subject: Asked, pack: ContextPack, notes: list[str]
) -> list[Row]:
    """Return the sections that plugins add to a pack, as rows."""
    return _plugin_rows(context, subject, plugin_view(pack), notes)


def _plugin_rows(
    context: TeamSession, subject: Asked, partial: Sequence[Section], notes: list[str]
) -> list[Row]:
    """Run the plugins and return a row for each section; warnings are added to `notes`."""
    sections, warnings = context.plugins.enrich(subject, partial)
    notes += warnings
    return [
        without_empty(
            {
                "title": cut(section.title, 160),
                "plugin": section.plugin,
                "lines": [line.text for line in section.lines],
            }
        )
        for section in sections
    ]


def plugin_view(pack: ContextPack) -> list[Section]:
    """Return the part of a pack that plugins may see.

    Nothing sensitive, since a plugin may pass on its input.
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


def _recommended_call(pack: ContextPack) -> str:
    """Return the call for the most important record that isn't shown in full."""
    for slot in pack.slots:
        if slot.name == context_pack.CANON:
            return open_call(slot.entries[0].id)
    return open_call(pack.thread.id) if pack.thread and pack.comments else ""


def _larger_budget_call(tool: str, budget: int, most: int, **arguments: object) -> str:
    """Return the same call with a larger budget, "" at the limit."""
    return call_text(tool, **arguments, budget=min(2 * budget, most)) if budget < most else ""


# -- search results


def _open_record(request: _Call, ref: str) -> Answer:
    """Open a record that has no pack: an observation, a comment, a draft, a link."""
    with request.context.open() as library:
        record = resolve_ref(library.store.records, ref)
        head = opened_row(record, slug_of(library), warnings_of(library, record, now()))
        if isinstance(record.body, Link):
            ends = library.store.records.get((record.body.source, record.body.target))
            absent = library.store.outbox.absent()
            head["linked"] = [short_row(end, absence_of(end.id, absent)) for end in ends.values()]
    text = str(head.pop("text", ""))
    thread_id = getattr(record.body, "thread", "")
    return _render_page(request, record.id, head, text, open_call(thread_id) if thread_id else "")


def _open_in_family(request: _Call, name: str, item_id: str) -> Answer:
    """Open a memory, a document or a chunk for a client without that family's tools."""
    with request.context.others([FAMILIES[name]]) as (places, failures):
        for place in places:
            if place.read is not None:
                title, text = place.read(item_id)
                return _render_page(
                    request,
                    f"{name}:{item_id}",
                    {"ref": f"{name}:{item_id}", "title": cut(title, 300)},
                    text,
                    "",
                )
    raise InputError(
        "DOCUMENT_UNKNOWN",
        "; ".join(failures) or f"there are no {name} here",
        context={"ref": f"{name}:{item_id[:100]}"},
    )


def _render_page(request: _Call, ref: str, head: Row, text: str, following: str) -> Answer:
    """Render a page of a long text."""
    offset = read_cursor(ref, request.arguments.cursor)

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
            request.budget,
            cursor=partial(make_cursor, ref),
            more_call=more,
            next_call=following,
        )
    )
