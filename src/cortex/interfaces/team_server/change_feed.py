"""Change feed: the changes since a cursor, filtered by what the viewer may see.

A cursor is a history of the ledger, the number of a change, and a witness that proves the history.
A record that was visible in some version and no longer is appears by its id only; a record that
never was visible doesn't appear at all.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import Any

from cortex.base.actors import AGENT
from cortex.base.errors import InputError
from cortex.base.record_model import (
    SENSITIVE,
    Draft,
    Link,
    Notification,
    Observation,
    Record,
    RecordFilter,
)
from cortex.base.visibility import REVIEWER, STEPS, Viewer, sees
from cortex.engine.store import VersionedRecord
from cortex.engine.store.records.ledger import Ledger
from cortex.families.team.notifications import OPEN
from cortex.families.team.wire import codec
from cortex.interfaces.team_server import access_policy
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.router import RouteContext

# Changes read for one page, where few of them are visible.
MOST_LOOKED_AT = 10_000
_CURSOR = re.compile(r"([0-9a-f]{1,64}):([0-9]{1,18})(?::([0-9a-f.]{0,40})(?::(\d{1,18}))?)?")


def read_deltas(context: RouteContext) -> RouteResult:
    """What was changed since a cursor, as far as it may be seen, and which ids may not any more."""
    query, view = context.query, access_policy.stamp_of(context.viewer)
    epoch, last, witness = context.ledger.mark()
    context.replica.check_history(epoch)
    since, begun = _since(context.ledger, query.since, (epoch, last, witness))
    if query.since and query.view and query.view != view:
        raise _resync("view", "what may be seen is something else now")
    # Records by id in the order of changes; None for a record that is no longer visible.
    entries: dict[str, VersionedRecord | None] = {}
    past = _Past(context)
    count = looked_at = 0
    more = True
    while more and count < query.limit and looked_at < MOST_LOOKED_AT:
        page = context.replica.back.store.records.changes(since, query.limit - count)
        more = len(page) == query.limit - count
        since = page[-1].change if page else since
        looked_at += len(page)
        ids = [versioned.record.id for versioned in page]
        # One read, so that all records of the page are of the same moment.
        visible = {versioned.record.id: versioned for versioned in context.records.kept(ids)}
        for versioned in page:
            # A record changed again while the earlier pages were read.
            entries.pop(versioned.record.id, None)
            if (
                versioned.record.id not in visible
                and versioned.change > begun
                and past.showed(versioned.record)
            ):
                entries[versioned.record.id] = None
        entries |= visible
        count = sum(entry is not None for entry in entries.values())
    return RouteResult(
        {
            "updates": [codec.record_to(entry) for entry in entries.values() if entry is not None],
            "invalidations": [record_id for record_id, entry in entries.items() if entry is None],
            "notifications_count": _count_open_notifications(context),
            "next_cursor": f"{epoch}:{since}:{witness}" + (f":{begun}" if since < begun else ""),
            "has_more": more,
            "epoch": epoch,
            "view": view,
        }
    )


def _since(ledger: Ledger, cursor: str, mark: tuple[str, int, str]) -> tuple[int, int]:
    """Return the change number of a cursor, and the last change when its first pull began.

    A record that was hidden by then was never sent, so its id isn't sent either.

    Raises: InputError CURSOR_INVALID; RESYNC_NEEDED for a cursor of another history.
    """
    if not cursor:
        return 0, mark[1]
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InputError(
            "CURSOR_INVALID", "since is a cursor that a pull gave", context={"field": "since"}
        )
    epoch, last, witness = mark
    known_witness = match[3] or ""
    if (
        match[1] != epoch
        or int(match[2]) > last
        or (known_witness != witness and not ledger.remembers(known_witness))
    ):
        raise _resync("epoch", "the Core has another history now")
    return int(match[2]), int(match[4] or 0)


def _resync(reason: str, why: str) -> InputError:
    return InputError(
        "RESYNC_NEEDED", f"{why}: pull from the start", context={"problems": [{"reason": reason}]}
    )


class _Past:
    """Records that the viewer may have seen earlier and doesn't see now."""

    def __init__(self, context: RouteContext) -> None:
        self._context = context
        self._known: dict[str, bool] = {}

    @cached_property
    def _viewer(self) -> Viewer:
        """The viewer as if subcortexes that were open once still were."""
        return replace(
            self._context.viewer,
            hidden=self._context.viewer.hidden - self._context.replica.once_open(),
        )

    def showed(self, record: Record[Any], steps: int = STEPS) -> bool:
        """True if the viewer may have seen some version of a record.

        Each record that its visibility depends on counts with any of its versions, too.
        """
        if record.id not in self._known:
            earlier = self._context.ledger.records.versions(record.id) if record.version > 1 else {}
            self._known[record.id] = any(
                self._shows(version, steps) for version in earlier.values() or (record,)
            )
        return self._known[record.id]

    def _shows(self, version: Record[Any], steps: int) -> bool:
        body, viewer, whole = version.body, self._viewer, self._context.replica.whole
        match body:
            case Draft() if not viewer.is_own(version.author) and viewer.tier < REVIEWER:
                return False
            case Notification() if not viewer.is_own(body.recipient) and not viewer.is_own(
                version.author
            ):
                return False
        owners = [owner for owner_id in _owner_ids(body) if (owner := whole(owner_id)) is not None]
        if not owners or not steps:
            return sees(viewer, version, whole)
        hidden = body.sensitivity == SENSITIVE and not viewer.sensitive
        return not hidden and all(self.showed(owner, steps - 1) for owner in owners)


def _owner_ids(body: Any) -> tuple[str, ...]:
    """Return the ids of the records that decide who sees a body; none if it does itself."""
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


def _count_open_notifications(context: RouteContext) -> int:
    """Count the open notifications of the principal and its agent."""
    names = (context.principal.name, f"{context.principal.name}/{AGENT}")
    lookup = context.records
    return sum(
        lookup.count(
            RecordFilter(kinds=("notification",), states=OPEN, refs=(("recipient", name),))
        )
        for name in names
    )
