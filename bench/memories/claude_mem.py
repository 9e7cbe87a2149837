"""A claude-mem database of 200,000 rows: first answer, full copy, a new row, a restart.

Through `cortex mcp memory` on an empty home, as a client meets it; by words only. Beside it the
same database asked as other readers ask it: every word with LIKE, and with an FTS5 table over its
rows, which versions up to 12 kept.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.mcp_client import Session
from bench.common.process_cost import Watch, bytes_below, percentile
from bench.memories.generated import OBSERVATION, make, make_claude_mem, questions, row_of
from bench.memories.plain_sql import ask_by_like, ask_by_match, copy_with_words
from bench.memories.tools import own_environment

MARK = "zanzibarquokka"  # in no other row
FIRST_SECONDS = 2.0
COPY_SECONDS = 1_800.0
PAUSE_SECONDS = 0.5  # of a client between two questions while rows are copied
BEING_INDEXED = "being indexed"
NEW_ROWS = 5


def measure(setup: Setup) -> Section:
    """All of it, and both other ways to ask."""
    section = Section("foreign", "Memories of another product")
    count, rounds = (3_000, 10) if setup.quick else (200_000, 60)
    home = setup.work / "foreign"
    path = home / ".claude-mem" / "claude-mem.db"
    make_claude_mem(path, count, setup.seed)
    asked = questions(200, islice(make(count, setup.seed), 20_000), setup.seed)
    environment = own_environment(setup, home)
    command = [*setup.cortex, "mcp", "memory"]
    with Session(command, environment, home) as session:
        watch = Watch(session.server.pid)
        first = _took(lambda: session.call("query_memories", query=asked[0]))
        section.add("first answer, after `initialize`", "s", first, FIRST_SECONDS)
        seconds, during = _until_copied(session, asked)
        section.add("all rows copied and found", "s", seconds)
        section.add("the same, CPU with the questions meanwhile", "s", watch.cpu_seconds())
        section.add("a question meanwhile, p50", "ms", 1000 * statistics.median(during))
        section.add("a question meanwhile, p95", "ms", 1000 * percentile(during, 0.95))
        after = [
            _took(lambda text=text: session.call("query_memories", query=text))
            for text in asked[:rounds]
        ]
        section.add("a question after that, p50", "ms", 1000 * statistics.median(after))
        section.add("a question after that, p95", "ms", 1000 * percentile(after, 0.95))
        section.add(
            "a new row is in an answer after",
            "ms",
            [1000 * _new_row(session, path, n) for n in range(NEW_ROWS)],
        )
        watch.stop()
        section.add("peak memory above a bare Python", "MB", (watch.peak_kb - setup.bare_kb) / 1024)
    section.add("on disk / the database", "x", bytes_below(home / "cortex") / path.stat().st_size)
    section.add(
        "CPU of a start with nothing new", "s", _restart(command, environment, home, asked[0])
    )
    beside = _peers(path, asked[:rounds], setup.work / "foreign-fts.db")
    section.text = (
        f"{count:,} observations of about 130 words, {path.stat().st_size / 1e6:,.0f} MB. The same {rounds} questions asked otherwise: {beside}. "
        f"Both give ten rows; LIKE those that hold all words, FTS5 the best that hold any, Cortex through MCP {1000 * statistics.median(after):.0f} ms."
    )
    return section


def _until_copied(session: Session, asked: Sequence[str]) -> tuple[float, list[float]]:
    """Seconds until answers come from everything, and those of each question on the way."""
    started, took = time.perf_counter(), list[float]()
    while time.perf_counter() - started < COPY_SECONDS:
        begun = time.perf_counter()
        answer = session.call("query_memories", query=asked[len(took) % len(asked)])
        took.append(time.perf_counter() - begun)
        if not any(BEING_INDEXED in note for note in answer.get("notes", ())):
            return time.perf_counter() - started, took
        time.sleep(PAUSE_SECONDS)
    raise SystemExit("the rows were not copied in time")


def _new_row(session: Session, path: Path, number: int) -> float:
    """Seconds from the commit of another process's row to the first answer that has it."""
    word = f"{MARK}{number}"
    memory = replace(next(make(1, number)), title=f"The {word} is served cold")
    connection = sqlite3.connect(path)
    connection.execute(OBSERVATION, row_of(memory))
    connection.commit()
    started = time.perf_counter()
    connection.close()
    while time.perf_counter() - started < 60:
        answer = session.call("query_memories", query=word)
        if any(word in row["title"] for row in answer["results"]):
            return time.perf_counter() - started
        time.sleep(0.01)
    raise SystemExit("a new row was not found")


def _restart(command: Sequence[str], environment: dict[str, str], home: Path, query: str) -> float:
    with Session(command, environment, home) as session:
        watch = Watch(session.server.pid)
        session.call("query_memories", query=query)
        time.sleep(3.0)  # whatever it finds to do
        return watch.stop()


def _peers(path: Path, asked: Sequence[str], copy: Path) -> str:
    """The milliseconds of the same questions by LIKE, and by FTS5 in a copy."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    some = random.Random(1).sample(list(asked), 10)
    like = [_took(lambda text=text: ask_by_like(connection, text)) for text in some]
    connection.close()
    made = copy_with_words(path, copy)
    match = [_took(lambda text=text: ask_by_match(made, text)) for text in asked]
    made.close()
    return f"LIKE {1000 * statistics.median(like):,.0f} ms, FTS5 {1000 * statistics.median(match):,.0f} ms (medians)"


def _took(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
