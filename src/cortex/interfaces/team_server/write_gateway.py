"""Write side of the Core: record writes over the ledger, limited to the current viewer.

The gateway takes the place of a library's records, so the functions of the team family run
unchanged. A write is readable in the replica when its transaction returns; a write that its own
author could not see is rejected.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from cortex.base.errors import InputError, StoreError
from cortex.base.record_model import Actor
from cortex.base.visibility import Viewer, sees
from cortex.engine.store import (
    Records,
    RecordTransaction,
    Store,
    TransactionOptions,
    TransactionResult,
    kind_of_id,
)
from cortex.engine.store.records.ledger import Ledger
from cortex.interfaces.team_server import access_policy
from cortex.interfaces.team_server.live_access import LiveAccess


@dataclass(slots=True)
class RequestScope:
    """The viewer of a request, and if its write had been applied before."""

    viewer: Viewer
    replayed: bool = False


class WriteGateway(Records):
    """Records that are read from the replica's store and written to the ledger."""

    def __init__(self, ledger: Ledger, present: LiveAccess, take_over: Callable[[], None]) -> None:
        """`take_over` makes new changes of the ledger readable in the replica."""
        self._ledger, self._present, self._take_over = ledger, present, take_over
        self._local = threading.local()

    def read_from(self, store: Store) -> None:
        """Take the place of this store's records; a reopened store takes this call again."""
        super().__init__(store.connections, lambda: store.viewer)
        store.records = self

    @contextmanager
    def visited_by(self, viewer: Viewer) -> Iterator[RequestScope]:
        """Write as this viewer in this thread, inside the block."""
        self._local.visit = visit = RequestScope(viewer)
        try:
            yield visit
        finally:
            self._local.visit = None

    def perform(
        self, work: Callable[[RecordTransaction], str], options: TransactionOptions
    ) -> TransactionResult:
        """Run a transaction of the ledger with the permissions of the viewer.

        Raises: StoreError STORE_READ_ONLY without a viewer, STORE_LOCKED where the viewer's access
        changed since the request began; and the errors of the ledger.
        """
        visit: RequestScope | None = getattr(self._local, "visit", None)
        if visit is None:
            raise StoreError("STORE_READ_ONLY", "there is no writer")
        done = self._ledger.records.perform(
            self._with_access_check(work, visit.viewer),
            replace(
                options,
                sees=partial(sees, visit.viewer),
                guard=access_policy.guard_of(visit.viewer),
            ),
        )
        visit.replayed = done.replayed
        self._take_over()
        return done

    def known(self, actor: Actor, key: str, action: str, payload: str) -> TransactionResult | None:
        """Return the earlier result of a key, None for a new one.

        Raises: InputError IDEMPOTENCY_REPLAY.
        """
        return self._ledger.records.known(actor, key, action, payload)

    def _with_access_check(
        self, work: Callable[[RecordTransaction], str], viewer: Viewer
    ) -> Callable[[RecordTransaction], str]:
        """Wrap a transaction so that it fails where its author could not see the result.

        The wrapper raises InputError RIGHTS_MISSING and StoreError.
        """

        def step_of(step: RecordTransaction) -> str:
            # No other writer can change the access from here on.
            self._present.check(viewer)
            result = work(step)
            if kind_of_id(result) and step.get(result) is None:
                raise InputError(
                    "RIGHTS_MISSING", f"{step.actor.name} could not see what that would write"
                )
            return result

        return step_of
