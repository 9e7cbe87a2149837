"""Generations of a chunk index: directories that hold one complete, immutable state each.

    $CORTEX_HOME/chunks/<folder's hash>/12/
        lease       held by the process that builds or uses it
        published   marks it as complete, and names its format
        store/      SQLite, lexical index, vectors

A new state is built in a new directory, from copies of the last one's files. A process holds the
lease of a generation that it has open; a directory without a holder is adopted or removed by the
next process. Road not taken: one store that is changed in place. Queries during a change would see
old and new chunks side by side, and a broken file could not be rolled back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from pathlib import Path

from cortex.base.errors import CortexError, FileError
from cortex.base.paths import make_private
from cortex.base.runtime.atomic_file import replace_file
from cortex.base.text import hash_bytes
from cortex.base.types import Source, Stamp
from cortex.engine.store import STORE_NAME, Store
from cortex.engine.store.lease import Lease
from cortex.engine.store.schema import MIGRATIONS

# Version of the index's own data in a store; another version is rebuilt.
LAYOUT = 1
FORMAT = f"shelf {LAYOUT} schema {len(MIGRATIONS)}\n"
KIND = "chunks"
# Time for a new directory to get its lease.
YOUNG_SECONDS = 60.0
# Time for which the generations of an unused folder are kept.
UNUSED_SECONDS = 30 * 86_400.0
TRIES = 100
_STORE, _PUBLISHED = "store", "published"
# Lock files of tantivy, which belong to one writer and are not copied.
_LOCKS = (".tantivy-writer.lock", ".tantivy-meta.lock")

log = logging.getLogger(__name__)


def home_of(directory: Path, cortex_home: Path) -> Path:
    """Folder with the generations of a folder of chunk files."""
    return cortex_home / "chunks" / hash_bytes(os.fsencode(directory)).hex()


class Generation:
    """One open generation."""

    def __init__(self, path: Path, lease: Lease) -> None:
        self.path = path
        self._lease = lease
        # Queries under way.
        self.uses = 0
        # Stamps of its vectors, the most frequent first.
        self.stamps: tuple[Stamp, ...] = ()
        self.filters: dict[tuple[tuple[str, ...], tuple[str, ...]], frozenset[int]] = {}
        self.store = Store(path / _STORE)
        self.source: Source = self.store.content.source(KIND, path.parent.name, "")

    def publish(self) -> None:
        """Mark the generation as complete and reopen it, to free the memory of the build."""
        self.store.checkpoint()
        self.store.close()
        replace_file(self.path / _PUBLISHED, FORMAT.encode())
        self.store = Store(self.path / _STORE)

    def retire(self) -> None:
        """Close the generation and remove its directory."""
        self.store.close()
        remove(self.path, self._lease)

    def close(self) -> None:
        """Close the generation and leave its directory to the next process."""
        self.store.close()
        self._lease.release()


def adopt(home: Path) -> Generation | None:
    """Take over the newest complete generation that no living process holds."""
    for path in newest_first(home):
        if not is_published(path):
            continue
        lease = Lease(path)
        try:
            if lease.take() and is_published(path):
                return Generation(path, lease)
        except CortexError as error:
            # The generation is damaged or gone meanwhile: it is rebuilt.
            log.warning("the chunks kept in %s can't be used: %s", path, error.message)
        lease.release()
    return None


def begin(home: Path, base: Generation | None, *, empty: bool = False) -> Generation:
    """Create a generation to build in, as a copy of `base` or of another process's newest.

    With `empty` it starts with nothing.

    Raises: FileError or StoreError if the disk can't be written.
    """
    path, lease = _create_directory(home)
    try:
        others = [other for other in newest_first(home) if is_published(other)]
        for source in () if empty else others if base is None else (base.path,):
            if _copy_store(source / _STORE, path / _STORE):
                break
        else:
            (path / _STORE).mkdir(mode=0o700, exist_ok=True)
        return Generation(path, lease)
    except BaseException:
        remove(path, lease)
        raise


def sweep(home: Path) -> None:
    """Remove the generations of processes that are gone."""
    for path in newest_first(home):
        lease = Lease(path)
        with contextlib.suppress(CortexError, OSError):
            young = time.time() - path.stat().st_mtime < YOUNG_SECONDS
            if not (young and not (path / "lease").exists()) and lease.take():
                remove(path, lease)


def sweep_unused(home: Path) -> None:
    """Remove the generations of folders that have long been unused; `home` is in use."""
    with contextlib.suppress(OSError):
        os.utime(home)
        for other in list(home.parent.iterdir()):
            # A living process still has a generation in the folder.
            with contextlib.suppress(OSError):
                if other != home and time.time() - other.stat().st_mtime > UNUSED_SECONDS:
                    sweep(other)
                    other.rmdir()


def remove(path: Path, lease: Lease) -> None:
    """Remove a generation that this process holds.

    Files that can't be removed now (Windows) are left to `sweep`.
    """
    with contextlib.suppress(OSError):
        # The mark goes first: a partly removed generation must never be adopted.
        (path / _PUBLISHED).unlink(missing_ok=True)
    shutil.rmtree(path / _STORE, ignore_errors=True)
    # Windows can't remove the file of a lease that is held.
    if os.name == "nt":
        lease.release()
    shutil.rmtree(path, ignore_errors=True)
    lease.release()


def newest_first(home: Path) -> list[Path]:
    """List the directories of all generations, complete or not, newest first."""
    try:
        names = [name for name in os.listdir(home) if name.isdecimal()]
    except OSError:
        # There is none yet, or writing there reports the error.
        return []
    return [home / name for name in sorted(names, key=int, reverse=True)]


def is_published(path: Path) -> bool:
    """True if a generation is complete and in the format of this version of Cortex."""
    try:
        return (path / _PUBLISHED).read_text(encoding="utf-8") == FORMAT
    except (OSError, ValueError):
        return False


def _create_directory(home: Path) -> tuple[Path, Lease]:
    """Create a directory with a higher number than all others, and take its lease."""
    try:
        make_private(home)
        for _ in range(TRIES):
            existing = newest_first(home)
            path = home / str(int(existing[0].name) + 1 if existing else 1)
            # Another process was faster.
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700)
                lease = Lease(path)
                with contextlib.suppress(CortexError):
                    if lease.take():
                        return path, lease
    except OSError as error:
        raise FileError(
            "PERMISSION_DENIED",
            f"can't make a folder in {home}: {error.strerror}",
            context={"path": str(home)},
        ) from error
    raise FileError(
        "PERMISSION_DENIED",
        f"can't make a folder of our own in {home}",
        context={"path": str(home)},
    )


def _copy_store(source: Path, target: Path) -> bool:
    """Copy a published store; false if it was removed meanwhile.

    Segments of the lexical index are immutable, so they are hard-linked; other files may grow.
    """
    try:
        for folder, _, names in os.walk(source):
            into = target / os.path.relpath(folder, source)
            into.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_lexical = os.path.basename(folder).startswith("words-")
            for name in names:
                if name in _LOCKS or name.startswith(f"{STORE_NAME}-") or name == "lease":
                    continue
                _copy_file(
                    os.path.join(folder, name), into / name, link=is_lexical and "." in name[1:]
                )
        # Removal starts with the mark, so everything was there until now.
        if is_published(source.parent):
            return True
    except FileNotFoundError:
        pass
    shutil.rmtree(target, ignore_errors=True)
    return False


def _copy_file(source: str, target: Path, *, link: bool) -> None:
    # Tantivy replaces its metadata files instead of writing to them, but that isn't guaranteed.
    if link and not source.endswith(".json"):
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)
    os.chmod(target, 0o600)
