"""Figures about one open store, for status and doctor."""

from __future__ import annotations

from cortex.base.runtime.lru_cache import Cache
from cortex.base.text import rfc3339
from cortex.base.types import Freshness, Source, StoreStats
from cortex.engine.embedding_coordinator import EmbeddingCoordinator
from cortex.engine.run_queue import RunQueue
from cortex.engine.store import Store

SMALL_BYTES, LARGE_BYTES = 10_000, 100_000


def collect_stats(
    store: Store,
    main: Source,
    state: Freshness,
    runs: RunQueue,
    embedding: EmbeddingCoordinator,
    cache: Cache,
    searches: tuple[int, float],
) -> StoreStats:
    """Collect the figures; `searches` are the number of searches and their seconds."""
    content, source = store.content, main.id
    counts = content.counts(source)
    step = runs.under_way() or runs.step
    waiting = (
        max(int(content.get(f"files:{source}", "0")), step.total) if state.state != "ready" else 0
    )
    small, medium, large = content.sizes(source, SMALL_BYTES, LARGE_BYTES)
    count, seconds = searches
    return StoreStats(
        freshness=state,
        holder=store.lease.held,
        holder_pid=store.lease.holder(),
        total_files=max(counts.docs, waiting),
        indexed_files=counts.docs,
        skipped=content.skipped(source),
        chunks=counts.chunks,
        embedding=embedding.status(),
        disk_bytes=store.disk_bytes(),
        languages=content.languages(source),
        sizes={"small": small, "medium": medium, "large": large},
        average_chunk_tokens=round(counts.characters / 4 / counts.chunks, 1)
        if counts.chunks
        else 0.0,
        average_search_ms=round(1000 * seconds / count, 2) if count else 0.0,
        indexing_seconds=float(content.get(f"seconds:{source}", "0")),
        cache_bytes=cache.size,
        cache_hit_rate=cache.hit_rate,
        last_cleanup=rfc3339(int(content.get("cleanup"))) if content.get("cleanup") else "",
    )
