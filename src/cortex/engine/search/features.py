"""The rules of the ranker: each looks at a candidate and says how strong one kind of evidence is, 0
to 1.

Pure functions; what a kind of evidence weighs is in classes.py, how they come together in rank.py.
Worth is the nDCG@10 that is lost without a rule on the development sets semble / semble-full /
cookbook-files / cookbook-chunks, or, for kinds of queries that those don't have, the MRR@10 on
queries that bench/made.py makes; bench/RESULTS.md has the intervals.
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

HEAD = 4  # characters that two words must share to count as forms of one
UNSAID = 6.0  # what nearness weighs more for a query of which nothing stands anywhere
FILE_SHARE = 0.5  # of a chunk's nearness that is its file's
SPEAKER = 0.2  # what it counts that one of those speaks whom a query names
SPOKEN = 0.5  # what being spoken of counts for a name that was only begun
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
    """A place under consideration, with the evidence for it."""

    place: ChunkLocation
    words: float  # 0..1, share of the best word match
    # 0..1, share of the query's weight that stands in it, rare words counting more
    covers: float = 0.0
    # What its neighbours say of the query and it doesn't, in the measure of `words`
    beside: float = 0.0
    told: float = 0.0  # 0..1, what it covers together with them
    near: float = 0.0  # 0..1, cosine of its vector and the query's
    meaning: float = 0.0  # what that counts for
    defines: float = 0.0  # 0..1, how exactly it defines a name of the query
    joins: float = 0.0  # the same for a name that words of the query make
    named: str = ""  # what it defines of that
    speaks: float = 0.0  # what it counts that somebody speaks whom the query names
    located: float = 0.0  # the query names this file; 1 with the line
    path: float = 0.0
    stem: float = 0.0
    entry: float = 0.0
    phrase: float = 0.0
    within: float = 0.0  # what its place among the chunks of its file adds or takes away
    coherence: float = 0.0
    role: float = 1.0  # factors
    repeat: float = 1.0
    fresh: float = 1.0  # below 1 where it says again what a better one says
    # What its places by words and by meaning add, where ranks are fused
    ranks: tuple[float, float] | None = None
    score: float = 0.0
    relevance: float = 0.0


def definition(name: str, qualified: str, names: Sequence[str], wanted: Sequence[str]) -> float:
    """How well a definition answers to the names of a query: less where the case or the
    qualification differs.

    Worth .018 / .021 / .028 / -.007.
    """
    strength = 1.0 if name in names else 0.6
    return (
        strength if not wanted or any(_ends(qualified, one) for one in wanted) else 0.5 * strength
    )


def beginning(name: str, prefix: str, references: int, most: int) -> float:
    """A definition whose name only begins with the query's: better the less is missing, and the
    more others speak of it.

    Worth .426 for begun names, of which how often others say them some .02. As evidence for every
    chunk that was worth nothing.
    """
    spoken = math.log(1 + references) / math.log(2 + most)
    return 0.5 * ((1 - SPOKEN) * len(prefix) / max(1, len(name)) + SPOKEN * spoken)


def reexport(candidate: Candidate) -> float:
    """The list of names in a package's first file that passes a name on, where a query is nothing
    but that name.

    Worth .097 for such names where that list is what was looked for; 0 / 0 / 0 / 0.
    """
    chunk = candidate.place.chunk
    return (
        0.3
        if chunk.kind == "block" and candidate.covers > 0.99 and entry(candidate.place.doc.path)
        else 0.0
    )


def path_share(path: str, keywords: Sequence[str]) -> float:
    """The share of the keywords that stand in the file's name or folder, other forms of a word
    included.

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
    """1 where every word of the file's own name is a keyword: the file says that it is about that.

    Worth .008 / .019 / 0 / 0, most of it in one repository.
    """
    words = stem_words(path)
    return float(
        bool(words) and all(word in keywords or _shares_beginning(word, keywords) for word in words)
    )


def order_within(
    candidates: Sequence[Candidate], masses: Mapping[str, float], weight: float
) -> None:
    """Which chunk stands for its file: the scores of a file's candidates are given out anew among
    them, by score and what their names say.

    So no file comes before another because of it. A name is what somebody chose to say what a chunk
    does; but across files a short name of usual words outdoes what was meant (-.024 on pieces of
    code as a field's weight). Worth 0 / 0 / .005 / 0, where almost every target is a whole file;
    .043 and .054 more functions are among the first three (bench/functions.py).
    """
    said = _Said(masses)
    files: dict[int, list[Candidate]] = {}
    for one in candidates:
        files.setdefault(one.place.doc.id, []).append(one)
    for several in files.values():
        if len(several) > 1:
            scores = sorted((one.score for one in several), reverse=True)
            several.sort(key=lambda one: -(one.score + weight * said.by(one.place.chunk.qualified)))
            for one, score in zip(several, scores, strict=True):
                one.within = score - one.score
                one.score = score


