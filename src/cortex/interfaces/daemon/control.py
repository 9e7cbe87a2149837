"""Steering cortexd from outside: how it is, starting it, ending it, and what it left behind.

Standard library only. Whether a cortexd runs is what its lock says; a process id in a file is for
people, and is believed only while the lock is held. One that doesn't answer is killed in the end:
nothing that it has acknowledged is lost by that.
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
DRAIN_SECONDS = 7.0  # in which a cortexd that was told to end has ended
KILL_SECONDS = 3.0
WAIT_SECONDS = 0.02
MODULE = "cortex.cortexd"
LOGS = "logs"


@dataclass(frozen=True, slots=True)
class State:
    """How the cortexd of a home is."""

    running: bool
    answers: bool = False
    pid: int = 0  # 0 where it hasn't said
    note: Mapping[str, object] = field(default_factory=dict)  # what it wrote down when it started
    status: Mapping[str, object] = field(default_factory=dict)  # what it says now


@dataclass(frozen=True, slots=True)
class Running:
    """A process that is a cortexd."""

    pid: int
    home: str


def look(meeting: Rendezvous, seconds: float = ANSWER_SECONDS) -> State:
    """How cortexd is; one that has just been started gets the time to answer."""
    deadline = time.monotonic() + seconds
    while True:
        status = meeting.ask({"control": "status"}, max(0.1, deadline - time.monotonic()))
        note = meeting.read_note()
        if status is not None:
            return State(True, True, _number(status.get("pid")), note, status)
        if not is_held(meeting.lock):
            return State(False, note=note)
        if time.monotonic() > deadline:
            return State(True, pid=_number(note.get("pid")), note=note)
        time.sleep(WAIT_SECONDS)


def start(meeting: Rendezvous, by: str, arguments: Sequence[str] = ()) -> tuple[State, bool]:
    """Start cortexd, and say whether the one that runs now is ours; of two at once one wins the
    election.
    """
    who = f"{by}, process {os.getpid()}"
    link = meeting.obtain(who, arguments=arguments)
    if link is None:
        return look(meeting, 0.0), False
    link.close()
    state = look(meeting, START_SECONDS)
    return state, state.answers and state.note.get("startedBy") == who


def stop(meeting: Rendezvous, state: State | None = None) -> int:
    """End cortexd after it has finished what is under way; gives its process id, 0 where none ran.

    Raises: TimeoutError, where it can't be ended.
    """
    state = state or look(meeting)
    if not state.running:
        return 0
    answers = state.answers and meeting.ask({"control": "stop"}) is not None
    if not answers:
        _signal(state.pid, signal.SIGTERM)
    if _has_ended(meeting, state.pid, DRAIN_SECONDS if answers else KILL_SECONDS):
        return state.pid or -1
    _signal(state.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    if not _has_ended(meeting, state.pid, KILL_SECONDS):
        raise TimeoutError(f"cortexd (process {state.pid or 'unknown'}) could not be ended")
    remove_left(meeting.lock)
    return state.pid or -1


def stop_all(home: str) -> list[int]:
    """End the cortexd of a home and those of its profiles, also one that meets elsewhere.

    Raises: TimeoutError, OSError.
    """
    homes = list(_homes(home))
    ended = [pid for one in homes if (pid := stop(meet_at(one)))]
    for process in processes():
        if process.home in homes and process.pid not in ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
                ended.append(process.pid)
    return ended


def places(home: str) -> list[str]:
    """Where the cortexd of a home and those of its profiles have files: sockets, locks, notes,
    logs.
    """
    found = []
    for one in _homes(home):
        meeting = meet_at(one)
        found += [meeting.socket, meeting.lock, meeting.note, os.path.join(one, LOGS)]
    return [path for path in found if os.path.lexists(path)]


def log_file(home: str) -> str:
    """Where the cortexd of a home writes its log."""
    return os.path.join(home, LOGS, "cortexd.log")


def end(pid: int) -> None:
    """Tell one cortexd to finish and end."""
    _signal(pid, signal.SIGTERM)


def left_behind(folder: str) -> list[str]:
    """The locks of those cortexds in a folder of meeting places that were killed: their socket or
    note is there, and nobody holds the lock.
    """
    found = []
    for name in sorted(_names(folder)):
        if name.startswith("cortexd-") and name.endswith((".sock", ".json")):
            lock = os.path.join(folder, name.rpartition(".")[0] + ".lock")
            if lock not in found and not is_held(lock):
                found.append(lock)
    return found


def remove_left(lock: str) -> list[str]:
    """Remove what a cortexd that was killed has left; nothing where one runs again.

    Gives what was removed.
    """
    removed: list[str] = []
    with contextlib.suppress(OSError):
        file = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            if lock_file(file):  # so that nobody starts meanwhile
                base = lock.removesuffix("lock")
                for path in (f"{base}sock", f"{base}json"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
                        removed.append(path)
        finally:
            os.close(file)
    return removed


def processes() -> Iterator[Running]:
    """Every cortexd of this user, whatever its home; none on systems that don't show processes as
    files.
    """
    for name in _names("/proc"):
        if name.isdigit() and is_cortexd(int(name)):
            with contextlib.suppress(OSError, ValueError):
                if os.stat(f"/proc/{name}").st_uid == os.getuid():
                    yield Running(int(name), _home_of(int(name)))


def is_cortexd(pid: int) -> bool:
    """Whether a process is a cortexd, as far as its command line can be seen."""
    return MODULE in command_line(pid)


def command_line(pid: int) -> list[str]:
    """The words of a process's command line, none where it can't be seen."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read(100_000).split(b"\0") if word]
    return []


def _home_of(pid: int) -> str:
    """The home of a cortexd. Raises: OSError, ValueError."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = [one.partition(b"=") for one in file.read(4 << 20).split(b"\0")]
    variables = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    return find_home(variables, variables.get("HOME", ""))


def _homes(home: str) -> list[str]:
    profiles = os.path.join(home, "profiles")
    return [home, *(os.path.join(profiles, name) for name in sorted(_names(profiles)))]


def _has_ended(meeting: Rendezvous, pid: int, seconds: float) -> bool:
    """Wait for its end: the lock is free, or a next one has it, started by a client that is still
    there.
    """
    deadline = time.monotonic() + seconds
    while is_held(meeting.lock):
        if pid and _number(meeting.read_note().get("pid")) not in (0, pid):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(WAIT_SECONDS)
    return True


def _signal(pid: int, number: int) -> None:
    """Send a signal to cortexd; not to whatever else may have its number by now."""
    if pid <= 0 or (sys.platform == "linux" and not is_cortexd(pid)):
        return
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
