"""Lets the tests of a Core's commands run `cortex` in this process, over a Core that was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cortex.engine.store.records.ledger import open_ledger
from cortex.interfaces.team_server.commands.options import database
from families.team.commands.command_answers import answer, refusal
from interfaces.cli.conftest import cortex

__all__ = ["cortex"]


class CoreCommands:
    """`cortex core …` over a Core that was made: calls give the JSON of a command."""

    def __init__(self, cortex: Callable[..., Any]) -> None:
        self._cortex = cortex
        self.made = answer(cortex, "core", "init", "--name", "root")

    def __call__(self, *arguments: object) -> dict[str, Any]:
        return answer(self._cortex, "core", *arguments)

    def refused(self, *arguments: object) -> dict[str, Any]:
        """The error of a command that must fail."""
        return refusal(self._cortex, "core", *arguments)


@pytest.fixture
def core(isolated: object, cortex: Callable[..., Any]) -> CoreCommands:
    """Commands of a Core that was made."""
    return CoreCommands(cortex)


def owner_of(token: str) -> str | None:
    """The name of the principal whose token this is; None where it isn't valid."""
    with open_ledger(database("")) as opened:
        found = opened.principals.by_token(token)
        return found.name if found else None
