"""A collection of Chroma, and databases of claude-mem that are closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from families.memory.adapters.chroma_stores import MadeCollection, make_collection
from families.memory.adapters.claude_mem_databases import MadeDatabase, make_claude_mem


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., MadeDatabase]]:
    opened: list[MadeDatabase] = []

    def make_one(generation: str = "13") -> MadeDatabase:
        opened.append(make_claude_mem(tmp_path / "there" / f"{len(opened)}.db", generation))
        return opened[-1]

    yield make_one
    for made in opened:
        made.close()


@pytest.fixture
def made(tmp_path: Path) -> MadeCollection:
    return make_collection(tmp_path / "chroma", "notes")
