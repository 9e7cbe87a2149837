"""Checks of cortexd, with real processes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cortex.base.runtime.rendezvous import Rendezvous, meet_at
from cortex.interfaces.daemon import control

posix = pytest.mark.skipif(os.name == "nt", reason="modes and signals of POSIX")


@posix
def test_files_left_by_a_killed_cortexd_are_found_and_removed(doctor, start, isolated, until):
    pid = start()
    meeting = meet_at(str(isolated.cortex))
    os.kill(pid, signal.SIGKILL)
    until(lambda: not control.is_held(meeting.lock))
    code, found, _ = doctor()
    assert (code, list(found)) == (0, ["left files"])
    assert os.path.exists(meeting.socket)
    assert "removed" in doctor("--fix")[1]["left files"]["done"]
    assert not os.path.exists(meeting.socket) and not os.path.exists(meeting.note)
    assert doctor()[1] == {}


@posix
def test_silent_cortexd_is_ended_by_fix(doctor, start, isolated, impatient):
    os.kill(start(), signal.SIGSTOP)
    code, found, _ = doctor("--fix")
    assert code == 0
    assert "doesn't answer" in found["cortexd"]["text"] and "was ended" in found["cortexd"]["done"]
    assert not control.look(meet_at(str(isolated.cortex))).running


@pytest.mark.parametrize(
    ("said", "check", "level", "ended"),
    [
        ({"python": "/nowhere/bin/python"}, "python", "error", True),
        ({"python": sys.executable + "/../../other/bin/python"}, "python", "error", True),
        ({"python": "/bin/sh"}, "python", "warning", False),
    ],
)
@posix
def test_cortexd_of_another_python_is_found_and_ended_if_that_python_is_gone(
    doctor, start, isolated, said, check, level, ended
):
    start()
    meeting = meet_at(str(isolated.cortex))
    note = meeting.read_note() | said
    Path(meeting.note).write_text(json.dumps(note), encoding="utf-8")
    code, found, _ = doctor()
    assert (code, found[check]["level"]) == (1 if level == "error" else 0, level)
    doctor("--fix")
    assert control.look(meeting).running is not ended


def test_older_cortexd_is_ended_by_fix_and_a_newer_one_is_not(doctor, start, isolated, monkeypatch):
    start()
    meeting = meet_at(str(isolated.cortex))
    monkeypatch.setattr("cortex.interfaces.cli.checks.cortexd.VERSION", "0.0.9")
    code, found, _ = doctor("--fix")
    assert (code, found["version"]["level"], found["version"]["fixable"]) == (0, "warning", False)
    assert control.look(meeting).answers
    monkeypatch.setattr("cortex.interfaces.cli.checks.cortexd.VERSION", "99.0")
    assert "was ended" in doctor("--fix")[1]["version"]["done"]
    assert not control.look(meeting).running


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found where Linux shows them")
def test_second_cortexd_for_the_same_home_is_found_and_ended(
    doctor, start, isolated, tmp_path_factory, until
):
    start()
    elsewhere = tmp_path_factory.mktemp("run")
    second = subprocess.Popen(
        [sys.executable, "-m", "cortex.cortexd"],
        env=isolated.environment(XDG_RUNTIME_DIR=str(elsewhere)),
    )
    meeting = Rendezvous(str(isolated.cortex), {"XDG_RUNTIME_DIR": str(elsewhere)})
    until(lambda: control.look(meeting).answers)
    code, found, _ = doctor("--fix")
    assert (code, list(found)) == (0, ["second cortexd"])
    assert str(second.pid) in found["second cortexd"]["done"]
    assert second.wait(30) == 0
    assert control.look(meet_at(str(isolated.cortex))).answers
