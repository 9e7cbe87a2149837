"""What changed at a Core is taken over by a home, page after page; and everything is compared where
the two can't go on from where they were.

A page and its cursor are one transaction, and one that comes twice is left alone where it is older.
The mark of a resync stays until everything was compared: comparing twice is comparing once.
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

PAGE = 500  # records of one pull
RESYNCS = 3  # in one sync: who is asked to begin anew again and again gives up for now

log = logging.getLogger(__name__)


class Fetching:
    """The fetching of a sync."""

    def __init__(self, border: SyncSession, hear: Callable[[set[str]], bool]) -> None:
        """`hear` is told which ids a page brings, before they are kept, and tells whether something
        is to be sent because of that.
        """
        self._border, self._tally = border, border.tally
        self._remote, self._store = border.remote, border.store
        self._hear = hear

    def catch_up(self) -> None:
        """Compare everything before something is sent, where the Core doesn't go on from where this
        home stands. Raises: CortexError.
        """
        if self._store.truth.get(state.RESYNC):
            self._border.check_principal()
            self.pull()
        elif not self._is_current():
            self.pull()

    def pull(self) -> None:
        """Take over all that changed. Raises: CortexError."""
        for _ in range(RESYNCS):
            try:
                self._pages()
                self._compare()
            except Resync as again:
                self._begin_again(again)
            else:
                return
        raise Offline(
            f"the Core at {self._remote.url} wants everything to be compared again and again"
        )

    def _is_current(self) -> bool:
        """Whether the Core goes on from where this home stands; else everything is compared before
        something is sent.
        """
        facts = self._store.truth
        cursor = facts.get(state.CURSOR)
        try:
            if not cursor:
                self._check_history(self._border.check_principal())
            elif self._store.outbox.waiting(1):
                self._remote.deltas(cursor, facts.get(state.VIEW), limit=1)
                self._tally.reached = True
        except Resync as again:
            self._begin_again(again)
            return False
        return True

    def _check_history(self, epoch: str) -> None:
        """Raises: Resync, where a home that has no cursor yet was connected to another ledger."""
        if self._store.truth.get(state.EPOCH) not in ("", epoch):
            raise Resync("epoch")

    def _pages(self) -> None:
        """Take over page after page, each with its cursor."""
        facts, library = self._store.truth, self._border.library
        while True:
            self._border.go_on()
            since, view = facts.get(state.CURSOR), facts.get(state.VIEW)
            page = self._remote.deltas(since, view, PAGE)
            self._tally.reached = True
            if page.records or page.invalidations or page.cursor != since or page.view != view:
                self._take(page)
            if not page.more:
                return
            if page.cursor == since:
                raise Offline(f"the Core at {self._remote.url} tells the same page again and again")
            if library.holds():  # else whoever keeps the library does, and is waited for once
                library.follow()

    def _take(self, page: ChangePage) -> None:
        """Take over a page with its cursor."""
        after = {state.CURSOR: page.cursor, state.EPOCH: page.epoch, state.VIEW: page.view}
        news = self._border.inward(self._news(page.records))
        here = self._store.recorded.get([one.record.id for one in news])
        is_compared = any(here.get(one.record.id) == one.record for one in news)
        self._tally.queued = self._hear({one.record.id for one in news}) or self._tally.queued
        copied = self._border.apply(news, page.invalidations, facts=after)
        self._tally.copied += copied
        self._tally.pulled += self._changed(here, news) if is_compared else copied
        self._tally.erased += len(page.invalidations)

    def _changed(self, before: Mapping[str, Record[Any]], news: Sequence[VersionedRecord]) -> int:
        """How many of these are something else here now."""
        now = self._store.recorded.get([one.record.id for one in news])
        return sum(before.get(number) != record for number, record in now.items())

    def _news(self, records: Sequence[VersionedRecord]) -> list[VersionedRecord]:
        """Without what came already, mostly in answer to what was sent."""
        known = self._store.outbox.known([one.record.id for one in records])
        return [
            record
            for record in records
            if known.get(record.record.id) != (record.record.version, record.change)
        ]

    def _begin_again(self, again: Resync) -> None:
        """Have everything compared from the beginning; a ledger with another history gets all that
        it once took again.
        """
        self._border.check_principal()
        log.debug("everything is compared with the Core: %s", again.reason)
        resend = again.reason != "view"
        facts = {state.RESENT: str(now())} if resend else {}
        self._tally.queued = (
            self._border.begin_again(facts, resend=resend) > 0 or self._tally.queued
        )

    def _compare(self) -> None:
        """End a resync: what may no longer be seen goes, what the Core has lost and was written
        here is sent again.

        What it has lost and others wrote stays: theirs may be the machine that was lost, too. What
        the pages have told is there.
        """
        if not self._store.truth.get(state.RESYNC):
            return
        ids = [number for number, (_, change) in self._store.outbox.known().items() if change <= 0]
        lost: list[str] = []
        for start in range(0, len(ids), MOST_IDS):
            self._border.go_on()
            part = ids[start : start + MOST_IDS]
            visible, unknown = self._remote.visible(part)
            here = self._store.recorded.get(part)
            own = [
                number
                for number, one in here.items()
                if number in unknown and one.author in (PERSON, AGENT)
            ]
            gone = [number for number in part if number not in visible and number not in unknown]
            if gone:
                self._border.apply((), gone)
            self._tally.erased += len(gone)
            lost += own
        if lost:  # all at once: what was made first goes first
            epoch = self._store.truth.get(state.EPOCH)
            self._tally.queued = (
                self._store.outbox.queue(lost, person(COMMAND), epoch) > 0 or self._tally.queued
            )
        self._border.apply((), facts={state.RESYNC: ""})
