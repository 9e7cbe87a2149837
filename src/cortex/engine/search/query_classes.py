"""Classes of queries, and kinds of text; their weights of the evidence are in weights.py.

A query may be of several classes: "why does `Store.apply` raise LockBusy in the tests" is a
question, names a symbol and asks for tests. Its weights are then the mean of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum


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


# Corpora of short texts with a title and without meaningful paths.
SHORT_TEXTS = frozenset({Corpus.MEMORIES, Corpus.RECORDS})

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
