"""How much each may ask of a Core: so many requests a minute by tier; whoever has no token is
counted by their address.

Whose a token is only the database knows. Which tokens count is known here, by their hashes, so that
whoever comes with another one is counted as a stranger before it is asked, and strangers shut
nobody out who shares an address with them. A token that was made since is looked for now and then,
not for whoever guesses; until then its owner is a stranger, too, who is given back what was
counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

from cortex.base.errors import LimitError
from cortex.engine.store.records.principals import Principal, hash_of, is_token
from cortex.interfaces.transports.http.gateway import Rates

# After which it is asked again which tokens count, where one comes that isn't known
GOOD_SECONDS = 5.0


class RateLimits:
    """Counts requests."""

    def __init__(self, rates: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        """`rates` are requests per minute of tiers 0 to 4; 0 is any number."""
        self._rates = tuple(rates)
        self._known = [Rates(rate, clock=clock) for rate in rates]
        self._strangers = Rates(rates[0], clock=clock)
        self._clock, self._asked = clock, -math.inf
        self._good: set[bytes] = set()  # hashes of tokens that count

    def count(self, principal: Principal) -> None:
        """Count a request. Raises: LimitError RATE_LIMITED."""
        tier = self._tier(principal)
        _check(self._known[tier].wait(principal.id), self._rates[tier])

    def count_stranger(self, network: str) -> None:
        """Count a request of somebody who isn't known. Raises: LimitError RATE_LIMITED."""
        _check(self._strangers.wait(network), self._rates[0])

    def is_good(self, token: str) -> bool:
        """Whether a token counts, as far as that is known."""
        return is_token(token) and hash_of(token) in self._good

    def wants(self, token: str) -> bool:
        """Whether to ask now which tokens count, since this one may be new; then nobody else is
        told so for a while.
        """
        if not is_token(token) or self.is_good(token) or self._clock() - self._asked < GOOD_SECONDS:
            return False
        self._asked = self._clock()
        return True

    def know(self, good: Iterable[bytes]) -> None:
        """Remember which tokens count."""
        self._good, self._asked = set(good), self._clock()

    def note(self, token: str, network: str, *, good: bool) -> None:
        """Remember whether a token was somebody's, of whom that wasn't known before.

        Raises: LimitError RATE_LIMITED.
        """
        known = self.is_good(token)
        if good and not known:
            self._good.add(hash_of(token))
            self._strangers.give_back(network)
        elif known and not good:
            self._good.discard(hash_of(token))
            self.count_stranger(network)

    def _tier(self, principal: Principal) -> int:
        return min(max(principal.tier, 0), len(self._rates) - 1)


def _check(seconds: float, rate: int) -> None:
    if whole := math.ceil(seconds):
        raise LimitError(
            "RATE_LIMITED",
            f"more than {rate} requests in a minute; try again in {whole} s",
            context={"retry_after_seconds": whole, "requests_per_minute": rate},
        )
