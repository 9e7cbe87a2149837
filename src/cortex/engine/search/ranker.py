"""Candidates -> order: the sum of the evidence, times what a file's role and its repeats take away.

The word score is scaled to 0..1, so a weight reads as a share of the best word match. Equal-rank
fusion of several lists was the road not taken: it throws away how good a match is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cortex.engine.search import features
from cortex.engine.search.features import Candidate
from cortex.engine.search.query_classes import Weights, weights_of
from cortex.engine.search.query_parser import Parsed
from cortex.engine.store import ChunkLocation

PHRASE_DEPTH = 50  # of the candidates so far, whose text is looked at for phrases
DAY_NS = 86_400 * 10**9

# What `--explain` calls the evidence that a candidate carries.
_LABELS: dict[str, str] = {
    "words": "words",
    "beside": "what stands beside it",
    "speaks": "speaker",
    "meaning": "meaning",
    "covers": "coverage",
    "defines": "definition",
    "joins": "words joined to a name",
    "path": "path",
    "stem": "file name",
    "located": "named place",
    "entry": "entry point",
    "phrase": "phrase",
    "within": "order in its file",
    "coherence": "file coherence",
}


def rank(
    candidates: Sequence[Candidate],
    parsed: Parsed,
    words_in: Callable[[ChunkLocation], Sequence[str]],
    recency: Mapping[str, int],
    masses: Mapping[str, float] | None = None,
) -> list[Candidate]:
    """The candidates in their final order, best first; `words_in` gives the words of a place's
    text, in order.

    `masses` say what each word of the query is worth, where words count.
    """
    weights = weights_of(parsed.classes, parsed.corpus)
    candidates = sorted(candidates, key=lambda one: tie(one, recency))
    if weights.path or weights.stem or weights.entry:
        _look_at_paths(candidates, parsed, weights)
    _score(candidates, weights)
    if weights.phrase and parsed.phrases:
        for candidate in _by_score(candidates)[:PHRASE_DEPTH]:
            candidate.phrase = features.phrase_share(words_in(candidate.place), parsed.phrases)
        _score(candidates, weights)
    # Who quotes, or names a line, has said which chunk
    elif weights.inside and masses and not parsed.places:
        features.order_within(candidates, masses, weights.inside)
    for candidate, share in features.coherence(candidates):
        candidate.coherence = share
        candidate.score += weights.coherence * share
    for candidate in candidates:
        candidate.role = features.role(candidate.place.doc.role, parsed.roles)
        candidate.score *= candidate.role
    return _decay_repeats(candidates, weights.repeat)


def explain(candidate: Candidate, parsed: Parsed) -> tuple[tuple[str, float], ...]:
    """The evidence for a candidate with what each part adds to its score, then the factors, marked
    by an "x".
    """
    parts = _parts(candidate, weights_of(parsed.classes, parsed.corpus))
    parts.append(
        (f"x {candidate.place.doc.role} file", candidate.role if candidate.role != 1.0 else 0.0)
    )
    parts.append(
        ("x repeat of its file", round(candidate.repeat, 4) if candidate.repeat != 1.0 else 0.0)
    )
    parts.append(
        ("x like a better one", round(candidate.fresh, 4) if candidate.fresh != 1.0 else 0.0)
    )
    return tuple(part for part in parts if part[1])


def _parts(candidate: Candidate, weights: Weights) -> list[tuple[str, float]]:
    if candidate.ranks is not None:
        return [
            (f"rank by {arm}", round(share, 4))
            for arm, share in zip(("words", "meaning"), candidate.ranks, strict=True)
        ]
    whole = _total(candidate, weights)
    return [
        (label, round(whole - _total(replace(candidate, **{field: 0.0}), weights), 4))
        for field, label in _LABELS.items()
    ]


def why(candidate: Candidate, parsed: Parsed) -> str:
    """The strongest evidence in one short phrase."""
    weights = weights_of(parsed.classes, parsed.corpus)
    if candidate.located:
        return "named place"
    if candidate.phrase > 0.5:
        return "phrase"
    if candidate.named:
        return f"defines {candidate.named}"
    if candidate.defines:
        return "passes the name on"
    if weights.path * candidate.path + weights.stem * candidate.stem > max(0.3, candidate.meaning):
        return "path"
    if candidate.beside > max(candidate.words, candidate.meaning):
        return "what stands beside it"
    return "meaning" if candidate.meaning > candidate.words else "words"


def tie(candidate: Candidate, recency: Mapping[str, int]) -> tuple[int, int, int, str, int, int]:
    """The order of equal scores: by source, then what changed last, then path, line and id: the
    same store, the same answer.

    What changed last is what git's history says, newest first; among files that it has not touched
    lately, and without git, the time of the file to the day, since a checkout writes all files of
    one day at once.
    """
    doc = candidate.place.doc
    line = candidate.place.chunk.start_line
    age = recency.get(doc.path, len(recency))
    return (doc.source, age, -(doc.mtime_ns // DAY_NS), doc.path, line, candidate.place.chunk_id)


def _by_score(tied: Sequence[Candidate]) -> list[Candidate]:
    """Best first; sorting keeps the order of equal ones, and a number is compared in a third of a
    tuple's time.
    """
    return sorted(tied, key=lambda one: -round(one.score, 4))


def _look_at_paths(candidates: Sequence[Candidate], parsed: Parsed, weights: Weights) -> None:
    seen: dict[str, tuple[float, float, float]] = {}
    for candidate in candidates:
        path = candidate.place.doc.path
        if path not in seen:
            seen[path] = (
                features.path_share(path, parsed.keywords),
                features.stem_share(path, parsed.keywords),
                features.entry(path) if weights.entry else 0.0,
            )
        candidate.path, candidate.stem, candidate.entry = seen[path]


def _score(candidates: Sequence[Candidate], weights: Weights) -> None:
    for candidate in candidates:
        candidate.score = candidate.role * _total(candidate, weights)


def _total(one: Candidate, weights: Weights) -> float:
    return (
        one.words
        + one.beside
        + one.within
        + one.meaning
        + one.speaks
        + weights.coverage
        * one.covers
        * one.covers  # all of a query in one chunk is far more than half of it in each of two
        + weights.definition * one.defines
        + weights.joined * one.joins
        + weights.path * one.path
        + weights.stem * one.stem
        + weights.place * one.located
        + weights.entry * one.entry
        + weights.phrase * one.phrase
        + weights.coherence * one.coherence
    )


def _decay_repeats(tied: Sequence[Candidate], repeat: float) -> list[Candidate]:
    ordered = _by_score(tied)
    if repeat == 1.0:
        return ordered
    seen: dict[int, int] = {}
    for candidate in ordered:
        doc = candidate.place.doc.id
        candidate.repeat = repeat ** seen.get(doc, 0)
        candidate.score *= candidate.repeat
        seen[doc] = seen.get(doc, 0) + 1
    return _by_score(tied)
