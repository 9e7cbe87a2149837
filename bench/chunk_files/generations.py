"""Chunk files of 384 dimensions: cost of loading, asking, reloading, and memory.

`python -m bench.chunk_files.generations TASK '{"folder": ..., "home": ...}'` runs one task in a process of its own, JSON
on stdout. Texts and vectors are random, from a seed; questions are embedded by a stand-in that
knows their vectors, so that only the search itself is measured.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.common.figures import Section, Setup
from bench.common.mcp_client import RpcError, Session
from bench.common.process_cost import Watch, run_task

if TYPE_CHECKING:  # the benchmark itself doesn't load what it measures
    from cortex.families.chunkfiles.index import ChunkIndex

DIMENSIONS = 384
MODEL = "BAAI/bge-small-en-v1.5"
FILES = {
    "symbols": "code-symbols",
    "definitions": "code-definitions",
    "data": "code-data",
    "documentation": "doc-chunks",
}
SMALL_FILE, SMALL_CHUNKS = "extra.json", 20
WORDS = 5_000
QUESTIONS = 50
LOAD_SECONDS = 600.0
SETTLE_SECONDS = 1.0
TARGETS_MB = {10_000: 60.0, 100_000: 150.0}
NEAR_MS, RELOAD_SECONDS, SMALL_SECONDS = 10.0, 2.0, 0.5


def measure(setup: Setup) -> Section:
    """With 10,000 and 100,000 chunks: starts of a server, then questions and reloads."""
    section = Section("chunks", "Chunk files")
    sizes = (1_000, 10_000) if setup.quick else (10_000, 100_000)
    section.text = (
        f"{DIMENSIONS} dimensions, four files, 120 words a chunk. Memory is RssAnon of `cortex mcp chunks` after a question was answered, above "
        "that of the same server with one chunk, of which most is the code of the server. Reloads are measured from the look at the files "
        "to the swap, without the quiet time before."
    )
    single = setup.work / "chunks1" / ".cortex" / "chunks"
    write_file(single / "doc-chunks.json", "documentation", 1, setup.seed, "2025-10-28T22:06:02Z")
    bare = _serve(setup, single)
    section.add("1 chunk, memory above a bare Python", "MB", (bare.kb - setup.bare_kb) / 1024)
    for size in sizes:
        folder = setup.work / f"chunks{size}" / ".cortex" / "chunks"
        write_all(folder, size, setup.seed)
        for what in ("from nothing", "again"):
            served = _serve(setup, folder)
            section.add(
                f"{size:,} chunks, started {what}, to the first answer", "s", served.seconds
            )
            memory = (served.kb - bare.kb) / 1024
            section.add(
                f"{size:,} chunks, started {what}, memory", "MB", memory, TARGETS_MB.get(size)
            )
            section.add(
                f"{size:,} chunks, started {what}, memory at its peak",
                "MB",
                (served.peak_kb - bare.kb) / 1024,
            )
        _add_asked(section, setup, folder, size)
    return section


def _add_asked(section: Section, setup: Setup, folder: Path, size: int) -> None:
    home, limited = str(setup.work / "chunks-home"), size == 10_000
    asked = _inside(setup, "ask", folder=str(folder), home=home)
    near = NEAR_MS if limited else None
    section.add(f"{size:,} chunks, vector part of a query, p95", "ms", _p95(asked["near_ms"]), near)
    section.add(f"{size:,} chunks, whole query, p95", "ms", _p95(asked["whole_ms"]))
    section.add(f"{size:,} chunks, query narrowed by a tag, p95", "ms", _p95(asked["narrowed_ms"]))
    took = _inside(setup, "reload", folder=str(folder), home=home, chunks=size, seed=setup.seed)
    all_of_it, small = (RELOAD_SECONDS, SMALL_SECONDS) if limited else (None, None)
    what = "reload after a new run of the indexer (all times, one text in ten)"
    section.add(f"{size:,} chunks, {what}", "s", took["regenerated"], all_of_it)
    section.add(
        f"{size:,} chunks, reload of another project's chunks (nothing stays)",
        "s",
        took["everything"],
    )
    section.add(f"{size:,} chunks, reload of one small file", "s", took["small"], small)


@dataclass(frozen=True, slots=True)
class Served:
    """Cost of a server's first answer."""

    seconds: float
    kb: int
    peak_kb: int


def _serve(setup: Setup, folder: Path) -> Served:
    started = time.perf_counter()
    command = [*setup.cortex, "mcp", "chunks", "--workspace", str(folder.parent.parent)]
    with Session(command, setup.environment(CORTEX_NO_SIDECAR="1")) as session:
        watch = Watch(session.server.pid)
        _await_answer(session)
        seconds = time.perf_counter() - started
        time.sleep(SETTLE_SECONDS)
        kb, peak = watch.now_kb, watch.peak_kb
        watch.stop()
    return Served(seconds, kb, peak)


def _await_answer(session: Session) -> None:
    deadline = time.monotonic() + LOAD_SECONDS
    while True:
        try:
            session.call("cortex_search", query="word1 word2", limit=5)
            return
        except RpcError:  # still being loaded
            if time.monotonic() > deadline:
                raise


def _inside(setup: Setup, task: str, **arguments: object) -> dict:
    return run_task(
        "bench.chunk_files.generations", task, arguments, setup.environment(), setup.bare_kb
    )


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


# -- the files


