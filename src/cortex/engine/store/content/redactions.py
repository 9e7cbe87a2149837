"""Secrets in the stored texts: detected once, stored, and redacted from every read.

A text that was stored unscanned, or scanned by an older detector, is scanned when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from cortex.base import secret_scanner
from cortex.base.redaction import CLEAN, RedactedText, redaction_of
from cortex.base.types import Leak
from cortex.engine.store.connection import Connection
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.blobs import unpack
from cortex.engine.store.sql import rows_in

# Blobs with redactions cached in memory.
MAX_KEPT = 10_000


class Redactions:
    """Redacted form of a store's texts; `enabled` is false if the user wants them unredacted."""

    def __init__(self, connections: Connections) -> None:
        self.enabled = True
        self._connections = connections
        self._kept: dict[int, RedactedText] = {}

    def of(self, blob: int, text: str | None = None) -> RedactedText:
        """Redaction of one blob; pass `text` if it is already loaded."""
        return self.of_all([blob], {} if text is None else {blob: text}).get(blob, CLEAN)

    def of_all(
        self, blobs: Collection[int], texts: Mapping[int, str] | None = None
    ) -> dict[int, RedactedText]:
        """Redactions of those of these blobs that contain secrets."""
        if not self.enabled:
            return {}
        unknown = [blob for blob in blobs if blob not in self._kept]
        if unknown:
            if len(self._kept) + len(unknown) > MAX_KEPT:
                self._kept = {}
            self._kept |= self._find(unknown, texts or {})
        return {
            blob: redaction
            for blob in blobs
            if (redaction := self._kept.get(blob)) is not None and redaction
        }

    def _find(self, blobs: Sequence[int], texts: Mapping[int, str]) -> dict[int, RedactedText]:
        redactions: dict[int, RedactedText] = {}
        with self._connections.read() as connection:
            query = "SELECT blob, found FROM leaks WHERE blob IN (?*) AND version = ?"
            wanted = sorted(set(blobs))
            rows = rows_in(connection, query, wanted, after=(secret_scanner.VERSION,))
            known: dict[int, str] = {row[0]: row[1] for row in rows}
            for blob in blobs:
                stored = known.get(blob)
                if stored == "":
                    redactions[blob] = CLEAN
                elif (text := texts.get(blob) or _text(connection, blob)) is not None:
                    redactions[blob] = (
                        redaction_of(text) if stored is None else RedactedText(text, _read(stored))
                    )
        return redactions

    def clear(self) -> None:
        """Clear the cache, which may hold content that was just removed for good."""
        self._kept = {}


def put_leaks(connection: Connection, blob: int, leaks: Sequence[Leak] | None) -> None:
    """Store the secrets of a new blob; None means that it wasn't scanned."""
    if leaks is not None:
        encoded = json.dumps([(leak.name, leak.start, leak.end) for leak in leaks]) if leaks else ""
        connection.execute(
            "INSERT INTO leaks VALUES (?, ?, ?)", (blob, secret_scanner.VERSION, encoded)
        )


def _read(stored: str) -> list[Leak]:
    return [Leak(*row) for row in json.loads(stored)]


def _text(connection: Connection, blob: int) -> str | None:
    row = connection.execute("SELECT text FROM blobs WHERE id = ?", (blob,)).fetchone()
    return None if row is None else unpack(row[0])
