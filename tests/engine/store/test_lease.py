"""The lease: one holder, for as long as its process lives."""

import os
import subprocess
import sys
import threading

import pytest

from cortex.engine.store.lease import Lease

HOLD = (
    "import sys\nfrom pathlib import Path\nfrom cortex.engine.store.lease import Lease\n"
    "print(Lease(Path(sys.argv[1])).take(), flush=True)\nsys.stdin.read()\n"
)


def hold(directory) -> subprocess.Popen[str]:
    """Another process that tries to take the lease and lives on until its stdin ends."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_only_one_can_take_it_and_the_next_when_it_is_given_back(tmp_path):
    first, second = Lease(tmp_path), Lease(tmp_path)
    assert first.take()
    assert first.take()
    assert (second.take(), second.held) == (False, False)
    first.release()
    assert second.take()
    second.release()


def test_the_holder_is_known_by_its_process_id(tmp_path):
    asking = Lease(tmp_path)
    assert asking.holder() == 0
    with hold(tmp_path) as other:
        assert other.stdout and other.stdout.readline() == "True\n"
        assert asking.holder() == other.pid
        assert not asking.take()
        other.communicate(timeout=10)
    assert asking.holder() == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows doesn't remove a file that is open")
def test_whose_file_was_removed_has_lost_the_lease_and_can_take_it_again(tmp_path):
    first, second = Lease(tmp_path), Lease(tmp_path)
    first.take()
    (tmp_path / "lease").unlink()
    assert (first.held, first.lost) == (False, True)
    assert second.take()
    assert not first.take()
    assert (first.held, first.lost, first.holder()) == (False, False, os.getpid())
    second.release()
    assert first.take()
    assert not second.take()
    first.release()


def test_a_killed_holder_leaves_the_lease_free(tmp_path):
    with hold(tmp_path) as other:
        assert other.stdout and other.stdout.readline() == "True\n"
        other.kill()
        other.wait(10)
    lease = Lease(tmp_path)
    assert lease.take()
    assert lease.holder() == os.getpid()
    lease.release()


def test_a_program_that_the_holder_starts_does_not_keep_the_lease(tmp_path):
    lease = Lease(tmp_path)
    lease.take()
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False
    ) as child:
        lease.release()
        assert lease.take()
        child.communicate(b"\n", timeout=10)
    lease.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_of_the_holder_is_not_the_holder(tmp_path):
    lease = Lease(tmp_path)
    lease.take()
    child = os.fork()
    if child == 0:
        os._exit(0 if not lease.held and not lease.take() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert lease.held
    lease.release()


def test_asking_for_the_holder_all_the_time_does_not_keep_anyone_from_taking_it(tmp_path):
    lease, done = Lease(tmp_path), threading.Event()
    lease.take()
    lease.release()

    def ask() -> None:
        asking = Lease(tmp_path)
        while not done.is_set():
            asking.holder()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        taken = 0
        for _ in range(50):
            taken += lease.take()
            lease.release()
        assert taken >= 49
    finally:
        done.set()
        thread.join()


def test_a_store_in_memory_is_always_its_own(tmp_path):
    lease = Lease(None)
    assert (lease.held, lease.take(), lease.holder()) == (True, True, os.getpid())
    lease.release()
    assert lease.held
