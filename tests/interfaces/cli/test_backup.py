"""`cortex backup`, and the home in `cortex doctor`: snapshots that come by themselves, and a
database that was damaged or lost.
"""

import json
import shutil
import time

import pytest

from cortex.engine.store import STORE_NAME, snapshots
from interfaces.cli.home_memories import TITLES


def test_only_the_first_write_of_a_day_makes_a_snapshot(home, cortex):
    code, out, _ = cortex("backup", "list", "--json")
    (one,) = json.loads(out)["snapshots"]
    assert (code, one["reason"]) == (0, "daily")
    assert cortex("backup", "verify")[1].startswith(f"✓ {one['name']} is whole: 1 memory")
    status = json.loads(cortex("status", "--json")[1])["backups"]
    assert status == {"count": 1, "last": one["at"]}


def test_failed_snapshot_fails_no_command_and_is_a_finding_of_the_doctor(
    home, cortex, findings, caplog
):
    shutil.rmtree(home / "backups")
    (home / "backups").write_text("in the way", encoding="utf-8")
    assert cortex("memory", "add", "Plums are blue")[0] == 0
    assert "could not make a snapshot of" in caplog.text
    (home / "backups").unlink()
    cortex("backup", "create")
    (made,) = snapshots.list_snapshots(home)
    days_ago = time.gmtime(made.at - 3 * snapshots.DAY_SECONDS)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", days_ago)
    made.file.rename(made.file.with_name(f"{stamp}-{made.reason}.db.gz"))
    assert findings()[1]["backup"]["level"] == "warning"
    assert "made" in findings("--fix")[1]["backup"]["done"]


def test_a_restore_is_undone_by_another(home, cortex, memory_titles):
    cortex("backup", "create")
    cortex("memory", "add", "Plums are blue")
    code, _, err = cortex("backup", "restore")
    assert code == 2 and "--yes" in err and len(memory_titles()) == 3
    done = json.loads(cortex("backup", "restore", "--yes", "--json")[1])
    assert (done["memories"], memory_titles()) == (2, set(TITLES))
    assert cortex("backup", "restore", done["undo"], "--yes")[0] == 0
    assert memory_titles() == {*TITLES, "Plums are blue"}
    assert cortex("backup", "restore", "nonsense", "--yes")[0] == 2


def test_damaged_snapshot_is_skipped_and_the_newest_whole_one_named(home, cortex, memory_titles):
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
    assert code == 2 and "--yes" in err and damaged.name in err and len(memory_titles()) == 3
    done = json.loads(cortex("backup", "restore", "--yes", "--json")[1])
    assert (done["restored"]["name"], done["damaged"], memory_titles()) == (
        whole.name,
        [damaged.name],
        set(TITLES),
    )
    for snapshot in snapshots.list_snapshots(home):
        snapshot.file.write_bytes(b"")
    code, _, err = cortex("backup", "restore", "--yes")
    assert code == 1 and "all 4 snapshots are damaged" in err and "--salvage" in err


@pytest.mark.parametrize("empty", [True, False])
def test_lost_database_is_restored_and_nothing_is_written_before(
    home, cortex, memory_titles, findings, empty
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
    assert memory_titles() == set(TITLES)
    assert findings()[1]["home"]["level"] == "ok"


def test_setting_can_be_set_when_the_database_is_lost(home, cortex):
    (home / STORE_NAME).unlink()
    assert cortex("config", "set", "team.approval", "studio")[0] == 0
    assert cortex("config", "get", "team.approval")[1].strip() == "studio"
    assert not (home / STORE_NAME).exists()
