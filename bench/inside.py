"""One task in a process of its own that opens an engine: `python inside.py search|update '{"root": ..., "home": ...}'`, JSON on stdout.

A fresh process for each, because memory that an earlier task gave back to the allocator would hide what the next one needs. With
"steady": true memory is sampled all the time; that costs, so times are measured without it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from measure import Watch

from cortex.engine import Engine
from cortex.settings import load
from cortex.types import Query


def search(engine: Engine, watch: Watch, questions: list[str], rounds: int) -> dict[str, object]:
    """Ask every question several times: milliseconds of each, CPU milliseconds, megabytes above the open engine."""
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
    return {"first_ms": first, "ms": took, "cpu_ms": cpu, "added_mb": added, "chunks": engine.vitals().chunks}


def update(engine: Engine, watch: Watch, rounds: int) -> dict[str, object]:
    """Save one file after another and index each: milliseconds, CPU milliseconds, megabytes above the open engine."""
    files = [file.path for file in engine.files() if file.path.endswith(".py")][: rounds + 1]
    engine.index()  # nothing to do, but the engine is as it is in a running server
    engine.rest(0)
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
    settings = load(root, environment={"CORTEX_HOME": given.pop("home"), "CORTEX_SEARCH_ENABLE_CACHING": "false"})
    watch = Watch(os.getpid(), steady=given.pop("steady", False))
    with Engine(root, settings) as engine:
        out = {"search": search, "update": update}[task](engine, watch, **given)
    watch.stop()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
