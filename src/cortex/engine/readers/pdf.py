"""PDF to Markdown: the text of each page, with headings reconstructed.

Headings come from the bookmarks if there are some, else from the font size. Needs the extra
`documents` (pypdfium2: one wheel of 3 to 4 MB for each platform, works offline). Lines stay lines,
so that code and addresses survive; running headers and footers are kept once. Scanned pages are not
read. Road not taken: kreuzberg (100 MB), built on the same engine; its Markdown joins the lines of
code, turns right-to-left text into tables and has no pages.
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

# About seven seconds; later pages are mentioned, not read.
MAX_PAGES = 2_000
MAX_PAGE_CHARACTERS = 200_000
MAX_CHARACTERS = 20_000_000
MAX_BOOKMARKS = 5_000
# Relative to the size of ordinary text.
HEADING_RATIO = 1.15
HEADING_CHARACTERS = 120
BOLD_WEIGHT = 600
TITLE_RATIO = 1.4
TITLE_LINES = 3
# Share of all lines; if more are large, size means something else.
HEADING_SHARE = 0.2
MAX_LEVELS = 4
# Share of a line's height above which a new paragraph begins.
PARAGRAPH_GAP = 0.75
# Pages on which a line at the edge must repeat to count as a running header.
RUNNING_PAGES = 3
EDGE_LINES = 2
_LINE = re.compile(r"[^\r\n]+")
_DIGITS = re.compile(r"[0-9]{1,6}")
# \ufffe is a hyphen that only broke a word.
_DROPPED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff\u00ad]")
_LETTER = re.compile(r"[^\W\d_]")
_BOLD = re.compile(rb"(?i)bold|black|heavy|demi|-medi|cmbx|cmb1|-bd")
_BOLD_HEADING = re.compile(r"(?![a-z])(?=.*[^\W\d_]{2}).{2,80}(?<![.,;:!?])")


@dataclass(slots=True)
class _Line:
    text: str
    # Font size; 0 if unknown.
    size: float
    bold: bool
    top: float
    bottom: float
    # Heading level, 0 for other lines.
    level: int = 0


def read_pdf(raw: bytes) -> str:
    """Convert the document to Markdown, each page ended by a form feed.

    Raises: Unreadable.
    """
    document = _open(raw)
    try:
        count = len(document)
        document_pages = _read_pages(document, min(count, MAX_PAGES))
        if not any(line.text for page in document_pages for line in page):
            raise Unreadable("no text in it: scanned pages need a text layer (OCR)")
        if _mark_by_bookmarks(document, document_pages):
            _mark_title(document_pages[0])
        else:
            _mark_by_size(document_pages)
    finally:
        document.close()
    _drop_running_lines(document_pages)
    texts = ["\n".join(_render_page(page)) for page in document_pages]
    if len(document_pages) < count:
        texts.append(
            f"[The document goes on: pages {len(document_pages) + 1} to {count} are not read.]"
        )
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
        is_encrypted = code in (
            pypdfium2.raw.FPDF_ERR_PASSWORD,
            pypdfium2.raw.FPDF_ERR_SECURITY,
        ) or "assword" in str(error)
        raise Unreadable("encrypted" if is_encrypted else "damaged: not a whole PDF") from error


def _read_pages(document: PdfDocument, count: int) -> list[list[_Line]]:
    out: list[list[_Line]] = []
    left = MAX_CHARACTERS
    for index in range(count):
        lines: list[_Line] = []
        try:
            page = document[index]
        except Exception:
            # A broken page costs only itself.
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
    # Some characters are left out or take two units: read each one, so that positions match.
    if len(text) != count:
        text = "".join(
            chr(min(native.FPDFText_GetUnicode(page.raw, position), 0x10FFFF))
            for position in range(count)
        )
    for match in _LINE.finditer(text):
        line = _clean(match[0])
        if line:
            yield _measure_line(native, page, line, match)


def _measure_line(native: ModuleType, page: PdfTextPage, text: str, match: re.Match[str]) -> _Line:
    """Add font size, weight and position to a line.

    They are those of a letter in the middle; bold only if the first and last letter are bold, too.
    """
    middle = _LETTER.search(match[0], len(match[0]) // 2) or _LETTER.search(match[0])
    position = match.start() + (middle.start() if middle else 0)
    box, matrix = native.FS_RECTF(), native.FS_MATRIX()
    native.FPDFText_GetLooseCharBox(page.raw, position, ctypes.byref(box))
    native.FPDFText_GetMatrix(page.raw, position, ctypes.byref(matrix))
    size = round(
        native.FPDFText_GetFontSize(page.raw, position) * math.hypot(matrix.c, matrix.d), 1
    )
    bold = len(text) <= HEADING_CHARACTERS and _is_bold(native, page, position)
    if bold:
        letters = [match.start() + letter.start() for letter in _LETTER.finditer(match[0])] or [
            position
        ]
        bold = _is_bold(native, page, letters[0]) and _is_bold(native, page, letters[-1])
    return _Line(text, size, bold, box.top, box.bottom)


def _is_bold(native: ModuleType, page: PdfTextPage, position: int) -> bool:
    name, flags = ctypes.create_string_buffer(64), ctypes.c_int()
    native.FPDFText_GetFontInfo(page.raw, position, name, len(name), ctypes.byref(flags))
    return (
        bool(_BOLD.search(name.value))
        or native.FPDFText_GetFontWeight(page.raw, position) >= BOLD_WEIGHT
    )


def _clean(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return one_line(_DROPPED.sub("", text))


def _mark_by_bookmarks(document: PdfDocument, document_pages: list[list[_Line]]) -> bool:
    """Mark the lines that bookmarks point to as headings; true if there were at least two."""
    marked = 0
    for count, bookmark in enumerate(document.get_toc(max_depth=MAX_LEVELS)):
        if count >= MAX_BOOKMARKS:
            break
        target = bookmark.get_dest()
        page_index = target.get_index() if target is not None else None
        expected = _alphanumerics(bookmark.get_title())
        if page_index is None or not 0 <= page_index < len(document_pages) or not expected:
            continue
        for line in document_pages[page_index]:
            actual = _alphanumerics(line.text)
            if not line.level and (
                actual == expected
                or (actual.endswith(expected) and len(actual) < len(expected) + 8)
            ):
                line.level = bookmark.level + 1
                marked += 1
                break
    return marked >= 2


def _mark_title(page: list[_Line]) -> None:
    """Mark the largest line above the first heading as title; bookmarks mostly omit it."""
    first = next((index for index, line in enumerate(page) if line.level), len(page))
    if first:
        largest = max(page[:first], key=lambda line: line.size)
        min_size = TITLE_RATIO * min(line.size for line in page)
        if _may_be_heading(largest) and largest.size >= max(
            [min_size, *(line.size for line in page[first : first + 1])]
        ):
            for line in [line for line in page[:first] if line.size == largest.size][:TITLE_LINES]:
                line.level = 1


def _alphanumerics(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _mark_by_size(document_pages: list[list[_Line]]) -> None:
    """Mark short lines in large type, a level per size, and standalone bold lines as headings."""
    weights: Counter[tuple[float, bool]] = Counter()
    for page in document_pages:
        for line in page:
            weights[line.size, line.bold] += len(line.text)
    ordinary, is_bold = weights.most_common(1)[0][0]
    large = [
        line
        for page in document_pages
        for line in page
        if line.size >= ordinary * HEADING_RATIO and _may_be_heading(line)
    ]
    bold = (
        []
        if is_bold
        else [line for page in document_pages for line in _bold_headings(page, ordinary)]
    )
    max_headings = HEADING_SHARE * sum(map(len, document_pages)) + 2
    large = large if len(large) <= max_headings else []
    levels: list[float] = []
    for size in sorted({line.size for line in large}, reverse=True):
        # Sizes that hardly differ count as one.
        if not levels or size < levels[-1] * 0.93:
            levels.append(size)
    # Larger ones belong to a cover.
    levels = levels[-MAX_LEVELS:]
    for line in bold if len(bold) <= max_headings else []:
        line.level = min(len(levels) + 1, MAX_LEVELS)
    for line in large:
        line.level = 1 + sum(1 for size in levels[1:] if line.size <= size)


def _bold_headings(page: list[_Line], ordinary: float) -> Iterator[_Line]:
    """Yield bold lines of ordinary size that follow a gap and don't end like a sentence."""
    for index, line in enumerate(page):
        above = page[index - 1] if index else None
        after_gap = above is None or _is_gap(above, line) or above.bottom < line.bottom
        if (
            line.bold
            and line.size >= ordinary * 0.97
            and after_gap
            and _BOLD_HEADING.fullmatch(line.text)
        ):
            below = page[index + 1] if index + 1 < len(page) else None
            if below is None or not below.bold:
                yield line


