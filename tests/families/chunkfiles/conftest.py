"""Chunk files made on the spot, shelves that are closed at the end, and a stand-in for an embedding
server.
"""

import pytest

from cortex.base.settings import load
from cortex.families.chunkfiles import watcher
from cortex.families.chunkfiles.index import ChunkIndex
from engine.embedders.stub import Stub


@pytest.fixture(autouse=True)
def impatient(monkeypatch, request):
    """Changes are taken up sooner, but where a test is about how long that takes."""
    if "patient" not in request.fixturenames:
        monkeypatch.setattr(watcher, "QUIET_SECONDS", 0.05)
        monkeypatch.setattr(watcher, "LOOK_SECONDS", 0.2)


@pytest.fixture
def patient():
    """Asks for the real times."""


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
    """`opened(**settings)`: a started shelf over the folder; all are closed at the end."""
    shelves = []

    def open_one(watch=True, root=None, **variables):
        shelf = ChunkIndex(folder, settings(root, **variables), watch=watch)
        shelves.append(shelf)
        shelf.start()
        return shelf

    yield open_one
    for shelf in shelves:
        shelf.close()


@pytest.fixture
def stub():
    server = Stub()
    yield server
    server.close()
