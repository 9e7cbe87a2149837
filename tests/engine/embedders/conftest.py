"""The stub of an embedding server, as a fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.embedders.stub import Stub


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.close()
