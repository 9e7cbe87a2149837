"""Candidates -> order: a word score that several small pieces of evidence correct.

Every rule is a pure function on candidates whose word score is scaled to 0..1, so a rule's weight reads as a share of the best
word match. Equal-rank fusion of several lists was the road not taken: it throws away how good a match is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cortex.search.parse import Parsed
from cortex.store import Place
from cortex.text import words_of

COVERAGE = 0.3  # the whole query stands in the chunk
DEFINITION = 2.0  # the query is a name and this chunk defines it
EMBEDDED_DEFINITION = 0.8  # a name inside a sentence
PATH = 0.7  # all keywords stand in the file's name or folder
COHERENCE = 0.4  # the file's other candidates support its best one
HEAD = 4  # characters that two words must share to count as forms of one
REPEAT = 0.65  # each further chunk of a file already shown
ROLES: Mapping[str, float] = {
    "test": 0.4,
    "example": 0.5,
    "vendored": 0.4,
    "generated": 0.4,
    "locale": 0.2,
    "docs": 0.7,
}


@dataclass(slots=True)
class Candidate:
    """A place under consideration; `score` grows and shrinks as rules look at it."""

    place: Place
    words: float  # 0..1, share of the best word match
    covers: float = 0.0  # 0..1, how much of the query stands in it
    meaning: float = 0.0  # 0..1, cosine
    defines: float = 0.0  # 0..1, how exactly it defines a name of the query
    score: float = 0.0
    why: str = ""


def rank(candidates: Sequence[Candidate], parsed: Parsed) -> list[Candidate]:
    """The candidates in their final order, best first."""
    for candidate in candidates:
        candidate.score = candidate.words + COVERAGE * candidate.covers**2 + candidate.meaning
        candidate.why = "meaning" if candidate.meaning > candidate.words else "words"
    _reward_definitions(candidates, parsed)
    _reward_paths(candidates, parsed)
    _reward_coherence(candidates)
    _demote_roles(candidates, parsed)
    return _decay_repeats(candidates)


def _reward_definitions(candidates: Iterable[Candidate], parsed: Parsed) -> None:
    weight = DEFINITION if parsed.symbol else EMBEDDED_DEFINITION
    for candidate in candidates:
        if candidate.defines:
            candidate.score += weight * candidate.defines
            candidate.why = f"defines {candidate.place.chunk.name}"


def _reward_paths(candidates: Iterable[Candidate], parsed: Parsed) -> None:
    if not parsed.keywords:
        return
    shares: dict[str, float] = {}
    for candidate in candidates:
        path = candidate.place.doc.path
        if path not in shares:
            shares[path] = _path_share(path, parsed.keywords)
        if shares[path]:
            candidate.score += PATH * shares[path]
            if shares[path] > 0.5 and not candidate.defines:
                candidate.why = "path"


def _path_share(path: str, keywords: Sequence[str]) -> float:
    parts, heads = _path_parts(path)
    matched = sum(1 for word in keywords if word in parts or (word[:HEAD] in heads and _shares_beginning(word, parts)))
    return matched / len(keywords)


@lru_cache(maxsize=20_000)
def _path_parts(path: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a file's stem and of the folder it is in; and how the longer ones begin, to rule most out at once."""
    parts = frozenset(words_of("/".join(path.rsplit(".", 1)[0].split("/")[-2:])))
    return parts, frozenset(part[:HEAD] for part in parts if len(part) >= HEAD)


def _shares_beginning(word: str, parts: frozenset[str]) -> bool:
    return any(len(part) >= HEAD and (part.startswith(word) or word.startswith(part)) for part in parts)


def _reward_coherence(candidates: Sequence[Candidate]) -> None:
    sums: dict[int, float] = defaultdict(float)
    best: dict[int, Candidate] = {}
    for candidate in candidates:
        doc = candidate.place.doc.id
        sums[doc] += candidate.score
        if doc not in best or candidate.score > best[doc].score:
            best[doc] = candidate
    top = max(sums.values(), default=0.0)
    if top > 0:
        for doc, candidate in best.items():
            candidate.score += COHERENCE * sums[doc] / top


def _demote_roles(candidates: Iterable[Candidate], parsed: Parsed) -> None:
    for candidate in candidates:
        role = candidate.place.doc.role
        if role and role not in parsed.roles:
            candidate.score *= ROLES.get(role, 1.0)


def _decay_repeats(candidates: Sequence[Candidate]) -> list[Candidate]:
    ordered = sorted(candidates, key=order)
    seen: dict[int, int] = defaultdict(int)
    for candidate in ordered:
        doc = candidate.place.doc.id
        candidate.score *= REPEAT ** seen[doc]
        seen[doc] += 1
    return sorted(ordered, key=order)


def order(candidate: Candidate) -> tuple[float, int, str, int, int]:
    """Best first; equal scores by source, path, line and id, so that the same store gives the same answer."""
    place = candidate.place
    return (-round(candidate.score, 4), place.doc.source, place.doc.path, place.chunk.start_line, place.chunk_id)
