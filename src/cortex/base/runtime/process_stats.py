"""Memory of this process, and giving some of it back to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress


def memory_bytes() -> int:
    """The memory that this process has for itself now.

    Pages of files that it has mapped, as of an index, don't count: the system takes them back when
    it needs them. Not the peak: that never goes down, so a limit once reached would stay reached.
    """
    import psutil

    info = psutil.Process().memory_info()
    # Windows says it directly, Linux by what is shared; macOS counts mapped pages, too.
    return getattr(info, "private", info.rss - getattr(info, "shared", 0))


def resident_bytes() -> int:
    """The memory in which this process has anything now."""
    import psutil

    return psutil.Process().memory_info().rss


def give_memory_back() -> None:
    """Let the system have what was freed: glibc would keep it, after many small pieces for good."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def default_workers() -> int:
    """Count half of the cores, at most four: the process that remembers needs one too."""
    return max(1, min(4, (os.cpu_count() or 2) // 2))
