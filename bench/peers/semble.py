"""semble's side: its command, its MCP server, and its index in process."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.common.mcp_client import Session
from bench.common.process_cost import bytes_below, run
from bench.peers.questions import QUERIES
from bench.peers.rows import COLD_QUERIES, RESULTS, ROUNDS, WARM_UP, Row, ask_over_mcp, judge

_WARM = """
import json, sys, time
from semble import SembleIndex
from semble.types import ContentType
tree, content, warm_up, rounds, k, queries = json.loads(sys.argv[1])
index = SembleIndex.from_path(tree, content=tuple(ContentType) if content == "all" else (ContentType.CODE,))
index.search(warm_up, top_k=k)
out, before = [], time.process_time()
for turn in range(rounds):
    for query in queries:
        start = time.perf_counter()
        results = index.search(query, top_k=k)
        out.append([(time.perf_counter() - start) * 1000, [r.chunk.file_path for r in results]])
cpu = time.process_time() - before
print(json.dumps({"answers": out, "cpu": cpu, "files": index.stats.indexed_files, "chunks": index.stats.total_chunks, "cached": index.loaded_from_disk}))
"""

_FILES = """
import json, sys
from semble import SembleIndex
from semble.types import ContentType
index = SembleIndex.from_path(sys.argv[1], content=(ContentType.CODE,))
print(json.dumps(sorted({chunk.file_path for chunk in index.chunks})))
"""


@dataclass(frozen=True, slots=True)
class Semble:
    """An environment that has semble, and the local model2vec folder that it embeds with."""

    python: str
    model: str
    mcp: bool  # whether its MCP server is measured too

    def environment(self, cache: str) -> dict[str, str]:
        """The variables that keep it to a local model and a cache of its own."""
        return {
            **os.environ,
            "SEMBLE_MODEL_NAME": self.model,
            "SEMBLE_CACHE_LOCATION": cache,
            "HF_HUB_OFFLINE": "1",
        }

    def command(self) -> list[str]:
        """The command that starts it."""
        script = Path(self.python).with_name("semble")
        return [str(script)] if script.exists() else [self.python, "-m", "semble.cli"]


def code_files(semble: Semble, tree: Path) -> list[str]:
    """The files that semble indexes by default, relative to the tree."""
    with tempfile.TemporaryDirectory(prefix="peers-semble-") as cache:
        return json.loads(
            run([semble.python, "-c", _FILES, str(tree)], semble.environment(cache), 0).output
        )


def measure_semble(row: Row, semble: Semble, tree: Path, content: str, bare_kb: int) -> None:
    """One round of semble with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="peers-semble-") as cache:
        environment = semble.environment(cache)
        search = [*semble.command(), "search"]
        options = [str(tree), "-k", str(RESULTS), "--content", content]
        row.add_indexing(
            run([*search, WARM_UP, *options], environment, bare_kb), bytes_below(Path(cache))
        )
        row.add_cold(
            [
                run([*search, query, *options], environment, bare_kb)
                for query, _ in QUERIES[:COLD_QUERIES]
            ]
        )
        question = json.dumps(
            [str(tree), content, WARM_UP, ROUNDS, RESULTS, [query for query, _ in QUERIES]]
        )
        inside = json.loads(
            run([semble.python, "-c", _WARM, question], environment, bare_kb).output
        )
        if not inside["cached"]:
            raise SystemExit("semble did not find the index that its command wrote")
        row.files, row.chunks = inside["files"], inside["chunks"]
        answers = judge([(took, files) for took, files in inside["answers"]])
        row.add_inside(answers, inside["cpu"] * 1000 / len(answers.milliseconds))
        row.answered, row.expected = answers.answered, answers.expected
        if semble.mcp:
            arguments: dict[str, object] = {"repo": str(tree), "top_k": RESULTS, "content": content}
            with Session(semble.command(), environment) as session:
                ask_over_mcp(row, session, "search", arguments, bare_kb)
