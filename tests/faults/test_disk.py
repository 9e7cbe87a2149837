"""A full disk: a clear error, nothing lost, and all is well when there is space again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
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
from faults.write_plan import key_of


@pytest.fixture
def small_home(tmp_path: Path) -> Iterator[Path]:
    """A home of Cortex on a file system of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except OSError:
        pytest.skip("there is no mount command here")
    if done.returncode:
        pytest.skip("mounting needs rights that this user hasn't")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True, timeout=20)


def test_indexing_on_a_full_disk_fails_clearly_and_resumes_with_space(small_home, tmp_path):
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


def test_record_on_a_full_disk_is_refused_clearly_or_kept_once(small_home):
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
        assert {record.id for record in library.store.records.select(RecordFilter(), 1_000)} == set(
            written.values()
        )
    check_records(small_home, settings)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of a file")
@pytest.mark.parametrize("limit", [60_000, 200_000])
def test_limit_on_file_size_fails_the_run_and_nothing_else(start, limit):
    outcomes, found, last, problems = json.loads(start("limited_indexer.py").ask(str(limit)))
    # SQLite doesn't say why a write failed
    assert outcomes == ["completed", "STORE_IO", "completed"]
    assert (found, last, problems) == (["a.py"], ["f119.txt"], [])
