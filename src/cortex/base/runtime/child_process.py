"""Child process that answers over its stdin and stdout, and ends when its stdin does.

The parent's side; child_main.py has the child's. Each exchange runs in a thread of its own, which
the caller abandons when time is up: a pipe that some process still holds can't block Cortex.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import BinaryIO, TypeVar, cast

# Time for a process to end by itself, and for an abandoned exchange to notice the end.
END_SECONDS = 0.5
# Time for the system to end a killed process.
KILL_SECONDS = 5.0

Result = TypeVar("Result")


class ChildProcess:
    """A running child and its streams."""

    def __init__(self, command: Sequence[str], *, group: bool = False) -> None:
        """Start the process; with `group` the processes that it starts end with it.

        Raises: OSError, ValueError.
        """
        self._group = group and sys.platform != "win32"
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Not a folder of the user's, which could then not be removed.
            cwd=os.path.dirname(os.path.abspath(sys.executable)),
            start_new_session=group,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self._requests = cast(BinaryIO, self._process.stdin)
        self._answers = cast(BinaryIO, self._process.stdout)
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def exchange(self, work: Callable[[BinaryIO, BinaryIO], Result], seconds: float) -> Result:
        """Write a request and read its answer: `work` gets the child's stdin and stdout.

        After a timeout only `end` may follow.

        Raises: TimeoutError; what `work` raises, as OSError when the process has ended.
        """
        outcome: Future[Result] = Future()

        def run() -> None:
            try:
                outcome.set_result(work(self._requests, self._answers))
            except BaseException as error:
                outcome.set_exception(error)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        return outcome.result(seconds)

    def kill(self) -> None:
        """Kill the process and its group; one that wasn't waited for still has its id."""
        with contextlib.suppress(OSError):
            if self._group and self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def end(self, grace_seconds: float = 0.0) -> None:
        """End the process: by closing its stdin if there is time for that, then by force."""
        if grace_seconds:
            with contextlib.suppress(OSError):
                self._requests.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_seconds)
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_SECONDS)
        if self._thread is not None:
            self._thread.join(END_SECONDS)
            # A process that left its group still holds the pipe.
            if self._thread.is_alive():
                return
        for stream in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                stream.close()


def python_module(module: str, *arguments: str) -> list[str]:
    """Command line of a module of ours; files in the working directory don't shadow it (-P)."""
    return [sys.executable, "-P", "-m", module, *arguments]
