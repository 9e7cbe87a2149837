"""Passwords of customers: stored as salted hashes, compared in constant time."""

import hashlib
import hmac
import os

ROUNDS = 600_000


def hash_password(password: str) -> bytes:
    """Return salt and hash of a password, ready to be stored."""
    salt = os.urandom(16)
    return salt + hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)


def check_password(password: str, stored: bytes) -> bool:
    """Return whether a password matches its stored hash."""
    salt, expected = stored[:16], stored[16:]
    actual = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)
    return hmac.compare_digest(actual, expected)
