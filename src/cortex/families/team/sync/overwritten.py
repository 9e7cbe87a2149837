"""What a home has in a later version than a Core that was put back: written to a file and told of,
before the Core's takes its place.

What was written here is sent again, and so is what others wrote, from their homes; but a machine
may be gone, a journal too short, or something was written at the Core itself, and then this home
has the only copy. Nobody knows which, so whatever is replaced is kept. Road not taken: sending what
others wrote in their names; a home may do that for itself alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cortex.base.record_model import Body, Record, Thread
from cortex.engine.library import Library
from cortex.engine.store import VersionedRecord
from cortex.families.team.sync import alerts, saved_files
from cortex.families.team.wire.codec import record_to

FOLDER = "replaced"  # in the home


class Replaced:
    """What of one sync was kept aside."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._file: Path | None = None
        self._first: Record[Any] | None = None
        self._count = self._told = 0

    def keep(self, records: Sequence[VersionedRecord], settle: int | None = None) -> None:
        """Keep what these, as the Core has them, would replace; they answer the entry `settle`.

        Raises: FileError.
        """
        store = self._library.store
        older = store.outbox.older(records, settle)
        here = store.recorded.get(one.record.id for one, _ in older)
        lost: list[Record[Any]] = []
        for one, version in older:
            found = here.get(one.record.id)
            # What was written here since is in the entry
            if found is not None and found.version > version:
                found = store.recorded.versions(found.id).get(version, found)
            if found is not None and _said(found.body) != _said(one.record.body):
                lost.append(found)
        if lost:
            self._write(lost)

    def tell(self) -> None:
        """Have the person know of it, in one alert."""
        if self._file is not None and self._first is not None and self._told != self._count:
            alerts.tell_replaced(self._library, self._first, self._count, self._file)
            self._told = self._count

    def _write(self, lost: Sequence[Record[Any]]) -> None:
        text = "".join(
            json.dumps(record_to(VersionedRecord(one, 0)), ensure_ascii=False) + "\n"
            for one in lost
        )
        if self._file is None:
            self._file = saved_files.write_new(self._library.settings.home / FOLDER, ".jsonl", text)
            self._first = lost[0]
        else:
            saved_files.append(self._file, text)
        self._count += len(lost)
        if not self._told:  # the rest is told at the end
            self.tell()


def _said(body: Body) -> Body:
    """A body without what is made of what others say."""
    if isinstance(body, Thread) and not body.summary_by:
        return replace(body, summary="", summary_sources=())
    return body
