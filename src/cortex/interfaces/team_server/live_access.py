"""Access of a principal, evaluated inside the write transaction.

It reads the ledger itself, not the replica: another writer may have changed the access while this
one waited, and the replica may lag. So a subcortex that just became private is private here.

Road not taken: updating the replica inside the transaction, which would make writers wait for the
indexer.
"""

from __future__ import annotations

from cortex.base.errors import NetworkError, StoreError
from cortex.base.record_model import Record, RecordFilter, Subcortex
from cortex.base.visibility import Viewer
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.principals import Principal
from cortex.families.team.writes.drafts import pages
from cortex.interfaces.team_server import access_policy
from cortex.interfaces.team_server.principals import ACTIVE

# State of all subcortexes: the epoch, their number, and the last change of one.
State = tuple[str, tuple[int, int]]


class LiveAccess:
    """Current access of every principal."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: tuple[State, tuple[Record[Subcortex], ...]] | None = None

    def look(self, name: str) -> tuple[Principal, Viewer] | None:
        """Return a principal and its viewer, None for an unknown name.

        Raises: NetworkError AUTH_EXPIRED for a revoked principal.
        """
        principal = self._ledger.principals.named(name)
        if principal is None:
            return None
        if principal.state != ACTIVE:
            raise NetworkError("AUTH_EXPIRED", f"the principal {name} was revoked")
        return principal, access_policy.viewer_of(principal, self._subcortexes())

    def check(self, viewer: Viewer) -> None:
        """Check that the access of a viewer is the same as when the request began.

        Raises: StoreError STORE_LOCKED where the request has to be repeated.
        """
        access = self.look(viewer.name)
        if access is not None and access[1] != viewer:
            raise StoreError("STORE_LOCKED", f"the access of {viewer.name} was changed meanwhile")

    def _subcortexes(self) -> tuple[Record[Subcortex], ...]:
        lookup = self._ledger.records
        known, now = self._known, (self._ledger.epoch(), lookup.last_of("subcortex"))
        if known is None or known[0] != now:
            known = self._known = (now, tuple(pages(lookup, RecordFilter(kinds=("subcortex",)))))
        return known[1]
