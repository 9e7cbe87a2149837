"""Query text to `Parsed`: weighted words, names, places, quoted phrases, wanted roles.

Pure functions; nothing here knows the store. Names are looked up in the symbol table, so a wrong
guess costs a lookup and no wrong answer. Road not taken: words beside "class" or "method" as names,
which was worth nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from cortex.base.text import split_identifier, words_of
from cortex.engine.chunkers import language_of
from cortex.engine.search.query_classes import SHORT_TEXTS, Corpus, QueryClass, classes_of

# A pasted file as a query is cut to its first words; more terms cost time and add nothing.
MAX_TERMS = 64
# Names looked up as definitions.
MAX_NAMES = 40
# Frames of a stack trace.
MAX_PLACES = 20
MAX_PHRASE_WORDS = 40
# A part of an identifier weighs half of the whole.
PART_WEIGHT = 0.5

STOP_WORDS = frozenset(
    "a an and any are as at be been but by can could do does done for from had has have how "
    "i if in into is it its me my not of on "
    "or our should so some such than that the their them then there these they this those to "
    "us was we were what when where which "
    "who why will with would you your code find show get gets happen happens work works "
    # Words of questions about any subject.
    "did doing following given implement implementation implemented perform provided purpose "
    "specific use used uses using way".split()
)
# Further words of conversations, and remains of contractions.
TALK = frozenset(
    "about d didn doesn don he her hers herself him himself his isn kind kinds likely ll m "
    "potentially s she something t ve wasn weren".split()
)
_TOKEN = re.compile(r"[^\W\d][\w$]*(?:(?:::|->|[.#\\])[^\W\d][\w$]*)*[!?]?", re.UNICODE)
_SEPARATOR = re.compile(r"::|->|[.#\\]")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]|^[A-Z][a-z]+[A-Z0-9]")
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_CALLED = re.compile(r"\b([^\W\d]\w*)\(")
_QUOTED = re.compile(r"\"([^\"\n]{3,200})\"|“([^”\n]{3,200})”|(?<!\w)'([^'\n]{3,200})'(?!\w)")
# Every repetition is bounded, and a path begins where none can be before it, so that a hostile
# query can't block the process.
_MESSAGE = re.compile(
    r"(?:\b\w{0,80}(?:Error|Exception|Warning|Panic|Fault)|error|fatal|panic|"
    r"exception)\s*:\s*(.{3,300})"
)
_PLACE = re.compile(
    r"(?<![\w.@+~/\\-])((?:[A-Za-z]:)?[/\\]{0,2}(?:[\w.@+~-]{1,255}[/\\]){0,50}"
    r"[\w@+~-]{1,255}(?:\.[\w@+~-]{1,255}){0,20}\.[A-Za-z]\w{0,7})"
    r"(?:\",\s{0,9}line\s{1,9}|:|\()?(\d{1,7})?"
)
_ROLE_WORDS: Mapping[str, str] = {
    "test": "test", "tests": "test", "testing": "test", "tested": "test", "spec": "test",
    "specs": "test", "unittest": "test", "fixture": "test", "fixtures": "test",
    "benchmark": "example", "example": "example", "examples": "example", "sample": "example",
    "demo": "example", "tutorial": "example", "docs": "docs", "documentation": "docs",
    "readme": "docs", "changelog": "docs", "guide": "docs", "vendored": "vendored",
    "vendor": "vendored", "generated": "generated", "translation": "locale",
    "translations": "locale", "locale": "locale",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed query."""

    text: str
    # The whole query is one name.
    is_name: bool
    classes: tuple[QueryClass, ...]
    # Word to weight.
    weights: Mapping[str, float]
    # Identifiers in the query, last parts of qualified ones.
    names: tuple[str, ...]
    # Names that neighbouring words would make, in lower case.
    joined: tuple[str, ...]
    # Qualified names as written, with "." as the separator.
    qualified: tuple[str, ...]
    # Files that the query names, with the line or 0.
    places: tuple[tuple[str, int], ...]
    # Word sequences to be found together.
    phrases: tuple[tuple[str, ...], ...]
    # Roles of files that the query asks for.
    roles: frozenset[str]
    # Plain words to match against paths.
    keywords: tuple[str, ...]
    # Words that may be a person's name, because they don't begin with a small letter.
    people: frozenset[str]
    corpus: Corpus = Corpus.CODE


