"""Recovery of a home: from a snapshot, or from the readable part of a damaged database.

The new database is built in a separate folder and takes its place when it is complete. The previous
database is kept as a file and, where it was sound, also as a snapshot, so that a restore can be
undone. Documents are read again from their files. Knows no command.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortex.base.errors import CortexError, StoreError, explained
from cortex.base.paths import make_private
from cortex.base.runtime.atomic_file import replace_file
from cortex.base.settings import Settings
from cortex.engine.library import Library
from cortex.engine.store import STORE_NAME, Store, leased, move_aside, remove_replaced
from cortex.engine.store.renewal import renew
from cortex.engine.store.salvage import Salvaged, salvage
from cortex.engine.store.snapshots import (
    RESTORE,
    SETTINGS_FILE,
    Snapshot,
    list_snapshots,
    prune,
    take_settings,
    unpack,
    write_snapshot,
)
from cortex.families.memory import states
from cortex.families.memory.index_text import word
from cortex.families.team.index_text import wording
from cortex.families.team.sync.state import RESYNC, URL


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restore: the snapshot that undoes it, and the previous database."""

    snapshot: Snapshot
    before: Snapshot | None
    kept: Path | None
    settings: bool  # the settings were put back, too


@dataclass(frozen=True, slots=True)
class Recovered:
    """Result of a salvage: the rows, the snapshot that filled gaps, and the damaged database."""

    rows: Salvaged
    snapshot: Snapshot | None
    kept: Path


def restore_snapshot(settings: Settings, snapshot: Snapshot) -> Restored:
    """Restore a home from a snapshot.

    Raises: FileError IMPORT_UNREADABLE, where the snapshot is damaged; StoreError STORE_LOCKED,
    where another process writes to the home.
    """
    home = settings.home
    make_private(home)
    with leased(home), _recovery_folder(home) as folder:
        unpack(snapshot, folder / STORE_NAME)
        texts: list[str | None] = []
        _renew(settings, folder, lambda connection: texts.append(take_settings(connection)))
        before = _snapshot_before(home)
        # The file is kept, too: another process may have written a memory after the snapshot.
        kept = _swap(home, folder, sound=before is not None)
        remove_replaced(home, kept)
        prune(list_snapshots(home), {snapshot.file, *([before.file] if before else [])})
        put_back = _put_settings(home / SETTINGS_FILE, texts[0], replace=before is not None)
    _index(settings)
    return Restored(snapshot, before, kept, put_back)


def salvage_home(settings: Settings) -> Recovered:
    """Rebuild a database from a damaged one and the newest intact snapshot.

    Raises: StoreError STORE_LOST or STORE_CORRUPT, where there is nothing to read; STORE_LOCKED,
    where another process writes to the home.
    """
    home = settings.home
    if not (home / STORE_NAME).exists():
        raise StoreError("STORE_LOST", f"there is no {home / STORE_NAME} to salvage anything from")
    with leased(home), _recovery_folder(home) as folder:
        snapshot, unpacked = _newest_intact(home, folder / "snapshot.db")
        try:
            rows = salvage(home / STORE_NAME, unpacked, folder / STORE_NAME)
        except OSError as error:
            raise explained(error, f"reading {home / STORE_NAME}") from error
        if not any(rows.read.values()) and snapshot is None:
            raise StoreError(
                "STORE_CORRUPT",
                f"nothing can be read of {home / STORE_NAME}, and there is no snapshot; it was "
                "left as it is",
                instead=(
                    "Put a copy of your own in its place, or ask who knows the disk whether it "
                    "can be recovered.",
                ),
            )
        _renew(settings, folder)
        kept = _swap(home, folder)
        assert kept is not None
    _index(settings)
    return Recovered(rows, snapshot, kept)


def _renew(
    settings: Settings, folder: Path, take: Callable[[Any], None] = lambda connection: None
) -> None:
    """Migrate the database in a folder, and give it an identity of its own."""
    with closing(Store(folder)) as store:
        renew(
            store.connections,
            lambda state: states.name_of(state, settings.memory.uncurated),
            word,
            wording(settings),
            take,
        )
        if store.content.get(URL):
            # The Core has changed since; everything is compared with it.
            store.content.set({RESYNC: "1"})
        store.checkpoint()


def _snapshot_before(home: Path) -> Snapshot | None:
    """Take a snapshot of the current database; None where it is damaged or missing."""
    if not (home / STORE_NAME).exists():
        return None
    try:
        return write_snapshot(home / STORE_NAME, RESTORE)
    except StoreError as error:
        if error.context.get("path") != str(home / STORE_NAME):
            # The database is sound, and its snapshot could not be written.
            raise
        return None


def _swap(home: Path, folder: Path, *, sound: bool = False) -> Path | None:
    """Replace the home's database by the one in a folder; returns the path of the old one."""
    kept = move_aside(home, sound=sound, replacement=folder / STORE_NAME)
    for pattern in ("words-*", "vectors-*"):
        for index in home.glob(pattern):
            shutil.rmtree(index, ignore_errors=True)
    return kept


def _newest_intact(home: Path, target: Path) -> tuple[Snapshot | None, Path | None]:
    for snapshot in list_snapshots(home):
        with suppress(CortexError):
            unpack(snapshot, target)
            return snapshot, target
    return None, None


def _put_settings(file: Path, text: str | None, *, replace: bool) -> bool:
    """Write the settings of a snapshot where there are none, or the current ones were saved."""
    if text is None or (file.exists() and not replace):
        return False
    replace_file(file, text.encode("utf-8"))
    return True


def _index(settings: Settings) -> None:
    """Index the recovered records at once; where that fails, the next command does it."""
    with suppress(CortexError, MemoryError, OSError), Library(settings) as library:
        library.catch_up()


@contextmanager
def _recovery_folder(home: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=".recovery-", dir=home))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
