"""Cortex's side: its command, its MCP server, and its engine in process."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.common.mcp_client import Session
from bench.common.process_cost import bytes_below, clean_environment, run
from bench.peers.questions import QUERIES
from bench.peers.rows import COLD_QUERIES, RESULTS, ROUNDS, WARM_UP, Row, ask_over_mcp, judge

_WARM = """
import json, sys, time
from pathlib import Path
from cortex.engine import Engine
from cortex.base.settings import environment, load
from cortex.base.types import Query
tree, warm_up, rounds, k, queries = json.loads(sys.argv[1])
with Engine(Path(tree), load(Path(tree), environment=environment())) as engine:
    engine.search(Query(warm_up, limit=k))
    out, before = [], time.process_time()
    for turn in range(rounds):
        for query in queries:
            start = time.perf_counter()
            page = engine.search(Query(query, limit=k))
            out.append([(time.perf_counter() - start) * 1000, [hit.path for hit in page.hits]])
    cpu = time.process_time() - before
print(json.dumps({"answers": out, "cpu": cpu}))
"""


def measure_cortex(
    row: Row, cortex: Sequence[str], tree: Path, bare_kb: int, provider: str
) -> None:
    """One round of Cortex with no store and an empty home."""
    with tempfile.TemporaryDirectory(prefix="peers-cortex-") as home:
        environment = clean_environment(
            CORTEX_HOME=home,
            CORTEX_SEARCH_ENABLE_CACHING="false",
            CODEINDEX_EMBEDDING_PROVIDER=provider,
        )
        store = tree / ".cortex"
        try:
            cost = run([*cortex, "index", str(tree), "--json"], environment, bare_kb)
            row.add_indexing(cost, bytes_below(store) + bytes_below(Path(home)))
            options = ["--path", str(tree), "--limit", str(RESULTS), "--json"]
            commands = [[*cortex, "search", query, *options] for query, _ in QUERIES[:COLD_QUERIES]]
            row.add_cold([run(command, environment, bare_kb) for command in commands])
            question = json.dumps(
                [str(tree), WARM_UP, ROUNDS, RESULTS, [query for query, _ in QUERIES]]
            )
            inside = json.loads(
                run([sys.executable, "-c", _WARM, question], environment, bare_kb).output
            )
            answers = judge([(took, files) for took, files in inside["answers"]])
            row.add_inside(answers, inside["cpu"] * 1000 / len(answers.milliseconds))
            with Session(
                [*cortex, "mcp", "code", "--workspace", str(tree)], environment
            ) as session:
                indexing = session.wait_until_ready()["indexing"]
                row.files, row.chunks = indexing["indexedFiles"], indexing["totalChunks"]
                answers = ask_over_mcp(
                    row, session, "search_code", {"maxResults": RESULTS, "threshold": 0}, bare_kb
                )
                row.answered, row.expected = answers.answered, answers.expected
        finally:
            shutil.rmtree(store, ignore_errors=True)
