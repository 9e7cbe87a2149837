"""`cortex chunks`: write chunk files for other programs, or give them new vectors."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortex.base.errors import ConfigError, CortexError, InputError
from cortex.engine.engine import Engine
from cortex.toolkit.terminal import workspace
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, progress_bar, say

# The exporter loads numpy, which few commands need.
if TYPE_CHECKING:
    from cortex.families.chunkfiles.exporter import Exporter, Report

# Delay after an export that failed, while changes are followed.
RETRY_SECONDS = 10.0

ALLOWED = "embedding.allowed_projects"

app = typer.Typer(help="Chunk files: what other programs read of an index.", no_args_is_help=True)


@app.command("export")
def export_chunks(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where they go; default: .cortex/chunks in the project."
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            "--workspace", metavar="PATH", help="The folder; default: the project around here."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that another program wrote.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Bring the index up to date and write its symbols, definitions, values and documentation as
    chunk files.
    """
    projects = workspace.find([root] if root else [])
    if out is not None and len(projects) > 1:
        raise InputError(
            "ARGUMENT_INVALID",
            "--out takes the chunk files of one folder; choose it with --workspace",
        )
    reports = []
    with ExitStack() as stack:
        for project in projects:
            engine = stack.enter_context(Engine(project.root, project.settings))
            exporter = open_exporter(engine, out, force=force)
            with progress_bar(not as_json) as progress:
                engine.index(progress=progress)
                reports.append(exporter.export(progress=progress))
    if as_json:
        rows = [asdict(report) for report in reports]
        print_json(rows[0] if len(rows) == 1 else {"exports": rows})
    else:
        for report in reports:
            say(describe(report))
    return 0


@app.command("reembed")
def reembed_chunks(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Their folder; default: .cortex/chunks in the project."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Give chunk files the vectors of the embedder that is configured here, so that they can be
    searched by meaning.
    """
    from cortex.families.chunkfiles.exporter import embedder_for, folder_of, reembed

    project = workspace.find([])[0]
    folder = folder_of(project.settings, project.root, directory)
    embedder = embedder_for(project.settings)
    try:
        with progress_bar(not as_json) as progress:
            done = reembed(folder, embedder, progress=progress)
        model = embedder.stamp.model if embedder.stamp else ""
    finally:
        embedder.close()
    if as_json:
        print_json(
            {"folder": str(folder), "model": model, "files": [asdict(result) for result in done]}
        )
    else:
        for result in done:
            summary = (
                f"{result.chunks} chunks, {result.before or 'no model'} before"
                if result.chunks
                else "has them already"
            )
            say(f"{result.name}: {result.problem or summary}", error=bool(result.problem))
        say(f"{folder}: vectors of {model}" if done else f"{folder}: no chunk files")
    return 1 if any(result.problem for result in done) else 0


@app.command("allow")
def allow_project(
    path: Annotated[
        Path | None,
        typer.Option("--path", metavar="PATH", help="The project; default: the one around here."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Allow it no longer.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Let a project's own files name the server on this machine that embeds questions about its
    chunk files.
    """
    from cortex.toolkit.terminal.settings_file import change, load_settings

    settings = load_settings(path)
    if settings.root is None:
        raise ConfigError("WORKSPACE_MISSING", "there is no project here; name one with --path")
    root = str(settings.root)
    others = [project for project in settings.embedding.allowed_projects if project != root]
    allowed = others if remove else [*others, root]
    (done,) = change({ALLOWED: allowed}, project=False, path=path)
    address = load_settings(path).embedding.endpoint
    if as_json:
        print_json(
            {"project": root, "allowed": not remove, "endpoint": address, "file": str(done.file)}
        )
    elif remove:
        say(f"{root}: its files no longer name an embedding server")
    else:
        say(
            f"{root}: its files may name an embedding server on this machine; they name "
            f"{address or 'none now'}"
        )


def open_exporter(engine: Engine, out: Path | None = None, *, force: bool = False) -> Exporter:
    """Open the exporter of an engine's chunk files.

    Raises: ConfigError CHUNKS_FOREIGN, FileError PATH_OUTSIDE.
    """
    from cortex.families.chunkfiles.exporter import Exporter, folder_of

    return Exporter(engine, folder_of(engine.settings, engine.root, out), force=force)


def describe(report: Report) -> str:
    """Summarize one export in a line."""
    counts = ", ".join(f"{count} {kind}" for kind, count in report.chunks.items())
    summary = f"{report.folder}: {counts}; vectors of {report.model}, {report.embedded} of them new"
    summary += f"; wrote {', '.join(report.written)}" if report.written else "; nothing to write"
    return summary + (
        f"; {report.left_out} left out, of which the model makes nothing" if report.left_out else ""
    )


class Following:
    """Exporter that keeps chunk files current while another process updates the index."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._resume = 0.0
        self._reported = ""

    def look(self) -> Report | None:
        """Export if the index has changed; a failure is reported once and retried later."""
        if time.monotonic() < self._resume or not self._exporter.is_due():
            return None
        try:
            report = self._exporter.export()
        except CortexError as error:
            self._resume = time.monotonic() + RETRY_SECONDS
            if error.message != self._reported:
                say(f"warning: {error.message}", error=True)
            self._reported = error.message
            return None
        self._reported = ""
        return report if report.written else None
