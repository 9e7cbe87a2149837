"""`cortex context`: where the contributions that come from a project belong, in the project's
`.cortex/config.json`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cortex.base.errors import InputError
from cortex.base.record_model import Record
from cortex.base.settings import Workspace, environment
from cortex.engine.library import Library
from cortex.families.team.commands.options import team
from cortex.families.team.commands.render import Titles, say_labels, told_title
from cortex.families.team.project_context import NAMES
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes.placement import (
    Placement,
    ProjectContext,
    clear_context,
    context_file,
    read_context,
    route,
    write_context,
)
from cortex.toolkit.terminal import workspace
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say

NOTHING = "This project says nothing: what agents write here waits as drafts without a place."
START = "Say where it belongs: `cortex context set --subcortex SLUG`, or --thread or --task."

PathOption = Annotated[
    Path | None,
    typer.Option("--path", metavar="PATH", help="The project; default: the one around here."),
]

app = typer.Typer(
    name="context",
    help="Where what comes from a project belongs: its subcortex, thread and task.",
    no_args_is_help=True,
)


@app.command("set")
def set_context(
    subcortex: Annotated[
        str | None,
        typer.Option("--subcortex", metavar="SLUG", help="The subcortex of this project."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="The thread of this project.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="ID", help="The task of this project: its thread counts."),
    ] = None,
    path: PathOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Say where contributions from this project belong; what isn't named stays as it is."""
    if subcortex is None and thread is None and task is None:
        raise InputError("ARGUMENT_INVALID", "say what to set: --subcortex, --thread or --task")
    root = _root(path)
    with team() as library:
        found = {
            kind: _open_one(library, told, kind)
            for kind, told in (("subcortex", subcortex), ("thread", thread), ("task", task))
            if told is not None
        }
        named = {
            kind: one.body.slug if kind == "subcortex" else one.id for kind, one in found.items()
        }
        write_context(root, **named)
        return _tell(library, root, as_json=as_json)


@app.command("show")
def show(path: PathOption = None, as_json: JsonFlag = False) -> int:
    """Show where contributions from this project go, and why."""
    with team() as library:
        return _tell(library, _root(path), as_json=as_json)


@app.command("clear")
def clear(
    subcortex: Annotated[bool, typer.Option("--subcortex", help="Only the subcortex.")] = False,
    thread: Annotated[bool, typer.Option("--thread", help="Only the thread.")] = False,
    task: Annotated[bool, typer.Option("--task", help="Only the task.")] = False,
    path: PathOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Have this project say nothing any more, or with options nothing of these; everything else in
    its file stays.
    """
    root = _root(path)
    whole = not (subcortex or thread or task)
    clear_context(root, thread=thread or whole, task=task or whole, subcortex=subcortex or whole)
    with team() as library:
        return _tell(library, root, as_json=as_json)


def _root(path: Path | None) -> Path:
    return _found(path)[0].root


def _found(path: Path | None) -> tuple[Workspace, list[str]]:
    """The project, and what is wrong with its settings, which is said once: with what they lead to."""
    found, warnings = workspace.find_for([path] if path else [], environment(), Path.cwd())
    return found[0], warnings


def _open_one(library: Library, told: str, kind: str) -> Record[Any]:
    """The record that was named, where it counts as a project's.

    Raises: InputError RECORD_UNKNOWN, TARGET_NOT_FOUND.
    """
    lookup = library.store.recorded
    record = resolve_ref(lookup, told, kind)
    where = route(lookup, {NAMES[kind]: record.id})
    if getattr(where, kind) != record.id:
        why = f"nothing can be added there: {'; '.join(where.missing)}"
        raise InputError("TARGET_NOT_FOUND", why, context={"field": kind, "id": record.id})
    return record


def _tell(library: Library, root: Path, *, as_json: bool) -> int:
    """What the project says, and where that leads."""
    lookup = library.store.recorded
    told = read_context(root)
    here, warnings = _found(root)
    for warning in warnings:
        # Those of the person were said when the library was opened
        if warning not in library.settings.warnings:
            say(f"warning: {warning}", error=True)
    where = route(lookup, here.settings.families)
    known = lookup.get((where.thread, where.task, where.subcortex))
    if as_json:
        print_json(_json(root, told, where))
    else:
        _say(root, told, where, known)
    return 0


def _json(root: Path, told: ProjectContext, where: Placement) -> dict[str, object]:
    return {
        "root": str(root),
        "file": str(context_file(root)),
        "context": {"subcortex": told.subcortex, "thread": told.thread, "task": told.task},
        "route": {
            "thread": where.thread,
            "task": where.task,
            "subcortex": where.subcortex,
            "why": where.why,
        },
        "missing": list(where.missing),
    }


def _say(root: Path, told: ProjectContext, where: Placement, known: Titles) -> None:
    for problem in where.missing:
        say(f"warning: {problem}", error=True)
    if told == ProjectContext() and not known:
        say(NOTHING, error=True)
        say(START, error=True)
        return
    say_labels(
        [
            ("Project", str(root)),
            ("Subcortex", _subcortex(where.subcortex, known)),
            ("Thread", told_title(where.thread, known) if where.thread else ""),
            ("Task", told_title(where.task, known) if where.task else ""),
            ("Because", where.why),
        ]
    )


def _subcortex(number: str, known: Titles) -> str:
    """A subcortex by the slug that people type, its id and its name."""
    found = known.get(number)
    return f"{found.body.slug} ({told_title(number, known)})" if found else number
