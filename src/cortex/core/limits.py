"""How much each may ask of a Core: so many requests a minute by tier; whoever has no token is counted by their address."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from cortex.errors import LimitError
from cortex.store.principals import Principal
from cortex.surfaces.http_door import Rates


class Limits:
    """Counts requests."""

    def __init__(self, rates: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        """`rates` are requests per minute of tiers 0 to 4; 0 is any number."""
        self._rates = tuple(rates)
        self._known = [Rates(rate, clock=clock) for rate in rates]
        self._strangers = Rates(rates[0], clock=clock)

    def rate_of(self, principal: Principal) -> int:
        """Requests per minute that somebody may send."""
        return self._rates[self._tier(principal)]

    def count(self, principal: Principal) -> None:
        """Count a request. Raises: LimitError RATE_LIMITED."""
        tier = self._tier(principal)
        _check(self._known[tier].wait(principal.id), self._rates[tier])

    def count_stranger(self, network: str) -> None:
        """Count a request of somebody who isn't known. Raises: LimitError RATE_LIMITED."""
        _check(self._strangers.wait(network), self._rates[0])

    def _tier(self, principal: Principal) -> int:
        return min(max(principal.tier, 0), len(self._rates) - 1)


def _check(seconds: float, rate: int) -> None:
    if whole := math.ceil(seconds):
        raise LimitError(
            "RATE_LIMITED",
            f"more than {rate} requests in a minute; try again in {whole} s",
            context={"retry_after_seconds": whole, "requests_per_minute": rate},
        )
