"""Schedule of the background sync, with exponential backoff while the Core is unreachable.

Syncs at a fixed interval, soon after a local write, and less and less often after failures. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cortex.families.team.sync.cycle import SyncOutcome

# Wait after the first failure; it doubles with each further one.
FIRST_SECONDS = 30.0
MOST_SECONDS = 600.0
# Share of a wait, either way, so that a team's machines don't return all at once.
JITTER = 0.2
# Shortest gap between two syncs, however much is written. FIRST_SECONDS while the Core is down.
GAP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Time of the next sync, on any monotonic clock."""

    every: float  # seconds between successful syncs; 0 turns automatic sync off
    due: float = 0.0
    soonest: float = 0.0  # earliest time, even after a write
    failures: int = 0
    waiting: int = 0  # outbox entries after the last sync

    def is_due(self, now: float, waiting: int) -> bool:
        """True if a sync is due; `waiting` is the current number of outbox entries."""
        if self.every <= 0:
            return False
        return now >= self.due or (waiting > self.waiting and now >= self.soonest)

    def after(self, outcome: SyncOutcome, now: float, chance: float) -> Pace:
        """Return the schedule after a sync that ended now; `chance` is random, from 0 to 1."""
        if not outcome.error:
            # Entries that wait now were written during the sync.
            wait = GAP_SECONDS if outcome.waiting else self.every
            return replace(
                self, due=now + wait, soonest=now + GAP_SECONDS, failures=0, waiting=outcome.waiting
            )
        # Retry-After may be a date, and either clock may be wrong: cap it.
        requested = min(MOST_SECONDS, outcome.retry_after)
        wait = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(self.failures, 16))
        wait = max(wait * (1 - JITTER + 2 * JITTER * chance), requested)
        soonest = now + max(min(wait, FIRST_SECONDS), requested)
        return replace(
            self,
            due=now + wait,
            soonest=soonest,
            failures=self.failures + 1,
            waiting=outcome.waiting,
        )
