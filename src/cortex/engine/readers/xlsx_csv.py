"""Tables (Excel workbooks and CSV) to one line per row, in which each cell has its column's name.

So a row can be understood wherever the text is cut into chunks. The first row that looks like names
is taken for the header; without one, a line has the cells alone. A formula is read as its last
result, and dates are written as 2024-03-01. Long tables end at a limit, and the text says so.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from xml.etree.ElementTree import Element

from cortex.engine.readers.markdown_writer import heading, one_line, shield
from cortex.engine.readers.safe_zip import Archive, descendants

# Most cells of a document.
MAX_CELLS = 200_000
# Most characters of all its cells: a string that many cells share takes little space in the file.
MAX_CHARACTERS = 20_000_000
MAX_COLUMNS = 1_000
SNIFFED_LINES = 20
_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[-+]?[\d.,\s%$€£]*\d[\d.,\s%$€£]*|\d{4}-\d\d-\d\d.*")
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_DATE_CODE = re.compile(r"[ymdhs]", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.')
_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)  # noqa: DTZ001 (a sheet knows no zone)
# The last day of the year 9999.
_MAX_SERIAL = 2_958_466


def read_csv(text: str) -> str:
    """Convert CSV to one line per row."""
    csv.field_size_limit(10_000_000)
    sample = text.split("\n", SNIFFED_LINES)[:SNIFFED_LINES]
    try:
        rows = list(
            _bounded(csv.reader(io.StringIO(text), delimiter=_delimiter(sample), strict=False))
        )
    except csv.Error:
        return text
    return "\n".join(_lines(rows))


def read_xlsx(archive: Archive) -> str:
    """Convert a workbook to a heading and rows for each sheet.

    Raises: Unreadable.
    """
    relations = archive.relations(archive.main)
    others = {kind: name for kind, name in relations.values() if name in archive}
    workbook = archive.xml(archive.main)
    strings = (
        [_shared_string(entry) for entry in archive.elements(others["sharedStrings"], "si")]
        if "sharedStrings" in others
        else []
    )
    date_styles = _date_styles(archive.xml(others["styles"])) if "styles" in others else frozenset()
    start = (
        _EPOCH_1904
        if any(
            properties.get("date1904") in ("1", "true")
            for properties in workbook.findall("workbookPr")
        )
        else _EPOCH
    )
    budget = _Budget()
    blocks: list[str] = []
    for sheet in descendants(workbook, "sheet"):
        name = relations.get(sheet.get("r:id", ""), ("", ""))[1]
        if name not in archive or budget.left <= 0:
            continue
        rows = list(budget.bound(_rows(archive.elements(name, "row"), strings, date_styles, start)))
        if lines := list(_lines(rows)):
            blocks.append(heading(1, sheet.get("name", "")) + "\n\n" + "\n".join(lines))
    return "\n\n".join(blocks)


class _Budget:
    """Cells and characters that a document may still produce."""

    def __init__(self) -> None:
        self.left = MAX_CELLS
        self._room = MAX_CHARACTERS

    def bound(self, rows: Iterable[list[str]]) -> Iterator[list[str]]:
        for row in rows:
            if self.left <= 0 or self._room <= 0:
                limit = (
                    f"{MAX_CELLS:,} cells" if self.left <= 0 else f"{MAX_CHARACTERS:,} characters"
                )
                self.left = 0
                yield [f"[more rows follow; {limit} are read]"]
                return
            self.left -= max(1, len(row))
            self._room -= sum(map(len, row))
            yield row[:MAX_COLUMNS]


def _bounded(rows: Iterable[list[str]]) -> Iterator[list[str]]:
    return _Budget().bound(rows)


def _delimiter(sample: list[str]) -> str:
    """Guess the delimiter: the one in most lines, with the same count if possible."""

    def score(mark: str) -> tuple[int, int]:
        counts = [line.count(mark) for line in sample if line.strip()]
        usual = max(set(counts), key=counts.count) if counts else 0
        return (counts.count(usual) if usual else 0, usual)

    return max(_DELIMITERS, key=score)


def _lines(rows: list[list[str]]) -> Iterator[str]:
    """Format rows as lines, each value after the name of its column if there is a header."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    filled = [index for index, row in enumerate(rows) if any(row)]
    if not filled:
        return
    first = filled[0]
    names = rows[first] if _is_header(rows, filled) else []
    for index in range(first, filled[-1] + 1):
        row = rows[index]
        if index == first or not names or len([cell for cell in row if cell]) == 1:
            yield shield(" | ".join(cell for cell in row if cell))
        else:
            yield shield(
                " | ".join(_named(names, column, cell) for column, cell in enumerate(row) if cell)
            )


