"""The rolling summary of a thread: its weightiest sentences, word by word, each with the id of the
comment that it is from.

Sentences are weighed by how much they say of what the thread is about, by words of decisions and
findings, and by how late they were said; small talk, questions and what was decided otherwise later
give way. Made anew on every comment. Knows no records and no store. Road not taken: a model that
writes a summary, for whatever it makes up would stand there as the team's word.
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
COMMENT_CHARACTERS = 20_000  # looked at of one comment
THREAD_CHARACTERS = 240_000  # looked at in all, the newest first
MOST_WEIGHED = 64  # sentences that are compared with one another
MOST_PER_COMMENT = 3
LEAST_SHARE = 0.3  # of the best sentence's weight; below it a summary is rather short than full
ALIKE = 0.6  # sentences that share this much say the same

# What a word is worth in a sentence, by what it announces; of each kind the strongest counts.
_DECIDES = {
    "decided": 1.0, "decision": 1.0, "decide": 0.6, "agreed": 0.6, "agree": 0.2, "conclusion": 1.0, "approved": 0.7, "accepted": 0.6,
    "rejected": 0.7, "chose": 0.8, "settled": 0.7, "adopt": 0.6, "adopted": 0.7, "must": 0.5, "postponed": 0.8, "postpone": 0.6,
    "drop": 0.3, "dropped": 0.5, "requires": 0.5, "required": 0.4, "breaking": 0.5, "deadline": 0.5, "final": 0.4, "instead": 0.4,
    "決定": 1.0, "决定": 1.0, "結論": 1.0, "结论": 1.0,
}  # fmt: skip
_FINDS = {
    "fixed": 0.8, "fix": 0.3, "reverted": 0.8, "resolved": 0.7, "merged": 0.4, "released": 0.5, "shipped": 0.6, "deployed": 0.4,
    "mitigated": 0.7, "rolled": 0.4, "culprit": 0.9, "cause": 0.5, "caused": 0.7, "reproduced": 0.7, "confirmed": 0.6, "verified": 0.6,
    "measured": 0.6, "compared": 0.5, "benchmarked": 0.6, "workaround": 0.7, "found": 0.3, "explains": 0.4, "regression": 0.5,
    "blocked": 0.8, "blocks": 0.5, "blocker": 0.7, "indeed": 0.3, "原因": 0.9, "修正": 0.7, "修复": 0.7,
}  # fmt: skip
_REASONS = {
    "because": 0.5, "so": 0.2, "since": 0.2, "therefore": 0.4, "hence": 0.3, "otherwise": 0.2, "cannot": 0.2, "only": 0.1,
    "never": 0.2, "until": 0.2, "owns": 0.3, "因为": 0.5,
}  # fmt: skip
_DOUBTS = frozenset(
    "maybe perhaps guess wonder wondering might could would unsure hm hmm probably thought idea wish".split()
)
# The word that they are looked for by, the phrase, what it is worth
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
    r"\b(?:decided|decision|agreed|go(?:ing)? (?:with|for)|we (?:will|go|use|move|keep|take)|we'll|let's|i'd|should|propos\w+|suggest\w*|wish)\b",
    re.IGNORECASE,
)
_RETRACTS = re.compile(
    r"\b(?:instead|new decision|change[ds]? (?:the|my|our) (?:decision|mind)|scrap that|no longer|revers(?:e|ed|ing)"
    r"|we move|after all|take (?:that|it) back|overrul\w+|supersede[sd]?|moved? to)\b",
    re.IGNORECASE,
)
_SMALL_TALK = re.compile(
    r"(?:\W|\+\d)*(?:hi|hello|hey|thanks?|thx|ty|cheers|good (?:morning|evening|idea|point|catch|find|news)|lgtm|nice|great|awesome|cool|wow|ouch|oh no"
    r"|sounds good|looks? good|works for me|fine (?:with|by) me|fine|will do|congrat\w*|welcome|sorry|ping|bump|me (?:too|neither)"
    r"|same here|saw that too|happy|no worries|np|ok(?:ay)?|sure|yes please|done|looking|happens|i like)\b",
    re.IGNORECASE,
)
_WEIGHTY_HEADINGS = re.compile(
    r"\b(?:decisions?|decided|root cause|resolution|conclusions?|outcome|summary|tl;?dr|findings?|results?|fix|next steps|action items)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"\d\s?(?:%|ms|s|sec\w*|min\w*|hours?|days?|weeks?|[kmgt]i?b|x|times|rows|runs)\b|\d\s?%|\d,\d{3}|\bv?\d+\.\d+"
)
_DIGIT = re.compile(r"[0-9]")
# As a summary cites: nobody else may seem to be cited
_CITED = re.compile(r"[ \t]?\[[a-z]{3,10}_[0-9a-z]{1,40}\]", re.IGNORECASE)
_EMBEDS = ("<!--", "![", "](")  # what a page would carry out or hide


@dataclass(frozen=True, slots=True)
class Said:
    """What one person said in a thread: its body, or a comment."""

    id: str
    author: str
    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The sentences, a line each, and the ids that they are from, in the order they were said."""

    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence that may stand in the summary."""

    place: int  # of its comment
    order: int  # of the sentence in the whole thread
    line: str
    stems: frozenset[str]
    weight: float
    # What is left of an earlier sentence that says the contrary; 1 where nothing is taken back
    retracts: float
    proposes: bool  # or decides: what a later one may take back


def summarize(title: str, said: Sequence[Said]) -> Summary:
    """The thread in at most 1,200 characters: `- sentence [id]` in the order they were said."""
    spoken = _looked_at(sorted(said, key=lambda one: one.at_ms))
    chosen = _choose(_weigh(title, spoken), SUMMARY_CHARACTERS)
    chosen.sort(key=lambda one: one.order)
    sources = dict.fromkeys(spoken[one.place].id for one in chosen)
    return Summary("\n".join(one.line for one in chosen), tuple(sources))


def _looked_at(said: list[Said]) -> list[Said]:
    """The body and the newest comments, as many as are read in the time there is."""
    left = THREAD_CHARACTERS
    kept: list[Said] = []
    for one in [*said[:1], *reversed(said[1:])]:
        text = one.text[: min(COMMENT_CHARACTERS, left)]
        left -= len(text)
        if not text:
            break
        kept.append(Said(one.id, one.author, one.at_ms, text))
    return [*kept[:1], *reversed(kept[1:])]


def _weigh(title: str, spoken: list[Said]) -> list[_Candidate]:
    """The sentences that say something, the weightiest first, as many as are worth comparing."""
    about = frozenset(stems_of(title))
    found: list[tuple[int, str, frozenset[str], float]] = []
    mentions: Counter[str] = Counter(about)
    for place, one in enumerate(spoken):
        met: set[str] = set()
        for sentence in sentences_of(one.text):
            words = identifiers_of(sentence.text)
            stems = frozenset(chain.from_iterable(map(stems_of_identifier, words)))
            met |= stems
            announced = _announced(sentence.text, words, stems)
            if announced is None or (stems <= about and announced < 0.5):
                continue
            if sentence.heading and _WEIGHTY_HEADINGS.search(sentence.heading):
                announced += 0.6
            found.append((place, sentence.text, stems, announced))
        mentions.update(met)
    worth = {
        word: math.log2(1 + count) * (2.0 if word in about else 1.0)
        for word, count in mentions.items()
    }
    central = [sum(map(worth.__getitem__, stems)) / (4 + len(stems)) for _, _, stems, _ in found]
    most = max(central, default=0.0) or 1.0
    latest = max(len(spoken) - 1, 1)
    weights = [
        (0.9 * said / most + announced) * (0.8 + 0.5 * place / latest)
        for said, (place, _, _, announced) in zip(central, found, strict=True)
    ]
    ids = frozenset(one.id for one in spoken)
    best = sorted(range(len(found)), key=lambda order: (-weights[order], -order))
    honest = islice((order for order in best if not _poses(found[order][1], ids)), MOST_WEIGHED)
    return [_candidate(order, found[order], spoken, weights[order]) for order in honest]


def _candidate(
    order: int, found: tuple[int, str, frozenset[str], float], spoken: list[Said], weight: float
) -> _Candidate:
    """A sentence as it would stand in the summary."""
    place, text, stems, announced = found
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


def _announced(sentence: str, identifiers: list[str], stems: frozenset[str]) -> float | None:
    """What a sentence's words of decisions and findings are worth, less for questions and doubts;
    None for small talk.
    """
    if len(stems) < 2:
        return None
    words = set(map(str.lower, identifiers))
    if not sentence.isascii():
        words |= stems  # where words aren't parted by blanks
    lower = sentence.lower()
    worth = _worth_of_cues(words, lower)
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


def _worth_of_cues(words: set[str], lower: str) -> float:
    """Of each kind of cue the strongest."""
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


def _poses(sentence: str, ids: frozenset[str]) -> bool:
    """Whether a sentence carries what would be taken for more than its words: a source, a picture,
    something hidden.
    """
    if any(mark in sentence for mark in _EMBEDS) or _CITED.search(sentence):
        return True
    return "[" in sentence and any(
        part.partition("]")[0] in ids for part in sentence.split("[")[1:]
    )


def _choose(candidates: list[_Candidate], room: int) -> list[_Candidate]:
    """The weightiest that fit, each weighed again by how much of it has been said by those before."""
    weights = {candidate.order: _retracted(candidate, candidates) for candidate in candidates}
    left = list(candidates)
    chosen: list[_Candidate] = []
    least = LEAST_SHARE * max(weights.values(), default=0.0)
    per_comment: Counter[int] = Counter()
    nearest = dict.fromkeys(weights, 0.0)
    while left:
        best = max(left, key=lambda one: (weights[one.order] * (1 - nearest[one.order]), one.order))
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
        for one in left:
            nearest[one.order] = max(nearest[one.order], _likeness(one.stems, best.stems))
    return chosen


def _retracted(one: _Candidate, candidates: list[_Candidate]) -> float:
    """A sentence's weight, less where a later comment takes back what it says."""
    left = 1.0
    for other in candidates:
        if one.proposes and other.retracts < left and other.place > one.place:
            shared = len(other.stems & one.stems)
            if shared > 1 and shared * 4 >= min(len(one.stems), len(other.stems)):
                left = other.retracts
    return one.weight * left


def _likeness(left: frozenset[str], right: frozenset[str]) -> float:
    """How much two sentences share, between none and one."""
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared) if shared else 0.0
