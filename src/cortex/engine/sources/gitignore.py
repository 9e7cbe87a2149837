"""Git's ignore patterns, compiled to expressions, and verdicts by a tree of ignore files.

A pattern is matched against one entry, file or folder; an ignored folder decides for all below it.
This is git's own order, and the tests compare it with git. Road not taken: pathspec, which mixes a
pattern's own match with matches of parent folders and so calls `src/` ignored under `*`, `!*/`,
`!*.py`. Knows nothing of repositories; see git.py.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import regex

from cortex.engine.sources.inherited_rules import inherit

MAX_IGNORE_BYTES = 1_000_000
# Most `**` in one pattern: each multiplies the time that a hostile pattern can take.
MAX_DEEP_STARS = 4
_DEEP = re.compile(r"/\*\*(?:/|$)")
_FLAGS = re.DOTALL | (re.IGNORECASE if sys.platform in ("win32", "darwin") else 0)
_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Line:
    """One translated pattern line."""

    negated: bool
    folder_only: bool
    # Without a slash: matched against the last part of a path.
    by_name: bool
    expression: str


@dataclass(frozen=True, slots=True)
class _Group:
    """Consecutive lines with the same outcome, joined into one expression per kind of match."""

    ignored: bool
    file_name: regex.Pattern[str] | None
    file_path: regex.Pattern[str] | None
    folder_name: regex.Pattern[str] | None
    folder_path: regex.Pattern[str] | None


class Patterns:
    """A list of ignore patterns; the last one that matches decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._groups = _group([line for line in map(_translate, lines) if line is not None])

    def __bool__(self) -> bool:
        return bool(self._groups)

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Verdict on the entry itself.

        True: ignored; False: kept by a negated pattern; None: no pattern matches.
        """
        name = path.rpartition("/")[2]
        for group in self._groups:
            by_name, by_path = (
                (group.folder_name, group.folder_path)
                if is_folder
                else (group.file_name, group.file_path)
            )
            if (by_name and by_name.fullmatch(name)) or (by_path and by_path.fullmatch(path)):
                return group.ignored
        return None


# Folders, with "/" at the end, and the patterns of their ignore files.
Chain = tuple[tuple[str, Patterns], ...]


class IgnoreTree:
    """Verdicts of all ignore files called `name` below `root`, each read on first use."""

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._name = name
        self._chains: dict[str, Chain] = {"": self._extend_chain("", ())}
        self._folders: dict[str, bool] = {"": False}

    def ignores_folder(self, path: str) -> bool:
        """True if the folder, or one that contains it, is ignored."""
        return inherit(
            self._folders,
            path,
            lambda folder, above: above or self._judge(folder, folder.rpartition("/")[0], True),
        )

    def ignores_file(self, path: str) -> bool:
        """True if the file, or a folder that contains it, is ignored."""
        parent = path.rpartition("/")[0]
        return self.ignores_folder(parent) or self._judge(path, parent, False)

    def _judge(self, path: str, parent: str, is_folder: bool) -> bool:
        for base, patterns in self._chain(parent):
            verdict = patterns.verdict(path[len(base) :], is_folder)
            if verdict is not None:
                return verdict
        return False

    def _chain(self, folder: str) -> Chain:
        """Ignore files for entries of `folder`: its own first, the root's last."""
        return inherit(self._chains, folder, self._extend_chain)

    def _extend_chain(self, folder: str, above: Chain) -> Chain:
        patterns = Patterns(_read_lines(self._root / folder / self._name))
        return ((folder + "/" if folder else "", patterns), *above) if patterns else above


def _read_lines(file: Path) -> list[str]:
    """Lines of an ignore file; like git, none of a symlink."""
    try:
        status = os.lstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_IGNORE_BYTES:
            return []
        text = file.read_bytes().decode("utf-8", errors="surrogateescape")
    except OSError:
        return []
    return [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]


def _group(lines: list[_Line]) -> tuple[_Group, ...]:
    groups: list[list[_Line]] = []
    for line in reversed(lines):
        if groups and groups[-1][0].negated == line.negated:
            groups[-1].append(line)
        else:
            groups.append([line])
    return tuple(
        _Group(
            ignored=not group[0].negated,
            file_name=_join(line for line in group if line.by_name and not line.folder_only),
            file_path=_join(line for line in group if not line.by_name and not line.folder_only),
            folder_name=_join(line for line in group if line.by_name),
            folder_path=_join(line for line in group if not line.by_name),
        )
        for group in groups
    )


