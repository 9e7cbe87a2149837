"""The files of an index run in the order they are read, and how a question moves those that fit it
to the front.

Knows paths and words only. It is used by two threads: the run that reads, and a question that waits
for a few of the files.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cortex.base.text import words_of
from cortex.base.types import ScannedFile

PREFERRED_FILES = 200  # that a question has read first: about half a second of reading
NAME_WEIGHT = 2.0  # of a word in the file's name, where one in a folder's is 1
# That a word of a path must share with one of the question: "cookies" and "cookie"
STEM_LETTERS = 4


@dataclass(frozen=True, slots=True)
class Preference:
    """The files that a question waits for, and whether they can be found by now."""

    paths: frozenset[str]
    searchable: threading.Event = field(default_factory=threading.Event)

    @property
    def is_searchable(self) -> bool:
        """Whether there is nothing to wait for."""
        return not self.paths or self.searchable.is_set()


class FileQueue:
    """Files still to be read; those that a question prefers come first."""

    def __init__(self, files: Iterable[ScannedFile] = ()) -> None:
        # Hidden folders last: they are CI and editor settings more often than what a first question
        # is about.
        ordered = sorted(files, key=lambda file: file.path.startswith(".") or "/." in file.path)
        self._waiting = {file.path: file for file in ordered}
        self._unread = set(self._waiting)
        self._preferred: list[str] = []
        self._preferences: list[Preference] = []
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[ScannedFile]:
        while (file := self._next()) is not None:
            yield file

    def _next(self) -> ScannedFile | None:
        with self._lock:
            while self._preferred:
                file = self._waiting.pop(self._preferred.pop(0), None)
                if file is not None:
                    return file
            return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    def prefer(self, words: Iterable[str]) -> Preference:
        """Have the files read next whose paths fit these words best."""
        with self._lock:
            unread = sorted(self._unread)
        best = _best_fitting(unread, [word for word in words if len(word) > 2])
        preference = Preference(frozenset(best))
        if not best:
            return preference
        with self._lock:
            self._preferred = best
            self._preferences.append(preference)
        return preference

    def finish(self, path: str) -> None:
        """Note that a file was read."""
        with self._lock:
            self._unread.discard(path)

    def take_read(self) -> list[Preference]:
        """The preferences whose files have all been read since the last call."""
        with self._lock:
            if not self._preferences:
                return []
            read = [wish for wish in self._preferences if self._unread.isdisjoint(wish.paths)]
            self._preferences = [wish for wish in self._preferences if wish not in read]
            return read


def _best_fitting(paths: list[str], words: list[str]) -> list[str]:
    """The paths that say most of the words, rare words before common ones, at most
    `PREFERRED_FILES`.
    """
    said = {path: (set(words_of(path)), set(words_of(path.rpartition("/")[2]))) for path in paths}
    scores: dict[str, float] = {}
    for word in dict.fromkeys(words):
        stem = word[: max(STEM_LETTERS, len(word) - 2)]
        matching = [path for path in paths if stem in path.lower() and _says(said[path][0], stem)]
        rarity = math.log(1 + len(paths) / len(matching)) if matching else 0.0
        for path in matching:
            weight = NAME_WEIGHT if _says(said[path][1], stem) else 1.0
            scores[path] = scores.get(path, 0.0) + rarity * weight
    return sorted(scores, key=lambda path: (-scores[path], path))[:PREFERRED_FILES]


def _says(words: set[str], stem: str) -> bool:
    return any(word.startswith(stem) for word in words)
