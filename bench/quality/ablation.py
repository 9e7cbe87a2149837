"""Variants of the ranker: a rule switched off or on, or a changed weight.

Constants of `cortex.engine.search` are replaced while a block runs; the product knows nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType

from cortex.base.text import split_identifier, words_of
from cortex.engine.search.query_classes import QueryClass
from cortex.engine.search.weights import WEIGHTS

# By import_module, because functions of the package have the names of its modules.
SEARCH = import_module("cortex.engine.search")
CANDIDATES = import_module("cortex.engine.search.retrieval")
TABLE = import_module("cortex.engine.search.weights")
EVIDENCE = import_module("cortex.engine.search.features")
PARSE = import_module("cortex.engine.search.query_parser")
SNIPPET = import_module("cortex.engine.search.snippets")

SCAFFOLDING = frozenset(
    "did doing following given implement implementation implemented perform provided purpose specific use used uses using way".split()
)
NAMES = (QueryClass.SYMBOL, QueryClass.QUALIFIED)
PLAIN, ASKED = WEIGHTS[QueryClass.PHRASE], WEIGHTS[QueryClass.QUESTION]

Change = Callable[[], AbstractContextManager[None]]


@contextmanager
def constants(module: ModuleType, **values: object) -> Iterator[None]:
    """Replace constants of a module inside the block."""
    before = {name: getattr(module, name) for name in values}
    try:
        _set(module, values)
        yield
    finally:
        _set(module, before)


def weights(
    classes: Sequence[QueryClass] = tuple(QueryClass), **values: float
) -> AbstractContextManager[None]:
    """Replace weights of these classes inside the block."""
    now: Mapping[QueryClass, object] = TABLE.WEIGHTS
    return constants(
        TABLE,
        WEIGHTS={
            name: replace(weight, **values) if name in classes else weight
            for name, weight in now.items()
        },
    )


def field(name: str, weight: float) -> AbstractContextManager[None]:
    """Replace the weight of a field; 0 leaves the field out."""
    fields = [
        (field, weight if field == name else current) for field, current in CANDIDATES.FIELD_WEIGHTS
    ]
    return constants(CANDIDATES, FIELD_WEIGHTS=tuple(pair for pair in fields if pair[1]))


def phrase_for_all(weight: float) -> AbstractContextManager[None]:
    """Use the order of words as evidence for every query, not only for quotes and errors."""
    parse = PARSE.parse

    def with_phrase(text: str, code: bool = False) -> object:
        parsed = parse(text, code)
        return replace(parsed, phrases=parsed.phrases or (tuple(words_of(text)),))

    return both(constants(SEARCH, parse=with_phrase), weights(alike("phrase"), phrase=weight))


def references(weight: float) -> AbstractContextManager[None]:
    """Use the number of references as evidence for every chunk, not only for a begun name."""
    find = CANDIDATES.find_by_words

    def with_references(store: object, words: object, *rest: object) -> dict:
        found = find(store, words, *rest)
        names = {candidate.place.chunk.name for candidate in found.values()}
        spoken = {
            name: words.frequency(pieces[0]) for name in names if (pieces := split_identifier(name))
        }
        most = max(spoken.values(), default=0)
        for candidate in found.values():
            mentions = spoken.get(candidate.place.chunk.name, 0)
            candidate.words += weight * math.log(1 + mentions) / math.log(2 + most)
        return found

    return constants(SEARCH, find_by_words=with_references)


@contextmanager
def both(*changes: AbstractContextManager[None]) -> Iterator[None]:
    """Combine several changes."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


def alike(name: str) -> list[QueryClass]:
    """The classes that weigh this evidence as a phrase does."""
    return [weight for weight in WEIGHTS if getattr(WEIGHTS[weight], name) == getattr(PLAIN, name)]


