"""Lets the tests here import their own modules as `embedders.…`, and gives them a server to ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.embedders.stub import Stub


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.close()
