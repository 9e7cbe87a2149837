"""One sync of a home with its Core: send what waits, then take over what changed; and when the next one is due.

Only one runs at a time on a machine (`sync.lock`). It may end at any moment, and the next one goes on, because whatever was learnt of
the Core is kept in one transaction with what it settles:

* before an answer to a flush: the entries wait, and are sent again; the Core knows their keys and does nothing twice.
* between an answer and its end: each entry goes in the transaction that keeps the Core's records, or marks it as refused; the rest of
  the answer is asked for again. What tells the person of a refusal is written before that (`alerts.py`).
* between pages: a page and its cursor are one transaction; a page that comes twice is left alone where it is older.
* in a resync: the mark of it stays until everything was compared. Comparing twice is comparing once.
* after a write of somebody else meanwhile: what waits to be sent isn't overwritten, neither by answers nor by pages; its own flush
  brings what the Core made of it.
* after somebody left that Core, or joined another one: nothing is written that belongs to another connection than this sync began with.

A ledger that was put back from a backup is noticed before anything is sent, since what waits may build on what it has lost: all that it
once took is sent again first, under the same keys, and it takes what it has lost. What builds on something that others still have to send
again is refused at first, and tried with each sync for some days. Whose token it is, is asked before anything is compared. No clock
decides anything else. Road not taken: pushed notices; a question that costs a millisecond is enough, and needs no connection to hold.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cortex.errors import Cancelled, ConfigError, CortexError, LimitError
from cortex.library import Library
from cortex.locks import turn
from cortex.records.rights import AGENT, PERSON, person
from cortex.records.wording import wording
from cortex.store import Changed, Entry, Kept
from cortex.store.outbox import UPLOAD, UPLOADED
from cortex.sync import alerts, names, places, refusals, slugs, state
from cortex.sync.remote import MOST_IDS, REFUSED, RETRY, Denied, Offline, Oversized, Refused, Remote, Result, Resync
from cortex.sync.wire import Told, action_to
from cortex.types import Cancel

LOCK = "sync.lock"
TURN_SECONDS = 120.0  # that somebody waits for the sync of another process
BUSY = "Try again in a moment: the other one sends and fetches everything, too."
BATCH = 50  # entries of one flush
BATCH_BYTES = 4 << 20
PAGE = 500  # records of one pull
RESYNCS = 3  # in one sync: who is asked to begin anew again and again gives up for now
UNTAKEN = frozenset((400, 413, 422))  # what a Core answers to an entry that it can't even read
MISSING = frozenset(
    ("TARGET_NOT_FOUND", "SCOPE_NOT_FOUND", "RECORD_UNKNOWN")
)  # why a write is refused for what it names
RESENT_MS = 7 * 86_400_000  # that what was sent again is tried, while others may have to send what it builds on

_FROM_THE_START = {state.CURSOR: "", state.VIEW: "", state.EPOCH: "", state.RESYNC: "1"}
OK, PARTIAL, FAILED, OFFLINE = "ok", "partial", "failed", "offline"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a sync. Partial: the Core was reached, and didn't take something, or not yet."""

    status: str
    flushed: int = 0  # entries
    refused: int = 0
    waiting: int = 0  # now
    pulled: int = 0  # records that are new here, or read otherwise now
    erased: int = 0
    error: str = ""
    retry_after: float = 0.0  # seconds that the Core asks for
    advice: tuple[str, ...] = ()  # what can be done about the error


def sync(library: Library, remote: Remote, *, cancel: Cancel | None = None) -> Outcome:
    """Bring a home and its Core together, as far as that is possible now. Raises: Cancelled."""
    cancel = Cancel() if cancel is None else cancel
    with turn(str(library.settings.home / LOCK), TURN_SECONDS, lambda: bool(cancel)) as mine:
        _check(cancel)
        run = _Run(library, remote, cancel)  # how it is connected is only changed in such a turn
        if not mine:
            return run.outcome(LimitError("INDEX_BUSY", "another process is syncing this home", instead=(BUSY,)))
        try:
            run.go()
        except Cancelled:
            raise
        except CortexError as error:
            outcome = run.outcome(error)
        else:
            outcome = run.outcome(None)
        run.remember(outcome)
    return outcome


