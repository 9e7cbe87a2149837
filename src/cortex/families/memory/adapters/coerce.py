"""Convert values of other products' columns to strings, lists and timestamps.

Lenient: an invalid value is empty, a long one is cut. Knows no table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

# Characters of a text.
MAX_CHARACTERS = 20_000
# Characters of the name of a project, a kind or a session.
MAX_NAME = 200
# Entries of a list.
MAX_ENTRIES = 200
# Characters of a whole list as stored.
MAX_LIST_CHARACTERS = 400_000

# Smaller timestamps are in seconds: in milliseconds they would be before 1974.
_SECONDS_BELOW = 10**11
_MILLISECONDS_BELOW = 10**14
_DECODER = json.JSONDecoder()


def text(value: object) -> str:
    """Stripped text without characters that can't be stored."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value is None:
        return ""
    whole = value if isinstance(value, str) else str(value)
    whole = whole[:MAX_CHARACTERS].replace("\0", "").strip()
    return whole if whole.isascii() else whole.encode("utf-8", "replace").decode("utf-8")


def line(value: object) -> str:
    """Text in one line."""
    return " ".join(text(value).split())


def first_line(value: str, limit: int = 200) -> str:
    """First line of a text, shortened for a title."""
    first = " ".join(value[: 10 * limit].lstrip().partition("\n")[0].split()).lstrip("# ")
    return first if len(first) <= limit else f"{first[: limit - 1].rstrip()}…"


def title_from(body: str, subtitle: str, facts: Sequence[str]) -> str:
    """Title for a memory without one: the start of its text, its subtitle or its first fact."""
    return first_line(body) or subtitle or first_line(facts[0] if facts else "")


def entries(value: object, separator: str) -> tuple[str, ...]:
    """Parse a stored list without repeats.

    Accepts a JSON array, also a truncated one, or a text with separators.
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
            decoded = json.loads(whole)
        except (ValueError, RecursionError):
            decoded = whole
        whole = decoded if isinstance(decoded, str) else ""
    return unique(whole.split(separator))


def unique(parts: Iterable[object]) -> tuple[str, ...]:
    """Texts among these values, each once, in order."""
    texts: dict[str, None] = {}
    for part in parts:
        is_entry = isinstance(part, str | int | float) and not isinstance(part, bool)
        if is_entry and (entry := text(part)):
            texts[entry] = None
            if len(texts) == MAX_ENTRIES:
                break
    return tuple(texts)


def milliseconds(*values: object) -> int:
    """First valid timestamp, as milliseconds since 1970; 0 if there is none.

    Accepts seconds, milliseconds or finer units, and ISO 8601.
    """
    return next((moment for value in values if (moment := _timestamp(value)) > 0), 0)


def day(moment: int) -> str:
    """Date of a timestamp as YYYY-MM-DD, "" for none."""
    if not 0 < moment < _MILLISECONDS_BELOW:
        return ""
    return datetime.fromtimestamp(moment / 1000, UTC).date().isoformat()


def _array(whole: str) -> list[object]:
    """Elements of a JSON array, as far as it can be parsed."""
    try:
        return json.loads(whole)
    except (ValueError, RecursionError):
        pass
    parts: list[object] = []
    position = 1
    try:
        while len(parts) < 10 * MAX_ENTRIES:
            while position < len(whole) and whole[position] in " \t\r\n,":
                position += 1
            if position >= len(whole) or whole[position] == "]":
                break
            part, position = _DECODER.raw_decode(whole, position)
            parts.append(part)
    except (ValueError, RecursionError):
        pass
    return parts


def _timestamp(value: object) -> int:
    if isinstance(value, str | bytes):
        content = text(value)
        try:
            value = float(content)
        except ValueError:
            return _iso(content)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    if not math.isfinite(value) or value <= 0:
        return 0
    timestamp = int(value * 1000) if value < _SECONDS_BELOW else int(value)
    while timestamp >= _MILLISECONDS_BELOW:
        timestamp //= 1000
    return timestamp


def _iso(content: str) -> int:
    try:
        moment = datetime.fromisoformat(content)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
