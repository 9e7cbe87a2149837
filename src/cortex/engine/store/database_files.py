"""Files of a store's database: its presence, and moving it out of the way.

A database that is damaged or was replaced is kept beside the new one. Any process may report
damage; the holder of the lease sets the database aside.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cortex.base.errors import StoreError
from cortex.base.paths import is_home
from cortex.engine.store.connections import translated
from cortex.engine.store.index.lexical import remove_generation
from cortex.engine.store.lease import Lease
from cortex.engine.store.snapshots import list_snapshots

STORE_NAME = "cortex.db"
ASIDE = f"{STORE_NAME}.damaged-"
_REPLACED = f"{STORE_NAME}.replaced-"
# Marker file that asks the lease holder to set the database aside.
_DAMAGE_MARKER = f"{ASIDE}found"


def check_present(directory: Path) -> None:
    """Refuse to create a database where one has been: its indexes exist, it is gone or empty.

    Raises: StoreError STORE_LOST.
    """
    path = directory / STORE_NAME
    try:
        if path.stat().st_size:
            return
        state = "is empty"
    except FileNotFoundError:
        state = "is missing"
    except OSError:
        # Opening the file gives a better error.
        return
    left = sorted(
        entry.name for pattern in ("words-*", "vectors-*") for entry in directory.glob(pattern)
    )
    snapshots = len(list_snapshots(directory))
    if not left and not snapshots:
        return
    why = f"{left[0]} beside it belongs" if left else "its snapshots belong"
    raise StoreError(
        "STORE_LOST",
        f"{path} {state}, and {why} to one that was in use (snapshots: {snapshots}); nothing was "
        "written",
        context={"path": str(path), "indexes": left, "snapshots": snapshots},
    )


@contextmanager
def leased(directory: Path) -> Iterator[None]:
    """Hold a store's lease for the block.

    Raises: StoreError STORE_LOCKED if another process holds it.
    """
    lease = Lease(directory)
    if not lease.take():
        raise StoreError(
            "STORE_LOCKED",
            f"process {lease.holder()} uses the store in {directory}",
            instead=("Run `cortex stop` if it is cortexd, else end that process; then try again.",),
        )
    try:
        yield
    finally:
        lease.release()


def set_aside(directory: Path, *, replica: bool = False) -> Path:
    """Move a store's database with its log out of the way and return the new path.

    Only for stores that can be rebuilt: a project's, or the replica of a Core's database. Of the
    databases set aside earlier, the latest is kept.

    Raises: StoreError STORE_LOCKED if another process holds the lease; STORE_CORRUPT for a home's
    store.
    """
    with leased(directory):
        return set_aside_project(directory, replica=replica)


def move_aside(
    directory: Path, *, sound: bool = False, replacement: Path | None = None
) -> Path | None:
    """Move the database aside while the caller holds the lease; None if there was none.

    A `sound` database isn't named damaged. A `replacement` takes its place; if that fails, the
    database is back where it was. A process killed midway leaves the database together with its log
    in either the old or the new place.
    """
    path = directory / STORE_NAME
    target = directory / f"{_REPLACED if sound else ASIDE}{time.time_ns()}"
    logs = {
        path.with_name(path.name + suffix): target.with_name(target.name + suffix)
        for suffix in ("-wal", "-shm")
    }
    with translated(directory), ExitStack() as undo:
        for log, copy in logs.items():
            undo.callback(copy.unlink, missing_ok=True)
            _link_or_copy(log, copy)
        moved = path.exists()
        if moved:
            _move(path, target, undo)
        # A new database must not find the log of an old one.
        for log, copy in logs.items():
            undo.callback(_link_or_copy, copy, log)
            log.unlink(missing_ok=True)
        if replacement is not None:
            os.replace(replacement, path)
        undo.pop_all()
    return target if moved else None


def _link_or_copy(file: Path, target: Path) -> None:
    """Make a file available under a second path; a folder of that name is moved there."""
    if file.is_dir():
        file.replace(target)
        return
    try:
        os.link(file, target)
    except (FileNotFoundError, FileExistsError):
        return
    except OSError:
        # A file system without hard links.
        shutil.copy2(file, target)


def _move(source: Path, target: Path, undo: ExitStack) -> None:
    source.replace(target)
    undo.callback(target.replace, source)


def remove_replaced(directory: Path, but: Path | None) -> None:
    """Remove the intact databases that were moved aside, except `but`."""
    for path in directory.glob(f"{_REPLACED}[0-9]*"):
        if but is None or not path.name.startswith(but.name):
            with suppress(OSError):
                path.unlink()


def set_aside_project(directory: Path, *, replica: bool = False) -> Path:
    """Set a project's database aside while the caller holds the lease.

    Drops all but the latest of the earlier ones.
    """
    path = directory / STORE_NAME
    if is_home(directory) and not replica:
        raise StoreError(
            "STORE_CORRUPT",
            f"{path} is a home's database and stays where it is",
            context={"path": str(path)},
        )
    earlier = {
        path: path.name.removeprefix(ASIDE).partition("-")[0]
        for path in directory.glob(f"{ASIDE}[0-9]*")
    }
    newest = max(earlier.values(), key=int, default="")
    for path in [path for path, stamp in earlier.items() if stamp != newest]:
        remove_generation(path)
    with suppress(OSError):
        (directory / _DAMAGE_MARKER).unlink()
    kept = move_aside(directory)
    if kept is None:
        raise StoreError("STORE_IO", f"there is no {directory / STORE_NAME} to set aside")
    return kept


def report_damage(directory: Path) -> None:
    """Report to the holder of a store's lease that its database is damaged."""
    # If the disk can't be written, nothing could be rebuilt either.
    with suppress(OSError):
        (directory / _DAMAGE_MARKER).touch(mode=0o600)


def is_reported_damaged(directory: Path) -> bool:
    """True if a process reported damage and the database wasn't set aside yet."""
    marker = directory / _DAMAGE_MARKER
    if marker.exists() and not (directory / STORE_NAME).exists():
        # The report was about a database that is gone, not about the next one.
        with suppress(OSError):
            marker.unlink()
    return marker.exists()
