"""One sync of a home with its Core: push the outbox, then pull the change feed.

Only one sync runs at a time on a machine (`sync.lock`). It may stop at any point, and the next one
continues, because each response is stored in one transaction with the state that it settles:

* Before the response to a flush: the entries stay in the outbox and are sent again. The Core knows
  their idempotency keys and applies nothing twice.
* While a response is processed: each entry leaves the outbox in the transaction that stores the
  Core's records or marks the entry as refused; the rest of the response is requested again. The
  alert about a rejection is written before that (`alerts.py`).
* Between pages: a page and its cursor are one transaction. Records of a repeated page are ignored
  if they are older than the local ones.
* In a resync: its mark stays until everything was compared. Comparing is idempotent.
* A concurrent local write: responses and pages don't overwrite records with waiting outbox entries.
  Their own flush brings the Core's version.
* A concurrent disconnect, or a connection to another Core: a transaction writes nothing unless the
  home still has the connection that this sync began with.

A ledger that was restored from a backup is detected before anything is sent, since waiting entries
may depend on changes that it lost. All entries that it once accepted are sent again first, under
the same keys, and it applies the lost ones. An entry that depends on a change which other homes
still have to send again is refused at first, and retried for some days as changes arrive. The
token's principal is checked before anything is compared. Clocks only limit how long something is
kept or retried. Road not taken: push notifications; a poll costs a millisecond and needs no open
connection.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cortex.base.errors import Cancelled, CortexError, LimitError
from cortex.base.runtime.file_lock import exclusive_lock
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.families.team.sync import state
from cortex.families.team.sync.client import AccessRevoked, Denied, Offline, Remote
from cortex.families.team.sync.pull import FeedPull
from cortex.families.team.sync.push import OutboxPush
from cortex.families.team.sync.run_context import SyncSession, now

LOCK = "sync.lock"
# Time to wait for the sync of another process.
TURN_SECONDS = 120.0
# Records erased in one transaction.
ERASED_AT_ONCE = 500
BUSY = "Try again in a moment: the other process sends and fetches everything, too."
OK, PARTIAL, FAILED, OFFLINE = "ok", "partial", "failed", "offline"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """Outcome of a sync."""

    # `PARTIAL` if the Core was reached, but refused or deferred some entries.
    status: str
    # Accepted entries; an upload counts its records.
    flushed: int = 0
    refused: int = 0
    # Entries that are in the outbox now.
    waiting: int = 0
    # Records that are new or changed here.
    pulled: int = 0
    erased: int = 0
    error: str = ""
    # Seconds, as requested by the Core.
    retry_after: float = 0.0
    # Suggestions for the error, and its code.
    advice: tuple[str, ...] = ()
    code: str = ""


def sync(library: Library, remote: Remote, *, cancel: Cancel | None = None) -> SyncOutcome:
    """Push and pull as far as possible; failures are in the outcome. Raises: Cancelled."""
    cancel = Cancel() if cancel is None else cancel
    with exclusive_lock(
        str(library.settings.home / LOCK), TURN_SECONDS, lambda: bool(cancel)
    ) as acquired:
        if cancel:
            raise Cancelled
        # The connection only changes under this lock.
        session = SyncSession(library, remote, cancel)
        if not acquired:
            return _outcome(
                session,
                LimitError("INDEX_BUSY", "another process is syncing this home", instead=(BUSY,)),
            )
        failure: CortexError | None = None
        try:
            _run(session)
        except Cancelled:
            raise
        except CortexError as error:
            # A cancel closes the connections, which fails the pending request.
            if cancel:
                raise Cancelled from error
            failure = (
                _erase_after_revocation(session, error)
                if isinstance(error, AccessRevoked)
                else error
            )
        outcome = _outcome(session, failure)
        _store_status(session, outcome, complete=failure is None)
    return outcome


@contextmanager
def sync_lock(
    library: Library, undone: str, *, instead: tuple[str, ...] = (), cancel: Cancel | None = None
) -> Iterator[None]:
    """Keep a home from syncing; `undone` ends the message of the error if the lock isn't free.

    Raises: LimitError INDEX_BUSY; Cancelled.
    """
    path = str(library.settings.home / LOCK)
    with exclusive_lock(path, TURN_SECONDS, lambda: bool(cancel)) as acquired:
        if not acquired and cancel:
            raise Cancelled
        if not acquired:
            message = f"another process is syncing this home; {undone}"
            raise LimitError("INDEX_BUSY", message, instead=instead)
        yield


def _run(session: SyncSession) -> None:
    """Push, then pull. Raises: CortexError."""
    session.check_connected()
    state.keep_device(session.library)
    push = OutboxPush(session)
    pull = FeedPull(session, push.requeue_dependents)
    pull.catch_up()
    _exchange(session, push, pull)
    # The pull may queue entries again, such as those that a restored ledger has lost.
    if session.tally.queued:
        _exchange(session, push, pull)


def _erase_after_revocation(session: SyncSession, error: AccessRevoked) -> CortexError:
    """Erase the Core's records from this machine after it revoked the person's access.

    Nothing is erased unless the response names this home's epoch and principal and arrived over a
    trusted connection: another server doesn't know the epoch, the token may be another person's,
    and over http:// a third party could forge the response.
    """
    if not error.epoch or error.epoch != session.store.content.get(state.EPOCH):
        return error
    name = session.expected[state.NAME]
    if error.name != name:
        owner = f"{error.name}, who was revoked" if error.name else "a person who was revoked"
        return Denied(
            "CORE_DENIED", f"the token belongs to {owner}, this home to {name}; nothing was changed"
        )
    if not error.trusted:
        return Denied(
            "CORE_DENIED",
            f"{error.message}; over http:// that can't be trusted, so nothing was changed",
        )
    count = 0
    try:
        ids = sorted(session.store.outbox.known())
        for start in range(0, len(ids), ERASED_AT_ONCE):
            part = ids[start : start + ERASED_AT_ONCE]
            session.apply((), part)
            count += len(part)
        session.begin_again({state.EPOCH: error.epoch}, resend=False)
    except CortexError as failed:
        return failed
    finally:
        # Also after a partial failure: the indexes must drop the erased records.
        session.tally.erased += count
    gone = (
        f"{count:,} of the Core's records were erased from this machine"
        if count
        else "none of the Core's records are on this machine"
    )
    advice = (
        "What you wrote and never sent stays here. If this was a mistake, ask for access again, "
        "then run `cortex sync`."
    )
    snapshots = (
        "Earlier snapshots still hold the erased records: `cortex backup list` shows the files; "
        "delete them, or wait until newer ones replace them."
    )
    return Denied("CORE_DENIED", f"{error.message}; {gone}", instead=(advice, snapshots))


def _exchange(session: SyncSession, push: OutboxPush, pull: FeedPull) -> None:
    session.tally.queued = False
    push.flush()
    pull.pull()


def _outcome(session: SyncSession, error: CortexError | None) -> SyncOutcome:
    """Build the outcome from the tally and the error."""
    tally = session.tally
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
        session.store.outbox.count()[0],
        tally.pulled,
        tally.erased,
        error.message if error else tally.held,
        error.retry_after if isinstance(error, Offline) else 0.0,
        error.suggestions if error else (),
        error.code if error else "",
    )


def _store_status(session: SyncSession, outcome: SyncOutcome, *, complete: bool) -> None:
    """Store the status of this sync and update the search indexes."""
    facts = {state.ERROR: outcome.error, state.CODE: outcome.code} | (
        {state.SYNCED: str(now())} if complete else {}
    )
    try:
        session.overwritten.alert()
        session.store.content.set(facts)
    # For example a full disk, which the outcome reports as well.
    except CortexError as error:
        log.warning("could not store the status of the sync: %s", error.message)
    tally = session.tally
    forgets = bool(tally.erased) or tally.forgets
    if tally.copied or tally.flushed or forgets:
        session.library.follow(forget=forgets)
