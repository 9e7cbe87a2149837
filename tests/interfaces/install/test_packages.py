"""Packages of Cortex: the plugin folder, server.json of the registry, the Dockerfile, npm."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import cortex
from cortex.families import FAMILIES
from cortex.families.code.tools import TOOLS
from cortex.families.documents import tools as kb
from cortex.families.memory import tools as memory
from cortex.families.team import tools as team
from cortex.interfaces.install.clients import EVENTS, find_client
from cortex.interfaces.install.config_entries import ServerEntry, write_entry
from cortex.toolkit.tool import spell

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "plugin"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SHARED = write_entry(find_client("claude-code"), ServerEntry("cortex", ("mcp",)))
# The fields that the portable manifest may have; clients report every other one.
PORTABLE = set(
    "$schema name version description author homepage repository license keywords extensions".split()
)


def read(file: Path) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))


def test_every_manifest_has_the_version_of_the_package():
    server = read(ROOT / "server.json")
    manifests = [
        PLUGIN / ".claude-plugin" / "plugin.json",
        PLUGIN / "plugin.json",
        ROOT / "npm" / "package.json",
    ]
    found = [*map(read, manifests), server, *server["packages"]]
    assert (
        {manifest["version"] for manifest in found} == {PROJECT["version"]} == {cortex.__version__}
    )


def test_manifest_descriptions_agree_with_the_readme():
    """One sentence, short enough for the registry, with what README says first."""
    server = read(ROOT / "server.json")
    market = read(ROOT / ".claude-plugin" / "marketplace.json")
    manifests = (read(PLUGIN / ".claude-plugin" / "plugin.json"), read(PLUGIN / "plugin.json"))
    descriptions = [
        manifest["description"]
        for manifest in (*manifests, server, market["metadata"], *market["plugins"])
    ]
    assert set(descriptions) == {PROJECT["description"]}
    assert len(PROJECT["description"]) <= 100
    assert read(ROOT / "npm" / "package.json")["description"].startswith(PROJECT["description"])
    begin = (ROOT / "README.md").read_text(encoding="utf-8").partition("```")[0]
    for kind in ("code", "documents", "memories", "team", "chunk files"):
        assert kind in PROJECT["description"]
        assert f"**{kind}" in begin
    assert len(FAMILIES) == 5


def test_the_distribution_has_one_name():
    assert PROJECT["name"] == "cortex-context"
    assert [package["identifier"] for package in read(ROOT / "server.json")["packages"]] == [
        PROJECT["name"]
    ]
    for file in (ROOT / "npm" / "README.md", ROOT / "npm" / "bin" / "codeindex-mcp.js"):
        assert PROJECT["name"] in file.read_text(encoding="utf-8")


def test_the_portable_plugin_keeps_to_its_closed_schema():
    manifest, servers = read(PLUGIN / "plugin.json"), read(PLUGIN / "mcp.json")
    assert manifest["$schema"] == "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
    assert set(manifest) <= PORTABLE
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?", manifest["name"])
    assert set(manifest["author"]) <= {"name", "email", "url"}
    assert set(servers) == {"$schema", "mcpServers"}
    assert servers["$schema"] == "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
    assert servers["mcpServers"] == {"cortex": SHARED}


def test_claude_code_plugin_is_complete():
    manifest = read(PLUGIN / ".claude-plugin" / "plugin.json")
    assert manifest["name"] == "cortex" and manifest["license"] == PROJECT["license"]
    # Where `/plugin marketplace add OWNER/REPO` looks for it: at the root of the repository.
    market = read(ROOT / ".claude-plugin" / "marketplace.json")
    assert market["owner"]["name"] and [plugin["name"] for plugin in market["plugins"]] == [
        manifest["name"]
    ]
    assert market["metadata"]["description"]
    assert (ROOT / market["plugins"][0]["source"] / ".claude-plugin" / "plugin.json").exists()
    assert read(PLUGIN / ".mcp.json") == {"mcpServers": {"cortex": SHARED}}


def test_plugin_hooks_equal_those_that_install_registers():
    hooks = read(PLUGIN / "hooks" / "hooks.json")["hooks"]
    client = find_client("claude-code")
    assert client.hooks is not None
    assert tuple(hooks) == client.hooks.events
    commands = [
        hook["command"] for groups in hooks.values() for group in groups for hook in group["hooks"]
    ]
    assert commands == [f"cortex hook {event}" for event in EVENTS]


def test_the_skill_names_only_tools_that_exist_and_all_of_them():
    text = (PLUGIN / "skills" / "cortex" / "SKILL.md").read_text(encoding="utf-8")
    front = dict(line.split(": ", 1) for line in text.split("---\n")[1].strip().splitlines())
    assert front["name"] == "cortex"
    assert 1 <= len(front["description"]) <= 1024
    assert len(text) < 4_000
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", text)) - {"idempotency_key"}
    assert {tool.name for tool in TOOLS} | {spell(tool.name) for tool in team.TOOLS} <= named
    assert named <= {spell(tool.name) for tool in (*TOOLS, *kb.TOOLS, *memory.TOOLS, *team.TOOLS)}
    arguments = {name for tool in TOOLS for name in tool.arguments.model_fields}
    assert set(re.findall(r"`([a-z]+[A-Z]\w*|cursor|threshold|workspace)`", text)) <= arguments


def test_registry_manifest_meets_its_schema():
    server = read(ROOT / "server.json")
    assert (
        server["$schema"]
        == "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
    )
    assert server["name"] == "io.github.cortex-context/cortex"
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert 1 <= len(server["description"]) <= 100
    (package,) = server["packages"]
    assert {"registryType", "identifier", "version", "transport"} <= set(package)
    assert (package["registryType"], package["identifier"], package["runtimeHint"]) == (
        "pypi",
        PROJECT["name"],
        "uvx",
    )
    assert package["packageArguments"][0] == {"type": "positional", "value": "mcp"}
    assert f"mcp-name: {server['name']}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_package_has_a_command_of_its_own_name():
    """A runner such as uvx starts the command that is called like the package."""
    assert PROJECT["scripts"][PROJECT["name"]] == PROJECT["scripts"]["cortex"]


def test_image_serves_the_workspace_as_an_unprivileged_user():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert text.count("FROM python:3.12-slim") == 2
    assert text.rstrip().endswith('ENTRYPOINT ["cortex", "mcp"]')
    user, workdir = text.index("\nUSER cortex"), text.index("\nWORKDIR /workspace")
    assert user < workdir and "USER root" not in text
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for name in line.split():
            assert (ROOT / name).exists() and f"!{name}" in allowed, name


@pytest.mark.parametrize(
    "file", sorted(PLUGIN.rglob("*.json")), ids=lambda file: file.relative_to(PLUGIN).as_posix()
)
def test_plugin_files_have_no_secret_or_personal_path(file: Path):
    text = file.read_text(encoding="utf-8")
    assert json.loads(text)
    assert not re.search(r"/home/|/Users/|C:\\|token|key\"", text)


def test_codeindex_mcp_serves_the_code_tools(tmp_path: Path):
    assert PROJECT["scripts"]["codeindex-mcp"] == "cortex.__main__:serve_code"
    script = "import sys; from cortex.__main__ import serve_code; sys.exit(serve_code())"
    done = subprocess.run(
        [sys.executable, "-c", script, "--workspace", str(tmp_path)],
        input=b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
        capture_output=True,
        timeout=60,
        check=True,
    )
    listed = {tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]}
    assert listed == {tool.name for tool in TOOLS}


NPM = ROOT / "npm"
node = pytest.mark.skipif(
    not shutil.which("npm") or os.name == "nt", reason="needs npm and a POSIX shell"
)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of the npm package as it is packed."""
    folder = tmp_path_factory.mktemp("npm")
    made = subprocess.run(
        ["npm", "pack", "--offline", "--ignore-scripts", "--json", f"--pack-destination={folder}"],
        cwd=NPM,
        env={**os.environ, "npm_config_cache": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    (package,) = json.loads(made.stdout)
    assert {file["path"] for file in package["files"]} == {
        "package.json",
        "README.md",
        "bin/codeindex-mcp.js",
    }
    with tarfile.open(folder / package["filename"]) as archive:
        file = archive.extractfile("package/bin/codeindex-mcp.js")
        assert file
        (folder / "codeindex-mcp.js").write_bytes(file.read())
    return folder / "codeindex-mcp.js"


def start(command: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("node")
    assert program
    return subprocess.run(
        [program, str(command), *arguments],
        env={**os.environ, "PATH": path},
        input="hello",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def make_command(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o755)


@node
def test_the_npm_package_starts_the_installed_command(packed: Path, tmp_path: Path):
    manifest = read(NPM / "package.json")
    assert manifest["license"] == PROJECT["license"]
    assert manifest["bin"] == {"codeindex-mcp": "bin/codeindex-mcp.js"}
    echo = '#!/bin/sh\nread line\necho "$0 $* $line"\nexit 3\n'
    bin = tmp_path / "bin"
    make_command(bin, "cortex", echo)
    # What npm links under the same name is the package itself.
    make_command(bin, "codeindex-mcp", "#!/usr/bin/env node\n")
    done = start(packed, f"{bin}", "--workspace", "/a b")
    assert (done.returncode, done.stdout) == (3, f"{bin}/cortex mcp code --workspace /a b hello\n")
    make_command(tmp_path / "own", "codeindex-mcp", echo)
    done = start(packed, f"{bin}:{tmp_path / 'own'}", "--read-only")
    assert done.stdout == f"{tmp_path / 'own'}/codeindex-mcp --read-only hello\n"


@node
def test_npm_package_without_the_command_explains_how_to_install_it(packed: Path, tmp_path: Path):
    done = start(packed, str(tmp_path))
    assert (done.returncode, done.stdout) == (127, "")
    assert f"uv tool install {PROJECT['name']}" in done.stderr
