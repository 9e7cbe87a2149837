"""Pull the Core's change feed page by page, and compare everything if the cursor is invalid.

A page and its cursor are one transaction; records of a repeated page are ignored if they are older
than the local ones. The mark of a resync stays until everything was compared, and comparing is
idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cortex.base.actors import AGENT, COMMAND, PERSON, person
from cortex.base.record_model import Record
from cortex.engine.store import VersionedRecord
from cortex.families.team.sync import state
from cortex.families.team.sync.client import MOST_IDS, ChangePage, Offline, Resync
from cortex.families.team.sync.run_context import SyncSession, now

PAGE = 500  # records per page
# Resyncs in one sync. A Core that keeps asking for another one is given up for now.
RESYNCS = 3

log = logging.getLogger(__name__)


class FeedPull:
    """Pull half of a sync."""

    def __init__(self, session: SyncSession, on_arrival: Callable[[set[str]], bool]) -> None:
        """`on_arrival` gets the ids of a page before it is stored.

        It returns true if they caused refused outbox entries to be queued again.
        """
        self._session, self._tally = session, session.tally
        self._remote, self._store = session.remote, session.store
        self._on_arrival = on_arrival

    def catch_up(self) -> None:
        """Pull before anything is sent if this home's cursor is no longer valid at the Core.

        Raises: CortexError.
        """
        if self._store.content.get(state.RESYNC):
            self._session.check_principal()
            self.pull()
        elif not self._is_current():
            self.pull()

    def pull(self) -> None:
        """Apply all changes since the cursor. Raises: CortexError."""
        for _ in range(RESYNCS):
            try:
                self._pull_pages()
                self._finish_resync()
            except Resync as resync:
                self._start_resync(resync)
            else:
                return
        raise Offline(
            f"the Core at {self._remote.url} wants everything to be compared again and again"
        )

    def _is_current(self) -> bool:
        """True if the Core accepts this home's cursor; otherwise start a resync."""
        facts = self._store.content
        cursor = facts.get(state.CURSOR)
        try:
            if not cursor:
                self._check_history(self._session.check_principal())
            elif self._store.outbox.waiting(1):
                self._remote.deltas(cursor, facts.get(state.VIEW), limit=1)
                self._tally.reached = True
        except Resync as resync:
            self._start_resync(resync)
            return False
        return True

    def _check_history(self, epoch: str) -> None:
        """Check the ledger of a home without a cursor. Raises: Resync if it is another one."""
        if self._store.content.get(state.EPOCH) not in ("", epoch):
            raise Resync("epoch")

    def _pull_pages(self) -> None:
        """Apply page after page, each with its cursor."""
        facts, library = self._store.content, self._session.library
        while True:
            self._session.check_cancelled()
            since, view = facts.get(state.CURSOR), facts.get(state.VIEW)
            page = self._remote.deltas(since, view, PAGE)
            self._tally.reached = True
            if page.records or page.invalidations or page.cursor != since or page.view != view:
                self._apply_page(page)
            if not page.more:
                return
            if page.cursor == since:
                raise Offline(f"the Core at {self._remote.url} sends the same page again and again")
            # If another process holds the library, that process indexes, and the end of the sync
            # waits for it once.
            if library.holds_lease():
                library.follow()

    def _apply_page(self, page: ChangePage) -> None:
        """Apply a page and its cursor in one transaction."""
        after = {state.CURSOR: page.cursor, state.EPOCH: page.epoch, state.VIEW: page.view}
        updates = self._session.inward(self._unseen(page.records))
        record_ids = [update.record.id for update in updates]
        here = self._store.records.get(record_ids)
        is_compared = any(here.get(update.record.id) == update.record for update in updates)
        self._tally.queued = self._on_arrival(set(record_ids)) or self._tally.queued
        copied = self._session.apply(updates, page.invalidations, facts=after)
        self._tally.copied += copied
        self._tally.pulled += self._count_changed(here, updates) if is_compared else copied
        self._tally.erased += len(page.invalidations)

    def _count_changed(
        self, before: Mapping[str, Record[Any]], updates: Sequence[VersionedRecord]
    ) -> int:
        """Count the records with a local state that differs from `before`."""
        now = self._store.records.get([update.record.id for update in updates])
        return sum(before.get(record_id) != record for record_id, record in now.items())

    def _unseen(self, records: Sequence[VersionedRecord]) -> list[VersionedRecord]:
        """Drop records that are already here, mostly from the response to a flush."""
        known = self._store.outbox.known([update.record.id for update in records])
        return [
            update
            for update in records
            if known.get(update.record.id) != (update.record.version, update.change)
        ]

    def _start_resync(self, resync: Resync) -> None:
        """Start a resync; a ledger with another history gets all accepted entries again."""
        self._session.check_principal()
        log.debug("everything is compared with the Core: %s", resync.reason)
        resend = resync.reason != "view"
        facts = {state.RESENT: str(now())} if resend else {}
        self._tally.queued = (
            self._session.begin_again(facts, resend=resend) > 0 or self._tally.queued
        )

    def _finish_resync(self) -> None:
        """End a resync: erase records that are no longer visible, and resend own lost ones.

        Lost records by other authors stay here, because their machine may be lost as well. Records
        that came with the pages need no check.
        """
        if not self._store.content.get(state.RESYNC):
            return
        known = self._store.outbox.known()
        ids = [record_id for record_id, (_, change) in known.items() if change <= 0]
        lost: list[str] = []
        for start in range(0, len(ids), MOST_IDS):
            self._session.check_cancelled()
            part = ids[start : start + MOST_IDS]
            visible, unknown = self._remote.visible(part)
            here = self._store.records.get(part)
            own = [
                record_id
                for record_id, record in here.items()
                if record_id in unknown and record.author in (PERSON, AGENT)
            ]
            gone = [
                record_id
                for record_id in part
                if record_id not in visible and record_id not in unknown
            ]
            if gone:
                self._session.apply((), gone)
            self._tally.erased += len(gone)
            lost += own
        # Queued together, so that the oldest record is sent first.
        if lost:
            epoch = self._store.content.get(state.EPOCH)
            self._tally.queued = (
                self._store.outbox.queue(lost, person(COMMAND), epoch) > 0 or self._tally.queued
            )
        self._session.apply((), facts={state.RESYNC: ""})
