"""Files that Cortex writes into a project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from cortex.base.errors import ConfigError
from cortex.interfaces.install.project_files import plan_ignore_removals, write_project_files

LINES = ".cortex/*\n!.cortex/config.yml\n!.cortex/config.json\n"
EARLIER = ".cortex/*\n!.cortex/config.yml\n"


@pytest.fixture
def project(place):
    git(place.root, "init", "--quiet")
    return place


def git(root, *arguments):
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, timeout=30)


def write(place, **what):
    return list(write_all(place, **what).files)


def write_all(place, **what):
    return write_project_files(
        place.root, **{"mcp": True, "gitignore": True, "home": place.home, **what}
    )


def server_of(place):
    entry = json.loads((place.root / ".mcp.json").read_text("utf-8"))["mcpServers"]["cortex"]
    return [entry["command"], *entry["args"]]


def test_project_files_are_written_once(project):
    assert write(project) == [".mcp.json", ".gitignore"]
    entry = {"type": "stdio", "command": "cortex", "args": ["mcp"]}
    text = (project.root / ".mcp.json").read_text("utf-8")
    assert json.loads(text) == {"mcpServers": {"cortex": entry}}
    assert str(project.root) not in text
    assert (project.root / ".gitignore").read_text("utf-8") == LINES
    assert write(project) == []


def test_each_project_file_can_be_skipped(project):
    assert write(project, mcp=False, gitignore=False) == []
    assert write(project, mcp=False) == [".gitignore"]
    assert write(project, gitignore=False) == [".mcp.json"]


def test_other_servers_and_lines_stay(project):
    (project.root / ".mcp.json").write_text(
        '{"mcpServers": {"other": {"command": "o"}}}', encoding="utf-8"
    )
    (project.root / ".gitignore").write_bytes(b"*.log\r\nbuild")
    write(project)
    assert set(json.loads((project.root / ".mcp.json").read_text("utf-8"))["mcpServers"]) == {
        "other",
        "cortex",
    }
    assert (project.root / ".gitignore").read_bytes() == b"*.log\r\nbuild\r\n" + LINES.replace(
        "\n", "\r\n"
    ).encode()


@pytest.mark.parametrize(
    "line", [".cortex", ".cortex/", "/.cortex/", ".cortex/*", "!.cortex/", ".*"]
)
def test_gitignore_that_mentions_the_store_is_left_alone(project, line):
    (project.root / ".gitignore").write_text(line + "\n", encoding="utf-8")
    assert write(project) == [".mcp.json"]


def test_gitignore_is_left_alone_when_the_store_folder_is_tracked(project):
    (project.root / ".cortex").mkdir()
    (project.root / ".cortex" / "config.json").write_text("{}", encoding="utf-8")
    git(project.root, "add", ".cortex/config.json")
    assert write(project) == [".mcp.json"]


def test_project_gitignore_is_written_beside_one_in_the_store_folder(project):
    (project.root / ".cortex").mkdir()
    (project.root / ".cortex" / ".gitignore").write_text("/cortex.db\n", encoding="utf-8")
    assert write(project) == [".mcp.json", ".gitignore"]


def test_git_ignores_the_store_and_not_the_settings(project):
    write(project)
    (project.root / ".cortex").mkdir()
    for name in ("cortex.db", "config.yml", "config.json"):
        (project.root / ".cortex" / name).write_text("x", encoding="utf-8")
    seen = subprocess.run(
        ["git", "status", "--porcelain", "-uall"],
        cwd=project.root,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    seen_files = sorted(line[3:] for line in seen.stdout.splitlines())
    assert seen_files == [".cortex/config.json", ".cortex/config.yml", ".gitignore", ".mcp.json"]


def test_gitignore_lines_of_an_earlier_version_are_completed_and_undoable(project):
    write(project, mcp=False)
    list_ = project.root / ".gitignore"
    list_.write_text("*.log\n" + EARLIER + "*.tmp", encoding="utf-8")
    git(project.root, "add", "--force", ".gitignore")
    assert write(project, mcp=False) == [".gitignore"]
    assert list_.read_text("utf-8") == "*.log\n" + LINES + "*.tmp"
    assert write(project, mcp=False) == []
    (edit,) = plan_ignore_removals(project.home, [])
    assert edit.after == b"*.log\n*.tmp"


def test_no_gitignore_is_written_without_git_and_a_note_explains_it(place):
    done = write_all(place)
    assert done.files == (".mcp.json",)
    assert [note for note in done.notes if ".gitignore was not written" in note]


def test_project_entry_keeps_its_command_and_gets_the_named_profile(project):
    for arguments in (["mcp", "--profile", "blue"], ["mcp", "memory", "team"]):
        entry = {"type": "stdio", "command": "cortex", "args": arguments}
        (project.root / ".mcp.json").write_text(
            json.dumps({"mcpServers": {"cortex": entry}}), encoding="utf-8"
        )
        assert write(project, gitignore=False) == []
        assert server_of(project) == ["cortex", *arguments]
    assert write(project, gitignore=False, profile="green") == [".mcp.json"]
    assert server_of(project) == ["cortex", "mcp", "memory", "team", "--profile", "green"]
    write(project, gitignore=False, profile="red")
    assert server_of(project) == ["cortex", "mcp", "memory", "team", "--profile", "red"]


def test_new_project_entry_names_a_command_that_works_here(project, tmp_path, monkeypatch):
    program = tmp_path / "bin" / ("cortex.exe" if os.name == "nt" else "cortex")
    program.parent.mkdir()
    program.write_text("", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("git") or ""))
    done = write_all(project, gitignore=False, program=str(program))
    assert server_of(project) == [str(program), "mcp"] and "not on the PATH" in done.notes[0]
    (project.root / ".mcp.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv("PATH", str(program.parent) + os.pathsep + os.environ["PATH"])
    assert write_all(project, gitignore=False, program=str(program)).notes == ()
    assert server_of(project) == ["cortex", "mcp"]


def test_foreign_project_entry_is_an_error(project):
    (project.root / ".mcp.json").write_text(
        '{"mcpServers": {"cortex": {"command": "o"}}}', encoding="utf-8"
    )
    with pytest.raises(ConfigError) as raised:
        write(project)
    assert raised.value.code == "ENTRY_FOREIGN"


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX")
def test_link_out_of_the_project_is_not_followed(project, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("x\n", encoding="utf-8")
    (project.root / ".gitignore").symlink_to(outside)
    with pytest.raises(Exception, match="leaves the project"):
        write(project, mcp=False)
    assert outside.read_text("utf-8") == "x\n"
