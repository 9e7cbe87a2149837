"""Connections: transactions, errors that say what to do, and closing while others are at work."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from cortex.base.errors import CortexError, FileError, StoreError
from cortex.base.paths import ensure_store_dir
from cortex.engine.store import Store, move_aside, set_aside
from cortex.engine.store import connections as connect
from cortex.engine.store.operation_log import OperationLog

DEADLINE = 20.0
posix = pytest.mark.skipif(
    os.name == "nt", reason="Windows has other rights and keeps files that are open"
)


def code_of(work) -> str:
    with pytest.raises(CortexError) as caught:
        work()
    assert caught.value.suggestions
    return caught.value.code


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except OSError:
        pytest.skip("there is no mount command here")
    if done.returncode:
        pytest.skip("mounting needs rights that this user hasn't")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=20)


def fill(disk: Path, leave: int) -> Path:
    """Take all of the space but `leave` bytes."""
    status = os.statvfs(disk)
    filler = disk / "filler"
    filler.write_bytes(bytes(max(0, status.f_bavail * status.f_frsize - leave)))
    return filler


def test_store_of_a_newer_version_is_refused_and_left_alone(tmp_path, open_store):
    open_store().close()
    with sqlite3.connect(tmp_path / "cortex.db") as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    before = (tmp_path / "cortex.db").read_bytes()
    assert code_of(lambda: Store(tmp_path)) == "STORE_NEWER"
    assert (tmp_path / "cortex.db").read_bytes() == before


@pytest.mark.parametrize("damage", ["garbage", "cut", "foreign"])
def test_damaged_database_is_reported_and_can_be_set_aside(tmp_path, folder_of, damage):
    store = Store(tmp_path)
    folder_of(store).write_all(
        {f"f{number}.py": f"x{number} = {number}\n" * 50 for number in range(60)}
    )
    store.close()
    path = tmp_path / "cortex.db"
    raw = path.read_bytes()
    if damage == "garbage":
        path.write_bytes(os.urandom(len(raw)))
    elif damage == "cut":
        path.write_bytes(raw[: len(raw) // 2])
    else:
        path.write_bytes(b"not a database at all, but long enough to be read as one" * 100)

    def use() -> None:
        damaged = Store(tmp_path)
        try:
            folder_of(damaged).catch_up()
            list(damaged.content.docs(1))
            problems = damaged.check()
            assert problems
            raise StoreError("STORE_CORRUPT", problems[0])
        finally:
            damaged.close()

    assert code_of(use) == "STORE_CORRUPT"
    kept = set_aside(tmp_path)
    assert kept.exists()
    assert kept.parent == tmp_path
    fresh = Store(tmp_path)
    again = folder_of(fresh)
    again.write(a_py="x = 1\n")
    again.catch_up()
    assert fresh.check() == []
    fresh.close()


def test_database_set_aside_is_complete_and_nothing_of_it_stays(tmp_path):
    ensure_store_dir(tmp_path / ".cortex")
    crashing = (
        "import os, sys\nfrom pathlib import Path\nfrom cortex.engine.store import Store\n"
        "Store(Path(sys.argv[1])).log.record('note', {'kept': True})\nos._exit(0)\n"
    )
    subprocess.run(
        [sys.executable, "-c", crashing, str(tmp_path / ".cortex")], check=True, timeout=DEADLINE
    )
    assert (tmp_path / ".cortex" / "cortex.db-wal").stat().st_size
    kept = set_aside(tmp_path / ".cortex")
    assert list((tmp_path / ".cortex").glob("cortex.db*")) == list(
        (tmp_path / ".cortex").glob(f"{kept.name}*")
    )
    connections = connect.Connections(kept)
    assert OperationLog(connections).recent()[0].detail == {"kept": True}
    connections.close()


@pytest.mark.parametrize("step", range(5))
def test_kill_while_moving_a_database_aside_keeps_its_log_with_it(tmp_path, monkeypatch, step):
    """Two links, a rename and two removals: before each, database and log are together somewhere."""
    path = tmp_path / "cortex.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE notes (text)")
        made.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        made.execute("INSERT INTO notes VALUES ('only in the log')")
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(f"{path}{suffix}", tmp_path / f"left{suffix}")
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"left{suffix}").replace(f"{path}{suffix}")
    done = count()

    def until_killed(act):
        def call(*arguments, **options):
            if next(done) >= step:  # nor is anything undone then
                raise KeyboardInterrupt
            return act(*arguments, **options)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", until_killed(os.link))
        patched.setattr(Path, "replace", until_killed(Path.replace))
        patched.setattr(Path, "unlink", until_killed(Path.unlink))
        with pytest.raises(KeyboardInterrupt):
            move_aside(tmp_path)
    places = [file for file in tmp_path.iterdir() if not file.name.endswith(("-wal", "-shm"))]
    assert len(places) == 1
    with closing(sqlite3.connect(places[0])) as kept:
        assert kept.execute("SELECT text FROM notes").fetchall() == [("only in the log",)]


def test_a_log_without_its_database_is_moved_aside_too(tmp_path):
    (tmp_path / "cortex.db-wal").write_bytes(b"of a database that is gone")
    assert move_aside(tmp_path) is None
    (kept,) = tmp_path.iterdir()
    assert ".damaged-" in kept.name and kept.name.endswith("-wal")


def test_database_set_aside_is_ignored_by_git(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=DEADLINE)
    directory = tmp_path / ".cortex"
    ensure_store_dir(directory)
    for suffix in ("", "-wal", "-shm"):
        (directory / f"cortex.db.damaged-1{suffix}").touch()
    told = subprocess.run(
        ["git", "status", "--porcelain"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        timeout=DEADLINE,
    )
    assert told.stdout == b""


def test_a_store_that_another_process_uses_is_not_set_aside(tmp_path, open_store):
    open_store().lease.take()
    assert code_of(lambda: set_aside(tmp_path)) == "STORE_LOCKED"


@posix
def test_only_the_owner_can_read_the_store(tmp_path, open_store, folder_of):
    before = os.umask(0o022)
    try:
        folder = folder_of(open_store())
        folder.write(a_py="x = 1\n")
        folder.catch_up()
    finally:
        os.umask(before)
    rights = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()}
    assert {"cortex.db", "cortex.db-wal", "cortex.db-shm"} < set(rights)
    assert set(rights.values()) == {0}


@posix
def test_a_store_knows_that_its_files_were_removed_or_replaced(tmp_path, open_store, folder_of):
    store = open_store()
    folder_of(store).write(a_py="x = 1\n")
    assert not store.replaced
    for file in tmp_path.glob("cortex.db*"):
        file.unlink()
    assert store.replaced
    fresh = open_store()
    assert (store.replaced, fresh.replaced) == (True, False)
    store.close()  # which must not take the new one's log with it
    folder_of(fresh).write(b_py="y = 1\n")
    assert open_store().check() == []
    assert [doc.path for doc in open_store().content.docs(1)] == ["b.py"]


def test_locked_database_is_reported_after_the_wait_and_works_again(
    tmp_path, open_store, folder_of, monkeypatch
):
    monkeypatch.setattr(connect, "BUSY_TIMEOUT_MS", 50)
    folder = folder_of(open_store())
    other = sqlite3.connect(tmp_path / "cortex.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert code_of(lambda: folder.write(a_py="x = 1\n")) == "STORE_LOCKED"
    assert list(folder.store.content.docs(folder.source.id)) == []  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    assert folder.write(a_py="x = 1\n") == 1


def test_unwritable_store_folder_is_reported(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, timeout=20)
    assert code_of(lambda: Store(small_disk)) == "STORE_UNWRITABLE"


def test_a_store_that_became_read_only_still_reads(small_disk, folder_of):
    store = Store(small_disk)
    folder = folder_of(store)
    folder.write(a_py="x = 1\n")
    store.content.get("seq")  # a reading connection is open
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=False, timeout=20)
    if os.access(small_disk, os.W_OK):
        store.close()
        pytest.skip("this system doesn't take a file system from those who write to it")
    assert [doc.path for doc in store.content.docs(folder.source.id)] == ["a.py"]
    store.close()


def test_full_disk_is_reported_and_nothing_stored_is_lost(small_disk, folder_of):
    store = Store(small_disk)
    folder = folder_of(store)
    kept = {f"kept{number}.py": f"kept_{number} = {number}\n" for number in range(20)}
    folder.write_all(kept)
    folder.catch_up()
    filler = fill(small_disk, leave=20_000)
    large = {"large.txt": "".join(f"{os.urandom(30).hex()} word\n" for _ in range(20_000))}
    assert code_of(lambda: folder.write_all(large)) == "DISK_FULL"
    assert set(store.content.known(folder.source.id)) == set(kept)
    filler.unlink()
    folder.write(after_py="after = 1\n")
    folder.catch_up()
    store.close()
    again = Store(small_disk)
    assert set(again.content.known(1)) == {*kept, "after.py"}
    assert again.check() == []
    again.close()


def test_lexical_index_on_a_full_disk_fails_and_catches_up_later(small_disk, folder_of):
    store = Store(small_disk)
    folder = folder_of(store)
    folder.write(a_py="first = 1\n")
    folder.catch_up()
    folder.write_all(
        {f"f{number}.py": f"name_{number} = {os.urandom(500).hex()!r}\n" for number in range(150)}
    )
    filler = fill(small_disk, leave=0)
    with pytest.raises(FileError) as caught:
        folder.catch_up()
    assert caught.value.code == "DISK_FULL"
    assert len(store.content.known(folder.source.id)) == 151
    filler.unlink()
    folder.catch_up()
    assert store.check() == []
    store.close()


def test_a_failed_commit_leaves_the_store_usable(folder):
    connections = folder.store._connections
    with pytest.raises(CortexError), connections.write() as connection:
        connection.execute("PRAGMA defer_foreign_keys = ON")  # so that COMMIT itself fails
        connection.execute("INSERT INTO chunks VALUES (1, 999, 0, 0, 0, 0, 0, '', '', '', '', '')")
    assert folder.write(a_py="x = 1\n") == 1


def test_transaction_with_a_failed_rollback_is_ended_by_the_next_use(folder):
    connections = folder.store._connections
    connections._writer.execute("BEGIN")  # as a rollback without memory leaves it
    assert folder.write(a_py="x = 1\n") == 1
    with pytest.raises(CortexError), connections.read() as reader:
        reader.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else 0
        )
    with connections.read() as another:
        assert another is not reader and another.execute(
            "SELECT count(*) FROM docs"
        ).fetchone() == (1,)


def test_threads_that_come_and_go_leave_no_connections_behind(folder):
    for _ in range(30):
        thread = threading.Thread(target=folder.store.content.seq)
        thread.start()
        thread.join()
    assert len(folder.store._connections._idle) == 1


def test_closing_waits_for_a_reader_and_refuses_the_next(tmp_path):
    store = Store(tmp_path)
    inside, leave, seen = threading.Event(), threading.Event(), []

    def read() -> None:
        with store.reading():
            inside.set()
            leave.wait(DEADLINE)
            seen.append(store.content.seq())

    reader = threading.Thread(target=read)
    reader.start()
    assert inside.wait(DEADLINE)
    closer = threading.Thread(target=store.close)
    closer.start()
    while not store._connections._closed:
        pass
    assert code_of(store.content.seq) == "STORE_LOCKED"
    leave.set()
    reader.join(DEADLINE)
    closer.join(DEADLINE)
    assert seen == [0]
    store.close()  # twice is nothing


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_does_not_use_its_parents_connections(folder):
    child = os.fork()
    if child == 0:
        try:
            folder.store.content.seq()
        except StoreError as error:
            os._exit(0 if error.code == "STORE_LOCKED" else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_store_in_memory_works_like_one_on_disk(folder_of):
    store = Store(None)
    folder = folder_of(store)
    folder.write(a_py="lamp = 1\n")
    folder.catch_up()
    folder.write(a_py="lamp = 2\n")
    folder.catch_up()
    assert store.check() == []
    assert store.disk_bytes() == 0
    store.close()


def test_processes_that_open_a_new_store_at_once_all_succeed(tmp_path):
    script = "import sys\nfrom pathlib import Path\nfrom cortex.engine.store import Store\ninput()\nStore(Path(sys.argv[1])).close()\nprint('ok')"
    command = [sys.executable, "-c", script, str(tmp_path)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for process in started:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[0] for process in started] == ["ok\n"] * 6


def test_a_long_log_is_cut_after_a_checkpoint(tmp_path, open_store, folder_of):
    folder = folder_of(open_store())
    folder.write_all(
        {f"f{number}.py": f"x{number} = {os.urandom(200).hex()!r}\n" for number in range(200)}
    )
    assert (tmp_path / "cortex.db-wal").stat().st_size > 0
    folder.store.checkpoint()
    assert (tmp_path / "cortex.db-wal").stat().st_size == 0


def test_a_store_that_is_opened_twice_in_a_process_keeps_its_locks(tmp_path):
    path = tmp_path / "store.db"
    ask = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('SELECT count(*) FROM t').fetchone()[0]); c.close()"

    def count_elsewhere() -> int:
        """Count in a process that opens and closes the store.

        Were it the last one, it would remove the log below our feet.
        """
        return int(
            subprocess.run(
                [sys.executable, "-c", ask, str(path)], check=True, capture_output=True
            ).stdout
        )

    first = connect.Connections(path)
    with first.write() as connection:
        connection.execute("CREATE TABLE t (a)")
    second = connect.Connections(path)
    try:
        assert count_elsewhere() == 0
        assert (tmp_path / "store.db-wal").exists()
        with first.write() as connection:
            connection.execute("INSERT INTO t VALUES (1)")
        assert count_elsewhere() == 1
    finally:
        second.close()
        first.close()


@pytest.mark.skipif(os.name == "nt", reason="a folder is never read-only there")
def test_copy_of_a_read_only_store_is_private_and_removed_after_a_kill(tmp_path, monkeypatch):
    written, frozen, temporary = tmp_path / "written", tmp_path / "frozen", tmp_path / "temporary"
    for folder in (written, frozen, temporary):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with closing(connect.Connections(written / "cortex.db")) as store:
        with store.write() as connection:
            connection.execute("CREATE TABLE lamps (name)")
        for name in ("cortex.db", "cortex.db-wal"):
            shutil.copyfile(written / name, frozen / name)
    killed = temporary / "cortex-store-killed"
    shutil.copytree(frozen, killed)
    (killed / "lock").touch()
    # Root may write everywhere, so the folder can't be made read-only for it.
    monkeypatch.setattr(connect, "is_frozen", lambda folder: folder == frozen)
    with closing(connect.Connections(frozen / "cortex.db", read_only=True)) as first:
        (copy,) = temporary.iterdir()
        assert copy != killed and copy.stat().st_mode & 0o777 == 0o700
        with (
            closing(connect.Connections(frozen / "cortex.db", read_only=True)),
            first.read() as connection,
        ):
            assert len(list(temporary.iterdir())) == 2
            assert connection.execute("SELECT count(*) FROM lamps").fetchone() == (0,)
    assert list(temporary.iterdir()) == []
