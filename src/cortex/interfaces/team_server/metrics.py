"""Figures of a Core for whoever watches it, in Prometheus' text format: requests, how long they
took, what the process costs.

Of the records it tells nothing, not even how many there are. Counted on the event loop alone, so
that nothing here needs a lock.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

from cortex.base.runtime.home import VERSION
from cortex.base.runtime.process_stats import resident_bytes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Anybody may make up more, without end
METHODS, OTHER = ("GET", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"), "other"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class Metrics:
    """What was counted since the start."""

    def __init__(self) -> None:
        self._started = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        # By route: how many took at most as long as each bucket
        self._seconds: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()
        self.under_way = 0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests[method if method in METHODS else OTHER, route, status] += 1
        counts = self._seconds.setdefault(route, [0] * (len(BUCKETS) + 1))
        for place, most in enumerate(BUCKETS):
            counts[place] += seconds <= most
        counts[-1] += 1
        self._sums[route] += seconds  # type: ignore[assignment]

    def text(self, lag: int) -> str:
        """All figures; `lag` is how many changes the hall is behind its ledger."""
        return "\n".join((*self._of_requests(), *self._of_process(lag))) + "\n"

    def _of_requests(self) -> Iterator[str]:
        yield "# HELP cortex_requests_total Requests that were answered."
        yield "# TYPE cortex_requests_total counter"
        for (method, route, status), count in sorted(self._requests.items()):
            yield f'cortex_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
        yield "# HELP cortex_request_seconds How long it took to answer."
        yield "# TYPE cortex_request_seconds histogram"
        for route, counts in sorted(self._seconds.items()):
            for most, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                yield f'cortex_request_seconds_bucket{{route="{route}",le="{most}"}} {count}'
            yield f'cortex_request_seconds_sum{{route="{route}"}} {self._sums[route]:.6f}'
            yield f'cortex_request_seconds_count{{route="{route}"}} {counts[-1]}'

    def _of_process(self, lag: int) -> Iterator[str]:
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
