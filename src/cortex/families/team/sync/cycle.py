"""One sync of a home with its Core: send what waits (`sending`), then take over what changed
(`fetching`).

Only one runs at a time on a machine (`sync.lock`). It may end at any moment, and the next one goes
on, because whatever was learnt of the Core is kept in one transaction with what it settles:

* before an answer to a flush: the entries wait, and are sent again; the Core knows their keys and does nothing twice.
* between an answer and its end: each entry goes in the transaction that keeps the Core's records, or marks it as refused; the rest of
  the answer is asked for again. What tells the person of a refusal is written before that (`alerts.py`).
* between pages: a page and its cursor are one transaction; a page that comes twice is left alone where it is older.
* in a resync: the mark of it stays until everything was compared. Comparing twice is comparing once.
* after a write of somebody else meanwhile: what waits to be sent isn't overwritten, neither by answers nor by pages; its own flush
  brings what the Core made of it.
* after somebody left that Core, or joined another one: nothing is written that belongs to another connection than this sync began with.

A ledger that was put back from a backup is noticed before anything is sent, since what waits may
build on what it has lost: all that it once took is sent again first, under the same keys, and it
takes what it has lost. What builds on something that others still have to send again is refused at
first, and tried when that comes, for some days. Whose token it is, is asked before anything is
compared. Clocks only say how long something is kept, or tried. Road not taken: pushed notices; a
question that costs a millisecond is enough, and needs no connection to hold.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from cortex.base.errors import Cancelled, CortexError, LimitError
from cortex.base.runtime.file_lock import turn
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.families.team.sync import state
from cortex.families.team.sync.client import Denied, Offline, PutOut, Remote
from cortex.families.team.sync.pull import Fetching
from cortex.families.team.sync.push import Sending
from cortex.families.team.sync.run_context import SyncSession, now

LOCK = "sync.lock"
TURN_SECONDS = 120.0  # that somebody waits for the sync of another process
ERASED_AT_ONCE = 500  # records
BUSY = "Try again in a moment: the other one sends and fetches everything, too."
OK, PARTIAL, FAILED, OFFLINE = "ok", "partial", "failed", "offline"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """What came of a sync. Partial: the Core was reached, and didn't take something, or not yet."""

    status: str
    flushed: int = 0  # entries; of an upload its records
    refused: int = 0
    waiting: int = 0  # now
    pulled: int = 0  # records that are new here, or read otherwise now
    erased: int = 0
    error: str = ""
    retry_after: float = 0.0  # seconds that the Core asks for
    advice: tuple[str, ...] = ()  # what can be done about the error
    code: str = ""  # of the error


def sync(library: Library, remote: Remote, *, cancel: Cancel | None = None) -> SyncOutcome:
    """Bring a home and its Core together, as far as that is possible now. Raises: Cancelled."""
    cancel = Cancel() if cancel is None else cancel
    with turn(str(library.settings.home / LOCK), TURN_SECONDS, lambda: bool(cancel)) as mine:
        if cancel:
            raise Cancelled
        # How it is connected is only changed in such a turn
        border = SyncSession(library, remote, cancel)
        if not mine:
            return _outcome(
                border,
                LimitError("INDEX_BUSY", "another process is syncing this home", instead=(BUSY,)),
            )
        failure: CortexError | None = None
        try:
            _go(border)
        except Cancelled:
            raise
        except CortexError as error:
            if cancel:  # its connections were closed
                raise Cancelled from error
            failure = _left(border, error) if isinstance(error, PutOut) else error
        outcome = _outcome(border, failure)
        _remember(border, outcome, complete=failure is None)
    return outcome


def _go(border: SyncSession) -> None:
    """Send, then take over. Raises: CortexError."""
    border.check_connected()
    state.keep_device(border.library)
    sending = Sending(border)
    fetching = Fetching(border, sending.hear)
    fetching.catch_up()
    _exchange(border, sending, fetching)
    if border.tally.queued:  # what a ledger has lost that was put back
        _exchange(border, sending, fetching)


def _left(border: SyncSession, error: PutOut) -> CortexError:
    """Have what the Core had leave this machine, where the Core that this home belongs to has put
    its person out.

    Another server doesn't know the epoch, an error of the network says nothing of it, a token may
    be of another person, and over http:// anybody between may say so: then everything stays.
    """
    if not error.epoch or error.epoch != border.store.truth.get(state.EPOCH):
        return error
    name = border.expected[state.NAME]
    if error.name != name:
        whose = f"of {error.name}, who was put out" if error.name else "of somebody who was put out"
        return Denied(
            "CORE_DENIED", f"the token is {whose}, and this home of {name}; nothing was changed"
        )
    if not error.trusted:
        return Denied(
            "CORE_DENIED", f"{error.message}; over http:// that isn't sure, and nothing was changed"
        )
    count = 0
    try:
        ids = sorted(border.store.outbox.known())
        for start in range(0, len(ids), ERASED_AT_ONCE):
            part = ids[start : start + ERASED_AT_ONCE]
            border.apply((), part)
            count += len(part)
        border.begin_again({state.EPOCH: error.epoch}, resend=False)
    except CortexError as failed:
        return failed
    finally:
        # Also where it stopped halfway: what is gone must be forgotten by the indexes.
        border.tally.erased += count
    gone = (
        f"{count:,} records of it left this machine"
        if count
        else "nothing of it is on this machine"
    )
    advice = "What you wrote and never sent stays here. Where it was a mistake, ask to be let in again, then `cortex sync`."
    snapshots = (
        "Snapshots of before hold what left: `cortex backup list` shows the files, delete them "
        "to be rid of it, else newer ones take their place."
    )
    return Denied("CORE_DENIED", f"{error.message}; {gone}", instead=(advice, snapshots))


def _exchange(border: SyncSession, sending: Sending, fetching: Fetching) -> None:
    border.tally.queued = False
    sending.flush()
    fetching.pull()


def _outcome(border: SyncSession, error: CortexError | None) -> SyncOutcome:
    """What came of it."""
    tally = border.tally
    if isinstance(error, Offline):
        status = PARTIAL if tally.reached else OFFLINE
    elif error is not None:
        status = FAILED
    else:
        status = PARTIAL if tally.refused or tally.held else OK
    return SyncOutcome(
        status,
        tally.flushed,
        tally.refused,
        border.store.outbox.count()[0],
        tally.pulled,
        tally.erased,
        error.message if error else tally.held,
        error.retry_after if isinstance(error, Offline) else 0.0,
        error.suggestions if error else (),
        error.code if error else "",
    )


def _remember(border: SyncSession, outcome: SyncOutcome, *, complete: bool) -> None:
    """Keep what status tells, and have everything found."""
    facts = {state.ERROR: outcome.error, state.CODE: outcome.code} | (
        {state.SYNCED: str(now())} if complete else {}
    )
    try:
        border.replaced.tell()
        border.store.truth.set(facts)
    except CortexError as error:  # a full disk: the outcome says so, too
        log.warning("what came of the sync couldn't be kept: %s", error.message)
    tally = border.tally
    forgets = bool(tally.erased) or tally.forgets
    if tally.copied or tally.flushed or forgets:
        border.library.follow(forget=forgets)
