"""Ignore files: the same verdicts as git's."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cortex.engine.sources.gitignore import IgnoreTree, Patterns
from cortex.engine.sources.scanner import Rules, scan


@pytest.mark.parametrize(
    ("lines", "path", "verdict"),
    [
        (["*.log"], "a/b.log", True),
        (["*.log", "!keep.log"], "a/keep.log", False),
        (["/a.py"], "b/a.py", None),
        (["a/b.py"], "x/a/b.py", None),
        (["**/b.py"], "x/a/b.py", True),
        (["a/**/z.py"], "a/z.py", True),
        (["a/**/z.py"], "a/b/c/z.py", True),
        (["a/**"], "a/b/c", True),
        (["a/*"], "a/b/c", None),
        (["**/a/b/**/c"], "a/a/b/b/c", True),
        (["a/**/b*/**/c"], "a/x/b/c", True),
        (["a/**/b*/**/c"], "a/c/b", None),
        (["**/**/a"], "a", True),
        (["a/**/**"], "a/b", True),
        (["build/"], "build", None),
        (["# no", "", "\\#yes"], "#yes", True),
        (["\\!x"], "!x", True),
        (["trailing   "], "trailing", True),
        (["space\\ "], "space ", True),
        (["[a-c]?[!x].py"], "bzy.py", True),
        (["[a-c]?[!x].py"], "bzx.py", None),
        (["[[:digit:]]*"], "7up", True),
        (["[unclosed"], "[unclosed", None),
        (["a[]]b"], "a]b", True),
        (["a**b"], "axxb", True),
        (["x/a**b"], "x/a/b", None),
        (["tail\\"], "tail\\", None),
        (["[unclosed"], "u", None),
        (["[a\\"], "a", None),
        (["[]"], "]", None),
        (["[!]"], "a", None),
        (["[]a]x"], "ax", True),
        (["[!]a]x"], "ax", None),
        (["[^a]x"], "bx", True),
        (["a[!b]c"], "a/c", None),
        (["[a-]x"], "-x", True),
        (["[z-a]x"], "zx", True),
        (["[z-a]x"], "bx", None),
        (["[\\]]x"], "]x", True),
        (["[a\\-c]x"], "bx", None),
        (["[[:alpha:][:digit:]]x"], "7x", True),
        (["[[:nonsense:]]x"], "nx", None),
        (["[[:alpha:]x"], "ax", None),
        (["a?c"], "a/c", None),
        (["\\*"], "x", None),
        (["\\*"], "*", True),
        (["a\\ b  "], "a b", True),
        (["space\\\\ "], "space\\", True),
        (["!"], "x", None),
        (["/"], "x", None),
        (["a/**/b/**/c/**/d/**/e"], "a/x/b/c/y/z/d/e", True),
        (["a/**/b/**/c/**/d/**/e/**/f"], "a/b/c/d/e/f", None),
        (["*.log", "!keep.log", "keep.log"], "keep.log", True),
        (["!keep.log", "*.log"], "keep.log", True),
        (["a*b*c"], "axbxbc", True),
        (["a*b*c"], "axb/c", None),
        (["**"], "a/b", True),
        (["a/**b/c"], "a/xb/c", True),
        (["a/**b/c"], "a/x/b/c", None),
        (["a/b**/c"], "a/bx/c", True),
        (["**/x/*.py"], "a/x/b.py", True),
        (["**/x/*.py"], "a/x/b/c.py", None),
    ],
)
def test_a_pattern_matches_as_in_git(lines: list[str], path: str, verdict: bool | None) -> None:
    assert Patterns(lines).verdict(path, False) is verdict


def test_hostile_pattern_is_matched_quickly() -> None:
    patterns = Patterns(["*a" * 60 + "b", "**/a/**/a/**/a/**/b", "?*" * 60 + "b"])
    before = time.process_time()
    assert patterns.verdict("a" * 250, False) is None
    assert patterns.verdict("a/" * 2_000 + "c", False) is None
    assert time.process_time() - before < 2


_words = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "a.py",
        "b.log",
        "*",
        "?",
        "**",
        "*.py",
        "*.log",
        "a*",
        "[ab]",
        "[!a]*",
        "*b*",
        "\\a",
    ]
)
_patterns = st.builds(
    lambda mark, start, words, end: mark + start + "/".join(words) + end,
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(_words, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " "]),
)
_ignore_files = st.dictionaries(
    st.sampled_from(["", "a", "b", "a/b", "ab"]),
    st.lists(_patterns, min_size=1, max_size=5),
    min_size=1,
    max_size=3,
)
_NAMES = ["a.py", "b.log", "ab.py", "x.txt"]
_FOLDERS = ["", "a", "b", "ab", "a/b", "a/a", "b/a", "a/b/ab", "ab/b"]


@settings(max_examples=40)
@given(_ignore_files)
@example({"": ["*", "!*/", "!*.py"]})
@example({"": ["/*", "!/a/", "/a/*", "!/a/b/"]})
@example({"": ["a/", "!a/b/"], "a": ["!*.py"]})
@example({"": ["a", "/**", "!a"]})
@example({"": ["**/a/**/*b/**/a.py", "b/**/**", "/**/b/**/ab/**"]})
@example({"": ["*.py"], "a": ["!a.py"], "a/b": ["a.py"]})
def test_the_walk_finds_what_git_lists(
    tmp_path_factory: pytest.TempPathFactory, ignore_files: dict[str, list[str]]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for folder in _FOLDERS:
        (root / folder).mkdir(exist_ok=True, parents=True)
        for name in _NAMES:
            (root / folder / name).touch()
    for folder, lines in ignore_files.items():
        (root / folder / ".gitignore").write_text("\n".join(lines) + "\n", encoding="utf-8")
    walked = [file.path for file in scan(root, Rules()).files]
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "-c", "-o", "--exclude-standard"],
        check=True,
        capture_output=True,
    )
    assert walked == sorted(filter(None, listed.stdout.decode().split("\0")))
    assert walked == [file.path for file in scan(root, Rules()).files]


@pytest.mark.parametrize(
    ("lines", "folder", "verdict"),
    [
        (["build/"], "build", True),
        (["build/"], "a/build", True),
        (["/build/"], "a/build", None),
        (["a/build/"], "a/build", True),
        (["a/build/"], "x/a/build", None),
        (["build\\/"], "build", None),
        (["*", "!src/"], "src", False),
        (["*", "!src/"], "x", True),
        (["a/**"], "a", None),
    ],
)
def test_pattern_with_a_trailing_slash_matches_folders_only(
    lines: list[str], folder: str, verdict: bool | None
) -> None:
    assert Patterns(lines).verdict(folder, True) is verdict
    if lines[-1].endswith("/"):
        assert Patterns(lines[-1:]).verdict(folder, False) is None


def test_empty_lines_and_comments_are_no_patterns() -> None:
    assert not Patterns([])
    assert not Patterns(["", "# a comment", "   ", "/", "[unclosed"])
    assert Patterns(["a"])


def test_ignore_file_of_a_folder_counts_below_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".ignore").write_bytes(b"\xef\xbb\xbf*.log\r\n/dist/\r\n")
    (tmp_path / "a" / ".ignore").write_text("!keep.log\n/x.py\n", encoding="utf-8")
    (tmp_path / "a" / "b" / ".ignore").symlink_to(tmp_path / "a" / ".ignore")
    tree = IgnoreTree(tmp_path, ".ignore")
    ignored = {
        path: tree.ignores_file(path)
        for path in (
            "one.log", "a/one.log", "a/keep.log", "a/b/keep.log", "keep.log",
            "a/x.py", "x.py", "a/b/x.py", "dist/x.py", "dist/a/b.py", "a/dist/x.py",
        )
    }  # fmt: skip
    assert {path for path, is_ignored in ignored.items() if is_ignored} == {
        "one.log", "a/one.log", "keep.log", "a/x.py", "dist/x.py", "dist/a/b.py",
    }  # fmt: skip
    assert [tree.ignores_folder(path) for path in ("", "a", "dist", "dist/a", "a/dist")] == [
        False, False, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "counts"), [(1_000_000, True), (1_000_001, False)])
def test_ignore_file_above_a_megabyte_is_skipped(tmp_path: Path, size: int, counts: bool) -> None:
    (tmp_path / ".ignore").write_bytes(b"*.log\n" + b"#" * (size - 6))
    assert IgnoreTree(tmp_path, ".ignore").ignores_file("a.log") is counts


def test_missing_ignore_file_or_a_folder_in_its_place_ignores_nothing(tmp_path: Path) -> None:
    (tmp_path / ".ignore").mkdir()
    assert IgnoreTree(tmp_path, ".ignore").ignores_file("a.log") is False
    assert IgnoreTree(tmp_path / "nowhere", ".ignore").ignores_folder("a") is False
