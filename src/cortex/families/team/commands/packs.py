"""`cortex pack build` and `pull`: the bootstrap pack as a file for agents without tools.

The file contains the texts of pinned records, since its readers can't open an id, and dates instead
of ages, since a file stays. Sensitive records are left out by default. Rendering and the budget are
in `pack_render`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import ConfigError, FileError, InputError
from cortex.base.record_model import SENSITIVE
from cortex.base.runtime.atomic_file import atomic_write
from cortex.base.text import estimate_tokens
from cortex.engine.library import Library
from cortex.families.team.bootstrap_pack import GLOBAL, SUBCORTEX, WORKSPACE
from cortex.families.team.commands.options import team
from cortex.families.team.commands.pack_render import MARK, Pack, fit, texts
from cortex.families.team.context_pack import Bootstrap, PackEntry, Topic, bootstrap
from cortex.families.team.writes.placement import Placement, route
from cortex.toolkit.terminal import workspace
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import many, print_json, printable, say

BUDGET, MOST_BUDGET = 16_000, 200_000  # tokens
JSON_MARK = '{"cortex_pack":'
NAME = "cortex-pack"

app = typer.Typer(
    name="pack",
    help="What a newcomer should know, as a file for use without tools.",
    no_args_is_help=True,
)


class PackFormat(StrEnum):
    """File format of a pack."""

    MARKDOWN = "markdown"
    JSON = "json"


OutputOption = Annotated[
    str,
    typer.Option(
        "--output",
        "--out",
        "-o",
        metavar="FILE",
        help="Where to write it; default: cortex-pack.md; -: stdout.",
    ),
]
FormatOption = Annotated[
    PackFormat | None,
    typer.Option("--format", help="How to write it; default: by the name of the file."),
]
ScopeOption = Annotated[
    str,
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="global, workspace or subcortex:SLUG; default: the workspace here, "
        "or global where there is none.",
    ),
]
BudgetOption = Annotated[
    int,
    typer.Option(
        "--budget", max=MOST_BUDGET, metavar="N", help="The most tokens that it may cost."
    ),
]
SensitiveFlag = Annotated[bool, typer.Option("--sensitive", help="With sensitive records.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Overwrite a file that is no pack.")]


@dataclass(frozen=True, slots=True)
class PackLocation:
    """Destination and format of a pack."""

    output: str
    path: Path
    format: PackFormat
    as_json: bool  # report the result as JSON


@app.command("build")
def build(
    output: OutputOption = "",
    format: FormatOption = None,
    scope: ScopeOption = "",
    budget: BudgetOption = BUDGET,
    sensitive: SensitiveFlag = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Write what a newcomer should know into a file: rules, subcortexes with charters, what is
    pinned, words, priorities, incidents.
    """
    location = _location(output, format, force=force, as_json=as_json)
    with team() as library:
        content = _collect(library, scope.strip(), sensitive=sensitive)
    _write_pack(location, fit(content, budget))
    return 0


