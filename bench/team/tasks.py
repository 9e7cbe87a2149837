"""One task around a team's records, in a process of its own; JSON on stdout.

`python -m bench.team.tasks fill|embed|ask|write|after|profile '{...}'`

The tools are run as a server runs them, without the protocol around. A fresh process for each task,
for the same reason as in engine_tasks.py.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import random
import sys
import threading
import time
from collections.abc import Callable
from io import StringIO
from itertools import islice

from pydantic import BaseModel

from bench.common.process_cost import Watch
from bench.memories.generated import words
from bench.memories.tasks import embed
from bench.team.generated import YEAR, make, questions
from cortex.base.actors import person
from cortex.base.record_model import Record, RecordFilter
from cortex.base.settings import Settings, load
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.ids import fresh_key
from cortex.families.team.tools import open_family
from cortex.families.team.tools.arguments import (
    CreateDraft,
    CreateObservations,
    GetArtifact,
    GetBootstrapPack,
    GetContextPack,
    GetInbox,
    GetThread,
)
from cortex.families.team.tools.search_tool import TeamSearch
from cortex.families.team.writes.transactions import perform
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Call, Family
from cortex.toolkit.tool import perform as call_tool

STEP = 2_000  # records of one transaction
ASKED_FROM = 20_000  # records that questions are made from
BATCH, THREADS = 20, 8
AFTER = ("search", "search in a subcortex", "search of threads", "search with a status (accepted)")
SUMMARY = (
    "The run took longer than the one before, by words and by meaning; what changed is the order of the files. "
    * 3
)

Arguments = tuple[str, BaseModel]
Took = dict[str, list[float]]  # wall and CPU milliseconds of each call, characters of each answer


def fill(settings: Settings, watch: Watch, count: int, seed: int) -> dict[str, object]:
    """Write records in large steps, and have them found: CPU seconds."""
    library = Library(settings)
    try:
        library.store.lease.take()
        words()  # not part of the measurement
        wall, cpu = time.perf_counter(), time.process_time()
        began = int(time.time() * 1000) - YEAR
        made = make(count, seed)
        while part := list(islice(made, STEP)):

            def work(step: RecordTransaction, part: list = part) -> str:
                for number, body, at in part:
                    step.now = began + at
                    step.put(Record(number, body))
                return ""

            perform(
                library, work, actor=person(), key=fresh_key(), action="import", payload=part[0][0]
            )
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    finally:
        library.close()


def ask(settings: Settings, watch: Watch, count: int, seed: int, rounds: int) -> dict[str, object]:
    """Ask in every way: milliseconds of each call; and of the first call of all."""
    words()
    engines = engine_pool(keep=False)
    family = open_family(settings, engines, [])
    try:
        asked = _questions(count, seed, rounds)
        start = time.perf_counter()
        _call(family, ("search", TeamSearch(query=asked[0])))
        first = (time.perf_counter() - start) * 1000
        ways = ways_of(settings, random.Random(seed))
        took = {name: _measure(family, way, asked) for name, way in ways.items()}
        return {"first_ms": first, "took": took}
    finally:
        family.close()
        engines.close()


def after(
    settings: Settings, watch: Watch, count: int, seed: int, rounds: int
) -> dict[str, object]:
    """Ask in the ways that read cached data, each time after a write."""
    words()
    engines = engine_pool(keep=False)
    family = open_family(settings, engines, [])
    try:
        asked = _questions(count, seed, rounds)
        ways = ways_of(settings, random.Random(seed))
        _call(family, _observed(1))
        return {
            name: _measure(family, ways[name], asked, lambda: _call(family, _observed(1)))
            for name in AFTER
        }
    finally:
        family.close()
        engines.close()


def profile(
    settings: Settings, watch: Watch, count: int, seed: int, rounds: int, way: str
) -> dict[str, object]:
    """A profile of a way to ask."""
    words()
    engines = engine_pool(keep=False)
    family = open_family(settings, engines, [])
    try:
        asked = _questions(count, seed, rounds)
        chosen = ways_of(settings, random.Random(seed))[way]
        for text in asked[:5]:
            _call(family, chosen(text))
        profiler = cProfile.Profile()
        profiler.enable()
        for text in asked:
            _call(family, chosen(text))
        profiler.disable()
        out = StringIO()
        pstats.Stats(profiler, stream=out).sort_stats("cumulative").print_stats(45)
        pstats.Stats(profiler, stream=out).sort_stats("tottime").print_stats(25)
        return {"calls": len(asked), "profile": out.getvalue()}
    finally:
        family.close()
        engines.close()


def _questions(count: int, seed: int, rounds: int) -> list[str]:
    return questions(rounds, islice(make(min(count, ASKED_FROM), seed), ASKED_FROM), seed)


def ways_of(settings: Settings, draw: random.Random) -> dict[str, Callable[[str], Arguments]]:
    """Every way to ask, by its name."""
    library = Library(settings)
    try:
        lookup = library.store.records

        def some(kind: str, *states: str) -> list[str]:
            return [
                record.id
                for record in lookup.select(RecordFilter(kinds=(kind,), states=states), 200)
            ]

        slugs = [
            record.body.slug for record in lookup.select(RecordFilter(kinds=("subcortex",)), 200)
        ]
        threads, tasks, artifacts = some("thread"), some("task"), some("artifact", "accepted")
        path = next(
            link.path
            for record in lookup.select(RecordFilter(kinds=("task",)), 200)
            for link in record.body.code_links
        )
    finally:
        library.close()

    def search(query: str, types: tuple[str, ...] | None = None, **filters: object) -> Arguments:
        return "search", TeamSearch.model_validate(
            {"query": query, "types": types, "filters": filters}
        )

    def pack(**subject: object) -> Arguments:
        return "get_context_pack", GetContextPack.model_validate({"subject": subject})

    return {
        "search": lambda text: search(text),
        "search in a subcortex": lambda text: search(text, subcortex=draw.choice(slugs)),
        "search of threads": lambda text: search(text, ("threads",)),
        "search of observations and artifacts": lambda text: search(
            text, ("observations", "artifacts")
        ),
        "search with a status (accepted)": lambda text: search(text, status="accepted"),
        "search with a status (open)": lambda text: search(text, status="open"),
        "search of the last week": lambda text: search(text, since="7d"),
        "search of half a year": lambda text: search(text, since="300d", until="100d"),
        "search in a subcortex, a status": lambda text: search(
            text, subcortex=draw.choice(slugs), status="done"
        ),
        "bootstrap pack, global": lambda text: (
            "get_bootstrap_pack",
            GetBootstrapPack(scope="global"),
        ),
        "bootstrap pack of a subcortex": lambda text: (
            "get_bootstrap_pack",
            GetBootstrapPack(scope=f"subcortex:{draw.choice(slugs)}"),
        ),
        "context pack of a thread": lambda text: pack(thread_id=draw.choice(threads)),
        "context pack of a task": lambda text: pack(task_id=draw.choice(tasks)),
        "context pack of a subcortex": lambda text: pack(subcortex_slug=draw.choice(slugs)),
        "context pack of an artifact": lambda text: pack(artifact_id=draw.choice(artifacts)),
        "context pack of a file": lambda text: pack(code_link={"path": path}),
        "thread": lambda text: ("get_thread", GetThread(thread_id=draw.choice(threads))),
        "artifact": lambda text: ("get_artifact", GetArtifact(artifact_id=draw.choice(artifacts))),
        "inbox": lambda text: ("get_inbox", GetInbox()),
    }


def write(settings: Settings, watch: Watch, rounds: int) -> dict[str, object]:
    """Write durably through the tools: writes in a second, CPU milliseconds of a write."""
    engines = engine_pool(keep=False)
    family = open_family(settings, engines, [])
    try:
        _call(family, _observed(1))  # opens everything
        done = {
            "observations, one at a time": (_timed(lambda: _call(family, _observed(1)), rounds), 1),
            f"observations, {BATCH} at a time": (
                _timed(lambda: _call(family, _observed(BATCH)), max(2, rounds // 5)),
                BATCH,
            ),
            f"observations, one at a time, {THREADS} threads": (_at_once(family, rounds), 1),
            "drafts, one at a time": (_timed(lambda: _call(family, _drafted()), rounds), 1),
        }
        return {
            name: {"rate": many / wall, "ms": cpu / many}
            for name, ((wall, cpu), many) in done.items()
        }
    finally:
        family.close()
        engines.close()


def _observed(many: int) -> Arguments:
    made = [
        {"title": f"Seen in run {fresh_key()[-10:]}", "summary_md": SUMMARY, "tags": ["bench"]}
        for _ in range(many)
    ]
    arguments = {"observations": made, "idempotency_key": fresh_key()}
    return "create_observations", CreateObservations.model_validate_json(json.dumps(arguments))


def _drafted() -> Arguments:
    body = {
        "draft_type": "thread",
        "body_md": SUMMARY,
        "metadata": {"title": fresh_key()},
        "idempotency_key": fresh_key(),
    }
    return "create_draft", CreateDraft.model_validate_json(json.dumps(body))


def _timed(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Wall seconds and CPU milliseconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        work()
    return (time.perf_counter() - wall) / rounds, (time.process_time() - cpu) * 1000 / rounds


def _at_once(family: Family, rounds: int) -> tuple[float, float]:
    """Wall seconds and CPU milliseconds of a call, in several threads at the same time."""
    each = max(2, rounds // THREADS)
    failed: list[BaseException] = []

    def go() -> None:
        try:
            for _ in range(each):
                _call(family, _observed(1))
        except BaseException as error:  # a thread's failure would be lost
            failed.append(error)

    threads = [threading.Thread(target=go) for _ in range(THREADS)]
    wall, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise SystemExit(f"{failed[0]}")
    count = each * THREADS
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) * 1000 / count


def _measure(
    family: Family,
    way: Callable[[str], Arguments],
    asked: list[str],
    before: Callable[[], object] = lambda: None,
) -> Took:
    took: Took = {"wall": [], "cpu": [], "characters": []}
    for text in asked:
        before()
        arguments = way(text)
        wall, cpu = time.perf_counter(), time.process_time()
        answer = _call(family, arguments)
        took["wall"].append((time.perf_counter() - wall) * 1000)
        took["cpu"].append((time.process_time() - cpu) * 1000)
        took["characters"].append(len(answer))
    return took


def _call(family: Family, asked: Arguments) -> str:
    tool = next(tool for tool in family.tools if tool.name == f"cortex.{asked[0]}")
    answer = call_tool(family, tool, asked[1], Call())
    if answer.failed:
        raise SystemExit(f"{asked}: {answer.text[:500]}")
    return answer.text


def main() -> None:
    task, given = sys.argv[1], json.loads(sys.argv[2])
    settings = load(None, environment=dict(os.environ))
    watch = Watch(os.getpid(), steady=False)
    tasks = {
        "fill": fill,
        "embed": embed,
        "ask": ask,
        "write": write,
        "after": after,
        "profile": profile,
    }
    print(json.dumps(tasks[task](settings, watch, **given)))
    watch.stop()


if __name__ == "__main__":
    main()
