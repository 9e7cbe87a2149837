"""Lists in pages: the newest first, each from where the last one ended, whatever is written
meanwhile.

A cursor names the last record of its page and the question that it belongs to; it holds no rights,
and never expires.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from pydantic import Field

from cortex.base.errors import InputError
from cortex.base.text import hash_bytes
from cortex.interfaces.team_server.responses import Pagination
from cortex.toolkit.tool import Arguments

LIMIT, MOST = 25, 100
_PLACE = re.compile(r"[A-Za-z0-9_]{1,100}")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")  # that every database can be asked for

One = TypeVar("One")


class Paged(Arguments):
    """What every list takes."""

    limit: Annotated[int, Field(ge=1, le=MOST, description="How many at most")] = LIMIT
    cursor: Annotated[
        str | None, Field(max_length=500, description="Where the page before ended")
    ] = None


def question_of(path: str, query: Paged) -> str:
    """What a list was asked for, whatever page of it."""
    return f"{path} {query.model_dump_json(exclude={'limit', 'cursor'}, exclude_defaults=True)}"


def place_in(question: str, cursor: str | None) -> str:
    """The record that a cursor names, "" for the beginning. Raises: InputError CURSOR_INVALID."""
    if not cursor:
        return ""
    try:
        place, _, digest = (
            base64.b64decode(cursor.encode("ascii"), b"-_", validate=True)
            .decode("ascii")
            .partition(":")
        )
        if digest == _digest(question) and _PLACE.fullmatch(place):
            return place
    except (ValueError, binascii.Error, UnicodeError):
        pass
    raise _strange()


def number_in(question: str, cursor: str | None) -> int:
    """The number that a cursor names in a list that goes by numbers, 0 for the beginning.

    Raises: InputError CURSOR_INVALID.
    """
    place = place_in(question, cursor)
    if place and not _NUMBER.fullmatch(place):
        raise _strange()
    return int(place or 0)


def page_of(
    question: str, query: Paged, found: Sequence[One], place_of: Callable[[One], object]
) -> tuple[Sequence[One], Pagination]:
    """The page of what was found, which is one more than the limit where there is more."""
    shown = found[: query.limit]
    more = len(found) > query.limit
    return shown, Pagination(cursor_at(question, place_of(shown[-1])) if more else "", query.limit)


def cursor_at(question: str, place: object) -> str:
    """Where a list goes on after a record."""
    return base64.urlsafe_b64encode(f"{place}:{_digest(question)}".encode()).decode()


def _strange() -> InputError:
    return InputError(
        "CURSOR_INVALID", "this cursor does not belong to this list", context={"field": "cursor"}
    )


def _digest(question: str) -> str:
    return hash_bytes(question.encode("utf-8", "replace")).hex()[:16]
