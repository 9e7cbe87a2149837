"""Lists of records over HTTP: the filters of each kind in one table, and pages of results.

The replica decides which records are visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from cortex.base.record_model import (
    Artifact,
    Comment,
    Draft,
    Link,
    Notification,
    Observation,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.families.team.field_rules import LIMITS, SENSITIVITIES, STATES, TYPES
from cortex.families.team.notifications import resolve_name
from cortex.families.team.references import scope_of
from cortex.families.team.tools.search_tool import moment
from cortex.families.team.wire.identity import agent_of
from cortex.families.team.writes.drafts import DRAFTS, listed, now_ms
from cortex.interfaces.team_server.cursors import Paged, page_of, place_in, question_of
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.router import RouteContext
from cortex.interfaces.team_server.schemas import PLURALS, record_row
from cortex.toolkit.tool import Arguments

_ID = Annotated[str | None, Field(max_length=200)]


@dataclass(frozen=True, slots=True)
class ListedKind:
    """A kind of record and the filters of its list."""

    cls: type
    # Query parameters, and the reference roles that they filter by.
    narrowed: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.cls.__name__.lower()

    @property
    def path(self) -> str:
        return f"/{PLURALS[self.name]}"


KINDS = (
    ListedKind(Subcortex, {}),
    ListedKind(Thread, {"subcortex": "subcortex", "tag": "tag", "type": "type", "task": "task"}),
    ListedKind(Comment, {"subcortex": "subcortex", "thread": "thread"}),
    ListedKind(
        Observation,
        {
            "subcortex": "subcortex",
            "tag": "tag",
            "thread": "thread",
            "task": "task",
            "path": "path",
        },
    ),
    ListedKind(Draft, {"tag": "tag", "target": "target"}),
    ListedKind(Artifact, {"subcortex": "subcortex", "tag": "tag", "type": "type"}),
    ListedKind(
        Task, {"subcortex": "subcortex", "tag": "tag", "thread": "thread", "assignee": "assignee"}
    ),
    ListedKind(Link, {"source": "source", "target": "target", "relation": "relation"}),
    ListedKind(Notification, {"about": "about"}),
)


def list_query(kind: ListedKind) -> type[Arguments]:
    """Build the query model for the list of a kind."""
    cls = kind.cls
    states = Literal[STATES[cls]]  # type: ignore[valid-type]
    fields: dict[str, Any] = {
        "status": (tuple[states, ...], ()),
        "author": (_ID, None),
        "sensitivity": (Literal[SENSITIVITIES] | None, None),  # type: ignore[valid-type]
        "since": (
            Annotated[
                str | None,
                Field(max_length=40, description="Changed since: a date, a moment or 7d"),
            ],
            None,
        ),
        "until": (Annotated[str | None, Field(max_length=40, description="Changed until")], None),
    }
    if cls is Notification:
        fields["agent"] = (
            Annotated[bool, Field(description="Those for one's agent instead")],
            False,
        )
    for name in kind.narrowed:
        if name == "type":
            fields[name] = (Literal[TYPES[cls]] | None, None)  # type: ignore[valid-type]
        elif name == "tag":
            fields[name] = (Annotated[tuple[str, ...], Field(max_length=LIMITS[cls]["tags"])], ())
        else:
            fields[name] = (_ID, None)
    return create_model(f"List{cls.__name__}", __base__=Paged, **fields)


def _filter_of(context: RouteContext, kind: ListedKind) -> RecordFilter:
    query = context.query
    refs: list[tuple[str, str]] = []
    for name, role in kind.narrowed.items():
        given = getattr(query, name)
        for value in given if isinstance(given, tuple) else (given,) if given else ():
            refs.append((role, _reference_of(context, name, value)))
    if kind.cls is Notification:
        refs.append(
            (
                "recipient",
                agent_of(context.principal.name) if query.agent else context.principal.name,
            )
        )
    return RecordFilter(
        kinds=(kind.name,),
        states=tuple(dict.fromkeys(query.status)),
        refs=tuple(dict.fromkeys(refs)),
        authors=(query.author,) if query.author else (),
        sensitivity=query.sensitivity or "",
        since=moment(query.since, "since"),
        until=moment(query.until, "until"),
    )


def _reference_of(context: RouteContext, name: str, value: str) -> str:
    """Return the reference that a query parameter stands for."""
    if name == "subcortex":
        return scope_of(context.replica.store.records, value).id
    if name == "tag":
        return value.strip().casefold()
    return resolve_name(value, me=context.principal.name) if name == "assignee" else value


def list_records(kind: ListedKind, context: RouteContext) -> RouteResult:
    """Return a page of the records of a kind, newest first."""
    wanted, question = _filter_of(context, kind), question_of(kind.path, context.query)
    return page(context, question, wanted)


def page(context: RouteContext, question: str, wanted: RecordFilter) -> RouteResult:
    """Return a page of the records that match a filter, newest first."""
    before, size = place_in(question, context.query.cursor), context.query.limit + 1
    now = now_ms()
    # A draft may have expired while its stored state is still pending.
    if wanted.kinds == DRAFTS.kinds:
        records: Sequence[Record[Any]] = listed(
            context.replica, wanted.states, size, before=before, now=now, wanted=wanted
        )
    else:
        records = context.replica.store.records.select(replace(wanted, before=before), size)
    shown, pagination = page_of(question, context.query, records, lambda record: record.id)
    return RouteResult([record_row(record, now) for record in shown], pagination)
