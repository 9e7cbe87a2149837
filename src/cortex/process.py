"""What this process costs, read from the operating system with the standard library."""

from __future__ import annotations

import sys


def memory_bytes() -> int:
    """The memory that this process uses now, 0 where the platform doesn't say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return _peak_bytes()
    import resource

    return pages * resource.getpagesize()


def _peak_bytes() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
