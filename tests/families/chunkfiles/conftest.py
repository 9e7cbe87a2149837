"""Folders of chunk files, indexes that are closed after a test, and a stand-in for an embedding
server.
"""

import pytest

from command_fixtures import cortex
from cortex.base.settings import load
from cortex.families.chunkfiles import watcher
from cortex.families.chunkfiles.index import ChunkIndex
from engine.embedders.stub import Stub

__all__ = ["cortex"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch, request):
    """Follow changes sooner, except in a test of how long that takes."""
    if "patient" not in request.fixturenames:
        monkeypatch.setattr(watcher, "QUIET_SECONDS", 0.05)
        monkeypatch.setattr(watcher, "LOOK_SECONDS", 0.2)


@pytest.fixture
def patient():
    """Keep the real times."""


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "project" / ".cortex" / "chunks"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def settings(home, tmp_path):
    """`settings(NAME=value)`: the settings of a person with these variables."""

    def make(root=None, **variables):
        environment = {"CORTEX_HOME": str(home), **variables}
        return load(root, environment=environment, user_home=tmp_path / "user")

    return make


@pytest.fixture
def opened(folder, settings):
    """`opened(**settings)`: a started index over the folder; all are closed at the end."""
    indexes = []

    def open_one(watch=True, root=None, **variables):
        index = ChunkIndex(folder, settings(root, **variables), watch=watch)
        indexes.append(index)
        index.start()
        return index

    yield open_one
    for index in indexes:
        index.close()


@pytest.fixture
def stub():
    server = Stub()
    yield server
    server.close()
