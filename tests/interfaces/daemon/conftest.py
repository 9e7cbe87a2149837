"""Homes with a cortexd that ends with the test or the module."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from cortex.interfaces.daemon import shim
from interfaces.daemon.sandbox import Sandbox
from protocol.code_server import make_repository


@pytest.fixture(scope="module")
def run_folder() -> Iterator[Path]:
    """A folder whose name is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="cx"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def make_sandbox(folder: Path, run: Path) -> Iterator[Sandbox]:
    root = folder / "work"
    root.mkdir()
    (root / "lamp.py").write_text("def switch_lamp():\n    return 1\n", encoding="utf-8")
    (root / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    sandbox = Sandbox(home=folder / "home", run=run, root=root)
    yield sandbox
    sandbox.end()


@pytest.fixture
def sandbox(tmp_path: Path, run_folder: Path) -> Iterator[Sandbox]:
    """A home and a workspace that no other test has seen."""
    with make_sandbox(tmp_path, run_folder) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Iterator[Sandbox]:
    """A sandbox for a whole module whose tests leave its cortexd unchanged."""
    with make_sandbox(tmp_path_factory.mktemp("shared"), run_folder) as made:
        yield made


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("shop"), git=False)


@pytest.fixture
def gone(until: Callable[..., float]) -> Callable[..., float]:
    """`gone(pid)`: wait for the end of a process, for less than a shim waits for a silent cortexd."""

    def wait(pid: int) -> float:
        return until(lambda: _is_gone(pid), shim.QUIET_SECONDS - 1)

    return wait


@pytest.fixture
def killed(gone: Callable[..., float]) -> Callable[[int], None]:
    """`killed(pid)`: kill a process and see it gone."""

    def kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        gone(pid)

    return kill


def _is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
