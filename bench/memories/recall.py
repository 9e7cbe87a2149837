"""Recall of `query_memories`: questions about imported conversations.

    python -m bench.memories.recall --kit KIT --built BUILT

Each conversation is a home of its own, filled by `cortex memory import FOLDER`; the tool is asked
as a client would ask it, with status "all" and ten results, by words alone and as installed. A
question has one right memory or several: any, the share, or all of them among the first ten. See
eval_sets.py for KIT and BUILT, intervals.py for intervals.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench.common.figures import Section, Setup
from bench.common.intervals import mean_of
from bench.common.process_cost import run
from bench.quality.eval_sets import MEMORIES, Row, Sets
from cortex.base.settings import load
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.families.memory.dedup import fingerprint
from cortex.families.memory.file_import import read
from cortex.families.memory.tools import open_family
from cortex.families.memory.tools.arguments import QueryMemories
from cortex.families.memory.writer import checked
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Call, Family, perform

FIRST = 10
BUDGET = 100_000  # tokens: nothing is left out for being long
LEAST = {"locomo": 0.66, "locomo-session": 0.94}  # of the share
ARMS = (("words", "none"), ("as installed", "local"))


class Conversation:
    """The memories of one conversation, to be asked."""

    def __init__(self, family: Family, files: dict[str, list[str]]) -> None:
        self._family, self._files = family, files
        self._tool = next(tool for tool in family.tools if tool.name == "query_memories")

    def ask(self, query: str) -> list[list[str]]:
        """The files of each memory in the answer, several if they have the same text."""
        asked = QueryMemories(query=query, status="all", limit=FIRST, budget=BUDGET)
        answer = perform(self._family, self._tool, asked, Call())
        if answer.failed:
            raise SystemExit(f"{query}: {answer.text[:500]}")
        return [self._files[row["id"]] for row in json.loads(answer.text)["results"]]


def measure(setup: Setup, kit: Path, built: Path) -> Section:
    """Both sets, with and without the model."""
    section = Section("recall", "Memories: what is found")
    lines = [
        "| set | | questions | any of them | their share | all of them | nDCG@10 |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    with Sets(setup, kit, built, MEMORIES) as sets:
        for arm, provider in ARMS:
            for name in sets.names:
                scores = _scores(setup, sets, name, provider)
                kinds = np.array([row["category"] for row in sets.rows[name]])
                lines.append(_line(name, arm, "all", scores, setup.seed))
                lines += [
                    _line(
                        name,
                        arm,
                        kind,
                        {key: values[kinds == kind] for key, values in scores.items()},
                        setup.seed,
                    )
                    for kind in sorted(set(kinds))
                ]
                share = scores["recall10"].mean()
                section.at_least(
                    f"{name}, {arm}: share among the first {FIRST}", share, LEAST.get(name)
                )
    text = f'`query_memories` with status "all" and {FIRST} results, each conversation imported into a home of its own; in brackets the 95 % interval.'
    section.text = f"{text}\n\n" + "\n".join(lines)
    return section


def _scores(setup: Setup, sets: Sets, name: str, provider: str) -> dict[str, np.ndarray]:
    """Every metric of every question, in their order."""
    found: dict[str, dict[str, float]] = {}
    rows = sets.rows[name]
    for corpus in sets.corpora(name):
        with conversation(setup, sets.plain(name) / "corpus" / corpus, provider) as asked:
            for row in rows:
                if row["corpus"] == corpus:
                    found[row["id"]] = sets.score_files(
                        row, best_files(row, asked.ask(row["query"]))
                    )
    metrics = {
        key: np.array([found[row["id"]][key] for row in rows]) for key in ("recall10", "ndcg10")
    }
    return {**metrics, "any": metrics["recall10"] > 0, "all": metrics["recall10"] >= 1}


def best_files(row: Row, answered: Sequence[Sequence[str]]) -> list[str]:
    """A file for each memory: of those with the same text, a right one if there is one."""
    right = {target["file"] for target in row["relevant"]}
    return [next((file for file in files if file in right), files[0]) for files in answered]


@contextmanager
def conversation(setup: Setup, folder: Path, provider: str) -> Iterator[Conversation]:
    """A home with the files of a folder as memories."""
    with tempfile.TemporaryDirectory(dir=setup.work, prefix="recall-") as place:
        home = Path(place)
        environment = {
            **setup.environment(provider=provider),
            "CORTEX_HOME": str(home / "cortex"),
            "HOME": str(home),
        }
        environment |= {"USERPROFILE": str(home), "ACK_MEM_PATH": str(home / "nothing")}
        run([*setup.cortex, "memory", "import", str(folder)], environment, setup.bare_kb, home)
        settings = load(None, environment=environment)
        library = Library(settings)
        try:
            library.embedding.embed(progress=lambda step: None, cancel=Cancel())
            files = _files_by_id(library, folder)
        finally:
            library.close()
        engines = engine_pool(keep=False)
        family = open_family(settings, engines, home, "")
        try:
            yield Conversation(family, files)
        finally:
            family.close()
            engines.close()


def _files_by_id(library: Library, folder: Path) -> dict[str, list[str]]:
    """The files of each memory: those with the same text are one memory."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        for brought in read(path):
            mark = fingerprint(checked(brought.memory))
            for record in library.store.memories.by_fingerprint(mark):
                found[record.memory.key].append(path.name)
    return found


def _line(name: str, arm: str, kind: str, scores: dict[str, np.ndarray], seed: int) -> str:
    cells = [name, arm, f"{kind}, {len(scores['any'])}"]
    cells += [str(mean_of(scores[key], seed)) for key in ("any", "recall10", "all", "ndcg10")]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--built", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cortex-recall-") as work:
        setup = Setup(Path(work).resolve(), quick=False, repeat=1)
        print(measure(setup, options.kit.resolve(), options.built.resolve()).render())


if __name__ == "__main__":
    main()
