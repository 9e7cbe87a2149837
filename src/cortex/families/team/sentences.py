"""Sentence splitter for Markdown, and stems of words.

Markdown is read line by line: code blocks, quotes, tables and headings are not sentences, and each
list entry is a passage of its own. A sentence is a piece of the folded text, never reworded. Pure;
knows nothing about records. Road not taken: a trained splitter, since a list of abbreviations works
as well on engineers' prose and costs microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from cortex.base.text import identifiers_of, split_identifier

SENTENCE_CHARACTERS = 240
# A shorter line that isn't continued was ended by its author, not by wrapping.
SHORT_LINE = 50

# Characters that a terminal or a model might interpret: controls, direction marks, invisible and
# tag characters.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ENTRY = re.compile(r"(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_HEADING = re.compile(r"#{1,6}\s+(.*)")
# Also matches a section of an INI file.
_BOLD_HEADING = re.compile(r"(?:\*\*|__|\[)([^*_\[\]]{1,80})(?:\*\*|__|\]):?$")
# The text that must follow is checked afterwards: so a run of marks is matched once, and a line of
# dots doesn't take quadratic time.
_END = re.compile(r"[.!?…。！？｡]+[\"'”’)\]*_`」』）]{0,4}")
_ENCLOSED = re.compile(r"`[^`]{1,200}`|\([^()]{1,200}\)")

ABBREVIATIONS = frozenset(
    "e.g i.e eg ie cf vs viz approx resp ca al incl excl max min dr mr mrs ms prof st inc ltd jr "
    "sr ver rev vol dept est z.b d.h bzw usw ggf u.a".split()
)
# Words that may also end a sentence.
MAYBE_ABBREVIATIONS = frozenset("etc a.m p.m max min ms inc ltd al vol rev est ca".split())
# Abbreviations only before a number.
NUMBERED = frozenset("no nos nr fig sec ch eq pp p art ref".split())

STOP_WORDS = frozenset(
    "a an and any are as at be been being both but by can could did do does doing done each "
    "either for from get gets got had has have having he her here him his how i if in into is it "
    "its itself just let like may me might more most much my of off on one only onto or other "
    "our ours out over own per quite rather really same say see shall she should since so some "
    "still such than that the their them then there these they this those though through thus to "
    "too under up upon us very via was we were what when where whether which while who whom "
    "whose why will with within would yes yet you your yours about above after again all also "
    "already although always am because before below between during even ever every few further "
    "however now once s t d m ll re ve don doesn didn isn wasn aren won can cannot couldn "
    "shouldn wouldn hasn haven weren".split()
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, verbatim, and the heading above it."""

    text: str
    heading: str = ""


def fold(text: str) -> str:
    """Fold a text to one line; white space and invisible characters become single spaces."""
    return " ".join((text if text.isprintable() else _CONTROL.sub(" ", text)).split())


