"""Databases of claude-mem that are closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from families.memory.adapters.claude_mem_databases import Made, make_claude_mem


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Made]]:
    opened: list[Made] = []

    def one(generation: str = "13") -> Made:
        opened.append(make_claude_mem(tmp_path / "there" / f"{len(opened)}.db", generation))
        return opened[-1]

    yield one
    for made in opened:
        made.close()
