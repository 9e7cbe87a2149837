"""The folders of documents that a person added: each is a source of kind "documents" with patterns
of its own.

A folder has a key that others know it by, which never changes, and a name, both unique. Removing
one forgets its documents, their text and their vectors in the same transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cortex.base.types import Source
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.writer import forget_source

DOCUMENTS = "documents"  # the kind of their sources
_SELECT = "SELECT id, kind, name, root, key, include, exclude, watch, added_at FROM folders JOIN sources ON sources.id = folders.source"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of documents."""

    source: Source
    key: str
    include: tuple[str, ...]  # patterns as in .gitignore; empty is everything
    exclude: tuple[str, ...]
    watch: bool
    added_at: int

    @property
    def name(self) -> str:
        return self.source.name


class Folders:
    """The folders in a store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def all(self) -> list[Folder]:
        """Every folder, by name."""
        with self._connections.read() as connection:
            rows = connection.execute(f"{_SELECT} ORDER BY name COLLATE NOCASE, id").fetchall()
        return [_folder(row) for row in rows]

    def of(self, source: int) -> Folder | None:
        """The folder with this source."""
        with self._connections.read() as connection:
            row = connection.execute(f"{_SELECT} WHERE id = ?", (source,)).fetchone()
        return None if row is None else _folder(row)

    def add(
        self,
        key: str,
        name: str,
        root: str,
        include: Sequence[str],
        exclude: Sequence[str],
        *,
        watch: bool,
    ) -> Folder:
        """Remember a folder; whether it may be added was decided before."""
        with self._connections.write(durable=True) as connection:
            number = connection.execute(
                "INSERT INTO sources (kind, name, root) VALUES (?, ?, ?)", (DOCUMENTS, name, root)
            ).lastrowid
            connection.execute(
                "INSERT INTO folders VALUES (?, ?, ?, ?, ?, ?)",
                (number, key, json.dumps(include), json.dumps(exclude), watch, int(time.time())),
            )
            row = connection.execute(f"{_SELECT} WHERE id = ?", (number,)).fetchone()
        return _folder(row)

    def remove(self, folder: Folder) -> int:
        """Forget a folder with all that came from it, at once and for good; returns how many
        documents that were.
        """
        with self._connections.write(durable=True, erase=True) as connection:
            return forget_source(connection, folder.source.id)


def _folder(row: tuple[int, str, str, str, str, str, str, int, int]) -> Folder:
    number, kind, name, root, key, include, exclude, watch, added_at = row
    patterns = tuple(json.loads(include)), tuple(json.loads(exclude))
    return Folder(Source(number, kind, name, root), key, *patterns, bool(watch), added_at)
