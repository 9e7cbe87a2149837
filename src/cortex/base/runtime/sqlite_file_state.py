"""Detection of writes to a SQLite database by the state of its files alone.

SQLite fills its journal first, and the rows become readable only when the disk has confirmed the
write: a reader in between sees the new state of the files and the old rows. So data that was read
shortly after the files changed is read again, a few times.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

# Time after the last write by which every disk has confirmed it.
SETTLED_SECONDS = 10.0


def state_of(path: Path) -> tuple[int, ...]:
    """Return numbers that change with every write to a database or its journal; () without one."""
    path = real(path)
    state: list[int] = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        with suppress(OSError, ValueError):
            status = file.stat()
            state += (status.st_ino, status.st_mtime_ns, status.st_size)
            continue
        if not state:
            return ()
    return tuple(state)


def needs_reread(state: Sequence[int], read_at: float, now: float) -> bool:
    """Return whether data read at `read_at` may miss a write, and another read is due by `now`.

    Times are Unix seconds; `state` is the state of the files at the time of reading.
    """
    if not state:
        return False
    written_at = max(state[1::3]) / 1e9
    age = max(read_at - written_at, 0.0)
    return age < SETTLED_SECONDS and now - written_at > 2 * age + 1.0


def real(path: Path) -> Path:
    """Return the path with links resolved: the journal is beside the file, not beside a link."""
    try:
        return Path(os.path.realpath(path))
    # Not a valid file name.
    except ValueError:
        return path
