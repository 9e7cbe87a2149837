"""A home with its cortexd, and windows served by it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from cortex.base.runtime.rendezvous import Rendezvous
from protocol.code_server import CodeServer

CORTEX = (sys.executable, "-m", "cortex")
CALL = {"name": "search_code", "arguments": {"query": "switch_lamp"}}


class Window(CodeServer):
    """A shim and its pipes, as an agent has them."""

    @property
    def stderr(self) -> str:
        """Text on stderr, once it has ended."""
        assert self.process.stderr
        return self.process.stderr.read().decode()

    def found(self, query: str) -> list[str]:
        """Files with these words; by meaning, all files of a small folder are alike."""
        return [
            hit["file"]
            for hit in self.tool("search_code", query=query, strategy="tfidf")["results"]
        ]

    def answers(self, ids: Sequence[int | str], seconds: float = 30.0) -> dict[int | str, dict]:
        """Answers to these requests in any order, each exactly once."""
        missing, found = set(ids), {}
        while missing:
            message = self.take(seconds)
            assert message is not None, f"the server ended and owes {missing}"
            if "method" not in message:
                missing.remove(message["id"])
                found[message["id"]] = message
        return found

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        if self.process.stderr:
            self.process.stderr.close()


@dataclass
class Sandbox:
    """A home, a folder for its socket, and a workspace."""

    home: Path
    run: Path
    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "CORTEX_NO_SIDECAR"}
        return {
            **kept,
            "CORTEX_HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.run),
            **self.variables,
            **more,
        }

    @property
    def meeting(self) -> Rendezvous:
        return Rendezvous(str(self.home), {"XDG_RUNTIME_DIR": str(self.run), **self.variables})

    def window(
        self, *roots: Path, more: tuple[str, ...] = (), guess: bool = False, **variables: str
    ) -> Window:
        """Open a window; without folders it serves the workspace, or what it guesses."""
        served = roots or (() if guess else (self.root,))
        return Window(
            *served,
            more=more,
            stderr=subprocess.PIPE,
            env=self.environment(**variables),
            cwd=self.root,
        )

    def pipe(
        self, *arguments: str, said: bytes = b"", cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        """`cortex mcp ...` in a pipe of the shell."""
        command = [*CORTEX, "mcp", *arguments]
        environment = self.environment(**variables)
        return subprocess.run(
            command,
            input=said,
            capture_output=True,
            env=environment,
            cwd=cwd or self.root,
            timeout=60,
        )

    @contextlib.contextmanager
    def front_end(
        self, *more: str, stdout: int = subprocess.DEVNULL, cwd: Path | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """`cortex mcp code ...` with pipes handled by the test."""
        with subprocess.Popen(
            [*CORTEX, "mcp", "code", *more],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            env=self.environment(),
            cwd=cwd or self.root,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def status(self) -> dict | None:
        return self.meeting.ask({"control": "status"})

    def pid(self) -> int:
        """The cortexd that listens now."""
        answer = self.meeting.ask({"control": "ping"})
        assert answer is not None, "no cortexd listens"
        return int(str(answer["pid"]))

    def cortexds(self) -> list[int]:
        """Every cortexd of this home that runs."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            with contextlib.suppress(psutil.Error):
                ours = "cortex.cortexd" in (process.info["cmdline"] or ())
                if (
                    ours
                    and process.environ().get("CORTEX_HOME") == str(self.home)
                    and process.status() != "zombie"
                ):
                    found.append(process.pid)
        return found

    def end(self) -> None:
        """End every cortexd of the home, even one suspended or unreachable by its socket."""
        for pid in self.cortexds():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while self.cortexds():
            assert time.monotonic() < deadline, "a cortexd did not end"
            time.sleep(0.02)
