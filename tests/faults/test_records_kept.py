"""What a team keeps outlives whatever happens to those who write it: acknowledged is there, exactly
once, and whole.
"""

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
from families.memory.desk import open_library, settings_of
from families.team.invariants import check_records
from faults.conftest import Program
from faults.plan import ROUND, key_of, made_by

LOG = f"{STORE_NAME}-wal"
KILLS_OF_A_HOME = 10
COUNTED = ("observation", "thread", "comment", "draft", "task", "artifact")
WAL_HEADER, FRAME = 32, 24 + 4096  # bytes of SQLite's log
ATTEMPTED = 128  # where its shared memory says how many frames the database may have already


class Acknowledged:
    """What was said to be done, by number; a retry is told the same."""

    def __init__(self) -> None:
        self.ids: dict[int, str] = {}

    def hear(self, line: str) -> None:
        number, _, told = line.partition(" ")
        assert told, "it ended by itself"
        assert self.ids.setdefault(int(number), told) == told, "a retry was told something else"

    @property
    def count(self) -> int:
        return len(self.ids)

    def check(self, home: Path, least: int, most: int) -> None:
        """So many writes are there, the first ones, each once and with what it was acknowledged
        with.
        """
        writes = writes_in(home)
        assert least <= writes <= most
        records = check_records(home, settings_of(home))
        counts = Counter(record.kind for record in records.values())
        assert Counter({kind: counts[kind] for kind in COUNTED}) == made_by(writes)
        for number in range(min(writes, self.count)):
            assert {one for one in self.ids[number].split(",") if one != "-"} <= set(records), (
                number
            )


def writes_in(home: Path) -> int:
    """How many writes a store has the keys of: the first ones, without a gap."""
    with closing(sqlite3.connect(home / STORE_NAME)) as database:
        keys = {row[0] for row in database.execute("SELECT key FROM keys")} - {"scope"}
    assert keys == {key_of(number) for number in range(len(keys))}
    return len(keys)


@pytest.mark.soak
def test_a_killed_contributor_has_lost_nothing_and_doubled_nothing(
    start, home, campaign, record_property
):
    chance, said, kills, writes = random.Random(8), Acknowledged(), campaign(4, 200), 0
    for turn in range(kills):
        if turn % KILLS_OF_A_HOME == 0:  # whatever there is is looked at after each
            writes += said.count
            said = Acknowledged()
            shutil.rmtree(home, ignore_errors=True)
        contributor = start("contributor.py")
        wanted = said.count + chance.randrange(1, 2 * len(ROUND))
        while said.count < wanted:
            said.hear(contributor.read())
        threading.Event().wait(chance.random() * 0.05)  # any moment, not only the one after a line
        for line in contributor.kill():
            said.hear(line)
        said.check(home, said.count, said.count + 1)  # one may have been under way
    with open_library(settings_of(home)) as library:
        assert library.holds_lease() and library.follow()
        assert library.store.check() == []
        assert library.store.indexes.words().watermark() == library.store.content.seq()
    record_property("writes", f"{writes + said.count} acknowledged, {kills} kills")


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="a process is stopped by a signal")
def test_whatever_the_disk_has_when_the_power_fails_is_whole(start, home, tmp_path, campaign):
    """The files as they are at a moment: with all that was handed over, and with a log that is torn
    where it wasn't needed yet.
    """
    chance, said, copy, torn = (
        random.Random(9),
        Acknowledged(),
        tmp_path / "copy",
        tmp_path / "torn",
    )
    with open_library(settings_of(home)):
        pass  # so that the database has its tables
    contributor, lost = start("contributor.py"), 0
    for _ in range(campaign(4, 100)):
        wanted = said.count + chance.randrange(1, len(ROUND))
        while said.count < wanted:
            said.hear(contributor.read())
        threading.Event().wait(chance.random() * 0.02)
        frames = copied(contributor, home, copy)
        shutil.copytree(copy, torn, dirs_exist_ok=True)
        said.check(copy, said.count, sys.maxsize)
        lost += tear(torn / LOG, frames, chance)
        said.check(torn, 0, sys.maxsize)
    contributor.kill()
    assert lost, "no log was torn"
    # The indexes were nowhere: they are made again
    with open_library(settings_of(copy)) as library:
        assert library.holds_lease() and library.follow()
        assert library.store.check() == []


def copied(contributor: Program, home: Path, copy: Path) -> int:
    """Take the database and its log while nobody moves; gives how many frames of the log the
    database relies on.
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
    """Cut the log anywhere behind these frames, and put there what nobody wrote; gives how many
    bytes are lost.
    """
    size = log.stat().st_size
    kept = chance.randrange(min(WAL_HEADER + frames * FRAME, size), size + 1)
    with log.open("r+b") as file:
        file.truncate(kept)
        file.seek(kept)
        file.write(chance.randbytes(chance.randrange(2 * FRAME)))
    return size - kept