@app.command("pull")
def pull(
    output: OutputOption = "",
    format: FormatOption = None,
    scope: ScopeOption = "",
    pinned: Annotated[
        bool,
        typer.Option("--include-pinned/--no-pinned", help="With what is pinned, and its texts."),
    ] = True,
    budget: BudgetOption = BUDGET,
    sensitive: SensitiveFlag = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Sync with the Core, then write the pack as it is there now; from what is here, and with exit
    code 3, where it can't be reached.
    """
    from cortex.families.team.commands.sync import (
        EXITS,
        OFFLINE,
        SyncOutcome,
        join_configured,
        run_sync,
    )
    from cortex.families.team.sync.client import Offline

    location = _location(output, format, force=force, as_json=as_json)
    with team() as library:
        try:
            join_configured(library)
            outcome = run_sync(library).outcome
        except Offline as error:
            outcome = SyncOutcome(OFFLINE, error=error.message)
        content = _collect(library, scope.strip(), sensitive=sensitive)
    if outcome.error:
        say(f"warning: {outcome.error}; the pack is made of what is here", error=True)
    if not pinned:
        content = replace(
            content, topics=tuple(replace(topic, pinned=()) for topic in content.topics)
        )
    _write_pack(
        location,
        fit(content, budget),
        synced={"status": outcome.status, "error": outcome.error or None},
    )
    return EXITS[outcome.status]


def _location(
    output: str, format: PackFormat | None, *, force: bool, as_json: bool
) -> PackLocation:
    """Choose and check the destination before building. Raises: InputError, FileError."""
    if output == "-" and as_json:
        raise InputError(
            "ARGUMENT_INVALID",
            "--output - writes the pack to stdout: take --format json instead of --json",
        )
    chosen = format or (
        PackFormat.JSON if output.lower().endswith(".json") else PackFormat.MARKDOWN
    )
    path = Path(output or f"{NAME}.{'json' if chosen is PackFormat.JSON else 'md'}")
    if output != "-":
        _check_free(path, force=force)
    return PackLocation(output, path, chosen, as_json)


def _write_pack(location: PackLocation, pack: Pack, **more: object) -> None:
    """Write a pack and report it; `more` is added to the JSON report. Raises: FileError."""
    text = pack.json if location.format is PackFormat.JSON else pack.markdown
    if location.output == "-":
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
        print(printable(text, lines=True), end="")
        return
    _write(location.path, text)
    if location.as_json:
        print_json({**_report_json(location.path, location.format, pack, text), **more})
    else:
        _report(location.path, pack, text)


def _report_json(path: Path, chosen: PackFormat, pack: Pack, text: str) -> dict[str, object]:
    counts = {name: len(value) for name, value in pack.body.items() if isinstance(value, list)}
    return {
        "output": str(path.absolute()),
        "format": chosen.value,
        "scope": pack.body["scope"],
        "tokens": estimate_tokens(text),
        "truncated": pack.body["truncated"],
        "counts": counts,
    }


def _report(path: Path, pack: Pack, text: str) -> None:
    say(f"✓ Wrote {path}: {pack.body['scope']}, {estimate_tokens(text):,} tokens")
    for note in texts(pack.body.get("notes")):
        say(f"note: {note}", error=True)
    if pack.body["truncated"]:
        say("note: not all of it found room; more with --budget", error=True)


# -- content


def _collect(library: Library, scope: str, *, sensitive: bool) -> Bootstrap:
    """Collect the content. Raises: InputError ARGUMENT_INVALID, SCOPE_NOT_FOUND; ConfigError."""
    if scope and scope not in (GLOBAL, WORKSPACE) and not scope.startswith(SUBCORTEX):
        raise InputError(
            "ARGUMENT_INVALID", f"unknown scope {scope!r}; known: global, workspace, subcortex:SLUG"
        )
    placement = Placement()
    if scope in ("", WORKSPACE):
        try:
            placement = route(library.store.records, workspace.find([])[0].settings.families)
            scope = WORKSPACE
        except ConfigError as error:
            if scope or error.code != "WORKSPACE_MISSING":
                raise
            scope = GLOBAL
    content = bootstrap(library, scope, workspace_route=placement)
    return content if sensitive else _without_sensitive(content)


def _without_sensitive(content: Bootstrap) -> Bootstrap:
    """Drop sensitive records, and add a note with their number."""
    pins = [pin for topic in content.topics for pin in topic.pinned]
    entries = [*content.here, *content.incidents, *content.priorities, *pins, *content.lately]
    gone = {entry.id for entry in entries if _is_sensitive(entry)}
    topics = [
        replace(topic, pinned=_not_sensitive(topic.pinned))
        for topic in content.topics
        if not _is_sensitive(topic)
    ]
    gone |= {topic.record.id for topic in content.topics if _is_sensitive(topic)}
    note = f"{many(len(gone), 'sensitive record')} left out; take them in with --sensitive"
    slugs = {topic.record.body.slug for topic in topics}
    return replace(
        content,
        topics=tuple(topics),
        here=_not_sensitive(content.here),
        incidents=_not_sensitive(content.incidents),
        priorities=_not_sensitive(content.priorities),
        lately=_not_sensitive(content.lately),
        glossary=tuple(word for word in content.glossary if word.subcortex in slugs),
        naming=tuple(
            dict.fromkeys(
                rule for topic in topics if topic.ours for rule in topic.record.body.naming
            )
        ),
        notes=(*content.notes, *((note,) if gone else ())),
    )


def _not_sensitive(entries: Sequence[PackEntry]) -> tuple[PackEntry, ...]:
    return tuple(entry for entry in entries if not _is_sensitive(entry))


def _is_sensitive(item: PackEntry | Topic) -> bool:
    return item.record.body.sensitivity == SENSITIVE


# -- file


def _check_free(path: Path, *, force: bool) -> None:
    """Refuse to overwrite a file that isn't a pack. Raises: InputError, FileError."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            begin = file.read(len(MARK) + len(JSON_MARK))
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError("PERMISSION_DENIED", f"{path} can't be written: {error.strerror}") from None
    if begin and not force and not begin.startswith((MARK, JSON_MARK)):
        raise InputError(
            "ARGUMENT_INVALID",
            f"{path} is there already, and no pack; nothing was written",
            suggestions=("Choose another name with --output, or overwrite it with --force.",),
        )


def _write(path: Path, text: str) -> None:
    """Write the pack with the file mode of the one that it replaces. Raises: FileError."""
    target = Path(os.path.realpath(path))
    with atomic_write(target) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o644)
