"""`cortex doctor`: check the installation, and explain if and why a file is in the index.

The checks are in `checks/`; this is the command and its output. `--fix` does only what can't lose
data: it removes files of a killed process, ends an outdated cortexd, narrows permissions, rebuilds
an index, and repairs a client's entry that leads nowhere. Only `--salvage` replaces a damaged home
database, and keeps it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import ConfigError, FileError, StoreError, explained
from cortex.base.paths import find_project_root
from cortex.base.settings import Workspace, environment, load
from cortex.base.settings.foreign_variables import variables_of_others
from cortex.base.text import rfc3339
from cortex.base.types import count_secrets
from cortex.engine.engine import Engine
from cortex.engine.store import STORE_NAME
from cortex.engine.store_folder import find_store
from cortex.interfaces.cli.checks import Finding, Level
from cortex.toolkit.terminal import workspace
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say

LEFT_OUT_SHOWN = 10
FACTS = (
    "workspace",
    "store",
    "lastIndexed",
    "files",
    "chunks",
    "skipped",
    "diskBytes",
    "leaseHolder",
)


@dataclass(frozen=True, slots=True)
class Settled:
    """A finding, and the outcome of its repair."""

    finding: Finding
    done: str = ""
    failed: str = ""

    @property
    def open(self) -> bool:
        """True if it still needs attention."""
        return self.finding.level is not Level.OK and not self.done


def doctor(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A file or folder; default: the project around here."),
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Do what can be done safely, and say what was done.")
    ] = False,
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="Make a new home database of what can be read of a damaged one, which is kept.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Check the machine, your home and an index, or say why a file is or isn't in it."""
    if salvage:
        return _salvage(as_json)
    if path is not None and not path.is_dir():
        return _explain(path, as_json)
    workspaces = _workspaces(path)
    settled = _repair(_check_machine(workspaces), fix)
    facts = []
    for target in workspaces:
        index_facts, more = _examine(target, fix)
        facts.append(index_facts)
        settled += more
    if as_json:
        rest: dict[str, object] = {"findings": [_row(outcome) for outcome in settled]}
        print_json({**facts[0], **rest} if len(facts) == 1 else {"workspaces": facts, **rest})
    else:
        for index_facts in facts:
            _print_facts(index_facts)
        _print_findings(settled)
    return (
        1
        if any(outcome.open and outcome.finding.level is Level.ERROR for outcome in settled)
        else 0
    )


def _workspaces(path: Path | None) -> tuple[Workspace, ...]:
    """Return the folders to check; none outside a project, where only the machine is checked."""
    try:
        return workspace.find([path] if path else [])
    except ConfigError as error:
        if path is not None or error.code != "WORKSPACE_MISSING":
            raise
        return ()


def _check_machine(workspaces: Sequence[Workspace]) -> Iterable[Finding]:
    # Imported here: they take 30 ms that no other command needs.
    from cortex.interfaces.cli.checks.clients import check_clients
    from cortex.interfaces.cli.checks.cortexd import check_cortexd
    from cortex.interfaces.cli.checks.home import check_home
    from cortex.interfaces.cli.checks.machine import (
        check_disk,
        check_folder,
        check_git,
        check_plugins,
    )
    from cortex.interfaces.cli.checks.sync import check_sync
    from cortex.interfaces.cli.install import person_home
    from cortex.interfaces.install.clients import VARIABLES, Machine, this_system

    settings = load(None, environment=environment())
    home = settings.home
    yield from check_cortexd()
    yield check_git()
    yield check_plugins(settings)
    yield check_disk(home)
    yield from check_folder(home, Path.home())
    yield from check_home(settings)
    yield from check_sync()
    machine = Machine(Path.home(), this_system(), variables_of_others(VARIABLES))
    yield from check_clients(machine, [target.root for target in workspaces], person_home())


def _examine(target: Workspace, fix: bool) -> tuple[dict[str, object], list[Settled]]:
    """Return the facts about a workspace's index, and its findings."""
    from cortex.interfaces.cli.checks.index import check_index, unusable
    from cortex.interfaces.cli.checks.machine import check_disk, check_folder, check_watches

    store = find_store(target.root, target.settings.home)
    settled = _repair([check_disk(store), *check_folder(store, Path.home())], fix)
    if target.settings.workspace.watch_files:
        settled += _repair(check_watches(target.root), fix)
    try:
        # Creates no store only to report that there is none.
        unknown = not fix and not (store / STORE_NAME).exists()
        with Engine(target.root, target.settings, in_memory=unknown, keep_damaged=True) as engine:
            settled += _repair(check_index(engine), fix)
            return _facts(engine, settled), settled
    except (StoreError, FileError) as error:
        settled += _repair([unusable(target, error)], fix)
        facts: dict[str, object] = {**dict.fromkeys(FACTS)}
        facts |= {
            "workspace": str(target.root),
            "store": str(store),
            "leftOut": [],
            "operations": [],
        }
        facts["secrets"] = {"leftOut": 0, "redacted": 0}
        return {
            **facts,
            "warnings": list(target.settings.warnings),
            "problems": _problems(settled),
        }, settled


def _salvage(as_json: bool) -> int:
    """Create a new database from a damaged one, and report the rescued rows."""
    from cortex.interfaces.assembly.recovery import salvage_home
    from cortex.interfaces.cli.checks.home import is_damaged

    settings = load(None, environment=environment())
    if not is_damaged(settings.home):
        if as_json:
            print_json({"salvaged": None})
        else:
            say(f"{settings.home / STORE_NAME} is sound: there is nothing to salvage")
        return 0
    done = salvage_home(settings)
    read, filled = (
        {name: count for name, count in rows.items() if count}
        for rows in (done.rows.read, done.rows.filled)
    )
    snapshot = done.snapshot.name if done.snapshot else None
    if as_json:
        print_json(
            {"salvaged": read, "fromSnapshot": filled, "snapshot": snapshot, "kept": str(done.kept)}
        )
        return 0
    say(f"✓ Saved {_counted(read)} from the damaged database, which is kept as {done.kept}")
    if snapshot:
        say(
            f"  {_counted(filled)} more came from the snapshot {snapshot}; what you deleted "
            "since may be back"
        )
    say("  Documents are read again in the background, or now with `cortex kb sync`.")
    return 0


