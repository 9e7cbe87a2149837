"""What this process costs, read from the operating system with the standard library; and giving some of it back.

Only Linux tells the memory in use without a library. The peak that other systems tell was the road not taken: it never goes down,
so a limit that was reached once would be reached for ever.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

STATM = "/proc/self/statm"


def memory_bytes() -> int:
    """The memory that this process has for itself now, 0 where the platform doesn't say.

    Pages of files that it has mapped, as of an index, don't count: the system takes them back when it needs them.
    """
    resident, shared = _memory()
    return resident - shared


def resident_bytes() -> int:
    """The memory in which this process has anything now, 0 where the platform doesn't say."""
    return _memory()[0]


def _memory() -> tuple[int, int]:
    """In use, and how much of that is shared or mapped."""
    try:
        with open(STATM, encoding="ascii") as file:
            _, resident, shared, *_ = file.read().split()
        page = os.sysconf("SC_PAGE_SIZE")
        return int(resident) * page, int(shared) * page
    except (OSError, ValueError, AttributeError):
        return 0, 0


def give_memory_back() -> None:
    """Let the system have what was freed: glibc would keep it, after many small pieces for good."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
