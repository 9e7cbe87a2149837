"""Workspace folders and the settings of each.

A root's files are settings, and settings name the roots; so there are two steps. First the settings
without any project (flags, environment, the user's own file): folders named there are the roots,
each with its own files. Otherwise the root is guessed (CLAUDE_PROJECT_DIR, the repository around
the working directory, the working directory), and folders inside it that its own files name are the
roots, with those files' settings. The user's home, `/` and the folder of Cortex's own plugin are
never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import ConfigError
from cortex.base.paths import find_project_root
from cortex.base.settings.load import expand, load
from cortex.base.settings.model import Settings

# A plugin's manifest and the file of its servers, in the portable form and in Claude Code's.
PLUGIN_FILES = (("plugin.json", "mcp.json"), (".claude-plugin/plugin.json", ".mcp.json"))
PLUGIN_NAME = "cortex"
MANIFEST_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Workspace:
    """An indexed folder, with its settings."""

    root: Path
    settings: Settings


def find_workspaces(
    settings: Settings,
    *,
    flags: Mapping[str, object] | None = None,
    cwd: Path,
    environment: Mapping[str, str],
    user_home: Path | None = None,
    shared: bool = False,
) -> tuple[Workspace, ...]:
    """Return the workspaces, in the order they are named.

    `settings` are those without a root (`load(None, ...)`); `shared` is passed on to `load`.

    Raises: ConfigError (WORKSPACE_UNKNOWN), if a named folder doesn't exist; (WORKSPACE_MISSING),
    if none was named and the working directory can't be one.
    """
    user_home = user_home or Path.home()
    if settings.workspace.paths:
        roots = _check(settings, cwd, user_home)
        return tuple(
            Workspace(
                root,
                load(
                    root, environment=environment, flags=flags, user_home=user_home, shared=shared
                ),
            )
            for root in roots
        )
    root = _guess(cwd, environment, user_home)
    own = load(root, environment=environment, flags=flags, user_home=user_home, shared=shared)
    return tuple(Workspace(folder, own) for folder in (_check(own, root, user_home) or (root,)))


def _check(settings: Settings, base: Path, user_home: Path) -> tuple[Path, ...]:
    """Return the folders that `workspace.paths` names, absolute and without duplicates."""
    origin = settings.origin("workspace.paths")
    roots: dict[Path, None] = {}
    for path in settings.workspace.paths:
        root = _resolve(base, path, user_home)
        if root is None or not root.is_dir():
            message = f"the workspace {path!r} ({origin}) is not a folder on this machine"
            context = {"path": path, "origin": origin}
            raise ConfigError(
                "WORKSPACE_UNKNOWN",
                message,
                context=context,
                suggestions=(f"Correct the path in: {origin}.",),
            )
        roots[root] = None
    return tuple(roots)


def _resolve(base: Path, path: str, user_home: Path) -> Path | None:
    try:
        return (base / expand(path, user_home)).resolve()
    # A null character, or a loop of links.
    except (OSError, ValueError, RuntimeError):
        return None


def _guess(cwd: Path, environment: Mapping[str, str], user_home: Path) -> Path:
    for candidate in _candidates(cwd, environment, user_home):
        root = candidate.resolve()
        if root.is_dir() and root != user_home.resolve() and root != Path(root.anchor):
            return root
    message = f"no workspace was named, and {cwd} is not taken for one by guess"
    raise ConfigError(
        "WORKSPACE_MISSING",
        message,
        context={"cwd": str(cwd)},
        suggestions=(
            "Name the folder: cortex index FOLDER, cortex search --path FOLDER, cortex mcp "
            "--workspace FOLDER.",
            "Where a client starts the server: cortex install CLIENT --workspace FOLDER, or in "
            "the project cortex install "
            "CLIENT --scope project.",
        ),
    )


def _is_own_plugin(folder: Path) -> bool:
    """Return whether a folder is a copy of Cortex's plugin; some clients start its server there."""
    for manifest, servers in PLUGIN_FILES:
        with suppress(OSError, ValueError, RecursionError):
            file = folder / manifest
            if file.stat().st_size > MANIFEST_BYTES or not (folder / servers).is_file():
                continue
            content = json.loads(file.read_bytes())
            if isinstance(content, dict) and content.get("name") == PLUGIN_NAME:
                return True
    return False


def _candidates(cwd: Path, environment: Mapping[str, str], user_home: Path) -> Iterator[Path]:
    named = environment.get("CLAUDE_PROJECT_DIR", "")
    if named:
        yield cwd / expand(named, user_home)
    for folder in (cwd, *cwd.parents):
        if _is_own_plugin(folder):
            raise ConfigError(
                "WORKSPACE_MISSING",
                f"no workspace was named, and {cwd} is the folder of Cortex's own plugin, no "
                "project",
                context={"cwd": str(cwd)},
                instead=(
                    "This client starts the servers of plugins outside of your projects: "
                    "connect it with "
                    "`cortex install CLIENT` in place of the plugin.",
                    "Or name the folder to serve: CORTEX_WORKSPACE_PATHS=FOLDER in the server's "
                    "environment, or "
                    '`"args": ["mcp", "--workspace", "FOLDER"]` in its entry.',
                ),
            )
    repository = find_project_root(cwd, user_home)
    if repository:
        yield repository
    yield cwd
