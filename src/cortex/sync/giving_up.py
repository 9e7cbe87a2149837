"""What a Core refused is given up: written to a file first, then no longer kept to be sent.

In the turn of a sync, and from one list: what another process has refused or sends once more meanwhile is neither lost nor dropped.
"""

from __future__ import annotations

from pathlib import Path

from cortex.errors import LimitError
from cortex.library import Library
from cortex.locks import turn
from cortex.sync import alerts, refusals
from cortex.sync.running import BUSY, LOCK, TURN_SECONDS


def give_up(library: Library) -> tuple[int, Path | None]:
    """Have everything go that the Core refused, and the alerts about it; tells how much that was, and the file that has it.

    Raises: LimitError INDEX_BUSY, where somebody else syncs for too long; FileError: then nothing is given up.
    """
    with turn(str(library.settings.home / LOCK), TURN_SECONDS, lambda: False) as mine:
        if not mine:
            raise LimitError(
                "INDEX_BUSY", "another process is syncing this home; nothing was given up", instead=(BUSY,)
            )
        return drop_refused(library)


def drop_refused(library: Library) -> tuple[int, Path | None]:
    """The same, for who has the turn of a sync. Raises: FileError: then nothing is given up."""
    entries = library.store.outbox.refused()
    if not entries:
        return 0, None
    file = refusals.save(library, entries)
    gone = [entry for entry in entries if library.store.outbox.drop(entry.id)]
    for entry in gone:
        if not refusals.is_told_together(entry):
            alerts.take_back(library, entry)  # it says that it can be sent again
    alerts.tell_unsent(library)
    return len(gone), file
