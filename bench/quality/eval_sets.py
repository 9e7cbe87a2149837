"""An evaluation kit's prepared sets, asked in process, and scored by the kit.

KIT is a folder with `run.py` and the package `ceval`; BUILT holds its sets:
`NAME/queries-dev.jsonl` and `NAME/corpus/CORPUS/`. Everything works on copies: one for Cortex,
which keeps its index in the folder, and a plain one for others. Nothing of a set is ever written
down but scores.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from bench.common.figures import Setup
from bench.common.process_cost import run
from bench.peers.semble import Semble
from cortex.base.settings import load
from cortex.base.types import Cancel, Hit, Mode, Query
from cortex.engine.engine import Engine

RANKED = ("semble", "semble-full", "cookbook-files", "cookbook-chunks")
MEMORIES = ("locomo", "locomo-session")
DEPTH = 20

Row = dict  # a query: id, corpus, query, relevant


class Sets:
    """The sets of a kit, each corpus indexed on its first use.

    Without vectors unless a provider is named.
    """

    def __init__(
        self, setup: Setup, kit: Path, built: Path, names: Sequence[str], provider: str = "none"
    ) -> None:
        self.names = [name for name in names if (built / name).exists()]
        self.rows: dict[str, list[Row]] = {
            name: _read(built / name / "queries-dev.jsonl") for name in self.names
        }
        self._setup, self._kit, self._built, self._provider = setup, kit, built, provider
        self._engines: dict[Path, Engine] = {}
        self._open = ExitStack()
        if str(kit) not in sys.path:
            sys.path.append(str(kit))
        self._judge = importlib.import_module("ceval.score")

    def __enter__(self) -> Sets:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def corpora(self, name: str) -> list[str]:
        """The folders that a set's queries are about."""
        return sorted({row["corpus"] for row in self.rows[name]})

    def engine(self, name: str, corpus: str) -> Engine:
        """An engine with the corpus indexed."""
        folder = self._copy(f"sets-{self._provider}", name) / "corpus" / corpus
        if folder not in self._engines:
            settings = load(folder, environment=self._setup.environment(provider=self._provider))
            engine = self._engines[folder] = self._open.enter_context(Engine(folder, settings))
            engine.index()
            # Its cost is not part of the run
            engine.embedding.embed(progress=lambda step: None, cancel=Cancel())
        return self._engines[folder]

    def plain(self, name: str) -> Path:
        """A copy of the set that no index was made in."""
        return self._copy("plain", name)

    def ask(
        self,
        name: str,
        row: Row,
        limit: int = DEPTH,
        threshold: float = 0.0,
        mode: Mode = Mode.HYBRID,
    ) -> Sequence[Hit]:
        """The hits of one query."""
        query = Query(row["query"], mode=mode, limit=limit, threshold=threshold)
        return self.engine(name, row["corpus"]).search(query).hits

    def scores(
        self,
        name: str,
        metric: str = "ndcg10",
        limit: int = DEPTH,
        threshold: float = 0.0,
        mode: Mode = Mode.HYBRID,
    ) -> np.ndarray:
        """A metric for each query of a set."""
        found = [
            self.score(row, self.ask(name, row, limit, threshold, mode))[metric]
            for row in self.rows[name]
        ]
        return np.array(found, dtype=float)

    def score(self, row: Row, hits: Sequence[Hit]) -> dict[str, float]:
        """All metrics of one answer."""
        return self._judge.score_query(row["relevant"], [_as_result(hit) for hit in hits], "result")

    def score_files(self, row: Row, files: Sequence[str]) -> dict[str, float]:
        """All metrics of an answer that names files."""
        return self._judge.score_query(
            row["relevant"], [{"file": file} for file in files], "result"
        )

    def hits_target(self, row: Row, file: str, start: int, end: int) -> bool:
        """True for lines of a file that answer the query."""
        found = {"file": file, "startLine": start, "endLine": end}
        return any(self._judge.hits(found, target) for target in row["relevant"])

    def ripgrep(self) -> Callable[[str, Path, int], list[dict]]:
        """The kit's search by ripgrep: files by the number of distinct words of the query in them."""
        return importlib.import_module("ceval.baselines").make("rg").search

    def semble_scores(self, semble: Semble, metric: str = "ndcg10") -> dict[str, np.ndarray]:
        """Scores of semble's answers, query by query, in the order of `rows`."""
        out = self._setup.work / "semble-scores"
        for name in self.names:
            self.plain(name)
        command = [
            semble.python,
            "run.py",
            "--built",
            str(self._setup.work / "plain"),
            "--bench",
            ",".join(self.names),
        ]
        command += ["--adapter", "semble", "--model", semble.model, "--out", str(out)]
        run(command, semble.environment(str(self._setup.work / "semble-cache")), 0, self._kit)
        found: dict[str, np.ndarray] = {}
        for name in self.names:
            by_id = {
                row["id"]: row["result"][metric]
                for row in _read(out / "semble" / f"{name}-dev.jsonl")
            }
            found[name] = np.array([by_id[row["id"]] for row in self.rows[name]], dtype=float)
        return found

    def _copy(self, what: str, name: str) -> Path:
        folder = self._setup.work / what / name
        if not folder.exists():
            shutil.copytree(self._built / name, folder, ignore=shutil.ignore_patterns(".cortex"))
        return folder


def _as_result(hit: Hit) -> dict[str, object]:
    return {"file": hit.path, "startLine": hit.start_line, "endLine": hit.end_line}


def _read(path: Path) -> list[Row]:
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
