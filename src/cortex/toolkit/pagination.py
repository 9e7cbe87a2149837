"""Pagination of answers: token budgets and opaque cursors.

Knows no tool: each family decides about the content of an answer, and what is dropped first.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import TypeVar

from cortex.base.errors import InputError
from cortex.base.text import TOKEN_CHARACTERS, hash_bytes

MIN_BUDGET = 200
MAX_OFFSET = 1_000_000_000

Part = TypeVar("Part")
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dump(body: object) -> str:
    """Encode as compact JSON, because white space costs tokens, too."""
    return _COMPACT.encode(body)


def take_fitting(parts: Iterable[Part], characters: int) -> list[Part]:
    """Take parts of an answer from the first on, as many as fit into so many characters."""
    taken: list[Part] = []
    for part in parts:
        characters -= len(dump(part)) + 1
        if characters < 0:
            break
        taken.append(part)
    return taken


def check_budget(budget: int | None, default: int) -> int:
    """Return the budget that applies. Raises: InputError BUDGET_TOO_SMALL."""
    if budget is not None and budget < MIN_BUDGET:
        raise InputError(
            "BUDGET_TOO_SMALL",
            f"a budget of {budget} tokens is too small, the least is {MIN_BUDGET}",
        )
    return budget or default


def too_small(characters: int) -> InputError:
    """Build the error that names the budget needed for this many characters."""
    needed = -(-characters // TOKEN_CHARACTERS)
    return InputError(
        "BUDGET_TOO_SMALL",
        f"the next part of the answer alone needs a budget of {needed} tokens",
        context={"needed": needed},
        suggestions=(f"Ask with `budget` {needed} or more.",),
    )


def make_cursor(key: str, offset: int) -> str:
    """Encode an offset in the answer to one query as an opaque cursor."""
    return base64.urlsafe_b64encode(f"{offset}:{_digest(key)}".encode()).decode()


def read_cursor(key: str, cursor: str | None) -> int:
    """Decode a cursor to its offset.

    Raises: InputError CURSOR_INVALID, if it belongs to another query.
    """
    if cursor is None:
        return 0
    try:
        offset, _, digest = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
        if digest == _digest(key) and 0 <= int(offset) < MAX_OFFSET:
            return int(offset)
    except (ValueError, binascii.Error, UnicodeError):
        pass
    raise InputError("CURSOR_INVALID", "this cursor does not belong to this search")


def _digest(key: str) -> str:
    return hash_bytes(key.encode("utf-8", "replace")).hex()[:12]
