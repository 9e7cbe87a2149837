"""Our reading of ignore files is git's."""

from __future__ import annotations

import subprocess
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cortex.engine.sources.gitignore import Patterns
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
    ],
)
def test_a_pattern_matches_as_in_git(lines: list[str], path: str, verdict: bool | None) -> None:
    assert Patterns(lines).verdict(path, False) is verdict


def test_a_hostile_pattern_costs_no_time() -> None:
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
