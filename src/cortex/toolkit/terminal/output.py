"""How commands speak to people and programs: errors, progress bars, snippets, JSON.

rich is loaded only for a terminal.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

import typer

from cortex.base.errors import CortexError
from cortex.base.text import rfc3339
from cortex.base.types import Progress, ProgressCallback
from cortex.toolkit.tool import envelope

STAGES = {
    "scanning": "Looking for files",
    "reading": "Indexing",
    "embedding": "Embedding",
    "copying": "Reading other products",
}
MOMENT_SECONDS = 0.5  # what is done sooner needs no bar


# What a terminal obeys instead of showing it: control characters (those of C1 too), marks that turn
# the direction of writing, line ends that only some know, and halves of characters, which names in
# odd encodings hold.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str, *, lines: bool = False) -> str:
    """`text` as a terminal may get it: what it would obey is shown as an escape; with `lines`, tabs
    and line ends stay.
    """
    return _UNSEEN.sub(
        lambda found: found[0] if lines and found[0] in "\t\n" else ascii(found[0])[1:-1], text
    )


def say(text: str, *, error: bool = False, lines: bool = False) -> None:
    """A line for people, on stdout or stderr; every text that comes from files, names or settings
    takes this way.
    """
    print(printable(text, lines=lines), file=sys.stderr if error else sys.stdout, flush=error)


def ask(question: str) -> bool:
    """Ask a person on the terminal; the question goes to stderr, since stdout is for the answer."""
    print(f"{printable(question)} [y/N]: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def decline() -> NoReturn:
    """End a command whose question was answered with no: exit code 1, and nothing was done."""
    say("nothing was changed", error=True)
    raise typer.Exit(1)


def many(number: int, noun: str) -> str:
    """A number of things, one of them in the singular."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('x') else 's'}"


def print_json(body: object) -> None:
    """JSON on stdout, for programs; what a terminal would obey is escaped as JSON does it."""
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    _print_json_text(json.dumps(body, indent=2, ensure_ascii=False, default=str))


def print_error(error: CortexError, *, as_json: bool) -> None:
    """An error with what to do about it: on stderr for people, as JSON on stdout for programs."""
    if as_json:
        _print_json_text(envelope(error))
        return
    say(f"error: {error.message} [{error.code}]", error=True)
    for suggestion in dict.fromkeys(error.suggestions):
        say(f"  - {suggestion}", error=True)


def _print_json_text(text: str) -> None:
    print(
        _UNSEEN.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)
    )


class PrintableFormatter(logging.Formatter):
    """Log lines hold names of files as well."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return printable(super().formatException(ei), lines=True)


@contextmanager
def progress_bar(wanted: bool) -> Iterator[ProgressCallback]:
    """A progress bar on a terminal's stderr, for what takes longer than a moment; nothing anywhere
    else.
    """
    if not wanted or not sys.stderr.isatty():
        yield lambda step: None
        return
    began = time.monotonic()
    bar: ProgressCallback | None = None
    with ExitStack() as shown:

        def report(step: Progress) -> None:
            nonlocal bar
            if bar is None and time.monotonic() - began >= MOMENT_SECONDS:
                bar = shown.enter_context(_bar())
            if bar is not None:
                bar(step)

        yield report


@contextmanager
def _bar() -> Iterator[ProgressCallback]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Looking for files", total=None)

        def report(step: Progress) -> None:
            description = STAGES.get(step.stage, step.stage)
            bar.update(task, description=description, completed=step.done, total=step.total or None)

        yield report


def moment(milliseconds: int) -> str:
    """Format a time in RFC 3339; empty for a time that no clock can have shown."""
    try:
        return rfc3339(milliseconds / 1000) if milliseconds > 0 else ""
    except (ValueError, OverflowError, OSError):
        return ""


def cut_to(text: str, width: int) -> str:
    """Shorten a text to a number of columns, with control characters made visible."""
    text = printable(text)
    if width_of(text) <= width:
        return text
    taken, used = [], 1
    for character in text:
        used += width_of(character)
        if used > width:
            break
        taken.append(character)
    return "".join(taken).rstrip() + "…"


def padded(text: str, width: int) -> str:
    """Pad a text with spaces to a number of columns."""
    return text + " " * (width - width_of(text))


def width_of(text: str) -> int:
    """Count the columns that a terminal needs for a text."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def rows(value: object) -> list[Mapping[str, object]]:
    """Return the objects of a JSON list; empty where the value is no list."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