def _is_gap(above: _Line, line: _Line) -> bool:
    return above.bottom - line.top > PARAGRAPH_GAP * max(line.size, 1.0)


def _may_be_heading(line: _Line) -> bool:
    return len(line.text) <= HEADING_CHARACTERS and len(_LETTER.findall(line.text)) >= 2


def _drop_running_lines(document_pages: list[list[_Line]]) -> None:
    """Remove lines that repeat at the edges of pages, except for the first of each."""
    counts: Counter[str] = Counter()
    for page_index, page in enumerate(document_pages):
        counts.update({shape for line in _edges(page) for shape in _running_keys(line, page_index)})
    kept: set[str] = set()
    for page_index, page in enumerate(document_pages):
        for line in _edges(page):
            running = [
                shape for shape in _running_keys(line, page_index) if counts[shape] >= RUNNING_PAGES
            ]
            if kept.intersection(running):
                line.text, line.level = "", 0
            kept.update(running)


def _running_keys(line: _Line, page_index: int) -> list[str]:
    """Keys by which a running line is recognized on other pages.

    Its text, or (except for headings) its text with the page number made relative.
    """
    numbers = [] if line.level else _DIGITS.findall(line.text)
    shape = _DIGITS.sub("0", line.text)
    return [
        line.text,
        *(f"{shape}|{int(digits) - page_index}" for digits in {*numbers[:1], *numbers[-1:]}),
    ]


def _edges(page: list[_Line]) -> list[_Line]:
    """First and last lines of a page; none for a page with hardly more than these."""
    return [] if len(page) <= 2 * EDGE_LINES else [*page[:EDGE_LINES], *page[-EDGE_LINES:]]


def _render_page(page: list[_Line]) -> Iterator[str]:
    """Render the lines of a page: multi-line headings are joined, gaps become blank lines."""
    previous: _Line | None = None
    title: list[str] = []
    for line in [*page, _Line("", 0, False, 0, 0)]:
        joins = (
            previous is not None
            and line.level == previous.level
            and abs(previous.bottom - line.top) < line.size
        )
        if title and not (line.level and joins and len(title) < TITLE_LINES):
            yield from ("", heading(previous.level if previous else 1, " ".join(title)), "")
            title = []
        if line.level:
            title.append(line.text)
        elif line.text:
            if previous is not None and not previous.level and _is_gap(previous, line):
                yield ""
            yield shield(line.text)
        previous = line if line.text else previous