def cut(sentence: str, most: int = SENTENCE_CHARACTERS) -> str:
    """Shorten a sentence with an ellipsis, between two words if possible."""
    if len(sentence) <= most:
        return sentence
    kept = sentence[: most - 1]
    if kept.count("`") % 2 and kept.rfind("`") > most // 2:
        kept = kept[: kept.rfind("`")]
    blank = kept.rfind(" ")
    return (kept[:blank] if blank > most // 2 else kept).rstrip() + "…"


def sentences_of(text: str) -> Iterator[Sentence]:
    """Iterate over the sentences of a Markdown text, in order and uncut."""
    for passage, heading in _passages_of(text):
        for sentence in split_sentences(passage):
            yield Sentence(sentence, heading)


def _passages_of(text: str) -> Iterator[tuple[str, str]]:
    """Iterate over paragraphs and list entries, folded, each with the heading above it."""
    if "<!--" in text:
        text = _HIDDEN.sub("\n\n", text)
    heading, fence, in_list = "", "", False
    passage: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if fence:
            fence = "" if stripped.startswith(fence) else fence
            continue
        role = _role_of_line(line, stripped, bool(passage) or in_list)
        if role == "text" and not (passage and _is_complete_line(passage[-1], stripped)):
            passage.append(stripped)
            in_list = in_list and line[:1].isspace()
            continue
        if role == "rule" and len(passage) == 1 and stripped[0] in "-=" and " " not in stripped:
            # It was underlined, so it was a heading.
            heading, passage = fold(passage[0]), []
        if passage:
            yield fold(" ".join(passage)), heading
        passage, in_list = [], in_list and not stripped
        if role == "fence":
            fence = stripped[:3]
        elif role == "heading":
            heading = _heading_of(stripped)
        elif role == "entry":
            passage, in_list = [_ENTRY.sub("", stripped, count=1)], True
        elif role == "text":
            passage, in_list = [stripped], False
    if passage:
        yield fold(" ".join(passage)), heading


def _role_of_line(line: str, stripped: str, continued: bool) -> str:
    """Classify a line outside of code: text, entry, heading, fence, rule, or "" for no content."""
    if not stripped:
        return ""
    first = stripped[0]
    if first.isalpha() and not line[0].isspace():
        return "text"
    if stripped.startswith(("```", "~~~")):
        return "fence"
    if first in ">|" or (first == "<" and stripped[-1] == ">"):
        return ""
    if len(stripped) > 2 and not stripped.strip("-*_= "):
        return "rule"
    if (first == "#" and _HEADING.match(stripped)) or _BOLD_HEADING.match(stripped):
        return "heading"
    if _ENTRY.match(stripped):
        return "entry"
    return "" if not continued and line.startswith(("    ", "\t")) else "text"


def _heading_of(stripped: str) -> str:
    """Return the words of a heading."""
    match = _HEADING.match(stripped) or _BOLD_HEADING.match(stripped)
    return fold(match[1]) if match else ""


def _is_complete_line(line: str, following: str) -> bool:
    """True for a line that was ended by its author, not by wrapping."""
    return len(line) < SHORT_LINE and line[-1] not in ",;:-(" and following[:1].isupper()


def split_sentences(passage: str) -> list[str]:
    """Split a folded passage into sentences."""
    out: list[str] = []
    start = 0
    enclosed = (
        [match.span() for match in _ENCLOSED.finditer(passage)]
        if "`" in passage or "(" in passage
        else []
    )
    # The next one is last, for pop.
    enclosed.reverse()
    for match in _END.finditer(passage):
        while enclosed and enclosed[-1][1] <= match.start():
            enclosed.pop()
        if (enclosed and enclosed[-1][0] < match.start()) or not _ends_here(
            passage, match.start(), match.end(), start
        ):
            continue
        out.append(passage[start : match.end()].strip())
        start = match.end()
    out.append(passage[start:].strip())
    return [sentence for sentence in out if sentence]


def _ends_here(passage: str, mark: int, end: int, start: int) -> bool:
    """True if the marks at `mark` end the sentence that began at `start`."""
    if passage[mark] in "。！？｡":
        return True
    if end < len(passage) and passage[end] != " ":
        return False
    after = passage[end + 1 : end + 2]
    if passage[mark] == "…" or passage.startswith("..", mark):
        return not after.islower()
    if passage[mark] != ".":
        return True
    begin = max(passage.rfind(" ", start, mark) + 1, start)
    word = passage[begin:mark].lstrip("([{\"'*_").lower()
    if word in MAYBE_ABBREVIATIONS:
        return after.isupper() or not after
    if word in NUMBERED:
        return not after.isdigit()
    # The number of a list entry within a line.
    if word.isdecimal() and len(word) < 3:
        return bool(passage[start:begin].strip()) and passage[begin - 2 : begin - 1] not in (
            ":",
            ";",
        )
    return word not in ABBREVIATIONS


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Stem an English word in lower case: retry, retries, retried and retrying are equal."""
    if len(word) < 4 or not word.isascii():
        return word
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-2] if word.endswith(("xes", "ches", "shes", "sses", "zes")) else word[:-1]
    for ending in ("ing", "ed"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) > 2 and any(letter in "aeiouy" for letter in rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


@lru_cache(maxsize=20_000)
def stems_of_identifier(identifier: str) -> tuple[str, ...]:
    """Return the stems of an identifier's parts, without stop words."""
    parts = split_identifier(identifier)
    if len(parts) > 1 and identifier.isascii():
        parts = parts[1:]
    return tuple(stem(part) for part in parts if part not in STOP_WORDS)


def stems_of(text: str) -> list[str]:
    """Return the stems of the content words of `text`, in order."""
    return [
        word_stem
        for identifier in identifiers_of(text)
        for word_stem in stems_of_identifier(identifier)
    ]
