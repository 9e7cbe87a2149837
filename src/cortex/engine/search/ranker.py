"""Ranker: orders the candidates by the sum of their evidence, times factors.

The factors lower files of some roles, and repetitions of a file. The lexical score is scaled to
0..1, so a weight reads as a share of the best lexical match. Road not taken: rank fusion of several
lists, which discards how good a match is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cortex.engine.search import features
from cortex.engine.search.features import Candidate
from cortex.engine.search.query_parser import Parsed
from cortex.engine.search.weights import Weights, weights_of
from cortex.engine.store import ChunkLocation

# Number of the best candidates whose text is compared with the phrases of the query.
PHRASE_DEPTH = 50
DAY_NS = 86_400 * 10**9

# Labels of the evidence in `--explain`.
_LABELS: dict[str, str] = {
    "words": "words",
    "beside": "neighbouring chunks",
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
    word_weights: Mapping[str, float] | None = None,
) -> list[Candidate]:
    """Return the candidates in their final order, best first.

    `words_in` returns the words of a chunk's text, in order. `word_weights` are the weights of the
    query's words, None or empty if words don't count.
    """
    weights = weights_of(parsed.classes, parsed.corpus)
    candidates = sorted(candidates, key=lambda candidate: tie_key(candidate, recency))
    if weights.path or weights.stem or weights.entry:
        _set_path_features(candidates, parsed, weights)
    _score(candidates, weights)
    if weights.phrase and parsed.phrases:
        for candidate in _by_score(candidates)[:PHRASE_DEPTH]:
            candidate.phrase = features.phrase_share(words_in(candidate.place), parsed.phrases)
        _score(candidates, weights)
    elif weights.inside and word_weights and not parsed.places:
        # Not for a phrase or a named line, which already decides between the chunks of a file.
        features.order_within(candidates, word_weights, weights.inside)
    for candidate, share in features.coherence(candidates):
        candidate.coherence = share
        candidate.score += weights.coherence * share
    for candidate in candidates:
        candidate.role = features.role(candidate.place.doc.role, parsed.roles)
        candidate.score *= candidate.role
    return _decay_repeats(candidates, weights.repeat)


def explain(candidate: Candidate, parsed: Parsed) -> tuple[tuple[str, float], ...]:
    """Parts of a candidate's score with their labels, then its factors, labelled "x ..."."""
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
    """Describe the strongest evidence for a candidate in a short phrase."""
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
        return "neighbouring chunks"
    return "meaning" if candidate.meaning > candidate.words else "words"


def tie_key(
    candidate: Candidate, recency: Mapping[str, int]
) -> tuple[int, int, int, str, int, int]:
    """Sort key for equal scores: source, recency, path, line, id.

    It makes the order depend on the store alone. Recency is the order in git's history, newest
    first. For files without recent commits, and without git, it is the day of the last change: a
    finer time would only show the order in which a checkout wrote the files.
    """
    doc = candidate.place.doc
    line = candidate.place.chunk.start_line
    age = recency.get(doc.path, len(recency))
    return (doc.source, age, -(doc.mtime_ns // DAY_NS), doc.path, line, candidate.place.chunk_id)


def _by_score(tied: Sequence[Candidate]) -> list[Candidate]:
    """Sort by score, best first; the sort is stable, so ties keep their order.

    Comparing a number takes a third of the time of comparing a tuple.
    """
    return sorted(tied, key=lambda candidate: -round(candidate.score, 4))


def _set_path_features(candidates: Sequence[Candidate], parsed: Parsed, weights: Weights) -> None:
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


def _total(candidate: Candidate, weights: Weights) -> float:
    # Coverage is squared: all of a query in one chunk is far more than half of it in each of two.
    return (
        candidate.words
        + candidate.beside
        + candidate.within
        + candidate.meaning
        + candidate.speaks
        + weights.coverage * candidate.covers * candidate.covers
        + weights.definition * candidate.defines
        + weights.joined * candidate.joins
        + weights.path * candidate.path
        + weights.stem * candidate.stem
        + weights.place * candidate.located
        + weights.entry * candidate.entry
        + weights.phrase * candidate.phrase
        + weights.coherence * candidate.coherence
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
