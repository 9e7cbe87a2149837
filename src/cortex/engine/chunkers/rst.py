"""reStructuredText headings: titles with an underline, and optionally an overline.

The order in which adornments first appear determines their levels, as in docutils. Everything else
is cut like Markdown.
"""

from __future__ import annotations

import re

from cortex.engine.chunkers.lines import Rows
from cortex.engine.chunkers.markdown import Heading, titled

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*")
_MARK = re.compile(r"^([=\-~*^#+])\1{2,}[ \t]*$", re.MULTILINE)
_ROLE = re.compile(r":[a-z:+-]{2,30}:(?=`)")
# Relative to the title: authors miscount, and wide characters count twice.
SHORTEST = 0.7


def rst_headings(rows: Rows) -> list[Heading]:
    """Find every heading; one with an overline begins there."""
    out: list[Heading] = []
    styles: list[str] = []
    lines = rows.lines
    # The first row after the last heading.
    free = 0
    for row in range(1, len(lines)):
        title = lines[row - 1]
        if (
            row - 1 < free
            or not _ADORNMENT.fullmatch(lines[row])
            or not _is_title(title, lines[row])
        ):
            continue
        above = lines[row - 2] if row >= 2 else ""
        overlined = (
            row - 2 >= free
            and bool(_ADORNMENT.fullmatch(above))
            and above.rstrip() == lines[row].rstrip()
        )
        if not overlined and (above.strip() or title[0] in " \t"):
            continue
        style = lines[row][0] * (1 + overlined)
        if style not in styles:
            styles.append(style)
        out.append((row - 1 - overlined, styles.index(style) + 1, titled(_ROLE.sub("", title))))
        free = row + 1
    return out


def is_sectioned(text: str) -> bool:
    """True if a plain text has at least two headings; one underlined line may be anything."""
    return _MARK.search(text) is not None and len(rst_headings(Rows(text))) > 1


def _is_title(title: str, adornment: str) -> bool:
    text = title.strip()
    if not text or _ADORNMENT.fullmatch(title):
        return False
    return len(adornment.rstrip()) >= SHORTEST * len(text)
