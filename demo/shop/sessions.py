"""Sessions of signed-in customers."""

import secrets
import time
from dataclasses import dataclass, field

LIFETIME_SECONDS = 15 * 60


@dataclass
class Session:
    """One customer's session; `renew` keeps it alive."""

    customer: str
    token: str = field(default_factory=secrets.token_urlsafe)
    expires_at: float = field(default_factory=lambda: time.time() + LIFETIME_SECONDS)

    def is_expired(self) -> bool:
        """Return whether the customer has to sign in again."""
        return time.time() >= self.expires_at

    def renew(self) -> None:
        """Extend the session by a full lifetime."""
        self.expires_at = time.time() + LIFETIME_SECONDS
