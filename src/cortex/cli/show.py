"""How commands speak to people and programs: errors, progress bars, snippets, JSON. rich is loaded only for a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cortex.errors import CortexError
from cortex.tools import envelope
from cortex.types import Progress, ProgressCallback

STAGES = {"scanning": "Looking for files", "reading": "Indexing"}


def print_json(body: object) -> None:
    """JSON on stdout, for programs."""
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    print(json.dumps(body, indent=2, ensure_ascii=False, default=str))


def print_error(error: CortexError, *, as_json: bool) -> None:
    """An error with what to do about it: on stderr for people, as JSON on stdout for programs."""
    if as_json:
        print(envelope(error))
        return
    print(f"error: {error.message} [{error.code}]", file=sys.stderr)
    for suggestion in dict.fromkeys(error.suggestions):
        print(f"  - {suggestion}", file=sys.stderr)


@contextmanager
def progress_bar(wanted: bool) -> Iterator[ProgressCallback]:
    """A progress bar on a terminal's stderr; nothing anywhere else."""
    if not wanted or not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Looking for files", total=None)

        def report(step: Progress) -> None:
            description = STAGES.get(step.stage, step.stage)
            bar.update(task, description=description, completed=step.done, total=step.total or None)

        yield report
