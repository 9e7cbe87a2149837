"""A disk or memory that fails in one call: a clear error, nothing lost, all well afterwards."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from cortex.base.actors import person
from cortex.base.errors import explained
from cortex.base.record_model import Observation, RecordFilter
from cortex.base.settings import Settings, load
from cortex.base.types import Memory, Query
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.engine.store import OWN, STORE_NAME, Store
from cortex.engine.store.schema import MIGRATIONS, migrate
from cortex.engine.store.snapshots import (
    ASKED,
    MOST,
    list_snapshots,
    make_snapshot,
    verify_snapshot,
)
from cortex.families.memory import search as finding
from cortex.families.memory.curation import delete
from cortex.families.memory.writer import add
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.writes.create import create
from cortex.interfaces.assembly import recovery
from cortex.interfaces.cli.checks import Level
from cortex.interfaces.cli.checks.home import check_home
from families.memory.libraries import memories, settings_of
from families.team.invariants import check_records
from faults.call_faults import HEAP_BYTES, Fault, Faults, install
from faults.write_plan import key_of

LAMP = 'def switch_lamp(state):\n    """Turn the lamp on or off."""\n    return not state\n'
SEED = 19
# So that the database has to grow for a text
TEXT_BYTES = 3_000
STEPS = (
    *(
        "record",
        "memory",
        "forget",
        "document",
        "index",
        "search",
        "find",
        "catch_up",
        "clean_up",
        "rebuild",
    ),
    *("snapshot", "restore", "doctor", "reopen", "migrate"),
)
LEFTOVERS = (".snapshot-*", ".recovery-*", "cortex.db.damaged-*", "tmp*")


class World:
    """A home and a project in use, and their acknowledged writes."""

    def __init__(self, settings: Settings, documents: Path, chance: random.Random) -> None:
        assert settings.root is not None
        self.root, self.home, self.older = (
            settings.root,
            settings.home,
            settings.home.with_name("older"),
        )
        self.settings, self.home_settings, self.chance = (
            settings,
            settings_of(settings.home),
            chance,
        )
        self.documents = documents
        self.documents.mkdir()
        self.older.mkdir()
        (self.root / "lamp.py").write_text(LAMP, encoding="utf-8")
        self.number = 0
        self.records: dict[int, str] = {}  # acknowledged: ids by number
        self.memories: dict[int, str] = {}  # facts by number
        self.snapshots: list[Path] = []  # acknowledged
        self.is_open = False

    def open(self) -> None:
        self.library = Library(self.home_settings, embedder=HashingEmbedder())
        try:
            self.engine = Engine(self.root, self.settings, embedder=HashingEmbedder())
        except BaseException:
            self.library.close()
            raise
        self.is_open = True

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            with closing(self.library):
                self.engine.close()

    # -- steps

    def prepare(self, step: str) -> None:
        """Prepare what the step needs, before anything fails."""
        self.number += 1
        lines = f"def lamp_{self.number}():\n    return '{self.text()}'\n"
        match step:
            case "index":
                (self.root / f"f{self.number}.py").write_text(lines, encoding="utf-8")
            case "document":
                (self.documents / f"d{self.number}.md").write_text(
                    f"# Lamp {self.number}\n\n{self.text()}\n", "utf-8"
                )
            case "catch_up":
                self.library.store.content.recheck_vectors()
            case "forget":
                self.memory()
            case "restore":
                make_snapshot(self.home / STORE_NAME, ASKED)
            case "migrate":
                self.make_older()
            case _:
                pass

    def record(self) -> None:
        body = Observation(f"Lamp {self.number}", f"the lamp{self.number} flickers {self.text()}")
        self.records[self.number] = create(
            self.library, body, actor=person(), key=key_of(self.number)
        ).id

    def memory(self) -> None:
        self.memories[self.number] = self.text()
        add(
            self.library, Memory("", f"The lamp {self.number} hums", facts=("it hums", self.text()))
        )

    def forget(self) -> None:
        title = f"The lamp {self.number} hums"
        delete(
            self.library,
            [
                memory
                for memory in memories(self.library, origins=(OWN,))
                if memory.memory.title == title
            ],
        )
        del self.memories[self.number]

    def document(self) -> None:
        self.library.index(source=self.library.folder("documents").source)

    def index(self) -> None:
        assert self.engine.index().status == "completed"

    def search(self) -> None:
        self.engine.search(Query(f"switch lamp {self.number}"))

    def find(self) -> None:
        find(self.library.reader, RecordQuery(f"lamp{self.number} flickers"))
        finding.find(self.library, finding.MemoryQuery(f"lamp {self.number} hums"))

    def catch_up(self) -> None:
        self.library.catch_up()
        self.engine.catch_up()

    def clean_up(self) -> None:
        Engine.clean_up(self.library)  # the day's snapshot is a step of its own
        self.engine.clean_up()

    def rebuild(self) -> None:
        self.library.store.indexes.rebuild()

    def snapshot(self) -> None:
        made = make_snapshot(self.home / STORE_NAME, ASKED)
        assert made is not None
        self.snapshots.append(made.file)

    def restore(self) -> None:
        self.close()
        recovery.restore_snapshot(self.home_settings, list_snapshots(self.home)[0])
        self.open()

    def doctor(self) -> None:
        """The doctor may report the failing call, but never damage."""
        wrong = [found for found in check_home(self.home_settings) if found.level is not Level.OK]
        assert not [
            found for found in wrong if "damaged" in found.text or "salvage" in found.fix
        ], wrong

    def reopen(self) -> None:
        self.close()
        self.open()

    def migrate(self) -> None:
        Store(self.older).close()

    # -- conditions afterwards

    def check(self, step: str) -> None:
        """Go on as before: every call works, and all acknowledged writes are there."""
        if not self.is_open:
            self.open()
        assert step != "migrate" or self.is_migrated()
        # A retry, where that was the step
        self.record()
        if step == "memory":
            self.memory()
        if step == "forget" and self.number in self.memories:
            self.forget()
        self.document()
        self.index()
        assert (
            find(self.library.reader, RecordQuery(f"lamp{self.number} flickers")).hits[0].record.id
            in self.records.values()
        )
        assert self.engine.search(Query("switch lamp state")).hits[0].path == "lamp.py"
        self.catch_up()
        store = self.library.store
        problems = store.check() + self.engine.store.check()
        assert problems == [], problems
        kept = {record.id for record in store.records.select(RecordFilter(), 100_000)}
        assert kept == set(self.records.values())
        check_records(self.home, self.home_settings)
        self.check_memories()
        indexed = {
            doc.path for doc in store.content.docs(self.library.folder("documents").source.id)
        }
        assert indexed == {path.name for path in self.documents.iterdir()}
        found = [snapshot.file for snapshot in list_snapshots(self.home)]
        assert len(found) >= MOST or set(self.snapshots) <= set(found)
        for snapshot in list_snapshots(self.home)[:1]:
            verify_snapshot(snapshot)
        folders = (self.home, self.home / "backups", self.engine.store.directory)
        left = [
            path for folder in folders if folder for name in LEFTOVERS for path in folder.glob(name)
        ]
        assert left == []

    def check_memories(self) -> None:
        known = sorted(
            (memory.memory.title, memory.memory.facts)
            for memory in memories(self.library, origins=(OWN,))
        )
        expected = (
            (f"The lamp {number} hums", ("it hums", text)) for number, text in self.memories.items()
        )
        assert known == sorted(expected)

    def make_older(self) -> None:
        """Make a store of an earlier version of Cortex, with a folder of documents in it."""
        for path in sorted(self.older.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        with closing(sqlite3.connect(self.older / STORE_NAME)) as connection:
            migrate(connection, self.chance.randrange(3, len(MIGRATIONS)))
            connection.execute("INSERT INTO sources VALUES (7, 'documents', 'notes', '/notes')")
            connection.execute("INSERT INTO folders VALUES (7, 'notes', '[]', '[]', 1, 0)")
            connection.commit()

    def is_migrated(self) -> bool:
        with closing(Store(self.older)) as store:
            return [folder.key for folder in store.folders.all()] == [
                "notes"
            ] and store.check() == []

    def text(self) -> str:
        """A text of this round that can't be compressed."""
        return random.Random(self.number).randbytes(TEXT_BYTES // 2).hex()


@pytest.fixture
def world(memory: Path, tmp_path: Path) -> Iterator[World]:
    """A world in memory, where the many durable writes cost nothing."""
    root = memory / "work"
    root.mkdir()
    (root / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    settings = load(
        root, environment={"CORTEX_HOME": str(memory / "home")}, flags={"indexing.workers": 1}
    )
    made = World(settings, tmp_path / "documents", random.Random(SEED))
    yield made
    made.close()


@pytest.fixture
def faults(world: World, monkeypatch: pytest.MonkeyPatch) -> Faults:
    made = Faults((world.home, world.root / ".cortex", world.older))
    install(made, monkeypatch)
    # A restored store has the same embedder.
    monkeypatch.setattr(recovery, "Library", partial(Library, embedder=HashingEmbedder()))
    return made


def play(world: World, faults: Faults, step: str, fault: Fault, calls: int) -> str:
    """Play a step with a fault in one of its calls, and return the error code that it raised."""
    chance, code = world.chance, ""
    at, lasting, heap = (
        chance.randint(1, calls),
        chance.random() < 0.5,
        chance.randrange(HEAP_BYTES),
    )
    story = f"{step} {world.number}: {fault.name} at {at} of {calls}, lasting {lasting}, {heap}"
    try:
        with faults.armed(fault, at, lasting=lasting, heap=heap):
            getattr(world, step)()
    except Exception as error:
        answer = explained(error, step)
        code = answer.code
        advice = " ".join(answer.suggestions).lower()
        assert code == fault.code and not ("delete" in advice or "cortex.db" in advice), (
            story,
            repr(error),
        )
    try:
        world.check(step)
    except Exception as error:
        raise AssertionError(f"{story}, code {code!r}") from error
    return code


@pytest.mark.soak
def test_failing_call_gives_its_error_code_and_loses_nothing(campaign, world, faults):
    world.open()
    world.library.add_folder(world.documents)
    observed: dict[str, Counter[str]] = {}
    for step in STEPS:
        world.prepare(step)
        faults.counts.clear()
        getattr(world, step)()
        observed[step] = Counter(faults.counts)
        world.check(step)
    codes: Counter[str] = Counter()
    chosen = [
        (step, fault) for step in STEPS for fault in faults.available if observed[step][fault.kind]
    ]
    rounds = campaign(20, 400)
    for number in range(rounds):
        if number % len(chosen) == 0:
            world.chance.shuffle(chosen)
        step, fault = chosen[number % len(chosen)]
        world.prepare(step)
        code = play(world, faults, step, fault, observed[step][fault.kind])
        codes[code or ("nothing" if faults.hits else "not reached")] += 1
    print(f"{rounds} rounds of {len(chosen)} pairs: {dict(codes)}")
