"""`cortex doctor`: why a file is or isn't in the index, or whether a folder's index is sound."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from cortex.cli import workspace
from cortex.cli.show import print_json, say
from cortex.engine import Engine, find_store
from cortex.paths import find_project_root
from cortex.settings import environment, load
from cortex.sources import git
from cortex.store import STORE_NAME
from cortex.text import rfc3339

LEFT_OUT_SHOWN = 10


def doctor(
    path: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="A file or folder; default: the project around here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer as JSON.")] = False,
) -> int:
    """Check an index, or say why a file is or isn't in it."""
    if path is not None and not path.is_dir():
        return _explain(path, as_json)
    every = []
    for found in workspace.find([path] if path else []):
        with Engine(found.root, found.settings) as engine:
            every.append(_check(engine))
    if as_json:
        print_json(every[0] if len(every) == 1 else {"workspaces": every})
    else:
        for facts in every:
            _print_facts(facts)
    return 1 if any(facts["problems"] for facts in every) else 0


def _explain(path: Path, as_json: bool) -> int:
    target = path.parent.resolve() / path.name  # a link itself, not what it points to
    indexed_root = _indexed_root(target)
    (found,) = workspace.find([indexed_root or find_project_root(target.parent, Path.home()) or target.parent])
    with Engine(found.root, found.settings, in_memory=indexed_root is None) as engine:  # no store only to say so
        relative = target.relative_to(found.root).as_posix()
        verdict, indexed = engine.explain(relative), engine.knows(relative)
    if as_json:
        print_json({"file": relative, "workspace": str(found.root), "indexed": indexed, "reason": verdict})
    else:
        say(f"{relative}: {'in the index' if indexed else 'not in the index'} ({verdict})")
    return 0


def _indexed_root(target: Path) -> Path | None:
    """The nearest folder around a file that has a store; a person's own one, for settings, is no folder's."""
    home = load(None, environment=environment()).home
    for folder in target.parents:
        store = find_store(folder, home)
        if store != home and (store / STORE_NAME).is_file():
            return folder
    return None


def _check(engine: Engine) -> dict[str, object]:
    """What there is to know of a store, and what is wrong with it."""
    vitals = engine.vitals()
    free = shutil.disk_usage(engine.store.directory or engine.root).free
    problems = engine.store.check()
    if free < 200 << 20:
        problems.append(f"only {free >> 20} MB of disk are free")
    if not vitals.freshness.last_indexed:
        problems.append("the folder was never indexed completely: run `cortex index`")
    if shutil.which("git") is None:
        problems.append("git is not installed: ignore files are read by Cortex itself, submodules are not seen")
    if refused := git.refusal(engine.root):
        problems.append(refused)
    return {
        "workspace": str(engine.root),
        "store": str(engine.store.directory),
        "lastIndexed": vitals.freshness.last_indexed or None,
        "files": vitals.indexed_files,
        "chunks": vitals.chunks,
        "skipped": len(vitals.skipped),
        "leftOut": [{"file": skip.path, "reason": skip.reason} for skip in vitals.skipped],
        "diskBytes": vitals.disk_bytes,
        "leaseHolder": vitals.holder_pid or None,
        "warnings": list(engine.settings.warnings),
        "problems": problems,
        "operations": [
            {"at": rfc3339(line.at), "what": line.what, **dict(line.detail)} for line in engine.operations(10)
        ],
    }


def _print_facts(facts: Mapping[str, object]) -> None:
    for name in ("workspace", "store", "lastIndexed", "files", "chunks", "skipped", "diskBytes", "leaseHolder"):
        say(f"{name:12} {facts[name]}")
    left_out, problems = facts["leftOut"], facts["problems"]
    assert isinstance(left_out, list)
    assert isinstance(problems, list)
    for skip in left_out[:LEFT_OUT_SHOWN]:
        say(f"left out     {skip['file']} ({skip['reason']})")
    if len(left_out) > LEFT_OUT_SHOWN:
        say(f"left out     … and {len(left_out) - LEFT_OUT_SHOWN} more: see `cortex doctor --json`")
    for problem in problems:
        say(f"problem      {problem}")
    say("no problems found" if not problems else f"{len(problems)} problems")