class _Said:
    """How much of a query a name says, rare words counting more, other forms of a word included: 1
    is all of it.
    """

    def __init__(self, masses: Mapping[str, float]) -> None:
        self._masses = masses
        self._whole = sum(masses.values()) or 1.0
        # Words by how they begin: most parts of names are ruled out at once
        self._heads: dict[str, list[str]] = {}
        for word in masses:
            self._heads.setdefault(word[:HEAD], []).append(word)

    def by(self, name: str) -> float:
        """The share that this name says."""
        words: set[str] = set()
        for part in name_words(name):
            for word in self._heads.get(part[:HEAD], ()):
                if word == part or _shares_beginning(word, (part,)):
                    words.add(word)
        return sum(self._masses[word] for word in sorted(words)) / self._whole if words else 0.0


def entry(path: str) -> float:
    """1 for files in which a program or a package begins.

    Worth nothing measurable: two such questions in the sets, which are right without.
    """
    return float(path.rpartition("/")[2].partition(".")[0].lower() in ENTRY_STEMS)


def phrase_share(words: Sequence[str], phrases: Iterable[Sequence[str]]) -> float:
    """The longest run of words that a text has in common with a phrase, as share of the phrase; for
    several phrases their mean.

    Worth .171 for messages and quotes; for every class it was worth nothing.
    """
    spaced = f" {' '.join(words)} "
    shares = [_longest_run(spaced, phrase) / len(phrase) for phrase in phrases]
    return sum(shares) / len(shares) if shares else 0.0


def coherence(candidates: Sequence[Candidate]) -> list[tuple[Candidate, float]]:
    """Each file's best candidate, the first of equal ones, with the file's share of the most that
    any file's candidates have.

    Worth .031 / .032 / -.006 / .004; direct questions lean on it half as much.
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
    """How near a chunk is to the query by meaning: half its own cosine, half that of its file as a
    whole.

    Worth .009 with the file, .002 without it (mean of the sets).
    """
    return max(0.0, (1 - FILE_SHARE) * chunk + FILE_SHARE * file)


def turn_to_meaning(weight: float, held: float) -> float:
    """What nearness weighs where no chunk holds more than this share of the query: the less its
    words say, the more.

    Worth 0 / .001 / .001 / .005, and .007 on conversations; a question in other words than the
    code's depends on it.
    """
    return weight + UNSAID * (1 - held) ** 2


def is_found_by_name(found: Iterable[Candidate], parsed: Parsed) -> bool:
    """Whether code defines the one name that a query is, or names that begin so: nearness would
    only stir what is found.

    Worth .078 for begun names, -.005 for names passed on; 0 / 0 / 0 / 0.
    """
    return parsed.is_name and parsed.corpus is Corpus.CODE and any(one.defines for one in found)


def speaker(chunk: Chunk, parsed: Parsed) -> float:
    """What it counts that a turn of a conversation is of somebody whom the query names.

    Worth .010 on turns of conversations (recall@10 by words; nDCG@10 .021), 0 elsewhere.
    """
    said = chunk.kind == TURN and any(word in parsed.people for word in words_of(chunk.name))
    return SPEAKER if said else 0.0


def role(name: str, asked: frozenset[str]) -> float:
    """Tests, examples, vendored, generated and translated files stand behind, unless the query asks
    for them.

    Worth .007 / .050 / -.010 / -.003.
    """
    return 1.0 if not name or name in asked else ROLES.get(name, 1.0)


@lru_cache(maxsize=20_000)
def stem_words(path: str) -> tuple[str, ...]:
    """The words of a file's name without its extensions."""
    words = split_identifier(path.rpartition("/")[2].partition(".")[0])
    return words[1:] or words


@lru_cache(maxsize=20_000)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a name and of what it is in."""
    return tuple(dict.fromkeys(words_of(name)))


@lru_cache(maxsize=20_000)
def _path_words(path: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a file's stem and of the folder it is in; and how the longer ones begin, to rule
    most out at once.
    """
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
