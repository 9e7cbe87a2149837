"""Markdown to chunks: whole sections if they fit, else their paragraphs.

A section is a heading and the text up to the next heading. A line scan is enough: it knows front
matter, fenced code and both kinds of heading. Small sections of one parent share a chunk under the
parent's name; a heading without text goes with the section that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from cortex.base.text import TOKEN_CHARACTERS
from cortex.base.types import Chunk, Symbol
from cortex.engine.chunkers.lines import Range, Rows, ranges

SLACK = 1.5
# Share of the target below which sections of one parent share a chunk.
SMALL = 0.25
SEPARATOR = " > "
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\r?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*\r?$")
# Blank, code, a list item, a quotation, a table, a rule; "2.34.2" and "*new*" begin like lists and
# are none.
_NOT_PARAGRAPH = re.compile(
    r"\s*$| {4}|\t| {0,3}(?:(?:[-*+]|\d{1,9}[.)])(?:\s|$)|[>|]|([-*_])(?:[ \t]*\1){2,}\s*$)"
)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# Code is kept unchanged; marks are removed in pairs only, so that *args, _private, MAX_SIZE and
# __init__ stay.
_MARK = re.compile(
    r"(?P<tick>`{1,3})(?P<code>.+?)(?P=tick)"
    r"|(?P<name>(?<!\w)__[a-z][a-z0-9_]*__(?!\w))"
    r"|(?<!\*)(?P<star>\*{1,3})(?=[^\s*])(?P<starred>.+?)(?<=[^\s*])(?P=star)(?!\*)"
    r"|(?<!\w)(?P<line>_{1,3})(?=[^\s_])(?P<lined>.+?)(?<=\S)(?P=line)(?!\w)"
    r"|\\(?=[^\w\s]|_)"
)
MAX_HEADING_CHARACTERS = 200
# Characters of a heading, with its marks, that are read.
READ_CHARACTERS = 600
# Row, level and title.
Heading = tuple[int, int, str]


@dataclass(slots=True)
class _Section:
    first: int
    last: int
    level: int
    # Headings from the outermost to this one.
    trail: tuple[str, ...]

    @property
    def parent(self) -> tuple[str, ...]:
        return self.trail[:-1]


def cut_markdown(
    text: str,
    target_tokens: int,
    paged: bool = False,
    headings: Callable[[Rows], list[Heading]] | None = None,
) -> tuple[tuple[Chunk, ...], tuple[Symbol, ...]]:
    """Cut a Markdown text into chunks and headings; with `paged` no chunk spans two pages.

    `headings` finds the headings of another format.
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
            heading_section.trail[-1],
            SEPARATOR.join(heading_section.trail),
            "section",
            heading_section.first + 1,
            heading_section.last + 1,
            SEPARATOR.join(heading_section.parent),
        )
        for heading_section in sections
        if heading_section.trail and heading_section.trail[-1]
    ]
    return tuple(chunks), tuple(symbols)


def _sections(rows: Rows, headings: list[Heading]) -> list[_Section]:
    """Split into the text before the first heading and one section for each heading."""
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
    """Find every heading outside of fences and front matter."""
    out: list[Heading] = []
    lines = rows.lines
    fence = ""
    row = _after_front_matter(lines)
    begin = row
    for row in range(begin, len(lines)):
        line = lines[row]
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1] if "`" not in mark[2] else ""
            elif mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip():
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
    """Strip the marks of links, emphasis and code from a heading; names keep underscores."""
    plain = _strip_marks(_LINK.sub(lambda match: match[1], heading[:READ_CHARACTERS]))
    return " ".join(plain.split())[:MAX_HEADING_CHARACTERS]


def _strip_marks(text: str) -> str:
    return _MARK.sub(_unwrap, text)


def _unwrap(match: re.Match[str]) -> str:
    emphasised = match["starred"] or match["lined"]
    return _strip_marks(emphasised) if emphasised else match["code"] or match["name"] or ""


def _group(sections: list[_Section], rows: Rows, target: int) -> list[_Section]:
    """Select sections to be one chunk each; lone headings and small siblings are merged."""
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
            and _are_siblings(out[-1], section)
            and len(list(rows.pages(out[-1].first, section.last))) == 1
            and rows.size(out[-1].first, section.last) <= target
        ):
            out[-1] = _Section(out[-1].first, section.last, -section.level, section.parent)
            continue
        out.append(_Section(first, section.last, section.level, section.trail))
        sizes.append(size)
    return out


def _are_siblings(group: _Section, section: _Section) -> bool:
    """True if `section` has the parent of `group`.

    A merged group (negative level) is already named after the parent.
    """
    parent = group.trail if group.level < 0 else group.parent
    return bool(section.parent) and abs(group.level) == section.level and parent == section.parent


def _parts(rows: Rows, first: int, last: int, target: int) -> list[Range]:
    """Return a section as one range, or as ranges that end at blank lines if possible.

    Blank lines inside of fences don't count.
    """
    limit = int(target * SLACK)
    first, last = rows.trim(first, last)
    if last < first or rows.size(first, last) <= limit:
        return ranges(rows, first, last, target, limit)
    out: list[Range] = []
    begin = first
    # The last end of a paragraph since `begin`.
    boundary = -1
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
        mark = _FENCE.match(rows.lines[row])
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip():
            fence = ""
        if not fence and not rows.lines[row].strip():
            out.append(row)
    return out