def write_all(
    folder: Path, size: int, seed: int, *, updated: str = "2025-10-28T22:06:02Z", changed: int = 0
) -> None:
    """Write four files of chunks; `changed` alters each chunk whose number it divides."""
    for number, (kind, name) in enumerate(FILES.items()):
        write_file(
            folder / f"{name}.json", kind, size // len(FILES), seed + number, updated, changed
        )


def write_file(
    path: Path, kind: str, count: int, seed: int, updated: str, changed: int = 0
) -> None:
    """Write one file of chunks, aside and then in its place."""
    about = {"model": MODEL, "dimensions": DIMENSIONS, "chunk_type": kind, "version": "2.0.0"}
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(f'{{"_metadata":{json.dumps(about)},"chunks":[')
        for place, chunk in enumerate(_chunks(kind, count, seed, updated, changed)):
            file.write(("," if place else "") + chunk)
        file.write("]}")
    os.replace(fresh, path)


def _chunks(kind: str, count: int, seed: int, updated: str, changed: int) -> Iterator[str]:
    words, vectors = random.Random(seed), np.random.default_rng(seed)
    for number in range(count):
        row = vectors.standard_normal(DIMENSIONS).astype(np.float32)
        row /= np.linalg.norm(row)
        text = " ".join(f"word{words.randrange(WORDS)}" for _ in range(120))
        if changed and number % changed == 0:
            text += " changed"
        path = f"internal/pkg{number % 97}/file{number}.go"
        fields = {
            "id": f"{kind}-{path}",
            "chunk_type": kind,
            "title": f"{kind.title()}: {path}",
            "text": text,
            "tags": ["code", "go" if number % 2 else "rust", kind],
            "metadata": {
                "file_path": path,
                "language": "go",
                "source": "code",
                "start_line": number,
            },
            "created_at": "2025-10-28T22:06:02.745712-06:00",
            "updated_at": updated,
        }
        numbers = ",".join(map(repr, np.round(row.astype(np.float64), 9).tolist()))
        yield f'{json.dumps(fields)[:-1]},"embedding":[{numbers}]}}'


# -- tasks in a process of their own


def ask(folder: str, home: str) -> dict[str, list[float]]:
    """Milliseconds of whole queries, of their vector search, and of queries with a tag."""
    import cortex.engine.search as searching
    from cortex.families.chunkfiles.index import ChunkQuery

    shelf = _open(folder, home)
    near: list[float] = []
    inner = searching.add_by_meaning

    def timed(*given: object, **named: object) -> None:
        start = time.perf_counter()
        inner(*given, **named)  # type: ignore[arg-type]
        near.append((time.perf_counter() - start) * 1000)

    searching.add_by_meaning = timed
    questions = [
        f"word{number} word{number * 7 % WORDS} word{number * 13 % WORDS}"
        for number in range(QUESTIONS)
    ]
    took: dict[str, list[float]] = {"whole_ms": [], "narrowed_ms": []}
    for name, tags in (("whole_ms", ()), ("narrowed_ms", ("go",))):
        for question in (*questions[:5], *questions):
            start = time.perf_counter()
            shelf.search(ChunkQuery(question, tags=tags))
            took[name].append((time.perf_counter() - start) * 1000)
        del took[name][:5]
    found = {**took, "near_ms": near[5 : 5 + QUESTIONS]}
    shelf.close()
    return found


def reload(folder: str, home: str, chunks: int, seed: int) -> dict[str, float]:
    """Seconds of a reload after a new run, of unrelated files, and of one small file."""
    shelf, path = _open(folder, home), Path(folder)
    took: dict[str, float] = {}
    write_file(path / SMALL_FILE, "documentation", SMALL_CHUNKS, seed + 99, "2025-10-28T22:06:02Z")
    _timed_reload(shelf)
    write_file(
        path / SMALL_FILE,
        "documentation",
        SMALL_CHUNKS,
        seed + 99,
        "2025-10-29T22:06:02Z",
        changed=4,
    )
    took["small"] = _timed_reload(shelf)
    write_all(path, chunks, seed, updated="2025-11-01T10:00:00Z", changed=10)
    took["regenerated"] = _timed_reload(shelf)
    write_all(path, chunks, seed + 1000)
    took["everything"] = _timed_reload(shelf)
    (path / SMALL_FILE).unlink()
    shelf.close()
    return took


def _timed_reload(shelf: ChunkIndex) -> float:
    gc.collect()
    start = time.perf_counter()
    assert shelf._loading.reload()
    return time.perf_counter() - start


def _open(folder: str, home: str) -> ChunkIndex:
    from cortex.base.settings import load
    from cortex.families.chunkfiles.index import ChunkIndex
    from cortex.families.chunkfiles.query_embedder import EmbedderChoice

    def vector_of(text: str) -> np.ndarray:
        return (
            np.random.default_rng(len(text) + sum(map(ord, text)))
            .standard_normal(DIMENSIONS)
            .astype(np.float32)
        )

    shelf = ChunkIndex(Path(folder), load(None, environment={"CORTEX_HOME": home}), watch=False)
    shelf._asker.choose = lambda stamps: EmbedderChoice((stamps[0], vector_of))  # type: ignore[method-assign]
    if not shelf._loading.adopt():
        shelf._loading.reload()
    shelf._ready.set()
    return shelf


if __name__ == "__main__":
    print(json.dumps({"ask": ask, "reload": reload}[sys.argv[1]](**json.loads(sys.argv[2]))))
