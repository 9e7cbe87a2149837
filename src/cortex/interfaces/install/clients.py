"""The table of clients: where each keeps its servers and hooks, under which key, in which shape.

One row per client; a new client is a new row. Knows nothing of merging. Paths are written as a
shell would write them, `${NAME:-default}/rest` and `~/rest`, and are resolved against a Machine, so
that a test can be any person on any system. Not taken: each client's own `mcp add` command, which
only some have, few can undo, and none can show beforehand.
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

NAME = "cortex"  # of the server, in every client
VARIABLES = ("APPDATA", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME")
HOOK_SECONDS = 10
_BLANK = re.compile(r"\$\{(\w+):-([^}]*)\}")


class System(StrEnum):
    """An operating system."""

    LINUX = "linux"
    MACOS = "macos"
    WINDOWS = "windows"


class Shape(StrEnum):
    """How a client writes down a server that it starts."""

    STDIO = "stdio"  # {"type": "stdio", "command", "args"}
    BARE = "bare"  # {"command", "args"}
    LOCAL = "local"  # {"type": "local", "command", "args", "tools"}
    LIST = "list"  # {"type": "local", "command": [...], "enabled"}
    NESTED = "nested"  # {"transport": {"type": "stdio", ...}}


class ConfigFormat(StrEnum):
    """The language of a file.

    Comments and trailing commas are kept in JSON too, wherever somebody wrote them.
    """

    JSON = "json"
    JSONC = "jsonc"
    TOML = "toml"


@dataclass(frozen=True, slots=True)
class Machine:
    """Whose files are meant: a person's home on a system, with the variables that move other
    programs' files.
    """

    home: Path
    system: System
    variables: Mapping[str, str] = field(default_factory=dict)

    def path(self, template: str) -> Path:
        """The path that a template of the table means here."""
        filled = _BLANK.sub(lambda blank: self.variables.get(blank[1]) or blank[2], template)
        return self.home / filled[2:] if filled.startswith("~/") else Path(filled)


@dataclass(frozen=True, slots=True)
class Places:
    """One file on each system; of several, the first that exists counts, else the last."""

    linux: tuple[str, ...]
    macos: tuple[str, ...]
    windows: tuple[str, ...]

    def on(self, system: System) -> tuple[str, ...]:
        """The candidates on one system."""
        match system:
            case System.LINUX:
                return self.linux
            case System.MACOS:
                return self.macos
            case System.WINDOWS:
                return self.windows


@dataclass(frozen=True, slots=True)
class Hooks:
    """Where a client's hooks are, what it calls our three events, and in which shape it wants them."""

    user: Places
    project: str
    events: tuple[str, str, str]  # what the client calls ours, in the order of EVENTS
    grouped: bool  # [{"hooks": [command]}], else [command]
    typed: bool = True  # with "type": "command"
    version: bool = False  # the file begins with "version": 1
    per_second: int = 1  # in which unit a timeout is written
    powershell: bool = False  # who runs the command on Windows


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers."""

    name: str
    title: str
    key: str
    user: Places
    project: tuple[str, ...] = ()  # relative to the project; empty: the client has no file there
    shape: Shape = Shape.BARE
    format: ConfigFormat = ConfigFormat.JSON
    folders: tuple[str, ...] = ()  # one of them is there where the client is
    commands: tuple[str, ...] = ()
    hooks: Hooks | None = None
    # Which name the project, where the client starts servers somewhere else
    arguments: tuple[str, ...] = ()
    # Starts a person's servers somewhere else, and has no name for the project
    homeless: bool = False


def everywhere(*templates: str) -> Places:
    """The same file on every system."""
    return Places(templates, templates, templates)


def settings_of(program: str, file: str) -> Places:
    """A file in the folder where graphical programs keep their settings."""
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
    """A client by its name.

    Raises: InputError (ARGUMENT_INVALID), with the names that are known.
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
    """Whether the client seems to be on the machine: its folder is there, or its command is found."""
    folders = [machine.path(one) for one in client.folders]
    # The folder of its settings; a folder of VS Code's settings is there before any file in it
    if not folders:
        folders = [machine.path(one).parent for one in client.user.on(machine.system)]
    return any(folder.is_dir() for folder in folders) or any(
        which(command) for command in client.commands
    )


def entry_file(client: Client, machine: Machine, root: Path | None) -> Path | None:
    """The file for the client's server: the person's, or that of the project at `root`; None where
    the client has none there.
    """
    if root is None:
        return _first([machine.path(one) for one in client.user.on(machine.system)])
    return _first([root / one for one in client.project]) if client.project else None


def hooks_file(client: Client, machine: Machine, root: Path | None) -> Path | None:
    """The file for the client's hooks, None for a client without hooks."""
    if client.hooks is None:
        return None
    if root is None:
        return _first([machine.path(one) for one in client.hooks.user.on(machine.system)])
    return root / client.hooks.project


def this_system() -> System:
    """The system that this process runs on."""
    return {"win32": System.WINDOWS, "darwin": System.MACOS}.get(sys.platform, System.LINUX)


def _first(candidates: list[Path]) -> Path:
    return next((candidate for candidate in candidates if candidate.is_file()), candidates[-1])
