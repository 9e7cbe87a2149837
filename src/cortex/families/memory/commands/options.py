"""Shared options of the memory commands, the selection they describe, and the library."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import InputError
from cortex.base.settings.values import parse_duration
from cortex.base.types import Citation, Progress
from cortex.engine.citations import cite
from cortex.engine.library import Library
from cortex.engine.sources.project import project_at
from cortex.engine.store import Remembered
from cortex.families.memory.background import tend
from cortex.families.memory.mirror import copied, is_due, sync
from cortex.families.memory.selection import Filter, choose, named
from cortex.toolkit.terminal.library import open_library
from cortex.toolkit.terminal.option_sets import option
from cortex.toolkit.terminal.output import progress_bar, say
from cortex.toolkit.terminal.workspace import from_root

# Time for copying new rows of other products' databases.
SYNC_SECONDS = 2.0
# Time without progress after which a command stops waiting for them.
STANDSTILL_SECONDS = 20.0
_YEAR, _WEEK = 365 * 86_400, 7 * 86_400


class StateName(StrEnum):
    """Filter by curation state."""

    ALL = "all"
    APPROVED = "approved"
    PROMOTED = "promoted"
    STAGING = "staging"
    UNCURATED = "uncurated"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    ANY = "any"


class NewState(StrEnum):
    """Initial state of a new memory."""

    STAGING = "staging"
    APPROVED = "approved"
    PROMOTED = "promoted"


IdsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="Which memories, by their ids.")
]
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Its id, or the beginning of one of your own.")
]
ProjectOption = Annotated[str, option("--project NAME", "Only of this project.")]
ScopeOption = Annotated[str, option("--scope NAME", "Only of this scope.")]
TagOption = Annotated[
    list[str] | None, option("--tag TAG", "Only with this tag; of several all must be there.")
]
AllFlag = Annotated[bool, typer.Option("--all", help="Every memory that the other options leave.")]
DryFlag = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
ReasonOption = Annotated[str, option("--reason TEXT", "Why, for the log.")]


@dataclass(frozen=True, slots=True)
class Selection:
    """Options that filter memories."""

    state: Annotated[
        list[StateName] | None,
        option(
            "--state",
            "Only in this state; all: those that are found, any: rejected and superseded ones, "
            "too; may be repeated.",
        ),
    ] = None
    project: ProjectOption = ""
    scope: ScopeOption = ""
    tag: TagOption = None
    kind: Annotated[str, option("--kind KIND", "Only of this kind, such as decision.")] = ""
    origin: Annotated[
        str, option("--origin FILE", "Only those of this database; own: those written here.")
    ] = ""
    matching: Annotated[
        str, option("--matching WORDS", "Only those that hold every one of these words.")
    ] = ""
    older_than: Annotated[
        str, option("--older-than AGE", "Only those older than, for example, 30d, 8w or 1y.")
    ] = ""

    def filter(self, *default: StateName) -> Filter:
        """Build the filter; without --state it selects the `default` states.

        Raises: InputError ARGUMENT_INVALID.
        """
        age = seconds_of(self.older_than) if self.older_than else 0
        return Filter(
            tuple(state.value for state in self.state or default),
            self.project,
            self.scope,
            tuple(self.tag or ()),
            self.kind,
            self.origin,
            self.matching,
            max(1, int((time.time() - age) * 1000)) if self.older_than else 0,
        )


@contextmanager
def memories(*, tell: bool = True, whole: bool = False, quiet: bool = False) -> Iterator[Library]:
    """Open the library after taking in hook notes and new rows of other products.

    Read problems are printed unless `tell` is off. With `whole`, wait for all rows, for decisions
    about every memory; a progress bar is shown unless `quiet`.
    """
    with open_library() as library:
        if library.holds_lease():
            tend(library)
        else:
            # The lease holder takes in hook notes.
            sync(library, seconds=SYNC_SECONDS)
        if whole:
            _await_whole(library, quiet=quiet)
        if tell:
            state = copied(library)
            for problem in state.problems:
                say(f"warning: {problem}", error=True)
            if state.left and state.rows:
                left = f"up to {state.left:,} of {state.rows:,} rows"
                say(f"note: {left} of other products are not read yet", error=True)
            elif state.left or (not state.problems and is_due(library)):
                say("note: what other products wrote last is not read yet", error=True)
        yield library


def _await_whole(library: Library, *, quiet: bool) -> None:
    """Wait until other products' databases are read completely, or there is no progress."""
    left, since = -1, time.monotonic()
    with progress_bar(not quiet) as progress:
        while is_due(library) and time.monotonic() - since < STANDSTILL_SECONDS:
            sync(library, seconds=SYNC_SECONDS)
            state = copied(library)
            progress(Progress("copying", state.rows - state.left, state.rows))
            if state.left != left:
                left, since = state.left, time.monotonic()


def chosen_by(
    library: Library,
    ids: Sequence[str] | None,
    wanted: Filter,
    default: Filter,
    *,
    everything: bool,
) -> list[Remembered]:
    """Select memories by ids or by filters.

    `default` is the filter of a command without any filter option.

    Raises: InputError ARGUMENT_INVALID, MEMORY_UNKNOWN or MEMORY_AMBIGUOUS.
    """
    if ids and (everything or wanted != default):
        raise InputError(
            "ARGUMENT_INVALID", "name memories by their ids, or choose them by options, not both"
        )
    if ids:
        return named(library, ids)
    if not everything:
        raise InputError(
            "ARGUMENT_INVALID",
            "which memories? Name them by their ids, or add --all for every one that the "
            "options leave",
        )
    return choose(library, wanted)[0]


def seconds_of(age: str) -> float:
    """Parse an age such as 30d, 8w or 1y to seconds. Raises: InputError ARGUMENT_INVALID."""
    text = age.strip().lower()
    for ending, seconds in (("w", _WEEK), ("y", _YEAR)):
        if text.endswith(ending) and text[:-1].isdecimal():
            return min(int(text[:-1]) * seconds, time.time())
    try:
        if not text or text[-1].isdecimal():
            raise ValueError
        return min(parse_duration(text), time.time())
    except ValueError:
        raise InputError(
            "ARGUMENT_INVALID", f"{age!r} is no age; one is written as 12h, 30d, 8w or 1y"
        ) from None


def citations_of(library: Library, folder: Path, targets: Sequence[str]) -> tuple[Citation, ...]:
    """Build citations of the current state of the targets. Raises: FileError, InputError."""
    project = project_at(folder)
    return tuple(
        cite(project.path, from_root(project, folder, target), library.view_in(project.path))
        for target in targets
    )
