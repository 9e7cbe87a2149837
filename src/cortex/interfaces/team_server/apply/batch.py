"""Apply a batch of client actions in order, in as few transactions as possible.

A batch waits for the disk once and becomes visible at once; the client gets its results after that.
`action` decides about each action. Where the database fails for several actions together, nothing
was stored, and each is tried alone: so the one that it can't store is found and refused, and holds
back none of the others.
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
from cortex.families.team.wire import codec
from cortex.families.team.wire.identity import agent_of
from cortex.families.team.writes.preflight import Screen, screen_of, texts_of
from cortex.interfaces.team_server.apply import action as accepting
from cortex.interfaces.team_server.apply.visible_records import is_queryable
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.router import RouteContext
from cortex.interfaces.team_server.schemas import Row
from cortex.toolkit.tool import unforeseen

MOST_IDS = 1_000
# New records of one action. A client uploads 100 existing records at a time when it joins, with a
# notification for each watcher.
MOST_MADE = 1_000
# Time for which one transaction may keep other writers waiting; a single action may take longer.
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
    action: codec.Action | None = None
    error: CortexError | None = None


def flush(context: RouteContext) -> RouteResult:
    """Take what was written at home, in order; after one that has to be tried again nothing is
    taken, so that nothing overtakes.

    An action without a result was not processed; the client sends it again.
    """
    sent = [_decode(payload, index) for index, payload in enumerate(context.body.actions)]
    results: list[Row] = []
    singly = False
    if (screen := screen_of(context.replica)) is not None:
        # Outside a transaction, so that no other writer waits for the plugins.
        screen.ask(_new_texts(sent_action.action for sent_action in sent if sent_action.action))
    while (
        len(results) < len(sent)
        and _count_records(results) < MAX_RESPONSE_RECORDS
        and not context.cancel
    ):
        done = len(results)
        error = _try_in_transaction(
            context,
            sent[done : done + 1] if singly else _first_transaction(sent[done:]),
            results,
            screen,
        )
        if error is not None:
            within = results[done:]
            del results[done:]
            if singly:
                results.append(_failed_result(context, sent[done], error, within))
            elif _is_caused_by_input(error, within):
                log.warning("what was sent couldn't be kept together: %s", error.message)
                singly = True
                continue
            else:
                raise error
        context.replica.keep_up()
    return RouteResult({"results": results})


def _new_texts(actions: Iterable[codec.Action]) -> Iterator[str]:
    """Yield the texts that actions add to their records."""
    for change in (change for action in actions for change in action.changes):
        before = set(texts_of(change.before)) if change.before else set[str]()
        yield from (text for text in texts_of(change.after) if text not in before)


def _count_records(results: Sequence[Row]) -> int:
    return sum(len(result["records"]) for result in results if isinstance(result["records"], list))


def _first_transaction(sent: Sequence[_Sent]) -> Sequence[_Sent]:
    """Return the leading actions that fit into one transaction.

    Other writers wait until a transaction ends, so it stays small.
    """
    count = 0
    for index, sent_action in enumerate(sent):
        count += len(sent_action.ids)
        if count > TURN_CHANGES and index:
            return sent[:index]
    return sent


def _try_in_transaction(
    context: RouteContext, sent: Sequence[_Sent], results: list[Row], screen: Screen | None
) -> CortexError | None:
    """Apply the next actions in one transaction; return the error that rolled it back, if any."""
    try:
        with context.core.ledger.together():
            _apply_in_order(context, sent, results, screen)
    except CortexError as error:
        return error
    # A failure of this machine, not of the input.
    except (OSError, MemoryError):
        raise
    except Exception as error:
        return unforeseen(error, "syncFlush")
    return None


def _is_caused_by_input(error: CortexError, results: Sequence[Row]) -> bool:
    """True where the database failed on its input, rather than being unavailable.

    An action may fail because of one before it in the same transaction.
    """
    within = any(result["status"] in (accepting.REFUSED, accepting.RETRY) for result in results)
    return within or not isinstance(error, (StoreError, NetworkError))


def _apply_in_order(
    context: RouteContext, sent: Sequence[_Sent], results: list[Row], screen: Screen | None
) -> None:
    """Apply actions until the time is used up or an action changes a subcortex.

    A changed subcortex can change what the sender may see, which the following actions depend on.
    """
    deadline = time.monotonic() + TURN_SECONDS
    context.core.ledger.records.look_ahead(
        _ids_to_prefetch(sent_action.action for sent_action in sent if sent_action.action),
        (context.principal.name, agent_of(context.principal.name)),
        [sent_action.key for sent_action in sent if sent_action.action],
    )
    sender = _sender(context)
    for sent_action in sent:
        _apply_action(context, sender, sent_action, results, screen)
        changes_access = sent_action.action is not None and any(
            change.kind == "subcortex" for change in sent_action.action.changes
        )
        if changes_access or time.monotonic() > deadline:
            return


def _sender(context: RouteContext) -> tuple[Principal, Viewer]:
    """Look up the sender and what they may see, inside the write transaction.

    Raises: NetworkError AUTH_EXPIRED.
    """
    return context.replica.present.look(context.principal.name) or (
        context.principal,
        context.viewer,
    )


def _apply_action(
    context: RouteContext,
    sender: tuple[Principal, Viewer],
    sent_action: _Sent,
    results: list[Row],
    screen: Screen | None,
) -> None:
    if results and results[-1]["status"] == accepting.RETRY:
        results.append(codec.result_to(sent_action.key, accepting.RETRY, ()))
        return
    principal, viewer = sender
    error = (
        sent_action.error if sent_action.action is None else _size_error(context, sent_action.ids)
    )
    if sent_action.action is None or error is not None:
        visible = accepting.shown(context.core.ledger, viewer, sent_action.ids[:MOST_IDS])
        results.append(codec.result_to(sent_action.key, accepting.REFUSED, visible, error))
        return
    done = accepting.accept(
        context.core.ledger, principal, viewer, sent_action.action, context.replica.settings, screen
    )
    results.append(codec.result_to(sent_action.action.key, done.status, done.records, done.error))


def _size_error(context: RouteContext, ids: Sequence[str]) -> InputError | None:
    """Return the error for an action with duplicate ids or too many new records, else None.

    Any number of existing records may be changed in one action.
    """
    if len(set(ids)) < len(ids):
        return InputError(
            "RECORD_INVALID", "a record is changed twice", context={"field": "changes"}
        )
    if len(ids) <= MOST_MADE or len(ids) - len(context.core.ledger.records.get(ids)) <= MOST_MADE:
        return None
    return InputError(
        "RECORD_INVALID", f"more than {MOST_MADE:,} records are new", context={"field": "changes"}
    )


def _failed_result(
    context: RouteContext, sent_action: _Sent, error: CortexError, results: Sequence[Row]
) -> Row:
    """Build the result of an action that failed in a transaction of its own, too.

    A passing database failure inside the action takes precedence: the commit fails then as well,
    with a less specific error.

    Raises: `error`, where it concerns the sender.
    """
    if isinstance(error, NetworkError):
        raise error
    if results and results[0]["status"] == accepting.RETRY:
        return results[0]
    if accepting.is_passing(error):
        return codec.result_to(sent_action.key, accepting.RETRY, (), error)
    with context.core.ledger.together():
        visible = accepting.shown(context.core.ledger, _sender(context)[1], sent_action.ids)
    return codec.result_to(sent_action.key, accepting.REFUSED, visible, error)


def _ids_to_prefetch(actions: Iterable[codec.Action]) -> list[str]:
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
        action = codec.action_from(payload, f"actions[{index}]")
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
