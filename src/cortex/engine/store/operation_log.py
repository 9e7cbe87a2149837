"""Operation log of a store, and requests to its lease holder: two small tables.

The log has an entry per index run, configuration change and deletion, kept for `retention.days` and
within `limits.disk.logs`; it contains no content. By a request, a process without the lease asks
the holder to index; the holder answers in the same row.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortex.base.types import Progress
from cortex.engine.store.connections import Connections

# Bytes of an entry besides its detail.
LINE_BYTES = 24
_DROP_OLDEST = """
DELETE FROM operations WHERE id <= (
  SELECT max(id) FROM (
    SELECT id, sum(length(CAST(detail AS BLOB)) + ?1) OVER (ORDER BY id DESC) AS bytes\
 FROM operations)
  WHERE bytes > ?2)
"""


@dataclass(frozen=True, slots=True)
class Operation:
    """Entry of the operation log."""

    at: int  # seconds since the epoch
    what: str
    detail: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """Request of another process to index something."""

    id: int
    source: int
    force: bool
    # True if a tool asked: its forced runs are rate-limited.
    limited: bool
    paths: tuple[str, ...] | None  # None is the whole source


class OperationLog:
    """Operation log and requests of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def record(self, what: str, detail: Mapping[str, object]) -> None:
        """Add an entry."""
        with self._connections.write() as connection:
            connection.execute(
                "INSERT INTO operations (at, what, detail) VALUES (?, ?, ?)",
                (int(time.time()), what, json.dumps(detail, sort_keys=True, default=str)),
            )

    def recent(self, limit: int = 20) -> list[Operation]:
        """Latest entries, newest first."""
        rows = self._connections.rows(
            "SELECT at, what, detail FROM operations ORDER BY id DESC LIMIT ?", (limit,)
        )
        return [Operation(at, what, json.loads(detail)) for at, what, detail in rows]

    def purge(self, before: int, most_bytes: int = sys.maxsize) -> int:
        """Drop old entries and requests; returns the number of entries dropped.

        That is those from before that second, and the oldest entries if all take more than
        `most_bytes`.
        """
        with self._connections.write() as connection:
            connection.execute("DELETE FROM requests WHERE at < ?", (before,))
            old = connection.execute("DELETE FROM operations WHERE at < ?", (before,)).rowcount
            return old + connection.execute(_DROP_OLDEST, (LINE_BYTES, most_bytes)).rowcount

    def ask(self, source: int, force: bool, limited: bool, paths: Sequence[str] | None) -> int:
        """Leave a request for the lease holder; returns its id."""
        with self._connections.write() as connection:
            row = connection.execute(
                "INSERT INTO requests (at, source, force, limited, paths) VALUES (?, ?, ?, ?, ?)",
                (
                    int(time.time()),
                    source,
                    force,
                    limited,
                    None if paths is None else json.dumps(list(paths)),
                ),
            ).lastrowid
            assert row is not None
            return row

    def asked(self, since: int) -> list[OperationRequest]:
        """Unanswered requests made since that second, oldest first."""
        rows = self._connections.rows(
            "SELECT id, source, force, limited, paths FROM requests WHERE answer IS NULL "
            "AND at >= ? ORDER BY id",
            (since,),
        )
        return [
            OperationRequest(
                request_id,
                source,
                bool(force),
                bool(limited),
                None if paths is None else tuple(json.loads(paths)),
            )
            for request_id, source, force, limited, paths in rows
        ]

    def answer(self, request: int, answer: str) -> None:
        """Answer a request."""
        with self._connections.write() as connection:
            connection.execute("UPDATE requests SET answer = ? WHERE id = ?", (answer, request))

    def answered(self, request: int) -> str | None:
        """Answer to a request, None while there is none."""
        row = self._connections.row("SELECT answer FROM requests WHERE id = ?", (request,))
        return None if row is None else row[0]

    def tell(self, request: int, step: Progress) -> None:
        """Store the progress of a request."""
        with self._connections.write() as connection:
            progress = json.dumps([step.stage, step.done, step.total])
            connection.execute("UPDATE requests SET progress = ? WHERE id = ?", (progress, request))

    def beat(self, step: Progress) -> None:
        """Store the progress of the run in all open requests, as a sign of life."""
        if self._connections.row("SELECT 1 FROM requests WHERE answer IS NULL LIMIT 1") is None:
            return
        sign = json.dumps([step.stage, step.done, step.total, time.time_ns()])
        self._connections.jot("UPDATE requests SET progress = ? WHERE answer IS NULL", (sign,))

    def sign(self, request: int) -> str:
        """Latest sign of life of a request: a new text each time, "" before the first."""
        row = self._connections.row("SELECT progress FROM requests WHERE id = ?", (request,))
        return "" if row is None or row[0] is None else row[0]

    def progress_of(self, request: int) -> Progress | None:
        """Progress of a request, None before the first report."""
        sign = self.sign(request)
        return Progress(*json.loads(sign)[:3]) if sign else None

    def withdraw(self, request: int) -> None:
        """Delete a request."""
        with self._connections.write() as connection:
            connection.execute("DELETE FROM requests WHERE id = ?", (request,))
