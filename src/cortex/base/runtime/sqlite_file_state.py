"""Whether a database may have been written to since it was read, told by its files alone.

SQLite fills its journal first, and what it wrote can be read only when the disk has confirmed it:
whoever reads in between sees the files of after the write and the rows of before it. So what was
read shortly after the files changed is read again, a few times.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

SETTLED_SECONDS = 10.0  # after the last write: no disk takes that long to confirm it


def state_of(path: Path) -> tuple[int, ...]:
    """What differs when something was written to a database or its journal; () where there is none."""
    path = real(path)
    state: list[int] = []
    for name in (path, path.with_name(f"{path.name}-wal")):
        with suppress(OSError, ValueError):
            found = name.stat()
            state += (found.st_ino, found.st_mtime_ns, found.st_size)
            continue
        if not state:
            return ()
    return tuple(state)


def may_lack(state: Sequence[int], read_at: float, now: float) -> bool:
    """Whether a reading at that time (Unix seconds), of files in that state, may lack what they
    hold, and a new one is due by now.
    """
    if not state:
        return False
    written_at = max(state[1::3]) / 1e9
    age = max(read_at - written_at, 0.0)
    return age < SETTLED_SECONDS and now - written_at > 2 * age + 1.0


def real(path: Path) -> Path:
    """Where the file is, for its journal lies beside that and not beside a link."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # no name of a file
        return path
