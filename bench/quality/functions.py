"""Functions found by the first sentence of their docstring, which is removed before.

    python -m bench.quality.functions

The sets of an evaluation kit mostly want the right file; these want the right lines in it. Made of
packages that are installed beside this one, with a fixed seed, in two ways: every other docstring
stays, which then speaks more like the sentence than its own function does; or none does, as in code
without any. In process, as installed. The order within a file is switched off and on, differences
are paired by query.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import random
import re
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.common.figures import Section, Setup
from bench.common.intervals import mean_of
from bench.quality.ablation import weights
from cortex.base.settings import load
from cortex.base.types import Cancel, Mode, Query
from cortex.engine.engine import Engine

STANDARD = (
    ("asyncio", "concurrent", "http", "urllib", "email", "logging"),
    ("multiprocessing", "importlib", "unittest", "json", "xml", "tarfile.py", "subprocess.py", "inspect.py", "argparse.py"),
)  # fmt: skip
PACKAGES = (
    "anyio",
    "click",
    "grimp",
    "httpx",
    "hypothesis",
    "jsonschema",
    "mcp",
    "pip",
    "pydantic",
    "rich",
    "typer",
    "urllib3",
)
PER_PACKAGE, FEW = 45, 12  # queries of a package at most, and at least
# The fewest lines of a function that is asked for
LINES = 6
WAYS = {"its own docstring is taken away": False, "all docstrings are taken away": True}
LIMIT = 10
_END = re.compile(r"(?<=[.!?])\s|\n\s*\n")
_NO_PROSE = re.compile(r"[`:_<>*=\[\](){}\\]|\.\w")
_EMPTY = frozenset("a an of return returns the to".split())

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Asked:
    """A sentence, and the lines of its function."""

    text: str
    path: str
    first: int
    last: int


def measure(setup: Setup) -> Section:
    """Both ways, without and with the order by names within a file, by words and as installed."""
    section = Section("functions", "Functions")
    lines = [
        "| | queries | first hit | first three | first ten | its file among the first three |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    gained: list[str] = []
    for way, bare in WAYS.items():
        with ExitStack() as opened:
            trees = [*_trees(setup, setup.work / f"functions-{bare}", bare, opened)]
            for label, mode in (("words", Mode.WORDS), ("as installed", Mode.HYBRID)):
                with weights(inside=0.0):
                    before = _ask_all(trees, mode)
                after = _ask_all(trees, mode)
                for name, scores in (("without the order in a file", before), ("", after)):
                    row = " | ".join(f"{share:.3f}" for share in scores.mean(axis=0))
                    lines.append(
                        f"| {', '.join(filter(None, (way, label, name)))} | {len(scores)} | {row} |"
                    )
                gained.append(
                    f"- {way}, {label}: {mean_of(after[:, 1] - before[:, 1], setup.seed).signed()} of them among the first three"
                )
    section.text = "\n".join(
        [*lines, "", "What the order within a file by names is worth:", "", *gained]
    )
    return section


def _trees(
    setup: Setup, work: Path, bare: bool, opened: ExitStack
) -> Iterator[tuple[Engine, Sequence[Asked]]]:
    """An engine for each package that has enough to ask for."""
    draw = random.Random(setup.seed)
    for number, paths in enumerate(_packages()):
        folder = work / f"{number}"
        asked = write(folder, paths, bare, draw)
        if len(asked) >= FEW:
            engine = opened.enter_context(
                Engine(folder, load(folder, environment=setup.environment(provider="local")))
            )
            engine.index()
            engine.embedding.embed(progress=lambda step: None, cancel=Cancel())
            engine.embedding.catch_up()
            yield engine, asked


def _packages() -> Iterator[list[Path]]:
    library = Path(sysconfig.get_paths()["stdlib"])
    yield from ([library / name for name in names] for names in STANDARD)
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            yield [Path(found.submodule_search_locations[0])]


def write(folder: Path, paths: Sequence[Path], bare: bool, draw: random.Random) -> list[Asked]:
    """Copy packages without the docstrings, and return the queries."""
    found: dict[str, tuple[str, Function]] = {}  # by the sentence, which is asked for once
    trees: dict[str, tuple[str, ast.Module]] = {}
    for path in paths:
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            name = file.relative_to(path.parent).as_posix()
            text = file.read_text(encoding="utf-8", errors="replace")
            try:
                trees[name] = text, ast.parse(text)
            except (SyntaxError, ValueError):
                continue
            if "test" not in name and "_vendor" not in name:
                found |= {
                    _sentence(function): (name, function)
                    for function in _described(trees[name][1])
                    if _is_query(function)
                }
    chosen = draw.sample(sorted(found), min(PER_PACKAGE, len(found)))
    asked: list[Asked] = []
    for name, (text, tree) in trees.items():
        own = {sentence: found[sentence][1] for sentence in chosen if found[sentence][0] == name}
        gone = [
            (function.body[0].lineno, function.body[0].end_lineno or 0)
            for function in (_described(tree) if bare else own.values())
        ]
        lines = [
            line
            for number, line in enumerate(text.split("\n"), 1)
            if not any(a <= number <= b for a, b in gone)
        ]
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines), encoding="utf-8")
        for sentence, function in own.items():
            first, last = (
                at - sum(b - a + 1 for a, b in gone if b < at)
                for at in (function.lineno, function.end_lineno or 0)
            )
            asked.append(Asked(sentence, name, first, last))
    return asked


def _described(tree: ast.Module) -> list[Function]:
    """Functions with more than a docstring, and nothing else in its lines."""
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    described = (
        function for function in functions if len(function.body) > 1 and ast.get_docstring(function)
    )
    return [
        function
        for function in described
        if function.lineno < function.body[0].lineno
        and (function.body[0].end_lineno or 0) < function.body[1].lineno
    ]


def _sentence(function: Function) -> str:
    sentence = " ".join(_END.split((ast.get_docstring(function) or "").strip())[0].split()).rstrip(
        "."
    )
    return sentence[:1].lower() + sentence[1:]


def _is_query(function: Function) -> bool:
    """True for a sentence that a person might ask: prose of some words."""
    sentence = _sentence(function)
    says = {*re.findall(r"[a-z]+", sentence.lower())} - _EMPTY
    long = (function.end_lineno or 0) - function.lineno >= LINES
    return (
        long
        and not function.name.startswith("__")
        and 5 <= len(sentence.split()) <= 16
        and len(says) >= 3
        and not _NO_PROSE.search(sentence)
    )


def _ask_all(trees: Sequence[tuple[Engine, Sequence[Asked]]], mode: Mode) -> np.ndarray:
    """Per query: is the function the first hit, among three or ten, and its file among three."""
    return np.array(
        [_ask(engine, query, mode) for engine, asked in trees for query in asked], dtype=float
    )


def _ask(engine: Engine, asked: Asked, mode: Mode) -> tuple[bool, ...]:
    hits = engine.search(Query(asked.text, mode=mode, limit=LIMIT, characters=1)).hits
    in_file = [place for place, hit in enumerate(hits, 1) if hit.path == asked.path]
    right = [
        at
        for at in in_file
        if hits[at - 1].start_line <= asked.last and asked.first <= hits[at - 1].end_line
    ]
    place, file = (min(places, default=LIMIT + 1) for places in (right, in_file))
    return place <= 1, place <= 3, place <= LIMIT, file <= 3


def main() -> None:
    argparse.ArgumentParser(description=str(__doc__).splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory(prefix="cortex-functions-") as work:
        print(measure(Setup(Path(work).resolve(), quick=False, repeat=1)).render())


if __name__ == "__main__":
    main()
