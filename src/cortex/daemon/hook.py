"""`cortex hook EVENT`: what a client runs when a session starts, stops or is about to be compacted.

Standard library only. Nothing is done with it yet. Whatever happens, it ends well within a second: a session never waits for us, and
never fails because of us. What the client says is read, so that it doesn't write into a closed pipe; but not for ever.
"""

from __future__ import annotations

import os
import threading

READ_SECONDS = 0.5


def main() -> int:
    """Take what the client says; the exit code is always 0."""
    reader = threading.Thread(target=_read, name="stdin", daemon=True)
    reader.start()
    reader.join(READ_SECONDS)
    return 0


def _read() -> None:
    try:
        while os.read(0, 65_536):
            pass
    except OSError:  # there is no stdin
        return
