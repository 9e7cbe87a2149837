"""The plugin that comes with Cortex: what git knows of the file or the function that a pack is
about.

The last commits that touched it, and who changed the file most in the last year. It runs in
Cortex's own process: the work is done by git, which has a time limit there already. A function's
commits are those of its lines; where they can't be had in time, those of the file. Not taken:
following renames (git then compares whole trees), and `git diff` to find the lines before the last
edits, which may run filters that a stranger's repository names.
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
SEARCHED = 200  # commits of a file that are looked at to know its authors
AUTHORS = 3
SECONDS = 1.0  # for each question to git
YEAR_SECONDS = 365 * 24 * 3600
_NAME = re.compile(r"\w+")


class GitHistory(Plugin):
    """Who changed a file or a function, when and why."""

    name = "git"
    category = "context"
    permissions = ("context", "files")
    config_schema: ClassVar[Mapping[str, object]] = {
        "type": "object",
        "properties": {"commits": {"type": "integer", "minimum": 1, "maximum": 50}},
        "additionalProperties": False,
    }

    def enrich_context_pack(self, subject: Subject, partial: Sequence[Section]) -> list[Section]:
        """The history of the subject's file, where it has one."""
        # It is in no project here: ours may have a file of that name
        if not subject.path or not subject.repo_root:
            return []
        folder = Path(subject.repo_root)
        most = self.context.config.get("commits")
        count = most if isinstance(most, int) else COMMITS
        of_file = git.commits(folder, subject.path, max(SEARCHED, count), SECONDS)
        if not of_file:
            return []
        shallow = any(not one.parents for one in of_file) and git.is_shallow(folder)
        # The oldest commit of a shallow clone seems to have made every file.
        of_file = [one for one in of_file if one.parents or not shallow]
        of_symbol = [
            one for one in _of_symbol(folder, subject, count) if one.parents or not shallow
        ]
        shown = (of_symbol or of_file)[:count]
        lines = [Line(_told(one), one.id) for one in shown]
        lines += [Line(f"who knows it: {people}")] if (people := _people(of_file)) else []
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


def _of_symbol(folder: Path, subject: Subject, count: int) -> list[git.Commit]:
    """The commits that touched the lines of the subject's symbol; none where there is none or it
    isn't found.
    """
    name = re.split(r"\W+", subject.symbol)[-1]
    if not _NAME.fullmatch(name):
        return []
    place = _as_committed(folder, subject) if subject.lines else f":{name}"
    return git.commits_of_lines(folder, subject.path, place, count, SECONDS) if place else []


def _as_committed(folder: Path, subject: Subject) -> str:
    """Where the symbol's lines are in the last commit: the file may have been edited since."""
    start, end = subject.lines or (0, 0)
    before = git.committed(folder, subject.path)
    try:
        now = (folder / subject.path).read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):
        return ""
    if before is None or not 1 <= start <= end <= len(now):
        return ""
    old = before.splitlines()
    same = [number for number, line in enumerate(old, 1) if line == now[start - 1]]
    if not same:
        return ""
    first = min(same, key=lambda number: abs(number - start))
    return f"{first},{min(first + end - start, len(old))}"


def _told(commit: git.Commit) -> str:
    return f"{commit.id} {commit.day} {one_line(commit.author, 60)}: {commit.subject}"


def _people(commits: Sequence[git.Commit]) -> str:
    """Who made most of these commits in the last year, with how many."""
    since = time.time() - YEAR_SECONDS
    authors = Counter(one_line(commit.author, 60) for commit in commits if commit.moment >= since)
    ranked = sorted(authors.items(), key=lambda counted: (-counted[1], counted[0]))
    return ", ".join(f"{author} ({number})" for author, number in ranked[:AUTHORS])
