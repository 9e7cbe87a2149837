"""Ids of records: a prefix that says the kind, and a ULID, so that ids sort by when they were made.

Later ones of a process are larger, and so are those that a step makes than all that it finds,
whatever the clock says meanwhile.
"""

from __future__ import annotations

import os
import threading
import time

from cortex.base.record_model import PREFIXES, Body

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ALPHABET_SET = frozenset(_ALPHABET)
_turn = threading.Lock()
_last = 0
# Of chance between two ids of one millisecond, or while the clock is behind: two processes may go
# on from the same one
_STRIDE_BYTES = 5


def new_id(cls: type[Body]) -> str:
    """A new id for a record of this class."""
    return PREFIXES[cls] + new_ulid()


def new_ulid() -> str:
    """26 characters: 48 bits of milliseconds since 1970 and 80 of chance; never smaller than the
    one before in this process.
    """
    global _last
    with _turn:
        number = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
        if number <= _last:
            number = _last + 1 + int.from_bytes(os.urandom(_STRIDE_BYTES), "big")
        _last = number
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def go_on_from(ulid: str) -> None:
    """Have every id that is made from now on be larger than this one; what is no ULID counts
    nothing.
    """
    global _last
    if len(ulid) != 26 or ulid[0] > "7" or not _ALPHABET_SET.issuperset(ulid):
        return
    number = 0
    for character in ulid:
        number = number << 5 | _ALPHABET.index(character)
    with _turn:
        _last = max(_last, number)


def fresh_key() -> str:
    """A new idempotency key."""
    return f"key_{new_ulid()}"
