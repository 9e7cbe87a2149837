"""100,000 memories of a person: time of each tool's answer, and its tokens.

By words, and as installed; without the cache. Tokens are characters / 4. Memories are made up by
generated.py.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.mcp_client import Session
from bench.common.process_cost import bytes_below, percentile, run_task
from cortex.base.text import TOKEN_CHARACTERS

MOST_MS = {"query": 50.0, "get_context": 100.0}  # p95, of all that begin so
ROW_TOKENS = 30.0
ARMS = (("", "none"), ("as installed: ", "local"))


def measure(setup: Setup) -> Section:
    """Fill a home, ask it in every way, and count what is answered."""
    section = Section("memories", "Memories")
    count, rounds = (5_000, 20) if setup.quick else (100_000, 200)
    home = setup.work / "memories"
    folder = home / "project-07"
    folder.mkdir(parents=True)
    environment = own_environment(setup, home)
    filled = inside(setup, environment, "fill", count=count, seed=setup.seed)
    given = {"count": count, "seed": setup.seed, "rounds": rounds, "folder": str(folder)}
    section.add("import, memories in a CPU second", "", filled["added"] / filled["cpu"])
    section.add("import, memory above the open library", "MB", filled["mb"])
    section.add("on disk, a memory", "KB", bytes_below(home / "cortex") / count / 1000)
    lines = ["| | p50 ms | p95 ms | CPU ms | tokens of an answer |", "|---|---:|---:|---:|---:|"]
    for label, provider in ARMS:
        own = {**environment, "CODEINDEX_EMBEDDING_PROVIDER": provider}
        inside(setup, own, "embed")
        asked = inside(setup, own, "ask", **given)
        lines += _add_calls(section, label, asked["took"])
        section.add(f"{label}first query of a process", "ms", asked["first_ms"])
        section.add(
            f"{label}asking, memory above a process that has opened nothing", "MB", asked["mb"]
        )
    _count_tokens(setup, section, environment, folder)
    section.text = (
        f"{count:,} memories of about 130 words, {rounds} questions of 2 to 8 words each way; ten results within the default budget.\n\n"
        + "\n".join(lines)
    )
    return section


def _add_calls(
    section: Section, label: str, calls: dict[str, dict[str, list[float]]]
) -> Iterator[str]:
    """A row for each way to ask; those with a target are figures, too."""
    for name, took in calls.items():
        wall, cpu = took["wall"], statistics.median(took["cpu"])
        tokens = statistics.median(took["characters"]) / TOKEN_CHARACTERS
        p95 = percentile(wall, 0.95)
        yield f"| {label}{name} | {statistics.median(wall):.1f} | {p95:.1f} | {cpu:.1f} | {tokens:,.0f} |"
        target = next((most for begun, most in MOST_MS.items() if name.startswith(begun)), None)
        if target is not None:
            section.add(f"{label}{name}, p95", "ms", p95, target)


def own_environment(setup: Setup, home: Path) -> dict[str, str]:
    """Variables for a Cortex with a new home, without databases of other products."""
    person = {"HOME": str(home), "USERPROFILE": str(home)}
    return {**setup.environment(), **person, "CORTEX_HOME": str(home / "cortex")}


def inside(setup: Setup, environment: dict[str, str], task: str, **arguments: object) -> dict:
    """Run a task of `tasks` in a fresh process."""
    return run_task("bench.memories.tasks", task, arguments, environment, setup.bare_kb)


def _count_tokens(
    setup: Setup, section: Section, environment: dict[str, str], folder: Path
) -> None:
    """Tokens that a client reads through the protocol."""
    with Session([*setup.cortex, "mcp", "memory"], environment, folder) as session:
        listed = session.request("tools/list")["tools"]
        section.add("tools/list of the family", "tokens", _tokens(listed))
        context = session.call("get_context", max_memories=20, budget=100_000)
        rows = [*context["recent_memories"], *context["cross_project_learnings"]]
        section.add(
            "a row of get_context", "tokens", statistics.median(map(_tokens, rows)), ROW_TOKENS
        )
        found = session.call("query_memories", limit=50)
        short = [row for row in found["results"] if "more" in row]
        if short:
            section.add(
                "a short row of query_memories", "tokens", statistics.median(map(_tokens, short))
            )
        section.add("a whole row of query_memories", "tokens", _tokens(found["results"][0]))


def _tokens(body: object) -> float:
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":"))) / TOKEN_CHARACTERS
