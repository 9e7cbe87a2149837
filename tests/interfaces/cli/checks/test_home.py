"""Checks of the home: damage, lost databases and snapshots."""

import json
import random
import sqlite3
from contextlib import closing

import pytest

from cortex.base.errors import short_of_memory
from cortex.base.settings import load
from cortex.engine.store import STORE_NAME
from cortex.engine.store.index.maintenance import Indexes
from cortex.interfaces.cli.checks.home import check_home
from interfaces.cli.home_memories import TITLES


def test_new_home_has_no_findings(isolated, cortex, monkeypatch, tmp_path, findings):
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
def test_doctor_finds_and_salvages_a_damaged_home(home, cortex, memory_titles, findings, how):
    cortex("backup", "create")
    raw = damage(home, how)
    code, found = findings("--fix")
    assert (code, found["home"]["level"], found["home"]["done"]) == (1, "error", "")
    assert "--salvage" in found["home"]["fix"] and "cortex.db" not in found["home"]["fix"]
    code, _, err = cortex("memory", "list")
    assert code == 1 and "STORE_CORRUPT" in err
    assert "cortex.db" not in "".join(line for line in err.splitlines() if line.startswith("  - "))
    code, out, _ = cortex("doctor", "--salvage", "--json")
    answer = json.loads(out)
    assert code == 0
    with open(answer["kept"], "rb") as kept:
        assert kept.read() == raw
    assert memory_titles() == set(TITLES)
    assert findings()[1]["home"]["level"] == "ok"
    assert "nothing to salvage" in cortex("doctor", "--salvage")[1]


def test_fix_rebuilds_an_index_inside_the_database_and_the_search_index_beside_it(
    home, cortex, memory_titles, findings
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
    assert memory_titles() == set(TITLES)


def test_fix_leaves_a_home_with_damaged_tables_alone(home, findings):
    """A page that two tables share: rebuilding indexes would overwrite one of them."""
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


def test_salvage_of_a_newer_home_is_an_error(home, cortex):
    with closing(sqlite3.connect(home / STORE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
    code, out, err = cortex("doctor", "--salvage")
    assert code == 1 and "STORE_NEWER" in err and "sound" not in out


def test_doctor_does_not_report_short_memory_as_damage(home, monkeypatch):
    def fail(indexes):
        raise short_of_memory("using the word index")

    monkeypatch.setattr(Indexes, "check_words", fail)
    found = next(check_home(load(None, environment={"CORTEX_HOME": str(home)})))
    assert "damaged" not in found.text and "MEMORY_SHORT" in found.text