def _join(lines: Iterable[_Line]) -> regex.Pattern[str] | None:
    expressions = sorted({line.expression for line in lines})
    # `re` gives atomic groups another meaning before Python 3.11.5.
    return regex.compile("|".join(expressions), _FLAGS) if expressions else None


def _translate(line: str) -> _Line | None:
    """Translate one line; None for comments, blank lines and patterns that never match."""
    body = _strip(line)
    if not body or body.startswith("#"):
        return None
    negated = body.startswith("!")
    body = body.removeprefix("!")
    folder_only = body.endswith("/") and not body.endswith("\\/")
    body = body.removesuffix("/") if folder_only else body
    by_name = "/" not in body
    body = body.removeprefix("/")
    if not body or body.count("**") > MAX_DEEP_STARS:
        return None
    expression = _expression(body, by_name)
    return None if expression is None else _Line(negated, folder_only, by_name, expression)


def _strip(line: str) -> str:
    """Strip trailing spaces, except an escaped one."""
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and len(stripped) < len(line) else stripped


def _expression(body: str, by_name: bool) -> str | None:
    """Regular expression of a glob, with linear matching time.

    A star takes the shortest run that lets the text before the next star match, and never gives it
    back: any longer run only leaves less for the rest. So does `**`, up to the next `**`.
    """
    out: list[str] = []
    # The groups of the last star and the last `**` are still open.
    star_open = deep_open = False
    at = 0
    while at < len(body):
        if body[at] != "*":
            piece, at = _piece(body, at)
            if piece is None:
                return None
            out.append(piece)
            continue
        end = at + len(body[at:]) - len(body[at:].lstrip("*"))
        deep = (
            end - at == 2
            and (at == 0 or body[at - 1] == "/")
            and not by_name
            and body[end : end + 1] in ("", "/")
        )
        out.append(")" * (star_open + (deep and deep_open)))
        star_open = False
        if deep:
            deep_open = _DEEP.search(body, end) is not None
            out.append(".+" if end == len(body) else "(?>(?:.*?/)??" if deep_open else "(?:.*/)?")
            end += 1
        else:
            star_open = "*" in body[end:]
            out.append("(?>[^/]*?" if star_open else "[^/]*")
        at = end
    return "".join(out) + ")" * (star_open + deep_open)


def _piece(body: str, at: int) -> tuple[str | None, int]:
    """Expression of the character, `?` or bracket at `at`, and the next position."""
    character = body[at]
    if character == "?":
        return "[^/]", at + 1
    if character == "[":
        return _bracket(body, at + 1)
    if character == "\\":
        return (re.escape(body[at + 1]), at + 2) if at + 1 < len(body) else (None, at)
    return re.escape(character), at + 1


def _bracket(body: str, at: int) -> tuple[str | None, int]:
    """Expression of `[a-z]`, `[!x]`, `[[:digit:]]`, never a slash; None where not closed."""
    negated = at < len(body) and body[at] in "!^"
    at += negated
    first, parts = at, []
    while at < len(body) and (body[at] != "]" or at == first):
        if body.startswith("[:", at) and (end := body.find(":]", at)) > 0:
            if body[at + 2 : end] not in _CLASSES:
                return None, at
            parts.append(_CLASSES[body[at + 2 : end]])
            at = end + 2
            continue
        low, at = _bracket_character(body, at)
        if body.startswith("-", at) and at + 1 < len(body) and body[at + 1] != "]":
            high, at = _bracket_character(body, at + 1)
            parts.append(
                re.escape(low) + (f"{re.escape(low)}-{re.escape(high)}" if low <= high else "")
            )
        else:
            parts.append(re.escape(low))
    if at >= len(body):
        return None, at
    return f"(?!/)[{'^' if negated else ''}{''.join(parts)}]", at + 1


def _bracket_character(body: str, at: int) -> tuple[str, int]:
    at += body[at] == "\\" and at + 1 < len(body)
    return body[at], at + 1
