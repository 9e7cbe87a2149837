"""Check cortexd: one per home, of this version and this Python, no leftovers of killed ones."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cortex.base.runtime.home import VERSION, version_parts
from cortex.base.runtime.rendezvous import Rendezvous, find
from cortex.interfaces.cli.checks import Finding, Level, error, ok, warning
from cortex.interfaces.cli.status import TURN_OFF, in_time
from cortex.interfaces.daemon import control
from cortex.interfaces.daemon.control import State

# Seconds after which a process that lost the election has ended.
SECOND_LOOK = 0.3


def check_cortexd() -> Iterator[Finding]:
    """Check the cortexd of this home, and the others on this machine."""
    try:
        meeting, _ = find()
    except ValueError as wrong:
        yield error("cortexd", str(wrong.args[0]), "Correct that variable.")
        return
    except OSError as refused:
        yield _refused(refused)
        return
    state = control.look(meeting)
    yield _process(meeting, state)
    if state.running:
        yield from _origin(meeting, state)
    yield from _others(meeting, state)
    yield from _left(meeting)


def _refused(refused: OSError) -> Finding:
    """Report a rendezvous folder that isn't private."""
    # The last candidate for the rendezvous.
    folder = Path(f"/tmp/cortex-{os.getuid()}") if sys.platform != "win32" else None

    def close() -> str:
        assert folder is not None
        folder.chmod(0o700)
        return f"only you can enter {folder} now"

    ours = (
        folder is not None
        and not folder.is_symlink()
        and folder.is_dir()
        and folder.stat().st_uid == os.getuid()
    )
    fix = (
        f"chmod 700 {folder}"
        if ours
        else "Set XDG_RUNTIME_DIR to a folder that only you can enter."
    )
    return error("socket folder", str(refused), fix, close if ours else None)


def _process(meeting: Rendezvous, state: State) -> Finding:
    if not state.running:
        return ok("cortexd", "not running; it starts with the next client")
    if not state.answers:
        return error(
            "cortexd",
            f"process {state.pid or 'unknown'} holds the lock and doesn't answer",
            "cortex restart",
            lambda: _stop(meeting, state),
        )
    idle = state.status.get("idle")
    end = f"ends {in_time(idle)} after the last client" if idle else "never ends by itself"
    by = f"started by {state.note.get('startedBy', 'an unknown client')}"
    return ok("cortexd", f"process {state.pid}, {by}, {end}; to turn it off for good: {TURN_OFF}")


def _origin(meeting: Rendezvous, state: State) -> Iterator[Finding]:
    """Compare version and Python with ours."""
    version = str(state.status.get("version") or state.note.get("version") or "")
    if version_parts(version) < version_parts(VERSION):
        text = (
            f"cortexd is version {version}, this is {VERSION}; it makes room when the next "
            "client comes"
        )
        yield warning("version", text, "cortex restart", lambda: _stop(meeting, state))
    elif version_parts(version) > version_parts(VERSION):
        text = (
            f"cortexd is version {version}, this command is {VERSION}: there are two installations"
        )
        yield warning("version", text, "Upgrade this one, or remove it.")
    else:
        yield ok("version", f"cortexd is {version}, as this command")
    python = str(state.note.get("python") or "")
    if python and not os.path.exists(python):
        text = f"cortexd runs with {python}, which is gone"
        yield error("python", text, "cortex restart", lambda: _stop(meeting, state))
    elif python and os.path.dirname(python) != os.path.dirname(sys.executable):
        text = (
            f"cortexd runs with {python}, this command with {sys.executable}: there are two "
            "installations"
        )
        yield warning(
            "python",
            text,
            "Run `cortex restart` from the one that is to be used, and remove the other.",
        )


def _others(meeting: Rendezvous, state: State) -> Iterator[Finding]:
    every = list(control.processes())
    here = os.path.realpath(meeting.home)
    strangers = sorted(
        {process.home for process in every if os.path.realpath(process.home) != here}
    )
    if strangers:
        yield ok(
            "other homes",
            f"{len(strangers)} more cortexd, for {', '.join(strangers)}: that is fine",
        )
    twins = [
        process.pid
        for process in every
        if os.path.realpath(process.home) == here and process.pid != state.pid
    ]
    if twins:
        time.sleep(SECOND_LOOK)
    for pid in twins:
        if control.is_cortexd(pid):
            text = (
                f"process {pid} is a second cortexd for this home; its clients meet it "
                "elsewhere (XDG_RUNTIME_DIR differs)"
            )
            yield warning("second cortexd", text, f"kill {pid}", lambda pid=pid: _end(pid))


def _left(meeting: Rendezvous) -> Iterator[Finding]:
    """Report leftovers of killed processes; those of other homes are harmless."""
    locks = control.left_behind(os.path.dirname(meeting.lock))
    own, rest = (
        [lock for lock in locks if lock == meeting.lock],
        [lock for lock in locks if lock != meeting.lock],
    )
    if own:
        text = (
            f"a cortexd that was killed left {own[0].removesuffix('lock')}*; the next one "
            "replaces them"
        )
        yield warning("left files", text, "cortex doctor --fix", lambda: _remove(own))
    if rest:
        text = (
            f"{len(rest)} cortexd of other homes were killed and left a socket or a note: harmless"
        )
        yield Finding("left files", Level.OK, text, "cortex doctor --fix", lambda: _remove(rest))


def _stop(meeting: Rendezvous, state: State) -> str:
    return f"process {control.stop(meeting, state)} was ended; the next client starts another"


def _end(pid: int) -> str:
    control.end(pid)
    return f"process {pid} was asked to end"


def _remove(locks: list[str]) -> str:
    removed = [path for lock in locks for path in control.remove_left(lock)]
    return f"removed {', '.join(removed)}" if removed else "they are in use again"
