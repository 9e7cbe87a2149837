"""A subcortex for the tests of the routes."""

from __future__ import annotations

from typing import Any

import pytest

from interfaces.team_server.conftest import Client


@pytest.fixture
def scope(ada: Client) -> dict[str, Any]:
    """A subcortex with a glossary."""
    return ada.post(
        "/subcortexes",
        {
            "slug": "queues",
            "name": "Queues",
            "glossary": [{"term": "DLQ", "meaning": "dead letters"}],
        },
    )
