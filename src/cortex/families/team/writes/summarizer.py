"""Extractive summary of a thread: its most relevant sentences, verbatim, with their ids.

Sentences are scored by the words they share with the thread, by cue words of decisions and
findings, and by age; small talk, questions and retracted proposals score less. Recomputed on every
comment. Knows nothing about records or the store. Road not taken: a generated summary, since its
inventions would be read as the team's statements.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice

from cortex.base.text import identifiers_of
from cortex.families.team.sentences import cut, sentences_of, stems_of, stems_of_identifier

SUMMARY_CHARACTERS = 1_200
# Read of each comment.
COMMENT_CHARACTERS = 20_000
# Read in all, newest first.
THREAD_CHARACTERS = 240_000
# Sentences that are compared with one another.
MOST_WEIGHED = 64
MOST_PER_COMMENT = 3
# Share of the best score below which a sentence is left out: a short summary is better than filler.
LEAST_SHARE = 0.3
# Similarity from which two sentences count as the same.
ALIKE = 0.6

# Weights of cue words; of each group the strongest counts.
_DECIDES = {
    "decided": 1.0, "decision": 1.0, "decide": 0.6, "agreed": 0.6, "agree": 0.2, "conclusion": 1.0,
    "approved": 0.7, "accepted": 0.6, "rejected": 0.7, "chose": 0.8, "settled": 0.7, "adopt": 0.6,
    "adopted": 0.7, "must": 0.5, "postponed": 0.8, "postpone": 0.6, "drop": 0.3, "dropped": 0.5,
    "requires": 0.5, "required": 0.4, "breaking": 0.5, "deadline": 0.5, "final": 0.4,
    "instead": 0.4, "決定": 1.0, "决定": 1.0, "結論": 1.0, "结论": 1.0,
}  # fmt: skip
_FINDS = {
    "fixed": 0.8, "fix": 0.3, "reverted": 0.8, "resolved": 0.7, "merged": 0.4, "released": 0.5,
    "shipped": 0.6, "deployed": 0.4, "mitigated": 0.7, "rolled": 0.4, "culprit": 0.9, "cause": 0.5,
    "caused": 0.7, "reproduced": 0.7, "confirmed": 0.6, "verified": 0.6, "measured": 0.6,
    "compared": 0.5, "benchmarked": 0.6, "workaround": 0.7, "found": 0.3, "explains": 0.4,
    "regression": 0.5, "blocked": 0.8, "blocks": 0.5, "blocker": 0.7, "indeed": 0.3, "原因": 0.9,
    "修正": 0.7, "修复": 0.7,
}  # fmt: skip
_REASONS = {
    "because": 0.5, "so": 0.2, "since": 0.2, "therefore": 0.4, "hence": 0.3, "otherwise": 0.2,
    "cannot": 0.2, "only": 0.1, "never": 0.2, "until": 0.2, "owns": 0.3, "因为": 0.5,
}  # fmt: skip
_DOUBTS = frozenset(
    "maybe perhaps guess wonder wondering might could would unsure hm hmm probably thought idea "
    "wish".split()
)
# Key word to look up, phrase, weight.
_PHRASES: tuple[tuple[str, str, float], ...] = (
    ("root", "root cause", 1.2),
    ("let", "let's ", 0.4),
    ("live", " live ", 0.4),
    ("we", "we will ", 0.7),
    ("we", "we'll ", 0.5),
    ("we", "we keep ", 0.4),
    ("we", "we move ", 0.6),
    ("we", "we use ", 0.4),
    ("we", "we go with ", 0.6),
    ("going", "going with ", 0.6),
    ("turned", "turned out", 0.8),
    ("turns", "turns out", 0.8),
    ("it", "it was the ", 0.5),
    ("back", "is back to ", 0.6),
    ("out", " is out", 0.4),
    ("out", " are out", 0.4),
    ("longer", "no longer", 0.5),
    ("action", "action item", 0.7),
    ("tl", "tl;dr", 0.8),
)
_CUES = (_DECIDES, _FINDS, _REASONS)
_CUE_WORDS = frozenset(chain(*_CUES, (word for word, _, _ in _PHRASES)))
_PROPOSES = re.compile(
    r"\b(?:decided|decision|agreed|go(?:ing)? (?:with|for)|we (?:will|go|use|move|keep|take)"
    r"|we'll|let's|i'd|should|propos\w+|suggest\w*|wish)\b",
    re.IGNORECASE,
)
_RETRACTS = re.compile(
    r"\b(?:instead|new decision|change[ds]? (?:the|my|our) (?:decision|mind)|scrap that|no longer"
    r"|revers(?:e|ed|ing)"
    r"|we move|after all|take (?:that|it) back|overrul\w+|supersede[sd]?|moved? to)\b",
    re.IGNORECASE,
)
_SMALL_TALK = re.compile(
    r"(?:\W|\+\d)*(?:hi|hello|hey|thanks?|thx|ty|cheers|good (?:morning|evening|idea|point|catch"
    r"|find|news)|lgtm|nice|great|awesome|cool|wow|ouch|oh no"
    r"|sounds good|looks? good|works for me|fine (?:with|by) me|fine|will do|congrat\w*|welcome"
    r"|sorry|ping|bump|me (?:too|neither)"
    r"|same here|saw that too|happy|no worries|np|ok(?:ay)?|sure|yes please|done|looking|happens"
    r"|i like)\b",
    re.IGNORECASE,
)
_WEIGHTY_HEADINGS = re.compile(
    r"\b(?:decisions?|decided|root cause|resolution|conclusions?|outcome|summary|tl;?dr|findings?"
    r"|results?|fix|next steps|action items)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"\d\s?(?:%|ms|s|sec\w*|min\w*|hours?|days?|weeks?|[kmgt]i?b|x|times|rows|runs)\b|\d\s?%"
    r"|\d,\d{3}|\bv?\d+\.\d+"
)
_DIGIT = re.compile(r"[0-9]")
# The format of a summary's own citations, which no quoted sentence may imitate.
_CITED = re.compile(r"[ \t]?\[[a-z]{3,10}_[0-9a-z]{1,40}\]", re.IGNORECASE)
# Markup that a rendered page would hide or load.
_EMBEDS = ("<!--", "![", "](")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in a thread: its body, or a comment."""

    id: str
    author: str
    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Selected sentences, one per line, and the ids of their sources, both in thread order."""

    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence that may be part of the summary."""

    # Index of its comment.
    place: int
    # Index of the sentence in the whole thread.
    order: int
    line: str
    stems: frozenset[str]
    weight: float
    # Factor for earlier sentences that this one retracts; 1 if it retracts none.
    retracts: float
    # A proposal or decision, which a later sentence may retract.
    proposes: bool


