"""How much each may ask of a Core: so many requests a minute by tier; whoever has no token is counted by their address.

Whose a token is only the database knows: so whoever comes with one that wasn't good lately is counted as a stranger before it is
asked, and no more where it was somebody's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from cortex.errors import LimitError
from cortex.store.principals import Principal
from cortex.surfaces.http_door import MAX_CLIENTS, Rates
from cortex.text import hash_bytes


class Limits:
    """Counts requests."""

    def __init__(self, rates: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        """`rates` are requests per minute of tiers 0 to 4; 0 is any number."""
        self._rates = tuple(rates)
        self._known = [Rates(rate, clock=clock) for rate in rates]
        self._strangers = Rates(rates[0], clock=clock)
        self._good: dict[bytes, None] = {}  # tokens that were somebody's when they were seen last, longest unseen first

    def count(self, principal: Principal) -> None:
        """Count a request. Raises: LimitError RATE_LIMITED."""
        tier = self._tier(principal)
        _check(self._known[tier].wait(principal.id), self._rates[tier])

    def count_stranger(self, network: str) -> None:
        """Count a request of somebody who isn't known. Raises: LimitError RATE_LIMITED."""
        _check(self._strangers.wait(network), self._rates[0])

    def is_good(self, token: str) -> bool:
        """Whether a token was somebody's when it was seen last."""
        return _hash(token) in self._good

    def note(self, token: str, network: str, *, good: bool) -> None:
        """Remember whether a token was somebody's, of whom that wasn't known before. Raises: LimitError RATE_LIMITED."""
        known = self.is_good(token)
        self._good.pop(_hash(token), None)
        if good:
            self._good[_hash(token)] = None
            if len(self._good) > MAX_CLIENTS:
                del self._good[next(iter(self._good))]
        if good and not known:
            self._strangers.give_back(network)
        elif known and not good:
            self.count_stranger(network)

    def _tier(self, principal: Principal) -> int:
        return min(max(principal.tier, 0), len(self._rates) - 1)


def _hash(token: str) -> bytes:
    return hash_bytes(b"token", token.encode("utf-8", "surrogatepass"))


def _check(seconds: float, rate: int) -> None:
    if whole := math.ceil(seconds):
        raise LimitError(
            "RATE_LIMITED",
            f"more than {rate} requests in a minute; try again in {whole} s",
            context={"retry_after_seconds": whole, "requests_per_minute": rate},
        )
