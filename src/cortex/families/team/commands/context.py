"""`cortex team context`: placement of a project's contributions, in its `.cortex/config.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cortex.base.errors import InputError
from cortex.base.record_model import Record
from cortex.base.settings import Workspace, environment
from cortex.engine.library import Library
from cortex.families.team.commands.options import team
from cortex.families.team.commands.render import Titles, say_labels, title_with_id
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
START = "Say where it belongs: `cortex team context set --subcortex SLUG`, or --thread or --task."

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
        records = {
            kind: _resolve_open(library, ref, kind)
            for kind, ref in (("subcortex", subcortex), ("thread", thread), ("task", task))
            if ref is not None
        }
        named = {
            kind: record.body.slug if kind == "subcortex" else record.id
            for kind, record in records.items()
        }
        write_context(root, **named)
        return _print_context(library, root, as_json=as_json)


@app.command("show")
def show(path: PathOption = None, as_json: JsonFlag = False) -> int:
    """Show where contributions from this project go, and why."""
    with team() as library:
        return _print_context(library, _root(path), as_json=as_json)


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
        return _print_context(library, root, as_json=as_json)


def _root(path: Path | None) -> Path:
    return _find_workspace(path)[0].root


def _find_workspace(path: Path | None) -> tuple[Workspace, list[str]]:
    """Find the project and the warnings about its settings, which are printed once."""
    workspaces, warnings = workspace.find_for([path] if path else [], environment(), Path.cwd())
    return workspaces[0], warnings


def _resolve_open(library: Library, ref: str, kind: str) -> Record[Any]:
    """Resolve a record that contributions can be added to.

    Raises: InputError RECORD_UNKNOWN, TARGET_NOT_FOUND.
    """
    lookup = library.store.records
    record = resolve_ref(lookup, ref, kind)
    placement = route(lookup, {NAMES[kind]: record.id})
    if getattr(placement, kind) != record.id:
        why = f"nothing can be added there: {'; '.join(placement.missing)}"
        raise InputError("TARGET_NOT_FOUND", why, context={"field": kind, "id": record.id})
    return record


def _print_context(library: Library, root: Path, *, as_json: bool) -> int:
    """Print the project's context and the placement that follows from it."""
    lookup = library.store.records
    context = read_context(root)
    here, warnings = _find_workspace(root)
    for warning in warnings:
        # Warnings about the person's settings were printed when the library was opened.
        if warning not in library.settings.warnings:
            say(f"warning: {warning}", error=True)
    placement = route(lookup, here.settings.families)
    known = lookup.get((placement.thread, placement.task, placement.subcortex))
    if as_json:
        print_json(_json(root, context, placement))
    else:
        _print_text(root, context, placement, known)
    return 0


def _json(root: Path, context: ProjectContext, placement: Placement) -> dict[str, object]:
    return {
        "root": str(root),
        "file": str(context_file(root)),
        "context": {"subcortex": context.subcortex, "thread": context.thread, "task": context.task},
        "route": {
            "thread": placement.thread,
            "task": placement.task,
            "subcortex": placement.subcortex,
            "why": placement.why,
        },
        "missing": list(placement.missing),
    }


def _print_text(root: Path, context: ProjectContext, placement: Placement, known: Titles) -> None:
    for problem in placement.missing:
        say(f"warning: {problem}", error=True)
    if context == ProjectContext() and not known:
        say(NOTHING, error=True)
        say(START, error=True)
        return
    say_labels(
        [
            ("Project", str(root)),
            ("Subcortex", _subcortex(placement.subcortex, known)),
            ("Thread", title_with_id(placement.thread, known) if placement.thread else ""),
            ("Task", title_with_id(placement.task, known) if placement.task else ""),
            ("Because", placement.why),
        ]
    )


def _subcortex(subcortex_id: str, known: Titles) -> str:
    """Render a subcortex with its slug, id and name."""
    record = known.get(subcortex_id)
    return f"{record.body.slug} ({title_with_id(subcortex_id, known)})" if record else subcortex_id
