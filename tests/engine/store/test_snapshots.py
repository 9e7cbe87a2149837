"""Snapshots of a home: content, permissions, schedule and limits."""

from __future__ import annotations

import gzip
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cortex.base.errors import CortexError
from cortex.engine.store import STORE_NAME, Store, check_present, schema, set_aside, snapshots
from cortex.engine.store.daily_snapshot import back_up_soon
from cortex.engine.store.snapshots import (
    ASKED,
    DAILY,
    MIGRATION,
    is_due,
    is_under_way,
    list_snapshots,
    make_snapshot,
    verify_snapshot,
)

TEXT = "the walrus and the carpenter"


@pytest.fixture
def home(folder) -> Path:
    """A home with a source of documents, and a document."""
    store: Store = folder.store
    store.folders.add("k1", "papers", "/papers", (), (), watch=True)
    folder.write(papers_md=TEXT * 50)
    assert store.directory is not None
    return store.directory


def rows_of(file: Path, tmp_path: Path, question: str) -> list[tuple[object, ...]]:
    (tmp_path / "unpacked.db").write_bytes(gzip.decompress(file.read_bytes()))
    with closing(sqlite3.connect(tmp_path / "unpacked.db")) as connection:
        return connection.execute(question).fetchall()


def test_a_snapshot_has_what_a_person_wrote_and_no_text_of_documents(home, tmp_path):
    (home / "config.yml").write_text("search:\n  timeout: 7s\n", encoding="utf-8")
    made = make_snapshot(home / STORE_NAME, ASKED)
    assert made is not None and made.reason == ASKED
    contents = verify_snapshot(made)
    assert (contents.folders, contents.memories, contents.settings) == (1, 0, True)
    assert rows_of(made.file, tmp_path, "SELECT count(*) FROM blobs") == [(0,)]
    assert TEXT.encode() not in gzip.decompress(made.file.read_bytes())


def test_every_table_is_in_snapshots_or_derived(home):
    with closing(sqlite3.connect(home / STORE_NAME)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
        assert sorted(name for (name,) in tables) == sorted([*snapshots.KEPT, *snapshots.LEFT_OUT])


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_snapshot_is_readable_by_its_owner_only_under_any_umask(home):
    before = os.umask(0)
    try:
        (home / "backups").mkdir(mode=0o777)
        made = make_snapshot(home / STORE_NAME, ASKED)
    finally:
        os.umask(before)
    assert made is not None
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.file.parent.stat().st_mode) == 0o700
    assert [path.name for path in made.file.parent.iterdir()] == [made.file.name]


def test_oldest_snapshots_are_removed_above_the_limits_and_the_newest_stays(home, monkeypatch):
    names = []
    for _ in range(9):
        made = make_snapshot(home / STORE_NAME, ASKED)
        assert made is not None
        names.insert(0, made.name)
    assert [snapshot.name for snapshot in list_snapshots(home)] == names[:7]
    monkeypatch.setattr(snapshots, "MOST_BYTES", 2 * made.size + 10)
    snapshots.prune(list_snapshots(home))
    assert [snapshot.name for snapshot in list_snapshots(home)] == names[:2]
    monkeypatch.setattr(snapshots, "MOST_BYTES", 1)
    snapshots.prune(list_snapshots(home))
    assert [snapshot.name for snapshot in list_snapshots(home)] == names[:1]


def test_a_snapshot_dated_in_the_future_hides_no_new_one(home):
    database, now = home / STORE_NAME, time.time()
    for day in range(7):
        (home / "backups").mkdir(exist_ok=True)
        (home / "backups" / f"2999010{day + 1}T000000Z-daily.db.gz").write_bytes(b"later")
    assert is_due(database)
    made = make_snapshot(database, DAILY)
    assert made is not None and made.file.exists() and made.at <= now + 1
    assert list_snapshots(home)[0] == made and len(list_snapshots(home)) == 7
    assert not is_due(database)


def test_database_beside_snapshots_is_never_set_aside(home, folder):
    make_snapshot(home / STORE_NAME, ASKED)
    folder.store.close()
    with pytest.raises(CortexError) as caught:
        set_aside(home)
    assert caught.value.code == "STORE_CORRUPT" and (home / STORE_NAME).exists()
    # The replica of a Core's database has nothing of its own.
    assert set_aside(home, replica=True).exists()


def test_snapshot_is_due_a_day_after_the_last_if_something_was_written(home, monkeypatch):
    database = home / STORE_NAME
    assert is_due(database)
    make_snapshot(database, DAILY)
    assert not is_due(database)
    now = time.time()
    monkeypatch.setattr(snapshots.time, "time", lambda: now + snapshots.DAY_SECONDS + 5)
    for name in (database, database.with_name("cortex.db-wal")):
        os.utime(name, (now - 60, now - 60))
    assert not is_due(database)
    os.utime(database, (now + 60, now + 60))
    assert is_due(database)


