"""Lets the tests of the commands use the repository of the protocol tests; commands on a terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cortex.cli import run as run_command

sys.path.insert(0, str(Path(__file__).parent.parent))


@pytest.fixture
def on_terminal():
    """`on_terminal(*arguments)`: what a command writes to a terminal, on stdout."""

    def run(*arguments: str) -> str:
        pty = pytest.importorskip("pty")
        master, slave = pty.openpty()
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "200"}
        running = subprocess.Popen(
            [sys.executable, "-m", "cortex", *arguments], stdout=slave, stderr=subprocess.DEVNULL, env=environment
        )
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(master)
        assert running.wait(30) == 0
        return shown.decode()

    return run


@pytest.fixture
def cortex(capsys):
    """Runs a command in this process; gives its exit code, stdout and stderr."""

    def call(*arguments):
        capsys.readouterr()
        code = run_command([str(one) for one in arguments])
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    return call
