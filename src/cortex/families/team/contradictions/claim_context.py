"""Context of a claim: the words around it, and the circumstances that qualify it.

A number for staging doesn't contradict one for production, nor step 3 step 4. Pure; knows nothing
about records.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cortex.base.text import identifiers_of
from cortex.families.team.sentences import stem, stems_of_identifier

CLAUSE_CHARACTERS = 300
Stems = tuple[str, ...]
# Qualifiers: claims with different ones don't conflict.
_SAME = {
    "maximum": "max", "minimum": "min", "development": "dev", "production": "prod",
    "stage": "staging", "avg": "average", "mean": "average", "testing": "test", "tests": "test",
    "writes": "write", "reads": "read", "locally": "local", "europe": "eu",
}  # fmt: skip
_NARROWING = frozenset(
    "read write connect idle max min soft hard dev staging prod test ci local p50 p90 p95 p99 "
    "median average peak total initial previously formerly originally earlier initially past "
    "until legacy old monthly daily weekly hourly yearly windows linux macos ios android arm x86 "
    "debug primary replica follower leader inbound outbound upload download ingress egress "
    "internal external frontend backend mobile desktop free paid enterprise eu asia cold warm "
    "deprecated first third fourth fifth last yesterday monday tuesday wednesday thursday friday "
    "saturday sunday january february april june july august september october november "
    "december".split()
)
NEUTRAL = frozenset(
    stem(word)
    for word in "set use keep have run take configure default currently current today value "
    "equal exactly raise lower increase reduce change need please note decide agree "
    "approximately roughly around least most".split()
)
# Numbers and letters that are names: step 3, team B, room 5 is booked.
NAMED = re.compile(
    r"\b(?i:(step|phase|run|build|job|sprint|week|day|part|option|case|example|attempt|milestone"
    r"|release|shard|order|customer|region|batch|round"
    r"|stage|level|tier|tenant|experiment|trial|scenario)s?\s#?(\d{1,12})\b)"
    r"|\b([A-Za-z]{3,20})\s#?(\d{1,12})\s(?:is|are|was|were|has|had|have|does|did|can|will|needs?"
    r"|gets?|got)\b"
    r"|\b([A-Za-z]{3,20})\s([A-HJ-Z])\b"
)
_LED = re.compile(r"with(?:out)?\b", re.IGNORECASE)
SUPPOSED = re.compile(
    r"\b(?:would|could|might|maybe|perhaps|propos\w{1,6}|suggest\w{0,6}|consider\w{0,6}|e\.g"
    r"|for example|for instance|let's say|imagine|used to"
    r"|what if|assum\w{1,5}|hypothetical\w{0,4}|not sure|no doubt|i (?:don't )?think|i guess)\b",
    re.IGNORECASE,
)
REJECTED = re.compile(
    r"\b(?:instead of|rather than|not|from|was|were|used to be|than|between|until|no longer|never"
    r"|n't|to-do)\s{1,2}(?:(?:the|a|an|only|just|at|usual)\s)?"
    r"[`\"'(]?$|\bbetween\s\S{1,12}\s(?:\w{1,12}\s)?and\s$",
    re.IGNORECASE,
)
NEGATOR = re.compile(
    r"\b(?:not(?! only| just)|never|no|without|cannot|neither|nor)\b|n['’]t\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Circumstance:
    """The words around a claim, in order, and its qualifiers."""

    stems: Stems
    # The stems as a set.
    bag: frozenset[str]
    # As written, one for each stem.
    words: tuple[str, ...]
    narrowed: frozenset[str]


def narrowed_by(words: list[str]) -> frozenset[str]:
    """Return the qualifiers among the words, normalized."""
    lower = [_SAME.get(word, word) for word in map(str.lower, words)]
    return frozenset(
        word
        for before, word in zip(["", *lower], lower, strict=False)
        # After a number, "min" means minutes.
        if word in _NARROWING and not (word == "min" and before.isdigit())
    )


def narrowed_in(sentence: str, heading: str) -> frozenset[str]:
    """Return the qualifiers of a sentence and its heading."""
    text = f"{heading} {sentence}"[: CLAUSE_CHARACTERS * 2]
    preposition = _LED.match(sentence)
    names = (" ".join(filter(None, match.groups())).lower() for match in NAMED.finditer(text))
    return narrowed_by(identifiers_of(text)).union(
        names, [preposition[0].lower()] if preposition else []
    )


def circumstance_of(
    clause: str, narrowed: frozenset[str], neutral: frozenset[str] = frozenset()
) -> Circumstance:
    """Extract the context of a clause, without neutral words."""
    stems: list[str] = []
    words: list[str] = []
    for word in identifiers_of(clause):
        if word.isdigit():
            continue
        # db1 and db2 are two things.
        for word_stem in (
            stems_of_identifier(word) if not any(map(str.isdigit, word)) else (word.lower(),)
        ):
            if word_stem not in neutral:
                stems.append(word_stem)
                words.append(word)
    return Circumstance(tuple(stems), frozenset(stems), tuple(words), narrowed)
