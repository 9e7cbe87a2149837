"""Where visitors of a Core write: the functions of `records` unchanged, over the ledger, as far as
whoever is there may.

It stands where a library has its records. What is written can be read in the hall when a step
returns; a step whose result its own author could not see is not taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cortex.base.errors import InputError, StoreError
from cortex.base.record_model import Actor, Record
from cortex.base.visibility import Get, Viewer, sees
from cortex.engine.store import (
    Guard,
    Records,
    RecordTextExtractor,
    RecordTransaction,
    Screened,
    Sees,
    TransactionResult,
    kind_of_id,
)
from cortex.engine.store.records.ledger import Ledger
from cortex.interfaces.team_server import access_policy
from cortex.interfaces.team_server.live_access import LiveAccess


@dataclass(slots=True)
class RequestScope:
    """Somebody who is there, and whether what they asked to write had been written before."""

    viewer: Viewer
    replayed: bool = False


class WriteGateway(Records):
    """The records of the ledger, for whoever visits this thread."""

    def __init__(self, ledger: Ledger, present: LiveAccess, take_over: Callable[[], None]) -> None:
        """`take_over` has what was written readable."""
        self._ledger, self._present, self._take_over = ledger, present, take_over
        self._here = threading.local()

    @contextmanager
    def visited_by(self, viewer: Viewer) -> Iterator[RequestScope]:
        """Let somebody write in this thread, inside the block."""
        self._here.visit = visit = RequestScope(viewer)
        try:
            yield visit
        finally:
            self._here.visit = None

    def perform(
        self,
        work: Callable[[RecordTransaction], str],
        *,
        actor: Actor,
        key: str,
        action: str,
        payload: str,
        wording: RecordTextExtractor,
        sees: Sees | None = None,
        guard: Guard | None = None,
        quiet: bool = False,
        screen: Screened | None = None,
    ) -> TransactionResult:
        """As the ledger does it, but only what the visitor may do.

        Raises: StoreError STORE_READ_ONLY, where there is none; STORE_LOCKED, where what they may
        do was changed since they came; as there.
        """
        visit: RequestScope | None = getattr(self._here, "visit", None)
        if visit is None:
            raise StoreError("STORE_READ_ONLY", "nobody is there who writes")
        done = self._ledger.records.perform(
            self._seen(work, visit.viewer),
            actor=actor,
            key=key,
            action=action,
            payload=payload,
            wording=wording,
            sees=sees_of(visit.viewer),
            guard=access_policy.guard_of(visit.viewer),
            screen=screen,
        )
        visit.replayed = done.replayed
        self._take_over()
        return done

    def known(self, actor: Actor, key: str, action: str, payload: str) -> TransactionResult | None:
        """What a key gave before, None where it is new. Raises: InputError IDEMPOTENCY_REPLAY."""
        return self._ledger.records.known(actor, key, action, payload)

    def _seen(
        self, work: Callable[[RecordTransaction], str], viewer: Viewer
    ) -> Callable[[RecordTransaction], str]:
        """A step that isn't taken where its own author could not see what it wrote.

        It raises: InputError RIGHTS_MISSING; StoreError.
        """

        def step_of(step: RecordTransaction) -> str:
            self._present.check(viewer)  # nobody else writes from here on
            result = work(step)
            if kind_of_id(result) and step.get(result) is None:
                raise InputError(
                    "RIGHTS_MISSING", f"{step.actor.name} could not see what that would write"
                )
            return result

        return step_of


def sees_of(viewer: Viewer) -> Sees:
    """Whether a viewer may know of a record."""

    def may_see(record: Record[Any], get: Get) -> bool:
        return sees(viewer, record, get)

    return may_see
