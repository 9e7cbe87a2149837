"""One task around a person's memories, in a process of its own; JSON on stdout.

`python -m bench.memories.tasks fill|embed|ask '{"home": ..., ...}'`

The tools are run as a server runs them, without the protocol around. A fresh process for each task,
for the same reason as in engine_tasks.py.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from pydantic import BaseModel

from bench.common.process_cost import Watch
from bench.memories.generated import PROJECTS, make, questions, words
from cortex.base.settings import Settings, load
from cortex.base.types import Cancel, MemoryState
from cortex.engine.library import Library
from cortex.families.memory.file_import import ImportedMemory
from cortex.families.memory.tools import open_family
from cortex.families.memory.tools.arguments import GetContext, GetMemory, ListScopes, QueryMemories
from cortex.families.memory.writer import add_all
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Call, Family, perform

ASKED_FROM = 20_000  # memories that questions are made from

Arguments = tuple[str, BaseModel]
Took = dict[str, list[float]]  # wall and CPU milliseconds of each call, characters of each answer


def fill(settings: Settings, watch: Watch, count: int, seed: int) -> dict[str, object]:
    """Import and index memories: seconds, and megabytes above the open library."""
    library = Library(settings)
    try:
        library.store.lease.take()
        words()  # which are no part of it
        before, wall, cpu = watch.mark(), time.perf_counter(), time.process_time()
        taken = add_all(library, map(ImportedMemory, make(count, seed)), state=MemoryState.APPROVED)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        made = time.process_time()
        sum(1 for _ in make(count, seed))
        made = time.process_time() - made  # what it costs to make them up
        added = (watch.peak_kb - before) / 1024
        return {"added": len(taken.added), "wall": wall, "cpu": cpu - made, "mb": added}
    finally:
        library.close()


def embed(settings: Settings, watch: Watch) -> dict[str, object]:
    """Have the vectors made that the settings ask for: CPU seconds."""
    library = Library(settings)
    try:
        library.store.lease.take()
        cpu = time.process_time()
        library.embedding.embed(progress=lambda step: None, cancel=Cancel())
        library.embedding.catch_up()
        return {"cpu": time.process_time() - cpu}
    finally:
        library.close()


def ask(
    settings: Settings, watch: Watch, count: int, seed: int, rounds: int, folder: str
) -> dict[str, object]:
    """Ask in every way: milliseconds of each call; and of the first call of all."""
    words()
    engines = engine_pool(keep=False)
    before = watch.mark()
    family = open_family(settings, engines, Path(folder), "")
    try:
        draw = random.Random(seed)
        made = list(islice(make(min(count, ASKED_FROM), seed), ASKED_FROM))
        asked = questions(rounds, made, seed)
        tags = sorted({concept for memory in made[:500] for concept in memory.concepts})
        start = time.perf_counter()
        text = _call(family, ("query_memories", QueryMemories(query=asked[0])))
        first = (time.perf_counter() - start) * 1000
        ids = [row["id"] for row in json.loads(text)["results"]]
        ways = ways_of(draw, asked, tags, ids)
        took = {name: _measure(family, way, asked) for name, way in ways.items()}
        watch.cpu_seconds()
        return {"first_ms": first, "took": took, "mb": (watch.peak_kb - before) / 1024}
    finally:
        family.close()
        engines.close()


def ways_of(
    draw: random.Random, asked: list[str], tags: list[str], ids: list[str]
) -> dict[str, Callable[[str], Arguments]]:
    """Every way to ask, by its name."""

    def query(**more: object) -> Arguments:
        return "query_memories", QueryMemories.model_validate(more)

    def project() -> str:
        return f"project-{draw.randrange(PROJECTS):02d}"

    return {
        "query": lambda text: query(query=text),
        "query, status all": lambda text: query(query=text, status="all"),
        "query in a project": lambda text: query(query=text, project=project()),
        "query with a tag": lambda text: query(query=text, tags=(draw.choice(tags),)),
        "query with a tag in a project": lambda text: query(
            query=text, tags=(draw.choice(tags),), project=project()
        ),
        "newest": lambda text: query(),
        "newest of a project": lambda text: query(project=project()),
        "newest with a tag": lambda text: query(tags=(draw.choice(tags),)),
        "get_memory": lambda text: ("get_memory", GetMemory(id=draw.choice(ids))),
        "list_scopes": lambda text: ("list_scopes", ListScopes()),
        "get_context": lambda text: ("get_context", GetContext()),
    }


def _measure(family: Family, way: Callable[[str], Arguments], asked: list[str]) -> Took:
    took: Took = {"wall": [], "cpu": [], "characters": []}
    for text in asked:
        arguments = way(text)
        wall, cpu = time.perf_counter(), time.process_time()
        answer = _call(family, arguments)
        took["wall"].append((time.perf_counter() - wall) * 1000)
        took["cpu"].append((time.process_time() - cpu) * 1000)
        took["characters"].append(len(answer))
    return took


def _call(family: Family, asked: Arguments) -> str:
    tool = next(tool for tool in family.tools if tool.name == asked[0])
    answer = perform(family, tool, asked[1], Call())
    if answer.failed:
        raise SystemExit(f"{asked}: {answer.text[:500]}")
    return answer.text


def main() -> None:
    task, given = sys.argv[1], json.loads(sys.argv[2])
    settings = load(None, environment=dict(os.environ))
    watch = Watch(os.getpid(), steady=task == "fill")
    print(json.dumps({"fill": fill, "embed": embed, "ask": ask}[task](settings, watch, **given)))
    watch.stop()


if __name__ == "__main__":
    main()