def summarize(title: str, statements: Sequence[Statement]) -> Summary:
    """Summarize a thread in at most 1,200 characters: `- sentence [id]` in thread order."""
    spoken = _limit_text(sorted(statements, key=lambda statement: statement.at_ms))
    chosen = _choose(_score_sentences(title, spoken), SUMMARY_CHARACTERS)
    chosen.sort(key=lambda candidate: candidate.order)
    sources = dict.fromkeys(spoken[candidate.place].id for candidate in chosen)
    return Summary("\n".join(candidate.line for candidate in chosen), tuple(sources))


def _limit_text(statements: list[Statement]) -> list[Statement]:
    """Return the body and the newest comments, up to the character limits."""
    left = THREAD_CHARACTERS
    kept: list[Statement] = []
    for statement in [*statements[:1], *reversed(statements[1:])]:
        text = statement.text[: min(COMMENT_CHARACTERS, left)]
        left -= len(text)
        if not text:
            break
        kept.append(Statement(statement.id, statement.author, statement.at_ms, text))
    return [*kept[:1], *reversed(kept[1:])]


def _score_sentences(title: str, spoken: list[Statement]) -> list[_Candidate]:
    """Return the sentences with content, best first, as many as are compared."""
    about = frozenset(stems_of(title))
    sentences: list[tuple[int, str, frozenset[str], float]] = []
    mentions: Counter[str] = Counter(about)
    for place, statement in enumerate(spoken):
        met: set[str] = set()
        for sentence in sentences_of(statement.text):
            words = identifiers_of(sentence.text)
            stems = frozenset(chain.from_iterable(map(stems_of_identifier, words)))
            met |= stems
            announced = _score_cues(sentence.text, words, stems)
            if announced is None or (stems <= about and announced < 0.5):
                continue
            if sentence.heading and _WEIGHTY_HEADINGS.search(sentence.heading):
                announced += 0.6
            sentences.append((place, sentence.text, stems, announced))
        mentions.update(met)
    worth = {
        word: math.log2(1 + count) * (2.0 if word in about else 1.0)
        for word, count in mentions.items()
    }
    central = [
        sum(map(worth.__getitem__, stems)) / (4 + len(stems)) for _, _, stems, _ in sentences
    ]
    most = max(central, default=0.0) or 1.0
    latest = max(len(spoken) - 1, 1)
    weights = [
        (0.9 * relevance / most + announced) * (0.8 + 0.5 * place / latest)
        for relevance, (place, _, _, announced) in zip(central, sentences, strict=True)
    ]
    ids = frozenset(statement.id for statement in spoken)
    best = sorted(range(len(sentences)), key=lambda order: (-weights[order], -order))
    usable = islice(
        (order for order in best if not _is_misleading(sentences[order][1], ids)), MOST_WEIGHED
    )
    return [_candidate(order, sentences[order], spoken, weights[order]) for order in usable]


