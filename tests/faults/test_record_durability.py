"""Acknowledged team records survive the kill of their writer and a power failure."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import struct
import sys
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from cortex.engine.store import STORE_NAME
from families.memory.libraries import open_library, settings_of
from families.team.invariants import check_records
from faults.conftest import Program
from faults.write_plan import ROUND, key_of, records_after

LOG = f"{STORE_NAME}-wal"
KILLS_PER_HOME = 10
COUNTED = ("observation", "thread", "comment", "draft", "task", "artifact")
# Bytes of SQLite's log
WAL_HEADER, FRAME = 32, 24 + 4096
# Offset in its shared memory of the number of frames that the database may have already
ATTEMPTED = 128


class Acknowledged:
    """Ids of acknowledged writes, by number; a retry must be answered with the same."""

    def __init__(self) -> None:
        self.ids: dict[int, str] = {}

    def add(self, line: str) -> None:
        number, _, ids = line.partition(" ")
        assert ids, "the contributor ended by itself"
        assert self.ids.setdefault(int(number), ids) == ids, "a retry was answered differently"

    @property
    def count(self) -> int:
        return len(self.ids)

    def check(self, home: Path, least: int, most: int) -> None:
        """Check that the first writes are there, each once and with its acknowledged id."""
        writes = writes_in(home)
        assert least <= writes <= most
        records = check_records(home, settings_of(home))
        counts = Counter(record.kind for record in records.values())
        assert Counter({kind: counts[kind] for kind in COUNTED}) == records_after(writes)
        for number in range(min(writes, self.count)):
            ids = set(self.ids[number].split(",")) - {"-"}
            assert ids <= set(records), number


def writes_in(home: Path) -> int:
    """The number of writes of which a store has the keys: the first ones, without a gap."""
    with closing(sqlite3.connect(home / STORE_NAME)) as database:
        keys = {row[0] for row in database.execute("SELECT key FROM keys")} - {"scope"}
    assert keys == {key_of(number) for number in range(len(keys))}
    return len(keys)


@pytest.mark.soak
def test_killed_contributor_loses_and_doubles_no_acknowledged_record(
    start, home, campaign, record_property
):
    chance, acknowledged, kills, writes = random.Random(8), Acknowledged(), campaign(4, 200), 0
    for turn in range(kills):
        if turn % KILLS_PER_HOME == 0:  # each check looks at all records of the home
            writes += acknowledged.count
            acknowledged = Acknowledged()
            shutil.rmtree(home, ignore_errors=True)
        contributor = start("record_contributor.py")
        wanted = acknowledged.count + chance.randrange(1, 2 * len(ROUND))
        while acknowledged.count < wanted:
            acknowledged.add(contributor.read())
        threading.Event().wait(chance.random() * 0.05)  # any moment, not only after a line
        for line in contributor.kill():
            acknowledged.add(line)
        acknowledged.check(
            home, acknowledged.count, acknowledged.count + 1
        )  # a write may have been interrupted
    with open_library(settings_of(home)) as library:
        assert library.holds_lease() and library.follow()
        assert library.store.check() == []
        assert library.store.indexes.words().watermark() == library.store.content.seq()
    record_property("writes", f"{writes + acknowledged.count} acknowledged, {kills} kills")


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="a process is stopped by a signal")
def test_records_are_whole_after_a_power_failure(start, home, tmp_path, campaign):
    """The files are copied at any moment, once whole and once with a torn end of the log."""
    chance, acknowledged, copy, torn = (
        random.Random(9),
        Acknowledged(),
        tmp_path / "copy",
        tmp_path / "torn",
    )
    with open_library(settings_of(home)):
        pass  # so that the database has its tables
    contributor, lost = start("record_contributor.py"), 0
    for _ in range(campaign(4, 100)):
        wanted = acknowledged.count + chance.randrange(1, len(ROUND))
        while acknowledged.count < wanted:
            acknowledged.add(contributor.read())
        threading.Event().wait(chance.random() * 0.02)
        frames = copy_database(contributor, home, copy)
        shutil.copytree(copy, torn, dirs_exist_ok=True)
        acknowledged.check(copy, acknowledged.count, sys.maxsize)
        lost += tear(torn / LOG, frames, chance)
        acknowledged.check(torn, 0, sys.maxsize)
    contributor.kill()
    assert lost, "no log was torn"
    # The indexes were not copied: they are built again
    with open_library(settings_of(copy)) as library:
        assert library.holds_lease() and library.follow()
        assert library.store.check() == []


def copy_database(contributor: Program, home: Path, copy: Path) -> int:
    """Copy the database and its log while the contributor is stopped.

    Returns the number of frames of the log that the database relies on.
    """
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    os.kill(contributor.process.pid, signal.SIGSTOP)
    try:
        assert os.WIFSTOPPED(os.waitpid(contributor.process.pid, os.WUNTRACED)[1])
        for name in (STORE_NAME, LOG):
            shutil.copy(home / name, copy / name)
        return struct.unpack_from("=I", (home / f"{STORE_NAME}-shm").read_bytes(), ATTEMPTED)[0]
    finally:
        os.kill(contributor.process.pid, signal.SIGCONT)


def tear(log: Path, frames: int, chance: random.Random) -> int:
    """Cut the log behind these frames and append noise; returns the number of lost bytes."""
    size = log.stat().st_size
    kept = chance.randrange(min(WAL_HEADER + frames * FRAME, size), size + 1)
    with log.open("r+b") as file:
        file.truncate(kept)
        file.seek(kept)
        file.write(chance.randbytes(chance.randrange(2 * FRAME)))
    return size - kept
