"""The lease of a store: an operating-system lock that lives exactly as long as the process that
holds it.

Its holder watches, indexes and writes; everybody else reads. A lock file with a process id in it
would go stale after a crash, and a lock inside SQLite would block readers; `flock` (on Windows
`msvcrt.locking`) does neither. Programs that the holder starts don't inherit it, and a fork of the
holder is not the holder. Whose lock file was removed has lost the lease: the next one locks a new
file.
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
TRIES = 4  # somebody who only asks who the holder is has the lock for a moment, too
TRY_SECONDS = 0.002


class Lease:
    """The right to write to the store in `directory`.

    `None` is a store in memory, which nobody else can want.
    """

    def __init__(self, directory: Path | None, folder: str = "", *, wanted: bool = True) -> None:
        """Where it isn't `wanted`, this process never becomes the holder."""
        self._wanted = wanted
        self._folder = folder  # what this process follows when it is the holder
        self._path = None if directory is None else directory / NAME
        self._file: int | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def held(self) -> bool:
        """Whether this process is the holder."""
        if os.getpid() != self._process:
            return False
        return self._path is None or (self._file is not None and not self.lost)

    @property
    def lost(self) -> bool:
        """Whether this process was the holder until somebody removed the file that it had locked."""
        file = self._file
        if file is None or self._path is None:
            return False
        try:
            return not is_still(self._path, os.fstat(file))
        except OSError:  # given back meanwhile
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
            if self._file is not None:  # of a parent process, or of a file that is gone
                os.close(self._file)
                self._file = None
            if self._path.is_dir():
                # Nobody can lock a folder: what is in it is kept, under another name.
                self._path.replace(
                    self._path.with_name(f"cortex.db.damaged-{time.time_ns()}-{NAME}")
                )
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            if not _lock_soon(file) or not is_still(self._path, os.fstat(file)):
                os.close(file)
                return False
            # A full disk: the lock counts, the number is for people
            with contextlib.suppress(OSError):
                os.ftruncate(file, 0)
                os.write(file, f"\n{os.getpid()}\n{self._folder}\n".encode())
            self._file, self._process = file, os.getpid()
            return True

    def holder(self) -> int:
        """The process id of the holder, 0 when nobody holds it, -1 when the holder hasn't said."""
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
            os.lseek(file, 1, os.SEEK_SET)  # the first byte is the locked one on Windows
            return int(os.read(file, 32).split()[0])
        except (OSError, ValueError, IndexError):
            return -1
        finally:
            os.close(file)

    def followed(self) -> str:
        """The folder that the holder follows, "" when nobody holds the lease or it isn't known."""
        if self._path is None or self.held:
            return self._folder
        if self.holder() == 0:
            return ""
        with contextlib.suppress(OSError, IndexError), open(self._path, "rb", buffering=0) as file:
            file.seek(1)  # the first byte is the locked one on Windows
            return file.read(10_000).decode("utf-8", "replace").split("\n")[1]
        return ""

    def release(self) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)  # closing gives the lock back
                self._file = None


def _lock_soon(file: int) -> bool:
    for _ in range(TRIES - 1):
        if lock_file(file):
            return True
        time.sleep(TRY_SECONDS)
    return lock_file(file)
