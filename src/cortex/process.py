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
    """The memory that this process uses now, 0 where the platform doesn't say."""
    try:
        with open(STATM, encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def give_memory_back() -> None:
    """Let the system have what was freed: glibc would keep it, after many small pieces for good."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
