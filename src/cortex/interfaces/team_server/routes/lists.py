"""Lists of records over HTTP: the filters of each kind, and pages of results.

The replica decides which records are visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from cortex.base.record_model import (
    KINDS,
    SENSITIVITIES,
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
from cortex.base.record_spec import fields_of, spec_of
from cortex.families.team.notifications import resolve_name
from cortex.families.team.references import scope_of
from cortex.families.team.tools.search_tool import moment
from cortex.families.team.wire.identity import agent_of
from cortex.families.team.writes.drafts import DRAFTS, listed, now_ms
from cortex.interfaces.team_server.cursors import Paged, page_of, place_in, question_of
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.router import RouteContext
from cortex.interfaces.team_server.schemas import record_row
from cortex.toolkit.tool import Arguments

_ID = Annotated[str | None, Field(max_length=200)]


# Filters that come first, the others in the order of the fields.
_FIRST_FILTERS = ("subcortex", "tag", "type", "thread", "source", "target")
# Kinds in the order of the API's description, the one that belongs to a single person last.
LISTED: tuple[type, ...] = tuple(
    dict.fromkeys(
        (Subcortex, Thread, Comment, Observation, Draft, Artifact, Task, Link, *KINDS.values())
    )
)


def _filters_of(cls: type) -> list[str]:
    """Return the filters of the list of a kind: query parameters, and the roles they filter by."""
    roles = [
        spec.role or next(part.role for part in fields_of(spec.part).values() if part.role)
        for spec in fields_of(cls).values()
        if spec.filtered
    ]
    return [
        *(role for role in _FIRST_FILTERS if role in roles),
        *(role for role in roles if role not in _FIRST_FILTERS),
    ]


def list_query(cls: type) -> type[Arguments]:
    """Build the query model for the list of a kind."""
    states = Literal[spec_of(cls).states]  # type: ignore[valid-type]
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
    for name in _filters_of(cls):
        if name == "type":
            types = fields_of(cls)["type"].choices
            fields[name] = (Literal[types] | None, None)  # type: ignore[valid-type]
        elif name == "tag":
            most = fields_of(cls)["tags"].limit
            fields[name] = (Annotated[tuple[str, ...], Field(max_length=most)], ())
        else:
            fields[name] = (_ID, None)
    return create_model(f"List{cls.__name__}", __base__=Paged, **fields)


def _filter_of(context: RouteContext, cls: type) -> RecordFilter:
    query = context.query
    refs: list[tuple[str, str]] = []
    for name in _filters_of(cls):
        given = getattr(query, name)
        for value in given if isinstance(given, tuple) else (given,) if given else ():
            refs.append((name, _reference_of(context, name, value)))
    if cls is Notification:
        name = context.principal.name
        refs.append(("recipient", agent_of(name) if query.agent else name))
    return RecordFilter(
        kinds=(spec_of(cls).name,),
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


def list_records(cls: type, context: RouteContext) -> RouteResult:
    """Return a page of the records of a kind, newest first."""
    question = question_of(f"/{spec_of(cls).plural}", context.query)
    return page(context, question, _filter_of(context, cls))


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
