"""Chunks, chunk files and questions to their index; vectors are those of the stand-in server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cortex.families.chunkfiles.index import ChunkIndex, ChunkQuery, ChunkSearchResult
from engine.embedders.stub import DIMENSIONS, vectors_of

INDEX_PROCESS = Path(__file__).with_name("index_process.py")


def make_chunk(
    name: str, text: str, *, kind: str = "documentation", tags: tuple[str, ...] = (), **more: object
) -> dict:
    """A chunk with the vector of its text."""
    return {
        "id": name,
        "chunk_type": kind,
        "title": f"About {name}",
        "text": text,
        "embedding": vectors_of([text])[0],
        "tags": list(tags),
        "metadata": {"source": "markdown", "start_line": 1},
        "created_at": "2025-10-16T12:35:00Z",
        "updated_at": "2025-10-16T12:35:00Z",
        **more,
    }


def write_chunks(
    path: Path, *chunks: dict, model: str = "stub", dimensions: int = DIMENSIONS
) -> None:
    """Write a chunk file as indexers do: aside, then renamed."""
    content = {"_metadata": {"model": model, "dimensions": dimensions}, "chunks": list(chunks)}
    fresh = path.with_name(path.name + ".tmp")
    fresh.write_text(json.dumps(content), encoding="utf-8")
    os.replace(fresh, path)


def ids(found: ChunkSearchResult) -> list[str]:
    """The ids of what was found, best first."""
    return [entry.id for entry, _ in found.results]


def ask(index: ChunkIndex, text: str, **more: object) -> ChunkSearchResult:
    return index.search(ChunkQuery(text, **more))  # type: ignore[arg-type]


def wait_until_loaded(index: ChunkIndex, until: Callable[..., float], chunks: int) -> None:
    until(lambda: index.ready and index.state().chunks == chunks)


@contextmanager
def another_process(
    folder: Path, home: Path, *variables: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process that serves the folder until it is killed, and its generation."""
    command = [sys.executable, str(INDEX_PROCESS), str(folder), str(home), *variables]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
