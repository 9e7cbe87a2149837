"""Commands run in this process, in a terminal or in a window; homes and projects to run them in."""

import json
import os
import subprocess
import sys
from contextlib import closing

import pytest

import forking
from cortex.interfaces.cli import run as run_command
from cortex.interfaces.daemon import control
from families.memory.adapters.claude_bases import make_claude_mem
from interfaces.cli.home_memories import TITLES
from protocol.code_server import make_repository


@pytest.fixture
def on_terminal():
    """`on_terminal(*arguments)`: what a command writes to a terminal, on stdout."""

    def run(*arguments: str) -> str:
        pty = pytest.importorskip("pty")
        master, slave = pty.openpty()
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "200"}
        running = forking.Popen(
            [sys.executable, "-m", "cortex", *arguments],
            stdout=slave,
            stderr=subprocess.DEVNULL,
            env=environment,
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
def typed():
    """`typed(text, *arguments)`: exit code, stdout and stderr of a command whose stdin is a
    terminal on which that is typed.
    """

    def run(text: str, *arguments: object, **variables: str) -> tuple[int, str, str]:
        pty = pytest.importorskip("pty")
        master, slave = pty.openpty()
        os.write(master, text.encode())
        done = forking.run(
            [sys.executable, "-m", "cortex", *map(str, arguments)],
            stdin=slave,
            capture_output=True,
            encoding="utf-8",
            env=os.environ | variables,
            timeout=60,
            check=False,
        )
        os.close(slave)
        os.close(master)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def cortex(capsys):
    """`cortex(*arguments)`: exit code, stdout and stderr of a command run in this process."""

    def call(*arguments):
        capsys.readouterr()
        code = run_command([str(argument) for argument in arguments])
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    return call


# Makes stdin the controlling terminal of a new session, as a terminal's window does for its shell.
CONTROLLED = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture
def in_window():
    """`in_window(text, *arguments)`: exit code, stdout and what the terminal shows of a command in
    a window of its own.
    """

    def run(text: str, *arguments: object, **variables: str) -> tuple[int, str, str]:
        pty = pytest.importorskip("pty")
        master, slave = pty.openpty()
        os.write(master, text.encode())
        command = [
            sys.executable,
            "-c",
            CONTROLLED,
            sys.executable,
            "-m",
            "cortex",
            *map(str, arguments),
        ]
        running = subprocess.Popen(
            command,
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            encoding="utf-8",
            env=os.environ | variables,
            start_new_session=True,
        )
        out, _ = running.communicate(timeout=60)
        shown = os.read(master, 65_536).decode()
        os.close(slave)
        os.close(master)
        return running.returncode, out, shown

    return run


@pytest.fixture
def impatient(monkeypatch):
    """Limits of one second for the answer of a cortexd and for its end."""
    monkeypatch.setattr(control.look, "__defaults__", (1.0,))
    monkeypatch.setattr(control, "KILL_SECONDS", 1.0)


@pytest.fixture
def home(isolated, monkeypatch, tmp_path):
    """A home with two memories and the snapshot of the day, for a person outside any project."""
    monkeypatch.chdir(tmp_path)
    for title in TITLES:
        assert run_command(["memory", "add", title]) == 0
    return isolated.cortex


@pytest.fixture
def memory_titles(cortex):
    """The titles of all memories, as the command lists them."""
    return lambda: {
        memory["title"] for memory in json.loads(cortex("memory", "list", "--json")[1])["memories"]
    }


@pytest.fixture
def findings(cortex, tmp_path):
    """Exit code of the doctor, and its findings on home and backup by check."""

    def look(*arguments):
        code, out, _ = cortex("doctor", "--json", *arguments)
        rows = {
            finding["check"]: finding
            for finding in json.loads(out)["findings"]
            if finding["check"] in ("home", "backup")
        }
        return code, rows

    return look


@pytest.fixture(scope="module")
def indexed(tmp_path_factory, strangers_environment):
    """An indexed repository of a shop."""
    root = make_repository(tmp_path_factory.mktemp("commands") / "shop")
    assert run_command(["index", str(root), "--json"]) == 0
    return root


@pytest.fixture
def shop(isolated, tmp_path, monkeypatch):
    """A project to stand in."""
    root = tmp_path / "shop"
    (root / ".git").mkdir(parents=True)
    (root / "src").mkdir()
    text = "def check(user):\n    return user\n\n\ndef leave(user):\n    return None\n"
    (root / "src" / "login.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def foreign(isolated):
    """A claude-mem database at its usual place, with two memories."""
    with closing(make_claude_mem(isolated.user / ".claude-mem" / "claude-mem.db")) as made:
        session = made.session("s1", title="Deploying")
        facts = ["NIXPACKS_ is the prefix"]
        made.observation(
            session,
            "Railway env vars need a prefix",
            type="bugfix",
            facts=facts,
            concepts=["railway"],
        )
        made.observation(session, "SQLite over Postgres", type="decision", narrative="It is local.")
        made.summary(session, "Deploy it", learned="Prefixes")
        yield made
