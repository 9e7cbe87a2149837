"""Counts of docs and chunks by source, counted once for each state of a store."""

from __future__ import annotations

import time
from collections.abc import Sequence

from cortex.engine.store.content.queries import Counts
from cortex.engine.store.content.writer import ContentStore

# Number of docs from which a changing source is not recounted for every answer.
LARGE = 4_000
# A count stays valid for this many times as long as counting took.
COUNT_TIMES = 100
# Combinations of sources with a cached total.
MAX_TOTALS = 64


class SourceCounts:
    """Counts of sources; large ones that keep changing are counted less often."""

    def __init__(self, content: ContentStore) -> None:
        self._content = content
        # By source: (seq, counts, monotonic time until which the counts are valid).
        self._counts: dict[int, tuple[int, Counts, float]] = {}
        # (seq, totals at that seq by combination of sources).
        self._totals: tuple[int, dict[tuple[int, ...], Counts]] = (0, {})

    def total(self, sources: tuple[int, ...]) -> Counts:
        """Docs and chunks of `sources` together."""
        # Keep a reference: another thread may replace `_totals` meanwhile.
        seq, known = self._content.seq(), self._totals
        # Adding up hundreds of sources takes a twentieth of a search, which asks three times.
        if known[0] == seq and sources in known[1]:
            return known[1][sources]
        now = time.monotonic()
        due = [
            source
            for source in sources
            if source not in self._counts or self._counts[source][0] != seq
        ]
        exact = not due or not self._are_counts_valid(sources, due, now)
        if due and exact:
            counted = self._content.counts_of(due)
            until = now + COUNT_TIMES * (time.monotonic() - now)
            self._counts |= {source: (seq, counts, until) for source, counts in counted.items()}
        every = [self._counts[source][1] for source in sources]
        total = Counts(
            sum(counts.docs for counts in every),
            sum(counts.chunks for counts in every),
            sum(counts.characters for counts in every),
        )
        if exact:
            before = known[1] if known[0] == seq and len(known[1]) < MAX_TOTALS else {}
            self._totals = (seq, {**before, sources: total})
        return total

    def _are_counts_valid(self, sources: Sequence[int], due: Sequence[int], now: float) -> bool:
        """True if counts from an earlier `seq` may still be used."""
        known = self._counts
        return all(source in known and now < known[source][2] for source in due) and (
            sum(known[source][1].docs for source in sources) >= LARGE
        )
