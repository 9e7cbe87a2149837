"""Our entries in a client's configuration: their shape, and which entries are ours."""

from __future__ import annotations

import pytest

from cortex.interfaces.install.clients import System, find_client
from cortex.interfaces.install.config_entries import ServerEntry, hook_command, is_ours, write_entry

SERVER = ServerEntry("/opt/cortex", ("mcp", "code"))


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("claude-code", {"type": "stdio", "command": "/opt/cortex", "args": ["mcp", "code"]}),
        ("cursor", {"command": "/opt/cortex", "args": ["mcp", "code"]}),
        (
            "copilot",
            {"type": "local", "command": "/opt/cortex", "args": ["mcp", "code"], "tools": ["*"]},
        ),
        ("opencode", {"type": "local", "command": ["/opt/cortex", "mcp", "code"], "enabled": True}),
        (
            "cline",
            {"transport": {"type": "stdio", "command": "/opt/cortex", "args": ["mcp", "code"]}},
        ),
    ],
)
def test_entry_has_the_shape_of_its_client(name, entry):
    assert write_entry(find_client(name), SERVER) == entry


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        ({"command": "cortex", "args": ["mcp"]}, True),
        ({"command": "C:\\Tools\\Cortex.EXE", "args": ["mcp", "--workspace", "x"]}, True),
        ({"command": "uvx", "args": ["cortex-context==0.1.0", "mcp"]}, True),
        (
            {"command": "uvx", "args": ["--from", "cortex-context[languages]", "cortex", "mcp"]},
            True,
        ),
        ({"command": "cortex", "args": ["serve"]}, False),
        ({"command": "cortex"}, False),
        ({"command": "npx", "args": ["cortex-mcp"]}, False),
        ({"command": "not-cortex", "args": ["mcp"]}, False),
        ({"url": "https://example.com/mcp"}, False),
        ({"command": 7, "args": "mcp"}, False),
        (["cortex", "mcp"], False),
        ({"command": []}, False),
    ],
)
def test_own_entry_is_distinguished_from_a_foreign_one(entry, ours):
    assert is_ours(entry) is ours


@pytest.mark.parametrize(
    ("program", "system", "powershell", "line"),
    [
        ("cortex", System.LINUX, False, "cortex hook stop"),
        ("/opt/a b/cortex", System.MACOS, False, "'/opt/a b/cortex' hook stop"),
        ("cortex", System.WINDOWS, True, "cortex hook stop"),
        ("C:\\a b\\cortex.exe", System.WINDOWS, False, '"C:/a b/cortex.exe" hook stop'),
        ("C:\\a b\\cortex.exe", System.WINDOWS, True, '& "C:/a b/cortex.exe" hook stop'),
    ],
)
def test_hook_command_is_one_line_quoted_for_the_shell_of_the_client(
    program, system, powershell, line
):
    assert hook_command(program, "stop", system, powershell=powershell) == line
