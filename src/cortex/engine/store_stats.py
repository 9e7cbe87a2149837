"""Statistics of one open store, for status and doctor."""

from __future__ import annotations

from cortex.base.text import rfc3339
from cortex.base.types import Freshness, StoreStats
from cortex.engine.opened_store import OpenedStore
from cortex.engine.searcher import Searcher

SMALL_BYTES, LARGE_BYTES = 10_000, 100_000


def collect_stats(opened: OpenedStore, state: Freshness, searcher: Searcher) -> StoreStats:
    """Collect the statistics of a store."""
    store, runs, source = opened.store, opened.runs, opened.source.id
    content = store.content
    counts = content.counts(source)
    step = runs.under_way() or runs.step
    waiting = max(content.number(f"files:{source}"), step.total) if state.state != "ready" else 0
    small, medium, large = content.sizes(source, SMALL_BYTES, LARGE_BYTES)
    count, seconds = searcher.totals
    return StoreStats(
        freshness=state,
        holder=store.lease.held,
        holder_pid=store.lease.holder(),
        total_files=max(counts.docs, waiting),
        indexed_files=counts.docs,
        skipped=content.skipped(source),
        chunks=counts.chunks,
        embedding=opened.embedding.status(),
        disk_bytes=store.disk_bytes(),
        languages=content.languages(source),
        sizes={"small": small, "medium": medium, "large": large},
        average_chunk_tokens=round(counts.characters / 4 / counts.chunks, 1)
        if counts.chunks
        else 0.0,
        average_search_ms=round(1000 * seconds / count, 2) if count else 0.0,
        indexing_seconds=float(content.get(f"seconds:{source}", "0")),
        cache_bytes=searcher.cache.size,
        cache_hit_rate=searcher.cache.hit_rate,
        last_cleanup=rfc3339(cleanup) if (cleanup := content.number("cleanup")) else "",
    )
