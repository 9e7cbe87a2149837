"""Records of every kind over HTTP: lists, single records, creation and changes.

The team family defines the meaning of a write; the replica decides which records are visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field, create_model

from cortex.base.errors import InputError
from cortex.base.record_model import (
    Comment,
    Draft,
    Link,
    Notification,
    Observation,
    RecordFilter,
    Task,
)
from cortex.base.record_spec import fields_of, spec_of
from cortex.families.team.notifications import resolve_name
from cortex.families.team.validation import refusal
from cortex.families.team.writes.actions import PATCH_FIELDS
from cortex.families.team.writes.create import MOST_AT_ONCE, create_observations, create_once
from cortex.families.team.writes.drafts import create_draft, now_ms
from cortex.families.team.writes.update import revise
from cortex.interfaces.team_server.apply.visible_records import resolve_draft_target
from cortex.interfaces.team_server.cursors import Paged, question_of
from cortex.interfaces.team_server.responses import RouteResult, code_of
from cortex.interfaces.team_server.router import Route, RouteContext
from cortex.interfaces.team_server.routes.lists import LISTED, list_query, list_records, page
from cortex.interfaces.team_server.schemas import (
    create_body,
    patch_body,
    record_row,
    record_schema,
    sent,
)
from cortex.toolkit.tool import Arguments

# -- reading


def get_record(cls: type, context: RouteContext) -> RouteResult:
    """Return a record by id, or a subcortex by slug."""
    record = context.record(spec_of(cls).name)
    if isinstance(record.body, Notification) and not context.viewer.is_own(record.body.recipient):
        # The sender of a notification sees its subject, not the notification of another.
        raise InputError(
            "RECORD_UNKNOWN",
            f"there is no notification {context.path['id'][:80]!r}",
            context={"id": context.path["id"][:80], "type": "notification", "near": []},
        )
    return RouteResult(record_row(record, now_ms()))


def list_comments(context: RouteContext) -> RouteResult:
    """The comments of a thread, the newest first."""
    thread = context.record("thread")
    question = question_of(f"/threads/{thread.id}/comments", context.query)
    return page(context, question, RecordFilter(kinds=("comment",), refs=(("thread", thread.id),)))


# -- writing


def create_record(cls: type, context: RouteContext) -> RouteResult:
    """Create a record."""
    return _create(context, cls(**sent(cls, context.body)))


def _create(context: RouteContext, body: Any, summary: str = "") -> RouteResult:
    done = create_once(
        context.replica,
        body,
        actor=context.actor,
        key=context.key,
        payload=context.payload,
        summary=summary,
    )
    return RouteResult(record_row(done.record), status=201)


def create_comment(context: RouteContext) -> RouteResult:
    """Write a comment into a thread."""
    thread = context.record("thread")
    summary = context.body.rolling_summary_md or ""
    return _create(context, Comment(thread.id, **sent(Comment, context.body)), summary)


def draft_record(context: RouteContext) -> RouteResult:
    """Keep a draft; what its author doesn't see is as little there as what isn't."""
    fields = {"title": "", "body": "", **sent(Draft, context.body)}
    draft = resolve_draft_target(Draft(**fields), context.records)
    record, _, following = create_draft(
        context.replica, draft, actor=context.actor, key=context.key, payload=context.payload
    )
    return RouteResult({**record_row(record), "next_step": following}, status=201)


def create_several(context: RouteContext) -> RouteResult:
    """Create several observations; failures are reported one by one."""
    bodies = [
        Observation(**sent(Observation, observation)) for observation in context.body.observations
    ]
    done = create_observations(
        context.replica, bodies, actor=context.actor, key=context.key, payload=context.payload
    )
    rows = [
        {
            "index": outcome.index,
            "id": outcome.id or None,
            "error": None
            if outcome.error is None
            else {"code": code_of(outcome.error)[0], "message": outcome.error.message},
            "warnings": list(outcome.warnings),
        }
        for outcome in done.outcomes
    ]
    if not any(row["id"] for row in rows):
        first = next(outcome.error for outcome in done.outcomes if outcome.error is not None)
        raise first
    return RouteResult(rows, status=201)


def change_record(cls: type, context: RouteContext) -> RouteResult:
    """Change the given fields of a record."""
    fields, before = sent(cls, context.body), context.record(spec_of(cls).name)
    if not fields:
        raise refusal("body", "there is nothing to change")
    for name, spec in fields_of(cls).items():
        if spec.principal and spec.part is not None and name in fields:
            names = (
                resolve_name(person, context.replica.settings, me=context.principal.name)
                for person in fields[name]
            )
            fields[name] = tuple(dict.fromkeys(names))
    record = revise(
        context.replica,
        before.id,
        partial(_apply_fields, fields),
        actor=context.actor,
        action=_action(cls, fields),
        key=context.key,
        version=context.body.version,
        payload=context.payload,
    )
    return RouteResult(record_row(record, now_ms()))


def _apply_fields(fields: Mapping[str, Any], body: Any) -> Any:
    after = replace(body, **fields)
    if isinstance(after, Task):
        if after.state != "blocked" and body.state == "blocked" and "blocked_reason" not in fields:
            after = replace(after, blocked_reason="")
        if after.assignees and after.state == "inbox" and "state" not in fields:
            after = replace(after, state="assigned")
    return after


def _action(cls: type, fields: Mapping[str, Any]) -> str:
    """Return the action name of a change, which decides about the permission it needs."""
    if cls is Task and fields.keys() <= set(PATCH_FIELDS):
        return "update_task"
    if cls is Link and "state" in fields:
        return "judge_link"
    return f"edit_{cls.__name__.lower()}"


# -- the table


def schema_ref(cls: type) -> dict[str, object]:
    """Return a reference to the schema of a record kind."""
    return {"$ref": f"#/components/schemas/{cls.__name__}"}


SCHEMAS: Mapping[str, Mapping[str, object]] = {cls.__name__: record_schema(cls) for cls in LISTED}

_NewComment = create_model(
    "NewComment",
    __base__=create_body(Comment),
    rolling_summary_md=(
        Annotated[str | None, Field(max_length=1_200, description="A better one of the thread")],
        None,
    ),
)


class _Several(Arguments):
    # 200 observations with all fields at their limits have some 93,000 values.
    most_values: ClassVar[int] = 100_000


_NewObservations = create_model(
    "NewObservations",
    __base__=_Several,
    observations=(
        Annotated[
            tuple[create_body(Observation), ...],  # type: ignore[misc]
            Field(min_length=1, max_length=MOST_AT_ONCE, fail_fast=True),
        ],
        ...,
    ),
)
_OUTCOMES: Mapping[str, object] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "index": {"type": "integer"},
            "id": {"type": ["string", "null"]},
            "error": {"type": ["object", "null"]},
            "warnings": {"type": "array", "items": {"type": "string"}},
        },
    },
}


def _array(cls: type) -> dict[str, object]:
    return {"type": "array", "items": schema_ref(cls)}


def _routes(cls: type) -> Iterator[Route]:
    """Make the routes of a kind."""
    kind = spec_of(cls)
    name, several, path = kind.name, kind.plural, f"/{kind.plural}"
    one = f"an {name}" if name[0] in "aeio" else f"a {name}"
    yield Route("GET", path, f"list{cls.__name__}", f"List {several}", partial(list_records, cls),
                several, _array(cls), query=list_query(cls), listed=True)  # fmt: skip
    yield Route("GET", f"{path}/{{id}}", f"get{cls.__name__}", f"Read {one}",
                partial(get_record, cls), several, schema_ref(cls))  # fmt: skip
    if cls not in (Comment, Notification):
        run: Callable[[RouteContext], RouteResult] = (
            draft_record if cls is Draft else partial(create_record, cls)
        )
        yield Route("POST", path, f"create{cls.__name__}", f"Write {one}", run, several,
                    schema_ref(cls), body=create_body(cls), keyed=True, status=201)  # fmt: skip
    if cls not in (Draft, Notification):
        yield Route("PATCH", f"{path}/{{id}}", f"change{cls.__name__}", f"Change {one}",
                    partial(change_record, cls), several, schema_ref(cls), body=patch_body(cls),
                    keyed=True)  # fmt: skip


ROUTES: tuple[Route, ...] = (
    *(route for cls in LISTED for route in _routes(cls)),
    Route("GET", "/threads/{id}/comments", "listCommentsOfThread", "List the comments of a thread",
          list_comments, "comments", _array(Comment), query=Paged, listed=True),
    Route("POST", "/threads/{id}/comments", "createComment", "Write a comment", create_comment,
          "comments", schema_ref(Comment), body=_NewComment, keyed=True, status=201),
    Route("POST", "/observations/batch", "createObservations", "Write several observations",
          create_several, "observations", _OUTCOMES, body=_NewObservations, keyed=True, status=201),
)  # fmt: skip
