"""A Core's ledger with the homes of ada and bob, and made-up changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.actors import person
from cortex.base.record_model import Actor, Body, Evidence
from cortex.families.team.wire.codec import APPLIED, REFUSED
from cortex.families.team.writes.create import create
from cortex.interfaces.team_server.apply.action import Accepted
from interfaces.team_server.team import Home, Team, acting, open_team

AGENT = Actor("agent", 2)
URL = (Evidence("url", "https://example.com/"),)
SECRET = "AKIA" + "IOSFODNN7EXAMPLQ"


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with open_team(tmp_path) as team:
        yield team
        team.check()


@pytest.fixture
def ada(team: Team) -> Home:
    return team.home("ada")


@pytest.fixture
def bob(team: Team) -> Home:
    return team.home("bob", 3)


def made(home: Home, body: Body, actor: Actor | None = None) -> str:
    """The id of a record that is made at home and sent to the Core."""
    number = create(home.library, body, actor=actor or person()).id
    assert [outcome.status for outcome in home.flush()] == [APPLIED]
    return number


def code_of(accepted: Accepted) -> str:
    return accepted.error.code if accepted.error else accepted.status


def refused(team: Team, home: Home, *changes, **more) -> str:
    """The code with which made-up changes are refused; nothing of them is kept."""
    before = team.ledger.records.last_change()
    accepted = team.accept(home.principal, acting(*changes, **more))
    assert accepted.status == REFUSED, accepted.records
    assert team.ledger.records.last_change() == before
    return code_of(accepted)
