"""Markdown to chunks: a section (heading and the text up to the next heading) where it fits, its
paragraphs where it doesn't.

A line scan knows all that is needed: front matter, fenced code, both kinds of heading. Small
sections of one parent share a chunk under the parent's name; a heading without text goes with the
section that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from cortex.base.text import TOKEN_CHARACTERS
from cortex.base.types import Chunk, Symbol
from cortex.engine.chunkers.lines import Range, Rows, ranges

SLACK = 1.5
SMALL = 0.25  # of the target: smaller sections of one parent share a chunk
SEPARATOR = " > "
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\r?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*\r?$")
# Blank, code, a list entry, a quotation, a table, a line across; "2.34.2" and "*new*" begin like
# lists and are none.
_NOT_PARAGRAPH = re.compile(
    r"\s*$| {4}|\t| {0,3}(?:(?:[-*+]|\d{1,9}[.)])(?:\s|$)|[>|]|([-*_])(?:[ \t]*\1){2,}\s*$)"
)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# Code is kept as it is; marks go in pairs only, so that *args, _private, MAX_SIZE and __init__
# stay.
_MARK = re.compile(
    r"(?P<tick>`{1,3})(?P<code>.+?)(?P=tick)"
    r"|(?P<name>(?<!\w)__[a-z][a-z0-9_]*__(?!\w))"
    r"|(?<!\*)(?P<star>\*{1,3})(?=[^\s*])(?P<starred>.+?)(?<=[^\s*])(?P=star)(?!\*)"
    r"|(?<!\w)(?P<line>_{1,3})(?=[^\s_])(?P<lined>.+?)(?<=\S)(?P=line)(?!\w)"
    r"|\\(?=[^\w\s]|_)"
)
MAX_HEADING_CHARACTERS = 200
READ_CHARACTERS = 600  # of a heading: of more, with its marks, only the beginning is shown
Heading = tuple[int, int, str]  # row, level, title


@dataclass(slots=True)
class _Section:
    first: int
    last: int
    level: int
    trail: tuple[str, ...]  # headings from the outermost to this one

    @property
    def parent(self) -> tuple[str, ...]:
        return self.trail[:-1]


def cut_markdown(
    text: str,
    target_tokens: int,
    paged: bool = False,
    headings: Callable[[Rows], list[Heading]] | None = None,
) -> tuple[tuple[Chunk, ...], tuple[Symbol, ...]]:
    """Chunks and headings of a Markdown text, or of one whose headings are found by `headings`;
    with `paged` no chunk is on two pages.
    """
    rows = Rows(text, paged)
    target = target_tokens * TOKEN_CHARACTERS
    sections = _sections(rows, headings(rows) if headings else _headings(rows))
    chunks: list[Chunk] = []
    for section in _group(sections, rows, target):
        name = section.trail[-1] if section.trail else ""
        kind = "section" if name else "block"
        qualified = SEPARATOR.join(section.trail)
        pages = rows.pages(section.first, section.last)
        parts = (part for first, last in pages for part in _parts(rows, first, last, target))
        for start, end, first, last in parts:
            chunks.append(
                Chunk(len(chunks), start, end, first + 1, last + 1, kind, name, qualified)
            )
    symbols = [
        Symbol(
            each.trail[-1],
            SEPARATOR.join(each.trail),
            "section",
            each.first + 1,
            each.last + 1,
            SEPARATOR.join(each.parent),
        )
        for each in sections
        if each.trail and each.trail[-1]
    ]
    return tuple(chunks), tuple(symbols)


def _sections(rows: Rows, headings: list[Heading]) -> list[_Section]:
    """The text before the first heading, then one section for each heading."""
    out = [_Section(0, -1, 0, ())]
    open_headings: list[tuple[int, str]] = []
    for row, level, title in headings:
        out[-1].last = row - 1
        while open_headings and open_headings[-1][0] >= level:
            open_headings.pop()
        open_headings.append((level, title))
        out.append(_Section(row, row, level, tuple(heading for _, heading in open_headings)))
    out[-1].last = len(rows.lines) - 1
    return [section for section in out if section.last >= section.first]


def _headings(rows: Rows) -> list[Heading]:
    """Every heading outside of fences and front matter."""
    out: list[Heading] = []
    lines = rows.lines
    fence = ""
    row = _after_front_matter(lines)
    begin = row
    for row in range(begin, len(lines)):
        line = lines[row]
        if found := _FENCE.match(line):
            if not fence:
                fence = found[1] if "`" not in found[2] else ""
            elif found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip():
                fence = ""
        elif fence:
            continue
        elif line.lstrip(" ")[:1] == "#" and (heading := _HEADING.match(line)):
            out.append((row, len(heading[1]), titled(heading[2] or "")))
        elif (
            (underline := _UNDERLINE.match(line))
            and row > begin
            and not _NOT_PARAGRAPH.match(lines[row - 1])
        ):
            single = (
                row - 1 == begin or not lines[row - 2].strip() or (out and out[-1][0] == row - 2)
            )
            if single and not (out and out[-1][0] == row - 1):
                out.append((row - 1, 1 if underline[1][0] == "=" else 2, titled(lines[row - 1])))
    return out


def _after_front_matter(lines: list[str]) -> int:
    mark = lines[0].rstrip()
    if mark not in ("---", "+++"):
        return 0
    for row in range(1, min(len(lines), 200)):
        if lines[row].rstrip() == mark:
            return row + 1
    return 0


def titled(heading: str) -> str:
    """A heading without the marks of links, emphasis and code; names in it keep their underscores."""
    plain = _unmarked(_LINK.sub(lambda found: found[1], heading[:READ_CHARACTERS]))
    return " ".join(plain.split())[:MAX_HEADING_CHARACTERS]


def _unmarked(text: str) -> str:
    return _MARK.sub(_inner, text)


def _inner(found: re.Match[str]) -> str:
    emphasised = found["starred"] or found["lined"]
    return _unmarked(emphasised) if emphasised else found["code"] or found["name"] or ""


def _group(sections: list[_Section], rows: Rows, target: int) -> list[_Section]:
    """Sections to be one chunk each: lone headings with what follows, small siblings together."""
    out: list[_Section] = []
    sizes: list[int] = []
    carried = -1
    for index, section in enumerate(sections):
        first = carried if carried >= 0 else section.first
        carried = -1
        follower = sections[index + 1] if index + 1 < len(sections) else None
        begin, end = rows.trim(section.first, section.last)
        if begin > end:
            continue
        if (
            begin == end
            and section.trail
            and follower is not None
            and follower.level > section.level
        ):
            carried = first
            continue
        size = rows.size(begin, end)
        if (
            out
            and max(size, sizes[-1]) < target * SMALL
            and _siblings(out[-1], section)
            and len(list(rows.pages(out[-1].first, section.last))) == 1
            and rows.size(out[-1].first, section.last) <= target
        ):
            out[-1] = _Section(out[-1].first, section.last, -section.level, section.parent)
            continue
        out.append(_Section(first, section.last, section.level, section.trail))
        sizes.append(size)
    return out


def _siblings(group: _Section, section: _Section) -> bool:
    """Whether `section` has the parent of `group`; a joined group (negative level) is already named
    after it.
    """
    parent = group.trail if group.level < 0 else group.parent
    return bool(section.parent) and abs(group.level) == section.level and parent == section.parent


def _parts(rows: Rows, first: int, last: int, target: int) -> list[Range]:
    """A section as one range, or as ranges that end at blank lines outside of fences where
    possible.
    """
    limit = int(target * SLACK)
    first, last = rows.trim(first, last)
    if last < first or rows.size(first, last) <= limit:
        return ranges(rows, first, last, target, limit)
    out: list[Range] = []
    begin = first
    boundary = -1  # the last paragraph end since `begin`
    for row in [*_paragraph_ends(rows, first, last), last]:
        if rows.size(begin, row) > target and boundary >= begin:
            out.extend(ranges(rows, begin, boundary, target, limit))
            begin = boundary + 1
        boundary = row
    out.extend(ranges(rows, begin, last, target, limit))
    return out


def _paragraph_ends(rows: Rows, first: int, last: int) -> list[int]:
    out: list[int] = []
    fence = ""
    for row in range(first, last):
        found = _FENCE.match(rows.lines[row])
        if found and not fence:
            fence = found[1]
        elif (
            found
            and found[1][0] == fence[0]
            and len(found[1]) >= len(fence)
            and not found[2].strip()
        ):
            fence = ""
        if not fence and not rows.lines[row].strip():
            out.append(row)
    return out
