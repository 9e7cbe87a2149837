"""Git history plugin: commits of the file or function that a context pack is about.

Returns the last commits that touched it, and the authors who changed the file most in the last
year. Runs in Cortex's own process: git does the work and has a time limit already. The commits of a
function are those of its lines; where they can't be had in time, those of the file. Not taken:
following renames (git then compares whole trees), and `git diff` to find the lines before the last
edits, which may run filters that an untrusted repository names.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from cortex.base.text import one_line
from cortex.engine.sources import git
from cortex.plugins.api import Line, Plugin, Section, Subject

COMMITS = 5
# Commits of a file that are searched for its authors.
SEARCHED = 200
AUTHORS = 3
# Time limit of each git command.
SECONDS = 1.0
YEAR_SECONDS = 365 * 24 * 3600
_NAME = re.compile(r"\w+")


class GitHistory(Plugin):
    """Authors, dates and subjects of the changes to a file or function."""

    name = "git"
    category = "context"
    permissions = ("context", "files")
    config_schema: ClassVar[Mapping[str, object]] = {
        "type": "object",
        "properties": {"commits": {"type": "integer", "minimum": 1, "maximum": 50}},
        "additionalProperties": False,
    }

    def enrich_context_pack(self, subject: Subject, partial: Sequence[Section]) -> list[Section]:
        """Return the history of the subject's file, where it has one."""
        # Without a root the file isn't in a project here; ours may have a file of that name.
        if not subject.path or not subject.repo_root:
            return []
        folder = Path(subject.repo_root)
        most = self.context.config.get("commits")
        count = most if isinstance(most, int) else COMMITS
        of_file = git.commits(folder, subject.path, max(SEARCHED, count), SECONDS)
        if not of_file:
            return []
        shallow = any(not commit.parents for commit in of_file) and git.is_shallow(folder)
        # The oldest commit of a shallow clone seems to have created every file.
        of_file = [commit for commit in of_file if commit.parents or not shallow]
        of_symbol = [
            commit
            for commit in _commits_of_symbol(folder, subject, count)
            if commit.parents or not shallow
        ]
        shown = (of_symbol or of_file)[:count]
        lines = [Line(_describe(commit), commit.id) for commit in shown]
        lines += [Line(f"who knows it: {people}")] if (people := _top_authors(of_file)) else []
        lines += (
            [Line("older commits aren't in this clone (it is shallow)")]
            if shallow and len(shown) < count
            else []
        )
        return [
            Section(
                f"Commits that touched {subject.symbol if of_symbol else subject.path}",
                tuple(lines),
            )
        ]


def _commits_of_symbol(folder: Path, subject: Subject, count: int) -> list[git.Commit]:
    """Return the commits that touched the lines of the subject's symbol, if it is found."""
    name = re.split(r"\W+", subject.symbol)[-1]
    if not _NAME.fullmatch(name):
        return []
    place = _committed_lines(folder, subject) if subject.lines else f":{name}"
    return git.commits_of_lines(folder, subject.path, place, count, SECONDS) if place else []


def _committed_lines(folder: Path, subject: Subject) -> str:
    """Return the range of the symbol's lines in the last commit: the file may have been edited."""
    start, end = subject.lines or (0, 0)
    committed = git.committed(folder, subject.path)
    try:
        current = (folder / subject.path).read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):
        return ""
    if committed is None or not 1 <= start <= end <= len(current):
        return ""
    old = committed.splitlines()
    candidates = [
        line_number for line_number, line in enumerate(old, 1) if line == current[start - 1]
    ]
    if not candidates:
        return ""
    first = min(candidates, key=lambda line_number: abs(line_number - start))
    return f"{first},{min(first + end - start, len(old))}"


def _describe(commit: git.Commit) -> str:
    return f"{commit.id} {commit.day} {one_line(commit.author, 60)}: {commit.subject}"


def _top_authors(commits: Sequence[git.Commit]) -> str:
    """Return the authors of most of these commits in the last year, with counts."""
    since = time.time() - YEAR_SECONDS
    authors = Counter(one_line(commit.author, 60) for commit in commits if commit.moment >= since)
    ranked = sorted(authors.items(), key=lambda counted: (-counted[1], counted[0]))
    return ", ".join(f"{author} ({count})" for author, count in ranked[:AUTHORS])
