"""Apply a batch of client actions in order, in as few transactions as possible.

A batch waits for the disk once and becomes visible in one step; then the client gets its results.
`action` decides about each action. If the database fails for several actions together, nothing was
stored, and each is tried alone: only the one that can't be stored is refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cortex.base.errors import CortexError, InputError, NetworkError, StoreError
from cortex.base.visibility import Viewer
from cortex.engine.store.records.principals import Principal
from cortex.families.team.wire.codec import REFUSED, RETRY, Action, action_from, result_to
from cortex.families.team.wire.identity import agent_of
from cortex.families.team.writes.preflight import screen_of, texts_of
from cortex.interfaces.team_server.apply.action import accept, is_passing, shown
from cortex.interfaces.team_server.apply.visible_records import is_queryable
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.router import RouteContext
from cortex.interfaces.team_server.schemas import Row
from cortex.toolkit.tool import unforeseen

MOST_IDS = 1_000
# Most new records of one action. A client that joins uploads its existing records 100 at a time,
# each with a notification for every watcher.
MOST_MADE = 1_000
# Limits of one transaction, which keeps other writers waiting; a single action may exceed them.
TURN_SECONDS = 1.0
TURN_CHANGES = 500
# Records in a response, not counting those of the last transaction. A refused action may name any
# records, and a batch may have many refused actions.
MAX_RESPONSE_RECORDS = 2_000
# Fields that usually hold the id of a parent record.
_PARENT_FIELDS = ("subcortex", "thread", "task", "target", "source", "about")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sent:
    """An action as sent, or the error from decoding it, with the ids of the records it names."""

    key: str
    ids: Sequence[str]
    action: Action | None = None
    error: CortexError | None = None


def flush(context: RouteContext) -> RouteResult:
    """Apply the actions that a home has written, in order. After one that has to be tried again
    none is applied, so that the order is kept.

    An action without a result was not processed; the client sends it again.
    """
    sent = [_decode(payload, index) for index, payload in enumerate(context.body.actions)]
    return RouteResult({"results": _Batch(context, sent).apply()})


class _Batch:
    """The actions of one request and their results so far."""

    def __init__(self, context: RouteContext, sent: Sequence[_Sent]) -> None:
        self._context, self._ledger = context, context.ledger
        self._sent = sent
        self._results: list[Row] = []
        self._screen = screen_of(context.replica)

    def apply(self) -> list[Row]:
        """Apply the actions, as many as fit into the response."""
        if self._screen is not None:
            # Outside a transaction, so that no other writer waits for the plugins.
            self._screen.ask(_new_texts(sent.action for sent in self._sent if sent.action))
        singly = False
        while (done := len(self._results)) < len(self._sent) and self._has_room():
            rest = self._sent[done:]
            error = self._try_in_transaction(rest[:1] if singly else _first_transaction(rest))
            if error is not None:
                within = self._results[done:]
                del self._results[done:]
                if singly:
                    self._results.append(self._failed_result(rest[0], error, within))
                elif _is_caused_by_input(error, within):
                    log.warning("a batch failed, applying its actions singly: %s", error.message)
                    singly = True
                    continue
                else:
                    raise error
            self._context.replica.keep_up()
        return self._results

    def _has_room(self) -> bool:
        """True if the response has room for more records and the client still waits for it."""
        records = (result["records"] for result in self._results)
        count = sum(len(shown) for shown in records if isinstance(shown, list))
        return count < MAX_RESPONSE_RECORDS and not self._context.cancel

    def _try_in_transaction(self, sent: Sequence[_Sent]) -> CortexError | None:
        """Apply the next actions in one transaction; return the error that rolled it back."""
        try:
            with self._ledger.together():
                self._apply_in_order(sent)
        except CortexError as error:
            return error
        # A failure of this machine, not of the input.
        except (OSError, MemoryError):
            raise
        except Exception as error:
            return unforeseen(error, "syncFlush")
        return None

    def _apply_in_order(self, sent: Sequence[_Sent]) -> None:
        """Apply actions until the time is used up or an action changes a subcortex.

        A changed subcortex can change what the sender may see, which the following actions depend
        on.
        """
        deadline = time.monotonic() + TURN_SECONDS
        name = self._context.principal.name
        self._ledger.records.look_ahead(
            _ids_to_prefetch(action.action for action in sent if action.action),
            (name, agent_of(name)),
            [action.key for action in sent if action.action],
        )
        principal, viewer = self._sender()
        for action in sent:
            self._results.append(self._apply_action(principal, viewer, action))
            changes = action.action.changes if action.action else ()
            changes_access = any(change.kind == "subcortex" for change in changes)
            if changes_access or time.monotonic() > deadline:
                return

    def _sender(self) -> tuple[Principal, Viewer]:
        """Look up the sender and what they may see, inside the write transaction.

        Raises: NetworkError AUTH_EXPIRED.
        """
        context = self._context
        known = context.replica.present.look(context.principal.name)
        return known or (context.principal, context.viewer)

    def _apply_action(self, principal: Principal, viewer: Viewer, sent: _Sent) -> Row:
        """Apply an action and return its result."""
        if self._results and self._results[-1]["status"] == RETRY:
            return result_to(sent.key, RETRY, ())
        action = sent.action
        error = sent.error if action is None else self._size_error(sent.ids)
        if action is None or error is not None:
            visible = shown(self._ledger, viewer, sent.ids[:MOST_IDS])
            return result_to(sent.key, REFUSED, visible, error)
        settings = self._context.replica.settings
        done = accept(self._ledger, principal, viewer, action, settings, self._screen)
        return result_to(action.key, done.status, done.records, done.error)

    def _size_error(self, ids: Sequence[str]) -> InputError | None:
        """Return the error for an action with duplicate ids or too many new records, else None.

        Any number of existing records may be changed in one action.
        """
        problem = ""
        if len(set(ids)) < len(ids):
            problem = "a record is changed twice"
        elif len(ids) > MOST_MADE and len(ids) - len(self._ledger.records.get(ids)) > MOST_MADE:
            problem = f"more than {MOST_MADE:,} records are new"
        return (
            InputError("RECORD_INVALID", problem, context={"field": "changes"}) if problem else None
        )

    def _failed_result(self, sent: _Sent, error: CortexError, within: Sequence[Row]) -> Row:
        """Build the result of an action that failed in a transaction of its own, too.

        A passing database failure inside the action takes precedence, because the commit then fails
        as well, with a less specific error.

        Raises: `error` if it concerns the sender and not the action.
        """
        if isinstance(error, NetworkError):
            raise error
        if within and within[0]["status"] == RETRY:
            return within[0]
        if is_passing(error):
            return result_to(sent.key, RETRY, (), error)
        with self._ledger.together():
            visible = shown(self._ledger, self._sender()[1], sent.ids)
        return result_to(sent.key, REFUSED, visible, error)


def _new_texts(actions: Iterable[Action]) -> Iterator[str]:
    """Yield the texts that actions add to their records."""
    for change in (change for action in actions for change in action.changes):
        before = set(texts_of(change.before)) if change.before else set[str]()
        yield from (text for text in texts_of(change.after) if text not in before)


def _first_transaction(sent: Sequence[_Sent]) -> Sequence[_Sent]:
    """Return the leading actions that fit into one transaction.

    Other writers wait until a transaction ends, so it stays small.
    """
    count = 0
    for index, action in enumerate(sent):
        count += len(action.ids)
        if count > TURN_CHANGES and index:
            return sent[:index]
    return sent


def _is_caused_by_input(error: CortexError, results: Sequence[Row]) -> bool:
    """True if the database failed because of the actions, false if it was unavailable.

    An action may fail because of one before it in the same transaction.
    """
    within = any(result["status"] in (REFUSED, RETRY) for result in results)
    return within or not isinstance(error, (StoreError, NetworkError))


def _ids_to_prefetch(actions: Iterable[Action]) -> list[str]:
    """Return the ids of all changed records and of most that they refer to."""
    changes = [change for action in actions for change in action.changes]
    refs = [getattr(change.after, field, "") for change in changes for field in _PARENT_FIELDS]
    return [
        *(change.id for change in changes),
        *(ref for ref in refs if "_" in ref and is_queryable(ref)),
    ]


def _decode(payload: Mapping[str, Any], index: int) -> _Sent:
    """Decode one action of the request body; an undecodable action carries its error.

    Raises: InputError ARGUMENT_INVALID for an action without a key: its result could not be matched
    to it.
    """
    try:
        action = action_from(payload, f"actions[{index}]")
    except CortexError as error:
        return _Sent(_key_of(payload, index), _ids_in(payload), error=error)
    return _Sent(action.key, [change.id for change in action.changes], action)


def _ids_in(action: Mapping[str, Any]) -> list[str]:
    """Return the record ids named in an action that can't be decoded.

    The response contains these records, so that the client can adopt the server's version.
    """
    payload = action.get("payload")
    changes = payload.get("changes") if isinstance(payload, dict) else None
    ids = (
        [change.get("id") for change in changes if isinstance(change, dict)]
        if isinstance(changes, list)
        else []
    )
    return [
        record_id for record_id in ids if isinstance(record_id, str) and is_queryable(record_id)
    ][:MOST_IDS]


def _key_of(action: Mapping[str, Any], index: int) -> str:
    key = action.get("idempotency_key")
    if not isinstance(key, str) or not key:
        field = f"actions[{index}].idempotency_key"
        raise InputError("ARGUMENT_INVALID", f"`{field}`: is required", context={"field": field})
    return key
