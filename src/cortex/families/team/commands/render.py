"""Rendering of a team's records for the terminal and as JSON. Opens nothing."""

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

# Fields with a time in milliseconds.
MOMENTS = ("last_reviewed", "reviewed_at", "expires")
MIN_TITLE, MAX_CELL, MAX_WIDTH = 20, 14, 100
LABEL = 12
_LIST = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+|\s+")

Titles = Mapping[str, Record[Any]]  # records that others point to


# -- JSON


def record_json(record: Record[Any]) -> dict[str, object]:
    """Encode the header and all fields of a record as JSON."""
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
    """Encode a related record as JSON, without its body."""
    return {
        "id": record.id,
        "kind": record.kind,
        "title": record.body.title,
        "state": record.body.state,
    }


def print_record(record: Record[Any], text: str, *, as_json: bool) -> int:
    """Print the result of a write: `text`, or the record as JSON."""
    if as_json:
        print_json(record_json(record))
    else:
        say(text)
    return 0


# -- terminal


def say_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; the first cell, an id, is never cut, the last gets the rest."""
    cells = [[row[0], *(cut_to(_one_line(cell), MAX_CELL) for cell in row[1:-1])] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
    room = columns()
    for row, shown in zip(rows, cells, strict=True):
        begin = " ".join(
            padded(cell, width) for cell, width in zip(shown, widths, strict=True) if width
        )
        title = _one_line(row[-1])
        say(
            (
                f"{begin} "
                f"{cut_to(title, max(MIN_TITLE, room - width_of(begin) - 1)) if room else title}"
            ).rstrip()
        )


def say_more(more: bool) -> None:
    """Print a note to stderr if the list has more entries."""
    if more:
        say("there are more: show them with --limit", error=True)


def say_head(
    record: Record[Any], labels: Sequence[tuple[str, str]], warnings: Sequence[str] = ()
) -> None:
    """Print the title, labels and warnings of a record."""
    say(record.body.title)
    say("")
    say_labels([("ID", record.id), *labels, ("Made", _history_line(record))])
    for warning in warnings:
        say(f"warning: {warning}")


def say_labels(labels: Sequence[tuple[str, str]]) -> None:
    """Print labels with their values, without empty ones."""
    for label, value in labels:
        if value:
            say(f"{label + ':':<{LABEL - 1}} {value}")


def say_text(text: str, heading: str = "", *, gap: bool = True) -> None:
    """Print a text after an empty line, wrapped between words on a terminal."""
    if not text.strip():
        return
    if gap:
        say("")
    if heading:
        say(f"{heading}:")
    say(wrapped(text.strip("\n"), min(columns(), MAX_WIDTH)), lines=True)


def beginning_of(text: str, lines: int = 30) -> list[str]:
    """Quote the first lines of a text, with the number of remaining ones."""
    given = text.strip("\n").splitlines() if text.strip() else []
    more = len(given) - lines
    return [f"  | {line}" for line in given[:lines]] + (
        [f"  | … {more} more lines"] if more > 0 else []
    )


def say_list(heading: str, entries: Sequence[str]) -> None:
    """Print a list with a heading, unless it is empty."""
    if entries:
        say("")
        say(f"{heading}:")
        for entry in entries:
            say(wrapped(f"  {_one_line(entry)}", min(columns(), MAX_WIDTH)), lines=True)


def title_with_id(record_id: str, known: Titles) -> str:
    """Return an id with the title of its record, if that is known."""
    record = known.get(record_id)
    return f"{record_id}: {record.body.title}" if record else record_id


def name_of(record: Record[Any]) -> str:
    """Return the slug or the id by which commands name a record."""
    return getattr(record.body, "slug", "") or record.id


def subcortex_name(subcortex_id: str, known: Titles) -> str:
    """Return the slug of a subcortex, or its id if the record isn't known."""
    record = known.get(subcortex_id)
    return record.body.slug if record else subcortex_id


def code_name(link: CodeLink) -> str:
    """Render a code link as PATH or PATH#SYMBOL."""
    return f"{link.path}{f'#{link.symbol}' if link.symbol else ''}"


def day(milliseconds: int) -> str:
    """Format a time as a date, for a list."""
    return moment(milliseconds)[:10]


def columns() -> int:
    """Width of the terminal; 0 if there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def wrapped(text: str, width: int) -> str:
    """Wrap long lines between words at `width` (0: not at all), except in fenced code."""
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
        indent = " " * len(marker[0]) if (marker := _LIST.match(line)) else ""
        lines += textwrap.wrap(
            line,
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
    return "\n".join(lines)


def _history_line(record: Record[Any]) -> str:
    later = (
        f", changed {moment(record.updated)} (version {record.version})"
        if record.version > 1
        else ""
    )
    return f"{moment(record.created)} by {record.author}{later}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
