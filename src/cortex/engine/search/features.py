"""Features of the ranker: each function rates one kind of evidence for a candidate, 0 to 1.

Pure functions. The weights are in weights.py, the sum is in ranker.py. "Worth" is the nDCG@10
that is lost without a feature on the development sets semble / semble-full / cookbook-files /
cookbook-chunks, or, for kinds of queries that those don't have, the MRR@10 on queries that
bench/quality/generated_queries.py makes; bench/RESULTS.md has the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cortex.base.text import split_identifier, words_of
from cortex.base.types import TURN, Chunk
from cortex.engine.search.query_classes import Corpus
from cortex.engine.search.query_parser import Parsed
from cortex.engine.store import ChunkLocation

# Characters that two words must share to count as forms of one word.
HEAD = 4
# Extra weight of the cosine if no chunk contains any word of the query.
UNCOVERED = 6.0
# Share of a chunk's nearness that is taken from its whole file.
FILE_SHARE = 0.5
# Score of a turn that is spoken by a person the query names.
SPEAKER = 0.2
# Share of references in the score of a name that only begins with the query.
REFERENCE_SHARE = 0.5
ENTRY_STEMS = frozenset(
    "__init__ __main__ app application cli core index init lib main mod program server".split()
)
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
    """A chunk under consideration, with the evidence for it."""

    place: ChunkLocation
    # Lexical score, 0..1, as a share of the best match.
    words: float
    # Share of the query's weight that it contains, 0..1; rare words count more.
    covers: float = 0.0
    # Boost by the words of its neighbours, on the scale of `words`.
    beside: float = 0.0
    # Share of the query that it covers together with its neighbours, 0..1.
    covers_jointly: float = 0.0
    # Cosine of its vector and the query's, 0..1.
    near: float = 0.0
    # Score of the cosine.
    meaning: float = 0.0
    # How exactly it defines a name of the query, 0..1.
    defines: float = 0.0
    # The same for a name that joins neighbouring words of the query.
    joins: float = 0.0
    # The name that it defines.
    named: str = ""
    # Score of a turn by a person the query names.
    speaks: float = 0.0
    # 1 if the query names this file and line, 0.8 for the file alone.
    located: float = 0.0
    path: float = 0.0
    stem: float = 0.0
    entry: float = 0.0
    phrase: float = 0.0
    # Change of the score by `order_within`, which reorders the chunks of a file.
    within: float = 0.0
    coherence: float = 0.0
    # The next three are factors; `fresh` is below 1 for a near-duplicate of a better candidate.
    role: float = 1.0
    repeat: float = 1.0
    fresh: float = 1.0
    # Shares of its lexical and its semantic rank, where ranks are fused.
    ranks: tuple[float, float] | None = None
    score: float = 0.0
    relevance: float = 0.0


def definition_match(
    name: str, qualified: str, names: Sequence[str], wanted: Sequence[str]
) -> float:
    """Match of a definition with the names of a query.

    Less where the case or the qualification differs. Worth .018 / .021 / .028 / -.007.
    """
    strength = 1.0 if name in names else 0.6
    return (
        strength
        if not wanted or any(_ends(qualified, qualified_name) for qualified_name in wanted)
        else 0.5 * strength
    )


def prefix_match(name: str, prefix: str, references: int, most: int) -> float:
    """Match of a definition whose name begins with the query.

    Higher the more of the name the query has, and the more often the name is referenced. Worth .426
    for unfinished names, some .02 of it by the references. As evidence for every chunk, references
    were worth nothing.
    """
    referenced = math.log(1 + references) / math.log(2 + most)
    length_share = len(prefix) / max(1, len(name))
    return 0.5 * ((1 - REFERENCE_SHARE) * length_share + REFERENCE_SHARE * referenced)


def reexport(candidate: Candidate) -> float:
    """Score of a package's entry file that re-exports the one name that the query consists of.

    Worth .097 for such names if the entry file is the right answer; 0 / 0 / 0 / 0.
    """
    chunk = candidate.place.chunk
    return (
        0.3
        if chunk.kind == "block" and candidate.covers > 0.99 and entry(candidate.place.doc.path)
        else 0.0
    )


def path_share(path: str, keywords: Sequence[str]) -> float:
    """Share of the keywords in the file's name or folder, other forms of a word included.

    Worth .008 / .022 / 0 / 0.
    """
    if not keywords:
        return 0.0
    parts, heads = _path_words(path)
    matched = sum(
        1
        for word in keywords
        if word in parts or (word[:HEAD] in heads and _shares_beginning(word, parts))
    )
    return matched / len(keywords)


def stem_share(path: str, keywords: Sequence[str]) -> float:
    """1 if every word of the file's own name is a keyword: the file is about the query.

    Worth .008 / .019 / 0 / 0, most of it in one repository.
    """
    words = stem_words(path)
    return float(
        bool(words) and all(word in keywords or _shares_beginning(word, keywords) for word in words)
    )


def order_within(
    candidates: Sequence[Candidate], word_weights: Mapping[str, float], weight: float
) -> None:
    """Exchange the scores of a file's candidates, so that names like the query come first.

    The order of files stays the same. A name states what a chunk does, but across files a short
    name of common words would outrank the right one (-.024 on chunks of code as a field's weight).
    Worth 0 / 0 / .005 / 0, as almost every target is a whole file; .043 and .054 more functions are
    among the first three (bench/quality/functions.py).
    """
    shares = _NameShares(word_weights)
    files: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        files.setdefault(candidate.place.doc.id, []).append(candidate)
    for siblings in files.values():
        if len(siblings) > 1:
            scores = sorted((sibling.score for sibling in siblings), reverse=True)
            siblings.sort(
                key=lambda sibling: (
                    -(sibling.score + weight * shares.by(sibling.place.chunk.qualified))
                )
            )
            for sibling, score in zip(siblings, scores, strict=True):
                sibling.within = score - sibling.score
                sibling.score = score


class _NameShares:
    """Share of a query that a name contains; rare words count more, word forms match."""

    def __init__(self, word_weights: Mapping[str, float]) -> None:
        self._masses = word_weights
        self._whole = sum(word_weights.values()) or 1.0
        # Words by their first letters, a quick check that excludes most parts of names.
        self._heads: dict[str, list[str]] = {}
        for word in word_weights:
            self._heads.setdefault(word[:HEAD], []).append(word)

    def by(self, name: str) -> float:
        """Share of the query in this name; 1 is all of it."""
        words: set[str] = set()
        for part in name_words(name):
            for word in self._heads.get(part[:HEAD], ()):
                if word == part or _shares_beginning(word, (part,)):
                    words.add(word)
        return sum(self._masses[word] for word in sorted(words)) / self._whole if words else 0.0


def entry(path: str) -> float:
    """1 for the files in which a program or a package starts.

    Worth nothing measurable: the sets have two such questions, answered correctly without it.
    """
    return float(path.rpartition("/")[2].partition(".")[0].lower() in ENTRY_STEMS)


def phrase_share(words: Sequence[str], phrases: Iterable[Sequence[str]]) -> float:
    """Longest common run of words of a text and a phrase, as a share of the phrase.

    For several phrases the mean. Worth .171 for messages and quotes, nothing for the other classes.
    """
    spaced = f" {' '.join(words)} "
    shares = [_longest_run(spaced, phrase) / len(phrase) for phrase in phrases]
    return sum(shares) / len(shares) if shares else 0.0


def coherence(candidates: Sequence[Candidate]) -> list[tuple[Candidate, float]]:
    """Best candidate of each file, with the file's sum of scores relative to the highest sum.

    The first of equal candidates wins. Worth .031 / .032 / -.006 / .004; direct questions weigh it
    half as much.
    """
    best: dict[int, Candidate] = {}
    sums: dict[int, float] = {}
    for candidate in candidates:
        doc = candidate.place.doc.id
        sums[doc] = sums.get(doc, 0.0) + candidate.score
        if doc not in best or candidate.score > best[doc].score:
            best[doc] = candidate
    top = max(sums.values(), default=0.0)
    return [(candidate, sums[doc] / top) for doc, candidate in best.items()] if top > 0 else []


def nearness(chunk: float, file: float) -> float:
    """Nearness of a chunk to the query: half its own cosine, half that of its whole file.

    Worth .009 with the file, .002 without it (mean of the sets).
    """
    return max(0.0, (1 - FILE_SHARE) * chunk + FILE_SHARE * file)


def semantic_weight(weight: float, held: float) -> float:
    """Weight of the cosine, given the largest share of the query that any chunk contains.

    The less the words cover, the more it weighs. Worth 0 / .001 / .001 / .005, and .007 on
    conversations; questions that use none of the code's words depend on it.
    """
    return weight + UNCOVERED * (1 - held) ** 2


def is_found_by_name(candidates: Iterable[Candidate], parsed: Parsed) -> bool:
    """True if the query is one name and the code defines it, or names that begin with it.

    Cosines would only disturb that order. Worth .078 for unfinished names, -.005 for re-exported
    ones; 0 / 0 / 0 / 0.
    """
    return (
        parsed.is_name
        and parsed.corpus is Corpus.CODE
        and any(candidate.defines for candidate in candidates)
    )


def speaker(chunk: Chunk, parsed: Parsed) -> float:
    """Score of a turn of a conversation that is spoken by a person the query names.

    Worth .010 on turns of conversations (lexical recall@10; nDCG@10 .021), 0 elsewhere.
    """
    is_named = chunk.kind == TURN and any(word in parsed.people for word in words_of(chunk.name))
    return SPEAKER if is_named else 0.0


def role(name: str, asked: frozenset[str]) -> float:
    """Factor for the role of a file, unless the query asks for that role.

    Tests, examples, vendored, generated and translated files are ranked lower. Worth .007 / .050 /
    -.010 / -.003.
    """
    return 1.0 if not name or name in asked else ROLES.get(name, 1.0)


@lru_cache(maxsize=20_000)
def stem_words(path: str) -> tuple[str, ...]:
    """Words of a file's name without its extensions."""
    words = split_identifier(path.rpartition("/")[2].partition(".")[0])
    return words[1:] or words


@lru_cache(maxsize=20_000)
def name_words(name: str) -> tuple[str, ...]:
    """Words of a qualified name."""
    return tuple(dict.fromkeys(words_of(name)))


@lru_cache(maxsize=20_000)
def _path_words(path: str) -> tuple[frozenset[str], frozenset[str]]:
    """Words of a file's stem and folder, and the first letters of the longer ones."""
    parts = frozenset(words_of("/".join(path.rsplit(".", 1)[0].split("/")[-2:])))
    return parts, frozenset(part[:HEAD] for part in parts if len(part) >= HEAD)


def _shares_beginning(word: str, others: Iterable[str]) -> bool:
    if len(word) < HEAD:
        return False
    head = word[:HEAD]
    return any(
        other.startswith(head) and (other.startswith(word) or word.startswith(other))
        for other in others
    )


def _longest_run(spaced: str, phrase: Sequence[str]) -> int:
    best = start = 0
    for end in range(1, len(phrase) + 1):
        while start < end and f" {' '.join(phrase[start:end])} " not in spaced:
            start += 1
        best = max(best, end - start)
    return best


def _ends(qualified: str, wanted: str) -> bool:
    return ("." + qualified.lower()).endswith("." + wanted.lower())
