"""Markdown output of the readers: tables, lists, fences, and escaping of plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Ends every page of a paged document.
PAGE_END = "\f"
MAX_HEADING_LEVEL = 6
_LIKE_MARK = re.compile(
    r"^(?= {0,3}(?:#{1,6}(?:[ \t]|$)|`{3}|~{3}|=+[ \t]*$|-{2,}[ \t]*$|\+{3}[ \t]*$))", re.MULTILINE
)


def one_line(text: str) -> str:
    """Collapse every run of white space to one space."""
    return " ".join(text.split())


def shield(text: str) -> str:
    """Escape what Markdown would take for a heading, a fence or a rule."""
    return _LIKE_MARK.sub(r"\\", text)


def heading(level: int, title: str) -> str:
    """Format a heading; "" for an empty title."""
    title = one_line(title)
    return f"{'#' * max(1, min(level, MAX_HEADING_LEVEL))} {title}" if title else ""


def fence(text: str, language: str = "") -> str:
    """Format text as a code block that its own backticks can't end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{text}\n{mark}"


def indent(text: str, by: int) -> str:
    """Indent all lines but the first, so that they belong to a list item."""
    return text.replace("\n", "\n" + " " * by)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of cells as a table; a single column becomes plain lines."""
    full = [[one_line(cell) for cell in row] for row in rows]
    full = [row for row in full if any(row)]
    width = max((len(row) for row in full), default=0)
    if width == 0:
        return ""
    if width == 1:
        return "\n".join(shield(row[0]) for row in full)
    lines = [
        "| "
        + " | ".join(cell.replace("|", "\\|") for cell in [*row, *[""] * (width - len(row))])
        + " |"
        for row in full
    ]
    if len(lines) > 1:
        lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def pages(texts: Iterable[str]) -> str:
    """Join pages, each ended by a line with a form feed."""
    return "".join(f"{text.strip()}\n{PAGE_END}\n" for text in texts)
