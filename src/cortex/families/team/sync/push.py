"""What waits in a home is sent to its Core, in order, and what the Core says of each entry is kept.

An entry goes in the transaction that keeps the Core's records, or marks it as refused; what tells
the person of a refusal is written before that (`alerts.py`). Where this ends before an answer, the
entries wait and are sent again: the Core knows their keys and does nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from cortex.base.errors import CortexError
from cortex.engine.store import OutboxEntry, VersionedRecord
from cortex.engine.store.records.outbox import UPLOAD
from cortex.families.team.sync import alerts, rejections, slug_conflicts, state
from cortex.families.team.sync.client import REFUSED, RETRY, ActionResult, Oversized, ServerRejected
from cortex.families.team.sync.run_context import SyncSession, now
from cortex.families.team.wire.codec import Told, action_to
from cortex.families.team.writes.preflight import texts_of
from cortex.plugins.policy import policy_of

BATCH = 50  # entries of one flush
BATCH_BYTES = 4 << 20
UNTAKEN = frozenset((400, 413, 422))  # what a Core answers to an entry that it can't even read
RESENT_MS = 7 * 86_400_000  # that others may still send again what a Core has lost
# A write is refused for what it names
MISSING = frozenset(("TARGET_NOT_FOUND", "SCOPE_NOT_FOUND", "RECORD_UNKNOWN"))


class Sending:
    """The sending of a sync."""

    def __init__(self, border: SyncSession) -> None:
        self._border, self._tally = border, border.tally
        self._library, self._remote, self._outbox = (
            border.library,
            border.remote,
            border.store.outbox,
        )
        self._most = BATCH
        # Refused entries that may be taken yet, by the ids in them
        self._hopes: dict[str, set[int]] | None = None
        # Entries that are sent once more, without anybody having asked for that
        self._tried: set[int] = set()
        # Entries that were refused in this sync, and not taken after all
        self._refused: set[int] = set()
        self._judged: set[int] = set()  # entries that plugins let go
        self._unsent = False  # whether something of an upload was taken that hadn't been before

    def hear(self, came: set[str]) -> bool:
        """Have sent once more what was refused for something that the Core didn't have, or show,
        and now has; so, too, what it took before it was put back, where others may have sent again
        what that builds on. Tells whether there is something.

        To be called before what came is kept: wherever this ends, it comes again.
        """
        if self._hopes is None:
            self._hopes = {}
            for one in self._outbox.refused():
                self._hope(one, one.code)
        ids = sorted({number for name in came for number in self._hopes.pop(name, ())})
        self._tried.update(ids)
        return bool(ids and self._outbox.retry(ids))

    def _hope(self, entry: OutboxEntry, code: str) -> None:
        """Know of a refused entry what it may be sent once more for."""
        if self._hopes is not None and (code in MISSING or (entry.taken and self._is_young())):
            for name in rejections.named(entry):
                self._hopes.setdefault(name, set()).add(entry.id)

    def _is_young(self) -> bool:
        return now() - int(self._border.store.truth.get(state.RESENT) or 0) < RESENT_MS

    def flush(self) -> None:
        """Send what waits, in order, until nothing does or the Core wants some of it later.

        Raises: CortexError.
        """
        self._send()
        if self._unsent or self._outbox.count()[1]:
            alerts.tell_unsent(self._library)

    def _send(self) -> None:
        while (batch := self._batch()) and not self._tally.held:
            self._border.go_on()
            if (blocked := next(filter(None, map(self._blocked, batch)), None)) is not None:
                self._refuse(blocked[0], "SENSITIVE_BLOCKED", blocked[1], ())
                continue
            try:
                results = self._remote.flush([action for _, action in batch])
            except ServerRejected as error:
                self._send_less([entry for entry, _ in batch], error)
                continue
            except CortexError as error:
                self._outbox.tried(batch[0][0].id, error.message)
                raise
            self._tally.reached = True
            for (entry, _), result in zip(batch, results, strict=False):
                if not self._settle(entry, result):
                    break
            if self._tally.held:
                return
            if not results:
                self._hold(batch[0][0], "the Core says nothing of what was sent")

    def _blocked(self, sent: tuple[OutboxEntry, Told]) -> tuple[OutboxEntry, str] | None:
        """An entry that plugins don't let go, and why: what was written here before they were
        turned on.

        Raises: ConfigError PLUGIN_UNUSABLE, where one can't be asked.
        """
        entry = sent[0]
        policy = policy_of(self._library)
        if policy is None or entry.action != UPLOAD or entry.taken or entry.id in self._judged:
            return None
        for change in entry.changes:
            for text in texts_of(change.after):
                found = policy.screen(text)
                if not found.allowed or found.text != text:
                    why = (
                        found.reason
                        or "a plugin would leave something out of it: edit it, and try again"
                    )
                    return entry, f"{change.id} was not sent: {why}"
        self._judged.add(entry.id)
        return None

    # -- what is told
    # --------------------------------------------------------------------------------------------------

    def _batch(self) -> list[tuple[OutboxEntry, Told]]:
        """The next entries, as they are told.

        What was there before goes alone: refused as a whole, it is sent in parts.

        Nothing follows a new subcortex before it is taken: it may have to get another slug, and
        then the old one means another.
        """
        batch: list[tuple[OutboxEntry, Told]] = []
        size = 0
        for entry in self._next():
            told = action_to(
                entry, _key(entry), [self._border.outward(change) for change in entry.changes]
            )
            size += len(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace"))
            if batch and (size > BATCH_BYTES or rejections.is_divisible(entry)):
                break
            batch.append((entry, told))
            if any(one.kind == "subcortex" and one.before is None for one in entry.changes):
                break
        return batch

    def _next(self) -> list[OutboxEntry]:
        """The entries that may go together."""
        first = self._outbox.waiting(1)
        if not first or rejections.is_divisible(first[0]) or self._most == 1:
            return first
        return first + self._outbox.waiting(self._most - 1, first[0].id)

    def _send_less(self, batch: Sequence[OutboxEntry], error: ServerRejected) -> None:
        """Find out which entry the Core can't read; alone, it is refused.

        Raises: `error`, where it isn't about an entry.
        """
        if error.status not in UNTAKEN and not isinstance(error, Oversized):
            raise error
        self._tally.reached = True
        if len(batch) > 1:
            self._most = len(batch) // 2
            return
        there = self._now_at_core(batch[0])
        self._refuse(batch[0], error.said or error.code, error.message, self._border.inward(there))
        told = {one.record.id for one in there}
        # A page may have passed it by
        if any(change.before is not None and change.id not in told for change in batch[0].changes):
            self._border.begin_again({}, resend=False)
        self._most = BATCH

    def _now_at_core(self, entry: OutboxEntry) -> Sequence[VersionedRecord]:
        """What the Core has of the records of an entry that it can't read: a refusal tells that,
        and of ids it reads at least those, as far as they aren't too many.
        """
        told: Told = {
            "idempotency_key": _key(entry),
            "action": entry.action,
            "payload": {"changes": [{"id": change.id} for change in entry.changes]},
        }
        try:
            results = self._remote.flush([told])
        except ServerRejected:  # it can't read that either
            return ()
        return results[0].records if results and results[0].status == REFUSED else ()

    # -- what became of it
    # ---------------------------------------------------------------------------------------------

    def _settle(self, entry: OutboxEntry, result: ActionResult) -> bool:
        """Keep what became of an entry; false where the answer ends with it."""
        if result.status == RETRY:
            self._hold(entry, result.message or "the Core wants it later")
            return False
        if result.status != REFUSED:
            self._take(entry, self._border.inward(result.records))
        elif result.field == "slug" and slug_conflicts.give_another(self._library, entry):
            return False
        else:
            entry = self._without_the_rest(entry, result)
            self._refuse(
                entry, result.code or "REFUSED", result.message, self._border.inward(result.records)
            )
        return True

    def _without_the_rest(self, entry: OutboxEntry, result: ActionResult) -> OutboxEntry:
        """Reduce an entry to the fields that somebody else changed, too; the rest is sent next."""
        fields = (
            rejections.clashing_fields(entry, result.clashes)
            if result.code == rejections.CONFLICT
            else frozenset()
        )
        return self._outbox.part(entry.id, fields) if fields else entry

    def _take(self, entry: OutboxEntry, records: Sequence[VersionedRecord]) -> None:
        """Be done with an entry that the Core took; what of it isn't shown here, as a notification
        for others, doesn't stay.
        """
        if entry.attempts and rejections.is_told_together(entry):
            self._unsent = True
        elif entry.attempts:
            alerts.take_back(self._library, entry)
        shown = {record.record.id for record in records}
        hidden = [change for change in entry.changes if change.id not in shown]
        late = entry.attempts or entry.taken  # else what it changes was there all the time
        self.hear(
            shown
            if late
            else shown.intersection(one.id for one in entry.changes if one.before is None)
        )
        self._border.apply(records, [one.id for one in hidden], settle=entry.id)
        # Of which there is something to forget
        self._tally.erased += sum(one.kind != "notification" for one in hidden)
        self._tally.flushed += len(entry.changes) if entry.action == UPLOAD else 1
        self._refused.discard(entry.id)
        self._tally.refused = len(self._refused)

    def _hold(self, entry: OutboxEntry, why: str) -> None:
        self._outbox.tried(entry.id, why)
        self._tally.held = why

    def _refuse(
        self, entry: OutboxEntry, code: str, message: str, records: Sequence[VersionedRecord]
    ) -> None:
        """Keep what the Core didn't take where the person sees it, and take over what it has
        instead.

        What was made together with a change that isn't taken would tell of something that never
        happened; it stays in the entry. What was taken once did happen.
        """
        if rejections.is_divisible(entry):
            self._outbox.split(entry.id)
            return
        if not rejections.is_told_together(entry):
            alerts.tell_refused(self._library, entry, code, message)
        there = {record.record.id for record in records}
        untrue = (
            []
            if rejections.makes(entry) or entry.taken
            else [change for change in entry.changes if change.before is None]
        )
        erased = [one.id for one in untrue if one.id not in there]
        self._border.apply(records, erased, settle=entry.id, refuse=(code, message))
        self._hope(entry, code)
        self._tally.forgets |= any(
            one.kind != "notification" and one.id in erased for one in untrue
        )
        self._refused |= {entry.id} - self._tried  # which were told before
        self._tally.refused = len(self._refused)


def _key(entry: OutboxEntry) -> str:
    """The key of an entry at the Core, where several homes of one person meet."""
    return f"{entry.key}/{entry.actor}"
