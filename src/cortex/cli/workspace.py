"""Which workspace a command means: the path that was given, or the one around the working directory."""

from __future__ import annotations

import logging
from pathlib import Path

from cortex.cli.show import say
from cortex.errors import ConfigError
from cortex.settings import Workspace, environment, find_workspaces, load


def find(paths: list[Path], **flags: object) -> tuple[Workspace, ...]:
    """The workspaces for these paths, or the one that is guessed; what is wrong with their settings is said on stderr."""
    for path in paths:
        if not path.is_dir():
            raise ConfigError(
                "WORKSPACE_UNKNOWN",
                f"{str(path)!r} is not a folder",
                suggestions=("Give a folder, or no path to use the project around the working directory.",),
            )
    variables = environment()
    given: dict[str, object] = {**flags}
    if paths:
        given["workspace.paths"] = [str(path.resolve()) for path in paths]
    settings = load(None, environment=variables, flags=given)
    found = find_workspaces(settings, flags=given, cwd=Path.cwd(), environment=variables)
    for warning in dict.fromkeys(warning for one in found for warning in one.settings.warnings):
        say(f"warning: {warning}", error=True)
    logging.getLogger().setLevel(found[0].settings.server.log_level.upper())
    return found
