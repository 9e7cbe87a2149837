"""Give up writes that the Core refused: save them to a file, then drop them from the outbox.

Records that a refused entry created are erased, unless they are from before the home had a Core:
then only the copy was refused, and the person's own record stays.

Runs under the sync lock and on one list of entries, so an entry that another process refuses or
retries meanwhile is neither lost nor dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cortex.engine.library import Library
from cortex.engine.store import OutboxEntry
from cortex.engine.store.records.outbox import UPLOAD
from cortex.families.team.index_text import wording
from cortex.families.team.sync import alerts, rejections
from cortex.families.team.sync.cycle import BUSY, sync_lock

# Waiting entries that are searched for dependencies on erased records.
MOST_WAITING = 100_000
UNDONE = "nothing was given up"


def give_up(library: Library, *, erase: bool = True) -> tuple[int, Path | None]:
    """Give up all refused writes and close their alerts; return their count and the file.

    Without `erase` the records of refused writes stay here.

    Raises: LimitError INDEX_BUSY if another process syncs for too long; FileError. Nothing is given
    up then.
    """
    with sync_lock(library, UNDONE, instead=(BUSY,)):
        return drop_refused(library, erase=erase)


def keep_theirs(library: Library, records: Sequence[str] = ()) -> tuple[int, Path | None]:
    """Give up conflicting edits of these records, or of all; other refused writes stay.

    Raises: as `give_up`.
    """
    with sync_lock(library, UNDONE, instead=(BUSY,)):
        return drop_refused(library, only=conflicts(library, records))


def keep_mine(library: Library, records: Sequence[str] = ()) -> int:
    """Rebase conflicting edits onto the current records, queue them again and count them.

    Raises: LimitError INDEX_BUSY.
    """
    with sync_lock(library, UNDONE, instead=(BUSY,)):
        return sum(library.store.outbox.rebase(entry.id) for entry in conflicts(library, records))


def conflicts(library: Library, records: Sequence[str] = ()) -> list[OutboxEntry]:
    """Refused edits of these records, or of all, that conflict with an earlier change."""
    return [
        entry
        for entry in library.store.outbox.refused()
        if entry.code == rejections.CONFLICT
        and rejections.is_edit(entry)
        and (not records or rejections.main_of(entry).id in records)
    ]


def drop_refused(
    library: Library, *, erase: bool = False, only: Sequence[OutboxEntry] | None = None
) -> tuple[int, Path | None]:
    """Give up all refused entries or `only` these. The caller holds the sync lock.

    Raises: FileError; nothing is given up then.
    """
    outbox = library.store.outbox
    entries = outbox.refused() if only is None else only
    if not entries:
        return 0, None
    orphans = _created_only_here(library, entries) if erase else set[str]()
    dependent = [
        entry
        for entry in outbox.waiting(MOST_WAITING)
        if any(change.id in orphans for change in entry.changes)
    ]
    file = rejections.save(library, [*entries, *dependent])
    # Erase before dropping the entries: after a crash, the rest is still marked as refused.
    if orphans:
        library.store.records.apply((), sorted(orphans), wording=wording(library.settings), meta={})
        library.follow(forget=True)
    dropped = [entry for entry in entries if outbox.drop(entry.id)]
    for entry in dropped:
        if not rejections.shares_alert(entry):
            # The alert still offers to send it again.
            alerts.close_alert(library, entry)
    alerts.alert_unsent(library)
    return len(dropped), file


def _created_only_here(library: Library, entries: Sequence[OutboxEntry]) -> set[str]:
    """Ids of records that these entries created and the Core doesn't have."""
    created = {
        change.id
        for entry in entries
        if entry.action != UPLOAD
        for change in entry.changes
        if change.before is None
    }
    return created.difference(library.store.outbox.known(created))
