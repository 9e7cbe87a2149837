"""Table of clients: the location, key and shape of the server and hook entries of each.

One row per client; a new client is a new row. Knows nothing of merging. Paths are written as in a
shell, `${NAME:-default}/rest` and `~/rest`, and are resolved against a Machine, so that a test can
use any home on any system.

Road not taken: each client's own `mcp add` command, which only some have, few can undo, and none
can preview.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cortex.base.errors import InputError

# Name of our server in every client.
NAME = "cortex"
VARIABLES = ("APPDATA", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME")
HOOK_SECONDS = 10
_BLANK = re.compile(r"\$\{(\w+):-([^}]*)\}")


class System(StrEnum):
    """An operating system."""

    LINUX = "linux"
    MACOS = "macos"
    WINDOWS = "windows"


class Shape(StrEnum):
    """Shape of a server entry in a client's file."""

    STDIO = "stdio"  # {"type": "stdio", "command", "args"}
    BARE = "bare"  # {"command", "args"}
    LOCAL = "local"  # {"type": "local", "command", "args", "tools"}
    LIST = "list"  # {"type": "local", "command": [...], "enabled"}
    NESTED = "nested"  # {"transport": {"type": "stdio", ...}}


class ConfigFormat(StrEnum):
    """File format of a configuration.

    Comments and trailing commas are kept in JSON files, too.
    """

    JSON = "json"
    JSONC = "jsonc"
    TOML = "toml"


@dataclass(frozen=True, slots=True)
class Machine:
    """A home folder on a system, with the variables that relocate configuration files."""

    home: Path
    system: System
    variables: Mapping[str, str] = field(default_factory=dict)

    def path(self, template: str) -> Path:
        """Resolve a path template of the table."""
        filled = _BLANK.sub(lambda blank: self.variables.get(blank[1]) or blank[2], template)
        return self.home / filled[2:] if filled.startswith("~/") else Path(filled)


@dataclass(frozen=True, slots=True)
class Places:
    """Path of a file on each system; of several, the first that exists, else the last."""

    linux: tuple[str, ...]
    macos: tuple[str, ...]
    windows: tuple[str, ...]

    def on(self, system: System) -> tuple[str, ...]:
        """Return the candidates on one system."""
        match system:
            case System.LINUX:
                return self.linux
            case System.MACOS:
                return self.macos
            case System.WINDOWS:
                return self.windows


