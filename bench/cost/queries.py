"""Time of an answer on the large repository without the cache: in process and over MCP."""

from __future__ import annotations

import time

from bench.common.figures import Section, Setup
from bench.common.mcp_client import Session
from bench.common.process_cost import Watch, percentile
from bench.common.questions import QUESTIONS

TARGET_MS = 50.0


def measure(setup: Setup) -> Section:
    """Ask all questions, several times over."""
    section = Section("queries", "Queries")
    root, rounds = str(setup.indexed(setup.large)), max(2, setup.repeat)
    inside = setup.inside("search", root=root, questions=QUESTIONS, rounds=rounds)
    over, cpu, exact = _over_mcp(setup, root, rounds)
    section.text = f"{inside['chunks']:,} chunks, {len(QUESTIONS)} questions, {rounds} times over, at most 50 results each, caching off."
    for name, took, spent in (
        ("in process", inside["ms"], inside["cpu_ms"]),
        ("over MCP", over, cpu),
    ):
        section.add(f"{name}, p50", "ms", percentile(took, 0.5))
        section.add(f"{name}, p95", "ms", percentile(took, 0.95), TARGET_MS)
        section.add(f"{name}, CPU for each", "ms", spent)
    section.add("first query of an open engine", "ms", inside["first_ms"])
    section.add('exact text ("...", every file read) over MCP, p50', "ms", percentile(exact, 0.5))
    return section


def _over_mcp(setup: Setup, root: str, rounds: int) -> tuple[list[float], float, list[float]]:
    with Session(
        [*setup.cortex, "mcp", "code", "--workspace", root], setup.environment()
    ) as session:
        session.wait_until_ready()
        watch = Watch(session.server.pid)
        session.call("search_code", query="warm up")
        before, took = watch.cpu_seconds(), []
        for _ in range(rounds):
            took += [_timed(session, question) for question in QUESTIONS]
        cpu = (watch.stop() - before) * 1000 / len(took)
        return (
            took,
            cpu,
            [
                _timed(session, f'"{text}"')
                for text in ("def getLogger", "raise ValueError", "zzz no such")
            ],
        )


def _timed(session: Session, question: str) -> float:
    start = time.perf_counter()
    session.call("search_code", query=question)
    return (time.perf_counter() - start) * 1000
