"""Agents that write team records through one cortexd while windows and cortexd are killed."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from cortex.base.actors import person
from cortex.base.record_model import Comment, Draft, Observation, Record, Task, Thread
from cortex.engine.library import Library
from cortex.families.team.writes.create import create
from families.memory.libraries import open_library, settings_of
from families.team.invariants import check_records
from interfaces.daemon.contributors import Contributor

AGENTS = 8
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and Unix sockets")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_each_record_is_kept_once_when_windows_and_cortexd_are_killed(
    sandbox, campaign, until, killed, record_property
):
    settings = settings_of(sandbox.home)
    sandbox.variables |= {"CORTEX_TEAM_AGENT_TIER": "2", "CORTEX_TEAM_PUBLISH_COMMENTS": "true"}
    with open_library(settings) as library:
        thread = create(library, Thread("What was marked?"), actor=person()).id
        task = create(library, Task("Mark all"), actor=person()).id
    agents = [Contributor(sandbox, number, thread, task) for number in range(AGENTS)]
    ended, chance = threading.Event(), random.Random(88)
    with ThreadPoolExecutor(AGENTS) as threads:
        working = [threads.submit(agent.work, campaign(4, 40), ended) for agent in agents]
        try:
            until(lambda: sum(len(agent.acknowledged) for agent in agents) >= AGENTS, 60)
            kills = trouble(sandbox, agents, chance, campaign(4, 120), killed)
        finally:
            ended.set()
        for future in working:
            future.result(120)
    assert sandbox.cortexds() == [sandbox.pid()]
    workers = psutil.Process(sandbox.pid()).children(recursive=True)
    sandbox.end()
    assert psutil.wait_procs(workers, 10)[1] == []
    records = check_records(sandbox.home, settings)
    with Library(settings) as library:  # with vectors, as cortexd had them
        versions = library.store.records.versions(task).values()
        assert library.holds_lease() and library.follow() and library.store.check() == []
    check(agents, [*(record for record in records.values() if record.author == "agent"), *versions])
    written = sum(len(agent.acknowledged) for agent in agents)
    starts, replays = sum(agent.starts for agent in agents), sum(agent.replays for agent in agents)
    record_property(
        "written", f"{written} writes, {starts} windows, {kills} kills, {replays} replays"
    )


def trouble(sandbox, agents, chance, times, killed) -> int:
    """Kill windows, and cortexd once in a while; gives how many were killed."""
    for turn in range(times):
        if turn % 20 == 3:
            killed(sandbox.pid())
        else:
            chance.choice(agents).kill()
        threading.Event().wait(chance.random() * 0.5)
    return times


def check(agents: list[Contributor], records: Sequence[Record[Any]]) -> None:
    """Check that the records are exactly the acknowledged writes, each once and with its mark."""
    acknowledged = Counter(
        record_id for agent in agents for record_id in agent.acknowledged.values()
    )
    assert set(acknowledged.values()) == {1}
    found = Counter()
    for record in records:
        match record.body:
            case Observation() | Draft() | Comment():
                assert record.id in acknowledged
                found[record.body.title] += 1
            case Task() if record.body.notes:
                assert f"{record.id} {record.body.notes}" in acknowledged
                found[record.body.notes] += 1
    assert found == Counter(
        agent.mark(int(key.partition("-")[2])) for agent in agents for key in agent.acknowledged
    )