@dataclass(frozen=True, slots=True)
class Hooks:
    """Location, event names and shape of a client's hooks."""

    user: Places
    project: str
    # The client's names of our events, in the order of EVENTS.
    events: tuple[str, str, str]
    # True for [{"hooks": [command]}], false for [command].
    grouped: bool
    # True if a command has "type": "command".
    typed: bool = True
    # True if the file begins with "version": 1.
    version: bool = False
    # Units per second of a timeout.
    per_second: int = 1
    # True if PowerShell runs the command on Windows.
    powershell: bool = False


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers."""

    name: str
    title: str
    key: str
    user: Places
    # Relative to the project; empty where the client has no file there.
    project: tuple[str, ...] = ()
    shape: Shape = Shape.BARE
    format: ConfigFormat = ConfigFormat.JSON
    # One of them exists where the client is installed.
    folders: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    hooks: Hooks | None = None
    # Arguments that name the project, for a client that starts servers in another folder.
    arguments: tuple[str, ...] = ()
    # True if the client starts the user's servers elsewhere and can't name the project.
    homeless: bool = False


def everywhere(*templates: str) -> Places:
    """Return the same path for every system."""
    return Places(templates, templates, templates)


def settings_of(program: str, file: str) -> Places:
    """Return the path of a file in the settings folder of a graphical program."""
    return Places(
        (f"${{XDG_CONFIG_HOME:-~/.config}}/{program}/{file}",),
        (f"~/Library/Application Support/{program}/{file}",),
        (f"${{APPDATA:-~/AppData/Roaming}}/{program}/{file}",),
    )


EVENTS = ("session-start", "stop", "pre-compact")
_CLAUDE_EVENTS = ("SessionStart", "Stop", "PreCompact")
_COPILOT_HOOKS = Hooks(
    user=everywhere("${COPILOT_HOME:-~/.copilot}/hooks/cortex.json"),
    project=".github/hooks/cortex.json",
    events=_CLAUDE_EVENTS,
    grouped=False,
    version=True,
    powershell=True,
)

CLIENTS: tuple[Client, ...] = (
    Client(
        name="claude-code",
        title="Claude Code",
        key="mcpServers",
        user=everywhere("${CLAUDE_CONFIG_DIR:-~}/.claude.json"),
        project=(".mcp.json",),
        shape=Shape.STDIO,
        folders=("${CLAUDE_CONFIG_DIR:-~/.claude}",),
        commands=("claude",),
        hooks=Hooks(
            user=everywhere("${CLAUDE_CONFIG_DIR:-~/.claude}/settings.json"),
            project=".claude/settings.json",
            events=_CLAUDE_EVENTS,
            grouped=True,
        ),
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        key="mcpServers",
        user=settings_of("Claude", "claude_desktop_config.json"),
        homeless=True,
    ),
    Client(
        name="cursor",
        title="Cursor",
        key="mcpServers",
        user=everywhere("~/.cursor/mcp.json"),
        project=(".cursor/mcp.json",),
        commands=("cursor",),
        hooks=Hooks(
            user=everywhere("~/.cursor/hooks.json"),
            project=".cursor/hooks.json",
            events=("sessionStart", "stop", "preCompact"),
            grouped=False,
            typed=False,
            version=True,
        ),
        arguments=("--workspace", "${workspaceFolder}"),
    ),
    Client(
        name="vscode",
        title="VS Code",
        key="servers",
        user=settings_of("Code", "User/mcp.json"),
        project=(".vscode/mcp.json",),
        shape=Shape.STDIO,
        format=ConfigFormat.JSONC,
        commands=("code",),
        hooks=_COPILOT_HOOKS,
    ),
    Client(
        name="codex",
        title="Codex",
        key="mcp_servers",
        user=everywhere("${CODEX_HOME:-~/.codex}/config.toml"),
        project=(".codex/config.toml",),
        format=ConfigFormat.TOML,
        commands=("codex",),
        hooks=Hooks(
            user=everywhere("${CODEX_HOME:-~/.codex}/hooks.json"),
            project=".codex/hooks.json",
            events=_CLAUDE_EVENTS,
            grouped=True,
        ),
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        key="mcpServers",
        user=everywhere("~/.gemini/settings.json"),
        project=(".gemini/settings.json",),
        format=ConfigFormat.JSONC,
        commands=("gemini",),
        hooks=Hooks(
            user=everywhere("~/.gemini/settings.json"),
            project=".gemini/settings.json",
            events=("SessionStart", "AfterAgent", "PreCompress"),
            grouped=True,
            per_second=1000,
        ),
    ),
    Client(
        name="copilot",
        title="Copilot CLI",
        key="mcpServers",
        user=everywhere("${COPILOT_HOME:-~/.copilot}/mcp-config.json"),
        shape=Shape.LOCAL,
        commands=("copilot",),
        hooks=_COPILOT_HOOKS,
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        key="mcpServers",
        user=everywhere("~/.codeium/windsurf/mcp_config.json"),
        commands=("windsurf",),
        homeless=True,
    ),
    Client(
        name="zed",
        title="Zed",
        key="context_servers",
        user=Places(
            ("${XDG_CONFIG_HOME:-~/.config}/zed/settings.json",),
            ("~/.config/zed/settings.json",),
            ("${APPDATA:-~/AppData/Roaming}/Zed/settings.json",),
        ),
        project=(".zed/settings.json",),
        format=ConfigFormat.JSONC,
        commands=("zed", "zeditor"),
    ),
    Client(
        name="opencode",
        title="opencode",
        key="mcp",
        user=everywhere(
            "${XDG_CONFIG_HOME:-~/.config}/opencode/opencode.jsonc",
            "${XDG_CONFIG_HOME:-~/.config}/opencode/opencode.json",
        ),
        project=("opencode.jsonc", "opencode.json"),
        shape=Shape.LIST,
        format=ConfigFormat.JSONC,
        commands=("opencode",),
    ),
    Client(
        name="cline",
        title="Cline",
        key="mcpServers",
        user=everywhere("~/.cline/data/settings/cline_mcp_settings.json"),
        shape=Shape.NESTED,
        folders=("~/.cline",),
        commands=("cline",),
        homeless=True,
    ),
    Client(
        name="kiro",
        title="Kiro",
        key="mcpServers",
        user=everywhere("~/.kiro/settings/mcp.json"),
        project=(".kiro/settings/mcp.json",),
        folders=("~/.kiro",),
        commands=("kiro", "kiro-cli"),
    ),
)
_OTHER_NAMES = {
    "claude": "claude-code",
    "code": "vscode",
    "vs-code": "vscode",
    "gemini-cli": "gemini",
    "copilot-cli": "copilot",
}


def find_client(name: str) -> Client:
    """Return a client by name.

    Raises: InputError (ARGUMENT_INVALID), with the known names.
    """
    wanted = _OTHER_NAMES.get(name.lower(), name.lower())
    for client in CLIENTS:
        if client.name == wanted:
            return client
    known = ", ".join(client.name for client in CLIENTS)
    raise InputError("ARGUMENT_INVALID", f"unknown client {name!r}; known: {known}")


def is_installed(
    client: Client, machine: Machine, which: Callable[[str], object] = shutil.which
) -> bool:
    """True if the folder or the command of the client exists on the machine."""
    folders = [machine.path(template) for template in client.folders]
    # The settings folder; that of VS Code exists before any file in it.
    if not folders:
        folders = [machine.path(template).parent for template in client.user.on(machine.system)]
    return any(folder.is_dir() for folder in folders) or any(
        which(command) for command in client.commands
    )


def entry_file(client: Client, machine: Machine, root: Path | None) -> Path | None:
    """Return the file for a client's server, of the user or of the project at `root`.

    None where the client has no file there.
    """
    if root is None:
        return _first_existing(
            [machine.path(template) for template in client.user.on(machine.system)]
        )
    return (
        _first_existing([root / template for template in client.project])
        if client.project
        else None
    )


def hooks_file(client: Client, machine: Machine, root: Path | None) -> Path | None:
    """Return the file for a client's hooks, None for a client without hooks."""
    if client.hooks is None:
        return None
    if root is None:
        return _first_existing(
            [machine.path(template) for template in client.hooks.user.on(machine.system)]
        )
    return root / client.hooks.project


def this_system() -> System:
    """Return the system that this process runs on."""
    return {"win32": System.WINDOWS, "darwin": System.MACOS}.get(sys.platform, System.LINUX)


def _first_existing(candidates: list[Path]) -> Path:
    return next((candidate for candidate in candidates if candidate.is_file()), candidates[-1])
