"""What a home sends, taken in order and all at once: it is told when it is on the disk, which is
waited for once, and nobody sees it before.

Whether an action is taken is `accepting`'s. Where the database fails at all of them together
nothing was kept, and each is tried by itself: so one that it can't hold is found and refused, and
holds back none of the others.
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
from cortex.interfaces.team_server.apply.visible_records import is_asked
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.router import RouteContext
from cortex.interfaces.team_server.schemas import Row
from cortex.toolkit.tool import unforeseen

MOST_IDS = 1_000
# Records of one action; a home sends 100 of what it had before it joined, and a notification for
# each who watches
MOST_MADE = 1_000
TURN_SECONDS = 1.0  # that others who write are kept waiting, but for what is one action
TURN_CHANGES = 500
# Records in an answer, but for those of the last turn: what is refused names any, and may do so in
# each action
MOST_TOLD = 2_000
# Fields that mostly hold what a change belongs to.
_NAMED = ("subcortex", "thread", "task", "target", "source", "about")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sent:
    """An action as it was sent, or why it can't be read; and the ids that it names."""

    key: str
    ids: Sequence[str]
    action: codec.Action | None = None
    error: CortexError | None = None


def flush(asked: RouteContext) -> RouteResult:
    """Take what was written at home, in order; after one that has to be tried again nothing is
    taken, so that nothing overtakes.

    What isn't answered was not looked at, and is sent again.
    """
    sent = [_read(told, number) for number, told in enumerate(asked.body.actions)]
    results: list[Row] = []
    singly = False
    if (screen := screen_of(asked.hall)) is not None:
        # Nobody waits for the database meanwhile
        screen.ask(_texts(one.action for one in sent if one.action))
    while len(results) < len(sent) and _told(results) < MOST_TOLD and not asked.cancel:
        done = len(results)
        error = _try(
            asked, sent[done : done + 1] if singly else _turn(sent[done:]), results, screen
        )
        if error is not None:
            within = results[done:]
            del results[done:]
            if singly:
                results.append(_untaken(asked, sent[done], error, within))
            elif _is_of_one(error, within):
                log.warning("what was sent couldn't be kept together: %s", error.message)
                singly = True
                continue
            else:
                raise error
        asked.hall.keep_up()
    return RouteResult({"results": results})


def _texts(actions: Iterable[codec.Action]) -> Iterator[str]:
    """What actions say that wasn't said before."""
    for change in (one for action in actions for one in action.changes):
        before = set(texts_of(change.before)) if change.before else set[str]()
        yield from (text for text in texts_of(change.after) if text not in before)


def _told(results: Sequence[Row]) -> int:
    return sum(len(result["records"]) for result in results if isinstance(result["records"], list))


def _turn(sent: Sequence[_Sent]) -> Sequence[_Sent]:
    """The first of these that may be taken in one transaction: others want to write, too, and wait
    for its end.
    """
    count = 0
    for place, one in enumerate(sent):
        count += len(one.ids)
        if count > TURN_CHANGES and place:
            return sent[:place]
    return sent


def _try(
    asked: RouteContext, sent: Sequence[_Sent], results: list[Row], screen: Screen | None
) -> CortexError | None:
    """Take the next actions in one transaction; gives what it failed at, then nothing of them is
    kept.
    """
    try:
        with asked.core.ledger.together():
            _take(asked, sent, results, screen)
    except CortexError as error:
        return error
    except (OSError, MemoryError):  # of this machine
        raise
    except Exception as error:
        return unforeseen(error, "syncFlush")
    return None


def _is_of_one(error: CortexError, results: Sequence[Row]) -> bool:
    """Whether the database failed at something that it was given, and doesn't just fail: what was
    given before may be told of one behind it.
    """
    within = any(result["status"] in (accepting.REFUSED, accepting.RETRY) for result in results)
    return within or not isinstance(error, (StoreError, NetworkError))


def _take(
    asked: RouteContext, sent: Sequence[_Sent], results: list[Row], screen: Screen | None
) -> None:
    """Take the next actions, as long as others may be kept waiting, and up to one that changes what
    somebody may see: the next depend on that.
    """
    until = time.monotonic() + TURN_SECONDS
    asked.core.ledger.records.look_ahead(
        _named(one.action for one in sent if one.action),
        (asked.principal.name, agent_of(asked.principal.name)),
        [one.key for one in sent if one.action],
    )
    sender = _sender(asked)
    for one in sent:
        _take_one(asked, sender, one, results, screen)
        scopes = one.action is not None and any(
            change.kind == "subcortex" for change in one.action.changes
        )
        if scopes or time.monotonic() > until:
            return


