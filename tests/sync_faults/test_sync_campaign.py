"""Sync campaigns: acknowledged writes are there once, and all replicas are equal.

Two team members and their Core, each a process, work on a faulty network.

A world is a Core with its members, through several rounds. In each both write while requests are
lost, doubled, late and out of order, and processes are killed; then the network is healed, they
sync until there are no more changes, and everything is compared. A round follows from its seed as
far as the clock lets it: the numbers of the world and the round, which a failure names.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cortex.base.visibility import Viewer, sees
from cortex.engine.store.records.ledger import open_ledger
from cortex.families.team.wire import identity
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.access_policy import viewer_of
from families.memory.libraries import settings_of
from families.team import invariants
from families.team.invariants import check_ledger
from sync_faults.checks import (
    Contents,
    check_published,
    check_replica,
    check_writes,
    opened,
    read_contents,
    read_refusals,
    subcortexes_of,
)
from sync_faults.children import ForkServer
from sync_faults.daemon_world import DaemonWorld
from sync_faults.world import MEMBERS, World

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="forks and signals"),
    pytest.mark.soak,
    pytest.mark.timeout(900),
]

SOAK = bool(os.environ.get("CORTEX_SOAK"))
# Of a world, in a full run
ROUNDS = 10
SIZES = {"sqlite": 32, "postgres": 10, "cortexd": 30, "cortexd-postgres": 20}
WORLDS = SIZES if SOAK else dict.fromkeys(SIZES, 1)
# Of each member in a round, at most
MAX_WRITES = 7
# Marks that are searched for after a round
SEARCHED = 3


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """A fork server; the name of its folder is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="cx"))
    made = ForkServer(folder)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("number", range(WORLDS["sqlite"]))
def test_no_write_is_lost_or_doubled_on_a_faulty_network(
    number, memory, fork_server, campaign, record_property
):
    play(
        World,
        number,
        memory,
        fork_server,
        f"sqlite:///{memory / 'core'}",
        campaign(10, ROUNDS),
        record_property,
    )


@pytest.mark.parametrize("number", range(100, 100 + WORLDS["postgres"]))
def test_no_write_is_lost_or_doubled_with_postgresql(
    number, memory, fork_server, database, campaign, record_property
):
    play(World, number, memory, fork_server, database, campaign(5, ROUNDS), record_property)


@pytest.mark.parametrize("number", range(200, 200 + WORLDS["cortexd"]))
def test_no_write_of_an_agent_is_lost_or_doubled_through_cortexd(
    number, tmp_path, fork_server, campaign, record_property
):
    url = f"sqlite:///{tmp_path / 'core'}"
    play(DaemonWorld, number, tmp_path, fork_server, url, campaign(13, ROUNDS), record_property)


@pytest.mark.parametrize("number", range(300, 300 + WORLDS["cortexd-postgres"]))
def test_no_write_is_lost_or_doubled_through_cortexd_with_postgresql(
    number, tmp_path, fork_server, database, campaign, record_property
):
    play(
        DaemonWorld, number, tmp_path, fork_server, database, campaign(12, ROUNDS), record_property
    )


# -- a world


def play(
    make: type[World],
    number: int,
    folder: Path,
    fork_server: ForkServer,
    url: str,
    rounds: int,
    note: Callable[[str, object], None],
) -> None:
    """Play all rounds of a world."""
    with begun(make, number, folder, fork_server, url) as world:
        for turn in range(rounds):
            seed = f"{number}/{turn}"
            try:
                if turn % 4 == 3:
                    set_sensitive_access(world, turn % 8 == 7)
                world.play(random.Random(seed), MAX_WRITES)
                world.settle()
                compare(world)
            except AssertionError as error:
                raise AssertionError(f"round {seed}: {error}\n{world.logs()}") from error
        for member in world.members.values():
            assert world.ask(member, {"check": True}) == {"followed": True, "wrong": []}
        note("synced", describe(world, rounds))


def describe(world: World, rounds: int) -> str:
    """The events of a world in a line."""
    accidents = sum((member.proxy.accidents for member in world.members.values()), Counter[str]())
    kills = world.core_kills + world.cuts + sum(member.kills for member in world.members.values())
    done = sum(write.acknowledged for write in world.writes)
    return (
        f"world {world.number}: {rounds} rounds, {done} writes, {len(world.refused)} refused, {kills} kills, "
        f"{accidents.total()} requests, {accidents.total() - accidents['pass']} accidents"
    )


@contextmanager
def begun(
    make: type[World], number: int, folder: Path, fork_server: ForkServer, url: str
) -> Iterator[World]:
    """A world whose members have records already, and then join the Core."""
    (folder / "core").mkdir()
    world = make(number, folder, fork_server, url, invite(url))
    try:
        world.start_core()
        world.begin()
        yield world
    finally:
        world.close()


def invite(url: str) -> dict[str, str]:
    """Make the ledger with both members, and return their tokens."""
    with open_ledger(url) as ledger:
        made = {name: principals.add(ledger, name, 4, True, {"*": True}) for name in MEMBERS}
        return {
            name: ledger.principals.make_token(principal.id, "test")[1]
            for name, principal in made.items()
        }


def set_sensitive_access(world: World, may: bool) -> None:
    """Give the second member access to sensitive records, or take it away."""
    with open_ledger(world.url) as ledger:
        principals.change(ledger, principals.find(ledger, MEMBERS[1]), sensitive=may)


# -- what must hold


def compare(world: World) -> None:
    """Check everything that must hold in a settled world."""
    with opened(world.url) as database:
        check_ledger(database)
        core = read_contents(database)
    viewers = viewers_of(world, core)
    replicas, refusals = {}, {}
    for name, member in world.members.items():
        alerts = world.ask(member, {"inbox": True})["alerts"]
        with opened(f"sqlite:///{member.home}") as database:
            invariants.check_replica(database, settings_of(member.home))
            replicas[name], refusals[name] = (
                read_contents(database),
                read_refusals(database, alerts),
            )
            waiting = database.execute(
                "SELECT count(*) FROM outbox WHERE state = 'waiting'"
            ).fetchone()[0]
        assert waiting == 0, f"{name} has {waiting} writes that never reached the Core"
    world.learn(check_writes(core, world.writes, refusals))
    check_published(core)
    for name, member in world.members.items():
        check_replica(
            name,
            core,
            replicas[name],
            partial(sees, viewers[member.principal], get=core.records.get),
            partial(identity.renamed, rename=identity.inward(member.principal)),
            frozenset(number for ids in refusals[name].records.values() for number in ids),
        )
    check_found(world)


def viewers_of(world: World, core: Contents) -> dict[str, Viewer]:
    with open_ledger(world.url) as ledger:
        return {
            principal.name: viewer_of(principal, subcortexes_of(core))
            for principal in ledger.principals.all()
        }


def check_found(world: World) -> None:
    """Check that some observations are found by their marks, everywhere."""
    made = [write for write in world.writes if write.made and write.action == "observation"]
    for write in world.chance.sample(made, min(SEARCHED, len(made))):
        assert write.made in world.ask_core("/api/v2/search", {"query": write.mark}), (
            f"the Core doesn't find {write}"
        )
        for member in world.members.values():
            assert write.made in world.ask(member, {"find": write.mark})["ids"], (
                f"{member.name} doesn't find {write}"
            )
