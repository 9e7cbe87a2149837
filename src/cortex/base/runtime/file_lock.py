"""File locks that the system releases when the process ends; standard library only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_SECONDS = 0.05

if sys.platform == "win32":
    import msvcrt

    def lock_file(file: int) -> bool:
        """Try to lock an open file for this process; true if it is locked now."""
        try:
            os.lseek(file, 0, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock_file(file: int) -> bool:
        """Try to lock an open file for this process; true if it is locked now."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


@contextmanager
def exclusive_lock(path: str, seconds: float, given_up: Callable[[], bool]) -> Iterator[bool]:
    """Hold an exclusive lock on this machine inside the block; child processes don't inherit it.

    Yields false if the lock wasn't free within `seconds`, or `given_up` returned true.
    """
    deadline = time.monotonic() + seconds
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        while not (locked := lock_file(file)) and time.monotonic() < deadline and not given_up():
            time.sleep(POLL_SECONDS)
        yield locked
    finally:
        os.close(file)


def is_held(lock: str) -> bool:
    """Return whether a process holds the lock at this path."""
    try:
        file = os.open(lock, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return False
    try:
        return not lock_file(file)
    finally:
        os.close(file)
