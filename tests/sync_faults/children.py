"""Processes that answer lines of JSON, started by a fork server and killed at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

PROGRAMS = Path(__file__).parent
SECONDS = 60.0


class ChildEnded(Exception):
    """The process ended before it answered."""


class Child:
    """A process that the fork server started."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self._link = link
        self._lines = link.makefile("r", encoding="utf-8")
        self._lock = threading.Lock()

    def ask(self, asked: dict[str, object]) -> dict:
        """Ask for an answer. Raises: ChildEnded."""
        with self._lock:
            try:
                self._link.sendall(json.dumps(asked).encode() + b"\n")
                line = self._lines.readline()
            except TimeoutError:
                raise AssertionError(f"no answer to {asked}") from None
            except (OSError, ValueError):
                raise ChildEnded from None
        if not line.endswith("\n"):
            raise ChildEnded
        return json.loads(line)

    def read(self) -> dict:
        """Read the line that it writes unasked. Raises: ChildEnded."""
        line = self._lines.readline()
        if not line:
            raise ChildEnded
        return json.loads(line)

    def kill(self) -> None:
        """Kill it and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> None:
        """Wait for its end."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                break
            assert time.monotonic() < deadline, "it can't be killed"
            time.sleep(0.001)

    def close(self) -> None:
        """Kill it and close the connection."""
        self.kill()
        self._lines.close()
        self._link.close()


class ForkServer:
    """The process from which the others are forked."""

    def __init__(self, folder: Path) -> None:
        """`folder` needs a short name: sockets are made there."""
        self.folder = folder
        self._numbers = count()
        self._lock = threading.Lock()
        self._children: list[Child] = []
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "RAYON_NUM_THREADS": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error::SyntaxWarning", str(PROGRAMS / "fork_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )

    def start(self, program: str, log: Path, **asked: object) -> Child:
        """Start a process of a program, with its output in a log."""
        with self._lock:
            address = self.folder / f"s{next(self._numbers)}"
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(str(address))
                listener.listen(1)
                listener.settimeout(SECONDS)
                pid = self._fork(
                    {"program": program, "socket": str(address), "log": str(log), **asked}
                )
                link, _ = listener.accept()
            address.unlink()
            link.settimeout(SECONDS)
            child = Child(pid, link)
            self._children.append(child)
            return child

    def _fork(self, asked: dict[str, object]) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end_all(self) -> None:
        """End all processes that were started."""
        for child in self._children:
            child.close()
        self._children.clear()

    def close(self) -> None:
        self.end_all()
        self._process.communicate(timeout=SECONDS)
