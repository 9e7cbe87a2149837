"""One process for every agent: first answer of a session, cost of ten, concurrent clients.

A front end is timed from exec to the answer of `initialize`, beside a server in a process of its
own. Its CPU is its own and what cortexd spent on it. Under load every client asks for a name that
only it asks for, and looks whether the answer is about that.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.mcp_client import Session
from bench.common.process_cost import percentile

STARTS = 20
SHIMS = 10
CLIENTS, CALLS = 64, 200
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


def measure(setup: Setup) -> Section:
    """Start, memory and load through cortexd."""
    section = Section("daemon", "One process for every agent")
    section.text = (
        "`cortex mcp` through cortexd beside a server in a process of its own. Memory is PSS: what is shared is divided. Under load, "
        "each call is a search for a name that is in one file only."
    )
    folder = setup.indexed(setup.small)
    with _daemon(setup, folder) as (environment, pid):
        _starts(setup, section, folder, environment, pid)
        _memory(setup, section, folder, environment)
        _load(setup, section, folder, environment)
    return section


@contextmanager
def _daemon(setup: Setup, folder: Path) -> Iterator[tuple[dict[str, str], int]]:
    """A cortexd with its own home, and the variables of its clients."""
    environment = setup.environment()
    environment["CORTEX_HOME"] = str(setup.work / "daemon-home")
    del environment["CORTEX_NO_SIDECAR"]
    with Session(
        [*setup.cortex, "mcp", "code", "--workspace", str(folder)], environment
    ) as session:
        session.call("search_code", query="anything", threshold=0)
        status = subprocess.run(
            [*setup.cortex, "status", "--json"], env=environment, capture_output=True, timeout=60
        )
        pid = int(_find(json.loads(status.stdout), "pid"))
        try:
            yield environment, pid
        finally:
            subprocess.run(
                [*setup.cortex, "stop"], env=environment, capture_output=True, timeout=60
            )


def _find(body: object, name: str) -> object:
    if isinstance(body, dict):
        for key, value in body.items():
            if key == name and value:
                return value
            if (found := _find(value, name)) is not None:
                return found
    return None


def _starts(
    setup: Setup, section: Section, folder: Path, environment: dict[str, str], pid: int
) -> None:
    command = [*setup.cortex, "mcp", "code", "--workspace", str(folder)]
    walls: list[float] = []
    before, own = _cpu(pid), 0.0
    for _ in range(STARTS):
        wall, cpu = _start(command, environment)
        walls.append(wall)
        own += cpu
    shared = (own + _cpu(pid) - before) / STARTS
    alone = [_start(command, {**environment, "CORTEX_NO_SIDECAR": "1"}) for _ in range(3)]
    alone_cpu = statistics.median(cpu for _, cpu in alone)
    section.add(
        "exec to the answer of `initialize`, p50 of 20", "ms", 1000 * statistics.median(walls), 120
    )
    section.add("the same, slowest", "ms", 1000 * max(walls))
    section.add(
        "in a process of its own", "ms", 1000 * statistics.median(wall for wall, _ in alone)
    )
    section.add("CPU of a start, cortexd's part included", "ms", 1000 * shared)
    section.add("its ratio to a process of its own", "x", shared / alone_cpu, 0.125)


def _start(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds from exec to the answer, and CPU seconds of the process until it has ended."""
    before = os.times()
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(HELLO).encode() + b"\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"{")
    wall = time.perf_counter() - started
    process.stdin.close()
    process.stdout.read()
    process.wait(30)
    after = os.times()
    return (
        wall,
        after.children_user + after.children_system - before.children_user - before.children_system,
    )


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(setup: Setup, section: Section, folder: Path, environment: dict[str, str]) -> None:
    command = [*setup.cortex, "mcp", "code", "--workspace", str(folder)]
    sessions = [Session(command, environment) for _ in range(SHIMS)]
    try:
        for session in sessions:
            session.call("search_code", query="anything", threshold=0)
        total = sum(_pss(session.server.pid) for session in sessions)
    finally:
        for session in sessions:
            session.close()
    section.add(f"{SHIMS} front ends together, PSS", "MB", total / 1024, 60)


def _pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _load(setup: Setup, section: Section, folder: Path, environment: dict[str, str]) -> None:
    clients, calls = (8, 20) if setup.quick else (CLIENTS, CALLS)
    names = _names(folder, clients)
    quiet = _many(setup, folder, environment, names, calls)
    other = setup.repository(setup.large if not setup.quick else setup.small + 1)
    indexing = subprocess.Popen(
        [*setup.cortex, "mcp", "code", "--workspace", str(other)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        busy = _many(setup, folder, environment, names, calls)
    finally:
        assert indexing.stdin is not None
        indexing.stdin.close()
        indexing.wait(60)
    what = f"{clients} clients x {calls} calls"
    section.add(f"{what}: failed or mixed up", "", quiet[1] + busy[1], 0)
    section.add(f"{what}: p50", "ms", 1000 * percentile(quiet[0], 0.5))
    section.add(f"{what}: p99", "ms", 1000 * percentile(quiet[0], 0.99))
    section.add("p99 while another repository is indexed", "ms", 1000 * percentile(busy[0], 0.99))
    section.add(
        "its ratio to without", "x", percentile(busy[0], 0.99) / percentile(quiet[0], 0.99), 5
    )


def _names(folder: Path, count: int) -> list[tuple[str, str]]:
    """Files, and a definition that is in each."""
    found: list[tuple[str, str]] = []
    taken: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            name = (
                line.split()[1].split("(")[0].rstrip(":")
                if line.startswith(("def ", "class "))
                else ""
            )
            if len(name) > 9 and name not in taken:
                taken.add(name)
                found.append((path.relative_to(folder).as_posix(), name))
                break
        if len(found) == count:
            break
    return found


def _many(
    setup: Setup,
    folder: Path,
    environment: dict[str, str],
    names: list[tuple[str, str]],
    calls: int,
) -> tuple[list[float], int]:
    """Seconds of every call of several concurrent clients, and the number of failures."""
    times: list[float] = []
    wrong: list[str] = []
    command = [*setup.cortex, "mcp", "code", "--workspace", str(folder)]
    sessions = [Session(command, environment) for _ in names]

    def ask(session: Session, name: str) -> None:
        for _ in range(calls):
            started = time.perf_counter()
            try:
                text = session.text("search_code", query=name, maxResults=3, threshold=0)
                if name not in text:
                    wrong.append(f"{name}: {text[:300]}")
            except (RuntimeError, OSError, ValueError) as error:
                wrong.append(str(error))
            times.append(time.perf_counter() - started)

    threads = [
        threading.Thread(target=ask, args=(session, name))
        for session, (_, name) in zip(sessions, names, strict=True)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for session in sessions:
            session.close()
    for line in wrong[:5]:
        sys.stderr.write(f"{line}\n")
    return times, len(wrong)
