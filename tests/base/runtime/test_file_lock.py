"""File locks between processes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cortex.base.runtime.file_lock import exclusive_lock, is_held

HOLDER = """
import sys
from cortex.base.runtime.file_lock import exclusive_lock
with exclusive_lock(sys.argv[1], 0, lambda: False) as locked:
    print(locked, flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_elsewhere(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until the block ends."""
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == "True\n"
        yield holder
        holder.kill()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_lock_is_held_inside_the_block_only(lock: Path):
    assert not is_held(str(lock))
    with exclusive_lock(str(lock), 0, lambda: False) as locked:
        assert locked and is_held(str(lock))
    assert not is_held(str(lock))


def test_lock_of_another_process_is_not_free_within_its_time(lock: Path):
    with held_elsewhere(lock), exclusive_lock(str(lock), 0.1, lambda: False) as locked:
        assert not locked and is_held(str(lock))


def test_waiting_for_a_lock_ends_when_it_is_given_up(lock: Path):
    started = time.monotonic()
    with held_elsewhere(lock), exclusive_lock(str(lock), 60, lambda: True) as locked:
        assert not locked
    assert time.monotonic() - started < 30


def test_lock_is_released_when_its_process_is_killed(lock: Path):
    with held_elsewhere(lock) as holder:
        holder.kill()
        with exclusive_lock(str(lock), 30, lambda: False) as locked:
            assert locked
