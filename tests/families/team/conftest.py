"""A home with a library, for tests of a team's records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.settings import Settings, load
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library


@pytest.fixture
def tmp_path(memory: Path) -> Path:
    """A folder in memory, since most of these tests write durably."""
    return memory


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The settings of a person whose library is in this test's own folder."""
    environment = {"CORTEX_HOME": str(tmp_path / "home")}
    flags = {"indexing.workers": 1, "team.name": "Ada"}
    return load(None, environment=environment, flags=flags, user_home=tmp_path)


@pytest.fixture
def library(settings: Settings) -> Iterator[Library]:
    """A library that finds by words alone, so that no model is loaded."""
    with Library(settings, embedders=Embedders(None)) as library:
        yield library
