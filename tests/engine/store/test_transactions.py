"""Database connections: transactions, settings, closing, and errors that say what to do."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from cortex.base.errors import CortexError, StoreError
from cortex.base.visibility import Viewer
from cortex.engine.store import connections as module
from cortex.engine.store.connections import Connections, is_still, translated

DEADLINE = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cortex.db"


@pytest.fixture
def connect(path: Path) -> Iterator[Callable[..., Connections]]:
    """Open the database, by default with a table `t (a)`, and close it again."""
    with ExitStack() as opened:

        def open_one(place: Path | None = path, **options: bool) -> Connections:
            made = opened.enter_context(closing(Connections(place, **options)))
            if not options.get("read_only"):
                with made.write() as connection:
                    connection.execute("CREATE TABLE IF NOT EXISTS t (a)")
            return made

        yield open_one


def put(connections: Connections, value: int) -> None:
    with connections.write() as connection:
        connection.execute("INSERT INTO t VALUES (?)", (value,))


def values(connections: Connections) -> list[int]:
    with connections.read() as connection:
        return [value for (value,) in connection.execute("SELECT a FROM t ORDER BY a")]


def setting(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_database_is_opened_with_the_required_settings(connect):
    expected = {
        "journal_mode": "wal",
        "synchronous": 1,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "secure_delete": 0,
        "journal_size_limit": 64 * 1024 * 1024,
        "cache_size": -8192,
        "busy_timeout": 10_000,
        "query_only": 0,
    }
    connections = connect()
    with connections.read() as reader:
        assert {name: setting(reader, name) for name in expected} == expected
    with connections.write() as writer:
        assert {name: setting(writer, name) for name in expected} == expected


def test_durable_write_is_synced_and_erasing_write_overwrites(connect):
    connections = connect()
    for durable, erase in ((True, False), (False, True), (True, True), (False, False)):
        with connections.write(durable=durable, erase=erase) as writer:
            assert setting(writer, "synchronous") == (2 if durable else 1)
            assert setting(writer, "secure_delete") == int(erase)


def test_failed_write_is_rolled_back_at_once(connect, path):
    connections = connect()
    put(connections, 1)
    with pytest.raises(KeyError), connections.write() as writer:
        writer.execute("INSERT INTO t VALUES (2)")
        raise KeyError
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    assert values(connections) == [1]


def test_write_locks_out_other_writers_from_its_beginning(connect, path):
    connections = connect()
    with (
        connections.write(),
        closing(sqlite3.connect(path, timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("BEGIN IMMEDIATE")


def test_reading_block_sees_one_state(connect):
    connections = connect()
    put(connections, 1)
    with connections.read() as reader:
        assert values(connections) == [1]
        writing = in_thread(lambda: put(connections, 2))
        writing.join(DEADLINE)
        with connections.read() as inner:
            assert inner is reader
        assert values(connections) == [1]
    assert values(connections) == [1, 2]


def test_reading_block_in_memory_makes_other_writers_wait(connect):
    connections = connect(None)
    with connections.read():
        writing = in_thread(lambda: put(connections, 1))
        writing.join(0.2)
        assert writing.is_alive()
    writing.join(DEADLINE)
    assert values(connections) == [1]


def test_failed_write_in_a_joint_transaction_is_rolled_back_alone(connect):
    connections = connect()
    seen: list[list[int]] = []
    with connections.together():
        put(connections, 1)
        with pytest.raises(KeyError), connections.write() as writer:
            writer.execute("INSERT INTO t VALUES (2)")
            raise KeyError
        put(connections, 3)
        assert values(connections) == [1, 3]
        in_thread(lambda: seen.append(values(connections))).join(DEADLINE)
    assert (seen, values(connections)) == ([[]], [1, 3])
    put(connections, 4)
    assert values(connections) == [1, 3, 4]


def test_many_failures_in_one_transaction_leave_no_savepoint(connect):
    connections = connect()
    with connections.together() as _, connections.write() as writer:
        for value in range(3):
            with pytest.raises(KeyError), connections.write():
                put(connections, value)
                raise KeyError
            put(connections, 10 + value)
            # No mark of a part that is done is left to go back to
            with pytest.raises(sqlite3.OperationalError, match="no such savepoint"):
                writer.execute("RELEASE elsewhere")
    assert values(connections) == [10, 11, 12]


def test_failed_joint_transaction_rolls_back_every_write(connect):
    connections = connect()
    with pytest.raises(KeyError), connections.together():
        put(connections, 1)
        raise KeyError
    assert values(connections) == []
    with connections.together():
        assert values(connections) == []


def test_broken_transaction_accepts_no_more_writes(connect):
    connections = connect()
    with pytest.raises(CortexError), connections.together():
        put(connections, 1)
        connections._writer.execute("ROLLBACK")  # as a full disk does
        with pytest.raises(
            StoreError, match="an earlier write of the same transaction failed"
        ) as failed:
            put(connections, 2)
        assert failed.value.code == "STORE_IO"
        raise failed.value
    assert values(connections) == []


def test_optional_row_is_written_at_once_or_given_up(connect, monkeypatch):
    connections = connect()
    connections.jot("INSERT INTO t VALUES (?)", (1,))
    in_thread(lambda: connections.jot("INSERT INTO t VALUES (?)", (2,))).join(DEADLINE)
    assert values(connections) == [1, 2]
    failed: list[str] = []

    def give_up() -> None:
        try:
            connections.jot("INSERT INTO t VALUES (?)", (3,))
        except StoreError as error:
            failed.append(error.code)

    with connections.write():
        in_thread(give_up).join(DEADLINE)
    assert (failed, values(connections)) == (["STORE_LOCKED"], [1, 2])


# -- reading only


def test_read_only_database_is_never_written_or_created(connect, path):
    with pytest.raises(StoreError) as failed:
        Connections(path, read_only=True)
    assert failed.value.code == "STORE_UNWRITABLE" and not path.exists()
    put(connect(), 1)
    reading = connect(read_only=True)
    assert values(reading) == [1]
    with pytest.raises(StoreError, match="open for reading only") as failed:
        put(reading, 2)
    assert failed.value.code == "STORE_READ_ONLY"
    assert reading.checkpoint() is True
    for connection in (reading._borrow(), reading._writer):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("INSERT INTO t VALUES (3)")
        assert setting(connection, "query_only") == 1
        if connection is not reading._writer:
            reading._give_back(connection)


def test_unwritable_folder_is_named_as_the_reason(connect, path, monkeypatch):
    put(connect(), 1)
    monkeypatch.setattr(module, "is_frozen", lambda folder: folder == path.parent)
    frozen = connect(read_only=True)
    assert values(frozen) == [1]
    with pytest.raises(StoreError, match="its folder can't be written") as failed:
        put(frozen, 2)
    assert failed.value.code == "STORE_UNWRITABLE"


# -- files


def test_folder_in_place_of_the_database_is_reported(path):
    path.mkdir()
    with pytest.raises(StoreError, match="is a folder where the database should be") as failed:
        Connections(path)
    assert (failed.value.code, failed.value.context["path"]) == ("STORE_CORRUPT", str(path))


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_folder_in_place_of_the_log_is_kept_beside_it(connect, path, suffix):
    beside = path.with_name(path.name + suffix)
    beside.mkdir()
    (beside / "mine.txt").write_text("kept", encoding="utf-8")
    put(connect(), 1)
    (aside,) = path.parent.glob(f"cortex.db.damaged-*{suffix}")
    assert (aside / "mine.txt").read_text(encoding="utf-8") == "kept"


@pytest.mark.skipif(os.name == "nt", reason="an open file can't be moved there")
def test_database_file_is_current_until_it_is_moved(connect, path, tmp_path):
    connections = connect()
    opened = os.stat(path)
    assert (connections.replaced, is_still(path, opened)) == (False, True)
    path.rename(tmp_path / "moved.db")
    assert (connections.replaced, is_still(path, opened)) == (True, False)
    path.touch()
    assert (connections.replaced, is_still(path, opened)) == (True, False)
    file = tmp_path / "file"
    file.touch()
    assert is_still(file / "below", opened) is True, "whatever isn't known is no loss"
    assert connect(None).replaced is False


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_new_database_is_private_and_an_existing_one_keeps_its_mode(connect, path):
    connect()
    assert path.stat().st_mode & 0o777 == 0o600
    other = path.with_name("other.db")
    other.touch(mode=0o640)
    other.chmod(0o640)
    connect(other)
    assert other.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name == "nt", reason="there are no such numbers there")
def test_closed_database_leaves_no_file_open(path):
    before = psutil.Process().num_fds()
    for _ in range(3):
        with closing(Connections(path)) as connections:
            with connections.write() as writer:
                writer.execute("CREATE TABLE IF NOT EXISTS t (a)")
            values(connections)
    assert psutil.Process().num_fds() == before


def test_only_a_read_only_database_on_disk_can_be_confined(path, connect):
    connections = connect()
    for place, read_only in ((None, True), (path, False)):
        with pytest.raises(ValueError, match="confined"):
            Connections(place, read_only=read_only, confined=True)
    with pytest.raises(CortexError), connections.viewed_by(Viewer("ada", 4)):
        pass
    assert connections.viewer is None


# -- checkpoints and the end


def test_checkpoint_reports_whether_the_whole_log_is_in_the_file(connect, path, monkeypatch):
    connections = connect()
    log = path.with_name("cortex.db-wal")
    put(connections, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM t").fetchall()
        put(connections, 2)
        began = time.monotonic()
        assert connections.checkpoint() is False
        assert time.monotonic() - began < 5, "it waits a tenth of a second for readers, not ten"
        assert log.stat().st_size > 0
    assert connections.checkpoint() is True
    assert log.stat().st_size == 0
    with connections.write() as writer:
        assert setting(writer, "busy_timeout") == 10_000
    assert connect(None).checkpoint() is True


def test_closed_database_refuses_every_call(path):
    for place in (path, None):
        connections = Connections(place)
        connections.close()
        connections.close()
        works = [lambda c=connections: put(c, 1), lambda c=connections: values(c)]
        works.append(lambda c=connections: c.jot("SELECT ?", (1,)))
        if place is not None:
            works.append(connections.checkpoint)
        for work in works:
            with pytest.raises(StoreError, match="the store is closed") as failed:
                work()
            assert failed.value.code == "STORE_LOCKED"
            assert "cause" not in failed.value.context


def test_closing_without_a_reader_is_immediate(connect, monkeypatch):
    monkeypatch.setattr(module, "CLOSE_SECONDS", DEADLINE)
    connections = connect()
    put(connections, 1)
    assert values(connections) == [1]
    began = time.monotonic()
    connections.close()
    assert time.monotonic() - began < DEADLINE / 2


def test_closing_waits_until_a_reader_is_done(connect, monkeypatch):
    monkeypatch.setattr(module, "CLOSE_SECONDS", DEADLINE)
    connections = connect()
    inside, leave = threading.Event(), threading.Event()
    seen: list[list[int]] = []

    def read() -> None:
        with connections.read():
            inside.set()
            leave.wait(DEADLINE)
            seen.append(values(connections))

    reading = in_thread(read)
    assert inside.wait(DEADLINE)
    closing_ = in_thread(connections.close)
    closing_.join(0.2)
    assert closing_.is_alive()
    began = time.monotonic()
    leave.set()
    reading.join(DEADLINE)
    closing_.join(DEADLINE)
    assert seen == [[]] and time.monotonic() - began < DEADLINE / 2


def test_closing_after_a_failed_open_waits_for_no_reader(connect, monkeypatch):
    monkeypatch.setattr(module, "CLOSE_SECONDS", DEADLINE)
    connections = connect()
    with monkeypatch.context() as patched:
        patched.setattr(module, "BUSY_TIMEOUT_MS", "a wait")  # no number: opening fails
        with pytest.raises(TypeError):
            values(connections)
    assert values(connections) == []
    began = time.monotonic()
    connections.close()
    assert time.monotonic() - began < DEADLINE / 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("work", [lambda c: put(c, 1), values, Connections.checkpoint])
@pytest.mark.parametrize("in_memory", [True, False])
def test_forked_process_cannot_use_inherited_connections(connect, work, in_memory):
    connections = connect(None) if in_memory else connect()
    if in_memory and work is Connections.checkpoint:
        assert connections.checkpoint() is True
        return
    child = os.fork()
    if child == 0:
        try:
            work(connections)
        except StoreError as error:
            os._exit(0 if "before this process was forked" in error.message else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


# -- errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (sqlite3.OperationalError("out of memory"), "MEMORY_SHORT"),
        (sqlite3.OperationalError("database or disk is full"), "DISK_FULL"),
        (sqlite3.DatabaseError("No space left on device"), "DISK_FULL"),
        (sqlite3.OperationalError("disk I/O error"), "STORE_IO"),
        (sqlite3.OperationalError("database is locked"), "STORE_LOCKED"),
        (sqlite3.OperationalError("the device is busy"), "STORE_LOCKED"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "STORE_UNWRITABLE"),
        (sqlite3.OperationalError("unable to open database file"), "STORE_UNWRITABLE"),
        (sqlite3.OperationalError("access permission denied"), "STORE_UNWRITABLE"),
        (sqlite3.ProgrammingError("Cannot operate on a closed database."), "STORE_LOCKED"),
        (sqlite3.OperationalError("the lid is closed"), "INTERNAL_ERROR"),
        (sqlite3.ProgrammingError("Incorrect number of bindings, corrupt"), "INTERNAL_ERROR"),
        (sqlite3.IntegrityError("UNIQUE constraint failed: malformed"), "INTERNAL_ERROR"),
        (sqlite3.DatabaseError("database disk image is malformed"), "STORE_CORRUPT"),
        (sqlite3.DatabaseError("file is not a database"), "STORE_CORRUPT"),
        (sqlite3.DatabaseError("the index is corrupt"), "STORE_CORRUPT"),
        (sqlite3.OperationalError("no such table: docs"), "STORE_CORRUPT"),
        (sqlite3.OperationalError("no such column: nonsense"), "INTERNAL_ERROR"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), "STORE_CORRUPT"),
        (MemoryError(), "MEMORY_SHORT"),
        (OSError(errno.ENOSPC, "full"), "DISK_FULL"),
        (FileNotFoundError(errno.ENOENT, "gone"), "FILE_NOT_FOUND"),
        (PermissionError(errno.EACCES, "not allowed"), "STORE_UNWRITABLE"),
    ],
)
def test_database_failure_is_reported_with_its_code_and_place(error: Exception, code: str):
    place = Path("/somewhere/cortex.db")
    with pytest.raises(CortexError) as failed, translated(place):
        raise error
    assert failed.value.code == code
    assert failed.value.__cause__ is error
    assert str(place) in f"{failed.value.message} {failed.value.context.get('path')}" or (
        failed.value.message == "the store is closed"
    )
    with pytest.raises(CortexError) as failed, translated(None):
        raise error
    assert "memory" in f"{failed.value.message} {failed.value.context.get('path')}" or (
        failed.value.message == "the store is closed"
    )


def test_other_errors_pass_unchanged():
    for error in (OSError(errno.EEXIST, "there"), KeyError("x")):
        with pytest.raises(type(error)) as failed, translated(Path("/x")):
            raise error
        assert failed.value is error


@pytest.mark.parametrize(
    ("code", "told"), [("STORE_CORRUPT", True), ("STORE_NEWER", True), ("STORE_LOCKED", False)]
)
def test_only_a_store_that_may_be_set_aside_is_named_by_its_error(code: str, told: bool):
    with pytest.raises(StoreError) as failed, translated(Path("/x")):
        raise StoreError(code, "because")
    assert failed.value.context.get("path") == ("/x" if told else None)
    with pytest.raises(StoreError) as failed, translated(Path("/x")):
        raise StoreError(code, "because", context={"path": "/first"})
    assert failed.value.context["path"] == "/first"
