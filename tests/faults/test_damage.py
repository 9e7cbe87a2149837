"""Damaged files, memory and disks that run out: no write is lost, all else is repaired."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.errors import CortexError
from cortex.base.record_model import Observation, RecordFilter
from cortex.base.settings import Settings
from cortex.base.types import Query
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.writes.create import create
from families.memory.libraries import open_library, settings_of
from faults.conftest import Program
from faults.write_plan import key_of

LAMP = 'def switch_lamp(state):\n    """Turn the lamp on or off."""\n    return not state\n'
SEED = 19
PRIMARY_FILES = ("cortex.db", "cortex.db-wal", "cortex.db-shm")
DAMAGES = ("truncate", "flip", "zero", "delete", "folder")
# Truncated last: the system ends a process whose mapped file is cut.
DAMAGES_WHILE_OPEN = ("flip", "zero", "delete", "folder", "truncate")
SHORTAGES = ("MEMORY_SHORT", "DISK_FULL", "STORE_IO", "INDEX_DAMAGED")


def damage(path: Path, how: str, chance: random.Random) -> None:
    """Truncate, flip bits of, zero or delete a file, or put a folder in its place."""
    raw = bytearray(path.read_bytes())
    if how in ("delete", "folder"):
        path.unlink()
    if how == "folder":
        path.mkdir()
    if how == "truncate":
        path.write_bytes(raw[: len(raw) // 2])
    if how == "zero":
        path.write_bytes(bytes(len(raw)))
    if how == "flip":
        for _ in range(max(1, len(raw) // 200)):
            if raw:
                raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)


def files_of(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def project(root: Path) -> Path:
    (root / "lamp.py").write_text(LAMP, encoding="utf-8")
    return root


@contextmanager
def opened(root: Path, home: Path, settings: Settings) -> Iterator[tuple[Library, Engine]]:
    with (
        open_library(settings_of(home)) as library,
        Engine(root, settings, embedder=HashingEmbedder()) as engine,
    ):
        yield library, engine


def work(library: Library, engine: Engine, number: int) -> str:
    """Write and find a record, index and find a file of the project, and check all indexes."""
    body = Observation(f"Lamp {number}", f"the lamp{number} flickers")
    written = create(library, body, actor=person(), key=key_of(number)).id
    assert find(library.reader, RecordQuery(f"lamp{number} flickers")).hits[0].record.id == written
    engine.index()
    assert engine.search(Query("switch lamp")).hits[0].path == "lamp.py"
    library.catch_up()
    engine.catch_up()
    assert library.store.check() == [] and engine.store.check() == []
    return written


@pytest.mark.soak
def test_file_damaged_between_two_calls_is_repaired_without_a_person(
    campaign, project, home, settings
):
    chance, written = random.Random(SEED), []
    with opened(project, home, settings) as (library, engine):
        written.append(work(library, engine, 0))
    for number in range(1, campaign(8, 200)):
        files = [
            path
            for path in files_of(home, project / ".cortex")
            if path.parent != home or path.name not in PRIMARY_FILES
        ]
        path, how = chance.choice(files), DAMAGES[number % len(DAMAGES)]
        damage(path, how, chance)
        with opened(project, home, settings) as (library, engine):
            written.append(work(library, engine, number))
            kept = {
                record.id
                for record in library.store.records.select(RecordFilter(), 2 * len(written))
            }
            assert kept == set(written), (number, path, how)


@pytest.mark.soak
def test_damaged_database_of_a_home_is_a_clear_error_and_spares_projects(
    campaign, project, home, settings
):
    chance = random.Random(SEED)
    with opened(project, home, settings) as (library, engine):
        work(library, engine, 0)
    whole = home.with_name("whole")
    shutil.copytree(home, whole)
    for number in range(campaign(5, 50)):
        damage(home / "cortex.db", DAMAGES[number % len(DAMAGES)], chance)
        try:
            with open_library(settings_of(home)) as library:
                find(library.reader, RecordQuery("lamp flickers"))
        except CortexError as error:
            assert error.code in ("STORE_CORRUPT", "STORE_NEWER", "STORE_LOST"), (
                number,
                error.message,
            )
            assert "cortex.db" not in " ".join(error.suggestions)
        assert not list(home.glob("cortex.db.damaged-*"))
        with Engine(project, settings, embedder=HashingEmbedder()) as engine:
            assert engine.search(Query("switch lamp")).hits[0].path == "lamp.py"
        shutil.rmtree(home)
        shutil.copytree(whole, home)


class Agent:
    """A process that writes and searches, started again when the system ends it."""

    def __init__(self, start: Callable[[str], Program]) -> None:
        self._start, self.ended = start, -1
        self.begin()

    def begin(self) -> None:
        self.program, self.ended = self._start("record_agent.py"), self.ended + 1
        assert self.program.read() == "ready"

    def ask(self, line: str) -> Any:
        """The answer, or None if the process ended before it."""
        try:
            answer = self.program.ask(line)
        except BrokenPipeError:
            answer = ""
        if answer:
            return json.loads(answer)
        self.program.end()
        self.begin()
        return None


@pytest.mark.soak
@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows doesn't let a file be replaced that is open"
)
def test_file_damaged_while_agents_write_and_search_is_repaired(campaign, project, home, start):
    chance, written, agents = random.Random(SEED), {}, [Agent(start), Agent(start)]
    for number in range(campaign(3, 60)):
        for agent in agents:
            agent.ask("ask")
        files = [
            path
            for path in files_of(home, project / ".cortex")
            if path.parent != home or path.name not in PRIMARY_FILES
        ]
        path, how = chance.choice(files), DAMAGES_WHILE_OPEN[number % len(DAMAGES_WHILE_OPEN)]
        damage(path, how, chance)
        answer = agents[number % 2].ask(f"write {number}")
        if isinstance(answer, str):
            written[number] = answer
    for agent in agents:
        agent.program.end()
    last = Agent(start)
    for number, name in written.items():
        assert last.ask(f"write {number}") == name
    assert last.ask("ask")[0] == "lamp.py"
    assert last.ask("check") == []


@pytest.mark.soak
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are set as Linux has them")
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_shortage_of_memory_or_disk_gives_its_error_code_and_loses_nothing(
    campaign, project, home, start, kind
):
    chance, agent, written, codes = random.Random(SEED), Agent(start), {}, Counter()
    sizes = (0, 400 << 20) if kind == "memory" else (4_096, 2_000_000)
    for number in range(campaign(3, 40)):
        (project / f"f{number}.py").write_text(
            f"def lamp_{number}():\n    return {number}\n" * 40, encoding="utf-8"
        )
        agent.ask(f"limit {kind} {chance.randrange(*sizes)}")
        for line in (f"write {number}", "ask"):
            answer = agent.ask(line)
            if isinstance(answer, dict):
                codes[answer["error"]] += 1
                assert answer["error"] in SHORTAGES, answer
            elif line != "ask" and answer:
                written[number] = answer
        agent.ask(f"limit {kind} ")
        assert agent.ask("ask")[0] in ("lamp.py", f"f{number}.py")
    for number, name in written.items():
        assert agent.ask(f"write {number}") == name
    assert agent.ask("check") == []
    print(f"{kind}: {len(written)} written, {dict(codes)}, ended by the system {agent.ended} times")
