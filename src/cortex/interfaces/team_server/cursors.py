"""Pagination of lists: newest first, each page starts where the last one ended.

Records written meanwhile don't shift the pages. A cursor names the last record of its page and a
digest of the query; it carries no permissions and never expires.
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
# Integers that every database can be queried for.
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")

One = TypeVar("One")


class Paged(Arguments):
    """What every list takes."""

    limit: Annotated[int, Field(ge=1, le=MOST, description="How many at most")] = LIMIT
    cursor: Annotated[
        str | None, Field(max_length=500, description="Where the page before ended")
    ] = None


def question_of(path: str, query: Paged) -> str:
    """Return the identity of a list query, the same for all of its pages."""
    return f"{path} {query.model_dump_json(exclude={'limit', 'cursor'}, exclude_defaults=True)}"


def place_in(question: str, cursor: str | None) -> str:
    """Return the record that a cursor names, "" for the first page.

    Raises: InputError CURSOR_INVALID.
    """
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
    raise _invalid_cursor()


def number_in(question: str, cursor: str | None) -> int:
    """Return the number in the cursor of a list ordered by numbers, 0 for the first page.

    Raises: InputError CURSOR_INVALID.
    """
    place = place_in(question, cursor)
    if place and not _NUMBER.fullmatch(place):
        raise _invalid_cursor()
    return int(place or 0)


def page_of(
    question: str, query: Paged, rows: Sequence[One], place_of: Callable[[One], object]
) -> tuple[Sequence[One], Pagination]:
    """Cut a page from query results that have one row more than the limit if there is more."""
    shown = rows[: query.limit]
    more = len(rows) > query.limit
    return shown, Pagination(cursor_at(question, place_of(shown[-1])) if more else "", query.limit)


def cursor_at(question: str, place: object) -> str:
    """Build the cursor for the page after a record."""
    return base64.urlsafe_b64encode(f"{place}:{_digest(question)}".encode()).decode()


def _invalid_cursor() -> InputError:
    return InputError(
        "CURSOR_INVALID", "this cursor does not belong to this list", context={"field": "cursor"}
    )


def _digest(question: str) -> str:
    return hash_bytes(question.encode("utf-8", "replace")).hex()[:16]
