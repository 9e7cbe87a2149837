"""Processes that are spoken to by lines of JSON, started by the nursery and killed at any moment."""

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


class Gone(Exception):
    """The process ended before it answered."""


class Child:
    """A process of the nursery."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self._link = link
        self._lines = link.makefile("r", encoding="utf-8")
        self._turn = threading.Lock()

    def ask(self, asked: dict[str, object]) -> dict:
        """Its answer. Raises: Gone."""
        with self._turn:
            try:
                self._link.sendall(json.dumps(asked).encode() + b"\n")
                line = self._lines.readline()
            except TimeoutError:
                raise AssertionError(f"no answer to {asked}") from None
            except (OSError, ValueError):
                raise Gone from None
        if not line.endswith("\n"):
            raise Gone
        return json.loads(line)

    def read(self) -> dict:
        """The first thing that it says by itself. Raises: Gone."""
        line = self._lines.readline()
        if not line:
            raise Gone
        return json.loads(line)

    def kill(self) -> None:
        """Kill it as it is, and see it gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.gone()

    def gone(self) -> None:
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
        """Kill it and hang up."""
        self.kill()
        self._lines.close()
        self._link.close()


class Nursery:
    """The process from which the others are forked."""

    def __init__(self, folder: Path) -> None:
        """`folder` has a short name: sockets are made there."""
        self.folder = folder
        self._numbers = count()
        self._turn = threading.Lock()
        self._children: list[Child] = []
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "RAYON_NUM_THREADS": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error::SyntaxWarning", str(PROGRAMS / "nursery.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )

    def start(self, program: str, log: Path, **asked: object) -> Child:
        """A new process of a program, which tells people what it has to say in a log."""
        with self._turn:
            place = self.folder / f"s{next(self._numbers)}"
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(str(place))
                listener.listen(1)
                listener.settimeout(SECONDS)
                pid = self._fork(
                    {"program": program, "socket": str(place), "log": str(log), **asked}
                )
                link, _ = listener.accept()
            place.unlink()
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
        """End those that were started."""
        for child in self._children:
            child.close()
        self._children.clear()

    def close(self) -> None:
        self.end_all()
        self._process.communicate(timeout=SECONDS)