def _candidate(
    order: int,
    scored: tuple[int, str, frozenset[str], float],
    spoken: list[Statement],
    weight: float,
) -> _Candidate:
    """Build the candidate for a sentence."""
    place, text, stems, announced = scored
    left = 1.0
    if _RETRACTS.search(text):
        left = 0.2 if announced >= 1.0 else 0.7
    return _Candidate(
        place,
        order,
        f"- {cut(text)} [{spoken[place].id}]",
        stems,
        weight,
        left,
        bool(_PROPOSES.search(text)),
    )


def _score_cues(sentence: str, identifiers: list[str], stems: frozenset[str]) -> float | None:
    """Score the cue words of a sentence, less for questions and doubts; None for small talk."""
    if len(stems) < 2:
        return None
    words = set(map(str.lower, identifiers))
    if not sentence.isascii():
        # Languages that don't separate words by spaces.
        words |= stems
    lower = sentence.lower()
    worth = _score_cue_words(words, lower)
    if _SMALL_TALK.match(sentence) and (worth < 0.6 or len(stems) < 4):
        return None
    if "`" in sentence:
        worth += 0.2
    if _DIGIT.search(lower) and _QUANTITY.search(lower):
        worth += 0.35
    if sentence.rstrip("!\"')*_").endswith("?"):
        worth = worth * 0.3 - 0.4
    if not words.isdisjoint(_DOUBTS) or "i'd " in lower:
        worth = worth * 0.6 - 0.2
    return worth if len(stems) > 3 else worth - 0.3


def _score_cue_words(words: set[str], lower: str) -> float:
    """Sum up the strongest cue of each group."""
    if words.isdisjoint(_CUE_WORDS):
        return 0.0
    worth = max(
        (value for word, phrase, value in _PHRASES if word in words and phrase in lower),
        default=0.0,
    )
    for cues in _CUES:
        met = words & cues.keys()
        if met:
            worth += max(map(cues.__getitem__, met))
    return worth


def _is_misleading(sentence: str, ids: frozenset[str]) -> bool:
    """True for a sentence that could pass for a citation, or embeds an image or hidden text."""
    if any(mark in sentence for mark in _EMBEDS) or _CITED.search(sentence):
        return True
    return "[" in sentence and any(
        part.partition("]")[0] in ids for part in sentence.split("[")[1:]
    )


def _choose(candidates: list[_Candidate], room: int) -> list[_Candidate]:
    """Select the best candidates that fit, discounting those similar to selected ones."""
    weights = {
        candidate.order: _weight_after_retraction(candidate, candidates) for candidate in candidates
    }
    left = list(candidates)
    chosen: list[_Candidate] = []
    least = LEAST_SHARE * max(weights.values(), default=0.0)
    per_comment: Counter[int] = Counter()
    nearest = dict.fromkeys(weights, 0.0)
    while left:
        best = max(
            left,
            key=lambda candidate: (
                weights[candidate.order] * (1 - nearest[candidate.order]),
                candidate.order,
            ),
        )
        left.remove(best)
        if weights[best.order] * (1 - nearest[best.order]) < least or weights[best.order] <= 0:
            break
        if (
            nearest[best.order] >= ALIKE
            or len(best.line) > room
            or per_comment[best.place] >= MOST_PER_COMMENT
        ):
            continue
        chosen.append(best)
        room -= len(best.line) + 1
        per_comment[best.place] += 1
        for candidate in left:
            nearest[candidate.order] = max(
                nearest[candidate.order], _similarity(candidate.stems, best.stems)
            )
    return chosen


def _weight_after_retraction(candidate: _Candidate, candidates: list[_Candidate]) -> float:
    """Return a candidate's weight, reduced if a later comment retracts it."""
    left = 1.0
    for other in candidates:
        if candidate.proposes and other.retracts < left and other.place > candidate.place:
            shared = len(other.stems & candidate.stems)
            if shared > 1 and shared * 4 >= min(len(candidate.stems), len(other.stems)):
                left = other.retracts
    return candidate.weight * left


def _similarity(left: frozenset[str], right: frozenset[str]) -> float:
    """Jaccard similarity of two sets of stems."""
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared) if shared else 0.0
