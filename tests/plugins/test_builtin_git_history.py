"""Sections from the git history of a file, on real repositories and without one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.engine.sources import git as git_calls
from cortex.families.team.tools.plugins import open_plugins
from cortex.plugins import Plugins, Section, Subject

DAY = 24 * 3600
TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
LAMP = """\
import os


def on():
    return {on}


class Lamp:
    def off(self):
        return {off}

    def colour(self):
        return {colour}
"""
Commit = Callable[..., None]


def git(folder: Path, *arguments: str, **more: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **more},
        timeout=30,
    ).stdout


def commit(folder: Path, subject: str, author: str = "Ada", days_ago: int = 1) -> None:
    moment = f"{int(time.time()) - days_ago * DAY} +0000"
    who = {"GIT_AUTHOR_NAME": author, "GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject, **who)


def write(folder: Path, on: int = 1, off: int = 1, colour: int = 1, before: str = "") -> None:
    (folder / "lamp.py").write_text(
        before + LAMP.format(on=on, off=off, colour=colour), encoding="utf-8"
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, strangers_environment: object) -> Path:
    """A repository in which each function of a lamp was changed by another author."""
    folder = tmp_path_factory.mktemp("shop")
    git(folder, "init", "-q")
    write(folder)
    commit(folder, "lamp: light", "Old Hand", 700)
    write(folder, on=2)
    commit(folder, "lamp: turn it on twice", "Ada", 30)
    (folder / "other.txt").write_text("x", encoding="utf-8")
    commit(folder, "something else", "Zoe", 20)
    write(folder, on=2, off=2)
    commit(folder, "lamp: turn it off \x1b[31mtwice\x1b[0m", "Bob", 10)
    write(folder, on=2, off=2, colour=2)
    commit(folder, "lamp: a colour", "Ada", 5)
    return folder


def history(repository: Path | None, subject: Subject, **config: object) -> list[Section]:
    with Plugins({"git": config}) as plugins:
        sections, warnings = plugins.enrich(replace(subject, repo_root=str(repository or "")))
    assert warnings == []
    return sections


def lines_of(
    root: Path, path: str = "lamp.py", symbol: str = "", lines: tuple[int, int] | None = None
) -> list[str]:
    """The lines of the only section, without what changes from run to run."""
    (section,) = history(root, Subject("code", path=path, symbol=symbol, lines=lines))
    return [
        section.title,
        *(line.text.split(" ", 2)[2] if line.id else line.text for line in section.lines),
    ]


def test_file_section_has_its_last_commits_and_top_authors(shop: Path) -> None:
    assert lines_of(shop) == [
        "Commits that touched lamp.py",
        "Ada: lamp: a colour",
        r"Bob: lamp: turn it off \x1b[31mtwice\x1b[0m",
        "Ada: lamp: turn it on twice",
        "Old Hand: lamp: light",
        "who knows it: Ada (2), Bob (1)",
    ]


def test_commit_is_shown_with_short_hash_and_date(shop: Path) -> None:
    ((section),) = history(shop, Subject("code", path="lamp.py"), commits=1)
    line = section.lines[0]
    short, day = git(shop, "log", "-1", "--format=%h %cs").split()
    assert (line.id, line.text, len(section.lines)) == (
        short,
        f"{short} {day} Ada: lamp: a colour",
        2,
    )
    assert section.plugin == "git"


def test_function_section_has_the_commits_that_touched_its_lines(shop: Path) -> None:
    assert lines_of(shop, symbol="on")[:3] == [
        "Commits that touched on",
        "Ada: lamp: turn it on twice",
        "Old Hand: lamp: light",
    ]
    assert lines_of(shop, symbol="Lamp.off", lines=(9, 10))[1:3] == [
        r"Bob: lamp: turn it off \x1b[31mtwice\x1b[0m",
        "Old Hand: lamp: light",
    ]


def test_function_is_found_in_the_last_commit_below_uncommitted_lines(shop: Path) -> None:
    write(shop, on=2, off=2, colour=2, before="# one\n# two\n# three\n")
    try:
        assert lines_of(shop, symbol="Lamp.off", lines=(12, 13))[1:3] == [
            r"Bob: lamp: turn it off \x1b[31mtwice\x1b[0m",
            "Old Hand: lamp: light",
        ]
    finally:
        git(shop, "checkout", "-q", "--", "lamp.py")


@pytest.mark.parametrize(
    ("symbol", "lines"),
    [
        ("missing", None),
        ("off", (900, 901)),
        ("off", (0, 0)),
        ("off", (5, 2)),
        ("operator()", None),
        ("a|b)*", None),
    ],
)
def test_function_unknown_to_git_gets_the_commits_of_its_file(
    shop: Path, symbol: str, lines: tuple[int, int] | None
) -> None:
    assert lines_of(shop, symbol=symbol, lines=lines) == lines_of(shop)


def test_folder_within_a_repository_has_paths_relative_to_itself(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "inner").mkdir()
    write(tmp_path / "inner")
    commit(tmp_path, "first")
    assert lines_of(tmp_path / "inner", symbol="Lamp.off", lines=(9, 10))[:2] == [
        "Commits that touched Lamp.off",
        "Ada: first",
    ]


@pytest.mark.skipif(os.name == "nt", reason="such names can't be there")
@pytest.mark.parametrize(
    "name", ["-rf", ":(glob)*", "a:b.py", "ü ñ.py", "new\nline.py", "[x]*.py", '"q".py']
)
def test_strange_file_names_are_found(tmp_path: Path, name: str) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "plain.py").write_text("x", encoding="utf-8")
    commit(tmp_path, "other")
    (tmp_path / name).write_text("def on():\n    return 1\n", encoding="utf-8")
    commit(tmp_path, "strange", "Bob")
    assert lines_of(tmp_path, name)[1:] == ["Bob: strange", "who knows it: Bob (1)"]
    assert lines_of(tmp_path, name, "on", (1, 2))[:2] == ["Commits that touched on", "Bob: strange"]


def test_shallow_clone_is_noted_and_its_oldest_commit_not_blamed(
    shop: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--depth=2", shop.as_uri(), "copy")
    assert lines_of(tmp_path / "copy") == [
        "Commits that touched lamp.py",
        "Ada: lamp: a colour",
        "who knows it: Ada (1)",
        "older commits aren't in this clone (it is shallow)",
    ]


@pytest.mark.parametrize(
    "path", ["", "new.py", "../outside.py", "/etc/hosts", "a\0b", "missing/x.py"]
)
def test_path_without_history_gets_no_section(shop: Path, path: str) -> None:
    (shop / "new.py").write_text("x", encoding="utf-8")
    try:
        assert history(shop, Subject("code", path=path, symbol="on", lines=(1, 1))) == []
    finally:
        (shop / "new.py").unlink()


def test_file_outside_every_local_project_gets_no_section(shop: Path) -> None:
    with Plugins({"git": {}}, shop) as plugins:
        assert plugins.enrich(Subject("code", path="lamp.py")) == ([], [])


def test_missing_repository_commit_or_git_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    subject = Subject("code", path="lamp.py", symbol="on")
    assert (
        history(tmp_path, subject)
        == history(None, subject)
        == history(tmp_path / "missing", subject)
        == []
    )
    git(tmp_path, "init", "-q")
    assert history(tmp_path, subject) == []
    commit(tmp_path, "first")
    assert len(history(tmp_path, subject)) == 1
    monkeypatch.setattr(git_calls, "_program", lambda: None)
    assert history(tmp_path, subject) == []


@pytest.mark.skipif(os.name == "nt", reason="the traps are shell scripts")
def test_programs_named_by_a_repository_are_not_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path)
    commit(tmp_path, "first")
    write(tmp_path, on=2)
    commit(tmp_path, "second")
    trap, caught = tmp_path / "trap.sh", tmp_path / "caught"
    trap.write_text(f"#!/bin/sh\necho $0 $@ >> '{caught}'\ncat\n", encoding="utf-8")
    trap.chmod(0o755)
    (tmp_path / ".gitattributes").write_text("*.py diff=trap filter=trap\n", encoding="utf-8")
    keys = "diff.external diff.trap.command diff.trap.textconv filter.trap.clean filter.trap.smudge core.fsmonitor core.pager gpg.program"
    for key in keys.split():
        git(tmp_path, "config", key, str(trap))
    git(tmp_path, "config", "log.showSignature", "true")
    write(tmp_path, on=3)
    assert lines_of(tmp_path, symbol="on", lines=(4, 5))[1:3] == ["Ada: second", "Ada: first"]
    assert not caught.exists()


@pytest.mark.skipif(os.name == "nt", reason="the slow git is a shell script")
def test_answers_of_a_slow_git_within_the_time_limit_are_shown(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "git"
    slow.write_text(
        "#!/bin/sh\nprintf '\\0abc1234\\0002026-01-02\\0001\\0Ada\\0slowly\\000def\\0\\n\\0half'\nexec sleep 60\n",
        encoding="utf-8",
    )
    slow.chmod(0o755)
    monkeypatch.setattr(git_calls, "_program", lambda: str(slow))
    started = time.monotonic()
    (commit_found,) = git_calls.commits(shop, "lamp.py", 5, seconds=1)
    assert (commit_found.id, commit_found.subject) == ("abc1234", "slowly")
    assert time.monotonic() - started < 20


def test_invalid_settings_of_the_plugin_are_a_warning(shop: Path) -> None:
    with Plugins({"git": {"commits": "many"}}, shop) as plugins:
        why = "plugin git: its settings don't fit: commits: 'many' is not of type 'integer'"
        assert plugins.enrich(Subject("code", path="lamp.py")) == ([], [why])
        assert plugins.preflight("x").allowed


@pytest.mark.parametrize(
    ("redact", "shown"), [("answers", "[redacted: GitHub token]"), ("off", TOKEN)]
)
def test_secrets_in_commit_subjects_are_shown_only_if_configured(tmp_path, redact, shown):
    git(tmp_path, "init", "-q")
    write(tmp_path)
    commit(tmp_path, f"lamp: light it {'brightly ' * 16}with {TOKEN}")
    settings = load(
        None, environment={"CORTEX_HOME": str(tmp_path), "CORTEX_SECURITY_REDACT": redact}
    )
    with open_plugins(settings, tmp_path) as plugins:
        sections, _ = plugins.enrich(Subject("code", path="lamp.py", repo_root=str(tmp_path)))
    assert sections[0].lines[0].text.endswith(shown)
