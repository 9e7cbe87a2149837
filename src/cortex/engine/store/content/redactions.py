"""The secrets of every text in a store: found once, kept beside it, and taken out of whatever is
read for an answer.

A text that was stored without being looked at, or looked at by an older detector, is looked at when
it is read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence

from cortex.base import secret_scanner
from cortex.base.redaction import CLEAN, RedactedText, redaction_of
from cortex.base.types import Leak
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.blobs import unpack
from cortex.engine.store.sql import marks, parts

PART = 900  # values in one statement
MAX_KEPT = 10_000  # blobs whose secrets are kept in memory


class Redactions:
    """The redacted form of a store's texts; `enabled` is false where the person wants them as they
    are.
    """

    def __init__(self, connections: Connections) -> None:
        self.enabled = True
        self._connections = connections
        self._kept: dict[int, RedactedText] = {}

    def of(self, blob: int, text: str | None = None) -> RedactedText:
        """The redaction of one blob, whose text the caller may have."""
        return self.of_all([blob], {} if text is None else {blob: text}).get(blob, CLEAN)

    def of_all(
        self, blobs: Collection[int], texts: Mapping[int, str] | None = None
    ) -> dict[int, RedactedText]:
        """The redactions of those of these blobs that have secrets."""
        if not self.enabled:
            return {}
        unknown = [blob for blob in blobs if blob not in self._kept]
        if unknown:
            if len(self._kept) + len(unknown) > MAX_KEPT:
                self._kept = {}
            self._kept |= self._find(unknown, texts or {})
        return {
            blob: found for blob in blobs if (found := self._kept.get(blob)) is not None and found
        }

    def _find(self, blobs: Sequence[int], texts: Mapping[int, str]) -> dict[int, RedactedText]:
        found: dict[int, RedactedText] = {}
        with self._connections.read() as connection:
            known: dict[int, str] = {}
            for part in parts(sorted(set(blobs)), PART):
                rows = connection.execute(
                    f"SELECT blob, found FROM leaks WHERE blob IN ({marks(part)}) AND version = ?",
                    (*part, secret_scanner.VERSION),
                )
                known.update(rows)
            for blob in blobs:
                told = known.get(blob)
                if told == "":
                    found[blob] = CLEAN
                elif (text := texts.get(blob) or _text(connection, blob)) is not None:
                    found[blob] = (
                        redaction_of(text) if told is None else RedactedText(text, _read(told))
                    )
        return found

    def clear(self) -> None:
        """Keep nothing in memory of what may just have been removed for good."""
        self._kept = {}


def put_leaks(connection: sqlite3.Connection, blob: int, found: Sequence[Leak] | None) -> None:
    """Keep the secrets of a new blob; None is that nobody looked."""
    if found is not None:
        told = json.dumps([(leak.name, leak.start, leak.end) for leak in found]) if found else ""
        connection.execute(
            "INSERT INTO leaks VALUES (?, ?, ?)", (blob, secret_scanner.VERSION, told)
        )


def _read(told: str) -> list[Leak]:
    return [Leak(*row) for row in json.loads(told)]


def _text(connection: sqlite3.Connection, blob: int) -> str | None:
    row = connection.execute("SELECT text FROM blobs WHERE id = ?", (blob,)).fetchone()
    return None if row is None else unpack(row[0])
