"""Save newer local versions before those of a restored Core overwrite them.

Each home sends its own writes to a restored Core again. But another machine may be gone, its
journal may be too short, or a record may have been written at the Core itself; then this home has
the only copy. That can't be known here, so every replaced version is written to a file, with an
alert. Road not taken: sending records in the name of their authors; a home may only do that for
its own person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cortex.base.record_model import Body, Record, Thread
from cortex.engine.library import Library
from cortex.engine.store import VersionedRecord
from cortex.families.team.sync import alerts, saved_files

FOLDER = "replaced"  # in the home


class OverwrittenVersions:
    """Versions that one sync has overwritten, and the file that keeps them."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._file: Path | None = None
        self._first: Record[Any] | None = None
        self._count = self._alerted = 0

    def keep(self, records: Sequence[VersionedRecord], settle: int | None = None) -> None:
        """Save the local versions that the Core's `records` replace.

        `settle` is the outbox entry that the records are the response to.

        Raises: FileError.
        """
        store = self._library.store
        older = store.outbox.older(records, settle)
        here = store.records.get(remote.record.id for remote, _ in older)
        lost: list[Record[Any]] = []
        for remote, version in older:
            local = here.get(remote.record.id)
            # Later local versions are kept in the outbox entry.
            if local is not None and local.version > version:
                local = store.records.versions(local.id).get(version, local)
            if local is not None and _authored(local.body) != _authored(remote.record.body):
                lost.append(local)
        if lost:
            self._write(lost)

    def alert(self) -> None:
        """Alert the person once to all saved versions."""
        if self._file is not None and self._first is not None and self._alerted != self._count:
            alerts.alert_overwritten(self._library, self._first, self._count, self._file)
            self._alerted = self._count

    def _write(self, lost: Sequence[Record[Any]]) -> None:
        text = saved_files.record_lines(lost)
        if self._file is None:
            self._file = saved_files.write_new(self._library.settings.home / FOLDER, ".jsonl", text)
            self._first = lost[0]
        else:
            saved_files.append(self._file, text)
        self._count += len(lost)
        # The first alert goes out at once; later versions are added at the end of the sync.
        if not self._alerted:
            self.alert()


def _authored(body: Body) -> Body:
    """Return a body without a generated thread summary."""
    if isinstance(body, Thread) and not body.summary_by:
        return replace(body, summary="", summary_sources=())
    return body
