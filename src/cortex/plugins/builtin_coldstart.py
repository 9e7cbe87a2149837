"""Bootstrap context for a new home: a project's README, documents and history, quoted.

Used for a bootstrap pack that has nothing else; as soon as the team has topics, decisions or
priorities of its own, those are shown instead. Only quotes, nothing is summarised. The files are
untrusted: no link is followed. Lines are returned whole: the caller removes secrets from them first
and cuts them then.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar

from cortex.base.paths import without_waiting
from cortex.base.text import one_line
from cortex.engine.sources import git
from cortex.plugins.api import Line, Plugin, Section, Subject

# The kind of subject that this plugin answers.
BOOTSTRAP = "bootstrap"
# Paragraphs of a README.
PARAGRAPHS = 3
DOCUMENTS = 15
COMMITS = 8
AUTHORS = 5
# Commits that are searched for authors; entries of a folder that are searched for documents.
SEARCHED = 200
# Time limit for git.
SECONDS = 1.0
# Characters read of a file.
READ_CHARACTERS = 20_000
README = re.compile(r"readme(?:\.(?:md|markdown|rst|txt))?", re.IGNORECASE)
TEXTS = (".md", ".markdown", ".rst")
FOLDERS = ("docs", "doc", "documentation")
_HEADING = re.compile(r"#{1,6}\s+(.+?)\s*#*$|^([^\s#].*)\n(?:={3,}|-{3,})$", re.MULTILINE)
_NO_PROSE = re.compile(r"^(?:#|!\[|\[!\[|<|```|~~~|\||[-*=_]{3,}\s*$)")


class ColdStart(Plugin):
    """Facts about a project that has no records yet."""

    name = "coldstart"
    category = "context"
    permissions = ("context", "files")
    config_schema: ClassVar[Mapping[str, object]] = {
        "type": "object",
        "properties": {
            "documents": {"type": "integer", "minimum": 0, "maximum": 50},
            "commits": {"type": "integer", "minimum": 0, "maximum": 50},
        },
        "additionalProperties": False,
    }

    def enrich_context_pack(self, subject: Subject, partial: Sequence[Section]) -> list[Section]:
        """Return the project's own description, for a bootstrap pack."""
        if subject.kind != BOOTSTRAP or not subject.repo_root:
            return []
        root = Path(subject.repo_root)
        parts = (
            ("What the README says", _readme(root)),
            ("Documents", _documents(root, self._limit("documents", DOCUMENTS))),
            ("Last commits", _history(root, self._limit("commits", COMMITS))),
        )
        return [Section(title, tuple(lines)) for title, lines in parts if lines]

    def _limit(self, setting: str, default: int) -> int:
        limit = self.context.config.get(setting)
        return limit if isinstance(limit, int) else default


def _readme(root: Path) -> list[Line]:
    """Return the heading and the first paragraphs of the README."""
    names = (path for path in _files(root) if README.fullmatch(path.name))
    path = min(names, key=lambda path: (path.suffix.lower() != ".md", path.name), default=None)
    text = _read(path) if path else ""
    lines = [_heading(text), *islice(_paragraphs(text), PARAGRAPHS)]
    return [Line(line, path.name) for line in lines if line] if path else []


def _documents(root: Path, most: int) -> list[Line]:
    """Return the headings of the other documents, those beside the README first."""
    folders = [
        root,
        *(
            folder
            for name in FOLDERS
            if (folder := root / name).is_dir() and not folder.is_symlink()
        ),
    ]
    paths = [path for folder in folders for path in _files(folder)]
    texts = [
        path
        for path in paths
        if path.suffix.lower() in TEXTS
        and not (path.parent == root and README.fullmatch(path.name))
    ]
    lines = []
    for path in texts[:most]:
        place = path.relative_to(root).as_posix()
        heading = _heading(_read(path))
        lines.append(Line(f"{place}: {heading}" if heading else place, place))
    return lines


def _history(root: Path, most: int) -> list[Line]:
    """Return the last commits, and the authors of most of the searched ones."""
    commits = git.commits(root, ".", max(SEARCHED, most), SECONDS) if most else []
    lines = [Line(_commit(commit), commit.id) for commit in commits[:most]]
    authors = Counter(one_line(commit.author, 60) for commit in commits)
    ranked = sorted(authors.items(), key=lambda counted: (-counted[1], counted[0]))[:AUTHORS]
    people = ", ".join(f"{author} ({count})" for author, count in ranked)
    return [*lines, Line(f"who works here: {people}")] if people else lines


def _commit(commit: git.Commit) -> str:
    return f"{commit.id} {commit.day} {one_line(commit.author, 60)}: {commit.subject}"


def _files(folder: Path) -> list[Path]:
    """List the files of a folder by name, without links."""
    try:
        entries = sorted(islice(folder.iterdir(), SEARCHED))
        return [path for path in entries if path.is_file() and not path.is_symlink()]
    except OSError:
        return []


def _read(path: Path) -> str:
    """Read the beginning of a file."""
    try:
        with open(path, encoding="utf-8", errors="replace", opener=without_waiting) as file:
            return file.read(READ_CHARACTERS)
    except OSError:
        return ""


def _heading(text: str) -> str:
    match = _HEADING.search(text)
    return (match[1] or match[2]) if match else ""


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text that are prose; code and images are left out."""
    fenced = False
    for part in re.split(r"\n\s*\n", text):
        fences = len(re.findall(r"^(?:```|~~~)", part, re.MULTILINE))
        if (
            not fenced
            and not fences
            and part.strip()
            and not _NO_PROSE.match(part.strip())
            and not _HEADING.match(part)
        ):
            yield " ".join(part.split())
        fenced ^= fences % 2 == 1
