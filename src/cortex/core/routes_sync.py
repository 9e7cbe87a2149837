"""What homes sync with: a beginning, changes since a cursor, writes to be taken, and which ids are still visible.

A cursor is a history, a number of a change, and a witness that the history was this one. What was visible in some version and isn't any more is told by its id alone; what never
was isn't told at all. Whether a write is taken is `accepting`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from cortex.core import accepting, policy
from cortex.core.envelopes import Told
from cortex.core.routing import Asked, Route
from cortex.core.shapes import Row
from cortex.core.sight import is_asked
from cortex.errors import CortexError, InputError
from cortex.kinds import Draft, Link, Notification, Observation, Record, Wanted
from cortex.records.bootstrapping import RULES
from cortex.records.noticing import OPEN
from cortex.records.rights import AGENT
from cortex.seeing import REVIEWER, sees
from cortex.store import Kept
from cortex.store.ledger import Ledger
from cortex.sync import wire
from cortex.tools import Arguments

PAGE, MOST_PAGE = 500, 1_000
MOST_LOOKED_AT = 10_000  # changes for one answer, where few of them may be seen
MOST_ACTIONS = 50
MOST_IDS = 1_000
MAX_FLUSH_BYTES = 8 * 1024 * 1024
_CURSOR = re.compile(r"([0-9a-f]{1,64}):([0-9]{1,18})(?::([0-9a-f.]{0,40})(?::(\d{1,18}))?)?")


class Since(Arguments):
    since: Annotated[str, Field(max_length=120, description='Where the pull before ended; "" for the start')] = ""
    limit: Annotated[int, Field(ge=1, le=MOST_PAGE)] = PAGE
    view: Annotated[str, Field(max_length=100, description="The stamp of what could be seen then")] = ""


class Flush(Arguments):
    actions: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            max_length=MOST_ACTIONS,
            description="What was written at home, in order: {idempotency_key, action, payload}",
        ),
    ]


class Ids(Arguments):
    ids: Annotated[tuple[Annotated[str, Field(max_length=100)], ...], Field(max_length=MOST_IDS)]


# -- reading -----------------------------------------------------------------------------------------------------------


def begin(asked: Asked) -> Told:
    """Whoever asks, what they begin with, and from where to pull."""
    lookup, principal = asked.hall.store.recorded, asked.principal
    scopes = lookup.select(Wanted(kinds=("subcortex",), states=("active", "proposed")), 1_000)
    pins = lookup.get(pin for one in scopes for pin in one.body.pinned_artifacts)
    tier = min(principal.tier, len(asked.core.settings.core.rates) - 1)
    return Told(
        {
            "principal": {"name": principal.name, "tier": principal.tier, "sensitive": principal.sensitive},
            "epoch": asked.core.ledger.epoch(),
            "view": policy.stamp_of(asked.viewer),
            "sync_cursor": "",
            "subcortexes": _told(asked, scopes),
            "pinned_artifacts": _told(asked, pins.values()),
            "glossary": [
                {"term": word.term, "meaning": word.meaning, "subcortex": one.body.slug}
                for one in scopes
                for word in one.body.glossary
            ],
            "policies": {
                "rules": list(RULES),
                "requests_per_minute": asked.core.settings.core.rates[tier],
                "actions": MOST_ACTIONS,
                "page": MOST_PAGE,
            },
        }
    )


def _told(asked: Asked, records: Iterable[Record[Any]]) -> list[Row]:
    """Records as they are pulled."""
    return [wire.record_to(one) for one in asked.hall.store.recorded.kept(one.id for one in records)]


def read_deltas(asked: Asked) -> Told:
    """What was changed since a cursor, as far as it may be seen, and which ids may not any more."""
    query, view = asked.query, policy.stamp_of(asked.viewer)
    epoch, last, witness = asked.core.ledger.mark()
    since, begun = _since(asked.core.ledger, query.since, (epoch, last, witness))
    if query.since and query.view and query.view != view:
        raise _resync("view", "what may be seen is something else now")
    updates: list[Kept] = []
    gone: list[str] = []
    looked_at, more = 0, True
    while more and len(updates) < query.limit and looked_at < MOST_LOOKED_AT:
        page = asked.hall.back.store.recorded.changes(since, query.limit - len(updates))
        more = len(page) == query.limit - len(updates)
        since = page[-1].change if page else since
        looked_at += len(page)
        visible = asked.hall.store.recorded.kept(
            one.record.id for one in page
        )  # as whoever asks may see it, at one moment
        shown = {one.record.id for one in visible}
        hidden = [one.record for one in page if one.record.id not in shown and one.change > begun]
        updates += visible
        gone += [one.id for one in hidden if _was_visible(asked, one)]
    return Told(
        {
            "updates": [wire.record_to(one) for one in updates],
            "invalidations": gone,
            "notifications_count": _waiting(asked),
            "next_cursor": f"{epoch}:{since}:{witness}" + (f":{begun}" if since < begun else ""),
            "has_more": more,
            "epoch": epoch,
            "view": view,
        }
    )


def _since(ledger: Ledger, cursor: str, mark: tuple[str, int, str]) -> tuple[int, int]:
    """The change that a cursor stands for, and the last one when its pull began at the start: what was hidden by then was never told.

    Raises: InputError CURSOR_INVALID; RESYNC_NEEDED, where the ledger never told that cursor.
    """
    if not cursor:
        return 0, mark[1]
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InputError("CURSOR_INVALID", "since is a cursor that a pull gave", context={"field": "since"})
    epoch, last, witness = mark
    told = found[3] or ""
    if found[1] != epoch or int(found[2]) > last or (told != witness and not ledger.remembers(told)):
        raise _resync("epoch", "the Core has another history now")
    return int(found[2]), int(found[4] or 0)


def _resync(reason: str, why: str) -> InputError:
    return InputError("RESYNC_NEEDED", f"{why}: pull from the start", context={"problems": [{"reason": reason}]})


def _was_visible(asked: Asked, record: Record[Any]) -> bool:
    """Whether whoever asks may have seen a record in some version, that they don't see now."""
    body, viewer = record.body, asked.viewer
    match body:
        case Draft() if not viewer.is_own(record.author) and viewer.tier < REVIEWER:
            return False
        case Notification() if not viewer.is_own(body.recipient) and not viewer.is_own(record.author):
            return False
    whole = asked.hall.whole
    before = replace(viewer, hidden=viewer.hidden - asked.hall.once_open())

    def once(one: Record[Any]) -> bool:
        versions = asked.core.ledger.recorded.versions(one.id).values() if one.version > 1 else (one,)
        return any(sees(before, version, whole) for version in versions)

    above = _above(body)
    if not above:
        return once(record)
    owners = [one for number in above if (one := whole(number)) is not None]
    return bool(owners) and all(map(once, owners))  # it is where they are, and was where they were


