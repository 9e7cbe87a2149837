"""Fingerprints and similarity of memories, to avoid learning the same twice.

Pure functions. Equality is a hash of normalised text, independent of scope and project. Similarity
is the share of common character shingles, which small edits, other endings and another order of
facts hardly change. Two memories with the same meaning in other words are not detected: that is
left to a person. Road not taken: embedding vectors, which call all memories of one topic similar.
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

# Similarity from which two memories may be the same. Of 400 turns of a conversation, only "Have a
# great day" reached it with another turn.
ALIKE = 0.63
# Similarity from which a sentence counts as one of an instruction file.
RESTATED = 0.8
# Words of a sentence with content: an id, a date or a label has fewer.
MIN_WORDS = 2
# Words of content beside an id or an age: the name of a project or a kind has fewer.
MIN_SHOWN_WORDS = 3
# Characters.
SHINGLE = 4
# Nesting depth of pieces in pieces.
MAX_DEPTH = 8
# Sentences: a memory with more is no restatement.
MAX_RESTATED = 50
# Sentences of instruction files that are compared.
MAX_INSTRUCTED = 2_000

_LIST_MARK = re.compile(r"\s*(?:(?:[-*+•–—·▪◦>]|\d{1,3}[.)]|#{1,6}|\[[ xX]\])(?=\s)\s*|>)+")
_EMPHASIS = re.compile(r"(?<!\w)(_{1,2})([^_\s](?:[^_\n]{0,200}[^_\s])?)\1(?!\w)")
_MARKS = str.maketrans(
    dict.fromkeys("*`~\"'“”‘’„«»‹›\u200b\ufeff", "")
    | dict.fromkeys("‐‑‒–—−", "-")
    | {"\u00a0": " ", "|": " "}
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？])")
_TRAILING = ".,;:!?…。！？、，；： -"
# A memory in an answer of ours: id first, then age and state, separated by dots.
_FIELD_SEPARATOR = re.compile(r"(?<=\s)[·|•—](?=\s)|\t")
_LABEL = re.compile(
    r"(?i)[\s\"'*_`]*(?:title|subtitle|facts?|text|summary|note|remember|decision|gotcha|learn(?:ed|t|ing)|memory)[\"'*_`]*\s?[:=]\s*"
)
_ID = r"\[?(?:[\w./-]{1,100}:)?(?:mem|obs)_\w{1,40}\]?"
_DAY = r"\d{4}-\d\d-\d\d(?:[t ][\d:.]{1,16}z?)?"
_ROW = re.compile(rf"(?i){_ID}(?:\s+{_DAY})?\s+(?:[\w -]{{1,40}}:\s+)?(?=\w)")
_IN_BRACKETS = re.compile(r"\s\([^()]{1,80}\)$")
_METADATA = re.compile(
    rf"(?i){_ID}|#\d+|{_DAY}|just now|yesterday|today|staging|approved|promoted"
    r"|\d+ ?(?:s|m|h|d|w|y|(?:second|minute|hour|day|week|month|year)s?) ago"
)
# Keys with content in the JSON of an answer.
_CONTENT_KEYS = frozenset("title subtitle facts text narrative".split())
_TAG_KEYS = frozenset("concepts tags files".split())
_BRACKETS = " ()[]{}<>,"


def canonical(memory: Memory) -> str:
    """Normalised text of a memory: one line for each statement, without repeats."""
    statements = (line for part in _texts_of(memory) for line in part.splitlines())
    lines = list(dict.fromkeys(line for line in map(_normalised, statements) if line))
    return "\n".join(lines[1:] if _is_start_of_line(lines[:1], lines[1:]) else lines)


def fingerprint(memory: Memory) -> bytes:
    """Hash that is equal for memories with the same content, in any scope or project."""
    return _hash(canonical(memory))


def parts_of(memory: Memory) -> list[bytes]:
    """Fingerprints of all that an answer may show of a memory.

    These are its title, subtitle, facts and text, and the lines and sentences of the text.
    """
    statements = [_statement(part) for part in _texts_of(memory)]
    return list(dict.fromkeys(mark for statement in statements for mark in statement.marks()))


def is_recalled(memory: Memory, known: Callable[[Sequence[bytes]], set[bytes]]) -> bool:
    """True if a memory only repeats what was served.

    `known` returns those fingerprints, of the ones it gets, that belong to parts of other memories.
    """
    statements = [_statement(part) for part in _texts_of(memory)]
    known_marks = known(
        list(dict.fromkeys(mark for statement in statements for mark in statement.marks()))
    )
    verdicts = [statement.is_in(known_marks) for statement in statements]
    return True in verdicts and False not in verdicts


def likeness(left: Memory, right: Memory) -> float:
    """Similarity of two memories from 0 to 1: the share of common shingles."""
    return _overlap(_shingles(canonical(left)), _shingles(canonical(right)))


def restates(memory: Memory, instructions: str) -> bool:
    """True if a memory says nothing but what an instruction file says, but for small edits."""
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+#>]|\d{1,3}[.)])\s)", instructions)
    sentences = [
        _normalised(sentence)
        for paragraph in paragraphs
        for sentence in _sentences(" ".join(paragraph.split()))
    ]
    whole = _words_only(" ".join(sentences))
    shingled = [_shingles(sentence) for sentence in sentences[:MAX_INSTRUCTED] if sentence]

    def stands_there(sentence: str) -> bool:
        if _words_only(sentence) in whole:
            return True
        shingles = _shingles(sentence)
        return any(_overlap(shingles, line) >= RESTATED for line in shingled)

    statements = [
        _normalised(sentence)
        for part in _texts_of(memory)
        for line in part.splitlines()
        for sentence in _sentences(line)
    ]
    statements = [sentence for sentence in statements if _has_content(sentence)]
    return 0 < len(statements) <= MAX_RESTATED and all(map(stands_there, statements))


@dataclass(frozen=True, slots=True)
class _Statement:
    """Piece of text, and the ways to split it into smaller pieces."""

    # b"" if the whole has no content.
    mark: bytes
    splits: tuple[tuple[_Statement, ...], ...] = ()

    def marks(self) -> Iterator[bytes]:
        if self.mark:
            yield self.mark
        for piece in chain.from_iterable(self.splits):
            yield from piece.marks()

    def is_in(self, known: set[bytes]) -> bool | None:
        """True if it is known as a whole or piece by piece; None if it has no content."""
        if self.mark in known:
            return True
        has_content = bool(self.mark)
        for split in self.splits:
            verdicts = [verdict for piece in split if (verdict := piece.is_in(known)) is not None]
            if verdicts and all(verdicts):
                return True
            has_content = has_content or bool(verdicts)
        return False if has_content else None


def _is_start_of_line(title: list[str], lines: list[str]) -> bool:
    """True if a line continues the title, which was taken from it."""
    return any(
        line.startswith(start) and not line[len(start)].isalnum()
        for start in title
        for line in lines
    )


def _texts_of(memory: Memory) -> list[str]:
    return [
        part for part in (memory.title, memory.subtitle, *memory.facts, memory.text) if part.strip()
    ]


def _statement(text: str, depth: int = 0) -> _Statement:
    normal = "\n".join(line for line in map(_normalised, text.splitlines()) if line)
    mark = _hash(normal) if _has_content(normal) else b""
    splits = _splits(text.strip()) if depth < MAX_DEPTH else []
    return _Statement(
        mark, tuple(tuple(_statement(piece, depth + 1) for piece in split) for split in splits)
    )


def _splits(text: str) -> list[list[str]]:
    """Split a text into smaller pieces.

    The pieces are JSON strings, lines, the fields of a line in an answer, or sentences.
    """
    if text[:1] in ("{", "[") and (inside := _json_strings(text)):
        return [inside]
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return [lines]
    splits = [
        *_split_answer_line(text),
        [sentence for sentence in _sentences(text) if sentence.strip()],
    ]
    return [split for split in splits if split and split != [text]]


def _json_strings(text: str) -> list[str]:
    """Content strings of a JSON text, without keys, tags and ids; empty if it is no JSON."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return []
    strings: list[str] = []
    pending: list[object] = [document]
    while pending:
        match pending.pop():
            case str() as value:
                strings.append(value)
            case list() as values:
                pending += values
            case dict() as named:
                pending += [
                    value
                    for name, value in named.items()
                    if name not in _TAG_KEYS
                    and (name in _CONTENT_KEYS or not isinstance(value, str))
                ]
    return strings


