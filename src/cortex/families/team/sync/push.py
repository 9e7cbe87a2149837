"""Push the outbox to the Core in order, and store the result of each entry.

An entry is settled in the transaction that stores the Core's records or marks it as refused; the
alert about a rejection is written before that (`alerts.py`). If the process ends before a response,
the entries stay and are sent again: the Core knows their idempotency keys and applies nothing
twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from cortex.base.errors import CortexError
from cortex.engine.store import OutboxEntry, VersionedRecord
from cortex.engine.store.records.outbox import UPLOAD
from cortex.families.team.sync import alerts, rejections, slug_conflicts, state
from cortex.families.team.sync.client import ActionResult, Oversized, ServerRejected
from cortex.families.team.sync.run_context import SyncSession, now
from cortex.families.team.wire.codec import REFUSED, RETRY, JsonObject, action_to
from cortex.families.team.writes.preflight import texts_of
from cortex.plugins.policy import policy_of

BATCH = 50  # entries per flush
BATCH_BYTES = 4 << 20
# Statuses of a Core that can't parse an entry.
UNTAKEN = frozenset((400, 413, 422))
# Time in which other homes may still resend changes that a restored Core has lost.
RESENT_MS = 7 * 86_400_000
# Codes of a rejection because the write refers to a record that the Core lacks or hides.
MISSING = frozenset(("TARGET_NOT_FOUND", "SCOPE_NOT_FOUND", "RECORD_UNKNOWN"))


class OutboxPush:
    """Push half of a sync."""

    def __init__(self, session: SyncSession) -> None:
        self._session, self._tally = session, session.tally
        self._library, self._remote, self._outbox = (
            session.library,
            session.remote,
            session.store.outbox,
        )
        self._batch_limit = BATCH
        # Refused entries that may be accepted later, by the record ids in them. Loaded when needed.
        self._retryable: dict[str, set[int]] | None = None
        # Entries that were queued again automatically.
        self._auto_retried: set[int] = set()
        # Entries that were refused in this sync and not accepted later in it.
        self._refused: set[int] = set()
        # Entries that the plugins' policy allows.
        self._screened: set[int] = set()
        # True once a part of an upload was accepted that had been refused before.
        self._upload_recovered = False

    def requeue_dependents(self, came: set[str]) -> bool:
        """Queue refused entries again that refer to the records in `came`; true if there are any.

        These are entries refused for a record that the Core lacked or hid, and entries that a
        restored Core had accepted before, since other homes may have resent their dependencies.

        Call it before the records are stored: after a crash, the same records arrive again.
        """
        if self._retryable is None:
            self._retryable = {}
            for entry in self._outbox.refused():
                self._register_for_retry(entry, entry.code)
        ids = sorted(
            {entry_id for record_id in came for entry_id in self._retryable.pop(record_id, ())}
        )
        self._auto_retried.update(ids)
        return bool(ids and self._outbox.retry(ids))

    def _register_for_retry(self, entry: OutboxEntry, code: str) -> None:
        """Register a refused entry under the records that make it worth a retry."""
        if self._retryable is not None and (
            code in MISSING or (entry.taken and self._is_recently_restored())
        ):
            for record_id in rejections.named(entry):
                self._retryable.setdefault(record_id, set()).add(entry.id)

    def _is_recently_restored(self) -> bool:
        return now() - int(self._session.store.content.get(state.RESENT) or 0) < RESENT_MS

    def flush(self) -> None:
        """Send waiting entries in order until none is left or the Core defers one.

        Raises: CortexError.
        """
        self._send_all()
        if self._upload_recovered or self._outbox.count()[1]:
            alerts.alert_unsent(self._library)

    def _send_all(self) -> None:
        while (batch := self._next_batch()) and not self._tally.held:
            self._session.check_cancelled()
            blocked = ((entry, why) for entry, _ in batch if (why := self._blocking_reason(entry)))
            if (first := next(blocked, None)) is not None:
                self._refuse(first[0], "SENSITIVE_BLOCKED", first[1], ())
                continue
            try:
                results = self._remote.flush([action for _, action in batch])
            except ServerRejected as error:
                self._shrink_batch([entry for entry, _ in batch], error)
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

    def _blocking_reason(self, entry: OutboxEntry) -> str:
        """Return why the plugins' policy blocks an upload, "" if it doesn't.

        Only uploads are checked: they may be older than the plugins.

        Raises: ConfigError PLUGIN_UNUSABLE.
        """
        policy = policy_of(self._library)
        if policy is None or entry.action != UPLOAD or entry.taken or entry.id in self._screened:
            return ""
        for change in entry.changes:
            for text in texts_of(change.after):
                verdict = policy.screen(text)
                if not verdict.allowed or verdict.text != text:
                    why = (
                        verdict.reason
                        or "a plugin would leave something out of it: edit it, and try again"
                    )
                    return f"{change.id} was not sent: {why}"
        self._screened.add(entry.id)
        return ""

    # -- batches

    def _next_batch(self) -> list[tuple[OutboxEntry, JsonObject]]:
        """Return the next entries with their wire format.

        A divisible upload goes alone: if it is refused as a whole, it is sent in parts.

        No entry follows a new subcortex in the same batch: the subcortex may need another slug, and
        its old slug would then mean the Core's subcortex.
        """
        batch: list[tuple[OutboxEntry, JsonObject]] = []
        size = 0
        for entry in self._waiting():
            action = action_to(
                entry, _key(entry), [self._session.outward(change) for change in entry.changes]
            )
            size += len(json.dumps(action, ensure_ascii=False).encode("utf-8", "replace"))
            if batch and (size > BATCH_BYTES or rejections.is_divisible(entry)):
                break
            batch.append((entry, action))
            if any(
                change.kind == "subcortex" and change.before is None for change in entry.changes
            ):
                break
        return batch

    def _waiting(self) -> list[OutboxEntry]:
        """Return waiting entries that may share a batch."""
        first = self._outbox.waiting(1)
        if not first or rejections.is_divisible(first[0]) or self._batch_limit == 1:
            return first
        return first + self._outbox.waiting(self._batch_limit - 1, first[0].id)

    def _shrink_batch(self, batch: Sequence[OutboxEntry], error: ServerRejected) -> None:
        """Halve the batch to find the entry that the Core can't parse; refuse it once alone.

        Raises: `error`, if it isn't about an entry.
        """
        if error.status not in UNTAKEN and not isinstance(error, Oversized):
            raise error
        self._tally.reached = True
        if len(batch) > 1:
            self._batch_limit = len(batch) // 2
            return
        current_records = self._fetch_current(batch[0])
        self._refuse(
            batch[0], error.said or error.code, error.message, self._session.inward(current_records)
        )
        returned = {current.record.id for current in current_records}
        # A page may have skipped the record while the entry waited, so compare everything.
        if any(
            change.before is not None and change.id not in returned for change in batch[0].changes
        ):
            self._session.begin_again({}, resend=False)
        self._batch_limit = BATCH

    def _fetch_current(self, entry: OutboxEntry) -> Sequence[VersionedRecord]:
        """Fetch the Core's version of the records of an entry that it can't parse.

        Sends an action with nothing but their ids: its rejection contains the current records.
        """
        action: JsonObject = {
            "idempotency_key": _key(entry),
            "action": entry.action,
            "payload": {"changes": [{"id": change.id} for change in entry.changes]},
        }
        try:
            results = self._remote.flush([action])
        # The Core can't parse that either, for example too many ids.
        except ServerRejected:
            return ()
        return results[0].records if results and results[0].status == REFUSED else ()

    # -- results

    def _settle(self, entry: OutboxEntry, result: ActionResult) -> bool:
        """Store the result of an entry; false if the rest of the response doesn't count."""
        if result.status == RETRY:
            self._hold(entry, result.message or "the Core wants it later")
            return False
        if result.status != REFUSED:
            self._accept(entry, self._session.inward(result.records))
        elif result.field == "slug" and slug_conflicts.rename_conflicting(self._library, entry):
            return False
        else:
            entry = self._split_conflict(entry, result)
            self._refuse(
                entry,
                result.code or "REFUSED",
                result.message,
                self._session.inward(result.records),
            )
        return True

    def _split_conflict(self, entry: OutboxEntry, result: ActionResult) -> OutboxEntry:
        """Reduce an entry to its conflicting fields; the rest is queued and sent next."""
        fields = (
            rejections.clashing_fields(entry, result.clashes)
            if result.code == rejections.CONFLICT
            else frozenset()
        )
        return self._outbox.part(entry.id, fields) if fields else entry

    def _accept(self, entry: OutboxEntry, records: Sequence[VersionedRecord]) -> None:
        """Settle an accepted entry.

        Records that the Core doesn't return, such as notifications for others, are erased here.
        """
        if entry.attempts and rejections.shares_alert(entry):
            self._upload_recovered = True
        elif entry.attempts:
            alerts.close_alert(self._library, entry)
        shown = {record.record.id for record in records}
        hidden = [change for change in entry.changes if change.id not in shown]
        # An entry accepted at the first attempt only adds the records that it creates; the others
        # were at the Core all the time.
        late = entry.attempts or entry.taken
        created = (change.id for change in entry.changes if change.before is None)
        self.requeue_dependents(shown if late else shown.intersection(created))
        self._session.apply(records, [change.id for change in hidden], settle=entry.id)
        # Notifications aren't indexed, so there is nothing to drop for them.
        self._tally.erased += sum(change.kind != "notification" for change in hidden)
        self._tally.flushed += len(entry.changes) if entry.action == UPLOAD else 1
        self._refused.discard(entry.id)
        self._tally.refused = len(self._refused)

    def _hold(self, entry: OutboxEntry, why: str) -> None:
        self._outbox.tried(entry.id, why)
        self._tally.held = why

    def _refuse(
        self, entry: OutboxEntry, code: str, message: str, records: Sequence[VersionedRecord]
    ) -> None:
        """Mark an entry as refused, with an alert, and store the Core's records instead.

        Records created along with a refused change are erased here and kept in the entry: they
        would describe something that never happened. Entries that were accepted once are exempt.
        """
        if rejections.is_divisible(entry):
            self._outbox.split(entry.id)
            return
        if not rejections.shares_alert(entry):
            alerts.alert_refused(self._library, entry, code, message)
        returned = {record.record.id for record in records}
        orphans = (
            []
            if rejections.makes(entry) or entry.taken
            else [change for change in entry.changes if change.before is None]
        )
        erased = [change.id for change in orphans if change.id not in returned]
        self._session.apply(records, erased, settle=entry.id, refuse=(code, message))
        self._register_for_retry(entry, code)
        self._tally.forgets |= any(
            change.kind != "notification" and change.id in erased for change in orphans
        )
        # Automatic retries were reported as refused before.
        self._refused |= {entry.id} - self._auto_retried
        self._tally.refused = len(self._refused)


def _key(entry: OutboxEntry) -> str:
    """Idempotency key of an entry at the Core, unique across the homes of one person."""
    return f"{entry.key}/{entry.actor}"
