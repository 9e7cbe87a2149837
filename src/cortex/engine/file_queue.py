"""Files of an index run in reading order; a query can move matching ones to the front.

Knows paths and words only. Used by two threads: the run that reads, and a query that waits for a
few of the files.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cortex.base.text import words_of
from cortex.base.types import ScannedFile

# Files that a query may move to the front: about half a second of reading.
PREFERRED_FILES = 200
# Weight of a word in a file's name; one in a folder's name weighs 1.
NAME_WEIGHT = 2.0
# Letters that words of path and query must share: "cookies" and "cookie".
STEM_LETTERS = 4


@dataclass(frozen=True, slots=True)
class Preference:
    """Files that a query waits for; `searchable` is set once they are indexed."""

    paths: frozenset[str]
    searchable: threading.Event = field(default_factory=threading.Event)

    @property
    def is_searchable(self) -> bool:
        """True if there is nothing to wait for."""
        return not self.paths or self.searchable.is_set()


class FileQueue:
    """Files still to be read; those that a query prefers come first."""

    def __init__(self, files: Iterable[ScannedFile] = ()) -> None:
        # Hidden folders last: they are CI and editor settings more often than the subject of a
        # first query.
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
        """Move the unread files with the best matching paths to the front."""
        with self._lock:
            unread = sorted(self._unread)
        best = _best_matching(unread, [word for word in words if len(word) > 2])
        preference = Preference(frozenset(best))
        if not best:
            return preference
        with self._lock:
            self._preferred = best
            self._preferences.append(preference)
        return preference

    def finish(self, path: str) -> None:
        """Mark a file as read."""
        with self._lock:
            self._unread.discard(path)

    def take_read(self) -> list[Preference]:
        """Take the preferences with all of their files read."""
        with self._lock:
            if not self._preferences:
                return []
            read = [
                preference
                for preference in self._preferences
                if self._unread.isdisjoint(preference.paths)
            ]
            self._preferences = [
                preference for preference in self._preferences if preference not in read
            ]
            return read


def _best_matching(paths: list[str], words: list[str]) -> list[str]:
    """Paths with most of the words, rare words first, at most `PREFERRED_FILES`."""
    path_words = {
        path: (set(words_of(path)), set(words_of(path.rpartition("/")[2]))) for path in paths
    }
    scores: dict[str, float] = {}
    for word in dict.fromkeys(words):
        stem = word[: max(STEM_LETTERS, len(word) - 2)]
        matching = [
            path
            for path in paths
            if stem in path.lower() and _contains_stem(path_words[path][0], stem)
        ]
        rarity = math.log(1 + len(paths) / len(matching)) if matching else 0.0
        for path in matching:
            weight = NAME_WEIGHT if _contains_stem(path_words[path][1], stem) else 1.0
            scores[path] = scores.get(path, 0.0) + rarity * weight
    return sorted(scores, key=lambda path: (-scores[path], path))[:PREFERRED_FILES]


def _contains_stem(words: set[str], stem: str) -> bool:
    return any(word.startswith(stem) for word in words)
