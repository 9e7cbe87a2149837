"""Homes and a Core, for tests of syncing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from cortex.engine.library import Library
from cortex.families.team.sync.connection import connect
from families.memory.libraries import open_library, settings_of
from families.team.sync.fake_core import TOKEN, FakeCore
from families.team.sync.members import Member, put_back
from interfaces.team_server.commands.core_server import CoreServer, core_at


@pytest.fixture
def homes(memory: Path) -> Iterator[Callable[..., Library]]:
    """`homes("ada")` opens the library of that home."""
    with ExitStack() as stack:
        yield lambda name="ada", **flags: stack.enter_context(
            open_library(settings_of(memory / name, flags))
        )


@pytest.fixture
def library(homes: Callable[..., Library]) -> Library:
    return homes()


@pytest.fixture
def core() -> Iterator[FakeCore]:
    core = FakeCore()
    yield core
    core.close()


@pytest.fixture
def joined(library: Library, core: FakeCore) -> Library:
    """A connected home without records."""
    connect(library, core.url, TOKEN)
    return library


@pytest.fixture
def team(memory: Path) -> Iterator[CoreServer]:
    with core_at(memory / "core") as core:
        yield core


@pytest.fixture
def member(team: CoreServer, homes: Callable[..., Library]) -> Iterator[Callable[..., Member]]:
    made: list[Member] = []

    def join(name: str, tier: int = 4) -> Member:
        made.append(Member(team, name, homes(name), tier))
        return made[-1]

    yield join
    for member in made:
        member.remote.close()


@pytest.fixture
def other() -> Iterator[FakeCore]:
    """A second Core, with another history."""
    core = FakeCore()
    core.epoch = "other"
    yield core
    core.close()


@pytest.fixture
def restored(team: CoreServer, memory: Path) -> Callable[..., AbstractContextManager[CoreServer]]:
    """`with restored() as core` serves the Core as it was when the backup was made."""
    return lambda name="restored": core_at(put_back(team, memory / "backup", memory / name))
