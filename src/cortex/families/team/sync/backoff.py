"""When the next sync is due: often while all goes well, at once after a write, ever more seldom
while the Core doesn't answer. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cortex.families.team.sync.cycle import SyncOutcome

FIRST_SECONDS = 30.0  # after the first failure; twice as long after each further one
MOST_SECONDS = 600.0
JITTER = 0.2  # of a wait, either way: a team's machines don't come back all at once
# Between two syncs, whatever is written; while the Core doesn't answer FIRST_SECONDS
GAP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """When to sync; times are of any clock that only goes forward."""

    every: float  # seconds between syncs while all goes well; 0 is never by itself
    due: float = 0.0
    soonest: float = 0.0  # not before that, even for a write
    failures: int = 0
    waiting: int = 0  # entries after the last sync

    def is_due(self, now: float, waiting: int) -> bool:
        """Whether to sync now; `waiting` is how many entries wait."""
        if self.every <= 0:
            return False
        return now >= self.due or (waiting > self.waiting and now >= self.soonest)

    def after(self, outcome: SyncOutcome, now: float, chance: float) -> Pace:
        """The pace after a sync that ended now; `chance` is from 0 to 1."""
        if not outcome.error:
            wait = GAP_SECONDS if outcome.waiting else self.every  # written meanwhile
            return replace(
                self, due=now + wait, soonest=now + GAP_SECONDS, failures=0, waiting=outcome.waiting
            )
        # It may be a date, and one of the clocks wrong
        asked = min(MOST_SECONDS, outcome.retry_after)
        wait = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(self.failures, 16))
        wait = max(wait * (1 - JITTER + 2 * JITTER * chance), asked)
        soonest = now + max(min(wait, FIRST_SECONDS), asked)
        return replace(
            self,
            due=now + wait,
            soonest=soonest,
            failures=self.failures + 1,
            waiting=outcome.waiting,
        )
