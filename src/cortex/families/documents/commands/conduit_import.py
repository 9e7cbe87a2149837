"""`cortex kb import`: import the documents of another product."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.settings import environment, find_conduit
from cortex.toolkit.terminal.library import open_library
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, progress_bar, say

app = typer.Typer(help="Take over the documents of another product.", no_args_is_help=True)


@app.callback()
def _imports() -> None:
    """Take over the documents of another product."""


@app.command("conduit")
def import_conduit(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="conduit.db, or its folder; default: CONDUIT_HOME, else ~/.conduit.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Take over the sources of a Conduit knowledge base, version 1 or 2, with their ids and names;
    it is only read.
    """
    from cortex.families.documents import conduit_import

    with open_library() as library, progress_bar(not as_json) as progress:
        done = conduit_import.import_conduit(
            library, path or find_conduit(environment(), Path.home()), progress=progress
        )
    if as_json:
        print_json(asdict(done))
        return 0 if done.complete else 2
    for source in done.sources:
        if source.status in (conduit_import.ADDED, conduit_import.PRESENT):
            again = " (was here already)" if source.status == conduit_import.PRESENT else ""
            counts = f"{source.documents} documents, {source.chunks} chunks" + (
                f", {source.skipped} skipped" if source.skipped else ""
            )
            say(f"✓ {source.name}{again}: {counts}")
            say(f"  ID: {source.id}")
            say(f"  Path: {source.path}")
        else:
            say(f"✗ {source.name} ({source.id}): {source.reason}: {source.path}", error=True)
    say(f"Conduit base, version {done.version}: {len(done.sources)} sources; {done.note}")
    return 0 if done.complete else 2
