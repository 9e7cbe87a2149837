"""Libraries with memories, and other products' databases, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cortex.base.settings import Settings, load
from cortex.base.types import Cancel
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.engine.store import MemoryFilter, Remembered
from cortex.families.memory.mirror import sync
from cortex.families.memory.search import MemoryQuery, MemoryResults, find
from families.memory.adapters.claude_mem_databases import MadeDatabase, make_claude_mem

LEASE_HOLDER = Path(__file__).with_name("lease_holder.py")


def settings_of(home: Path, flags: dict[str, object] | None = None, **variables: str) -> Settings:
    """The settings of a person with a library in that folder."""
    environment = {"CORTEX_HOME": str(home), **variables}
    return load(
        None,
        environment=environment,
        flags={"indexing.workers": 1, **(flags or {})},
        user_home=Path.home(),
    )


@contextmanager
def open_library(settings: Settings, *, read_only: bool = False) -> Iterator[Library]:
    """A library without an embedder, so that no model is loaded."""
    with Library(settings, embedders=Embedders(None), read_only=read_only) as library:
        yield library


def hold(library: Library) -> Library:
    """Take the lease of a library for this process."""
    assert library.store.lease.take()
    return library


def memories(library: Library, **wanted: object) -> list[Remembered]:
    return library.store.memories.select(MemoryFilter(**wanted))  # type: ignore[arg-type]


def titles(found: MemoryResults | list[Remembered]) -> list[str]:
    ones = [hit.record for hit in found.hits] if isinstance(found, MemoryResults) else found
    return [record.memory.title for record in ones]


def ask(library: Library, query: str = "", **more: object) -> MemoryResults:
    return find(library, MemoryQuery(query, **more))  # type: ignore[arg-type]


def copy(library: Library) -> bool:
    return sync(library, seconds=30)


def one_of(library: Library, key: str) -> Remembered:
    (record,) = library.store.memories.by_key(key)
    return record


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """Every file below a folder, with its time of change and size."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return [
        (str(file.relative_to(folder)), os.stat(file).st_mtime_ns, os.stat(file).st_size)
        for file in files
    ]


def database(
    folder: Path, *titles: str, generation: str = "13", close: bool = False
) -> MadeDatabase:
    """A database with an observation for each title."""
    made = make_claude_mem(folder / "claude-mem.db", generation)
    session = made.session("s1")
    for number, title in enumerate(titles):
        made.observation(session, title, created_at_epoch=1_794_768_000_000 + number * 1000)
    if close:
        made.close()
    return made


def start_lease_holder(home: Path) -> subprocess.Popen[str]:
    """A process that holds the lease of a library, until a line comes on its stdin."""
    holder = subprocess.Popen(
        [sys.executable, str(LEASE_HOLDER), str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None and holder.stdout.readline().strip() == "holds"
    return holder


class CancelAfter(Cancel):
    """A cancellation that takes effect after so many looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def __bool__(self) -> bool:
        self.looks -= 1
        return self.looks < 0
