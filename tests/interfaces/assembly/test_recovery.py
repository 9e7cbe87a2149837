"""A home brought back: from a snapshot, or from what can be read of a damaged database; with real
files and real damage.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import inmemory
from cortex.base import record_model
from cortex.base.actors import person
from cortex.base.errors import CortexError
from cortex.base.record_model import Subcortex, Thread
from cortex.base.settings import Settings, load
from cortex.base.types import Memory, MemoryState
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.engine.store import OWN, STORE_NAME, MemoryFilter, Store, leased
from cortex.engine.store.snapshots import ASKED, RESTORE, list_snapshots, make_snapshot
from cortex.families.memory.file_import import ImportedMemory
from cortex.families.memory.search import MemoryQuery, find
from cortex.families.memory.writer import add, add_all
from cortex.families.team.sync.state import RESYNC, URL
from cortex.families.team.writes.create import create
from cortex.interfaces.assembly.recovery import restore_snapshot, salvage_home

COUNT = 60
SUBJECTS = ("lamps", "doors", "wells", "roofs", "mills")
Damage = Callable[[bytearray], bytes]


def settings_at(home: Path) -> Settings:
    flags = {"indexing.workers": 1, "team.name": "Ada"}
    return load(None, environment={"CORTEX_HOME": str(home)}, flags=flags, user_home=home.parent)


@contextmanager
def opened(settings: Settings) -> Iterator[Library]:
    """The library, found by words alone, so that no model is loaded."""
    with Library(settings, embedders=Embedders(None)) as library:
        yield library


def memory_of(number: int) -> Memory:
    # Every tenth is longer than a page, so that its text lies on pages of its own.
    sentence = f"{SUBJECTS[number % 5]} number {number} stand in room {number * 7}. "
    return Memory(
        "",
        f"Thing {number}",
        text=sentence * (200 if number % 10 == 0 else 6),
        concepts=("things",),
    )


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A home with memories, records and settings, to be copied."""
    with inmemory.folder() as folder:
        settings = settings_at(folder / "home")
        with opened(settings) as library:
            add_all(
                library,
                [ImportedMemory(memory_of(number)) for number in range(COUNT)],
                state=MemoryState.APPROVED,
            )
            create(library, Subcortex("ops", "Operations"), actor=person())
            create(
                library,
                Thread("Who waters the plants", "Ada does.", subcortex="ops"),
                actor=person(),
            )
            library.store.checkpoint()
        (settings.home / "config.yml").write_text("search:\n  timeout: 7s\n", encoding="utf-8")
        yield settings.home


@pytest.fixture
def settings(made: Path, memory: Path) -> Settings:
    shutil.copytree(made, memory / "home")
    return settings_at(memory / "home")


def said(settings: Settings) -> set[str]:
    """The titles of all memories."""
    with opened(settings) as library:
        return {
            one.memory.title for one in library.store.memories.select(MemoryFilter(origins=(OWN,)))
        }


