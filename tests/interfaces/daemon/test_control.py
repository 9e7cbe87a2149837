"""Control of cortexd from outside, where the lock decides whether one runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex.interfaces.daemon import control
from interfaces.daemon.sandbox import Sandbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and Unix sockets")


def test_files_of_a_running_cortexd_are_neither_left_behind_nor_removed(sandbox: Sandbox):
    with sandbox.window() as window:
        window.initialize()
        folder = os.path.dirname(sandbox.meeting.lock)
        assert sandbox.meeting.lock not in control.left_behind(folder)
        assert control.remove_left(sandbox.meeting.lock) == []
        assert os.path.exists(sandbox.meeting.socket)


def test_files_of_a_killed_cortexd_are_left_behind_and_removed(
    sandbox: Sandbox, killed: Callable[[int], None], until: Callable[..., float]
):
    with sandbox.window() as window:
        window.initialize()
        pid = sandbox.pid()
    killed(pid)
    meeting = sandbox.meeting
    # A killed process keeps its locks until its last thread has ended.
    until(lambda: meeting.lock in control.left_behind(os.path.dirname(meeting.lock)))
    assert set(control.remove_left(meeting.lock)) == {meeting.socket, meeting.note}
    assert not Path(meeting.socket).exists() and not Path(meeting.note).exists()


def test_signal_is_not_sent_to_another_process_with_the_recorded_id(tmp_path: Path):
    received: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        control.end(os.getpid() if sys.platform == "linux" else 0)
        control.end(-1)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert received == []
