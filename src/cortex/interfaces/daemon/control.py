"""Control of cortexd from outside: status, start, stop, and cleanup of leftovers.

Standard library only. The lock decides if a cortexd runs; the process id in a file is for people,
and only valid while the lock is held. A cortexd that doesn't answer is killed in the end, which
loses nothing that it has acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cortex.base.runtime.file_lock import is_held, lock_file
from cortex.base.runtime.home import find_home
from cortex.base.runtime.rendezvous import START_SECONDS, Rendezvous, meet_at

ANSWER_SECONDS = 5.0
DRAIN_SECONDS = 7.0  # for a cortexd to end after a stop request
KILL_SECONDS = 3.0
WAIT_SECONDS = 0.02
MODULE = "cortex.cortexd"
LOGS = "logs"


@dataclass(frozen=True, slots=True)
class State:
    """State of a home's cortexd."""

    running: bool
    answers: bool = False
    pid: int = 0  # 0 if unknown
    note: Mapping[str, object] = field(default_factory=dict)  # file that it wrote at its start
    status: Mapping[str, object] = field(default_factory=dict)  # its current answer


@dataclass(frozen=True, slots=True)
class Running:
    """Running cortexd process."""

    pid: int
    home: str


def look(rendezvous: Rendezvous, seconds: float = ANSWER_SECONDS) -> State:
    """Read the state of cortexd, waiting for one that has just been started."""
    deadline = time.monotonic() + seconds
    while True:
        status = rendezvous.ask({"control": "status"}, max(0.1, deadline - time.monotonic()))
        note = rendezvous.read_note()
        if status is not None:
            return State(True, True, _int_or_zero(status.get("pid")), note, status)
        if not is_held(rendezvous.lock):
            return State(False, note=note)
        if time.monotonic() > deadline:
            return State(True, pid=_int_or_zero(note.get("pid")), note=note)
        time.sleep(WAIT_SECONDS)


def start(rendezvous: Rendezvous, by: str, arguments: Sequence[str] = ()) -> tuple[State, bool]:
    """Start cortexd; the flag is true if the running one is ours, and not a concurrent one."""
    started_by = f"{by}, process {os.getpid()}"
    link = rendezvous.obtain(started_by, arguments=arguments)
    if link is None:
        return look(rendezvous, 0.0), False
    link.close()
    state = look(rendezvous, START_SECONDS)
    return state, state.answers and state.note.get("startedBy") == started_by


def stop(rendezvous: Rendezvous, state: State | None = None) -> int:
    """Stop cortexd after its running requests; return its process id, 0 if none ran.

    Raises: TimeoutError, if it doesn't end.
    """
    state = state or look(rendezvous)
    if not state.running:
        return 0
    answers = state.answers and rendezvous.ask({"control": "stop"}) is not None
    if not answers:
        _signal(state.pid, signal.SIGTERM)
    if _has_ended(rendezvous, state.pid, DRAIN_SECONDS if answers else KILL_SECONDS):
        return state.pid or -1
    _signal(state.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    if not _has_ended(rendezvous, state.pid, KILL_SECONDS):
        raise TimeoutError(f"cortexd (process {state.pid or 'unknown'}) could not be ended")
    remove_left(rendezvous.lock)
    return state.pid or -1


def stop_all(home: str) -> list[int]:
    """Stop the cortexd of a home and of its profiles, also those with a socket elsewhere.

    Raises: TimeoutError, OSError.
    """
    homes = list(_homes(home))
    ended = [pid for path in homes if (pid := stop(meet_at(path)))]
    for process in processes():
        if process.home in homes and process.pid not in ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
                ended.append(process.pid)
    return ended


def places(home: str) -> list[str]:
    """List existing sockets, locks, notes and logs of a home's cortexd and its profiles'."""
    paths = []
    for folder in _homes(home):
        rendezvous = meet_at(folder)
        paths += [rendezvous.socket, rendezvous.lock, rendezvous.note, os.path.join(folder, LOGS)]
    return [path for path in paths if os.path.lexists(path)]


def log_file(home: str) -> str:
    """Path of the log of a home's cortexd."""
    return os.path.join(home, LOGS, "cortexd.log")


def end(pid: int) -> None:
    """Ask one cortexd to finish and end."""
    _signal(pid, signal.SIGTERM)


def left_behind(folder: str) -> list[str]:
    """List the locks of killed cortexds in a rendezvous folder.

    Their socket or note exists, but no process holds the lock.
    """
    locks = []
    for name in sorted(_names(folder)):
        if name.startswith("cortexd-") and name.endswith((".sock", ".json")):
            lock = os.path.join(folder, name.rpartition(".")[0] + ".lock")
            if lock not in locks and not is_held(lock):
                locks.append(lock)
    return locks


def remove_left(lock: str) -> list[str]:
    """Remove and return the files of a killed cortexd; nothing if another one runs."""
    removed: list[str] = []
    with contextlib.suppress(OSError):
        file = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            # Holding the lock keeps another cortexd from starting meanwhile.
            if lock_file(file):
                base = lock.removesuffix("lock")
                for path in (f"{base}sock", f"{base}json"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
                        removed.append(path)
        finally:
            os.close(file)
    return removed


def processes() -> Iterator[Running]:
    """Yield every cortexd of this user, of any home; none on systems without /proc."""
    for name in _names("/proc"):
        if name.isdigit() and is_cortexd(int(name)):
            with contextlib.suppress(OSError, ValueError):
                if os.stat(f"/proc/{name}").st_uid == os.getuid():
                    yield Running(int(name), _home_of(int(name)))


def is_cortexd(pid: int) -> bool:
    """True if the command line of a process is visible and shows a cortexd."""
    return MODULE in command_line(pid)


def command_line(pid: int) -> list[str]:
    """Arguments of a process, empty if they aren't visible."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read(100_000).split(b"\0") if word]
    return []


def _home_of(pid: int) -> str:
    """Find the home of a cortexd. Raises: OSError, ValueError."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = [entry.partition(b"=") for entry in file.read(4 << 20).split(b"\0")]
    variables = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    return find_home(variables, variables.get("HOME", ""))


def _homes(home: str) -> list[str]:
    profiles = os.path.join(home, "profiles")
    return [home, *(os.path.join(profiles, name) for name in sorted(_names(profiles)))]


def _has_ended(rendezvous: Rendezvous, pid: int, seconds: float) -> bool:
    """Wait for its end: the lock is free, or held by a successor that a client has started."""
    deadline = time.monotonic() + seconds
    while is_held(rendezvous.lock):
        if pid and _int_or_zero(rendezvous.read_note().get("pid")) not in (0, pid):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(WAIT_SECONDS)
    return True


def _signal(pid: int, signal_number: int) -> None:
    """Send a signal to cortexd, but not to another process that reuses its id."""
    if pid <= 0 or (sys.platform == "linux" and not is_cortexd(pid)):
        return
    with contextlib.suppress(OSError):
        os.kill(pid, signal_number)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _int_or_zero(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
