"""Fitted numbers of the ranking, as tables: weights of the evidence and of the relevance.

They are data that `bench/` measures: a change here comes with a new row of `bench/RESULTS.md`. The
code that applies them is in ranker.py, retrieval.py and calibration.py. Weights of evidence are
shares of the best lexical match, which is 1. They were chosen on the development sets of `bench/`;
chosen without a repository, they score .009 less on it. Where a class repeats the number of PHRASE,
no other one was better. Not in a JSON file: reading one would cost every start, and the reason for
a number stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import lru_cache

from cortex.base.types import Mode
from cortex.engine.search.query_classes import Corpus, QueryClass


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each kind of evidence; `repeat` is a factor, all others are added."""

    # The chunk contains the whole query; worth .002 / .007 / .016 / .006 (see features.py).
    coverage: float = 0.3
    # The chunk's vector is near the query's.
    meaning: float = 0.75
    # The chunk defines a name of the query.
    definition: float = 0.8
    # The chunk defines a name that words make: "json array", JsonArray; worth -.002 / .003 / .005 /
    # .014.
    joined: float = 0.4
    # All keywords are in the file's name or folder.
    path: float = 0.7
    # The file's name consists of keywords.
    stem: float = 0.3
    # The file's other candidates support its best one.
    coherence: float = 0.4
    # Each further chunk of a file that is already shown; worth .008 / .015 / 0 / 0.
    repeat: float = 0.65
    # The words stand there in this order.
    phrase: float = 0.0
    # The file and the line that the query names; worth .517 of MRR@10 for such queries.
    place: float = 2.0
    # The file is where a program or a package begins.
    entry: float = 0.0
    # Among the chunks of one file: the chunk's own name contains the query's words.
    inside: float = 1.0


_PHRASE = Weights()
_QUESTION = replace(_PHRASE, coherence=0.2, repeat=1.0)
WEIGHTS: dict[QueryClass, Weights] = {
    QueryClass.PHRASE: _PHRASE,
    QueryClass.SYMBOL: replace(_PHRASE, definition=2.0, inside=0.0),
    QueryClass.QUALIFIED: replace(_PHRASE, definition=2.0, inside=0.0),
    QueryClass.PATH: replace(_PHRASE, path=1.0, repeat=1.0, inside=0.0),
    QueryClass.QUOTED: replace(_PHRASE, phrase=1.0, repeat=1.0, coherence=0.1, inside=0.0),
    QueryClass.ERROR: replace(
        _PHRASE, phrase=1.0, repeat=1.0, coherence=0.1, definition=0.2, path=0.2, inside=0.0
    ),
    QueryClass.QUESTION: _QUESTION,
    QueryClass.ARCHITECTURE: replace(_PHRASE, entry=0.1),
    QueryClass.TESTS: _PHRASE,
    QueryClass.DOCS: _PHRASE,
    QueryClass.SNIPPET: Weights(
        definition=0.0,
        joined=0.0,
        path=0.0,
        stem=0.0,
        coherence=0.0,
        repeat=1.0,
        phrase=0.5,
        inside=0.0,
    ),
}


# -- relevance

# Default threshold of the relevance; hits below it are shown only on request.
CUT = 0.65
# The product of both probabilities at the threshold: 98.5 % of the right hits are above it, nine
# in ten absent things below.
CUT_AT = 0.05


@dataclass(frozen=True, slots=True)
class Fit:
    """Weights of the features; the last one of each tuple is a constant."""

    known: tuple[float, ...]
    right: tuple[float, ...]


KNOWN = ("log(.02 + covers)", "log words", "defines", "prose", "near", "constant")
RIGHT = ("covers", "defines", "joins", "stem", "near", "share of the best score", "constant")
FITS: Mapping[Mode, Fit] = {
    Mode.WORDS: Fit((6.7, 3.3, 3.4, 2.1, 0.0, -1.0), (1.8, 0.9, 0.5, 2.2, 0.0, 3.7, -5.7)),
    Mode.HYBRID: Fit((5.7, 2.4, 2.8, 1.9, 9.1, -3.0), (1.6, 1.0, 0.3, 2.0, 2.0, 4.0, -6.5)),
    # No word features here. The constant of `known` is below the fitted -5.7: with that, every
    # third absent thing came above the threshold.
    Mode.MEANING: Fit((0.0, 0.0, 0.0, 0.0, 18.5, -7.0), (0.0, 0.0, 0.0, 2.3, 3.8, 2.2, -5.5)),
}
# A very near hit counts as known although it shares no word with the query. One step higher, and
# absent things come above the threshold.
VERY_NEAR = (0.0, 0.0, 0.0, 0.0, 18.5, -10.0)


# -- weights of a query


@lru_cache(maxsize=1_000)
def weights_of(classes: tuple[QueryClass, ...], corpus: Corpus = Corpus.CODE) -> Weights:
    """Mean of the classes' weights, adjusted to the corpus."""
    rows = [astuple(_WEIGHTS_BY_CORPUS[corpus](WEIGHTS[query_class])) for query_class in classes]
    return Weights(*(sum(column) / len(rows) for column in zip(*rows, strict=True)))


def of_code(weights: Weights) -> Weights:
    """Weights for code: those of WEIGHTS."""
    return weights


def of_documents(weights: Weights) -> Weights:
    """Weights for documents.

    A file's name says little, and a long file is not better because more of it matches. Worth .087
    on a framework's handbook (a sentence taken out of it, its section), .037 on manual pages (a
    page's own description), .010 and -.005 on chunks and whole files of code, .002 on encyclopedia
    articles (people's questions); lexical alone .097, .031, .005, .009 and .001.
    """
    return replace(
        weights,
        # A heading doesn't define its words.
        definition=0.5 * weights.definition,
        path=min(weights.path, 0.6),
        stem=min(weights.stem, 0.15),
        coherence=0.0,
        repeat=max(weights.repeat, 0.9),
        inside=0.0,
    )


def of_memories(weights: Weights) -> Weights:
    """Weights for memories: those of documents without paths, and with coverage doubled.

    Doubled coverage is worth .005 of MRR@10 on messages of commits, -.002 on turns and whole
    conversations (recall@10).
    """
    return replace(of_documents(weights), path=0.0, stem=0.0, coverage=2 * weights.coverage)


_WEIGHTS_BY_CORPUS: Mapping[Corpus, Callable[[Weights], Weights]] = {
    Corpus.CODE: of_code,
    Corpus.DOCUMENTS: of_documents,
    Corpus.MEMORIES: of_memories,
    Corpus.RECORDS: of_memories,
}
