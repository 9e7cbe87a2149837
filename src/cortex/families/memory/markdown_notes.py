"""Parse a Markdown or text note: front matter, title and date. Pure.

Front matter is supported as people write it: `key: value`, and lists in brackets or in lines with
dashes (YAML), `key = value` (TOML). Everything else stays in the text. Road not taken: the YAML
parser that the settings use, which knows a hundred notations that no note needs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from cortex.families.memory.adapters.coerce import milliseconds

TITLE_CHARACTERS = 100
MAX_FRONT_LINES = 200
MAX_SUBTITLE = 300

_MONTHS = {
    name: month
    for month, names in enumerate(
        "jan january,feb february,mar march,apr april,may,jun june,jul july,aug august,sep sept "
        "september,oct october,nov november,"
        "dec december".split(","), 1)
    for name in names.split()
}  # fmt: skip
_MONTH = r"(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<!\d)(?P<year>(?:19|20)\d\d)[-/.](?P<number>\d\d)[-/.](?P<day>\d\d)(?!\d)",
        rf"(?<!\d)(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s{{1,3}}{_MONTH},?\s{{1,3}}(?P<year>(?:19|20)\d\d)(?!\d)",
        rf"\b{_MONTH}\s{{1,3}}(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s{{1,3}}(?P<year>(?:19|20)\d\d)(?!\d)",
        r"(?<!\d)(?P<year>(?:19|20)\d\d)(?P<number>[01]\d)(?P<day>[0-3]\d)(?!\d)",
    )
)
_CLOCK = re.compile(
    r"(?<![\d:])(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?::[0-5]\d)?\s?(?P<half>[ap]\.?m\b)?",
    re.IGNORECASE,
)
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_LINK = re.compile(r"!?\[([^\]\[]*)\]\([^)\s]*\)")
_BRACKETS = re.compile(r"[\[(]([^\])]{6,60})[\])]")
_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")


@dataclass(frozen=True, slots=True)
class MarkdownNote:
    """Text of a note with its metadata; missing fields are empty."""

    title: str
    subtitle: str
    tags: tuple[str, ...]
    kind: str
    # Milliseconds since 1970.
    created: int
    text: str


def read_note(text: str, path: str) -> MarkdownNote | None:
    """Parse a note, None if it is empty; the date may come from the file name."""
    fields, body = split_front_matter(text.removeprefix("\ufeff"))
    body = body.strip("\n").rstrip()
    lines = body.split("\n")
    first = next((line.strip() for line in lines if line.strip()), "")
    heading = _first_heading(lines)
    title = cut_title(_first_value(fields, "title", "name") or _without_links(heading) or first)
    if not title:
        return None
    first_heading = _HEADING.match(lines[0])
    if heading == title and first_heading and first_heading[1] == title:
        # The title has this line already.
        body = "\n".join(lines[1:]).strip("\n")
    subtitle = _first_value(fields, "description", "subtitle", "summary")
    return MarkdownNote(
        title=title,
        subtitle=" ".join(subtitle.split())[:MAX_SUBTITLE],
        tags=_tags(fields),
        kind=_first_value(fields, "type", "kind"),
        created=_created(fields, first, path),
        text=body,
    )


def split_front_matter(text: str) -> tuple[Mapping[str, tuple[str, ...]], str]:
    """Split a note into known front matter fields (lower case) and the rest of the text."""
    lines = text.split("\n")
    mark = lines[0].rstrip()
    if mark not in ("---", "+++"):
        return {}, text
    end = next(
        (row for row in range(1, min(len(lines), MAX_FRONT_LINES)) if lines[row].rstrip() == mark),
        0,
    )
    if not end:
        return {}, text
    fields, left = (_toml if mark == "+++" else _yaml)(lines[1:end])
    return fields, "\n".join([*left, *lines[end + 1 :]])


def cut_title(text: str) -> str:
    """Shorten a line to the length of a title, at a word boundary."""
    line = " ".join(text.split())
    if len(line) <= TITLE_CHARACTERS:
        return line
    cut = line[: TITLE_CHARACTERS + 1].rpartition(" ")[0]
    return cut if len(cut) > TITLE_CHARACTERS // 2 else line[:TITLE_CHARACTERS]


def find_moment(text: str) -> int:
    """First date in a text, with an adjacent time if there is one.

    Returns milliseconds since 1970, 0 if there is no date.
    """
    for pattern in _DATES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            month = int(parts["number"]) if parts.get("number") else _MONTHS[parts["month"].lower()]
            try:
                day = date(int(parts["year"]), month, int(parts["day"]))
            except ValueError:
                # An invalid date such as 2026-13-40.
                continue
            clock = _clock(text[: match.start()] + " " + text[match.end() :])
            return int(datetime.combine(day, clock, UTC).timestamp() * 1000)
    return 0


def _clock(text: str) -> time:
    match = _CLOCK.search(text)
    if match is None:
        return time()
    hour = int(match["hour"])
    if match["half"]:
        if not 1 <= hour <= 12:
            return time()
        hour = hour % 12 + (12 if match["half"].lower().startswith("p") else 0)
    return time(hour, int(match["minute"])) if hour < 24 else time()


def _created(fields: Mapping[str, tuple[str, ...]], first: str, path: str) -> int:
    value = _first_value(fields, "date", "created", "created_at", "updated")
    # Short numbers such as 2026 and 20260105 are dates, not seconds.
    exact = 0 if value.isdigit() and len(value) < 10 else milliseconds(value)
    if moment := exact or find_moment(value):
        return moment
    heading = _HEADING.match(first)
    places = [*_BRACKETS.findall(first), heading[1] if heading else "", path]
    return next((moment for place in places if (moment := find_moment(place))), 0)


def _first_heading(lines: list[str]) -> str:
    """First heading outside of code blocks, as written."""
    fence = ""
    for line in lines:
        if match := _FENCE.match(line):
            fence = "" if fence == match[1] else fence or match[1]
        elif not fence and (heading := _HEADING.match(line)) and heading[1]:
            return heading[1]
    return ""


def _without_links(heading: str) -> str:
    return _LINK.sub(lambda match: match[1], heading)


# -- front matter


def _yaml(lines: list[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    fields: dict[str, tuple[str, ...]] = {}
    left: list[str] = []
    open_list = ""
    for line in lines:
        entry = line.strip()
        if open_list and entry.startswith("- "):
            fields[open_list] += (_unquoted(entry[2:]),)
        elif (
            (field := _FIELD.match(line))
            and field[1].lower() in _KNOWN
            and (field[2] or "")[:1] not in ("|", ">")
        ):
            value = (field[2] or "").strip()
            open_list = "" if value else field[1].lower()
            fields[field[1].lower()] = _values(value)
        elif entry and not entry.startswith("#"):
            open_list = ""
            left.append(line)
    return fields, left


def _values(value: str) -> tuple[str, ...]:
    if value.startswith("[") and value.endswith("]"):
        return tuple(part for entry in value[1:-1].split(",") if (part := _unquoted(entry)))
    return (_unquoted(value),) if _unquoted(value) else ()


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1].strip()
    return value.partition(" #")[0].strip()


def _toml(lines: list[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    try:
        document = tomllib.loads("\n".join(lines))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}, lines
    known = {
        name.lower(): value if isinstance(value, list) else [value]
        for name, value in document.items()
    }
    left = [] if known.keys() <= _KNOWN else lines
    return {name: tuple(map(str, known[name])) for name in known.keys() & _KNOWN}, left


_KNOWN = frozenset({
    "title", "name", "description", "subtitle", "summary", "tags", "tag", "keywords", "concepts",
    "categories", "type", "kind", "date", "created", "created_at", "updated",
})  # fmt: skip


def _first_value(fields: Mapping[str, tuple[str, ...]], *names: str) -> str:
    return next((fields[name][0] for name in names if fields.get(name)), "")


def _tags(fields: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Tags without repeats, from lists or comma-separated words."""
    names = ("tags", "tag", "keywords", "concepts", "categories")
    entries = ",".join(entry for name in names for entry in fields.get(name, ()))
    tags = (part.strip().lstrip("#") for part in entries.split(","))
    return tuple(dict.fromkeys(tag for tag in tags if tag))
