"""Claims of a text that another may contradict: quantities, versions, settings, statements.

Cautious rather than complete: questions, hypotheses and quotes are not claims, and only the
beginning of a text is read. Pure; knows nothing about records; `compare` decides if two claims
conflict. Road not taken: an entailment model, since a person judges every candidate and must see at
once why it is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cortex.families.team.contradictions.assignments import (
    Setting,
    copulas_of,
    quantity_of,
    settings_of,
)
from cortex.families.team.contradictions.claim_context import (
    CLAUSE_CHARACTERS,
    NEGATOR,
    SUPPOSED,
    Circumstance,
    circumstance_of,
    narrowed_in,
)
from cortex.families.team.contradictions.quantities import (
    Quantity,
    Release,
    quantities_of,
    releases_of,
)
from cortex.families.team.sentences import cut, sentences_of, stem

TEXT_CHARACTERS = 24_000
# Of each kind.
MOST_CLAIMS = 200
_FILLING = frozenset(
    stem(word)
    for word in "note moment currently today please remember actually simply currently".split()
)
_SPLIT = re.compile(
    r"[;—–]|,\s(?:and|but|so|while|which|because|whereas)\s(?!v?\d)|,\s(?!v?\d|and\s\d)"
    r"|\s(?:but|and|because|while|whereas|although|since|so that)\s(?!v?\d)"
)
_LEADING = re.compile(
    r"(?:for|in|on|with|when|if|during|under|at|after|before|since|by)\s[^,;]{1,80},\s",
    re.IGNORECASE,
)
_SWITCHED = re.compile(
    r"\b(?:turned|switched|is|are)\s(on|off)\b(?=[.!]?$|\s(?:in|for|by|on)\b)", re.IGNORECASE
)
_CONDITION = re.compile(
    r"\b(?:if|when|unless|only|except|until|once|while|during|after|before|was|were)\b|\d[\d.,]*",
    re.IGNORECASE,
)
_CONTRARIES: dict[str, tuple[str, bool]] = {
    stem(word): (stem(positive), word == positive)
    for positive, negative in (
        ("enabled", "disabled"), ("enable", "disable"), ("allowed", "forbidden"),
        ("allowed", "disallowed"), ("allowed", "prohibited"), ("accept", "reject"),
        ("include", "exclude"), ("safe", "unsafe"), ("supported", "unsupported"),
        ("synchronous", "asynchronous"), ("synchronously", "asynchronously"),
        ("required", "optional"), ("stateful", "stateless"), ("public", "private"),
        ("encrypted", "unencrypted"), ("mutable", "immutable"), ("blocking", "nonblocking"),
        ("stable", "unstable"), ("signed", "unsigned"), ("ordered", "unordered"),
    )
    for word in (positive, negative)
} | {stem("mandatory"): (stem("required"), True)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClaimStatement:
    """A clause that asserts or denies something."""

    holds: bool
    # Expressed by a word with an opposite, such as enabled and disabled.
    opposed: bool
    conditions: frozenset[str]
    shown: str
    about: Circumstance


@dataclass(frozen=True, slots=True)
class Claims:
    """All claims of a text."""

    quantities: tuple[Quantity, ...]
    releases: tuple[Release, ...]
    settings: tuple[Setting, ...]
    statements: tuple[ClaimStatement, ...]


def claims_of(text: str) -> Claims:
    """Extract the claims from the beginning of a text."""
    text = text[:TEXT_CHARACTERS]
    quantities: list[Quantity] = []
    releases: list[Release] = []
    statements: list[ClaimStatement] = []
    settings = list(settings_of(text))
    quantities += (quantity for setting in settings for quantity in quantity_of(setting))
    for sentence in sentences_of(text):
        if sentence.text.endswith("?") or SUPPOSED.search(sentence.text):
            continue
        around = narrowed_in(sentence.text, sentence.heading)
        for clause in _clauses_of(sentence.text):
            versions = list(releases_of(clause, around))
            releases += (release for release, _ in versions)
            quantities += quantities_of(clause, around, [span for _, span in versions])
            statements += _statements_of(clause, around)
            settings += copulas_of(clause, around)
    return Claims(
        tuple(quantities[:MOST_CLAIMS]),
        tuple(releases[:MOST_CLAIMS]),
        tuple(settings[:MOST_CLAIMS]),
        tuple(statements[:MOST_CLAIMS]),
    )


def _clauses_of(sentence: str) -> Iterator[str]:
    """Split a sentence into clauses, each with the leading phrase of the sentence."""
    sentence = sentence[: CLAUSE_CHARACTERS * 4]
    leading = _LEADING.match(sentence)
    prefix = leading[0].rstrip(", ") + " " if leading else ""
    for part in _SPLIT.split(sentence[leading.end() if leading else 0 :]):
        if part.strip():
            yield (prefix + part.strip())[:CLAUSE_CHARACTERS]


def _statements_of(clause: str, narrowed: frozenset[str]) -> Iterator[ClaimStatement]:
    """Extract the statement that a clause asserts or denies."""
    normalized = _SWITCHED.sub(
        lambda match: "is enabled" if match[1].lower() == "on" else "is disabled", clause
    )
    holds = len(NEGATOR.findall(normalized)) % 2 == 0
    about = circumstance_of(NEGATOR.sub(" ", normalized), narrowed, _FILLING)
    stems: list[str] = []
    opposed = False
    for word in about.stems:
        positive, is_positive = _CONTRARIES.get(word, (word, True))
        opposed = opposed or word in _CONTRARIES
        holds = holds == is_positive
        stems.append(positive)
    if len(stems) > 1:
        # Including numbers and tense.
        conditions = frozenset(word.lower() for word in _CONDITION.findall(clause))
        about = Circumstance(tuple(stems), frozenset(stems), about.words, narrowed)
        yield ClaimStatement(holds, opposed, conditions, cut(clause), about)
