"""The child's side of child_process.py: its streams, limits and time. Standard library only."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from typing import BinaryIO


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the real stdin and stdout, and replace them.

    From now on prints go to stderr, and reads return nothing.
    """
    requests = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with open(os.devnull, "rb") as null_device:
        os.dup2(null_device.fileno(), sys.stdin.fileno())
    return requests, answers


def apply_limits(memory_bytes: int) -> None:
    """Limit memory (0: not at all), and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if memory_bytes and sys.platform != "win32":
        import resource

        # macOS refuses some values.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End the process if the block takes longer.

    The alarm is a C thread: it works where native code hangs or holds the GIL, and if the parent
    is gone.
    """
    with open(os.devnull, "wb") as null_device:
        faulthandler.dump_traceback_later(seconds, exit=True, file=null_device)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
