"""Cost of a saved file: indexing it in an open engine, and until a server finds it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.mcp_client import Session
from bench.common.process_cost import percentile

UPDATE_MS, FRESH_MS = 200.0, 1_000.0
GIVE_UP_SECONDS = 20.0


def measure(setup: Setup) -> Section:
    """Update one file at a time in the large repository."""
    section = Section("updates", "Updates")
    root, rounds = setup.indexed(setup.large), 10 if setup.quick else 40
    inside = setup.inside("update", root=str(root), rounds=rounds)
    section.text = (
        f"{setup.large:,} files; {rounds} saves one after another. Findable: from the save until `search_code` of a running "
        "`cortex mcp` has it (and, deleted, no longer has it), the quiet time of 100 ms included."
    )
    section.add("index one changed file, p50", "ms", percentile(inside["ms"], 0.5), UPDATE_MS)
    section.add("index one changed file, p95", "ms", percentile(inside["ms"], 0.95), UPDATE_MS)
    section.add("index one changed file, CPU", "ms", inside["cpu_ms"])
    section.add("the first one, which starts the worker process", "ms", inside["first_ms"])
    with Session(
        [*setup.cortex, "mcp", "code", "--workspace", str(root)], setup.environment()
    ) as session:
        session.wait_until_ready()
        fresh, gone = _save_and_find(session, root, rounds)
    section.add("saved file findable, p50", "ms", percentile(fresh, 0.5), FRESH_MS)
    section.add("saved file findable, p95", "ms", percentile(fresh, 0.95), FRESH_MS)
    section.add("deleted file no longer found, p50", "ms", percentile(gone, 0.5), FRESH_MS)
    section.add("deleted file no longer found, p95", "ms", percentile(gone, 0.95), FRESH_MS)
    return section


def _save_and_find(session: Session, root: Path, rounds: int) -> tuple[list[float], list[float]]:
    fresh, gone = [], []
    for number in range(rounds):
        word, path = f"quokka{number}wombat", root / f"saved_{number}.py"

        def found(word: str = word, name: str = path.name) -> bool:
            hits = session.call("search_code", query=word, maxResults=5)["results"]
            return any(hit["file"] == name for hit in hits)

        path.write_text(f"def {word}() -> int:\n    return {number}\n", encoding="utf-8")
        fresh.append(_until(found))
        path.unlink()
        gone.append(_until(lambda found=found: not found()))
    return fresh, gone


def _until(condition: Callable[[], bool]) -> float:
    start = time.perf_counter()
    while not condition():
        if time.perf_counter() - start > GIVE_UP_SECONDS:
            raise SystemExit("a saved file was not found in time")
    return (time.perf_counter() - start) * 1000
