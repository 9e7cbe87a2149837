"""The lease: one holder, for as long as its process lives."""

import os
import subprocess
import sys
import threading

import psutil
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


def test_lease_has_one_holder_until_it_is_released(tmp_path):
    first, second = Lease(tmp_path), Lease(tmp_path)
    assert first.take()
    assert first.take()
    assert (first.lost, second.take(), second.held, second.lost) == (False, False, False, False)
    first.release()
    assert second.take()
    second.release()


def test_lease_holder_is_known_by_its_process_id(tmp_path):
    asking = Lease(tmp_path)
    assert asking.holder() == 0
    with hold(tmp_path) as other:
        assert other.stdout and other.stdout.readline() == "True\n"
        assert asking.holder() == other.pid
        assert not asking.take()
        other.communicate(timeout=10)
    assert asking.holder() == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows doesn't remove a file that is open")
def test_holder_of_a_removed_lease_file_has_lost_it_and_can_take_it_again(tmp_path):
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
    lease, in_memory = Lease(tmp_path), Lease(None)
    lease.take()
    child = os.fork()
    if child == 0:
        own = (lease.held, lease.take(), in_memory.held, in_memory.holder(), lease.holder())
        os._exit(0 if own == (False, False, False, 0, os.getppid()) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert lease.held
    lease.release()


def test_constant_holder_lookups_do_not_block_taking_the_lease(tmp_path):
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


def test_store_in_memory_always_holds_its_lease(tmp_path):
    lease = Lease(None)
    assert (lease.held, lease.take(), lease.holder()) == (True, True, os.getpid())
    lease.release()
    assert lease.held


def test_another_process_knows_which_folder_the_holder_watches(tmp_path):
    holder, asking = Lease(tmp_path, "/home/ada/work"), Lease(tmp_path, "/elsewhere")
    assert asking.followed() == ""
    holder.take()
    assert (holder.followed(), asking.followed()) == ("/home/ada/work", "/home/ada/work")
    assert (tmp_path / "lease").read_text(encoding="utf-8") == f"\n{os.getpid()}\n/home/ada/work\n"
    holder.release()
    assert asking.followed() == ""
    asking.take()
    assert (tmp_path / "lease").read_text(encoding="utf-8") == f"\n{os.getpid()}\n/elsewhere\n"
    asking.release()
    assert Lease(None, "/in/memory").followed() == "/in/memory"


def test_empty_lease_file_is_still_held(tmp_path):
    """As on a full disk: the content is information, the lock is what counts."""
    holder, asking = Lease(tmp_path, "/work"), Lease(tmp_path)
    holder.take()
    (tmp_path / "lease").write_bytes(b"")
    assert (holder.holder(), holder.followed()) == (os.getpid(), "/work")
    assert (asking.holder(), asking.followed(), asking.take()) == (-1, "", False)
    assert holder.take()
    assert (tmp_path / "lease").read_bytes() == b"", "who has the lease doesn't take it anew"
    holder.release()


def test_lease_that_is_not_wanted_is_never_taken_and_names_the_holder(tmp_path):
    reading, holder = Lease(tmp_path, "/reads", wanted=False), Lease(tmp_path, "/work")
    assert (reading.take(), reading.held, reading.lost) == (False, False, False)
    assert not (tmp_path / "lease").exists()
    holder.take()
    assert (reading.take(), reading.holder(), reading.followed()) == (False, os.getpid(), "/work")
    holder.release()


def test_a_folder_in_place_of_the_lease_is_kept_under_another_name(tmp_path):
    (tmp_path / "lease").mkdir()
    (tmp_path / "lease" / "mine.txt").write_text("kept", encoding="utf-8")
    lease = Lease(tmp_path)
    assert lease.take()
    (aside,) = tmp_path.glob("cortex.db.damaged-*-lease")
    assert (aside / "mine.txt").read_text(encoding="utf-8") == "kept"
    lease.release()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_lease_file_is_readable_by_its_owner_only(tmp_path):
    lease = Lease(tmp_path)
    lease.take()
    assert (tmp_path / "lease").stat().st_mode & 0o777 == 0o600
    lease.release()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
def test_repeated_lease_lookups_leave_no_file_open(tmp_path):
    holder, asking = Lease(tmp_path), Lease(tmp_path)
    before = psutil.Process().num_fds()
    holder.take()
    for _ in range(3):
        assert not asking.take()
        assert asking.holder() == os.getpid()
        (tmp_path / "lease").unlink()
        assert holder.take()
    assert psutil.Process().num_fds() == before + 1
    holder.release()
    assert psutil.Process().num_fds() == before
