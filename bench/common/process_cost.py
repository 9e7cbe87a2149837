"""Wall and CPU seconds and peak memory of a process tree, and summaries of numbers.

CPU seconds are user + system of the process and of everything it started. Memory is the peak of the
sum of RssAnon over the tree, sampled every 20 ms: RSS would count shared pages once for each
process. It knows nothing of what is measured. Linux only (/proc).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLE_SECONDS = 0.02
LOOK_AROUND = 3  # samples between two looks for new processes
YOUNG_SAMPLES = 25
COMMAND_SECONDS = 1800
FOREIGN = ("CORTEX_", "CODEINDEX_", "CLAUDE_")


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a process tree."""

    wall: float
    cpu: float
    rss_anon_mb: float  # peak of the sum over the tree, above a bare Python
    output: str


class Watch:
    """Sampling of a process and all its descendants until it has ended.

    With `steady` off it looks only when asked: inside a process whose time is measured, a thread
    that looks all the time would cost.
    """

    def __init__(self, root: int, *, steady: bool = True) -> None:
        self.peak_kb = 0
        self.now_kb = 0
        self._root = root
        self._ticks: dict[int, int] = {}
        self._known = {root: 0}  # process to the sample that saw it first
        self._samples = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True) if steady else None
        if self._thread:
            self._thread.start()

    def stop(self) -> float:
        """End sampling; the CPU seconds seen in all processes."""
        self._done.set()
        if self._thread:
            self._thread.join()
        return self._cpu_seconds()

    def cpu_seconds(self) -> float:
        """The CPU seconds until now."""
        self._look()
        return self._cpu_seconds()

    def mark(self) -> int:
        """Forget the peak so far; the kilobytes at this moment."""
        self._look()
        self.peak_kb = self.now_kb
        return self.now_kb

    def _look(self) -> None:
        if self._thread is None:
            self._samples = 0  # look for new processes too
            self._sample()
            return
        before = self._samples
        # One that began after this call
        while self._samples <= before + LOOK_AROUND and self._thread.is_alive():
            time.sleep(SAMPLE_SECONDS / 4)

    def _cpu_seconds(self) -> float:
        return sum(list(self._ticks.values())) / os.sysconf("SC_CLK_TCK")

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        anonymous = 0
        around = self._samples % LOOK_AROUND == 0
        processes = (
            (int(name) for name in os.listdir("/proc") if name.isdigit())
            if around
            else list(self._known)
        )
        for process in sorted(processes):
            try:
                anonymous += self._sample_one(process)
            except (OSError, IndexError):
                continue  # it has just ended
        self.now_kb = anonymous
        self.peak_kb = max(self.peak_kb, anonymous)
        self._samples += 1

    def _sample_one(self, process: int) -> int:
        """The kilobytes of a process, 0 if it isn't one of ours."""
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        if (
            process not in self._known
            and int(fields[1]) not in self._known
            and int(fields[3]) != self._root
        ):
            return 0
        first = self._known.setdefault(process, self._samples)
        self._ticks[process] = int(fields[11]) + int(fields[12])
        young = process != self._root and self._samples - first <= YOUNG_SAMPLES
        return 0 if young and _is_borrowed(process, fields[1]) else rss_anon_kb(process)


def _is_borrowed(process: int, parent: str) -> bool:
    """True for a new process between vfork and exec, which still shows its parent's memory."""
    return (
        Path(f"/proc/{process}/cmdline").read_bytes()
        == Path(f"/proc/{parent}/cmdline").read_bytes()
    )


def rss_anon_kb(process: int) -> int:
    """The kilobytes of memory that are this process's own."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def bare_python_kb(python: str = sys.executable) -> int:
    """RssAnon of an interpreter that has done nothing."""
    bare = subprocess.Popen(
        [python, "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert bare.stdin is not None and bare.stdout is not None
    bare.stdout.readline()
    size = rss_anon_kb(bare.pid)
    bare.communicate("\n", timeout=30)
    return size


def run(
    command: Sequence[str], environment: dict[str, str], bare_kb: int, folder: Path | None = None
) -> Cost:
    """Run a command to its end and say what it took, processes that it started included."""
    start = time.perf_counter()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
    ):
        child = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        watch = Watch(child.pid)
        killer = threading.Timer(COMMAND_SECONDS, child.kill)
        killer.start()
        _, status, usage = os.wait4(child.pid, 0)
        killer.cancel()
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        # wait4 knows the children that were waited for, the samples those that were not.
        cpu = max(watch.stop(), usage.ru_utime + usage.ru_stime)
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            raise SystemExit(
                f"{' '.join(command[:4])} ... ended with {child.returncode}:\n{err.read()[-2000:]}"
            )
        return Cost(wall, cpu, max(0, watch.peak_kb - bare_kb) / 1024, out.read())


def run_task(
    module: str,
    task: str,
    arguments: Mapping[str, object],
    environment: dict[str, str],
    bare_kb: int,
) -> dict:
    """Run a task of a bench module in a fresh process and decode the JSON that it prints."""
    words = [sys.executable, "-m", module, *([task] if task else []), json.dumps(arguments)]
    return json.loads(run(words, environment | {"PYTHONPATH": str(ROOT)}, bare_kb).output)


def clean_environment(**more: str) -> dict[str, str]:
    """This process's variables without those of Cortex; each server in its own process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {**kept, "CORTEX_NO_SIDECAR": "1", **more}


def bytes_below(folder: Path) -> int:
    """The size of all files below a folder."""
    return (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if folder.exists()
        else 0
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values doesn't exceed."""
    return sorted(values)[int(share * (len(values) - 1))]


def middle(values: Sequence[float], form: str) -> str:
    """The median, as text."""
    return format(statistics.median(values), form) if values else "-"


def spread(values: Sequence[float]) -> str:
    """p50 and p95, as text."""
    return f"{statistics.median(values):.1f} / {percentile(values, 0.95):.1f}" if values else "-"
