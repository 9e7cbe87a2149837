"""Sync over HTTP: bootstrap, changes since a cursor, client actions, and visible ids.

`change_feed` reads the changes, and `apply` handles the actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from cortex.base.record_model import Record, RecordFilter
from cortex.families.team.bootstrap_pack import RULES
from cortex.families.team.wire import codec
from cortex.interfaces.team_server import access_policy
from cortex.interfaces.team_server.apply.batch import MOST_IDS, flush
from cortex.interfaces.team_server.change_feed import read_deltas
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.router import Route, RouteContext
from cortex.interfaces.team_server.schemas import Row
from cortex.toolkit.tool import Arguments

PAGE, MOST_PAGE = 500, 1_000
MOST_ACTIONS = 50
MAX_FLUSH_BYTES = 8 * 1024 * 1024


class Since(Arguments):
    since: Annotated[
        str, Field(max_length=120, description='Where the pull before ended; "" for the start')
    ] = ""
    limit: Annotated[int, Field(ge=1, le=MOST_PAGE)] = PAGE
    view: Annotated[
        str, Field(max_length=100, description="The stamp of what could be seen then")
    ] = ""


class Flush(Arguments):
    # Actions are decoded where they are applied.
    passed_on: ClassVar[bool] = True

    actions: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            max_length=MOST_ACTIONS,
            fail_fast=True,
            description="What was written at home, in order: {idempotency_key, action, payload}",
        ),
    ]


class Ids(Arguments):
    ids: Annotated[
        tuple[Annotated[str, Field(max_length=100)], ...],
        Field(max_length=MOST_IDS, fail_fast=True),
    ]


# -- reading


def begin(context: RouteContext) -> RouteResult:
    """Read the principal, their subcortexes, and where to start pulling."""
    lookup, principal = context.records, context.principal
    scopes = lookup.select(RecordFilter(kinds=("subcortex",), states=("active", "proposed")), 1_000)
    pins = lookup.get(pin for scope in scopes for pin in scope.body.pinned_artifacts)
    tier = min(principal.tier, len(context.core.settings.core.rates) - 1)
    return RouteResult(
        {
            "principal": {
                "name": principal.name,
                "tier": principal.tier,
                "sensitive": principal.sensitive,
            },
            "epoch": context.ledger.epoch(),
            "view": access_policy.stamp_of(context.viewer),
            "sync_cursor": "",
            "subcortexes": _encode_records(context, scopes),
            "pinned_artifacts": _encode_records(context, pins.values()),
            "glossary": [
                {"term": word.term, "meaning": word.meaning, "subcortex": scope.body.slug}
                for scope in scopes
                for word in scope.body.glossary
            ],
            "policies": {
                "rules": list(RULES),
                "requests_per_minute": context.core.settings.core.rates[tier],
                "actions": MOST_ACTIONS,
                "page": MOST_PAGE,
            },
        }
    )


def _encode_records(context: RouteContext, records: Iterable[Record[Any]]) -> list[Row]:
    """Encode records as in a pull."""
    return [
        codec.record_to(versioned)
        for versioned in context.records.kept(record.id for record in records)
    ]


def which_visible(context: RouteContext) -> RouteResult:
    """Which of these ids may be seen, and which there aren't at all: copies of those are kept, of
    what is hidden they aren't.

    An id has 80 random bits and can't be guessed, so its existence is confirmed only to clients
    that know the id already.
    """
    context.replica.check_history(context.ledger.epoch())
    ids = [record_id for record_id in dict.fromkeys(context.body.ids) if record_id.isascii()]
    visible = context.records.get(ids)
    known = context.replica.back.store.records.get(ids)
    return RouteResult(
        {
            "visible": list(visible),
            "unknown": [record_id for record_id in context.body.ids if record_id not in known],
        }
    )


# -- the table


def _schema(**properties: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
_RECORDS = {"type": "array", "items": {"$ref": "#/components/schemas/SyncedRecord"}}
SCHEMAS: Mapping[str, Mapping[str, object]] = {
    "SyncedRecord": _schema(
        id=_TEXT,
        kind=_TEXT,
        version={"type": "integer"},
        change={"type": "integer"},
        author=_TEXT,
        created={"type": "integer"},
        updated={"type": "integer"},
        body={"type": "object"},
    )
}
_BEGINNING = _schema(
    principal={"type": "object"},
    epoch=_TEXT,
    view=_TEXT,
    sync_cursor=_TEXT,
    subcortexes=_RECORDS,
    pinned_artifacts=_RECORDS,
    glossary={"type": "array", "items": {"type": "object"}},
    policies={"type": "object"},
)
_DELTAS = _schema(
    updates=_RECORDS,
    invalidations=_TEXTS,
    notifications_count={"type": "integer"},
    next_cursor=_TEXT,
    has_more={"type": "boolean"},
    epoch=_TEXT,
    view=_TEXT,
)
_RESULT = _schema(
    idempotency_key=_TEXT,
    status={"type": "string", "enum": list(codec.STATUSES)},
    id={"type": ["string", "null"]},
    error={"type": ["object", "null"]},
    records=_RECORDS,
)

ROUTES: Sequence[Route] = (
    Route("GET", "/sync/bootstrap", "syncBootstrap", "Begin to sync", begin, "sync", _BEGINNING),
    Route("POST", "/sync/bootstrap", "syncBootstrapByPost", "Begin to sync", begin, "sync",
          _BEGINNING, body=Arguments),
    Route("GET", "/sync/deltas", "syncDeltas", "Pull what was changed", read_deltas, "sync",
          _DELTAS, query=Since),
    Route("POST", "/sync/flush", "syncFlush", "Send what was written at home", flush, "sync",
          _schema(results={"type": "array", "items": _RESULT}), body=Flush, most=MAX_FLUSH_BYTES,
          searches=False),
    Route("POST", "/sync/visible", "syncVisible", "Ask which ids may be seen", which_visible,
          "sync", _schema(visible=_TEXTS, unknown=_TEXTS), body=Ids),
)  # fmt: skip
