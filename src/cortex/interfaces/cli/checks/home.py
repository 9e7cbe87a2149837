"""Check the user's data: the home database, its snapshots, records of a Core, chunk files.

The home database is the only copy of memories and records, so it is repaired only in ways that keep
every row, and salvaged only on request (`cortex doctor --salvage`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from cortex.base.errors import CortexError, StoreError
from cortex.base.settings import Settings
from cortex.base.text import rfc3339
from cortex.engine.library import Library
from cortex.engine.store import STORE_NAME, Store, check_present, leased
from cortex.engine.store.snapshots import ASKED, DAY_SECONDS, is_due, list_snapshots, make_snapshot
from cortex.families.chunkfiles.generations import is_published, newest_first
from cortex.interfaces.cli.checks import Finding, error, ok, warning
from cortex.toolkit.terminal.output import many

SALVAGE = (
    "cortex stop, then `cortex doctor --salvage`: it keeps the damaged file. Or `cortex backup "
    "restore`."
)
RESTORE = (
    "cortex stop, then `cortex backup restore`; to begin with nothing, move what is left out of "
    "the folder."
)
LATE_DAYS = 2
# A full disk or a lack of memory is no damage of the stored data.
DAMAGES = ("STORE_CORRUPT", "STORE_LOST", "INDEX_DAMAGED")
HOME, CORE, CHUNKS, BACKUP = "home", "core records", "chunk files", "backup"


def check_home(settings: Settings) -> Iterator[Finding]:
    """Check all databases of a home."""
    home = settings.home
    yield from _own(settings)
    yield from _backups(home)
    yield from _core(home / "core")
    yield from _generations(home / "chunks")


def is_damaged(home: Path) -> bool:
    """True if the home database can't be used as it is.

    Raises: StoreError, where that isn't known.
    """
    try:
        check_present(home)
        if not (home / STORE_NAME).exists():
            return False
        with closing(Store(home, read_only=True)) as store:
            return bool(store.check_database())
    except StoreError as broken:
        if broken.code not in ("STORE_CORRUPT", "STORE_LOST"):
            raise
        return True


def _own(settings: Settings) -> Iterator[Finding]:
    home = settings.home
    try:
        check_present(home)
        if not (home / STORE_NAME).exists():
            yield ok(HOME, "there is no database yet")
            return
        with closing(Store(home, read_only=True)) as store:
            damaged = store.check_database()
            repairable = bool(damaged) and store.is_damaged_in_indexes_only()
            stale = [] if damaged else [*_indexes(store)]
    except CortexError as broken:
        yield _broken(HOME, home, broken)
        return
    for problem in damaged:
        text = (
            f"{home / STORE_NAME}, the only copy of your memories and records, is damaged: "
            f"{problem}"
        )
        # Rebuilding the indexes of damaged tables could lose rows that are still readable.
        if repairable:
            yield error(HOME, text, "cortex doctor --fix", lambda: _repair(home))
        else:
            yield error(HOME, text, SALVAGE)
    for problem in stale:
        yield error(
            HOME,
            f"the search index of your home is damaged: {problem}",
            "cortex doctor --fix",
            lambda: _reindex(settings),
        )
    if not damaged and not stale:
        yield ok(HOME, f"{home / STORE_NAME} is sound")


def _broken(check: str, folder: Path, broken: CortexError) -> Finding:
    """Build the finding for a database that can't be opened."""
    text = f"{broken.message} [{broken.code}]"
    if broken.code == "STORE_CORRUPT":
        return error(check, text, SALVAGE)
    return error(check, text, RESTORE if broken.code == "STORE_LOST" else broken.suggestions[0])


def _indexes(store: Store) -> Iterator[str]:
    parts: tuple[Callable[[], list[str]], ...] = (
        store.indexes.check_words,
        store.indexes.check_vectors,
    )
    for part in parts:
        try:
            yield from part()
        except CortexError as broken:
            if broken.code not in DAMAGES:
                raise
            yield broken.message


def _backups(home: Path) -> Iterator[Finding]:
    """Check that there is a recent snapshot, if there is data to keep."""
    snapshots = list_snapshots(home)
    if snapshots:
        text = f"{many(len(snapshots), 'snapshot')}, the last of {rfc3339(snapshots[0].at)}"
        if time.time() - snapshots[0].at < LATE_DAYS * DAY_SECONDS or not is_due(home / STORE_NAME):
            yield ok(BACKUP, text)
            return
        yield warning(
            BACKUP,
            f"{text}: there should be one a day",
            "cortex backup create",
            lambda: _back_up(home),
        )


def _core(folder: Path) -> Iterator[Finding]:
    """Check the SQLite records of a Core that is run from this home."""
    if not (folder / STORE_NAME).exists():
        return
    fix = (
        "Restore the last `cortex core backup` into an empty database: `cortex core restore "
        "FILE --db URL`."
    )
    try:
        with closing(Store(folder, read_only=True)) as store:
            problems = store.check_database()
    except CortexError as broken:
        if broken.code not in DAMAGES:
            yield _broken(CORE, folder, broken)
            return
        problems = [broken.message]
    for problem in problems:
        yield error(CORE, f"{folder / STORE_NAME}: {problem}", fix)
    if not problems:
        yield ok(CORE, f"{folder / STORE_NAME} is sound")


def _generations(folder: Path) -> Iterator[Finding]:
    """Check loaded chunk files; a damaged generation is loaded again."""
    count, damaged = 0, list[Path]()
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        for generation in filter(is_published, newest_first(place)):
            count += 1
            try:
                with closing(Store(generation / "store", read_only=True)) as store:
                    if store.check():
                        damaged.append(generation)
            except CortexError as broken:
                if broken.code not in DAMAGES:
                    yield _broken(CHUNKS, generation, broken)
                    return
                damaged.append(generation)
    if damaged:
        text = f"{many(len(damaged), 'loaded generation')} of chunk files is damaged: {damaged[0]}"
        yield error(CHUNKS, text, "cortex doctor --fix", lambda: _drop(damaged))
    elif count:
        yield ok(CHUNKS, f"{many(count, 'loaded generation')} is sound")


def _repair(home: Path) -> str:
    """Rebuild SQLite's own indexes, after a backup.

    Raises: StoreError, where that isn't enough.
    """
    with leased(home), closing(Store(home)) as store:
        kept = store.reindex()
        if problems := store.check_database():
            raise StoreError("STORE_CORRUPT", f"{problems[0]}; run `cortex doctor --salvage`")
    return f"SQLite's indexes were built anew from its tables; a copy of before is {kept}"


def _reindex(settings: Settings) -> str:
    with Library(settings) as library:
        if not library.holds_lease():
            raise StoreError(
                "STORE_LOCKED", "another process writes to the home: run `cortex stop` first"
            )
        library.store.indexes.rebuild()
        library.store.content.recheck_vectors()
        library.embedding.catch_up()
    return "the search index was built anew"


def _back_up(home: Path) -> str:
    snapshot = make_snapshot(home / STORE_NAME, ASKED)
    return f"made {snapshot.file}" if snapshot else "there is nothing to keep"


def _drop(generations: list[Path]) -> str:
    """Discard damaged generations, so that they are loaded again.

    A generation without its `published` file isn't used.
    """
    for generation in generations:
        os.unlink(generation / "published")
    return "they are loaded again with the next question"
