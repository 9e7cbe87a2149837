"""Folders of documents that the user added, each a source of kind "documents".

A folder has its own patterns, a stable key and a name; key and name are unique. Removing one
deletes its documents, their text and their vectors in the same transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cortex.base.types import Source
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.writer import forget_source

# Kind of their sources.
DOCUMENTS = "documents"
_SELECT = (
    "SELECT id, kind, name, root, key, include, exclude, watch, added_at FROM folders "
    "JOIN sources ON sources.id = folders.source"
)


@dataclass(frozen=True, slots=True)
class Folder:
    """Folder of documents."""

    source: Source
    key: str
    # Patterns as in .gitignore; empty includes everything.
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    watch: bool
    added_at: int

    @property
    def name(self) -> str:
        return self.source.name


class Folders:
    """Folders of documents in a store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def all(self) -> list[Folder]:
        """All folders, by name."""
        rows = self._connections.rows(f"{_SELECT} ORDER BY name COLLATE NOCASE, id")
        return [_folder(row) for row in rows]

    def of(self, source: int) -> Folder | None:
        """Folder of this source, None if there is none."""
        row = self._connections.row(f"{_SELECT} WHERE id = ?", (source,))
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
        """Store a folder; the caller has checked that it may be added."""
        with self._connections.write(durable=True) as connection:
            source_id = connection.execute(
                "INSERT INTO sources (kind, name, root) VALUES (?, ?, ?)", (DOCUMENTS, name, root)
            ).lastrowid
            connection.execute(
                "INSERT INTO folders VALUES (?, ?, ?, ?, ?, ?)",
                (source_id, key, json.dumps(include), json.dumps(exclude), watch, int(time.time())),
            )
            row = connection.execute(f"{_SELECT} WHERE id = ?", (source_id,)).fetchone()
        return _folder(row)

    def remove(self, folder: Folder) -> int:
        """Delete a folder and all its content for good; returns the number of documents."""
        with self._connections.write(durable=True, erase=True) as connection:
            return forget_source(connection, folder.source.id)


def _folder(row: tuple[int, str, str, str, str, str, str, int, int]) -> Folder:
    source_id, kind, name, root, key, include, exclude, watch, added_at = row
    patterns = tuple(json.loads(include)), tuple(json.loads(exclude))
    return Folder(Source(source_id, kind, name, root), key, *patterns, bool(watch), added_at)