def _counted(rows: Mapping[str, int]) -> str:
    shown = [
        f"{rows[name]:,} {name}" for name in ("memories", "records", "folders") if rows.get(name)
    ]
    return ", ".join(shown) or "nothing that you wrote"


def _repair(findings: Iterable[Finding], fix: bool) -> list[Settled]:
    """Run the repairs of findings with `fix`."""
    settled = []
    for finding in findings:
        if not fix or finding.repair is None:
            settled.append(Settled(finding))
            continue
        try:
            settled.append(Settled(finding, done=finding.repair()))
        # The next repair may succeed.
        except Exception as error:
            settled.append(Settled(finding, failed=explained(error, "fixing it").message))
    return settled


def _explain(path: Path, as_json: bool) -> int:
    # For a link the link itself, not its target.
    target = path.parent.resolve() / path.name
    indexed_root = _indexed_root(target)
    (owner,) = workspace.find(
        [indexed_root or find_project_root(target.parent, Path.home()) or target.parent]
    )
    # Creates no store only for this answer.
    with Engine(owner.root, owner.settings, in_memory=indexed_root is None) as engine:
        relative = target.relative_to(owner.root).as_posix()
        verdict, indexed = engine.explain(relative), engine.knows(relative)
    if not indexed and not os.path.lexists(target):
        raise FileError(
            "FILE_NOT_FOUND", f"{str(path)!r} is not there, and not in the index either"
        )
    if as_json:
        print_json(
            {"file": relative, "workspace": str(owner.root), "indexed": indexed, "reason": verdict}
        )
    else:
        say(f"{path}: {'in the index' if indexed else 'not in the index'} ({verdict})")
    return 0


def _indexed_root(target: Path) -> Path | None:
    """Return the nearest folder around a file that has a store; the home isn't one."""
    home = load(None, environment=environment()).home
    for folder in target.parents:
        store = find_store(folder, home)
        if store != home and (store / STORE_NAME).is_file():
            return folder
    return None


def _facts(engine: Engine, settled: Sequence[Settled]) -> dict[str, object]:
    """Return the facts about a store."""
    stats = engine.vitals()
    return {
        "workspace": str(engine.root),
        "store": str(engine.store.directory) if engine.store.directory else None,
        "lastIndexed": stats.freshness.last_indexed or None,
        "files": stats.indexed_files,
        "chunks": stats.chunks,
        "skipped": len(stats.skipped),
        "secrets": {
            "leftOut": count_secrets(stats.skipped),
            "redacted": engine.store.content.count_redacted(engine.source.id),
        },
        "leftOut": [{"file": skip.path, "reason": skip.reason} for skip in stats.skipped],
        "diskBytes": stats.disk_bytes,
        "leaseHolder": stats.holder_pid if stats.holder_pid and not stats.holder else None,
        "warnings": list(engine.settings.warnings),
        "problems": _problems(settled),
        "operations": [
            {"at": rfc3339(line.at), "what": line.what, **dict(line.detail)}
            for line in engine.operations(10)
        ],
    }


def _problems(settled: Sequence[Settled]) -> list[str]:
    return [
        outcome.finding.text
        for outcome in settled
        if outcome.open and outcome.finding.level is Level.ERROR
    ]


def _row(outcome: Settled) -> dict[str, object]:
    finding = outcome.finding
    return {
        "check": finding.check,
        "level": finding.level.value,
        "text": finding.text,
        "fix": finding.fix,
        "fixable": finding.repair is not None,
        "done": outcome.done,
        "failed": outcome.failed,
    }


def _print_facts(facts: Mapping[str, object]) -> None:
    for name in FACTS:
        say(f"{name:12} {facts[name]}")
    left_out, secrets = facts["leftOut"], facts["secrets"]
    assert isinstance(left_out, list) and isinstance(secrets, dict)
    if any(secrets.values()):
        counts = (
            f"{secrets['leftOut']} files are left out, {secrets['redacted']} have some that "
            "answers redact"
        )
        say(f"{'secrets':12} {counts}")
    for skip in left_out[:LEFT_OUT_SHOWN]:
        say(f"left out     {skip['file']} ({skip['reason']})")
    if len(left_out) > LEFT_OUT_SHOWN:
        say(f"left out     … and {len(left_out) - LEFT_OUT_SHOWN} more: see `cortex doctor --json`")


def _print_findings(settled: Sequence[Settled]) -> None:
    for outcome in settled:
        finding = outcome.finding
        say(f"{finding.level.value:12} {finding.check}: {finding.text}")
        if outcome.done:
            say(f"{'':12} done: {outcome.done}")
        elif outcome.failed:
            say(f"{'':12} it could not be fixed: {outcome.failed}")
        if outcome.open:
            say(f"{'':12} fix: {finding.fix}")
    left = sum(1 for outcome in settled if outcome.open)
    fixable = sum(
        1 for outcome in settled if outcome.open and outcome.finding.repair and not outcome.failed
    )
    hint = f"; `cortex doctor --fix` sees to {fixable} of them" if fixable else ""
    say("no problems found" if not left else f"{left} problem{'s' if left > 1 else ''}{hint}")
