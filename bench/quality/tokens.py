"""Tokens up to the first right place: in answers of Cortex, of semble, and of ripgrep.

    python -m bench.quality.tokens --kit KIT --built BUILT --semble-python VENV/bin/python --semble-model DIR

A token is four characters of the text block that an MCP client receives with default arguments
(Cortex: threshold 0), counted to the end of the first hit that overlaps a target; a miss counts the
whole answer and 2,000 more. With ripgrep, files that hold most distinct words of the query are read
whole, one after another (the matches themselves cost nothing). See eval_sets.py for KIT and BUILT,
intervals.py for intervals.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.intervals import mean_of
from bench.common.mcp_client import Session
from bench.peers.semble import Semble
from bench.quality.eval_sets import Row, Sets

SETS = ("semble", "semble-full")
TOKEN = 4  # characters
MISS = 2_000
FEW = 500
MOST_TOKENS, LEAST_RECALL = {"semble": 350.0}, {"semble": 0.85}
MANY = 1_000_000


def measure(setup: Setup, kit: Path, built: Path, semble: Semble | None) -> Section:
    """All three, query by query."""
    section = Section("tokens", "Tokens to the first right answer")
    lines = [
        "| set | queries | | mean | median | recall at 500 tokens | misses |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    with Sets(setup, kit, built, SETS) as sets:
        for name in sets.names:
            ours = _ask_cortex(setup, sets, name)
            lines.append(_row(name, "Cortex", ours, setup.seed))
            if semble:
                lines.append(
                    _row(name, "semble 0.7.0", _ask_semble(setup, sets, name, semble), setup.seed)
                )
            lines.append(_row(name, "ripgrep and read", _ask_ripgrep(sets, name), setup.seed))
            section.add(
                f"{name}, mean",
                "tokens",
                statistics.mean(cost for cost, _ in ours),
                MOST_TOKENS.get(name),
            )
            recall = statistics.mean(cost <= FEW for cost, _ in ours)
            section.at_least(f"{name}, recall at {FEW} tokens", recall, LEAST_RECALL.get(name))
    text = "Characters / 4 of the text block with default arguments (Cortex: threshold 0) to the end of the first hit that overlaps a target; a miss counts the whole answer + 2,000."
    section.text = f"{text}\n\n" + "\n".join(lines)
    return section


Costs = list[tuple[float, bool]]  # tokens, and whether the answer was in it


def _ask_cortex(setup: Setup, sets: Sets, name: str) -> Costs:
    costs: Costs = []
    with ExitStack() as stack:
        sessions: dict[str, Session] = {}
        for row in sets.rows[name]:
            if row["corpus"] not in sessions:
                root = sets.engine(name, row["corpus"]).root
                command = [*setup.cortex, "mcp", "code", "--workspace", str(root)]
                sessions[row["corpus"]] = stack.enter_context(
                    Session(command, setup.environment(provider="none"))
                )
                sessions[row["corpus"]].wait_until_ready()
            text = sessions[row["corpus"]].text("search_code", query=row["query"], threshold=0)
            costs.append(cost_of(sets, row, text))
    return costs


def _ask_semble(setup: Setup, sets: Sets, name: str, semble: Semble) -> Costs:
    environment = semble.environment(str(setup.work / "semble-cache"))
    with Session(semble.command(), environment) as session:
        return [
            cost_of(
                sets,
                row,
                session.text(
                    "search",
                    query=row["query"],
                    repo=str(sets.plain(name) / "corpus" / row["corpus"]),
                ),
            )
            for row in sets.rows[name]
        ]


def _ask_ripgrep(sets: Sets, name: str) -> Costs:
    search = sets.ripgrep()
    costs: Costs = []
    for row in sets.rows[name]:
        folder = sets.plain(name) / "corpus" / row["corpus"]
        read, found = 0, False
        for match in search(row["query"], folder, MANY):
            read += len((folder / match["file"]).read_text(encoding="utf-8", errors="replace"))
            if sets.hits_target(row, match["file"], 1, MANY):
                found = True
                break
        costs.append((read / TOKEN + (0 if found else MISS), found))
    return costs


def cost_of(sets: Sets, row: Row, text: str) -> tuple[float, bool]:
    """Tokens of an answer to the end of its first right hit, and whether there is such a hit."""
    for hit, end in results_in(text):
        if sets.hits_target(row, *place_of(hit)):
            return end / TOKEN, True
    return len(text) / TOKEN + MISS, False


def results_in(text: str) -> Iterator[tuple[dict, int]]:
    """Each result of an answer's JSON with the position at which it ends."""
    decoder = json.JSONDecoder()
    at = text.find('"results":')
    at = text.find("[", at) + 1 if at >= 0 else len(text)
    while at < len(text):
        while at < len(text) and text[at] in ", \n":
            at += 1
        if at >= len(text) or text[at] == "]":
            return
        result, at = decoder.raw_decode(text, at)
        yield result, at


def place_of(result: dict) -> tuple[str, int, int]:
    """The file and lines of a result, Cortex's or semble's."""
    if "chunk" in result:
        return result["file"], result["chunk"]["startLine"], result["chunk"]["endLine"]
    return result["file_path"], result["start_line"], result["end_line"]


def _row(name: str, label: str, costs: Sequence[tuple[float, bool]], seed: int) -> str:
    tokens = [cost for cost, _ in costs]
    mean = mean_of(tokens, seed)
    recall = mean_of([float(cost <= FEW) for cost in tokens], seed)
    cells = [
        name,
        str(len(costs)),
        label,
        f"{mean.mean:,.0f} [{mean.low:,.0f}, {mean.high:,.0f}]",
        f"{statistics.median(tokens):,.0f}",
        str(recall),
        str(sum(not found for _, found in costs)),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--built", type=Path, required=True)
    parser.add_argument("--semble-python", help="the Python of an environment that has semble")
    parser.add_argument("--semble-model", help="folder of a local model2vec model")
    options = parser.parse_args()
    semble = None
    if options.semble_python and options.semble_model:
        model = str(Path(options.semble_model).resolve())
        semble = Semble(os.path.abspath(options.semble_python), model, mcp=True)
    with tempfile.TemporaryDirectory(prefix="cortex-tokens-") as work:
        setup = Setup(Path(work).resolve(), quick=False, repeat=1)
        print(measure(setup, options.kit.resolve(), options.built.resolve(), semble).render())


if __name__ == "__main__":
    main()
