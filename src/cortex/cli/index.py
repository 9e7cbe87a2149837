"""`cortex index`: bring a folder's index up to date, once or for as long as the command runs."""

from __future__ import annotations

import threading
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cortex.cli import workspace
from cortex.cli.show import print_json, progress_bar
from cortex.engine import Engine, rebuild_damaged
from cortex.errors import StoreError
from cortex.settings import Workspace
from cortex.types import IndexReport


def index(
    path: Annotated[Path | None, typer.Argument(help="The folder; default: the project around here.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on following changes until interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Build everything anew, even where nothing changed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer as JSON.")] = False,
) -> None:
    """Index a folder, or bring its index up to date."""
    for found in workspace.find([path] if path else []):
        with _open(found, force) as engine:
            with progress_bar(not as_json) as progress:
                report = engine.index(force=force, progress=progress)
            _show(engine, report, as_json)
            if watch:
                _watch(engine, as_json)


def _open(found: Workspace, force: bool) -> Engine:
    try:
        return Engine(found.root, found.settings)
    except StoreError as error:
        if error.code != "STORE_CORRUPT" or not force:
            raise
        kept = rebuild_damaged(found.root, found.settings)
        typer.echo(f"the damaged store was kept as {kept}", err=True)
        return Engine(found.root, found.settings)


def _show(engine: Engine, report: IndexReport, as_json: bool) -> None:
    vitals = engine.vitals()
    if as_json:
        print_json(
            {"workspace": str(engine.root), **asdict(report), "files": vitals.indexed_files, "chunks": vitals.chunks}
        )
        return
    parts = [f"{getattr(report, name)} {name}" for name in ("added", "changed", "deleted", "unchanged", "skipped")]
    print(f"{engine.root}: {', '.join(parts)} in {report.seconds:.1f} s")
    print(f"{vitals.indexed_files} files, {vitals.chunks} chunks, {vitals.disk_bytes / 1e6:.1f} MB")


def _watch(engine: Engine, as_json: bool) -> None:
    from cortex.keeper import Keeper

    keeper = Keeper(engine)
    if not as_json:
        print("watching; press Ctrl-C to stop")
    try:
        threading.Event().wait()
    finally:
        keeper.close()
