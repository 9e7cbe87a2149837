"""The generations of a shelf: directories that each hold one complete state, never changed once it
is published.

    $CORTEX_HOME/chunks/<folder's hash>/12/   lease       held by the process that builds or uses it
                                              published   says that it is complete, and in which format
                                              store/      SQLite, words, vectors

A new state is built in a new directory, from copies of the last one's files. Who has a generation
open holds its lease; the directory of one that nobody holds is taken over or removed by the next
process. Road not taken: one store that is changed in place: whoever asks meanwhile would see old
and new chunks side by side, and a broken file could not be taken back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from cortex.base.errors import CortexError, FileError
from cortex.base.paths import make_private
from cortex.base.text import hash_bytes
from cortex.base.types import Source, Stamp
from cortex.engine.store import STORE_NAME, Store
from cortex.engine.store.lease import Lease
from cortex.engine.store.schema import MIGRATIONS

LAYOUT = 1  # of what the shelf itself keeps in a store: another one is built anew
FORMAT = f"shelf {LAYOUT} schema {len(MIGRATIONS)}\n"
KIND = "chunks"
YOUNG_SECONDS = 60.0  # that a new directory has to get its lease
UNUSED_SECONDS = 30 * 86_400.0  # for which a folder is remembered
TRIES = 100
_STORE, _MARK = "store", "published"
_LOCKS = (".tantivy-writer.lock", ".tantivy-meta.lock")  # each writer its own

log = logging.getLogger(__name__)


def home_of(directory: Path, cortex_home: Path) -> Path:
    """Where the generations of a folder of chunk files are."""
    return cortex_home / "chunks" / hash_bytes(os.fsencode(directory)).hex()


class Generation:
    """One open generation: whoever asks it does so inside `use`, and it is closed after the last
    one.
    """

    def __init__(self, path: Path, lease: Lease) -> None:
        self.path = path
        self._lease = lease
        self._lock = threading.Lock()
        self._uses = 0
        self._retired = False
        self._closed = False
        self.stamps: tuple[Stamp, ...] = ()  # whose vectors it has, the most first
        self.filters: dict[tuple[tuple[str, ...], tuple[str, ...]], frozenset[int]] = {}
        self.store = Store(path / _STORE)
        self.source: Source = self.store.truth.source(KIND, path.parent.name, "")

    @contextlib.contextmanager
    def use(self) -> Iterator[bool]:
        """Keep it open for the block; false where it is closed already."""
        with self._lock:
            usable = not self._closed
            self._uses += usable
        try:
            yield usable
        finally:
            with self._lock:
                self._uses -= usable

    def publish(self) -> None:
        """Say that it is complete; it is opened anew, so that nothing of the building is kept in
        memory.
        """
        self.store.checkpoint()
        self.store.close()
        mark = self.path / f"{_MARK}.new"
        mark.write_text(FORMAT, encoding="utf-8")
        os.replace(mark, self.path / _MARK)
        self.store = Store(self.path / _STORE)

    def retire(self) -> bool:
        """Close it and remove its directory, unless somebody uses it; true where it is gone."""
        with self._lock:
            self._closed = self._closed or not self._uses
        if self._closed and not self._retired:
            self._retired = True
            self.store.close()
            remove(self.path, self._lease)
        return self._closed

    def close(self) -> None:
        """Close it and leave its directory to the next process."""
        with self._lock:
            self._closed = True
        self.store.close()
        self._lease.release()


def adopt(home: Path) -> Generation | None:
    """The newest generation that is complete and that no living process holds, now held by this
    one.
    """
    for path in newest_first(home):
        if not is_published(path):
            continue
        lease = Lease(path)
        try:
            if lease.take() and is_published(path):
                return Generation(path, lease)
        except CortexError as error:  # damaged, or gone meanwhile: it is built anew
            log.warning("the chunks kept in %s can't be used: %s", path, error.message)
        lease.release()
    return None


def begin(home: Path, base: Generation | None, *, empty: bool = False) -> Generation:
    """A new generation to build in, with what is in `base`, or else in the newest that another
    process has; or with nothing.

    Raises: FileError, StoreError, where the disk can't be written.
    """
    path, lease = _make(home)
    try:
        others = [one for one in newest_first(home) if is_published(one)]
        for source in () if empty else others if base is None else (base.path,):
            if _copy(source / _STORE, path / _STORE):
                break
        else:
            (path / _STORE).mkdir(mode=0o700, exist_ok=True)
        return Generation(path, lease)
    except BaseException:
        remove(path, lease)
        raise


def sweep(home: Path) -> None:
    """Remove what processes left behind that are gone."""
    for path in newest_first(home):
        lease = Lease(path)
        with contextlib.suppress(CortexError, OSError):
            young = time.time() - path.stat().st_mtime < YOUNG_SECONDS
            if not (young and not (path / "lease").exists()) and lease.take():
                remove(path, lease)


def sweep_unused(home: Path) -> None:
    """Remove what is kept of folders that nobody has asked about for long; `home` is in use."""
    with contextlib.suppress(OSError):
        os.utime(home)
        for other in list(home.parent.iterdir()):
            with contextlib.suppress(OSError):  # a living process has one in it
                if other != home and time.time() - other.stat().st_mtime > UNUSED_SECONDS:
                    sweep(other)
                    other.rmdir()


def remove(path: Path, lease: Lease) -> None:
    """Remove a generation that this process holds; what can't be removed now (Windows) is left to
    `sweep`.
    """
    with contextlib.suppress(OSError):
        (path / _MARK).unlink(missing_ok=True)  # first: half of it must never be adopted
    shutil.rmtree(path / _STORE, ignore_errors=True)
    if os.name == "nt":  # the file of a lease that is held can't be removed there
        lease.release()
    shutil.rmtree(path, ignore_errors=True)
    lease.release()


def newest_first(home: Path) -> list[Path]:
    """The directories of all generations, complete or not."""
    try:
        names = [name for name in os.listdir(home) if name.isdecimal()]
    except OSError:  # none yet, or who writes there is told why not
        return []
    return [home / name for name in sorted(names, key=int, reverse=True)]


def is_published(path: Path) -> bool:
    """Whether a generation is complete, and as this version of Cortex writes them."""
    try:
        return (path / _MARK).read_text(encoding="utf-8") == FORMAT
    except (OSError, ValueError):
        return False


def _make(home: Path) -> tuple[Path, Lease]:
    """A new directory with a higher number than all others, and its lease."""
    try:
        make_private(home)
        for _ in range(TRIES):
            existing = newest_first(home)
            path = home / str(int(existing[0].name) + 1 if existing else 1)
            with contextlib.suppress(FileExistsError):  # another process was faster
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


def _copy(source: Path, target: Path) -> bool:
    """Copy a published store; false where it was removed meanwhile.

    Segments of the word index are never written again, so a second name for them will do; all else
    may grow.
    """
    try:
        for folder, _, names in os.walk(source):
            into = target / os.path.relpath(folder, source)
            into.mkdir(mode=0o700, parents=True, exist_ok=True)
            words = os.path.basename(folder).startswith("words-")
            for name in names:
                if name in _LOCKS or name.startswith(f"{STORE_NAME}-") or name == "lease":
                    continue
                _copy_file(os.path.join(folder, name), into / name, link=words and "." in name[1:])
        if is_published(source.parent):  # the mark is removed first: all of it was there until now
            return True
    except FileNotFoundError:
        pass
    shutil.rmtree(target, ignore_errors=True)
    return False


def _copy_file(source: str, target: Path, *, link: bool) -> None:
    # Tantivy's own lists are replaced, not written, but who knows
    if link and not source.endswith(".json"):
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)
    os.chmod(target, 0o600)
