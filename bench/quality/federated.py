"""One search over several stores: the loss of a set when another set is searched beside it.

    python -m bench.quality.federated --kit KIT --built BUILT

A repository is asked as code, notebooks and conversations as a person's documents, as `cortex
search --in code,kb` and `cortex kb search` do it, with the settings as they are installed. Alone
means a home with nothing else in it. A hit of another source counts as wrong. See eval_sets.py for KIT
and BUILT.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.common.figures import Section, Setup
from bench.common.intervals import mean_of
from bench.quality.eval_sets import DEPTH, Row, Sets
from cortex.base.settings import load
from cortex.base.types import Cancel, Mode, Query
from cortex.engine.library import Library
from cortex.engine.search.federated import FederatedHit, SearchTarget, federated_search
from cortex.families.code.tools.session import places_of
from cortex.families.documents.tools.search_target import place_of

CODE, DOCUMENTS, TALKS = "semble", "cookbook-files", "locomo-session"
MOST = 0.03  # nDCG@10 that a set may lose
ARMS = (("hybrid", Mode.HYBRID), ("words", Mode.WORDS))
Corpora = Sequence[tuple[str, str]]  # set, corpus


def measure(setup: Setup, kit: Path, built: Path) -> Section:
    """Each pair of sets, alone and together."""
    section = Section("several", "One search over several stores")
    lines = [
        "| set | beside | mode | queries | alone | together | difference |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    with Sets(setup, kit, built, (CODE, DOCUMENTS, TALKS), "local") as sets:
        talks = [(TALKS, corpus) for corpus in sets.corpora(TALKS)]
        (notebooks,) = [(DOCUMENTS, corpus) for corpus in sets.corpora(DOCUMENTS)]
        with (
            _library(setup, sets, "both", [notebooks, *talks]) as both,
            _library(setup, sets, "one", [notebooks]) as documents,
        ):
            for label, mode in ARMS:
                pairs = [
                    (CODE, "notebooks", *_code_beside(sets, documents, mode)),
                    (DOCUMENTS, "a repository", *_documents_beside(sets, documents, mode)),
                    (
                        DOCUMENTS,
                        "conversations",
                        _ask(sets, DOCUMENTS, [documents], mode),
                        _ask(sets, DOCUMENTS, [both], mode),
                    ),
                    (
                        TALKS,
                        "notebooks",
                        _talks_alone(setup, sets, talks, mode),
                        _ask(sets, TALKS, [both], mode),
                    ),
                ]
                for name, beside, alone, together in pairs:
                    difference = mean_of(together - alone, setup.seed)
                    cells = [
                        name,
                        beside,
                        label,
                        str(len(alone)),
                        f"{alone.mean():.3f}",
                        f"{together.mean():.3f}",
                    ]
                    lines.append(f"| {' | '.join([*cells, difference.signed()])} |")
                    section.add(
                        f"{name} beside {beside}, {label}: loses",
                        "nDCG@10",
                        max(0.0, -difference.mean),
                        MOST,
                    )
    section.text = "\n".join(
        [
            "nDCG@10, 20 hits, merged by relevance; in brackets the 95 % interval, paired by query.",
            "",
            *lines,
        ]
    )
    return section


@contextmanager
def _library(setup: Setup, sets: Sets, label: str, corpora: Corpora) -> Iterator[SearchTarget]:
    """A home with these corpora as sources, as a place to search."""
    folders = {corpus: sets.plain(name) / "corpus" / corpus for name, corpus in corpora}
    home = setup.work / f"several-{label}"
    settings = load(
        None, environment={**setup.environment(provider="local"), "CORTEX_HOME": str(home)}
    )
    library = Library(settings)
    try:
        for corpus, folder in folders.items():
            library.index(source=library.add_folder(folder, name=corpus, watch=False).source)
        yield place_of(library)
    finally:
        library.close()
        shutil.rmtree(home)


def _code_beside(sets: Sets, documents: SearchTarget, mode: Mode) -> tuple[np.ndarray, np.ndarray]:
    alone = [_score(sets, row, [_code(sets, row["corpus"])], mode) for row in sets.rows[CODE]]
    together = [
        _score(sets, row, [_code(sets, row["corpus"]), documents], mode) for row in sets.rows[CODE]
    ]
    return np.array(alone), np.array(together)


def _documents_beside(
    sets: Sets, documents: SearchTarget, mode: Mode
) -> tuple[np.ndarray, np.ndarray]:
    """Each question with every repository in its turn."""
    alone = _ask(sets, DOCUMENTS, [documents], mode)
    together = [
        _ask(sets, DOCUMENTS, [_code(sets, corpus), documents], mode)
        for corpus in sets.corpora(CODE)
    ]
    return alone, np.mean(together, axis=0)


def _talks_alone(setup: Setup, sets: Sets, talks: Corpora, mode: Mode) -> np.ndarray:
    """All conversations together, and nothing else."""
    with _library(setup, sets, "talks", talks) as place:
        return _ask(sets, TALKS, [place], mode)


def _code(sets: Sets, corpus: str) -> SearchTarget:
    return places_of([(corpus, sets.engine(CODE, corpus))])[0]


def _ask(sets: Sets, name: str, places: Sequence[SearchTarget], mode: Mode) -> np.ndarray:
    return np.array([_score(sets, row, places, mode) for row in sets.rows[name]])


def _score(sets: Sets, row: Row, places: Sequence[SearchTarget], mode: Mode) -> float:
    located, _ = federated_search(places, Query(row["query"], mode=mode, limit=DEPTH), Cancel())
    return sets.score(row, [_with_source(hit, row["corpus"]).hit for hit in located])["ndcg10"]


def _with_source(found: FederatedHit, corpus: str) -> FederatedHit:
    """A hit of another source has a path that no target has."""
    return (
        found
        if found.source == corpus
        else replace(found, hit=replace(found.hit, path=f"{found.hit.path}.of-another"))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--built", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cortex-several-") as work:
        setup = Setup(Path(work).resolve(), quick=False, repeat=1)
        print(measure(setup, options.kit.resolve(), options.built.resolve()).render())


if __name__ == "__main__":
    main()
