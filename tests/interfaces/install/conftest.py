"""A machine for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from interfaces.install.machines import Place, make_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A machine with nothing on it."""
    return make_place(tmp_path)
