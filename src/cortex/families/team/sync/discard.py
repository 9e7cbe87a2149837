"""What a Core refused is given up: written to a file first, then no longer kept to be sent, nor as
if it were so.

What was made here before the home had a Core stays, as the person's own; it was refused as a copy.

In the turn of a sync, and from one list: what another process has refused or sends once more
meanwhile is neither lost nor dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cortex.base.errors import LimitError
from cortex.base.runtime.file_lock import turn
from cortex.engine.library import Library
from cortex.engine.store import OutboxEntry
from cortex.engine.store.records.outbox import UPLOAD
from cortex.families.team.index_text import wording
from cortex.families.team.sync import alerts, rejections
from cortex.families.team.sync.cycle import BUSY, LOCK, TURN_SECONDS

MOST_WAITING = 100_000  # entries that are looked at for what builds on something that goes


def give_up(library: Library, *, erase: bool = True) -> tuple[int, Path | None]:
    """Have everything go that the Core refused, and the alerts about it; tells how much that was,
    and the file that has it.

    Without `erase` the records that were refused stay: who leaves the Core keeps what they wrote.

    Raises: LimitError INDEX_BUSY, where somebody else syncs for too long; FileError: then nothing
    is given up.
    """
    with _turn(library):
        return drop_refused(library, erase=erase)


def keep_theirs(library: Library, records: Sequence[str] = ()) -> tuple[int, Path | None]:
    """Give up conflicting edits of these records, or of all; other refused writes stay.

    Raises: as `give_up`.
    """
    with _turn(library):
        return drop_refused(library, only=conflicts(library, records))


def keep_mine(library: Library, records: Sequence[str] = ()) -> int:
    """Send conflicting edits once more, on top of what their records say now; count them.

    Raises: LimitError INDEX_BUSY.
    """
    with _turn(library):
        return sum(library.store.outbox.rebase(entry.id) for entry in conflicts(library, records))


def conflicts(library: Library, records: Sequence[str] = ()) -> list[OutboxEntry]:
    """Refused edits of these records, or of all, whose fields somebody else changed first."""
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
    """The same, for who has the turn of a sync, with all or `only` some.

    Raises: FileError: then nothing is given up.
    """
    outbox = library.store.outbox
    entries = outbox.refused() if only is None else only
    if not entries:
        return 0, None
    untrue = _untrue(library, entries) if erase else set[str]()
    later = [
        entry
        for entry in outbox.waiting(MOST_WAITING)
        if any(change.id in untrue for change in entry.changes)
    ]
    file = rejections.save(library, [*entries, *later])
    if untrue:  # before the entries go: what a crash leaves is still marked
        library.store.records.apply((), sorted(untrue), wording=wording(library.settings), meta={})
        library.follow(forget=True)
    gone = [entry for entry in entries if outbox.drop(entry.id)]
    for entry in gone:
        if not rejections.is_told_together(entry):
            alerts.take_back(library, entry)  # it says that it can be sent again
    alerts.tell_unsent(library)
    return len(gone), file


def _untrue(library: Library, entries: Sequence[OutboxEntry]) -> set[str]:
    """The records that these entries made and the Core doesn't have."""
    made = {
        change.id
        for entry in entries
        if entry.action != UPLOAD
        for change in entry.changes
        if change.before is None
    }
    return made.difference(library.store.outbox.known(made))


@contextmanager
def _turn(library: Library) -> Iterator[None]:
    """The turn of a sync. Raises: LimitError INDEX_BUSY."""
    with turn(str(library.settings.home / LOCK), TURN_SECONDS, lambda: False) as mine:
        if not mine:
            raise LimitError(
                "INDEX_BUSY",
                "another process is syncing this home; nothing was given up",
                instead=(BUSY,),
            )
        yield
