"""100,000 records of a team: time of answers and writes, and tokens of the answers.

By words, and as installed; without the cache. Tokens are characters / 4. Records are made up by
bench/team/generated.py.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.mcp_client import Session
from bench.common.process_cost import bytes_below, percentile, run_task
from bench.memories.tools import own_environment
from cortex.base.text import TOKEN_CHARACTERS

MOST_MS = {"search": 50.0, "bootstrap": 200.0}  # p95, of all that begin so
ARMS = (("", "none"), ("as installed: ", "local"))
KEY = "bench-tokens-0001"


def measure(setup: Setup) -> Section:
    """Fill a home, ask and write in every way, and count what is answered."""
    section = Section("team", "What a team keeps")
    count, rounds = (3_000, 20) if setup.quick else (100_000, 200)
    home = setup.work / "team"
    home.mkdir()
    environment = own_environment(setup, home)
    filled = inside(setup, environment, "fill", count=count, seed=setup.seed)
    section.add("records made in large steps, in a CPU second", "", count / filled["cpu"])
    section.add("on disk, a record", "KB", bytes_below(home / "cortex") / count / 1000)
    lines = ["| | p50 ms | p95 ms | CPU ms | tokens of an answer |", "|---|---:|---:|---:|---:|"]
    for label, provider in ARMS:
        own = {**environment, "CODEINDEX_EMBEDDING_PROVIDER": provider}
        inside(setup, own, "embed")
        asked = inside(setup, own, "ask", count=count, seed=setup.seed, rounds=rounds)
        lines += _add_calls(section, label, asked["took"])
        section.add(f"{label}first search of a process", "ms", asked["first_ms"])
    section.add(
        "as installed: on disk, a record", "KB", bytes_below(home / "cortex") / count / 1000
    )
    for label, provider in ARMS:
        own = {**environment, "CODEINDEX_EMBEDDING_PROVIDER": provider}
        for name, wrote in inside(setup, own, "write", rounds=10 if setup.quick else 100).items():
            section.add(f"{label}{name}, in a second", "", wrote["rate"])
            section.add(f"{label}{name}, CPU of one", "ms", wrote["ms"])
        given = {"count": count, "seed": setup.seed, "rounds": 5 if setup.quick else 40}
        for name, took in inside(setup, own, "after", **given).items():
            section.add(
                f"{label}{name}, right after a write, p95", "ms", percentile(took["wall"], 0.95)
            )
    lines += ["", *_count_tokens(setup, environment, home)]
    section.text = (
        f"{count:,} records, {rounds} questions of 2 to 8 words each way, ten results within the default budget. A write is on the disk, and found, when it is answered.\n\n"
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


def inside(setup: Setup, environment: dict[str, str], task: str, **arguments: object) -> dict:
    """Run a task of `tasks` in a fresh process."""
    return run_task("bench.team.tasks", task, arguments, environment, setup.bare_kb)


def _count_tokens(setup: Setup, environment: dict[str, str], folder: Path) -> Iterator[str]:
    """Tokens of each tool's definition and of its answer to a plain call."""
    with Session([*setup.cortex, "mcp", "team"], environment, folder) as session:
        tools = session.request("tools/list")["tools"]
        instructions = session.greeting.get("instructions", "")
        answers = {name: len(text) / TOKEN_CHARACTERS for name, text in _plain_calls(session)}
    yield f"In tokens: the list of {len(tools)} tools {sum(map(_tokens, tools)):,.0f}, instructions {len(instructions) / TOKEN_CHARACTERS:,.0f}."
    yield ""
    yield "| tool | its definition | its answer to a plain call |"
    yield "|---|---:|---:|"
    for tool in tools:
        answer = answers.get(tool["name"])
        yield f"| `{tool['name']}` | {_tokens(tool):,.0f} | {'' if answer is None else f'{answer:,.0f}'} |"


def _plain_calls(session: Session) -> Iterator[tuple[str, str]]:
    """Each tool, called with the required arguments only; its answer."""
    found: dict[str, str] = {}
    for kind in ("threads", "tasks", "artifacts"):
        rows = session.call("cortex_search", query="value", types=[kind])["data"]["results"]
        found[kind] = rows[0]["id"]
    yield "cortex_get_bootstrap_pack", session.text("cortex_get_bootstrap_pack")
    yield "cortex_search", session.text("cortex_search", query="return the value of a name")
    yield (
        "cortex_get_context_pack",
        session.text("cortex_get_context_pack", subject={"thread_id": found["threads"]}),
    )
    yield "cortex_get_thread", session.text("cortex_get_thread", thread_id=found["threads"])
    yield "cortex_get_artifact", session.text("cortex_get_artifact", artifact_id=found["artifacts"])
    yield "cortex_get_inbox", session.text("cortex_get_inbox")
    seen = [
        {
            "title": "The tests pass on the new runner",
            "summary_md": "All of them, twice.",
            "type": "test_result",
        }
    ]
    yield (
        "cortex_create_observations",
        session.text("cortex_create_observations", observations=seen, idempotency_key=f"{KEY}-1"),
    )
    target, body = (
        {"thread_id": found["threads"]},
        "It was the cache: without it the second run takes as long as the first.",
    )
    draft = {
        "draft_type": "comment",
        "target_ref": target,
        "body_md": body,
        "idempotency_key": f"{KEY}-2",
    }
    yield "cortex_create_draft", session.text("cortex_create_draft", **draft)
    comment = {"thread_id": found["threads"], "body_md": body, "idempotency_key": f"{KEY}-3"}
    yield "cortex_publish_comment", session.text("cortex_publish_comment", **comment)
    task = {"task_id": found["tasks"], "status": "in_progress", "idempotency_key": f"{KEY}-4"}
    yield "cortex_update_task", session.text("cortex_update_task", **task)


def _tokens(body: object) -> float:
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":"))) / TOKEN_CHARACTERS
