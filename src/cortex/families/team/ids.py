"""Record ids: a prefix for the kind, and a ULID, so that ids sort by creation time.

Ids increase within a process, and a transaction's new ids are larger than all stored ones, even if
the clock is set back.
"""

from __future__ import annotations

import os
import threading
import time

from cortex.base.record_model import PREFIXES, Body

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ALPHABET_SET = frozenset(_ALPHABET)
_lock = threading.Lock()
_last = 0
# Random step between two ids of one millisecond, or while the clock is behind: two processes may
# continue from the same id.
_STRIDE_BYTES = 5


def new_id(cls: type[Body]) -> str:
    """Return a new id for a record of this class."""
    return PREFIXES[cls] + new_ulid()


def new_ulid() -> str:
    """Return 26 characters: 48 bits of milliseconds since 1970, then 80 random bits.

    Never smaller than the previous one in this process.
    """
    global _last
    with _lock:
        value = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
        if value <= _last:
            value = _last + 1 + int.from_bytes(os.urandom(_STRIDE_BYTES), "big")
        _last = value
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(125, -1, -5))


def advance_past(ulid: str) -> None:
    """Make all later ids larger than this one; an invalid ULID is ignored."""
    global _last
    if len(ulid) != 26 or ulid[0] > "7" or not _ALPHABET_SET.issuperset(ulid):
        return
    value = 0
    for character in ulid:
        value = value << 5 | _ALPHABET.index(character)
    with _lock:
        _last = max(_last, value)


def fresh_key() -> str:
    """Return a new idempotency key."""
    return f"key_{new_ulid()}"
