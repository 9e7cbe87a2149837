"""Databases of other products: read in any state, and never changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cortex.base.errors import FileError
from cortex.engine.sources import sqlite_snapshot
from cortex.engine.sources.sqlite_snapshot import columns, opened, reading

DIES = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA cache_size = 1")
connection.execute("UPDATE t SET x = 'half'")
os._exit(9)
"""


def make(path: Path, rows: int = 3, mode: str = "DELETE") -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE t (x)")
    connection.executemany(
        "INSERT INTO t VALUES (?)", [(f"{number:04}" * 500,) for number in range(rows)]
    )
    connection.commit()
    return connection


def count(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT count(*) FROM t").fetchone()[0]


def listing(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_database_at_rest_is_read_without_a_trace_also_in_a_read_only_folder(tmp_path, mode):
    path = tmp_path / "there" / "a ü#?%.db"
    make(path, mode=mode).close()
    before, moment = listing(path.parent), path.parent.stat().st_mtime_ns
    path.parent.chmod(0o555)
    try:
        with reading(path, "Foreign") as connection:
            assert count(connection) == 3
            with pytest.raises(sqlite3.OperationalError):
                connection.execute("DELETE FROM t")
        assert (listing(path.parent), path.parent.stat().st_mtime_ns) == (before, moment)
    finally:
        path.parent.chmod(0o755)


def test_journal_is_looked_for_beside_the_target_of_a_link(tmp_path):
    owner = make(tmp_path / "real" / "a.db", mode="WAL")
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "a.db")
    with reading(tmp_path / "link.db", "Foreign") as connection:
        assert count(connection) == 3
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["link.db"]
    owner.close()


def test_half_written_transaction_is_not_read_and_its_journal_stays(tmp_path):
    path = tmp_path / "there" / "a.db"
    make(path, rows=50).close()
    subprocess.run([sys.executable, "-c", DIES, str(path)], timeout=60, check=False)
    assert path.with_name("a.db-journal").stat().st_size > 0
    before = listing(path.parent)
    with reading(path, "Foreign") as connection:
        assert connection.execute("SELECT count(*) FROM t WHERE x <> 'half'").fetchone()[0] == 50
    assert listing(path.parent) == before


def test_database_and_wal_of_a_crashed_writer_are_read_and_left_in_place(tmp_path):
    owner = make(tmp_path / "a.db", mode="WAL")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("a.db", "a.db-wal", "a.db-shm"):
        shutil.copyfile(tmp_path / name, crashed / name)
    owner.close()
    before = {path.name: path.stat().st_size for path in crashed.iterdir()}
    with reading(crashed / "a.db", "Foreign") as connection:
        assert count(connection) == 3
    assert {path.name: path.stat().st_size for path in crashed.iterdir()} == before


def test_empty_wal_without_its_index_is_ignored(tmp_path):
    make(tmp_path / "a.db", mode="WAL").close()
    (tmp_path / "a.db-wal").touch()
    before = listing(tmp_path)
    with reading(tmp_path / "a.db", "Foreign") as connection:
        assert count(connection) == 3
    assert listing(tmp_path) == before


def test_huge_file_of_a_crash_is_not_copied_and_the_error_says_what_to_do(tmp_path, monkeypatch):
    owner = make(tmp_path / "a.db", mode="WAL")
    (tmp_path / "b").mkdir()
    for name in ("a.db", "a.db-wal"):
        shutil.copyfile(tmp_path / name, tmp_path / "b" / name)
    owner.close()
    monkeypatch.setattr(sqlite_snapshot, "COPY_BYTES", 10_000)
    with (
        pytest.raises(FileError, match="start Foreign once"),
        reading(tmp_path / "b" / "a.db", "Foreign"),
    ):
        pass
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["a.db", "a.db-wal"]


def test_database_changed_while_it_was_read_is_read_again(tmp_path):
    path = tmp_path / "a.db"
    make(path).close()
    seen: list[int] = []

    def work(connection: sqlite3.Connection) -> int:
        seen.append(count(connection))
        if len(seen) == 1:
            grow(path)
        return seen[-1]

    with opened(path, "Foreign") as file:
        assert file.read(work) == 4
        grow(path)  # and between two readings
        assert file.read(count) == 5
    assert seen == [3, 4]


def test_database_that_changes_all_the_time_is_reported(tmp_path):
    path = tmp_path / "a.db"
    make(path).close()
    with opened(path, "Foreign") as file, pytest.raises(FileError, match="changes all the time"):
        file.read(lambda _: grow(path))
    with pytest.raises(FileError, match="was changed while it was read"), reading(path, "Foreign"):
        grow(path)


def test_views_and_virtual_tables_are_refused(tmp_path):
    owner = make(tmp_path / "a.db")
    owner.execute(
        "CREATE VIEW v AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    )
    owner.execute("CREATE VIRTUAL TABLE f USING fts5(x)")
    owner.close()
    with reading(tmp_path / "a.db", "Foreign") as connection:
        assert (columns(connection, "t"), columns(connection, "v"), columns(connection, "f")) == (
            {"x"},
            set(),
            set(),
        )


def test_endless_reading_is_ended(tmp_path):
    make(tmp_path / "a.db").close()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    with (
        opened(tmp_path / "a.db", "Foreign", 0.05) as file,
        pytest.raises(FileError, match="can't be read in"),
    ):
        file.read(lambda connection: connection.execute(endless).fetchall())


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)
def test_file_without_read_permission_is_reported(tmp_path):
    make(tmp_path / "a.db").close()
    (tmp_path / "a.db").chmod(0)
    with (
        pytest.raises(FileError, match=r"a\.db"),
        reading(tmp_path / "a.db", "Foreign") as connection,
    ):
        count(connection)


def grow(path: Path) -> None:
    """Add a row, as another program does."""
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO t VALUES (?)", ("more" * 5000,))
    connection.commit()
    connection.close()
