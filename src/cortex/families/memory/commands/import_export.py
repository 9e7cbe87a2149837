"""`cortex memory import|export`: read memories from files, and write them to one."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import FileError, InputError
from cortex.base.paths import open_private
from cortex.base.runtime.atomic_file import replace_file
from cortex.base.text import rfc3339
from cortex.base.types import MemoryState, Progress, ProgressCallback, Skipped
from cortex.engine.library import Library
from cortex.engine.store import Remembered
from cortex.families.memory import file_import
from cortex.families.memory.commands.options import DryFlag, Selection, StateName, memories
from cortex.families.memory.commands.render import counted
from cortex.families.memory.export import ExportedMemory, export_of
from cortex.families.memory.file_import import ImportedMemory
from cortex.families.memory.selection import choose
from cortex.families.memory.writer import ImportResult, add_all
from cortex.toolkit.terminal.option_sets import option, with_option_sets
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, progress_bar, say

# Refused memories that are listed; --json lists all.
NAMED = 20
PARTIAL = 2
PROGRESS_EVERY = 50


class FormName(StrEnum):
    """Format of an import file."""

    AUTO = "auto"
    EXPORT = "claude-mem-export"
    MARKDOWN = "markdown"


class TakenState(StrEnum):
    """State of imported memories."""

    STAGING = "staging"
    APPROVED = "approved"
    PROMOTED = "promoted"
    EXPORTED = "exported"


READERS = {
    FormName.AUTO: file_import.read,
    FormName.EXPORT: file_import.read_export,
    FormName.MARKDOWN: file_import.read_markdown,
}


def import_path(
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="An export, a Markdown file, or a folder of them."),
    ],
    form: Annotated[
        FormName, option("--from", "What it is; auto: as its name says.")
    ] = FormName.AUTO,
    project: Annotated[
        str,
        option(
            "--project NAME",
            "The project they belong to; default: as the file says, or its folder.",
        ),
    ] = "",
    scope: Annotated[str, option("--scope NAME", "Their scope; default: their project.")] = "",
    state: Annotated[
        TakenState,
        option("--state", "What they count as; exported: as the file says, else staging."),
    ] = TakenState.STAGING,
    dry_run: DryFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Take memories from a file: an export of claude-mem or of ours, CLAUDE.md, MEMORY.md, a folder
    of notes.
    """
    if path.suffix.lower() in (".db", ".sqlite", ".sqlite3"):
        hint = (
            "A claude-mem database needs no import: it is read where it is, with "
            f"ACK_MEM_DB={path}."
        )
        raise InputError(
            "ARGUMENT_INVALID", f"{path} is a database, no export", suggestions=(hint,)
        )
    skipped: list[Skipped] = []
    brought = READERS[form](path, project=project, report=skipped.append)
    with memories() as library, progress_bar(not as_json) as progress:
        taken = _store(library, _with_progress(brought, progress), state, scope, dry=dry_run)
    refused = [*taken.refused, *((file.path, file.reason) for file in skipped)]
    if as_json:
        print_json(
            {
                "added": len(taken.added),
                "duplicates": taken.duplicates,
                "refused": [{"title": title, "reason": reason} for title, reason in refused],
                "dry_run": dry_run,
                "memories": [] if dry_run else list(taken.added),
            }
        )
    else:
        _print_import(taken, refused, state, dry=dry_run)
    return PARTIAL if refused else 0


def _store(
    library: Library, brought: Iterable[ImportedMemory], state: TakenState, scope: str, *, dry: bool
) -> ImportResult:
    if state is TakenState.EXPORTED:
        return add_all(library, brought, scope=scope, dry=dry)
    memories_in_state = (
        replace(memory, state=None, scope=scope or memory.scope) for memory in brought
    )
    return add_all(library, memories_in_state, state=MemoryState(state), scope=scope, dry=dry)


def _with_progress(
    brought: Iterable[ImportedMemory], progress: ProgressCallback
) -> Iterator[ImportedMemory]:
    """Pass memories through and report their number; the total is unknown."""
    for count, memory in enumerate(brought, 1):
        if count % PROGRESS_EVERY == 0:
            progress(Progress("reading", count, 0))
        yield memory


def _print_import(
    taken: ImportResult, refused: list[tuple[str, str]], state: TakenState, *, dry: bool
) -> None:
    counts = (
        f"{len(taken.added):,} added, {taken.duplicates:,} known already, {len(refused):,} refused"
    )
    say(f"Would be: {counts}" if dry else f"✓ {counts}")
    for reason, count in Counter(reason for _, reason in refused[NAMED:]).items():
        say(f"  {count:,} more: {reason}", error=True)
    for title, reason in refused[:NAMED]:
        say(f"  {title or 'without a title'}: {reason}", error=True)
    if taken.added and not dry and state is TakenState.STAGING:
        say(
            "  Look at those in staging with `cortex memory list --state staging`, then approve "
            "or reject them"
        )


@with_option_sets
def export_some(
    *,
    selection: Selection,
    output: Annotated[Path | None, option("--output -o FILE", "Where to; default: stdout.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Write memories as JSON that `cortex memory import` and claude-mem read; your own and those of
    other products.
    """
    wanted = selection.filter(StateName.ALL)
    with memories(whole=True, quiet=as_json) as library:
        rows = choose(library, wanted)[0]
        kept = [_exported(library, row) for row in reversed(rows)]
    document = export_of(
        kept, at=int(time.time() * 1000), query=wanted.matching, project=wanted.project
    )
    if output is None:
        print_json(document)
        return 0
    _write(output, json.dumps(document, ensure_ascii=False, indent=2) + "\n", force=force)
    if as_json:
        print_json({"file": str(output), "memories": len(kept)})
    else:
        say(f"✓ Wrote {counted(len(kept))} to {output}")
    return 0


def _exported(library: Library, record: Remembered) -> ExportedMemory:
    judgement = record.judgement
    return ExportedMemory(
        record.memory,
        record.state,
        record.scope,
        library.store.memories.citations(record.id),
        judgement.actor if judgement else "",
        rfc3339(judgement.at) if judgement else "",
        judgement.successor if judgement else "",
    )


def _write(path: Path, text: str, *, force: bool) -> None:
    """Write a file that only its owner may read; an existing one is replaced atomically."""
    if not force and os.path.lexists(path):
        raise InputError(
            "ARGUMENT_INVALID", f"{path} is there already; add --force to overwrite it"
        )
    try:
        if force:
            replace_file(path, text.encode("utf-8"))
            return
        with open(path, "x", encoding="utf-8", newline="\n", opener=open_private) as file:
            file.write(text)
    except FileExistsError:
        raise InputError(
            "ARGUMENT_INVALID", f"{path} is there already; add --force to overwrite it"
        ) from None
    except OSError as error:
        raise FileError("PERMISSION_DENIED", f"{path} can't be written: {error.strerror}") from None
