"""Every kind of record over HTTP: lists, one by its id, new ones, and changes; the same for all but
a few.

What a write means is `records`'s; what may be seen the hall's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    Record,
    RecordFilter,
    Task,
    Thread,
)
from cortex.families.team.notifications import who
from cortex.families.team.references import resolve_ref
from cortex.families.team.validation import refusal
from cortex.families.team.writes.actions import PATCH_FIELDS
from cortex.families.team.writes.create import MOST_AT_ONCE, create_observations, create_once
from cortex.families.team.writes.drafts import create_draft, now_ms
from cortex.families.team.writes.update import revise
from cortex.interfaces.team_server.apply.visible_records import aimed
from cortex.interfaces.team_server.cursors import Paged, question_of
from cortex.interfaces.team_server.responses import RouteResult, code_of
from cortex.interfaces.team_server.router import Route, RouteContext
from cortex.interfaces.team_server.routes.lists import (
    KINDS,
    ListedKind,
    list_query,
    list_records,
    page,
)
from cortex.interfaces.team_server.schemas import (
    PLURALS,
    create_body,
    patch_body,
    record_row,
    record_schema,
    sent,
)
from cortex.toolkit.tool import Arguments

# -- reading
# -----------------------------------------------------------------------------------------------------------


def get_record(kind: ListedKind, asked: RouteContext) -> RouteResult:
    """One record by its id; a subcortex by its slug, too."""
    record = _named(asked, kind.cls)
    if isinstance(record.body, Notification) and not asked.viewer.is_own(record.body.recipient):
        # Whoever caused it sees what it is about, not what others are told.
        raise InputError(
            "RECORD_UNKNOWN",
            f"there is no notification {asked.path['id'][:80]!r}",
            context={"id": asked.path["id"][:80], "type": "notification", "near": []},
        )
    return RouteResult(record_row(record, now_ms()))


def _named(asked: RouteContext, cls: type) -> Record[Any]:
    return resolve_ref(asked.hall.store.recorded, asked.path["id"], cls.__name__.lower())


def list_comments(asked: RouteContext) -> RouteResult:
    """The comments of a thread, the newest first."""
    thread = _named(asked, Thread)
    question = question_of(f"/threads/{thread.id}/comments", asked.query)
    return page(asked, question, RecordFilter(kinds=("comment",), refs=(("thread", thread.id),)))


# -- writing
# -----------------------------------------------------------------------------------------------------------


def create_record(kind: ListedKind, asked: RouteContext) -> RouteResult:
    """Write a new record."""
    body = kind.cls(**sent(kind.cls, asked.body))
    return _created(asked, body)


def _created(asked: RouteContext, body: Any, summary: str = "") -> RouteResult:
    done = create_once(
        asked.hall, body, actor=asked.actor, key=asked.key, payload=asked.payload, summary=summary
    )
    return RouteResult(record_row(done.record), status=201)


def create_comment(asked: RouteContext) -> RouteResult:
    """Write a comment into a thread."""
    thread = _named(asked, Thread)
    summary = asked.body.rolling_summary_md or ""
    return _created(asked, Comment(thread.id, **sent(Comment, asked.body)), summary)


def draft_record(asked: RouteContext) -> RouteResult:
    """Keep a draft; what its author doesn't see is as little there as what isn't."""
    fields = {"title": "", "body": "", **sent(Draft, asked.body)}
    draft = aimed(Draft(**fields), asked.hall.store.recorded)
    record, _, following = create_draft(
        asked.hall, draft, actor=asked.actor, key=asked.key, payload=asked.payload
    )
    return RouteResult({**record_row(record), "next_step": following}, status=201)


def create_several(asked: RouteContext) -> RouteResult:
    """Write several observations; what can't be written is told, each by itself."""
    bodies = [
        Observation(**sent(Observation, observation)) for observation in asked.body.observations
    ]
    done = create_observations(
        asked.hall, bodies, actor=asked.actor, key=asked.key, payload=asked.payload
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
        first = next(one.error for one in done.outcomes if one.error is not None)
        raise first
    return RouteResult(rows, status=201)


def change_record(kind: ListedKind, asked: RouteContext) -> RouteResult:
    """Change what a record says; what isn't sent stays."""
    cls = kind.cls
    fields, before = sent(cls, asked.body), _named(asked, cls)
    if not fields:
        raise refusal("body", "there is nothing to change")
    for name in ("assignees", "watchers", "stewards"):
        if name in fields:
            names = (
                who(field, asked.hall.settings, me=asked.principal.name) for field in fields[name]
            )
            fields[name] = tuple(dict.fromkeys(names))
    record = revise(
        asked.hall,
        before.id,
        partial(_changed, fields),
        actor=asked.actor,
        action=_action(cls, fields),
        key=asked.key,
        version=asked.body.version,
        payload=asked.payload,
    )
    return RouteResult(record_row(record, now_ms()))


def _changed(fields: Mapping[str, Any], body: Any) -> Any:
    after = replace(body, **fields)
    if isinstance(after, Task):
        if after.state != "blocked" and body.state == "blocked" and "blocked_reason" not in fields:
            after = replace(after, blocked_reason="")
        if after.assignees and after.state == "inbox" and "state" not in fields:
            after = replace(after, state="assigned")
    return after


def _action(cls: type, fields: Mapping[str, Any]) -> str:
    """What a change is called, and so who may make it."""
    if cls is Task and fields.keys() <= set(PATCH_FIELDS):
        return "update_task"
    if cls is Link and "state" in fields:
        return "judge_link"
    return f"edit_{cls.__name__.lower()}"


# -- the table
# ---------------------------------------------------------------------------------------------------------


def schema_ref(cls: type) -> dict[str, object]:
    """Where the document tells what a record is like."""
    return {"$ref": f"#/components/schemas/{cls.__name__}"}


SCHEMAS: Mapping[str, Mapping[str, object]] = {
    one.cls.__name__: record_schema(one.cls) for one in KINDS
}

_NewComment = create_model(
    "NewComment",
    __base__=create_body(Comment),
    rolling_summary_md=(
        Annotated[str | None, Field(max_length=1_200, description="A better one of the thread")],
        None,
    ),
)


class _Several(Arguments):
    # 200 observations, each with all that one can have, hold some 93,000
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


def _routes() -> list[Route]:
    found: list[Route] = []
    for kind in KINDS:
        cls, name, path = kind.cls, kind.name, kind.path
        article = "an" if name[0] in "aeio" else "a"
        several = partial(list_records, kind)
        found.append(
            Route("GET", path, f"list{cls.__name__}", f"List {PLURALS[name]}", several, PLURALS[name], _array(cls),
                  query=list_query(kind), listed=True)
        )  # fmt: skip
        found.append(
            Route("GET", f"{path}/{{id}}", f"get{cls.__name__}", f"Read {article} {name}", partial(get_record, kind),
                  PLURALS[name], schema_ref(cls))
        )  # fmt: skip
        if cls not in (Comment, Notification):
            run: Callable[[RouteContext], RouteResult] = (
                draft_record if cls is Draft else partial(create_record, kind)
            )
            found.append(
                Route("POST", path, f"create{cls.__name__}", f"Write {article} {name}", run, PLURALS[name], schema_ref(cls),
                      body=create_body(cls), keyed=True, status=201)
            )  # fmt: skip
        if cls not in (Draft, Notification):
            found.append(
                Route("PATCH", f"{path}/{{id}}", f"change{cls.__name__}", f"Change {article} {name}",
                      partial(change_record, kind), PLURALS[name], schema_ref(cls), body=patch_body(cls), keyed=True)
            )  # fmt: skip
    return found


ROUTES: tuple[Route, ...] = (
    *_routes(),
    Route("GET", "/threads/{id}/comments", "listCommentsOfThread", "List the comments of a thread", list_comments, "comments",
          _array(Comment), query=Paged, listed=True),
    Route("POST", "/threads/{id}/comments", "createComment", "Write a comment", create_comment, "comments", schema_ref(Comment),
          body=_NewComment, keyed=True, status=201),
    Route("POST", "/observations/batch", "createObservations", "Write several observations", create_several, "observations",
          _OUTCOMES, body=_NewObservations, keyed=True, status=201),
)  # fmt: skip
