"""Generated queries of kinds that no set has, with the one place that answers each.

A message is a string of some words that stands once in a tree; a begun name is the first part of a
name that is defined once; a place is a file and a line; a name passed on is one that a package's
first file lists. Drawn with a fixed seed, by rules that don't know the ranker.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.common.intervals import mean_of
from bench.quality.ablation import CANDIDATES, EVIDENCE, Change, constants, weights
from bench.quality.eval_sets import Sets
from cortex.base.types import Mode, Query
from cortex.engine.engine import Engine
from cortex.engine.search.features import entry

PER_TREE = 25  # queries of a kind
SET = "semble-full"
# Words only: values that a format inserts are not known
_MESSAGE = re.compile(r'"([A-Z][a-z]+(?: [\w\'-]+){3,11}\.?)"')
_LISTED = re.compile(r"\b[A-Za-z_]\w{4,}\b")

WORTH: dict[str, tuple[tuple[str, ...], Change]] = {
    "phrase": (("message", "quoted"), lambda: weights(phrase=0.0)),
    "named place": (("place",), lambda: weights(place=0.0)),
    "names that begin like the query": (
        ("begun name",),
        lambda: constants(CANDIDATES, MIN_PREFIX=999),
    ),
    "of these, how often others say them": (
        ("begun name",),
        lambda: constants(EVIDENCE, REFERENCE_SHARE=0.0),
    ),
    "names passed on (re-exports)": (
        ("name passed on",),
        lambda: constants(EVIDENCE, reexport=lambda candidate: 0.0),
    ),
}


@dataclass(frozen=True, slots=True)
class Made:
    """A query, and where its answer stands."""

    kind: str
    corpus: str
    text: str
    path: str
    line: int


def measure_made(sets: Sets, seed: int) -> str:
    """Measure the reciprocal rank for each kind of query, with and without its own rules."""
    made = [
        query
        for corpus in sets.corpora(SET)
        for query in make_queries(sets.engine(SET, corpus), corpus, seed)
    ]
    base = _ranks(sets, made)
    kinds = np.array([query.kind for query in made])
    shown = ", ".join(
        f"{kind} {base[kinds == kind].mean():.3f} (n {sum(kinds == kind)})"
        for kind in dict.fromkeys(kinds)
    )
    lines = [f"MRR@10: {shown}.", "", "| without | queries | MRR@10 |", "|---|---|---:|"]
    for label, (asked, change) in WORTH.items():
        chosen = np.isin(kinds, asked)
        with change():
            lost = (
                _ranks(sets, [query for query, used in zip(made, chosen, strict=True) if used])
                - base[chosen]
            )
        lines.append(
            f"| {label} | {', '.join(asked)}, {chosen.sum()} | {mean_of(lost, seed).signed()} |"
        )
    return "\n".join(lines)


def _ranks(sets: Sets, made: Sequence[Made]) -> np.ndarray:
    return np.array(
        [reciprocal(sets.engine(SET, query.corpus), query) for query in made], dtype=float
    )


def reciprocal(engine: Engine, query: Made, mode: Mode = Mode.HYBRID) -> float:
    """1 / rank of the right place, 0 below the tenth."""
    hits = engine.search(Query(query.text, limit=10, mode=mode)).hits
    right = (
        number
        for number, hit in enumerate(hits, 1)
        if hit.path == query.path and hit.start_line <= query.line <= hit.end_line
    )
    return 1 / number if (number := next(right, 0)) else 0.0


def make_queries(engine: Engine, corpus: str, seed: int) -> Iterator[Made]:
    """Queries of every kind about one tree."""
    lookup, source = engine.store.content, engine.source.id
    docs = [doc for doc in lookup.docs(source) if not doc.role]
    texts = {doc.path: lookup.text(doc.blob) for doc in docs}
    draw = random.Random(f"{seed} {corpus}")
    messages = _once(
        (words, path, line) for path, text in texts.items() for words, line in _messages(text)
    )
    for number, (words, (path, line)) in enumerate(_some(draw, messages)):
        kind, form = (("message", "Error: {}"), ("quoted", 'where is "{}" said'))[number % 2]
        yield Made(kind, corpus, form.format(words), path, line)
    names = _once(
        (symbol.name, doc.path, symbol.start_line)
        for doc in docs
        for symbol in lookup.symbols(doc.blob)
        if len(symbol.name) >= 8 and symbol.name.isidentifier()
    )
    for name, (path, line) in _some(draw, names):
        yield Made("begun name", corpus, name[: len(name) * 3 // 5], path, line)
    for path in draw.sample(sorted(texts), min(PER_TREE, len(texts))):
        line = draw.randint(1, 1 + texts[path].rstrip().count("\n"))
        yield Made("place", corpus, f"what happens in {path}:{line}", path, line)
    listed = _once(
        (name, doc.path, line)
        for doc in docs
        if entry(doc.path)
        for name, line in _listed(texts[doc.path])
    )
    known = {name: at for name, at in listed.items() if name in names and names[name][0] != at[0]}
    yield from (Made("name passed on", corpus, name, *at) for name, at in _some(draw, known))


def _messages(text: str) -> Iterator[tuple[str, int]]:
    return ((found[1], text.count("\n", 0, found.start()) + 1) for found in _MESSAGE.finditer(text))


def _listed(text: str) -> Iterator[tuple[str, int]]:
    """The names of a file, each with the line that says it first."""
    seen: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        for name in _LISTED.findall(line):
            seen.setdefault(name, number)
    return iter(seen.items())


def _once(found: Iterator[tuple[str, str, int]]) -> dict[str, tuple[str, int]]:
    """The texts that were found only once, with their places."""
    rows = list(found)
    counts = Counter(words for words, _, _ in rows)
    return {words: (path, line) for words, path, line in rows if counts[words] == 1}


def _some(
    draw: random.Random, found: Mapping[str, tuple[str, int]]
) -> list[tuple[str, tuple[str, int]]]:
    return draw.sample(sorted(found.items()), min(PER_TREE, len(found)))
