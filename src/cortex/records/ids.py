"""Ids of records: a prefix that says the kind, and a ULID, so that ids sort by when they were made. Later ones of a process are larger."""

from __future__ import annotations

import os
import threading
import time

from cortex.kinds import PREFIXES, Body

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_turn = threading.Lock()
_last = 0


def new_id(cls: type[Body]) -> str:
    """A new id for a record of this class."""
    return PREFIXES[cls] + new_ulid()


def new_ulid() -> str:
    """26 characters: 48 bits of milliseconds since 1970 and 80 of chance; never smaller than the one before in this process."""
    global _last
    with _turn:
        number = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
        _last = number = max(number, _last + 1)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def fresh_key() -> str:
    """A new idempotency key."""
    return f"key_{new_ulid()}"