def _named(names: list[str], column: int, cell: str) -> str:
    name = names[column] if column < len(names) else ""
    return f"{name}: {cell}" if name else cell


def _is_header(rows: list[list[str]], filled: list[int]) -> bool:
    """True if the first row names columns.

    Its cells are several, different, short and no numbers, and the rows below are about as wide.
    """
    row = [cell for cell in rows[filled[0]] if cell]
    if len(row) < 2 or len(filled) < 2 or len(set(row)) < len(row):
        return False
    width = max(len([cell for cell in rows[index] if cell]) for index in filled[1:50])
    return len(row) >= width / 2 and not any(
        len(cell) > 60 or _NUMBER.fullmatch(cell) for cell in row
    )


def _shared_string(entry: Element) -> str:
    return "".join(text.text or "" for text in descendants(entry, "t", frozenset({"rPh"})))


def _rows(
    rows: Iterable[Element], strings: list[str], date_styles: frozenset[int], start: datetime
) -> Iterator[list[str]]:
    previous = 0
    for row in rows:
        row_number = row.get("r", "")
        if row_number.isdecimal() and previous and int(row_number) > previous + 1:
            # A gap of any size becomes one blank line.
            yield []
        previous = int(row_number) if row_number.isdecimal() else previous + 1
        cells: list[str] = []
        for cell in row:
            if reference := _REFERENCE.fullmatch(cell.get("r", "")):
                column = _column(reference[1])
                if column < MAX_COLUMNS:
                    cells.extend([""] * (column - len(cells)))
            cells.append(_cell(cell, strings, date_styles, start))
        yield cells


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _cell(cell: Element, strings: list[str], date_styles: frozenset[int], start: datetime) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _shared_string(cell)
    value_element = cell.find("v")
    value = (value_element.text or "") if value_element is not None else ""
    if kind == "s":
        return strings[int(value)] if value.isdecimal() and int(value) < len(strings) else ""
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind != "n" or not value:
        return value
    style = cell.get("s", "")
    return (
        _date(value, start) if style.isdecimal() and int(style) in date_styles else _number(value)
    )


def _number(value: str) -> str:
    """Format a number without the noise of binary fractions: 0.30000000000000004 is 0.3."""
    try:
        return f"{float(value):.15g}" if "." in value or "e" in value.lower() else value
    except ValueError:
        return value


def _date(value: str, start: datetime) -> str:
    try:
        serial = float(value)
    except ValueError:
        return value
    if not 0 <= serial < _MAX_SERIAL:
        return value
    date = start + timedelta(days=serial)
    if serial < 1:
        return date.strftime("%H:%M:%S")
    whole = serial == int(serial)
    return (
        date.strftime("%Y-%m-%d")
        if whole
        else (date + timedelta(milliseconds=500)).strftime("%Y-%m-%d %H:%M:%S")
    )


def _date_styles(root: Element) -> frozenset[int]:
    """Indexes of the cell styles that show a date or a time."""
    custom_formats = {
        int(form.get("numFmtId", "0"))
        for form in descendants(root, "numFmt")
        if _DATE_CODE.search(_QUOTED.sub("", form.get("formatCode", "").partition(";")[0]))
    }
    formats = root.find("cellXfs")
    styles = enumerate(formats) if formats is not None else ()
    return frozenset(
        index
        for index, form in styles
        if int(form.get("numFmtId", "0")) in custom_formats | _DATE_FORMATS
    )
