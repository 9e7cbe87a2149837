"""What a memory says, apart from how it is written: so that the same isn't learnt twice, nor what
was only served.

Pure. Equal is told by a hash of normal text, which knows no scope and no project; alike is told by
the letters that two memories share, which small edits, other endings and another order of facts
hardly change. Whether two memories mean the same in other words is not told: that is for a person.
Not taken: a model's vectors, which call all memories of one topic alike.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from cortex.base.text import hash_bytes, identifiers_of, words_of
from cortex.base.types import Memory

# Likeness from which two memories are perhaps the same: of 400 turns of a talk, none but "Have a
# great day" has it with another
ALIKE = 0.63
RESTATED = 0.8  # likeness from which a sentence is one of an instruction file
MIN_WORDS = 2  # of a sentence that says something: an id, a date or a label doesn't
# Of what says something beside an id or an age: the name of a project or a kind doesn't
MIN_SHOWN_WORDS = 3
SHINGLE = 4  # characters
MAX_DEPTH = 8  # of pieces in pieces
MAX_RESTATED = 50  # sentences: what has more is no restatement
MAX_INSTRUCTED = 2_000  # sentences of instruction files that are compared

_LIST_MARK = re.compile(r"\s*(?:(?:[-*+•–—·▪◦>]|\d{1,3}[.)]|#{1,6}|\[[ xX]\])(?=\s)\s*|>)+")
_EMPHASIS = re.compile(r"(?<!\w)(_{1,2})([^_\s](?:[^_\n]{0,200}[^_\s])?)\1(?!\w)")
_MARKS = str.maketrans(
    dict.fromkeys("*`~\"'“”‘’„«»‹›\u200b\ufeff", "")
    | dict.fromkeys("‐‑‒–—−", "-")
    | {"\u00a0": " ", "|": " "}
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？])")
_TRAILING = ".,;:!?…。！？、，；： -"
# As an answer of ours shows a memory: its id before, its age and state behind, dots between.
_SHOWN_BETWEEN = re.compile(r"(?<=\s)[·|•—](?=\s)|\t")
_LABEL = re.compile(
    r"(?i)[\s\"'*_`]*(?:title|subtitle|facts?|text|summary|note|remember|decision|gotcha|learn(?:ed|t|ing)|memory)[\"'*_`]*\s?[:=]\s*"
)
_ID = r"\[?(?:[\w./-]{1,100}:)?(?:mem|obs)_\w{1,40}\]?"
_DAY = r"\d{4}-\d\d-\d\d(?:[t ][\d:.]{1,16}z?)?"
_ROW = re.compile(rf"(?i){_ID}(?:\s+{_DAY})?\s+(?:[\w -]{{1,40}}:\s+)?(?=\w)")
_IN_BRACKETS = re.compile(r"\s\([^()]{1,80}\)$")
_ASIDE = re.compile(
    rf"(?i){_ID}|#\d+|{_DAY}|just now|yesterday|today|staging|approved|promoted"
    r"|\d+ ?(?:s|m|h|d|w|y|(?:second|minute|hour|day|week|month|year)s?) ago"
)
_SAID = frozenset("title subtitle facts text narrative".split())  # of the names in an answer's JSON
_TAGS = frozenset("concepts tags files".split())
_BRACKETS = " ()[]{}<>,"


def canonical(memory: Memory) -> str:
    """All that a memory says as normal text, a line for each thing, none twice."""
    lines = list(
        dict.fromkeys(
            line for part in _said(memory) for line in map(_normal, part.splitlines()) if line
        )
    )
    return "\n".join(lines[1:] if _begins_one_of(lines[:1], lines[1:]) else lines)


def fingerprint(memory: Memory) -> bytes:
    """The same for memories that say the same, in whichever scope or project."""
    return _print_of(canonical(memory))


def parts_of(memory: Memory) -> list[bytes]:
    """Fingerprints of all that an answer may show of a memory: its title, subtitle and facts, the
    text, its lines and sentences.
    """
    statements = [_statement(part) for part in _said(memory)]
    return list(dict.fromkeys(mark for statement in statements for mark in statement.marks()))


def is_recalled(memory: Memory, known: Callable[[Sequence[bytes]], set[bytes]]) -> bool:
    """Whether a memory only says what was served: `known` gives those of some fingerprints that
    belong to parts of other memories.
    """
    statements = [_statement(part) for part in _said(memory)]
    there = known(
        list(dict.fromkeys(mark for statement in statements for mark in statement.marks()))
    )
    verdicts = [statement.is_in(there) for statement in statements]
    return True in verdicts and False not in verdicts


def likeness(one: Memory, other: Memory) -> float:
    """How much two memories share of what they say, 0 to 1: the share of equal runs of letters."""
    return _overlap(_shingles(canonical(one)), _shingles(canonical(other)))


def restates(memory: Memory, instructions: str) -> bool:
    """Whether a memory says nothing but what stands in an instruction file, but for small edits."""
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+#>]|\d{1,3}[.)])\s)", instructions)
    sentences = [
        _normal(sentence)
        for paragraph in paragraphs
        for sentence in _sentences(" ".join(paragraph.split()))
    ]
    whole = _spaced(" ".join(sentences))
    shingled = [_shingles(sentence) for sentence in sentences[:MAX_INSTRUCTED] if sentence]

    def stands_there(sentence: str) -> bool:
        if _spaced(sentence) in whole:
            return True
        asked = _shingles(sentence)
        return any(_overlap(asked, line) >= RESTATED for line in shingled)

    said = [
        _normal(sentence)
        for part in _said(memory)
        for line in part.splitlines()
        for sentence in _sentences(line)
    ]
    said = [sentence for sentence in said if _says_something(sentence)]
    return 0 < len(said) <= MAX_RESTATED and all(map(stands_there, said))


@dataclass(frozen=True, slots=True)
class _Statement:
    """A piece of text, and ways to say the same in pieces."""

    mark: bytes  # b"" where it says nothing as a whole
    ways: tuple[tuple[_Statement, ...], ...] = ()

    def marks(self) -> Iterator[bytes]:
        if self.mark:
            yield self.mark
        for piece in chain.from_iterable(self.ways):
            yield from piece.marks()

    def is_in(self, known: set[bytes]) -> bool | None:
        """Whether it is known, as a whole or piece by piece; None where it says nothing."""
        if self.mark in known:
            return True
        says = bool(self.mark)
        for way in self.ways:
            verdicts = [verdict for piece in way if (verdict := piece.is_in(known)) is not None]
            if verdicts and all(verdicts):
                return True
            says = says or bool(verdicts)
        return False if says else None


def _begins_one_of(title: list[str], lines: list[str]) -> bool:
    """Whether a line goes on where the title ends: it was taken from there."""
    return any(
        line.startswith(start) and not line[len(start)].isalnum()
        for start in title
        for line in lines
    )


def _said(memory: Memory) -> list[str]:
    return [
        part for part in (memory.title, memory.subtitle, *memory.facts, memory.text) if part.strip()
    ]


def _statement(text: str, depth: int = 0) -> _Statement:
    normal = "\n".join(line for line in map(_normal, text.splitlines()) if line)
    mark = _print_of(normal) if _says_something(normal) else b""
    ways = _ways(text.strip()) if depth < MAX_DEPTH else []
    return _Statement(
        mark, tuple(tuple(_statement(piece, depth + 1) for piece in way) for way in ways)
    )


def _ways(text: str) -> list[list[str]]:
    """A text in smaller pieces: what JSON holds, its lines, what a line of an answer shows, its
    sentences.
    """
    if text[:1] in ("{", "[") and (inside := _strings_in(text)):
        return [inside]
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return [lines]
    ways = [*_shown(text), [sentence for sentence in _sentences(text) if sentence.strip()]]
    return [way for way in ways if way and way != [text]]


def _strings_in(text: str) -> list[str]:
    """What a piece of JSON says, without names, tags and ids; nothing where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    out: list[str] = []
    waiting: list[object] = [found]
    while waiting:
        match waiting.pop():
            case str() as value:
                out.append(value)
            case list() as values:
                waiting += values
            case dict() as named:
                waiting += [
                    value
                    for name, value in named.items()
                    if name not in _TAGS and (name in _SAID or not isinstance(value, str))
                ]
    return out


