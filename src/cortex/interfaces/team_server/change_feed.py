"""What was changed since a cursor, as far as whoever asks may see it.

A cursor is a history, a number of a change, and a witness that the history was this one. What was
visible in some version and isn't any more is told by its id alone; what never was isn't told at
all.
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

MOST_LOOKED_AT = 10_000  # changes for one answer, where few of them may be seen
_CURSOR = re.compile(r"([0-9a-f]{1,64}):([0-9]{1,18})(?::([0-9a-f.]{0,40})(?::(\d{1,18}))?)?")


def read_deltas(asked: RouteContext) -> RouteResult:
    """What was changed since a cursor, as far as it may be seen, and which ids may not any more."""
    query, view = asked.query, access_policy.stamp_of(asked.viewer)
    epoch, last, witness = asked.core.ledger.mark()
    asked.hall.check_history(epoch)
    since, begun = _since(asked.core.ledger, query.since, (epoch, last, witness))
    if query.since and query.view and query.view != view:
        raise _resync("view", "what may be seen is something else now")
    told: dict[
        str, VersionedRecord | None
    ] = {}  # by ids, in the order of changes; None for what may not be seen any more
    past = _Past(asked)
    count = looked_at = 0
    more = True
    while more and count < query.limit and looked_at < MOST_LOOKED_AT:
        page = asked.hall.back.store.recorded.changes(since, query.limit - count)
        more = len(page) == query.limit - count
        since = page[-1].change if page else since
        looked_at += len(page)
        ids = [one.record.id for one in page]
        # As it is at one moment
        visible = {one.record.id: one for one in asked.hall.store.recorded.kept(ids)}
        for one in page:
            told.pop(one.record.id, None)  # it was changed while the pages before were read
            if one.record.id not in visible and one.change > begun and past.showed(one.record):
                told[one.record.id] = None
        told |= visible
        count = sum(one is not None for one in told.values())
    return RouteResult(
        {
            "updates": [codec.record_to(one) for one in told.values() if one is not None],
            "invalidations": [number for number, one in told.items() if one is None],
            "notifications_count": _waiting(asked),
            "next_cursor": f"{epoch}:{since}:{witness}" + (f":{begun}" if since < begun else ""),
            "has_more": more,
            "epoch": epoch,
            "view": view,
        }
    )


def _since(ledger: Ledger, cursor: str, mark: tuple[str, int, str]) -> tuple[int, int]:
    """The change that a cursor stands for, and the last one when its pull began at the start: what
    was hidden by then was never told.

    Raises: InputError CURSOR_INVALID; RESYNC_NEEDED, where the ledger never told that cursor.
    """
    if not cursor:
        return 0, mark[1]
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InputError(
            "CURSOR_INVALID", "since is a cursor that a pull gave", context={"field": "since"}
        )
    epoch, last, witness = mark
    told = found[3] or ""
    if (
        found[1] != epoch
        or int(found[2]) > last
        or (told != witness and not ledger.remembers(told))
    ):
        raise _resync("epoch", "the Core has another history now")
    return int(found[2]), int(found[4] or 0)


def _resync(reason: str, why: str) -> InputError:
    return InputError(
        "RESYNC_NEEDED", f"{why}: pull from the start", context={"problems": [{"reason": reason}]}
    )


class _Past:
    """What whoever asks may have seen, that they don't see now."""

    def __init__(self, asked: RouteContext) -> None:
        self._asked = asked
        self._known: dict[str, bool] = {}

    @cached_property
    def _viewer(self) -> Viewer:
        """Whoever asks, as if what was open once still were."""
        return replace(
            self._asked.viewer, hidden=self._asked.viewer.hidden - self._asked.hall.once_open()
        )

    def showed(self, record: Record[Any], steps: int = STEPS) -> bool:
        """Whether they may have seen a record in some version, with all on which that depended in
        some version of its own.
        """
        if record.id not in self._known:
            earlier = (
                self._asked.core.ledger.recorded.versions(record.id) if record.version > 1 else {}
            )
            self._known[record.id] = any(
                self._shows(one, steps) for one in earlier.values() or (record,)
            )
        return self._known[record.id]

    def _shows(self, version: Record[Any], steps: int) -> bool:
        body, viewer, whole = version.body, self._viewer, self._asked.hall.whole
        match body:
            case Draft() if not viewer.is_own(version.author) and viewer.tier < REVIEWER:
                return False
            case Notification() if not viewer.is_own(body.recipient) and not viewer.is_own(
                version.author
            ):
                return False
        owners = [one for number in _above(body) if (one := whole(number)) is not None]
        if not owners or not steps:
            return sees(viewer, version, whole)
        hidden = body.sensitivity == SENSITIVE and not viewer.sensitive
        return not hidden and all(self.showed(owner, steps - 1) for owner in owners)


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


def _waiting(asked: RouteContext) -> int:
    """How many notifications are open for whoever asks, and for their agent."""
    names = (asked.principal.name, f"{asked.principal.name}/{AGENT}")
    lookup = asked.hall.store.recorded
    return sum(
        lookup.count(
            RecordFilter(kinds=("notification",), states=OPEN, refs=(("recipient", name),))
        )
        for name in names
    )
