"""Processes to kill: small programs around an engine that speak by lines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from cortex.base.settings import Settings, load
from cortex.engine.engine import Engine

PROGRAMS = Path(__file__).parent
DEADLINE = 30.0


class Program:
    """One of the programs beside this file, running on a folder."""

    def __init__(self, name: str, root: Path, home: Path) -> None:
        command = [sys.executable, str(PROGRAMS / name), str(root), str(home)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def read(self) -> str:
        """The next line; "" at its end."""
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, line: str) -> str:
        self.write(line)
        return self.read()

    def write(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> list[str]:
        """Kill it, wait for the end of its workers, and return the lines that are still unread."""
        workers = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        assert self.process.stdout
        # `communicate` would leave out what was read ahead of the last line
        rest = self.process.stdout.read()
        self.process.communicate(timeout=DEADLINE)
        _, alive = psutil.wait_procs(workers, timeout=DEADLINE)
        assert alive == [], "a worker outlived its parent"
        return rest.splitlines()

    def end(self) -> int:
        """Close its stdin and wait for it."""
        self.process.communicate(timeout=DEADLINE)
        return self.process.returncode


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    return folder


@pytest.fixture
def start(root: Path, home: Path) -> Iterator[Callable[[str], Program]]:
    """`start(name)` starts a program; none outlives the test."""
    started: list[Program] = []

    def start_program(name: str) -> Program:
        started.append(Program(name, root, home))
        return started[-1]

    yield start_program
    for program in started:
        if program.process.poll() is None:
            program.process.kill()
            program.process.communicate(timeout=DEADLINE)


@pytest.fixture
def settings(root: Path, home: Path) -> Settings:
    return load(root, environment={"CORTEX_HOME": str(home)}, flags={"indexing.workers": 1})


@pytest.fixture
def open_engine(root: Path, settings: Settings) -> Callable[..., Engine]:
    return lambda **more: Engine(root, settings, **more)
