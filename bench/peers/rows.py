"""Common parts of the peers' measurements: rows, questions and the table."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.common.mcp_client import Session
from bench.common.process_cost import Cost, Watch, middle, spread
from bench.peers.questions import QUERIES

ROUNDS = 3  # of all queries in a warm session
COLD_QUERIES = 5
RESULTS = 10
WARM_UP = "where is the version number"


@dataclass(frozen=True, slots=True)
class Answers:
    """Warm queries: milliseconds of each, number of answers, and of those with the right file."""

    milliseconds: tuple[float, ...]
    answered: int
    expected: int


@dataclass(slots=True)
class Row:
    """One product's measurements; one entry for each round."""

    name: str
    files: int = 0
    chunks: int = 0
    index_cpu: list[float] = field(default_factory=list)
    index_wall: list[float] = field(default_factory=list)
    index_rss: list[float] = field(default_factory=list)
    disk_mb: list[float] = field(default_factory=list)
    cold_ms: list[float] = field(default_factory=list)
    cold_cpu_ms: list[float] = field(default_factory=list)
    mcp_ms: list[float] = field(default_factory=list)
    mcp_rss: list[float] = field(default_factory=list)
    # Mean over a session's queries, one entry for each round
    mcp_cpu_ms: list[float] = field(default_factory=list)
    inside_ms: list[float] = field(default_factory=list)
    inside_cpu_ms: list[float] = field(default_factory=list)
    answered: int = 0
    expected: int = 0

    def add_indexing(self, cost: Cost, size: int) -> None:
        """Add one cold indexing run and the size of what it left on disk."""
        self.index_cpu.append(cost.cpu)
        self.index_wall.append(cost.wall)
        self.index_rss.append(cost.rss_anon_mb)
        self.disk_mb.append(size / 1e6)

    def add_cold(self, costs: Sequence[Cost]) -> None:
        """Add search commands, each a process of its own."""
        self.cold_ms += [cost.wall * 1000 for cost in costs]
        self.cold_cpu_ms += [cost.cpu * 1000 for cost in costs]

    def add_inside(self, answers: Answers, cpu_ms: float) -> None:
        """Add warm queries that went through no protocol."""
        self.inside_ms += answers.milliseconds
        self.inside_cpu_ms.append(cpu_ms)


def judge(timed: Sequence[tuple[float, list[str]]]) -> Answers:
    """Number of the last round's questions that were answered, and answered well."""
    last = [files for _, files in timed[-len(QUERIES) :]]
    expected = sum(file in files[:RESULTS] for (_, file), files in zip(QUERIES, last, strict=True))
    return Answers(tuple(took for took, _ in timed), sum(bool(files) for files in last), expected)


def ask_all(ask: Callable[[str], list[str]]) -> Answers:
    """Ask every question in every round."""
    timed: list[tuple[float, list[str]]] = []
    for _ in range(ROUNDS):
        for query, _file in QUERIES:
            start = time.perf_counter()
            files = ask(query)
            timed.append(((time.perf_counter() - start) * 1000, files))
    return judge(timed)


def ask_over_mcp(
    row: Row, session: Session, tool: str, arguments: dict[str, object], bare_kb: int
) -> Answers:
    """Warm answers of an MCP server, after a first that doesn't count."""
    watch = Watch(session.server.pid)

    def ask(query: str) -> list[str]:
        return files_of(
            session.request(
                "tools/call", {"name": tool, "arguments": {"query": query, **arguments}}
            )
        )

    try:
        ask(WARM_UP)
        before = watch.cpu_seconds()
        answers = ask_all(ask)
        row.mcp_ms += answers.milliseconds
        row.mcp_cpu_ms.append((watch.cpu_seconds() - before) * 1000 / len(answers.milliseconds))
        row.mcp_rss.append(max(0, watch.peak_kb - bare_kb) / 1024)
        return answers
    finally:
        watch.stop()


def files_of(result: dict) -> list[str]:
    """The files in a tool's answer, in order."""
    text = result["content"][0]["text"]
    if result.get("isError"):
        raise SystemExit(f"the tool failed: {text[:500]}")
    return [
        hit.get("file") or hit.get("file_path", "") for hit in json.loads(text).get("results", ())
    ]


def render(rows: Sequence[Row]) -> str:
    """A Markdown table: medians over the rounds, p50 / p95 over all queries."""
    lines = [
        ("", [row.name for row in rows]),
        ("files / chunks", [f"{row.files:,} / {row.chunks:,}" for row in rows]),
        ("indexing, CPU s", [middle(row.index_cpu, ".2f") for row in rows]),
        ("indexing, wall s", [middle(row.index_wall, ".2f") for row in rows]),
        ("indexing, peak RssAnon MB", [middle(row.index_rss, ".0f") for row in rows]),
        ("index on disk, MB", [middle(row.disk_mb, ".1f") for row in rows]),
        ("one search command, wall ms", [middle(row.cold_ms, ".0f") for row in rows]),
        ("one search command, CPU ms", [middle(row.cold_cpu_ms, ".0f") for row in rows]),
        ("warm query over MCP, ms p50 / p95", [spread(row.mcp_ms) for row in rows]),
        ("the same, p50 of the quietest pass", [quietest(row.mcp_ms) for row in rows]),
        ("the same, CPU ms", [middle(row.mcp_cpu_ms, ".1f") for row in rows]),
        ("warm query in process, ms p50 / p95", [spread(row.inside_ms) for row in rows]),
        ("the same, p50 of the quietest pass", [quietest(row.inside_ms) for row in rows]),
        ("the same, CPU ms", [middle(row.inside_cpu_ms, ".1f") for row in rows]),
        ("MCP server, peak RssAnon MB", [middle(row.mcp_rss, ".0f") for row in rows]),
        (
            f"answered / expected file in the first {RESULTS}, of {len(QUERIES)}",
            [f"{row.answered} / {row.expected}" for row in rows],
        ),
    ]
    table = [f"| {name} | {' | '.join(cells)} |" for name, cells in lines]
    return "\n".join([table[0], "|---" + "|---:" * len(rows) + "|", *table[1:]])


def quietest(values: Sequence[float]) -> str:
    """The best median of one pass over all queries: free of other work on the machine."""
    passes = [values[start : start + len(QUERIES)] for start in range(0, len(values), len(QUERIES))]
    return f"{min(statistics.median(times) for times in passes):.1f}" if passes else "-"
