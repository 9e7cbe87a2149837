"""Workspace of a command: the path that was given, or the one around the working directory."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cortex.base.errors import ConfigError, InputError
from cortex.base.settings import Workspace, environment, find_workspaces, load
from cortex.engine.sources.project import Project
from cortex.toolkit.terminal.output import say


def find(paths: list[Path], profile: str | None = None, **flags: object) -> tuple[Workspace, ...]:
    """Return the workspaces for these paths, or the guessed one, and print settings warnings."""
    variables = environment() | ({"CORTEX_PROFILE": profile} if profile else {})
    workspaces, warnings = find_for(paths, variables, Path.cwd(), flags)
    for warning in warnings:
        say(f"warning: {warning}", error=True)
    logging.getLogger().setLevel(workspaces[0].settings.server.log_level.upper())
    return workspaces


def find_for(
    paths: list[Path],
    variables: Mapping[str, str],
    cwd: Path,
    flags: Mapping[str, object] | None = None,
    *,
    shared: bool = False,
) -> tuple[tuple[Workspace, ...], list[str]]:
    """Return the workspaces of a client with these variables in `cwd`, and settings warnings.

    `shared` is as in `load`.
    """
    # A client that has no folder open passes its placeholder on literally.
    paths = [path for path in paths if not str(path).startswith("${")]
    roots = [cwd / path for path in paths]
    for path, root in zip(paths, roots, strict=True):
        if not root.is_dir():
            raise ConfigError(
                "WORKSPACE_UNKNOWN",
                f"{str(path)!r} is not a folder",
                suggestions=(
                    "Correct the path on the command line; without one it is the project around "
                    "the working directory.",
                ),
            )
    all_flags: dict[str, object] = {**(flags or {})}
    if roots:
        all_flags["workspace.paths"] = [str(root.resolve()) for root in roots]
    settings = load(None, environment=variables, flags=all_flags, shared=shared)
    workspaces = find_workspaces(
        settings, flags=all_flags, cwd=cwd, environment=variables, shared=shared
    )
    warnings = [
        warning
        for workspace in workspaces
        for warning in (*workspace.settings.warnings, *workspace.settings.unheeded())
    ]
    return workspaces, list(dict.fromkeys(warnings))


def home_warnings(home: Path) -> list[str]:
    """Return the warnings of a server where Cortex's home can't be written."""
    if can_write(nearest(home)):
        return []
    text = (
        f"{home} can't be written: nothing is logged, "
        "and only projects that can be written are indexed"
    )
    return [f"{text}; see `cortex doctor`"]


def nearest(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    return next((parent for parent in (path, *path.parents) if _exists(parent)), Path(path.anchor))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    # The path is below a folder that can't be searched.
    except OSError:
        return False


def can_write(folder: Path) -> bool:
    """Return whether it is a folder in which files can be created."""
    return folder.is_dir() and os.access(folder, os.R_OK | os.W_OK | os.X_OK)


def from_root(project: Project, folder: Path, target: str) -> str:
    """Rewrite a cited path relative to the project's root.

    A path is looked up in the folder it was typed in first, then in the root.
    """
    path = re.split(r"[#:]", target, maxsplit=1)[0] if not Path(target).is_absolute() else ""
    if not path or not os.path.lexists(folder / path):
        return target
    with suppress(ValueError):
        return (
            Path(os.path.normpath(folder / path)).relative_to(project.path).as_posix()
            + target[len(path) :]
        )
    return target


def here() -> Path:
    """Return the current folder. Raises: InputError where it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        raise InputError(
            "ARGUMENT_INVALID", "the folder that this is run in is gone; name the project"
        ) from None
