"""PDF: the text of each page, with headings found again: by the bookmarks where there are some,
else by the size of the type.

Needs the extra `documents` (pypdfium2: one wheel of 3 to 4 MB for each platform, works offline).
Lines stay lines, so that code and addresses survive; running headers and footers are kept once.
Pictures of pages are not read. Not taken: kreuzberg (100 MB), whose Markdown of PDF joins the lines
of code, turns right-to-left text into tables and has no pages; it is built on the same engine.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cortex.engine.readers.markdown_writer import heading, one_line, pages, shield
from cortex.engine.readers.unreadable import NO_PDF, Unreadable

if TYPE_CHECKING:
    from types import ModuleType

    from pypdfium2 import PdfDocument, PdfTextPage

MAX_PAGES = 2_000  # about seven seconds; what follows is named, not read
MAX_PAGE_CHARACTERS = 200_000
MAX_CHARACTERS = 20_000_000
MAX_BOOKMARKS = 5_000
HEADING_RATIO = 1.15  # of the size of ordinary text
HEADING_CHARACTERS = 120
BOLD_WEIGHT = 600
TITLE_RATIO = 1.4
TITLE_LINES = 3
HEADING_SHARE = 0.2  # of all lines: when more are large, size means something else
MAX_LEVELS = 4
PARAGRAPH_GAP = 0.75  # of a line's height, above which a new paragraph begins
RUNNING_PAGES = 3  # so often a line stands at the edge of pages, that isn't of the text
EDGE_LINES = 2
_LINE = re.compile(r"[^\r\n]+")
_DIGITS = re.compile(r"[0-9]{1,6}")
# \ufffe is a hyphen that only broke a word
_DROPPED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff\u00ad]")
_LETTER = re.compile(r"[^\W\d_]")
_BOLD = re.compile(rb"(?i)bold|black|heavy|demi|-medi|cmbx|cmb1|-bd")
_BOLD_HEADING = re.compile(r"(?![a-z])(?=.*[^\W\d_]{2}).{2,80}(?<![.,;:!?])")


@dataclass(slots=True)
class _Line:
    text: str
    size: float  # of the type; 0 where unknown
    bold: bool
    top: float
    bottom: float
    level: int = 0  # of a heading


def read_pdf(raw: bytes) -> str:
    """The document as Markdown, each page ended by a form feed. Raises: Unreadable."""
    document = _open(raw)
    try:
        count = len(document)
        read = _read_pages(document, min(count, MAX_PAGES))
        if not any(line.text for page in read for line in page):
            raise Unreadable("no text in it: scanned pages need a text layer (OCR)")
        if _mark_by_bookmarks(document, read):
            _mark_title(read[0])
        else:
            _mark_by_size(read)
    finally:
        document.close()
    _drop_running_lines(read)
    texts = ["\n".join(_written(page)) for page in read]
    if len(read) < count:
        texts.append(f"[The document goes on: pages {len(read) + 1} to {count} are not read.]")
    return pages(texts)


def _open(raw: bytes) -> PdfDocument:
    try:
        import pypdfium2
    except ImportError as error:
        raise Unreadable(NO_PDF) from error
    try:
        return pypdfium2.PdfDocument(raw)
    except pypdfium2.PdfiumError as error:
        code = getattr(error, "err_code", None)
        locked = code in (
            pypdfium2.raw.FPDF_ERR_PASSWORD,
            pypdfium2.raw.FPDF_ERR_SECURITY,
        ) or "assword" in str(error)
        raise Unreadable("encrypted" if locked else "damaged: not a whole PDF") from error


def _read_pages(document: PdfDocument, count: int) -> list[list[_Line]]:
    out: list[list[_Line]] = []
    left = MAX_CHARACTERS
    for number in range(count):
        lines: list[_Line] = []
        try:
            page = document[number]
        except Exception:  # a page that is broken costs itself
            out.append(lines)
            continue
        try:
            text_page = page.get_textpage()
            lines.extend(_lines(text_page))
            text_page.close()
        finally:
            page.close()
        out.append(lines)
        left -= sum(len(line.text) for line in lines)
        if left < 0:
            break
    return out


def _lines(page: PdfTextPage) -> Iterator[_Line]:
    import pypdfium2.raw as native

    count = min(page.count_chars(), MAX_PAGE_CHARACTERS)
    if count <= 0:
        return
    text = page.get_text_range(0, count)
    # Some characters are left out or are two units: ask for each, so that places fit
    if len(text) != count:
        text = "".join(
            chr(min(native.FPDFText_GetUnicode(page.raw, place), 0x10FFFF))
            for place in range(count)
        )
    for found in _LINE.finditer(text):
        line = _clean(found[0])
        if line:
            yield _looked(native, page, line, found)


def _looked(native: ModuleType, page: PdfTextPage, text: str, found: re.Match[str]) -> _Line:
    """A line with its look: that of a letter in the middle; bold only if the first and the last
    are, too.
    """
    middle = _LETTER.search(found[0], len(found[0]) // 2) or _LETTER.search(found[0])
    place = found.start() + (middle.start() if middle else 0)
    box, matrix = native.FS_RECTF(), native.FS_MATRIX()
    native.FPDFText_GetLooseCharBox(page.raw, place, ctypes.byref(box))
    native.FPDFText_GetMatrix(page.raw, place, ctypes.byref(matrix))
    size = round(native.FPDFText_GetFontSize(page.raw, place) * math.hypot(matrix.c, matrix.d), 1)
    bold = len(text) <= HEADING_CHARACTERS and _is_bold(native, page, place)
    if bold:
        letters = [found.start() + letter.start() for letter in _LETTER.finditer(found[0])] or [
            place
        ]
        bold = _is_bold(native, page, letters[0]) and _is_bold(native, page, letters[-1])
    return _Line(text, size, bold, box.top, box.bottom)


def _is_bold(native: ModuleType, page: PdfTextPage, place: int) -> bool:
    name, flags = ctypes.create_string_buffer(64), ctypes.c_int()
    native.FPDFText_GetFontInfo(page.raw, place, name, len(name), ctypes.byref(flags))
    return (
        bool(_BOLD.search(name.value))
        or native.FPDFText_GetFontWeight(page.raw, place) >= BOLD_WEIGHT
    )


def _clean(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return one_line(_DROPPED.sub("", text))


def _mark_by_bookmarks(document: PdfDocument, read: list[list[_Line]]) -> bool:
    """Make headings of the lines that bookmarks point to; whether there were any."""
    marked = 0
    for count, bookmark in enumerate(document.get_toc(max_depth=MAX_LEVELS)):
        if count >= MAX_BOOKMARKS:
            break
        target = bookmark.get_dest()
        number = target.get_index() if target is not None else None
        wanted = _letters(bookmark.get_title())
        if number is None or not 0 <= number < len(read) or not wanted:
            continue
        for line in read[number]:
            found = _letters(line.text)
            if not line.level and (
                found == wanted or (found.endswith(wanted) and len(found) < len(wanted) + 8)
            ):
                line.level = bookmark.level + 1
                marked += 1
                break
    return marked >= 2


def _mark_title(page: list[_Line]) -> None:
    """Make a heading of the largest line before the first one on the first page: bookmarks mostly
    leave the title out.
    """
    first = next((place for place, line in enumerate(page) if line.level), len(page))
    if first:
        largest = max(page[:first], key=lambda line: line.size)
        least = TITLE_RATIO * min(line.size for line in page)
        if _may_be_heading(largest) and largest.size >= max(
            [least, *(line.size for line in page[first : first + 1])]
        ):
            for line in [line for line in page[:first] if line.size == largest.size][:TITLE_LINES]:
                line.level = 1


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _mark_by_size(read: list[list[_Line]]) -> None:
    """Make headings of short lines in large type, several sizes being several levels, and of bold
    lines that stand alone.
    """
    weights: Counter[tuple[float, bool]] = Counter()
    for page in read:
        for line in page:
            weights[line.size, line.bold] += len(line.text)
    ordinary, heavy = weights.most_common(1)[0][0]
    large = [
        line
        for page in read
        for line in page
        if line.size >= ordinary * HEADING_RATIO and _may_be_heading(line)
    ]
    bold = [] if heavy else [line for page in read for line in _bold_headings(page, ordinary)]
    some = HEADING_SHARE * sum(map(len, read)) + 2
    large = large if len(large) <= some else []
    levels: list[float] = []
    for size in sorted({line.size for line in large}, reverse=True):
        if not levels or size < levels[-1] * 0.93:  # sizes that hardly differ are one
            levels.append(size)
    levels = levels[-MAX_LEVELS:]  # larger ones are a cover's
    for line in bold if len(bold) <= some else []:
        line.level = min(len(levels) + 1, MAX_LEVELS)
    for line in large:
        line.level = 1 + sum(1 for size in levels[1:] if line.size <= size)


def _bold_headings(page: list[_Line], ordinary: float) -> Iterator[_Line]:
    """Bold lines of ordinary size that begin after a gap and don't end like a sentence."""
    for place, line in enumerate(page):
        above = page[place - 1] if place else None
        after_gap = above is None or _is_gap(above, line) or above.bottom < line.bottom
        if (
            line.bold
            and line.size >= ordinary * 0.97
            and after_gap
            and _BOLD_HEADING.fullmatch(line.text)
        ):
            below = page[place + 1] if place + 1 < len(page) else None
            if below is None or not below.bold:
                yield line


