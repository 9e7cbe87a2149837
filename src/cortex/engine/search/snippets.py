"""Snippets: neighbouring chunks joined into one hit, cut to the lines that matter.

A hit's lines are those of all of its chunks. Its text is the declaration of the best chunk and the
lines with most of the query; "… 75:" means that lines were left out and it goes on at line 75. Road
not taken: single lines from all over a function, which cost the same and are unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortex.engine.search.features import Candidate

# Candidates that may be joined to a better one.
MERGE_DEPTH = 60
# Most lines of a joined hit: about what an editor shows at once.
MERGED_LINES = 60
# Most lines between neighbours.
MERGE_GAP = 2
# Characters of the mark that says where the text goes on.
GAP = 10
# Least room for a window, in characters.
MIN_WINDOW = 40
# Bonus for lines right after the declaration: about a fifth of a rare word.
FOLLOWS = 1.0
# Share of a word's weight for each line that repeats it.
REPEATED = 0.05
_WORD = re.compile(r"\w\w")


@dataclass(slots=True)
class SnippetGroup:
    """Neighbouring chunks of one file, led by the best of them."""

    best: Candidate
    chunks: list[Candidate]
    start_line: int
    end_line: int


def merge(ranked: Sequence[Candidate], most: int) -> tuple[list[SnippetGroup], int]:
    """Join neighbouring candidates of a file into groups, in the order of their best.

    Returns the first `most` groups and the number of all groups. Only the best MERGE_DEPTH
    candidates are joined.
    """
    near: dict[int, list[Candidate]] = {}
    for candidate in ranked[:MERGE_DEPTH]:
        near.setdefault(candidate.place.doc.id, []).append(candidate)
    taken: set[tuple[int, int]] = set()
    groups: list[SnippetGroup] = []
    for candidate in ranked[:MERGE_DEPTH]:
        place = candidate.place
        if (place.doc.id, place.chunk_id) in taken:
            continue
        taken.add((place.doc.id, place.chunk_id))
        groups.append(_alone(candidate))
        if len(near[place.doc.id]) > 1:
            _grow(groups[-1], near[place.doc.id], taken)
    rest = ranked[MERGE_DEPTH:]
    total = len(groups) + len(rest)
    groups.extend(_alone(candidate) for candidate in rest[: max(0, most - len(groups))])
    return groups[:most], total


def _alone(candidate: Candidate) -> SnippetGroup:
    chunk = candidate.place.chunk
    return SnippetGroup(candidate, [candidate], chunk.start_line, chunk.end_line)


def _grow(group: SnippetGroup, others: Sequence[Candidate], taken: set[tuple[int, int]]) -> None:
    grown = True
    while grown:
        grown = False
        for other in others:
            chunk, key = other.place.chunk, (other.place.doc.id, other.place.chunk_id)
            start, end = (
                min(group.start_line, chunk.start_line),
                max(group.end_line, chunk.end_line),
            )
            touches = (
                chunk.start_line <= group.end_line + MERGE_GAP
                and chunk.end_line >= group.start_line - MERGE_GAP
            )
            if key not in taken and touches and end - start < MERGED_LINES:
                taken.add(key)
                group.chunks.append(other)
                group.start_line, group.end_line, grown = start, end, True


def cut_snippet(
    lines: Sequence[str],
    first: int,
    word_weights: Mapping[str, float],
    opening: int,
    characters: int,
) -> tuple[str, tuple[int, ...]]:
    """Cut a text to its opening line and the best run of lines, within `characters`.

    Returns the text and the numbers of its lines. `lines` begin at line number `first`, `opening`
    is a line number, too, and `word_weights` are the weights of the query's stems.
    """
    opener = min(max(0, opening - first), len(lines) - 1)
    room = characters - len(lines[opener]) - GAP
    # A single long line.
    if room < MIN_WINDOW:
        return _render({opener: _around(lines[opener], word_weights, characters)}, first)
    start, end = _best_window(lines, opener, word_weights, room)
    while end > start + 1 and not _WORD.search(lines[end - 1]):
        end -= 1
    shown = {index: lines[index].rstrip() for index in sorted({opener, *range(start, end)})}
    # A single long line again.
    if start != opener and len(shown[start]) > room:
        shown[start] = _around(shown[start], word_weights, room)
    return _render(shown, first)


def opening_of(lines: Sequence[str], first: int, start_line: int, signature: str) -> int:
    """Number of the line that declares a chunk; comments may come before it."""
    begin = signature.split("\n", 1)[0][:40].strip()
    start = max(0, start_line - first)
    for index in range(start, len(lines)):
        if begin and lines[index].lstrip().startswith(begin):
            return first + index
    return next(
        (first + index for index in range(start, len(lines)) if _WORD.search(lines[index])),
        start_line,
    )


def _best_window(
    lines: Sequence[str], opener: int, word_weights: Mapping[str, float], room: int
) -> tuple[int, int]:
    """Run of lines within `room` with the largest weight of words; the earliest of equals."""
    words_by_line = [
        frozenset(word for word in word_weights if word in line) for line in map(str.lower, lines)
    ]
    best, best_weight = (opener, _end_of(lines, opener, room)), 0.0
    end, left = 0, room
    for start in range(len(lines)):
        while end < len(lines) and (left >= len(lines[end]) + 1 or end == start):
            left -= len(lines[end]) + 1
            end += 1
        left += len(lines[start]) + 1
        # Lines that end before the declaration belong to another one.
        if not words_by_line[start] or end <= opener:
            continue
        words = frozenset[str]().union(*words_by_line[start:end])
        weight = sum(word_weights[word] for word in words) + REPEATED * sum(
            map(len, words_by_line[start:end])
        )
        weight += FOLLOWS * (opener <= start <= opener + 1)
        if weight > best_weight:
            best, best_weight = (start, end), weight
    return best


def _end_of(lines: Sequence[str], start: int, room: int) -> int:
    end = start
    while end < len(lines) and (room := room - len(lines[end]) - 1) >= 0:
        end += 1
    return max(end, start + 1)


def _render(shown: Mapping[int, str], first: int) -> tuple[str, tuple[int, ...]]:
    """Render lines by index, with marks at gaps; also return their numbers."""
    out: list[str] = []
    before = -1
    for index, line in shown.items():
        if index != before + 1:
            out.append(f"… {first + index}:")
        out.append(line)
        before = index
    return "\n".join(out), tuple(first + index for index in shown)


def _around(line: str, word_weights: Mapping[str, float], characters: int) -> str:
    """Part of one long line, around the word with the highest weight."""
    lowered = line.lower()
    spots = [(mass, lowered.find(word)) for word, mass in word_weights.items() if word in lowered]
    middle = max(spots, default=(0.0, 0))[1]
    start = max(0, min(middle - characters // 4, len(line) - characters))
    return line[start : start + characters].strip()
