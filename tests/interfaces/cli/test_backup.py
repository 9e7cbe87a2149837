"""`cortex backup`, and the home in `cortex doctor`: snapshots that come by themselves, and a
database that was damaged or lost.
"""

import json
import random
import shutil
import sqlite3
from contextlib import closing

import pytest

from cortex.base.errors import short_of_memory
from cortex.base.settings import load
from cortex.engine.store import STORE_NAME, snapshots
from cortex.engine.store.index.maintenance import Indexes
from cortex.interfaces.cli import run
from cortex.interfaces.cli.checks.home import check_home

TITLES = ("Apples grow on trees", "Pears are harder than plums")


@pytest.fixture
def home(isolated, monkeypatch, tmp_path):
    """A home with two memories and the snapshot of the day, by somebody who stands in no project."""
    monkeypatch.chdir(tmp_path)
    for title in TITLES:
        assert run(["memory", "add", title]) == 0
    return isolated.cortex


@pytest.fixture
def said(cortex):
    """The titles of all memories, as the command lists them."""
    return lambda: {
        one["title"] for one in json.loads(cortex("memory", "list", "--json")[1])["memories"]
    }


@pytest.fixture
def findings(cortex, tmp_path):
    """What the doctor says of home and backup, by check, with its exit code."""

    def look(*arguments):
        code, out, _ = cortex("doctor", "--json", *arguments)
        rows = {
            one["check"]: one
            for one in json.loads(out)["findings"]
            if one["check"] in ("home", "backup")
        }
        return code, rows

    return look


def test_the_first_write_of_a_day_makes_a_snapshot_and_the_next_ones_none(home, cortex):
    code, out, _ = cortex("backup", "list", "--json")
    (one,) = json.loads(out)["snapshots"]
    assert (code, one["reason"]) == (0, "daily")
    assert cortex("backup", "verify")[1].startswith(f"✓ {one['name']} is whole: 1 memory")
    status = json.loads(cortex("status", "--json")[1])["backups"]
    assert status == {"count": 1, "last": one["at"]}


def test_a_snapshot_that_can_not_be_made_fails_no_command_and_the_doctor_tells(
    home, cortex, findings, monkeypatch, caplog
):
    shutil.rmtree(home / "backups")
    (home / "backups").write_text("in the way", encoding="utf-8")
    assert cortex("memory", "add", "Plums are blue")[0] == 0
    assert "no snapshot of" in caplog.text
    (home / "backups").unlink()
    cortex("backup", "create")
    now = snapshots.time.time()
    monkeypatch.setattr("cortex.interfaces.cli.checks.home.is_due", lambda database: True)
    monkeypatch.setattr(
        "cortex.interfaces.cli.checks.home.time.time", lambda: now + 3 * snapshots.DAY_SECONDS
    )
    assert findings()[1]["backup"]["level"] == "warning"
    assert "made" in findings("--fix")[1]["backup"]["done"]


def test_a_restore_is_undone_by_another(home, cortex, said):
    cortex("backup", "create")
    cortex("memory", "add", "Plums are blue")
    code, _, err = cortex("backup", "restore")
    assert code == 2 and "--yes" in err and len(said()) == 3
    done = json.loads(cortex("backup", "restore", "--yes", "--json")[1])
    assert (done["memories"], said()) == (2, set(TITLES))
    assert cortex("backup", "restore", done["undo"], "--yes")[0] == 0
    assert said() == {*TITLES, "Plums are blue"}
    assert cortex("backup", "restore", "nonsense", "--yes")[0] == 2


def test_a_damaged_snapshot_is_passed_over_and_the_newest_whole_one_is_named(home, cortex, said):
    cortex("backup", "create")
    cortex("memory", "add", "Plums are blue")
    cortex("backup", "create")
    damaged, whole, _ = snapshots.list_snapshots(home)
    damaged.file.write_bytes(damaged.file.read_bytes()[:-9])
    for command in ("verify", "restore"):
        code, _, err = cortex("backup", command, damaged.name)
        assert (
            code == 1
            and "IMPORT_UNREADABLE" in err
            and f"`cortex backup restore {whole.name}`" in err
        )
    code, _, err = cortex("backup", "restore")
    assert code == 2 and "--yes" in err and damaged.name in err and len(said()) == 3
    done = json.loads(cortex("backup", "restore", "--yes", "--json")[1])
    assert (done["restored"]["name"], done["damaged"], said()) == (
        whole.name,
        [damaged.name],
        set(TITLES),
    )
    for snapshot in snapshots.list_snapshots(home):
        snapshot.file.write_bytes(b"")
    code, _, err = cortex("backup", "restore", "--yes")
    assert code == 1 and "all 4 snapshots are damaged" in err and "--salvage" in err


