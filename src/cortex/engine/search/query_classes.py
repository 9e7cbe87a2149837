"""Classes of queries, and the weight of each kind of evidence for a class.

A query may be of several classes: "why does `Store.apply` raise LockBusy in the tests" is a
question, names a symbol and asks for tests. Its weights are then the mean of theirs. Weights are
shares of the best lexical match, which is 1. They were chosen on the development sets of `bench/`;
chosen without a repository, they score .009 less on it. Where a class repeats the number of PHRASE,
no other one was better.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from functools import lru_cache


class QueryClass(StrEnum):
    """Intent of a query."""

    # Some words about a topic; wants the file about it.
    PHRASE = "phrase"
    # One name; wants its definition.
    SYMBOL = "symbol"
    QUALIFIED = "qualified symbol"
    # A file, perhaps with a line.
    PATH = "path"
    QUOTED = "quoted string"
    # An error message or a stack trace.
    ERROR = "error message"
    # Wants a fact that stands in one place, perhaps deep in a file.
    QUESTION = "question"
    # Wants to know how parts work together.
    ARCHITECTURE = "architecture question"
    TESTS = "test-seeking"
    DOCS = "doc-seeking"
    SNIPPET = "code snippet"


class Corpus(StrEnum):
    """Kind of text that is searched; each has its own weights."""

    # Code, or several kinds together.
    CODE = "code"
    DOCUMENTS = "documents"
    MEMORIES = "memories"
    RECORDS = "records"


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

# A direct question turns verb and subject around ("how does it ..."); "how it does ..." is the name
# of a topic.
_DIRECT = re.compile(
    r"\s*(?:(?:what|how|why|where|which|when|who)\s+(?:[\w`.]+\s+)?"
    r"(?:is|are|was|were|does|do|did|can|could|should|would|will|has|have)\b|(?:is|are|does|"
    r"do|can)\s)",
    re.IGNORECASE,
)
_ARCHITECTURE = re.compile(
    r"\b(?:architecture|overview|entry\s*points?|(?:high|top)[- ]level|"
    r"lifecycle|(?:control|data)\s*flow|"
    r"(?:organi[sz]ed|structured|fit together|wired)\b)",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"\bTraceback \(most|\b[A-Z]\w{0,80}(?:Error|Exception|Warning|Panic|Fault)\b\s*:|"
    r"\bpanic(?:ked)?\b.{0,200}:|\b(?:error|fatal|exception)\s*:|"
    r"^[ \t]{0,40}at [\w.$<>]{1,300}[ \t]?\(|\", line \d{1,7}, in ",
    re.IGNORECASE | re.MULTILINE,
)


def classes_of(
    text: str,
    *,
    code: bool,
    name: bool,
    qualified: bool,
    places: bool,
    quoted: bool,
    roles: Iterable[str],
) -> tuple[QueryClass, ...]:
    """Classify a query by its text and by what the parser found in it."""
    if code:
        return (QueryClass.SNIPPET,)
    roles = set(roles)
    classes = [
        query_class
        for query_class, applies in (
            (QueryClass.QUALIFIED, name and qualified),
            (QueryClass.SYMBOL, name and not qualified),
            (QueryClass.PATH, places and len(text.split()) <= 2),
            (QueryClass.ERROR, _ERROR.search(text) is not None),
            (QueryClass.QUOTED, quoted),
            (QueryClass.ARCHITECTURE, _ARCHITECTURE.search(text) is not None),
            (QueryClass.TESTS, "test" in roles),
            (QueryClass.DOCS, "docs" in roles),
        )
        if applies
    ]
    if not name and ("?" in text or _DIRECT.match(text)) and QueryClass.ERROR not in classes:
        classes.append(QueryClass.QUESTION)
    return tuple(classes) or (QueryClass.PHRASE,)


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
# Corpora of short texts with a title and without meaningful paths.
SHORT_TEXTS = frozenset({Corpus.MEMORIES, Corpus.RECORDS})
