"""What kind of question a query is, and what each kind of evidence weighs for it.

A query may be of several classes: "why does `Store.apply` raise LockBusy in the tests" is a
question, names a symbol and asks for tests. Its weights are then the mean of theirs. Weights are
shares of the best word match, which is 1. They were chosen on the development sets of `bench/`;
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
    """What somebody who asks so is looking for."""

    PHRASE = "phrase"  # some words about a topic: the file that is about it
    SYMBOL = "symbol"  # one name: where it is defined
    QUALIFIED = "qualified symbol"
    PATH = "path"  # a file, perhaps with a line
    QUOTED = "quoted string"
    ERROR = "error message"  # or a stack trace
    QUESTION = "question"  # a fact that stands in one place, perhaps deep in a file
    ARCHITECTURE = "architecture question"  # how parts play together
    TESTS = "test-seeking"
    DOCS = "doc-seeking"
    SNIPPET = "code snippet"


class Corpus(StrEnum):
    """What is asked: the same words are looked for in other ways."""

    CODE = "code"  # or several kinds together
    DOCUMENTS = "documents"
    MEMORIES = "memories"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each kind of evidence counts; `repeat` is a factor, all others are added."""

    coverage: float = (
        # The whole query stands in the chunk; worth .002 / .007 / .016 / .006 (evidence.py says of
        # what)
        0.3
    )
    meaning: float = 0.75  # the chunk's vector is near the query's
    definition: float = 0.8  # the chunk defines a name that the query says
    joined: float = (
        # The chunk defines a name that words make: "json array", JsonArray; worth -.002 / .003 /
        # .005 / .014
        0.4
    )
    path: float = 0.7  # all keywords stand in the file's name or folder
    stem: float = 0.3  # the file's name says nothing but keywords
    coherence: float = 0.4  # the file's other candidates support its best one
    # Each further chunk of a file that is already shown; worth .008 / .015 / 0 / 0
    repeat: float = 0.65
    phrase: float = 0.0  # the words stand there in this order
    # The file, and the line, that the query names; worth .517 of MRR@10 for such queries
    place: float = 2.0
    entry: float = 0.0  # where a program or a package begins
    # Among the chunks of one file: the chunk's own name says what the query does
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
    r"(?:is|are|was|were|does|do|did|can|could|should|would|will|has|have)\b|(?:is|are|does|do|can)\s)",
    re.IGNORECASE,
)
_ARCHITECTURE = re.compile(
    r"\b(?:architecture|overview|entry\s*points?|(?:high|top)[- ]level|lifecycle|(?:control|data)\s*flow|"
    r"(?:organi[sz]ed|structured|fit together|wired)\b)",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"\bTraceback \(most|\b[A-Z]\w{0,80}(?:Error|Exception|Warning|Panic|Fault)\b\s*:|\bpanic(?:ked)?\b.{0,200}:|\b(?:error|fatal|exception)\s*:|"
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
    """The classes of a query, judged by its text and by what was found in it."""
    if code:
        return (QueryClass.SNIPPET,)
    roles = set(roles)
    found = [
        one
        for one, is_one in (
            (QueryClass.QUALIFIED, name and qualified),
            (QueryClass.SYMBOL, name and not qualified),
            (QueryClass.PATH, places and len(text.split()) <= 2),
            (QueryClass.ERROR, _ERROR.search(text) is not None),
            (QueryClass.QUOTED, quoted),
            (QueryClass.ARCHITECTURE, _ARCHITECTURE.search(text) is not None),
            (QueryClass.TESTS, "test" in roles),
            (QueryClass.DOCS, "docs" in roles),
        )
        if is_one
    ]
    if not name and ("?" in text or _DIRECT.match(text)) and QueryClass.ERROR not in found:
        found.append(QueryClass.QUESTION)
    return tuple(found) or (QueryClass.PHRASE,)


@lru_cache(maxsize=1_000)
def weights_of(classes: tuple[QueryClass, ...], corpus: Corpus = Corpus.CODE) -> Weights:
    """The mean of the classes' weights; other ones where documents are asked, or memories, and no
    code.
    """
    rows = [astuple(_FOR[corpus](WEIGHTS[class_])) for class_ in classes]
    return Weights(*(sum(column) / len(rows) for column in zip(*rows, strict=True)))


def of_code(weights: Weights) -> Weights:
    """What the evidence weighs in code: what WEIGHTS says."""
    return weights


def of_documents(weights: Weights) -> Weights:
    """What the evidence weighs in documents: a file's name says little, and a long file is not
    better because more of it matches.

    Worth .087 on a framework's handbook (a sentence that was taken out of it, its section), .037 on
    manual pages (what a page says of itself), .010 and -.005 on pieces of code and whole files of
    it, .002 on encyclopedia articles (people's questions); by words alone .097, .031, .005, .009
    and .001.
    """
    return replace(
        weights,
        definition=0.5 * weights.definition,  # a heading is no definition of its words
        path=min(weights.path, 0.6),
        stem=min(weights.stem, 0.15),
        coherence=0.0,
        repeat=max(weights.repeat, 0.9),
        inside=0.0,
    )


def of_memories(weights: Weights) -> Weights:
    """What the evidence weighs in memories: as in documents, but what they are filed under says
    nothing, and all of a query counts more.

    The latter is worth .005 of MRR@10 on messages of commits, -.002 on turns and whole
    conversations (recall@10).
    """
    return replace(of_documents(weights), path=0.0, stem=0.0, coverage=2 * weights.coverage)


_FOR: Mapping[Corpus, Callable[[Weights], Weights]] = {
    Corpus.CODE: of_code,
    Corpus.DOCUMENTS: of_documents,
    Corpus.MEMORIES: of_memories,
    Corpus.RECORDS: of_memories,
}
# Short texts with a title, filed under nothing that says anything
TOLD = frozenset({Corpus.MEMORIES, Corpus.RECORDS})
