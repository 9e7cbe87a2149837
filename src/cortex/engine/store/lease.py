"""Lease of a store: an operating-system lock that ends with the process that holds it.

Its holder watches, indexes and writes; other processes read. A lock file with a process id would go
stale after a crash, and a lock inside SQLite would block readers; `flock` (on Windows
`msvcrt.locking`) does neither. Child processes don't inherit it, and a fork of the holder is not
the holder. If the lock file is removed, the lease is lost: the next process locks a new file.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from cortex.base.runtime.file_lock import lock_file
from cortex.engine.store.connections import is_still, translated

NAME = "lease"
# A process that only asks for the holder also takes the lock for a moment.
TRIES = 4
TRY_SECONDS = 0.002


class Lease:
    """Right to write to the store in `directory`; None is a store in memory, always held."""

    def __init__(self, directory: Path | None, folder: str = "", *, wanted: bool = True) -> None:
        """Prepare the lease; unless `wanted`, this process never becomes the holder."""
        self._wanted = wanted
        # Folder that this process watches as the holder.
        self._folder = folder
        self._path = None if directory is None else directory / NAME
        self._file: int | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def held(self) -> bool:
        """True if this process is the holder."""
        if os.getpid() != self._process:
            return False
        return self._path is None or (self._file is not None and not self.lost)

    @property
    def lost(self) -> bool:
        """True if this process was the holder until its lock file was removed."""
        file = self._file
        if file is None or self._path is None:
            return False
        try:
            return not is_still(self._path, os.fstat(file))
        except OSError:
            # Released meanwhile.
            return False

    def take(self) -> bool:
        """Try to become the holder; true if this process is the holder afterwards.

        Raises: StoreError STORE_UNWRITABLE, FileError DISK_FULL.
        """
        if not self._wanted:
            return False
        with self._lock, translated(self._path):
            if self.held or self._path is None:
                return self.held
            # From a parent process, or of a file that was removed.
            if self._file is not None:
                os.close(self._file)
                self._file = None
            if self._path.is_dir():
                # A folder can't be locked; it is kept under another name.
                self._path.replace(
                    self._path.with_name(f"cortex.db.damaged-{time.time_ns()}-{NAME}")
                )
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            if not _lock_soon(file) or not is_still(self._path, os.fstat(file)):
                os.close(file)
                return False
            # On a full disk the lock still counts; the process id is only information.
            with contextlib.suppress(OSError):
                os.ftruncate(file, 0)
                os.write(file, f"\n{os.getpid()}\n{self._folder}\n".encode())
            self._file, self._process = file, os.getpid()
            return True

    def holder(self) -> int:
        """Process id of the holder, 0 if the lease is free, -1 if the id is unknown."""
        if self.held:
            return os.getpid()
        if self._path is None:
            return 0
        try:
            file = os.open(self._path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            return 0
        try:
            if lock_file(file):
                return 0
            # The first byte is the locked one on Windows.
            os.lseek(file, 1, os.SEEK_SET)
            return int(os.read(file, 32).split()[0])
        except (OSError, ValueError, IndexError):
            return -1
        finally:
            os.close(file)

    def followed(self) -> str:
        """Folder that the holder watches, "" if the lease is free or it isn't known."""
        if self._path is None or self.held:
            return self._folder
        if self.holder() == 0:
            return ""
        with contextlib.suppress(OSError, IndexError), open(self._path, "rb", buffering=0) as file:
            # The first byte is the locked one on Windows.
            file.seek(1)
            return file.read(10_000).decode("utf-8", "replace").split("\n")[1]
        return ""

    def release(self) -> None:
        with self._lock:
            if self._file is not None:
                # Closing releases the lock.
                os.close(self._file)
                self._file = None


def _lock_soon(file: int) -> bool:
    for _ in range(TRIES - 1):
        if lock_file(file):
            return True
        time.sleep(TRY_SECONDS)
    return lock_file(file)