def _sender(asked: RouteContext) -> tuple[Principal, Viewer]:
    """Whoever sends, and what they may see, while nobody else writes.

    Raises: NetworkError AUTH_EXPIRED.
    """
    return asked.hall.present.look(asked.principal.name) or (asked.principal, asked.viewer)


def _take_one(
    asked: RouteContext,
    sender: tuple[Principal, Viewer],
    one: _Sent,
    results: list[Row],
    screen: Screen | None,
) -> None:
    if results and results[-1]["status"] == accepting.RETRY:
        results.append(codec.result_to(one.key, accepting.RETRY, ()))
        return
    principal, viewer = sender
    error = one.error if one.action is None else _too_much(asked, one.ids)
    if one.action is None or error is not None:
        there = accepting.shown(asked.core.ledger, viewer, one.ids[:MOST_IDS])
        results.append(codec.result_to(one.key, accepting.REFUSED, there, error))
        return
    done = accepting.accept(
        asked.core.ledger, principal, viewer, one.action, asked.hall.settings, screen
    )
    results.append(codec.result_to(one.action.key, done.status, done.records, done.error))


def _too_much(asked: RouteContext, ids: Sequence[str]) -> InputError | None:
    """Why an action is more than one step at a home can be; what was there before may be changed
    with something else, however much it is.
    """
    if len(set(ids)) < len(ids):
        return InputError(
            "RECORD_INVALID", "a record is changed twice", context={"field": "changes"}
        )
    if len(ids) <= MOST_MADE or len(ids) - len(asked.core.ledger.recorded.get(ids)) <= MOST_MADE:
        return None
    return InputError(
        "RECORD_INVALID", f"more than {MOST_MADE:,} records are new", context={"field": "changes"}
    )


def _untaken(asked: RouteContext, one: _Sent, error: CortexError, within: Sequence[Row]) -> Row:
    """What is told of an action that isn't taken by itself either.

    Raises: `error`, where it is about whoever sent it.

    Where the database failed within it for a moment, that is what counts: its end fails then as
    well, and says less.
    """
    if isinstance(error, NetworkError):
        raise error
    if within and within[0]["status"] == accepting.RETRY:
        return within[0]
    if accepting.is_passing(error):
        return codec.result_to(one.key, accepting.RETRY, (), error)
    with asked.core.ledger.together():
        there = accepting.shown(asked.core.ledger, _sender(asked)[1], one.ids)
    return codec.result_to(one.key, accepting.REFUSED, there, error)


def _named(actions: Iterable[codec.Action]) -> list[str]:
    """The ids of all that actions change, and of most that they name."""
    changes = [change for action in actions for change in action.changes]
    refs = [getattr(one.after, field, "") for one in changes for field in _NAMED]
    return [*(one.id for one in changes), *(ref for ref in refs if "_" in ref and is_asked(ref))]


def _read(told: Mapping[str, Any], number: int) -> _Sent:
    """Raises: InputError ARGUMENT_INVALID, where it has no key: nobody would know what a result is
    of.
    """
    try:
        action = codec.action_from(told, f"actions[{number}]")
    except CortexError as error:
        return _Sent(_key_of(told, number), _ids_in(told), error=error)
    return _Sent(action.key, [change.id for change in action.changes], action)


def _ids_in(told: Mapping[str, Any]) -> list[str]:
    """The ids that an action names that can't be read otherwise: whoever sent it takes over what
    these records say here.
    """
    payload = told.get("payload")
    changes = payload.get("changes") if isinstance(payload, dict) else None
    named = (
        [change.get("id") for change in changes if isinstance(change, dict)]
        if isinstance(changes, list)
        else []
    )
    return [one for one in named if isinstance(one, str) and is_asked(one)][:MOST_IDS]


def _key_of(told: Mapping[str, Any], number: int) -> str:
    key = told.get("idempotency_key")
    if not isinstance(key, str) or not key:
        place = f"actions[{number}].idempotency_key"
        raise InputError("ARGUMENT_INVALID", f"`{place}`: is required", context={"field": place})
    return key
