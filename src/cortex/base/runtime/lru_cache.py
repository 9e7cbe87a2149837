"""Least-recently-used cache of search results, bounded by bytes and age.

A key contains the store's sequence number, so a change makes old results unreachable and nothing
has to be invalidated.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable

from cortex.base.types import Page

# Cost of a hit besides its text.
HIT_BYTES = 600
# Cost of a page and its query without their texts; an empty page costs this, too.
PAGE_BYTES = 1_500


class Cache:
    """A bounded map from queries to pages."""

    def __init__(self, max_bytes: int, max_age_seconds: float) -> None:
        self._max_bytes = max_bytes
        self._max_age = max_age_seconds
        self._pages: OrderedDict[Hashable, tuple[Page, int, float]] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0
        self._hits = self._asked = 0

    @property
    def hit_rate(self) -> float:
        """Share of lookups that found a page."""
        return round(self._hits / self._asked, 4) if self._asked else 0.0

    def get(self, key: Hashable) -> Page | None:
        with self._lock:
            self._asked += 1
            entry = self._pages.get(key)
            if entry is None:
                return None
            if time.monotonic() - entry[2] > self._max_age:
                self._drop(key)
                return None
            self._hits += 1
            self._pages.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, page: Page, asked: int = 0) -> None:
        """Store a page; `asked` is the size of its query in bytes."""
        cost = PAGE_BYTES + asked + sum(HIT_BYTES + 2 * len(hit.text) for hit in page.hits)
        if cost > self._max_bytes:
            return
        with self._lock:
            if key in self._pages:
                self._drop(key)
            self._pages[key] = (page, cost, time.monotonic())
            self.size += cost
            while self.size > self._max_bytes:
                self._drop(next(iter(self._pages)))

    def _drop(self, key: Hashable) -> None:
        _, cost, _ = self._pages.pop(key)
        self.size -= cost
