"""Two members of a team and their Core, each a process, on a bad road: what was acknowledged is
there once, and all have the same.

A world is a Core with its members, which live through several rounds. In each both write while
requests are lost, doubled, late and out of order, and whoever works is killed; then the road is
mended, they sync until nobody has anything to say, and everything is compared. A round follows from
its seed as far as the clock lets it: the number of the world and of the round, which a failure
names.
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
    Kept,
    check_deeds,
    check_published,
    check_replica,
    kept_in,
    opened,
    refusals_in,
    subcortexes_of,
)
from sync_faults.children import Nursery
from sync_faults.daemon_world import DaemonWorld
from sync_faults.world import MEMBERS, World

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="forks and signals"),
    pytest.mark.soak,
    pytest.mark.timeout(900),
]

SOAK = bool(os.environ.get("CORTEX_SOAK"))
ROUNDS = 10  # of a world, in full
SIZES = {"sqlite": 32, "postgres": 10, "cortexd": 30, "cortexd-postgres": 20}
WORLDS = SIZES if SOAK else dict.fromkeys(SIZES, 1)
DEEDS = 7  # of each member in a round, at most
FOUND = 3  # marks that are searched for


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Where processes come from; its folder has a name that is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="cx"))
    made = Nursery(folder)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("number", range(WORLDS["sqlite"]))
def test_on_a_bad_road_nothing_is_lost_or_doubled(
    number, memory, nursery, campaign, record_property
):
    play(
        World,
        number,
        memory,
        nursery,
        f"sqlite:///{memory / 'core'}",
        campaign(10, ROUNDS),
        record_property,
    )


@pytest.mark.parametrize("number", range(100, 100 + WORLDS["postgres"]))
def test_nor_with_postgresql(number, memory, nursery, database, campaign, record_property):
    play(World, number, memory, nursery, database, campaign(5, ROUNDS), record_property)


@pytest.mark.parametrize("number", range(200, 200 + WORLDS["cortexd"]))
def test_nor_where_agents_write_through_cortexd(
    number, tmp_path, nursery, campaign, record_property
):
    url = f"sqlite:///{tmp_path / 'core'}"
    play(DaemonWorld, number, tmp_path, nursery, url, campaign(13, ROUNDS), record_property)


@pytest.mark.parametrize("number", range(300, 300 + WORLDS["cortexd-postgres"]))
def test_nor_through_cortexd_with_postgresql(
    number, tmp_path, nursery, database, campaign, record_property
):
    play(DaemonWorld, number, tmp_path, nursery, database, campaign(12, ROUNDS), record_property)


# -- a world
# -----------------------------------------------------------------------------------------------------------


def play(
    make: type[World],
    number: int,
    folder: Path,
    nursery: Nursery,
    url: str,
    rounds: int,
    note: Callable[[str, object], None],
) -> None:
    """All rounds of a world."""
    with begun(make, number, folder, nursery, url) as world:
        for turn in range(rounds):
            seed = f"{number}/{turn}"
            try:
                if turn % 4 == 3:
                    see_what_is_sensitive(world, turn % 8 == 7)
                world.play(random.Random(seed), DEEDS)
                world.settle()
                compare(world)
            except AssertionError as error:
                raise AssertionError(f"round {seed}: {error}\n{world.logs()}") from error
        for member in world.members.values():
            assert world.ask(member, {"check": True}) == {"followed": True, "wrong": []}
        note("synced", told_of(world, rounds))


def told_of(world: World, rounds: int) -> str:
    """What happened in a world, in a line."""
    happened = sum((member.proxy.happened for member in world.members.values()), Counter[str]())
    kills = world.core_kills + world.cuts + sum(member.kills for member in world.members.values())
    done = sum(deed.acknowledged for deed in world.deeds)
    return (
        f"world {world.number}: {rounds} rounds, {done} writes, {len(world.refused)} refused, {kills} kills, "
        f"{happened.total()} requests, {happened.total() - happened['pass']} accidents"
    )


@contextmanager
def begun(
    make: type[World], number: int, folder: Path, nursery: Nursery, url: str
) -> Iterator[World]:
    """A world whose members have something already, and then join the Core."""
    (folder / "core").mkdir()
    world = make(number, folder, nursery, url, invite(url))
    try:
        world.start_core()
        world.begin()
        yield world
    finally:
        world.close()


def invite(url: str) -> dict[str, str]:
    """Make the ledger, with both members; gives their tokens."""
    with open_ledger(url) as ledger:
        made = {name: principals.add(ledger, name, 4, True, {"*": True}) for name in MEMBERS}
        return {name: ledger.principals.make_token(one.id, "test")[1] for name, one in made.items()}


def see_what_is_sensitive(world: World, may: bool) -> None:
    """Let the second member see what is sensitive, or no longer."""
    with open_ledger(world.url) as ledger:
        principals.change(ledger, principals.find(ledger, MEMBERS[1]), sensitive=may)


# -- what must hold
# ----------------------------------------------------------------------------------------------------


def compare(world: World) -> None:
    """Everything that must hold when all is quiet."""
    with opened(world.url) as database:
        check_ledger(database)
        core = kept_in(database)
    viewers = viewers_of(world, core)
    replicas, refusals = {}, {}
    for name, member in world.members.items():
        told = world.ask(member, {"inbox": True})["told"]
        with opened(f"sqlite:///{member.home}") as database:
            invariants.check_replica(database, settings_of(member.home))
            replicas[name], refusals[name] = kept_in(database), refusals_in(database, told)
            waiting = database.execute(
                "SELECT count(*) FROM outbox WHERE state = 'waiting'"
            ).fetchone()[0]
        assert waiting == 0, f"{name} has {waiting} writes that nobody has seen"
    world.learn(check_deeds(core, world.deeds, refusals))
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


def viewers_of(world: World, core: Kept) -> dict[str, Viewer]:
    with open_ledger(world.url) as ledger:
        return {one.name: viewer_of(one, subcortexes_of(core)) for one in ledger.principals.all()}


def check_found(world: World) -> None:
    """Some of what was made is found by its mark, everywhere."""
    made = [deed for deed in world.deeds if deed.made and deed.deed == "observation"]
    for deed in world.chance.sample(made, min(FOUND, len(made))):
        assert deed.made in world.ask_core("/api/v2/search", {"query": deed.mark}), (
            f"the Core doesn't find {deed}"
        )
        for member in world.members.values():
            assert deed.made in world.ask(member, {"find": deed.mark})["ids"], (
                f"{member.name} doesn't find {deed}"
            )
