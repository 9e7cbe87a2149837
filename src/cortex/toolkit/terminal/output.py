"""Output of commands for people and programs: errors, progress bars, snippets, JSON.

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
# Work that is done sooner gets no progress bar.
MOMENT_SECONDS = 0.5


# Characters that a terminal obeys instead of showing: control characters (C1 too), direction
# marks, rare line ends, and lone surrogates, which names in odd encodings contain.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str, *, lines: bool = False) -> str:
    """Return `text` with everything that a terminal would obey shown as an escape.

    With `lines`, tabs and line ends stay.
    """
    return _UNSEEN.sub(
        lambda match: match[0] if lines and match[0] in "\t\n" else ascii(match[0])[1:-1], text
    )


def say(text: str, *, error: bool = False, lines: bool = False) -> None:
    """Print a line for people, on stdout or stderr.

    Every text that comes from files, names or settings must be printed this way.
    """
    print(printable(text, lines=lines), file=sys.stderr if error else sys.stdout, flush=error)


def ask(question: str) -> bool:
    """Ask a person on the terminal; the question goes to stderr, since stdout is for the answer."""
    print(f"{printable(question)} [y/N]: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def decline() -> NoReturn:
    """End a command that the user declined: exit code 1, nothing was done."""
    say("nothing was changed", error=True)
    raise typer.Exit(1)


def many(count: int, noun: str) -> str:
    """Format a count with its noun in the singular or plural."""
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('x') else 's'}"


def print_json(body: object) -> None:
    """Print JSON on stdout for programs; terminal control characters are escaped as in JSON."""
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    _print_json_text(json.dumps(body, indent=2, ensure_ascii=False, default=str))


def print_error(error: CortexError, *, as_json: bool) -> None:
    """Print an error with suggestions: on stderr for people, as JSON on stdout for programs."""
    if as_json:
        _print_json_text(envelope(error))
        return
    say(f"error: {error.message} [{error.code}]", error=True)
    for suggestion in dict.fromkeys(error.suggestions):
        say(f"  - {suggestion}", error=True)


def _print_json_text(text: str) -> None:
    print(
        _UNSEEN.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)
    )


class PrintableFormatter(logging.Formatter):
    """Log formatter that escapes control characters: log lines contain file names."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return printable(super().formatException(ei), lines=True)


@contextmanager
def progress_bar(wanted: bool) -> Iterator[ProgressCallback]:
    """Show a progress bar on a terminal's stderr, for work that takes longer than a moment."""
    if not wanted or not sys.stderr.isatty():
        yield lambda step: None
        return
    began = time.monotonic()
    bar: ProgressCallback | None = None
    with ExitStack() as stack:

        def report(step: Progress) -> None:
            nonlocal bar
            if bar is None and time.monotonic() - began >= MOMENT_SECONDS:
                bar = stack.enter_context(_bar())
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
    kept, used = [], 1
    for character in text:
        used += width_of(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


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
    """Return the objects of a JSON list; empty where the value isn't a list."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