WITHOUT: dict[str, Change] = {
    "coverage": lambda: weights(coverage=0.0),
    "definition": lambda: weights(definition=0.0),
    "words joined to a name": lambda: weights(joined=0.0),
    "path": lambda: weights(path=0.0),
    "stem": lambda: weights(stem=0.0),
    "coherence": lambda: weights(coherence=0.0),
    "repeats decay": lambda: weights(repeat=1.0),
    "phrase": lambda: weights(phrase=0.0),
    "named place": lambda: weights(place=0.0),
    "entry point": lambda: weights(entry=0.0),
    "order in a file by names": lambda: weights(inside=0.0),
    "roles": lambda: constants(EVIDENCE, ROLES={}),
    "roles that are asked for": lambda: constants(PARSE, _ROLE_WORDS={}),
    "merging": lambda: constants(SNIPPET, MERGED_LINES=0),
    "field name": lambda: field("name", 0.0),
    "field path": lambda: field("path", 0.0),
    "field doc": lambda: field("doc_text", 0.0),
    "field body": lambda: field("body", 0.0),
    "a question's own weights (as a phrase)": lambda: weights(
        [QueryClass.QUESTION], coherence=PLAIN.coherence, repeat=PLAIN.repeat
    ),
    "a phrase's own weights (as a question)": lambda: weights(
        [QueryClass.PHRASE], coherence=ASKED.coherence, repeat=ASKED.repeat
    ),
    "a sole name's own weight": lambda: weights(NAMES, definition=PLAIN.definition),
    "questions' stop words": lambda: constants(PARSE, STOP_WORDS=PARSE.STOP_WORDS - SCAFFOLDING),
    "names that begin like the query": lambda: constants(CANDIDATES, MIN_PREFIX=999),
    "names passed on (re-exports)": lambda: constants(EVIDENCE, reexport=lambda candidate: 0.0),
    "other forms of words in paths": lambda: constants(EVIDENCE, HEAD=99),
    "candidates by coverage": lambda: constants(CANDIDATES, COVER_DEPTH=0),
}
LEFT_OUT: dict[str, Change] = {
    "phrase .2 for every class": lambda: phrase_for_all(0.2),
    "reference count .1 for every chunk": lambda: references(0.1),
    "entry point .1 for every class": lambda: weights(entry=0.1),
}


@dataclass(frozen=True, slots=True)
class Knob:
    """A constant, the values around it, and the change that sets it."""

    name: str
    chosen: float
    grid: tuple[float, ...]
    turn: Callable[[float], AbstractContextManager[None]]


def _weight(name: str, *grid: float) -> Knob:
    classes = alike(name)
    return Knob(name, getattr(PLAIN, name), grid, lambda value: weights(classes, **{name: value}))


def _own(label: str, classes: Sequence[QueryClass], name: str, *grid: float) -> Knob:
    chosen = getattr(WEIGHTS[classes[0]], name)
    return Knob(label, chosen, grid, lambda value: weights(classes, **{name: value}))


def _field(name: str, *grid: float) -> Knob:
    return Knob(
        f"field {name}",
        dict(CANDIDATES.FIELD_WEIGHTS)[name],
        grid,
        lambda value: field(name, value),
    )


KNOBS = (
    _weight("coverage", 0.1, 0.2, 0.3, 0.4, 0.6),
    _weight("definition", 0.4, 0.6, 0.8, 1.0, 1.4),
    _weight("joined", 0.2, 0.3, 0.4, 0.5, 0.7),
    _weight("path", 0.4, 0.55, 0.7, 0.85, 1.1),
    _weight("stem", 0.1, 0.2, 0.3, 0.4, 0.6),
    _weight("coherence", 0.2, 0.3, 0.4, 0.5, 0.7),
    _weight("repeat", 0.5, 0.6, 0.65, 0.7, 0.8),
    _own("question's coherence", [QueryClass.QUESTION], "coherence", 0.0, 0.05, 0.1, 0.2, 0.4),
    _own("question's repeat", [QueryClass.QUESTION], "repeat", 0.65, 0.8, 0.9, 0.95, 1.0),
    _own("a sole name's definition", NAMES, "definition", 1.2, 1.6, 2.0, 2.5, 3.0),
    _field("name", 0.1, 0.2, 0.3, 0.45, 0.6),
    _field("path", 0.2, 0.3, 0.4, 0.55, 0.8),
    _field("doc_text", 0.2, 0.35, 0.5, 0.7, 1.0),
)


def _set(module: ModuleType, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        setattr(module, name, value)
    TABLE.weights_of.cache_clear()
