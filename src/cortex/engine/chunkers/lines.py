"""Chunking by lines, for text without structure and for parts that are too large.

Lines are added until the next would exceed the target. Blank lines cost nothing and never begin or
end a chunk. A line longer than the target is split, not shortened; no text is dropped. A chunk is
an exact range of the text, so indentation stays. Lines end at "\\n" only, as parsers count them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from cortex.base.text import TOKEN_CHARACTERS
from cortex.base.types import Chunk

PAGE_END = "\f"
# Start and end offset, first and last row.
Range = tuple[int, int, int, int]


class Rows:
    """A text and the offsets of its lines.

    Rows count from 0. With `paged`, a row that begins with a form feed begins a page.
    """

    __slots__ = ("breaks", "lines", "starts", "text")

    def __init__(self, text: str, paged: bool = False) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.starts = [0]
        self.starts.extend(accumulate(len(line) + 1 for line in self.lines))
        feeds = paged and PAGE_END in text
        self.breaks = (
            [row for row, line in enumerate(self.lines) if _begins_page(line)] if feeds else []
        )

    def size(self, first: int, last: int) -> int:
        """Number of characters in the rows `first` to `last`."""
        return self.starts[last + 1] - self.starts[first]

    def trim(self, first: int, last: int) -> tuple[int, int]:
        """Strip blank rows at both ends; last < first if all are blank."""
        lines = self.lines
        while first <= last and (not lines[first] or lines[first].isspace()):
            first += 1
        while last >= first and (not lines[last] or lines[last].isspace()):
            last -= 1
        return first, last

    def range(self, first: int, last: int) -> Range:
        """Exact range of these rows, without the last line end and a form feed at the start."""
        start = self.starts[first]
        if self.breaks and _begins_page(self.lines[first]):
            start += self.lines[first].rindex(PAGE_END) + 1
        return start, self.starts[last + 1] - 1, first, last

    def pages(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Split these rows at page starts."""
        for row in self.breaks[bisect_right(self.breaks, first) : bisect_right(self.breaks, last)]:
            yield first, row - 1
            first = row
        yield first, last


def _begins_page(line: str) -> bool:
    return PAGE_END in line and not line[: line.rindex(PAGE_END)].strip()


def ranges(rows: Rows, first: int, last: int, target: int, limit: int) -> list[Range]:
    """Return the rows as one range of at most `limit` characters, else as ranges of `target`."""
    first, last = rows.trim(first, last)
    if last < first:
        return []
    if rows.size(first, last) - 1 <= limit:
        return [rows.range(first, last)]
    return split(rows, first, last, target, 0)


def split(rows: Rows, first: int, last: int, target: int, overlap: int) -> list[Range]:
    """Split rows into ranges of at most `target` characters, not counting blank lines.

    Each repeats up to `overlap` characters of the previous one.
    """
    out: list[Range] = []
    begin, used = first, 0
    row = first
    while row <= last:
        cost = len(rows.lines[row].rstrip()) + 1
        if cost > target + 1:
            out.extend(_close(rows, begin, row - 1))
            out.extend(_split_line(rows, row, target))
            begin, used = row + 1, 0
        elif cost > 1:
            if used and used + cost > target + 1:
                out.extend(_close(rows, begin, row - 1))
                begin, used = _step_back(rows, begin, row, min(overlap, target - cost))
            used += cost
        row += 1
    out.extend(_close(rows, begin, last))
    return out


def _close(rows: Rows, first: int, last: int) -> list[Range]:
    first, last = rows.trim(first, last)
    return [rows.range(first, last)] if first <= last else []


def _step_back(rows: Rows, begin: int, row: int, overlap: int) -> tuple[int, int]:
    """Row at which the next chunk begins, and the cost of the repeated rows."""
    used = 0
    while row - 1 > begin:
        cost = len(rows.lines[row - 1].rstrip()) + 1
        if used + cost > overlap:
            break
        used += cost
        row -= 1
    return row, used


def _split_line(rows: Rows, row: int, target: int) -> list[Range]:
    start, _, _, _ = rows.range(row, row)
    line = rows.lines[row][start - rows.starts[row] :]
    out: list[Range] = []
    for offset in range(0, len(line), target):
        if line[offset : offset + target].strip():
            out.append((start + offset, start + min(len(line), offset + target), row, row))
    return out


def cut_lines(
    text: str, target_tokens: int, overlap_tokens: int, paged: bool = False
) -> tuple[Chunk, ...]:
    """Cut the whole text into chunks of kind "block"; with `paged` none spans two pages."""
    rows = Rows(text, paged)
    target, overlap = target_tokens * TOKEN_CHARACTERS, overlap_tokens * TOKEN_CHARACTERS
    pages = rows.pages(0, len(rows.lines) - 1)
    parts = [part for first, last in pages for part in split(rows, first, last, target, overlap)]
    return tuple(
        Chunk(ordinal, start, end, first + 1, last + 1, "block")
        for ordinal, (start, end, first, last) in enumerate(parts)
    )
