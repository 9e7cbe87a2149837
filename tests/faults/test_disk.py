"""A disk that is full: said clearly, nothing lost, and all is well when there is space again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from cortex.base.actors import person
from cortex.base.errors import CortexError
from cortex.base.record_model import Observation, RecordFilter
from cortex.base.settings import load
from cortex.base.types import Mode, Query
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.families.team.writes.create import create
from families.memory.libraries import open_library, settings_of
from families.team.invariants import check_records
from faults.plan import key_of


@pytest.fixture
def small_home(tmp_path: Path):
    """A home of Cortex on a file system of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except OSError:
        pytest.skip("there is no mount command here")
    if done.returncode:
        pytest.skip("mounting needs rights that this user hasn't")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=20)


def test_indexing_on_a_full_disk_says_so_and_goes_on_when_there_is_space(small_home, tmp_path):
    root = tmp_path / "plain"
    root.mkdir()
    settings = load(
        root, environment={"CORTEX_HOME": str(small_home)}, flags={"indexing.workers": 1}
    )
    (root / "a.py").write_text("kept = 'before'\n", encoding="utf-8")
    with Engine(root, settings) as engine:
        assert engine.store.directory and small_home in engine.store.directory.parents
        engine.index()
        for number in range(20):
            lines = (f"{os.urandom(20).hex()} {line}\n" for line in range(1200))
            (root / f"f{number}.txt").write_text("".join(lines), encoding="utf-8")
        with pytest.raises(CortexError) as caught:
            engine.index()
        assert (caught.value.code, caught.value.retryable) == ("DISK_FULL", True)
        assert engine.freshness().state == "error"
        assert [hit.path for hit in engine.search(Query("before", mode=Mode.WORDS)).hits] == [
            "a.py"
        ]
        subprocess.run(["mount", "-o", "remount,size=60m", str(small_home)], check=True, timeout=20)
        assert engine.index().status == "completed"
        assert len(engine.store.content.known(engine.source.id)) == 21
        assert engine.store.check() == []
        assert engine.freshness().state == "ready"


def test_records_on_a_full_disk_are_refused_clearly_or_kept_once(small_home):
    settings, written = settings_of(small_home), {}

    def write(library: Library, number: int) -> str:
        body = Observation(f"Lamp {number}", f"{random.Random(number).randbytes(4_000).hex()}")
        return create(library, body, actor=person(), key=key_of(number)).id

    with open_library(settings) as library:
        for number in range(500):
            try:
                written[number] = write(library, number)
            except CortexError as error:
                refused = error
                break
        assert (refused.code, refused.retryable) == ("DISK_FULL", True)
        subprocess.run(["mount", "-o", "remount,size=60m", str(small_home)], check=True, timeout=20)
        assert {write(library, number) for number in written} == set(written.values())  # retries
        written[number] = write(library, number)
        assert library.follow() and library.store.check() == []
        assert {found.id for found in library.store.records.select(RecordFilter(), 1_000)} == set(
            written.values()
        )
    check_records(small_home, settings)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of a file")
@pytest.mark.parametrize("limit", [60_000, 200_000])
def test_files_that_may_not_grow_cost_the_run_and_nothing_else(start, limit):
    outcomes, found, last, problems = json.loads(start("narrow.py").ask(str(limit)))
    # SQLite doesn't say why a write failed
    assert outcomes == ["completed", "STORE_IO", "completed"]
    assert (found, last, problems) == (["a.py"], ["f119.txt"], [])