def _above(body: Any) -> tuple[str, ...]:
    """The records on whose place it depends who sees a body; none where it says so itself."""
    match body:
        case Draft():
            return (body.target,) if body.target else ()
        case Notification():
            return (body.about,)
        case Link():
            return (body.source, body.target)
        case Observation() if not body.subcortex and (body.thread or body.task):
            return (body.thread or body.task,)
    return ()


def _waiting(asked: Asked) -> int:
    """How many notifications are open for whoever asks, and for their agent."""
    names = (asked.principal.name, f"{asked.principal.name}/{AGENT}")
    lookup = asked.hall.store.recorded
    return sum(
        lookup.count(Wanted(kinds=("notification",), states=OPEN, refs=(("recipient", name),))) for name in names
    )


def which_visible(asked: Asked) -> Told:
    """Which of these ids may be seen, and which there aren't at all: copies of those are kept, of what is hidden they aren't.

    Nobody guesses an id, it has 80 random bits: that there is such a record is told to who has seen it, or was told of it.
    """
    ids = [one for one in dict.fromkeys(asked.body.ids) if one.isascii()]
    visible = asked.hall.store.recorded.get(ids)
    known = asked.hall.back.store.recorded.get(ids)
    return Told({"visible": list(visible), "unknown": [one for one in asked.body.ids if one not in known]})


