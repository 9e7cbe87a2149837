"""Child processes that answer over their streams, and end with their parent."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import psutil
import pytest

from cortex.base.runtime.child_process import ChildProcess

ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line.upper())
    sys.stdout.buffer.flush()
"""
SILENT = "import sys; sys.stdin.read()"
DEAF = "import time\nprint(flush=True)\nwhile True: time.sleep(60)"
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {DEAF!r}])
print(child.pid, flush=True)
child.wait()
"""


@contextmanager
def running(program: str, *, group: bool = False) -> Iterator[ChildProcess]:
    child = ChildProcess([sys.executable, "-c", program], group=group)
    try:
        yield child
    finally:
        child.end()


def ask(requests: BinaryIO, answers: BinaryIO) -> bytes:
    requests.write(b"lamp\n")
    requests.flush()
    return answers.readline()


def read_line(_: BinaryIO, answers: BinaryIO) -> bytes:
    return answers.readline()


def test_exchange_returns_the_answer_of_the_child():
    with running(ECHO) as child:
        assert [child.exchange(ask, 30), child.exchange(ask, 30)] == [b"LAMP\n", b"LAMP\n"]


def test_exchange_without_an_answer_is_a_timeout():
    with running(SILENT) as child, pytest.raises(TimeoutError):
        child.exchange(ask, 0.1)


def test_error_of_an_exchange_is_raised():
    def fail(*_: BinaryIO) -> None:
        raise ValueError("no request")

    with running(SILENT) as child, pytest.raises(ValueError, match="no request"):
        child.exchange(fail, 30)


def test_child_ends_by_itself_when_its_stdin_is_closed():
    with running(ECHO) as child:
        child.exchange(ask, 30)
        child.end(grace_seconds=30)
        assert child._process.returncode == 0


def test_child_that_ignores_its_stdin_is_killed():
    with running(DEAF) as child:
        child.exchange(read_line, 30)
        child.end(grace_seconds=0.1)
        assert not child.alive


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_group_of_a_child_ends_with_it():
    with running(PARENT, group=True) as child:
        grandchild = psutil.Process(int(child.exchange(read_line, 30)))
        child.end()
    _, alive = psutil.wait_procs([grandchild], timeout=30)
    assert alive == [] or alive[0].status() == psutil.STATUS_ZOMBIE