def parse(text: str, code: bool = False, corpus: Corpus = Corpus.CODE) -> Parsed:
    """Parse a query; with `code` it is a snippet, in which all identifiers weigh the same."""
    tokens = _TOKEN.findall(text)
    name = not code and len(text.split()) == 1 and len(tokens) == 1
    names, qualified = ([], []) if code else _names(text, tokens, name)
    weights = _weigh(text, tokens, STOP_WORDS | TALK if corpus in SHORT_TEXTS else STOP_WORDS)
    lowered = {word.lower() for word in tokens}
    roles = (
        frozenset(role for word, role in _ROLE_WORDS.items() if word in lowered)
        if not code
        else frozenset[str]()
    )
    places = () if code else _places(text)
    phrases = _phrases(text, code)
    classes = classes_of(
        text,
        code=code,
        name=name,
        qualified=bool(qualified),
        places=bool(places),
        quoted=bool(phrases),
        roles=roles,
    )
    return Parsed(
        text=text,
        is_name=name,
        classes=classes,
        weights=dict(list(weights.items())[:MAX_TERMS]),
        names=tuple(dict.fromkeys(names))[:MAX_NAMES],
        joined=() if name or code else _joined(text)[:MAX_NAMES],
        qualified=tuple(dict.fromkeys(qualified)),
        places=places,
        phrases=phrases,
        roles=roles,
        keywords=tuple(word for word in weights if len(word) > 2),
        people=frozenset(word.rstrip("!?").lower() for word in tokens if not word[0].islower())
        - STOP_WORDS,
        corpus=corpus,
    )


def _weigh(text: str, tokens: Sequence[str], stop_words: Set[str]) -> dict[str, float]:
    """Weigh the words of a query: whole identifiers 1, their parts half.

    Stop words are left out unless there is nothing else.
    """
    weights: dict[str, float] = {}
    for token in tokens:
        for identifier in _SEPARATOR.split(token.rstrip("!?")):
            for index, piece in enumerate(split_identifier(identifier)):
                weights[piece] = max(1.0 if index == 0 else PART_WEIGHT, weights.get(piece, 0.0))
    # Digits, and letters of languages without spaces.
    for word in words_of(text):
        weights.setdefault(word, PART_WEIGHT if len(word) == 1 and word.isascii() else 1.0)
    return {word: weight for word, weight in weights.items() if word not in stop_words} or weights


def _names(text: str, tokens: Sequence[str], whole: bool) -> tuple[list[str], list[str]]:
    """Names in the query, and the qualified ones among them: all that looks like code."""
    names: list[str] = []
    qualified: list[str] = []
    for token in tokens:
        parts = [part for part in _SEPARATOR.split(token.rstrip("!?")) if part]
        if whole or len(parts) > 1 or _CAMEL.search(token) or "_" in token.strip("_"):
            names.extend(parts[-1:])
            if len(parts) > 1:
                qualified.append(".".join(parts))
                names.extend(parts[:-1])
    for span in _CODE_SPAN.findall(text):
        names.extend(re.findall(r"[^\W\d]\w*", span))
    names.extend(_CALLED.findall(text))
    return names, qualified


def _joined(text: str) -> tuple[str, ...]:
    """Two or three neighbouring words as one name.

    "type adapter factory" may be TypeAdapter or adapter_factory.
    """
    words = [word.lower() for word in re.findall(r"\w+", text)[:MAX_TERMS]]
    runs = [
        words[start : start + length]
        for length in (2, 3)
        for start in range(len(words) - length + 1)
        if all(len(word) > 1 and word not in STOP_WORDS for word in words[start : start + length])
    ]
    return tuple(dict.fromkeys(joiner.join(run) for run in runs for joiner in ("", "_")))


def _places(text: str) -> tuple[tuple[str, int], ...]:
    """Files with lines, as errors, stack traces and people write them.

    For example a/b.py, a/b.py:12, File "a/b.py", line 12.
    """
    places = [
        (path.replace("\\", "/").removeprefix("./"), int(line or 0))
        for path, line in _PLACE.findall(text)
        if path.endswith(".txt") or language_of(path) != "text"
    ]
    return tuple(dict.fromkeys(places))[:MAX_PLACES]


def _phrases(text: str, code: bool) -> tuple[tuple[str, ...], ...]:
    """Quoted texts and the messages of errors, as sequences of words."""
    if code:
        return tuple(
            filter(None, (_words_in_order(line) for line in text.splitlines()[:MAX_PLACES]))
        )
    texts = ["".join(groups) for groups in _QUOTED.findall(text)] + _MESSAGE.findall(text)
    return tuple(words for words in map(_words_in_order, texts) if len(words) > 1)


def _words_in_order(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in re.findall(r"\w+", text))[:MAX_PHRASE_WORDS]
