"""Folders in memory, where the system has enough of it: durable writes are waited for, and a disk
takes its time for that.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Bytes that three processes with a database each don't fill; a container often has a small part of
# it
FREE = 2 << 30


def _place() -> str | None:
    place = "/dev/shm"
    return place if os.access(place, os.W_OK) and shutil.disk_usage(place).free >= FREE else None


PLACE = _place()


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for a while."""
    with tempfile.TemporaryDirectory(dir=PLACE) as name:
        yield Path(name)