def _shown(line: str) -> list[list[str]]:
    """What a line of an answer says, without list mark, label, id, date, age and state; nothing for
    any other line.
    """
    bare = line[mark.end() :] if (mark := _LIST_MARK.match(line)) else line
    begin = _ROW.match(bare)
    if begin:  # "- mem_1a2b 2026-11-02 decision: the title (its project)"
        rest = bare[begin.end() :]
        return [[rest], [_IN_BRACKETS.sub("", rest)]]
    label = _LABEL.match(bare)
    if label:
        return [[bare[label.end() :]]]
    between = [piece.strip(_BRACKETS) for piece in _SHOWN_BETWEEN.split(bare)]
    said = [piece for piece in between if not _ASIDE.fullmatch(piece)]
    if len(said) == len(between):
        return [[bare]] if mark else []  # dots of its own
    return [[piece for piece in said if len(words_of(piece)) >= MIN_SHOWN_WORDS] or said]


def _sentences(line: str) -> list[str]:
    return _SENTENCE_END.split(line)


def _normal(line: str) -> str:
    """A line without what only shapes it: list marks, emphasis, quotes, capitals, spaces, the full
    stop.
    """
    line = unicodedata.normalize("NFKC", line)
    line = line[mark.end() :] if (mark := _LIST_MARK.match(line)) else line
    line = _EMPHASIS.sub(r"\2", line).translate(_MARKS).casefold()
    return " ".join(line.split()).rstrip(_TRAILING)


def _says_something(normal: str) -> bool:
    return len(words_of(normal)) >= MIN_WORDS and not _ASIDE.fullmatch(normal)


def _print_of(normal: str) -> bytes:
    return hash_bytes(b"said", normal.encode("utf-8", "surrogatepass"))


def _shingles(normal: str) -> Counter[str]:
    """The runs of letters in each word, counted; the edges of words are letters too."""
    text = _spaced(normal)
    return Counter(text[at : at + SHINGLE] for at in range(max(1, len(text) - SHINGLE + 1)))


def _spaced(normal: str) -> str:
    """The words alone, a space around each."""
    return f" {' '.join(identifiers_of(normal))} "


def _overlap(one: Counter[str], other: Counter[str]) -> float:
    shared = (one & other).total()
    return 2 * shared / (one.total() + other.total())
