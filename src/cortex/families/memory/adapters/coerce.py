"""What stands in another product's columns, taken for what it was meant to be: texts, lists,
moments.

Forgiving: whatever can't be understood is empty, whatever is too long is cut. Knows no table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime

MAX_CHARACTERS = 20_000  # of a text
MAX_NAME = 200  # of the name of a project, a kind or a session
MAX_ENTRIES = 200  # of a list
MAX_LIST_CHARACTERS = 400_000  # of a whole list, as it is stored

# A moment below is meant in seconds: in milliseconds it would lie before 1974
_SECONDS_BELOW = 10**11
_MILLISECONDS_BELOW = 10**14
_DECODER = json.JSONDecoder()


def text(value: object) -> str:
    """A text without what can't be stored, and without space around it."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value is None:
        return ""
    whole = value if isinstance(value, str) else str(value)
    whole = whole[:MAX_CHARACTERS].replace("\0", "").strip()
    return whole if whole.isascii() else whole.encode("utf-8", "replace").decode("utf-8")


def line(value: object) -> str:
    """A text in one line."""
    return " ".join(text(value).split())


def first_line(value: str, limit: int = 200) -> str:
    """The first line of a text that has one, for a title."""
    first = " ".join(value[: 10 * limit].lstrip().partition("\n")[0].split()).lstrip("# ")
    return first if len(first) <= limit else f"{first[: limit - 1].rstrip()}…"


def entries(value: object, separator: str) -> tuple[str, ...]:
    """A list as it is stored, without repeats: a JSON array, also one that breaks off, or a text
    with separators.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        return ()
    whole = value[:MAX_LIST_CHARACTERS].strip()
    if whole.startswith("["):
        return unique(_array(whole))
    if whole.startswith(("{", '"')) or whole == "null":
        try:
            said = json.loads(whole)
        except (ValueError, RecursionError):
            said = whole
        whole = said if isinstance(said, str) else ""
    return unique(whole.split(separator))


def unique(parts: Iterable[object]) -> tuple[str, ...]:
    """The texts among these, each once, in their order."""
    found: dict[str, None] = {}
    for part in parts:
        if (
            isinstance(part, str | int | float)
            and not isinstance(part, bool)
            and (said := text(part))
        ):
            found[said] = None
            if len(found) == MAX_ENTRIES:
                break
    return tuple(found)


def milliseconds(*values: object) -> int:
    """The first of these that is a moment, as milliseconds since 1970: of seconds, milliseconds or
    finer, or ISO 8601; 0 where none is.
    """
    return next((moment for value in values if (moment := _moment(value)) > 0), 0)


def day(moment: int) -> str:
    """The day of a moment as YYYY-MM-DD, "" of none."""
    return (
        datetime.fromtimestamp(moment / 1000, UTC).date().isoformat()
        if 0 < moment < _MILLISECONDS_BELOW
        else ""
    )


def _array(whole: str) -> list[object]:
    """What a JSON array holds, as far as it can be read."""
    try:
        return json.loads(whole)
    except (ValueError, RecursionError):
        pass
    found: list[object] = []
    place = 1
    try:
        while len(found) < 10 * MAX_ENTRIES:
            while place < len(whole) and whole[place] in " \t\r\n,":
                place += 1
            if place >= len(whole) or whole[place] == "]":
                break
            part, place = _DECODER.raw_decode(whole, place)
            found.append(part)
    except (ValueError, RecursionError):
        pass
    return found


def _moment(value: object) -> int:
    if isinstance(value, str | bytes):
        said = text(value)
        try:
            value = float(said)
        except ValueError:
            return _iso(said)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        return 0
    number = int(value * 1000) if value < _SECONDS_BELOW else int(value)
    while number >= _MILLISECONDS_BELOW:
        number //= 1000
    return number


def _iso(said: str) -> int:
    try:
        moment = datetime.fromisoformat(said)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
