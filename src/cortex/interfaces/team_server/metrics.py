"""Metrics of a Core in Prometheus' text format: requests, latencies, process resources.

They reveal nothing about the records, not even their number. Counted on the event loop only, so no
lock is needed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

from cortex.base.runtime.home import VERSION
from cortex.base.runtime.process_stats import resident_bytes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A client may send any other method, so those share one label.
METHODS, OTHER = ("GET", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"), "other"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class Metrics:
    """Counters since the start of the process."""

    def __init__(self) -> None:
        self._started = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        # By route, the number of requests within each bucket.
        self._seconds: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()
        self.under_way = 0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests[method if method in METHODS else OTHER, route, status] += 1
        counts = self._seconds.setdefault(route, [0] * (len(BUCKETS) + 1))
        for index, bound in enumerate(BUCKETS):
            counts[index] += seconds <= bound
        counts[-1] += 1
        self._sums[route] += seconds  # type: ignore[assignment]

    def text(self, lag: int) -> str:
        """Render all metrics; `lag` is the number of changes the replica is behind the ledger."""
        return "\n".join((*self._request_lines(), *self._process_lines(lag))) + "\n"

    def _request_lines(self) -> Iterator[str]:
        yield "# HELP cortex_requests_total Requests that were answered."
        yield "# TYPE cortex_requests_total counter"
        for (method, route, status), count in sorted(self._requests.items()):
            yield (
                f'cortex_requests_total{{method="{method}",route="{route}",status="{status}"}} '
                f"{count}"
            )
        yield "# HELP cortex_request_seconds How long it took to answer."
        yield "# TYPE cortex_request_seconds histogram"
        for route, counts in sorted(self._seconds.items()):
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                yield f'cortex_request_seconds_bucket{{route="{route}",le="{bound}"}} {count}'
            yield f'cortex_request_seconds_sum{{route="{route}"}} {self._sums[route]:.6f}'
            yield f'cortex_request_seconds_count{{route="{route}"}} {counts[-1]}'

    def _process_lines(self, lag: int) -> Iterator[str]:
        for name, kind, meaning, value in (
            (
                "cortex_requests_under_way",
                "gauge",
                "Requests that are being answered.",
                self.under_way,
            ),
            (
                "cortex_feed_lag_changes",
                "gauge",
                "Changes of the ledger that aren't found yet.",
                lag,
            ),
            ("process_resident_memory_bytes", "gauge", "Memory in use.", resident_bytes()),
            (
                "process_cpu_seconds_total",
                "counter",
                "Time on the processors.",
                round(time.process_time(), 3),
            ),
            (
                "process_start_time_seconds",
                "gauge",
                "When it began, since 1970.",
                round(self._started, 3),
            ),
            ("cortex_threads", "gauge", "Threads of the process.", threading.active_count()),
        ):
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} {kind}"
            yield f"{name} {value}"
        yield "# HELP cortex_info What runs here."
        yield "# TYPE cortex_info gauge"
        yield f'cortex_info{{version="{VERSION}"}} 1'