# -- writing -----------------------------------------------------------------------------------------------------------


def flush(asked: Asked) -> Told:
    """Take what was written at home, in order; after one that has to be tried again nothing is taken, so that nothing overtakes.

    It is told when it is on the disk, which is waited for once, and nobody sees it before.
    """
    results: list[Row] = []
    while len(results) < len(asked.body.actions):
        with asked.core.ledger.together():
            _take(asked, results)
        asked.hall.keep_up()
    return Told({"results": results})


def _take(asked: Asked, results: list[Row]) -> None:
    """Take the next actions, up to one that changes what somebody may see: the next depend on that."""
    for number, told in enumerate(asked.body.actions[len(results) :], len(results)):
        if results and results[-1]["status"] == accepting.RETRY:
            results.append(wire.result_to(_key_of(told, number), accepting.RETRY, ()))
            continue
        viewer = policy.viewer_of(asked.principal, asked.hall.subcortexes())
        try:
            action = wire.action_from(told, f"actions[{number}]")
        except CortexError as error:
            there = accepting.shown(asked.core.ledger, viewer, _ids_in(told))
            results.append(wire.result_to(_key_of(told, number), accepting.REFUSED, there, error))
            continue
        done = accepting.accept(asked.core.ledger, asked.principal, viewer, action, asked.hall.settings)
        results.append(wire.result_to(action.key, done.status, done.records, done.error))
        if any(one.kind == "subcortex" for one in action.changes):
            return


def _ids_in(told: Mapping[str, Any]) -> list[str]:
    """The ids that an action names that can't be read otherwise: whoever sent it takes over what these records say here."""
    payload = told.get("payload")
    changes = payload.get("changes") if isinstance(payload, dict) else None
    named = [one.get("id") for one in changes if isinstance(one, dict)] if isinstance(changes, list) else []
    return [one for one in named if isinstance(one, str) and is_asked(one)][:MOST_IDS]


def _key_of(told: Mapping[str, Any], number: int) -> str:
    """The key of an action. Raises: InputError ARGUMENT_INVALID, for without one nobody knows what a result is of."""
    key = told.get("idempotency_key")
    if not isinstance(key, str) or not key:
        place = f"actions[{number}].idempotency_key"
        raise InputError("ARGUMENT_INVALID", f"`{place}`: is required", context={"field": place})
    return key


# -- the table ---------------------------------------------------------------------------------------------------------


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
    status={"type": "string", "enum": [accepting.APPLIED, accepting.REPLAYED, accepting.REFUSED, accepting.RETRY]},
    id={"type": ["string", "null"]},
    error={"type": ["object", "null"]},
    records=_RECORDS,
)

ROUTES: Sequence[Route] = (
    Route("GET", "/sync/bootstrap", "syncBootstrap", "Begin to sync", begin, "sync", _BEGINNING),
    Route("POST", "/sync/bootstrap", "syncBootstrapByPost", "Begin to sync", begin, "sync", _BEGINNING, body=Arguments),
    Route("GET", "/sync/deltas", "syncDeltas", "Pull what was changed", read_deltas, "sync", _DELTAS, query=Since),
    Route("POST", "/sync/flush", "syncFlush", "Send what was written at home", flush, "sync",
          _schema(results={"type": "array", "items": _RESULT}), body=Flush, most=MAX_FLUSH_BYTES, searches=False),
    Route("POST", "/sync/visible", "syncVisible", "Ask which ids may be seen", which_visible, "sync",
          _schema(visible=_TEXTS, unknown=_TEXTS), body=Ids),
)  # fmt: skip
