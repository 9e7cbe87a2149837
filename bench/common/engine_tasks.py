"""One task around an engine, in a process of its own; JSON on stdout.

`python -m bench.common.engine_tasks search|update|ranking '{"root": ..., "home": ...}'`

A fresh process for each, because memory that an earlier task gave back to the allocator would hide
what the next one needs. With "steady": true memory is sampled all the time; that costs, so times
are measured without it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.common.process_cost import Watch
from cortex.base.settings import load
from cortex.base.text import TOKEN_CHARACTERS
from cortex.base.types import Query
from cortex.engine.engine import Engine
from cortex.engine.store import ContentQueries, LexicalIndex, Store
from cortex.engine.store.index import vector_file
from cortex.engine.store.index.maintenance import Indexes


def search(engine: Engine, watch: Watch, questions: list[str], rounds: int) -> dict[str, object]:
    """Ask every question several times: milliseconds, CPU milliseconds, additional megabytes."""
    before = watch.mark()
    start = time.perf_counter()
    engine.search(Query(questions[-1], limit=50))
    first = (time.perf_counter() - start) * 1000
    took: list[float] = []
    cpu = time.process_time()
    for _ in range(rounds):
        for question in questions:
            start = time.perf_counter()
            engine.search(Query(question, limit=50))
            took.append((time.perf_counter() - start) * 1000)
    cpu = (time.process_time() - cpu) * 1000 / len(took)
    watch.cpu_seconds()
    added = (watch.peak_kb - before) / 1024
    return {
        "first_ms": first,
        "ms": took,
        "cpu_ms": cpu,
        "added_mb": added,
        "chunks": engine.vitals().chunks,
    }


def ranking(engine: Engine, watch: Watch, questions: list[str], rounds: int) -> dict[str, object]:
    """Ask as `search_code` does: CPU milliseconds of each query, by calls of the store."""
    from cortex.families.code.tools.definitions import (
        SNIPPETS,  # here, because the other tasks measure an engine without tools
    )

    calls: dict[str, int] = {}
    inside = _meter_store(calls)
    characters = engine.settings.search.budget * TOKEN_CHARACTERS
    ranked: list[float] = []
    stored: list[float] = []
    by_call: dict[str, list[float]] = {}
    for turn in range(rounds + 1):
        for question in questions:
            calls.clear()
            inside[0] = 0
            start = time.thread_time_ns()
            engine.search(Query(question, limit=50, characters=characters, snippets=SNIPPETS))
            whole = time.thread_time_ns() - start
            if turn == 0:  # what is read for the first time
                continue
            ranked.append((whole - inside[0]) / 1e6)
            stored.append(inside[0] / 1e6)
            for name, took in calls.items():
                by_call.setdefault(name, []).append(took / 1e6)
    return {
        "ranking_ms": ranked,
        "store_ms": stored,
        "calls_ms": by_call,
        "chunks": engine.vitals().chunks,
    }


def _meter_store(calls: dict[str, int]) -> list[int]:
    """Count CPU nanoseconds of every public call of the store into `calls`; returns the sum."""
    total, depth = [0], [0]

    def metered(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            depth[0] += 1
            start = time.thread_time_ns()
            try:
                return function(*given, **named)
            finally:
                depth[0] -= 1
                if depth[0] == 0:  # what one call of the store does for another is a part of it
                    took = time.thread_time_ns() - start
                    total[0] += took
                    calls[name] = calls.get(name, 0) + took

        return call

    for kind in (Store, ContentQueries, LexicalIndex, Indexes):
        for name, member in list(vars(kind).items()):
            if callable(member) and (not name.startswith("_") or name == "__len__"):
                setattr(kind, name, metered(f"{kind.__name__}.{name}", member))
    return total


def update(engine: Engine, watch: Watch, rounds: int) -> dict[str, object]:
    """Save and index files one by one: milliseconds, CPU milliseconds, additional megabytes."""
    files = [file.path for file in engine.files() if file.path.endswith(".py")][: rounds + 1]
    engine.index()  # nothing to do, but the engine is as it is in a running server
    engine.release_idle(0)
    before = watch.mark()
    first = save_and_index(engine, files[0])
    added = (watch.peak_kb - before) / 1024
    cpu = watch.cpu_seconds()
    took = [save_and_index(engine, path) for path in files[1:]]
    cpu = (watch.cpu_seconds() - cpu) * 1000 / len(took)
    added = max(added, (watch.peak_kb - before) / 1024)
    return {"first_ms": first, "ms": took, "cpu_ms": cpu, "added_mb": added}


def save_and_index(engine: Engine, path: str) -> float:
    with (engine.root / path).open("a", encoding="utf-8") as file:
        file.write(f"\n\ndef saved_{time.time_ns()}() -> None:\n    return None\n")
    start = time.perf_counter()
    report = engine.index(paths=[path])
    took = (time.perf_counter() - start) * 1000
    assert report.changed == 1, report
    return took


def main() -> None:
    task, given = sys.argv[1], json.loads(sys.argv[2])
    root = Path(given.pop("root"))
    environment = {"CORTEX_HOME": given.pop("home"), "CORTEX_SEARCH_ENABLE_CACHING": "false"}
    provider = given.pop("provider", "none")
    settings = load(root, environment=environment | {"CODEINDEX_EMBEDDING_PROVIDER": provider})
    if not given.pop("turbovec", True):
        vector_file.turbovec_works = lambda: False
    watch = Watch(os.getpid(), steady=given.pop("steady", False))
    with Engine(root, settings) as engine:
        out = {"search": search, "update": update, "ranking": ranking}[task](engine, watch, **given)
    watch.stop()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
