"""Rate limits of a Core: requests per minute by tier, or by address without a valid token.

Only the database knows the owner of a token. The hashes of valid tokens are cached here, so that a
request with any other token counts against the limit of its address before the database is asked,
and unauthenticated clients can't lock out a principal with the same address. A token that was
created since is looked up now and then, not for each guess; until then its owner counts as
unauthenticated, and gets that count back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

from cortex.engine.store.records.principals import Principal, hash_of, is_token
from cortex.interfaces.transports.http.gateway import Rates

# Shortest time between two reloads of the valid tokens, caused by unknown ones.
GOOD_SECONDS = 5.0


class RateLimits:
    """Counters of requests by principal and by network address."""

    def __init__(self, rates: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        """`rates` are the requests per minute of tiers 0 to 4; 0 means unlimited."""
        self._rates = [Rates(rate, clock=clock) for rate in rates]
        self._strangers = Rates(rates[0], clock=clock)
        self._clock, self._last_reload = clock, -math.inf
        # Hashes of valid tokens.
        self._good: set[bytes] = set()

    def count(self, principal: Principal) -> None:
        """Count a request of a principal.

        Raises: LimitError RATE_LIMITED.
        """
        tier = min(max(principal.tier, 0), len(self._rates) - 1)
        self._rates[tier].check(principal.id)

    def count_stranger(self, network: str) -> None:
        """Count an unauthenticated request.

        Raises: LimitError RATE_LIMITED.
        """
        self._strangers.check(network)

    def is_good(self, token: str) -> bool:
        """True for a token in the cache of valid tokens."""
        return is_token(token) and hash_of(token) in self._good

    def wants(self, token: str) -> bool:
        """True if the valid tokens should be reloaded because this one may be new.

        The next reload is due GOOD_SECONDS later.
        """
        if (
            not is_token(token)
            or self.is_good(token)
            or self._clock() - self._last_reload < GOOD_SECONDS
        ):
            return False
        self._last_reload = self._clock()
        return True

    def know(self, good: Iterable[bytes]) -> None:
        """Replace the cache of valid tokens."""
        self._good, self._last_reload = set(good), self._clock()

    def note(self, token: str, network: str, *, good: bool) -> None:
        """Record the result of looking up a token that the cache knew differently.

        Raises: LimitError RATE_LIMITED.
        """
        known = self.is_good(token)
        if good and not known:
            self._good.add(hash_of(token))
            self._strangers.give_back(network)
        elif known and not good:
            self._good.discard(hash_of(token))
            self.count_stranger(network)