def test_store_without_personal_data_gets_no_snapshot(folder):
    folder.write(a_py="x = 1\n")
    assert make_snapshot(folder.store.directory / STORE_NAME, ASKED) is None
    assert not (folder.store.directory / "backups").exists()


def test_files_left_by_a_killed_snapshot_are_removed(home):
    (home / "backups").mkdir()
    left, young = home / "backups" / ".snapshot-1-1.db", home / "backups" / ".snapshot-1-2.db"
    for file in (left, young):
        file.write_bytes(b"half")
    os.utime(left, (1, 1))
    make_snapshot(home / STORE_NAME, ASKED)
    assert (left.exists(), young.exists()) == (False, True)


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[: len(raw) // 2], lambda raw: raw[:100] + b"\xff" + raw[101:]]
)
def test_truncated_or_changed_snapshot_is_detected(home, damage: Callable[[bytes], bytes]):
    made = make_snapshot(home / STORE_NAME, ASKED)
    assert made is not None
    made.file.write_bytes(damage(made.file.read_bytes()))
    with pytest.raises(CortexError) as caught:
        verify_snapshot(made)
    assert (
        caught.value.code == "IMPORT_UNREADABLE"
        and "cortex backup list" in caught.value.suggestions[0]
    )


def test_snapshot_is_made_before_every_migration(tmp_path, monkeypatch):
    older = schema.MIGRATIONS[:-1]
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", older)
        with closing(Store(tmp_path)) as store:
            store.folders.add("k1", "papers", "/papers", (), (), watch=True)
    with closing(Store(tmp_path, read_only=True)):
        pass
    (made,) = list_snapshots(tmp_path)
    assert made.reason == MIGRATION
    assert rows_of(made.file, tmp_path, "PRAGMA user_version") == [(len(older),)]
    with closing(Store(tmp_path)):
        assert len(list_snapshots(tmp_path)) == 1


def test_a_snapshot_that_fails_does_not_stop_a_migration(tmp_path, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:-1])
        with closing(Store(tmp_path)) as store:
            store.folders.add("k1", "papers", "/papers", (), (), watch=True)
    (tmp_path / "backups").write_text("in the way", encoding="utf-8")
    with closing(Store(tmp_path)) as store:
        assert [folder.name for folder in store.folders.all()] == ["papers"]
    assert "could not make a snapshot" in caplog.text


@pytest.mark.parametrize("left", ["words-6-0123-1", "vectors-0123"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_database_that_is_gone_beside_its_indexes_is_no_fresh_start(tmp_path, left, empty):
    (tmp_path / left).mkdir()
    if empty:
        (tmp_path / STORE_NAME).touch()
    for open_it in (lambda: check_present(tmp_path), lambda: Store(tmp_path, read_only=True)):
        with pytest.raises(CortexError) as caught:
            open_it()
        assert caught.value.code == "STORE_LOST" and left in caught.value.message
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [left, *([STORE_NAME] if empty else [])]
    )


def test_home_with_snapshots_and_no_database_is_reported_as_lost(home, tmp_path):
    check_present(tmp_path / "new")
    make_snapshot(home / STORE_NAME, ASKED)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / "backups").rename(elsewhere / "backups")
    with pytest.raises(CortexError) as caught:
        check_present(elsewhere)
    assert caught.value.code == "STORE_LOST" and "snapshots: 1" in caught.value.message


def test_interrupted_snapshot_is_retried_after_an_hour(home, monkeypatch):
    folder = home / "backups"
    folder.mkdir()
    (folder / ".snapshot-1-1.db").touch()
    assert is_due(home / STORE_NAME) and is_under_way(home) and back_up_soon(home) is None
    now = time.time()
    monkeypatch.setattr(snapshots.time, "time", lambda: now + snapshots.STALE_SECONDS + 1)
    thread = back_up_soon(home)
    assert thread is not None
    thread.join()
    assert [snapshot.reason for snapshot in list_snapshots(home)] == [DAILY]


@pytest.mark.parametrize(
    ("said", "code"), [("database or disk is full", "DISK_FULL"), ("out of memory", "MEMORY_SHORT")]
)
def test_lack_of_space_to_read_a_snapshot_is_no_damage(home, monkeypatch, said, code):
    made = make_snapshot(home / STORE_NAME, ASKED)
    assert made is not None

    def fail(connection):
        raise sqlite3.OperationalError(said)

    monkeypatch.setattr(snapshots, "_contents", fail)
    with pytest.raises(CortexError) as caught:
        verify_snapshot(made)
    assert caught.value.code == code


def test_disk_failure_is_not_reported_as_missing_permission(home, monkeypatch):
    def fail(number):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CortexError) as caught:
        make_snapshot(home / STORE_NAME, ASKED)
    assert caught.value.code == "STORE_IO"
    assert list((home / "backups").iterdir()) == []
