"""How a team's records look on a terminal and as JSON; opens nothing."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cortex.base.record_model import CodeLink, Record
from cortex.toolkit.terminal.output import cut_to, moment, padded, print_json, say, width_of

MOMENTS = ("last_reviewed", "reviewed_at", "expires")  # fields that are milliseconds
MIN_TITLE, MAX_CELL, MAX_WIDTH = 20, 14, 100
LABEL = 12
_LIST = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+|\s+")

Titles = Mapping[str, Record[Any]]  # records that others point to


# -- for programs
# ------------------------------------------------------------------------------------------------------


def record_json(record: Record[Any]) -> dict[str, object]:
    """A record for programs: its header, and all that its body says."""
    body = asdict(record.body)
    for name in MOMENTS:
        if name in body:
            body[name] = moment(body[name])
    return {
        "id": record.id,
        "kind": record.kind,
        "version": record.version,
        "author": record.author,
        "created_at": moment(record.created),
        "updated_at": moment(record.updated),
        "title": record.body.title,
        "state": record.body.state,
        **body,
    }


def brief_json(record: Record[Any]) -> dict[str, object]:
    """A record that another one is told with."""
    return {
        "id": record.id,
        "kind": record.kind,
        "title": record.body.title,
        "state": record.body.state,
    }


def tell_record(record: Record[Any], text: str, *, as_json: bool) -> int:
    """Say what was done with a record: to programs the record itself."""
    if as_json:
        print_json(record_json(record))
    else:
        say(text)
    return 0


# -- for people
# --------------------------------------------------------------------------------------------------------


def say_rows(rows: Sequence[Sequence[str]]) -> None:
    """A line for each row, its cells in columns; the first, an id, is never cut, and the last has
    what is left of the line.
    """
    cells = [[row[0], *(cut_to(_line(cell), MAX_CELL) for cell in row[1:-1])] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
    room = columns()
    for row, told in zip(rows, cells, strict=True):
        begin = " ".join(
            padded(cell, width) for cell, width in zip(told, widths, strict=True) if width
        )
        title = _line(row[-1])
        say(
            f"{begin} {cut_to(title, max(MIN_TITLE, room - width_of(begin) - 1)) if room else title}".rstrip()
        )


def say_more(more: bool) -> None:
    """That there are more than are shown, on stderr."""
    if more:
        say("there are more: show them with --limit", error=True)


def say_head(
    record: Record[Any], labels: Sequence[tuple[str, str]], warnings: Sequence[str] = ()
) -> None:
    """The title of a record, what is known of it, and what to be careful about."""
    say(record.body.title)
    say("")
    say_labels([("ID", record.id), *labels, ("Made", _made(record))])
    for warning in warnings:
        say(f"warning: {warning}")


def say_labels(labels: Sequence[tuple[str, str]]) -> None:
    """Names and values, those that say something."""
    for label, value in labels:
        if value:
            say(f"{label + ':':<{LABEL - 1}} {value}")


def say_text(text: str, heading: str = "", *, gap: bool = True) -> None:
    """A text of several lines, with an empty line before it; on a terminal wrapped between words."""
    if not text.strip():
        return
    if gap:
        say("")
    if heading:
        say(f"{heading}:")
    say(wrapped(text.strip("\n"), min(columns(), MAX_WIDTH)), lines=True)


def beginning_of(text: str, lines: int = 30) -> list[str]:
    """The first lines of a text, indented, and how many more there are."""
    given = text.strip("\n").splitlines() if text.strip() else []
    more = len(given) - lines
    return [f"  | {line}" for line in given[:lines]] + (
        [f"  | … {more} more lines"] if more > 0 else []
    )


def say_list(heading: str, entries: Sequence[str]) -> None:
    """A list with a heading, where it has anything."""
    if entries:
        say("")
        say(f"{heading}:")
        for entry in entries:
            say(wrapped(f"  {_line(entry)}", min(columns(), MAX_WIDTH)), lines=True)


def told_title(number: str, known: Titles) -> str:
    """An id with the title of its record, where that is there."""
    record = known.get(number)
    return f"{number}: {record.body.title}" if record else number


def told_subcortex(number: str, known: Titles) -> str:
    """The slug of a subcortex, its id where it isn't there."""
    record = known.get(number)
    return record.body.slug if record else number


def told_code(link: CodeLink) -> str:
    """Code that a record speaks of."""
    return f"{link.path}{f'#{link.symbol}' if link.symbol else ''}"


def day(milliseconds: int) -> str:
    """The day of a moment, for a list."""
    return moment(milliseconds)[:10]


def columns() -> int:
    """How wide the terminal is; 0 where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def wrapped(text: str, width: int) -> str:
    """A text with its long lines broken between words, as wide as `width` (0: as it is); code stays
    as it is.
    """
    if not width:
        return text
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        if fenced or width_of(line) <= width:
            lines.append(line)
            continue
        indent = " " * len(found[0]) if (found := _LIST.match(line)) else ""
        lines += textwrap.wrap(
            line,
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
    return "\n".join(lines)


def _made(record: Record[Any]) -> str:
    later = (
        f", changed {moment(record.updated)} (version {record.version})"
        if record.version > 1
        else ""
    )
    return f"{moment(record.created)} by {record.author}{later}"


def _line(text: str) -> str:
    return " ".join(text.split())