@pytest.mark.parametrize("empty", [True, False])
def test_a_database_that_is_lost_is_brought_back_and_nothing_is_written_before(
    home, cortex, said, findings, empty
):
    cortex("backup", "create")
    (home / STORE_NAME).unlink()
    if empty:
        (home / STORE_NAME).touch()
    before = sorted(path.name for path in home.rglob("*"))
    for words in (
        ["memory", "list"],
        ["memory", "add", "x y z"],
        ["kb", "list"],
        ["search", "apples", "--in", "memory"],
    ):
        code, _, err = cortex(*words)
        assert code == 1 and "STORE_LOST" in err and "cortex backup restore" in err, words
    assert "belongs to one that was in use" in cortex("status")[1]
    code, found = findings()
    assert (code, found["home"]["level"]) == (1, "error")
    assert "cortex.db" not in found["home"]["fix"]
    assert sorted(path.name for path in home.rglob("*")) == before
    assert cortex("backup", "restore", "--yes")[0] == 0
    assert said() == set(TITLES)
    assert findings()[1]["home"]["level"] == "ok"


def test_a_genuinely_new_home_is_silent(isolated, cortex, monkeypatch, tmp_path, findings):
    monkeypatch.chdir(tmp_path)
    assert cortex("memory", "list")[0] == 0
    found = findings()[1]
    assert (found["home"]["level"], "backup" in found) == ("ok", False)


def damage(home, how):
    raw = bytearray((home / STORE_NAME).read_bytes())
    if how == "noise":
        raw = bytearray(random.Random(1).randbytes(len(raw)))
    elif how == "half":
        raw = raw[: len(raw) // 2]
    else:
        dice = random.Random(3)
        for _ in range(300):
            raw[dice.randrange(len(raw))] ^= 0xFF
    (home / STORE_NAME).write_bytes(raw)
    return bytes(raw)


@pytest.mark.parametrize("how", ["noise", "half", "flips"])
def test_the_doctor_sees_a_damaged_home_and_salvages_it(home, cortex, said, findings, how):
    cortex("backup", "create")
    raw = damage(home, how)
    code, found = findings("--fix")
    assert (code, found["home"]["level"], found["home"]["done"]) == (1, "error", "")
    assert "--salvage" in found["home"]["fix"] and "cortex.db" not in found["home"]["fix"]
    code, _, err = cortex("memory", "list")
    assert code == 1 and "STORE_CORRUPT" in err
    assert "cortex.db" not in "".join(line for line in err.splitlines() if line.startswith("  - "))
    code, out, _ = cortex("doctor", "--salvage", "--json")
    told = json.loads(out)
    assert code == 0
    with open(told["kept"], "rb") as kept:
        assert kept.read() == raw
    assert said() == set(TITLES)
    assert findings()[1]["home"]["level"] == "ok"
    assert "nothing to salvage" in cortex("doctor", "--salvage")[1]


def test_fix_rebuilds_an_index_inside_the_database_and_the_search_index_beside_it(
    home, cortex, said, findings
):
    connection = sqlite3.connect(home / STORE_NAME, isolation_level=None)
    connection.execute("PRAGMA writable_schema = ON")
    # The rows that follow aren't in this index: as after a write that a disk lost.
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'concepts (memory)', 'concepts (concept)') "
        "WHERE name = 'concepts_memory'"
    )
    connection.close()
    connection = sqlite3.connect(home / STORE_NAME, isolation_level=None)
    connection.execute("INSERT OR IGNORE INTO concepts VALUES ('fruit', 1)")
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'concepts (concept)', 'concepts (memory)') "
        "WHERE name = 'concepts_memory'"
    )
    connection.close()
    code, found = findings()
    assert (code, found["home"]["level"]) == (1, "error")
    code, found = findings("--fix")
    assert "built anew" in found["home"]["done"]
    (kept,) = home.glob("cortex.db.damaged-*")
    with closing(sqlite3.connect(kept)) as connection:
        assert "missing from index" in connection.execute("PRAGMA integrity_check").fetchone()[0]
    assert findings()[1]["home"]["level"] == "ok"
    assert said() == set(TITLES)


def test_fix_leaves_a_home_alone_whose_tables_are_damaged(home, findings):
    """A page that two tables have: to build indexes anew would write over one of them."""
    with closing(sqlite3.connect(home / STORE_NAME, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'counters') "
            "WHERE name = 'concepts_memory'"
        )
    before = (home / STORE_NAME).read_bytes()
    code, found = findings("--fix")
    assert (code, found["home"]["fixable"], found["home"]["done"]) == (1, False, "")
    assert "--salvage" in found["home"]["fix"]
    assert (home / STORE_NAME).read_bytes() == before


def test_salvage_calls_no_home_sound_that_it_can_not_open(home, cortex):
    with closing(sqlite3.connect(home / STORE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
    code, out, err = cortex("doctor", "--salvage")
    assert code == 1 and "STORE_NEWER" in err and "sound" not in out


def test_a_setting_is_set_where_the_home_is_lost(home, cortex):
    (home / STORE_NAME).unlink()
    assert cortex("config", "set", "team.approval", "studio")[0] == 0
    assert cortex("config", "get", "team.approval")[1].strip() == "studio"
    assert not (home / STORE_NAME).exists()


def test_the_doctor_does_not_take_short_memory_for_damage(home, monkeypatch):
    def fail(indexes):
        raise short_of_memory("using the word index")

    monkeypatch.setattr(Indexes, "check_words", fail)
    found = next(check_home(load(None, environment={"CORTEX_HOME": str(home)})))
    assert "damaged" not in found.text and "MEMORY_SHORT" in found.text