def _split_answer_line(line: str) -> list[list[str]]:
    """Content of a line in an answer, without list mark, label, id, date, age and state.

    Empty for any other line.
    """
    bare = line[mark.end() :] if (mark := _LIST_MARK.match(line)) else line
    row = _ROW.match(bare)
    # "- mem_1a2b 2026-11-02 decision: the title (its project)"
    if row:
        rest = bare[row.end() :]
        return [[rest], [_IN_BRACKETS.sub("", rest)]]
    label = _LABEL.match(bare)
    if label:
        return [[bare[label.end() :]]]
    pieces = [piece.strip(_BRACKETS) for piece in _FIELD_SEPARATOR.split(bare)]
    content = [piece for piece in pieces if not _METADATA.fullmatch(piece)]
    if len(content) == len(pieces):
        # The separators belong to the text itself.
        return [[bare]] if mark else []
    return [[piece for piece in content if len(words_of(piece)) >= MIN_SHOWN_WORDS] or content]


def _sentences(line: str) -> list[str]:
    return _SENTENCE_END.split(line)


def _normalised(line: str) -> str:
    """Normalise a line: no list mark, emphasis, quotes, capitals, extra spaces, full stop."""
    line = unicodedata.normalize("NFKC", line)
    line = line[mark.end() :] if (mark := _LIST_MARK.match(line)) else line
    line = _EMPHASIS.sub(r"\2", line).translate(_MARKS).casefold()
    return " ".join(line.split()).rstrip(_TRAILING)


def _has_content(normal: str) -> bool:
    return len(words_of(normal)) >= MIN_WORDS and not _METADATA.fullmatch(normal)


def _hash(normal: str) -> bytes:
    return hash_bytes(b"said", normal.encode("utf-8", "surrogatepass"))


def _shingles(normal: str) -> Counter[str]:
    """Count the character shingles of a text, with the spaces around words."""
    text = _words_only(normal)
    return Counter(text[at : at + SHINGLE] for at in range(max(1, len(text) - SHINGLE + 1)))


def _words_only(normal: str) -> str:
    """Words of a text, with a space around each."""
    return f" {' '.join(identifiers_of(normal))} "


def _overlap(left: Counter[str], right: Counter[str]) -> float:
    shared = (left & right).total()
    return 2 * shared / (left.total() + right.total())
