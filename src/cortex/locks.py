"""A lock on an open file that ends with the process, however it ends; standard library only."""

from __future__ import annotations

import os
import sys

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
