"""Memory use of this process, and returning freed memory to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress


def memory_bytes() -> int:
    """Return the private memory of this process.

    Mapped pages of files, such as an index, don't count: the system takes them back when it needs
    them. The peak isn't used, because it never goes down, so a limit once reached would stay
    reached.
    """
    import psutil

    info = psutil.Process().memory_info()
    # Windows reports it, Linux reports the shared part; on macOS mapped pages are included.
    return getattr(info, "private", info.rss - getattr(info, "shared", 0))


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    import psutil

    return psutil.Process().memory_info().rss


def give_memory_back() -> None:
    """Return freed memory to the system; glibc would keep it, after many small blocks for good."""
    if sys.platform == "linux":
        # Another C library may not have malloc_trim.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def default_workers() -> int:
    """Return half the number of cores, at most four: the main process needs a core, too."""
    return max(1, min(4, (os.cpu_count() or 2) // 2))