class _Run:
    """A sync under way."""

    def __init__(self, library: Library, remote: Remote, cancel: Cancel) -> None:
        self._library, self._remote, self._cancel = library, remote, cancel
        self._store = library.store
        self._wording = wording(library.settings)
        self._expected = {fact: self._store.truth.get(fact) for fact in (state.URL, state.NAME, UPLOADED)}
        principal = self._expected[state.NAME]
        self._outward, self._inward = names.outward(principal), names.inward(principal)
        self._most = BATCH
        self._flushed = self._refused = self._pulled = self._copied = self._erased = 0
        self._reached = self._complete = False
        self._queued = False  # whether something is to be sent again
        self._unsent = False  # whether something of an upload was taken that hadn't been before
        self._came: set[str] = set()  # ids that pages brought
        self._held = ""  # why the Core took something not yet

    def go(self) -> None:
        """Send, then take over. Raises: CortexError."""
        if self._expected[state.URL] != self._remote.url:
            raise ConfigError("CORE_MISSING", "this home is not connected to that Core; nothing was sent or fetched")
        state.keep_device(self._library)
        self._try_again()
        if self._store.truth.get(state.RESYNC):
            self._check_principal()
            self._pull()
        elif not self._is_current():
            self._pull()
        self._exchange()
        if self._queued:  # what a ledger has lost that was put back
            self._exchange()
        self._complete = True

    def _exchange(self) -> None:
        self._queued = False
        self._flush()
        if self._unsent or self._store.outbox.count()[1]:
            alerts.tell_unsent(self._library)
        self._pull()
        self._try_what_came()

    def outcome(self, error: CortexError | None) -> Outcome:
        """What came of it."""
        if isinstance(error, Offline):
            status = PARTIAL if self._reached else OFFLINE
        elif error is not None:
            status = FAILED
        else:
            status = PARTIAL if self._refused or self._held else OK
        return Outcome(
            status,
            self._flushed,
            self._refused,
            self._store.outbox.count()[0],
            self._pulled,
            self._erased,
            error.message if error else self._held,
            error.retry_after if isinstance(error, Offline) else 0.0,
            error.suggestions if error else (),
        )

    def remember(self, outcome: Outcome) -> None:
        """Keep what status tells, and have everything found."""
        facts = {state.ERROR: outcome.error} | ({state.SYNCED: str(_now())} if self._complete else {})
        try:
            self._store.truth.set(facts)
        except CortexError as error:  # a full disk: the outcome says so, too
            log.warning("what came of the sync couldn't be kept: %s", error.message)
        if self._copied or self._flushed or self._erased:
            self._library.follow(forget=bool(self._erased))

    # -- sending -------------------------------------------------------------------------------------------------------

    def _try_again(self) -> None:
        """Have what was sent again, and refused, be tried once more: who has what it builds on may have synced since."""
        began = int(self._store.truth.get(state.RESENT) or 0)
        if began and _now() - began < RESENT_MS:
            self._store.outbox.retry([one.id for one in self._store.outbox.refused() if one.taken])

    def _try_what_came(self) -> None:
        """Have sent once more what was refused for something that the Core didn't have, or show, and now has come from there."""
        came, self._came = self._came, set[str]()
        refused = self._store.outbox.refused() if came else ()
        ids = [one.id for one in refused if one.code in MISSING and came & refusals.named(one)]
        self._queued = bool(ids and self._store.outbox.retry(ids)) or self._queued

    def _is_current(self) -> bool:
        """Whether the Core goes on from where this home stands; else everything is compared before something is sent."""
        facts = self._store.truth
        cursor = facts.get(state.CURSOR)
        try:
            if not cursor:
                self._check_history(self._check_principal())
            elif self._store.outbox.waiting(1):
                self._remote.deltas(cursor, facts.get(state.VIEW), limit=1)
                self._reached = True
        except Resync as again:
            self._begin_again(again)
            return False
        return True

    def _check_principal(self) -> str:
        """Gives which ledger it is. Raises: Denied, where the token is of somebody else than this home."""
        greeting, name = self._remote.bootstrap(), self._expected[state.NAME]
        self._reached = True
        if greeting.name != name:
            raise Denied(
                "CORE_DENIED", f"the token is of {greeting.name}, and this home of {name}; nothing was changed"
            )
        return greeting.epoch

    def _check_history(self, epoch: str) -> None:
        """Raises: Resync, where a home that has no cursor yet was connected to another ledger."""
        if self._store.truth.get(state.EPOCH) not in ("", epoch):
            raise Resync("epoch")

    def _flush(self) -> None:
        """Send what waits, in order, until nothing does or the Core wants some of it later."""
        while (batch := self._batch()) and not self._held:
            _check(self._cancel)
            try:
                results = self._remote.flush([action for _, action in batch])
            except Refused as error:
                self._send_less([entry for entry, _ in batch], error)
                continue
            except CortexError as error:
                self._store.outbox.tried(batch[0][0].id, error.message)
                raise
            self._reached = True
            for (entry, _), result in zip(batch, results, strict=False):
                if not self._settle(entry, result):
                    break
            if self._held:
                return
            if not results:
                self._hold(batch[0][0], "the Core says nothing of what was sent")

    def _batch(self) -> list[tuple[Entry, Told]]:
        """The next entries, as they are told. What was there before goes alone: refused as a whole, it is sent in parts.

        Nothing follows a new subcortex before it is taken: it may have to get another slug, and then the old one means another.
        """
        batch: list[tuple[Entry, Told]] = []
        size = 0
        for entry in self._next():
            told = action_to(entry, self._key(entry), [self._changed(one) for one in entry.changes])
            size += len(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace"))
            if batch and (size > BATCH_BYTES or entry.action == UPLOAD):
                break
            batch.append((entry, told))
            if any(one.kind == "subcortex" and one.before is None for one in entry.changes):
                break
        return batch

    def _next(self) -> list[Entry]:
        """The entries that may go together."""
        first = self._store.outbox.waiting(1)
        if not first or first[0].action == UPLOAD or self._most == 1:
            return first
        return first + self._store.outbox.waiting(self._most - 1, first[0].id)

    def _key(self, entry: Entry) -> str:
        """The key of an entry at the Core, where several homes of one person meet."""
        return f"{entry.key}/{entry.actor}"

    def _changed(self, one: Changed) -> Changed:
        """A change with the names of the Core, and without places of this machine."""
        told = names.renamed_changed(one, self._outward)
        return replace(told, before=places.unplaced(told.before), after=places.unplaced(told.after))

    def _send_less(self, batch: Sequence[Entry], error: Refused) -> None:
        """Find out which entry the Core can't read; alone, it is refused. Raises: `error`, where it isn't about an entry."""
        if error.status not in UNTAKEN and not isinstance(error, Oversized):
            raise error
        self._reached = True
        if len(batch) > 1:
            self._most = len(batch) // 2
            return
        there = self._now_at_core(batch[0])
        self._refuse(batch[0], error.said or error.code, error.message, self._told(there or ()))
        if there is None and any(one.before is not None for one in batch[0].changes):  # a page may have passed it by
            self._store.outbox.begin_again(_FROM_THE_START, self._expected, resend=False)
        self._most = BATCH

    def _now_at_core(self, entry: Entry) -> Sequence[Kept] | None:
        """What the Core has of the records of an entry that it can't read: a refusal tells that, and of ids it reads at least those.

        None, where it doesn't.
        """
        told: Told = {
            "idempotency_key": self._key(entry),
            "action": entry.action,
            "payload": {"changes": [{"id": one.id} for one in entry.changes]},
        }
        try:
            results = self._remote.flush([told])
        except Refused:  # it can't read that either
            return None
        return results[0].records if results and results[0].status == REFUSED else None

    def _settle(self, entry: Entry, result: Result) -> bool:
        """Keep what became of an entry; false where the answer ends with it."""
        if result.status == RETRY:
            self._hold(entry, result.message or "the Core wants it later")
            return False
        if result.status != REFUSED:
            self._take(entry, self._told(result.records))
        elif result.field == "slug" and slugs.give_another(self._library, entry):
            return False
        else:
            self._refuse(entry, result.code or "REFUSED", result.message, self._told(result.records))
        return True

    def _take(self, entry: Entry, records: Sequence[Kept]) -> None:
        """Be done with an entry that the Core took; what of it isn't shown here, as a notification for others, doesn't stay."""
        if entry.attempts and refusals.is_told_together(entry):
            self._unsent = True
        elif entry.attempts:
            alerts.take_back(self._library, entry)
        shown = {one.record.id for one in records}
        hidden = [one for one in entry.changes if one.id not in shown]
        self._apply(records, [one.id for one in hidden], settle=entry.id)
        self._erased += sum(one.kind != "notification" for one in hidden)  # of which there is something to forget
        self._flushed += 1

    def _hold(self, entry: Entry, why: str) -> None:
        self._store.outbox.tried(entry.id, why)
        self._held = why

    def _refuse(self, entry: Entry, code: str, message: str, records: Sequence[Kept]) -> None:
        """Keep what the Core didn't take where the person sees it, and take over what it has instead.

        What was made together with a change that isn't taken would tell of something that never happened; it stays in the entry. What
        was taken once did happen.
        """
        if entry.action == UPLOAD and len(entry.changes) > 1:
            self._store.outbox.split(entry.id)
            return
        if not refusals.is_told_together(entry):
            alerts.tell_refused(self._library, entry, code, message)
        there = {one.record.id for one in records}
        untrue = [] if refusals.makes(entry) or entry.taken else [one for one in entry.changes if one.before is None]
        erased = [one.id for one in untrue if one.id not in there]
        self._apply(records, erased, settle=entry.id, refuse=(code, message))
        self._erased += sum(one.kind != "notification" and one.id in erased for one in untrue)
        self._refused += 1

    # -- taking over ---------------------------------------------------------------------------------------------------

    def _pull(self) -> None:
        for _ in range(RESYNCS):
            try:
                self._pages()
                self._compare()
            except Resync as again:
                self._begin_again(again)
            else:
                return
        raise Offline(f"the Core at {self._remote.url} wants everything to be compared again and again")

    def _pages(self) -> None:
        """Take over page after page, each with its cursor."""
        facts = self._store.truth
        while True:
            _check(self._cancel)
            since, view = facts.get(state.CURSOR), facts.get(state.VIEW)
            page = self._remote.deltas(since, view, PAGE)
            self._reached = True
            after = {state.CURSOR: page.cursor, state.EPOCH: page.epoch, state.VIEW: page.view}
            if page.records or page.invalidations or after[state.CURSOR] != since or page.view != view:
                news = self._told(self._news(page.records))
                here = self._store.recorded.get([one.record.id for one in news])
                same = sum(here.get(one.record.id) == one.record for one in news)  # only compared
                copied = self._apply(news, page.invalidations, facts=after)
                self._copied += copied
                self._pulled += max(0, copied - same)
                self._came |= {one.record.id for one in news}
                self._erased += len(page.invalidations)
            if not page.more:
                return
            if page.cursor == since:
                raise Offline(f"the Core at {self._remote.url} tells the same page again and again")
            if self._library.holds():  # else whoever keeps the library does, and is waited for once
                self._library.follow()

    def _news(self, records: Sequence[Kept]) -> list[Kept]:
        """Without what came already, mostly in answer to what was sent."""
        known = self._store.outbox.known([one.record.id for one in records])
        return [one for one in records if known.get(one.record.id) != (one.record.version, one.change)]

    def _begin_again(self, again: Resync) -> None:
        """Have everything compared from the beginning; a ledger with another history gets all that it once took again."""
        self._check_principal()
        log.debug("everything is compared with the Core: %s", again.reason)
        facts = dict(_FROM_THE_START)
        resend = again.reason != "view"
        if resend:
            facts[state.RESENT] = str(_now())
        self._queued = self._store.outbox.begin_again(facts, self._expected, resend=resend) > 0 or self._queued

    def _compare(self) -> None:
        """End a resync: what may no longer be seen goes, what the Core has lost and was written here is sent again.

        What it has lost and others wrote stays: theirs may be the machine that was lost, too.
        """
        if not self._store.truth.get(state.RESYNC):
            return
        ids = list(self._store.outbox.known())
        lost: list[str] = []
        for start in range(0, len(ids), MOST_IDS):
            _check(self._cancel)
            part = ids[start : start + MOST_IDS]
            visible, unknown = self._remote.visible(part)
            here = self._store.recorded.get(part)
            own = [number for number, one in here.items() if number in unknown and one.author in (PERSON, AGENT)]
            gone = [number for number in part if number not in visible and number not in unknown]
            if gone:
                self._apply((), gone)
            self._erased += len(gone)
            lost += own
        if lost:  # all at once: what was made first goes first
            self._queued = (
                self._store.outbox.queue(lost, person(), self._store.truth.get(state.EPOCH)) > 0 or self._queued
            )
        self._apply((), facts={state.RESYNC: ""})

    def _told(self, records: Sequence[Kept]) -> list[Kept]:
        """Records of the Core, with the names of this home and the places of this machine."""
        linked = [one.record.id for one in records if getattr(one.record.body, "code_links", ())]
        here = self._store.recorded.get(linked) if linked else {}
        return [replace(one, record=places.placed(names.renamed(one.record, self._inward), here)) for one in records]

    def _apply(
        self,
        records: Sequence[Kept],
        erased: Sequence[str] = (),
        *,
        facts: dict[str, str] | None = None,
        settle: int | None = None,
        refuse: tuple[str, str] | None = None,
    ) -> int:
        return self._store.records.apply(
            records,
            erased,
            wording=self._wording,
            meta=facts or {},
            settle=settle,
            refuse=refuse,
            skip_waiting=True,
            expected=self._expected,
        )


def _check(cancel: Cancel) -> None:
    if cancel:
        raise Cancelled


def _now() -> int:
    return int(time.time() * 1000)