def check_sound(settings: Settings) -> None:
    """What is there is whole, searched, and written to as ever."""
    with opened(settings) as library:
        library.catch_up()
        assert library.store.check() == []
        for one in library.store.memories.select(MemoryFilter(origins=(OWN,))):
            number = one.memory.title.split()[1]
            assert one.memory.text == memory_of(int(number)).text
        add(library, Memory("", "Written afterwards", text="The zeppelin landed."))
        assert [hit.record.memory.title for hit in find(library, MemoryQuery("zeppelin")).hits][
            :1
        ] == ["Written afterwards"]


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_restore_that_fails_at_the_last_step_leaves_the_home_as_it_was(
    settings, monkeypatch, links
):
    home, replace = settings.home, os.replace
    snapshot = make_snapshot(home / STORE_NAME, ASKED)
    assert snapshot is not None

    def fail(source, target):
        if Path(target) == home / STORE_NAME and Path(source).parent != home:
            raise OSError(errno.EIO, "Input/output error")
        replace(source, target)

    def refuse(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch, pytest.raises(CortexError) as caught:
        patch.setattr(os, "replace", fail)
        if not links:
            patch.setattr(os, "link", refuse)
        restore_snapshot(settings, snapshot)
    assert caught.value.code == "STORE_IO"
    assert list(home.glob("cortex.db.*")) == []
    assert len(said(settings)) == COUNT


def test_a_snapshot_brings_back_memories_records_and_settings_and_that_can_be_undone(settings):
    home = settings.home
    snapshot = make_snapshot(home / STORE_NAME, ASKED)
    assert snapshot is not None
    with opened(settings) as library:
        add(library, Memory("", "Thing 99", text=memory_of(99).text))
    (home / "config.yml").write_text("search:\n  timeout: 9s\n", encoding="utf-8")
    done = restore_snapshot(settings, snapshot)
    assert done.before is not None and done.before.reason == RESTORE and done.kept is not None
    assert len(said(settings)) == COUNT
    assert "7s" in (home / "config.yml").read_text(encoding="utf-8")
    with opened(settings) as library:
        assert [hit.record.memory.title for hit in find(library, MemoryQuery("Thing 3")).hits][
            :1
        ] == ["Thing 3"]
        assert library.store.records.count(record_model.RecordFilter()) == 2
    restore_snapshot(settings, done.before)
    assert len(said(settings)) == COUNT + 1
    assert "9s" in (home / "config.yml").read_text(encoding="utf-8")
    check_sound(settings)


def test_what_another_process_wrote_during_a_restore_is_in_the_file_that_is_kept(settings):
    snapshot = make_snapshot(settings.home / STORE_NAME, ASKED)
    assert snapshot is not None
    with closing(sqlite3.connect(settings.home / STORE_NAME)) as other:
        other.execute("SELECT count(*) FROM memories").fetchone()
        done = restore_snapshot(settings, snapshot)
        other.execute("UPDATE memories SET title = 'Thing late' WHERE title = 'Thing 3'")
        other.commit()
    assert done.kept is not None and ".replaced-" in done.kept.name
    with closing(sqlite3.connect(done.kept)) as kept:
        assert kept.execute(
            "SELECT count(*) FROM memories WHERE title = 'Thing late'"
        ).fetchone() == (1,)
    again = restore_snapshot(settings, snapshot)
    assert again.kept is not None and again.kept.exists() and not done.kept.exists()


def test_the_oldest_of_seven_snapshots_outlives_its_restore(settings):
    for _ in range(7):
        make_snapshot(settings.home / STORE_NAME, ASKED)
    oldest = list_snapshots(settings.home)[-1]
    done = restore_snapshot(settings, oldest)
    left = list_snapshots(settings.home)
    assert done.before is not None and len(left) == 7
    assert {oldest.file, done.before.file} <= {snapshot.file for snapshot in left}


def test_a_home_that_was_put_back_compares_everything_with_its_core(settings):
    with opened(settings) as library:
        library.store.content.set({URL: "https://core.example"})
    snapshot = make_snapshot(settings.home / STORE_NAME, ASKED)
    assert snapshot is not None
    restore_snapshot(settings, snapshot)
    with opened(settings) as library:
        assert (library.store.content.get(URL), library.store.content.get(RESYNC)) == (
            "https://core.example",
            "1",
        )


def test_a_damaged_snapshot_and_one_in_use_change_nothing(settings):
    database = settings.home / STORE_NAME
    snapshot = make_snapshot(database, ASKED)
    assert snapshot is not None
    before = database.read_bytes()
    with leased(settings.home), pytest.raises(CortexError) as caught:
        restore_snapshot(settings, snapshot)
    assert caught.value.code == "STORE_LOCKED"
    raw = bytearray(snapshot.file.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    snapshot.file.write_bytes(raw)
    with pytest.raises(CortexError) as caught:
        restore_snapshot(settings, snapshot)
    assert caught.value.code == "IMPORT_UNREADABLE"
    assert database.read_bytes() == before
    assert sorted(path.name for path in settings.home.iterdir() if path.name.startswith(".")) == []


def cut_short(raw: bytearray) -> bytes:
    return bytes(raw[: len(raw) * 9 // 10])


def without_header(raw: bytearray) -> bytes:
    raw[:4096] = bytes(4096)
    return bytes(raw)


def without_roots(raw: bytearray) -> bytes:
    """Without the inner pages of all tables: SQLite can't get to what is below."""
    for start in range(0, len(raw), 4096):
        if raw[start] in (2, 5):
            raw[start : start + 4096] = b"\xff" * 4096
    return bytes(raw)


def with_flips(raw: bytearray) -> bytes:
    dice = random.Random(5)
    for _ in range(200):
        raw[dice.randrange(len(raw))] ^= dice.randrange(1, 256)
    return bytes(raw)


@pytest.mark.parametrize(
    ("damage", "fewest"),
    [(cut_short, 1), (without_header, COUNT), (without_roots, COUNT), (with_flips, COUNT // 2)],
)
def test_what_can_be_read_of_a_damaged_database_is_saved_and_the_file_kept(
    settings, damage: Damage, fewest
):
    database = settings.home / STORE_NAME
    raw = damage(bytearray(database.read_bytes()))
    database.write_bytes(raw)
    done = salvage_home(settings)
    assert done.kept.read_bytes() == raw and done.snapshot is None
    titles = said(settings)
    assert len(titles) >= fewest
    assert titles <= {memory_of(number).title for number in range(COUNT)}
    if damage is not with_flips:
        # A flipped letter in a text is nothing that can be noticed.
        check_sound(settings)


@pytest.mark.parametrize("damage", [cut_short, with_flips])
def test_the_newest_snapshot_fills_the_gaps(settings, damage: Damage):
    database = settings.home / STORE_NAME
    make_snapshot(database, ASKED)
    with opened(settings) as library:
        add(library, Memory("", "Thing 77", text=memory_of(77).text))
        library.store.checkpoint()
    database.write_bytes(damage(bytearray(database.read_bytes())))
    done = salvage_home(settings)
    assert done.snapshot is not None
    assert said(settings) >= {memory_of(number).title for number in range(COUNT)}
    with opened(settings) as library:
        assert library.store.records.count(record_model.RecordFilter()) == 2


def test_a_snapshot_doubles_no_citation_and_brings_back_those_of_lost_memories(settings):
    database = settings.home / STORE_NAME
    with closing(sqlite3.connect(database)) as connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM memories ORDER BY id LIMIT 2")]
        rows = [(number, "/r", "a.py", "f", b"1", b"2", "") for number in ids]
        connection.executemany("INSERT INTO citations VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
        make_snapshot(database, ASKED)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("DELETE FROM memories WHERE id = ?", ids[:1])
        connection.commit()
    salvage_home(settings)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT memory FROM citations ORDER BY memory").fetchall() == [
            (n,) for n in ids
        ]


def test_what_only_the_log_of_writes_has_is_saved_too(settings, memory):
    library = Library(settings, embedders=Embedders(None))
    add(library, Memory("", "Thing 88", text=memory_of(88).text))
    # As after a power cut: the log was not moved into the file.
    shutil.copytree(settings.home, memory / "cut")
    library.close()
    cut = settings_at(memory / "cut")
    raw = (cut.home / STORE_NAME).read_bytes()
    (cut.home / STORE_NAME).write_bytes(b"\0" * 4096 + raw[4096:])
    salvage_home(cut)
    assert len(said(cut)) == COUNT + 1


def test_where_nothing_can_be_read_the_file_stays_where_it_is(settings):
    database = settings.home / STORE_NAME
    noise = random.Random(1).randbytes(40_000)
    database.write_bytes(noise)
    with pytest.raises(CortexError) as caught:
        salvage_home(settings)
    assert caught.value.code == "STORE_CORRUPT" and "left as it is" in caught.value.message
    assert database.read_bytes() == noise


@pytest.mark.soak
def test_no_damage_costs_more_than_the_pages_that_it_hits(made, memory, campaign):
    """Random damage of every kind: what is told is true, the new database is sound, and with a
    snapshot nothing is lost.
    """
    for seed in range(campaign(3, 300)):
        dice = random.Random(seed)
        home = memory / str(seed)
        shutil.copytree(made, home)
        settings = settings_at(home)
        make_snapshot(home / STORE_NAME, ASKED)
        raw = bytearray((home / STORE_NAME).read_bytes())
        for _ in range(dice.choice((1, 5, 50))):
            start, length = dice.randrange(len(raw)), dice.choice((1, 100, 4096, 20_000))
            raw[start : start + length] = dice.choice((bytes, dice.randbytes))(
                min(length, len(raw) - start)
            )
        (home / STORE_NAME).write_bytes(raw)
        salvage_home(settings)
        with closing(Store(home, read_only=True)) as store:
            assert store.check_database() == [], seed
        # One letter of a title may be another now: nothing could tell.
        assert len(said(settings)) >= COUNT, seed
        assert len(list_snapshots(home)) == 1
        shutil.rmtree(home)
