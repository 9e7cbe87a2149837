"""Who somebody is, and what they may see, at the moment in which nobody else writes: asked inside a
step, or among what is written together.

The ledger itself is asked, not what the hall has of it: somebody may have written while one waited
for their turn, or the hall may not follow. So what became private meanwhile is. Road not taken: the
hall follows inside the transaction, where who indexes would be waited for.
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

# Of all subcortexes: the epoch, how many there are, and the last change of one
State = tuple[str, tuple[int, int]]


class LiveAccess:
    """Everybody, as the ledger knows them now."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: tuple[State, tuple[Record[Subcortex], ...]] | None = None

    def look(self, name: str) -> tuple[Principal, Viewer] | None:
        """A principal and what they may see, None where there is no such.

        Raises: NetworkError AUTH_EXPIRED, where they may nothing any more.
        """
        principal = self._ledger.principals.named(name)
        if principal is None:
            return None
        if principal.state != ACTIVE:
            raise NetworkError("AUTH_EXPIRED", f"{name} may not come in any more")
        return principal, access_policy.viewer_of(principal, self._subcortexes())

    def check(self, viewer: Viewer) -> None:
        """Whether a viewer may still see what they might when they came.

        Raises: StoreError STORE_LOCKED, where they have to come again.
        """
        found = self.look(viewer.name)
        if found is not None and found[1] != viewer:
            raise StoreError(
                "STORE_LOCKED", f"what {viewer.name} may see or write was changed just now"
            )

    def _subcortexes(self) -> tuple[Record[Subcortex], ...]:
        lookup = self._ledger.recorded
        known, now = self._known, (self._ledger.epoch(), lookup.last_of("subcortex"))
        if known is None or known[0] != now:
            known = self._known = (now, tuple(pages(lookup, RecordFilter(kinds=("subcortex",)))))
        return known[1]
