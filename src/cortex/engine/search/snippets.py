"""What is shown of the ranked candidates: neighbours in a file as one hit, and of its text the
lines that matter.

A hit's lines are those of all of its chunks. Its text is what declares the best of them and the
lines that say most of the query; "… 75:" means that lines were left out and it goes on at line 75.
Single lines from all over a function were the road not taken: they cost the same and nobody can
read them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortex.engine.search.features import Candidate

MERGE_DEPTH = 60  # candidates that may be joined to a better one
MERGED_LINES = 60  # of a joined hit: about what an editor shows at once
MERGE_GAP = 2  # lines between neighbours
GAP = 10  # characters that say where the text goes on
MIN_WINDOW = 40  # characters of room
FOLLOWS = 1.0  # for lines that follow the declaration at once: about a fifth of a rare word
REPEATED = 0.05  # of a word's worth, for each line that says it again
_WORD = re.compile(r"\w\w")


@dataclass(slots=True)
class SnippetGroup:
    """Chunks of one file that follow one another, led by the best of them."""

    best: Candidate
    chunks: list[Candidate]
    start_line: int
    end_line: int


def merge(ranked: Sequence[Candidate], most: int) -> tuple[list[SnippetGroup], int]:
    """The first `most` groups of the candidates in their order, each with those neighbours that are
    among the best, too; and how many groups there are in all.
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
    lines: Sequence[str], first: int, masses: Mapping[str, float], opening: int, characters: int
) -> tuple[str, tuple[int, ...]]:
    """The line that opens the text, and the lines in a row that say most of the words, within
    `characters`; with their numbers.

    `lines` begin with number `first`, `opening` is a number too, `masses` says what the stems of
    the query's words are worth.
    """
    opener = min(max(0, opening - first), len(lines) - 1)
    room = characters - len(lines[opener]) - GAP
    if room < MIN_WINDOW:  # one long line
        return _render({opener: _around(lines[opener], masses, characters)}, first)
    start, end = _best_window(lines, opener, masses, room)
    while end > start + 1 and not _WORD.search(lines[end - 1]):
        end -= 1
    shown = {index: lines[index].rstrip() for index in sorted({opener, *range(start, end)})}
    if start != opener and len(shown[start]) > room:  # one long line again
        shown[start] = _around(shown[start], masses, room)
    return _render(shown, first)


def opening_of(lines: Sequence[str], first: int, start_line: int, signature: str) -> int:
    """The number of the line at which a chunk that starts at `start_line` declares what it is;
    comments may come before.
    """
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
    lines: Sequence[str], opener: int, masses: Mapping[str, float], room: int
) -> tuple[int, int]:
    """The lines in a row, as many as there is room for, whose words are worth most together; the
    earliest of equal ones.
    """
    found = [frozenset(word for word in masses if word in line) for line in map(str.lower, lines)]
    best, worth = (opener, _end_of(lines, opener, room)), 0.0
    end, left = 0, room
    for start in range(len(lines)):
        while end < len(lines) and (left >= len(lines[end]) + 1 or end == start):
            left -= len(lines[end]) + 1
            end += 1
        left += len(lines[start]) + 1
        # What ends before the declaration belongs to another one
        if not found[start] or end <= opener:
            continue
        words = frozenset[str]().union(*found[start:end])
        here = sum(masses[word] for word in words) + REPEATED * sum(map(len, found[start:end]))
        here += FOLLOWS * (opener <= start <= opener + 1)
        if here > worth:
            best, worth = (start, end), here
    return best


def _end_of(lines: Sequence[str], start: int, room: int) -> int:
    end = start
    while end < len(lines) and (room := room - len(lines[end]) - 1) >= 0:
        end += 1
    return max(end, start + 1)


def _render(shown: Mapping[int, str], first: int) -> tuple[str, tuple[int, ...]]:
    """Lines by their index as text, with marks where some are left out; and their numbers."""
    out: list[str] = []
    before = -1
    for index, line in shown.items():
        if index != before + 1:
            out.append(f"… {first + index}:")
        out.append(line)
        before = index
    return "\n".join(out), tuple(first + index for index in shown)


def _around(line: str, masses: Mapping[str, float], characters: int) -> str:
    """A part of one long line, around the word that is worth most in it."""
    lowered = line.lower()
    spots = [(mass, lowered.find(word)) for word, mass in masses.items() if word in lowered]
    middle = max(spots, default=(0.0, 0))[1]
    start = max(0, min(middle - characters // 4, len(line) - characters))
    return line[start : start + characters].strip()
