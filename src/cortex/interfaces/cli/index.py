"""`cortex index`: bring a folder's index up to date, once or continuously."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortex.base.errors import CortexError
from cortex.base.types import Cancel, IndexReport
from cortex.engine.engine import Engine
from cortex.families.chunkfiles.commands import Following, describe, open_exporter
from cortex.interfaces.cli.status import meet, rows
from cortex.interfaces.daemon.control import look
from cortex.toolkit.terminal import workspace
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, progress_bar, say

# The exporter loads numpy, which few commands need.
if TYPE_CHECKING:
    from cortex.families.chunkfiles.exporter import Exporter, Report

WAKE_SECONDS = 0.5
# Time limit for the status of cortexd.
LOOK_SECONDS = 1.0


def index(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="The folder; default: the project around here."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on following changes until interrupted.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild everything, even if nothing changed.")
    ] = False,
    chunks: Annotated[
        bool,
        typer.Option(
            "--chunks",
            help=(
                "Write chunk files, too, as `cortex chunks export` does; with --watch keep them "
                "current."
            ),
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Index a folder, or bring its index up to date."""
    with ExitStack() as stack:
        engines = [
            stack.enter_context(Engine(target.root, target.settings))
            for target in workspace.find([path] if path else [])
        ]
        exporters = [open_exporter(engine) for engine in engines] if chunks else []
        reports, failed = [], None
        for engine in engines:
            with progress_bar(not as_json) as progress:
                reports.append((engine, engine.index(force=force, progress=progress)))
                try:
                    # With --watch the embedding happens in the background.
                    if not watch and engine.holds_lease():
                        engine.embedding.embed(progress=progress, cancel=Cancel())
                # Raised after the reports of the completed steps.
                except CortexError as error:
                    failed = error
        exports = _export(exporters, as_json)
        if as_json:
            rows = [_row(*pair) for pair in reports]
            for row, export in zip(rows, exports, strict=False):
                row["chunk_files"] = asdict(export)
            print_json(rows[0] if len(rows) == 1 else {"workspaces": rows})
        else:
            for pair in reports:
                _show(*pair)
            for export in exports:
                say(describe(export))
        if failed is not None:
            raise failed
        if watch:
            _watch(engines, exporters, as_json)
            return 0
        waiting = [why for engine in engines if (why := _not_embedded(engine))]
        for why in (
            *waiting,
            *(note for engine in engines for note in engine.state.shortcomings()),
        ):
            say(f"warning: {why}", error=True)
        return 1 if waiting else 0


def _row(engine: Engine, report: IndexReport) -> dict[str, object]:
    stats = engine.vitals()
    return {
        "workspace": str(engine.root),
        **asdict(report),
        "files": stats.indexed_files,
        "chunks": stats.chunks,
        "embedding": stats.embedding.as_json() if stats.embedding else None,
        "over_max_files": engine.state.over_limit,
    }


def _show(engine: Engine, report: IndexReport) -> None:
    stats = engine.vitals()
    parts = [
        f"{getattr(report, name)} {name}"
        for name in ("added", "changed", "deleted", "unchanged", "skipped")
    ]
    say(f"{engine.root}: {', '.join(parts)} in {report.seconds:.1f} s")
    say(f"{stats.indexed_files} files, {stats.chunks} chunks, {stats.disk_bytes / 1e6:.1f} MB")
    if (state := stats.embedding) is not None and (state.costly or state.share < 1):
        say(f"{state.share:.0%} embedded by {state.provider} {state.model}".rstrip())


def _not_embedded(engine: Engine) -> str:
    """Explain why the process that writes to the index doesn't embed as this one is configured.

    Empty if it does, or if nothing is left to embed.
    """
    state = engine.embedding.status()
    if state is None or state.share == 1 or engine.holds_lease():
        return ""
    holder = engine.store.lease.holder()
    start = (
        f"{engine.root} is not fully embedded by {state.provider}: process {holder} writes to the "
        "index"
    )
    cortexd = look(meet(None), LOOK_SECONDS)
    if cortexd.pid != holder:
        return (
            f"{start}, with the settings of files and its own environment; if it doesn't apply a "
            "change, restart the client that started it"
        )
    for project in rows(cortexd.status.get("projects")):
        embedding = project.get("embedding")
        if project.get("root") != str(engine.root) or not isinstance(embedding, Mapping):
            continue
        # That process is embedding; `cortex status` shows its progress.
        if embedding.get("provider") == state.provider:
            return f"{start}: {embedding['problem']}" if embedding.get("problem") else ""
    return (
        f"{start}, with the settings of files: `cortex models use {state.provider}` writes this "
        "provider into one"
    )


def _export(exporters: Sequence[Exporter], as_json: bool) -> list[Report]:
    reports = []
    for exporter in exporters:
        with progress_bar(not as_json) as progress:
            reports.append(exporter.export(progress=progress))
    return reports


def _watch(engines: Sequence[Engine], exporters: Sequence[Exporter], as_json: bool) -> None:
    """Follow changes until a signal, which is the normal end and no error."""
    from cortex.engine.auto_indexer import AutoIndexer

    keepers = [AutoIndexer(engine) for engine in engines]
    stopped = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: stopped.set())
    if not as_json:
        print("watching; press Ctrl-C to stop", flush=True)
    followed = [Following(exporter) for exporter in exporters]
    # A wait without a timeout would not notice Ctrl-C on Windows.
    while not stopped.wait(WAKE_SECONDS):
        for following in followed:
            following.look()
    for keeper in keepers:
        keeper.close()