def _is_gap(above: _Line, line: _Line) -> bool:
    return above.bottom - line.top > PARAGRAPH_GAP * max(line.size, 1.0)


def _may_be_heading(line: _Line) -> bool:
    return len(line.text) <= HEADING_CHARACTERS and len(_LETTER.findall(line.text)) >= 2


def _drop_running_lines(read: list[list[_Line]]) -> None:
    """Remove lines that come again and again at the edges of pages; the first of each stays."""
    seen: Counter[str] = Counter()
    for number, page in enumerate(read):
        seen.update({shape for line in _edges(page) for shape in _shapes(line, number)})
    met: set[str] = set()
    for number, page in enumerate(read):
        for line in _edges(page):
            running = [shape for shape in _shapes(line, number) if seen[shape] >= RUNNING_PAGES]
            if met.intersection(running):
                line.text, line.level = "", 0
            met.update(running)


def _shapes(line: _Line, number: int) -> list[str]:
    """What a running line has in common on all pages: its text, or, but for a heading, all but a
    number that counts pages.
    """
    numbers = [] if line.level else _DIGITS.findall(line.text)
    shape = _DIGITS.sub("0", line.text)
    return [
        line.text,
        *(f"{shape}|{int(found) - number}" for found in {*numbers[:1], *numbers[-1:]}),
    ]


def _edges(page: list[_Line]) -> list[_Line]:
    """The first and last lines of a page; none of a page that is hardly more than these."""
    return [] if len(page) <= 2 * EDGE_LINES else [*page[:EDGE_LINES], *page[-EDGE_LINES:]]


def _written(page: list[_Line]) -> Iterator[str]:
    """The lines of a page; a heading on several lines becomes one, a gap becomes a blank line."""
    before: _Line | None = None
    title: list[str] = []
    for line in [*page, _Line("", 0, False, 0, 0)]:
        joins = (
            before is not None
            and line.level == before.level
            and abs(before.bottom - line.top) < line.size
        )
        if title and not (line.level and joins and len(title) < TITLE_LINES):
            yield from ("", heading(before.level if before else 1, " ".join(title)), "")
            title = []
        if line.level:
            title.append(line.text)
        elif line.text:
            if before is not None and not before.level and _is_gap(before, line):
                yield ""
            yield shield(line.text)
        before = line if line.text else before
