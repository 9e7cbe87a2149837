"""Presentations to Markdown: a page per slide with its title, bullets, tables and notes."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from cortex.engine.readers.list_numbers import counted
from cortex.engine.readers.markdown_writer import heading, indent, one_line, pages, shield, table
from cortex.engine.readers.safe_zip import Archive, descendants

_TITLES = frozenset({"title", "ctrTitle"})
_DECORATION = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})
_SHAPES = frozenset({"sp", "grpSp", "graphicFrame", "AlternateContent", "Choice"})
_FORMS = (
    ("arabic", "decimal"),
    ("alphaLc", "lowerLetter"),
    ("alphaUc", "upperLetter"),
    ("romanLc", "lowerRoman"),
    ("romanUc", "upperRoman"),
)
_NOT_IN_CELLS = frozenset({"tbl"})
MAX_LEVEL = 9


def read_pptx(archive: Archive) -> str:
    """Convert the presentation to Markdown, one page per slide.

    Raises: Unreadable.
    """
    relations = archive.relations(archive.main)
    order = [slide.get("r:id", "") for slide in descendants(archive.xml(archive.main), "sldId")]
    names = [
        relations[key][1] for key in order if key in relations and relations[key][1] in archive
    ]
    return pages(_slide(archive, name, number) for number, name in enumerate(names, start=1))


def _slide(archive: Archive, name: str, number: int) -> str:
    root = archive.xml(name)
    titles: list[str] = []
    blocks: list[str] = []
    for shape in _shapes(root):
        kind = _placeholder(shape)
        if kind in _DECORATION:
            continue
        if kind in _TITLES and not titles:
            titles.append(
                one_line(" ".join(_paragraph(paragraph) for paragraph in descendants(shape, "p")))
            )
            continue
        blocks.extend(_blocks(shape, bulleted=kind in ("body", "obj", "any")))
    for kind, related in archive.relations(name).values():
        if kind == "diagramData" and related in archive:
            words = (_paragraph(paragraph) for paragraph in descendants(archive.xml(related), "p"))
            blocks.append("\n".join(f"- {text}" for text in words if text.strip()))
        elif kind == "notesSlide" and related in archive:
            blocks.append(_notes(archive.xml(related)))
    title = next((title for title in titles if title), f"Slide {number}")
    return "\n\n".join([heading(1, title), *filter(None, blocks)])


def _shapes(parent: Element) -> Iterator[Element]:
    """Yield the shapes of a slide in z-order, with groups expanded.

    Authors mostly create shapes in reading order.
    """
    for child in parent:
        if child.tag in ("sp", "graphicFrame"):
            yield child
        elif child.tag in ("cSld", "spTree") or child.tag in _SHAPES:
            yield from _shapes(child)


def _placeholder(shape: Element) -> str:
    """Placeholder type of a shape: "title", "body", ...; "any" without a type, "" if it is none."""
    placeholder = next(descendants(shape, "ph"), None)
    return "" if placeholder is None else placeholder.get("type", "any")


def _blocks(shape: Element, bulleted: bool) -> Iterator[str]:
    for grid in descendants(shape, "tbl"):
        rows = [list(_cells(row)) for row in grid.findall("tr")]
        yield table(rows)
    for body in (child for child in shape if child.tag == "txBody"):
        yield "\n".join(_lines(body, bulleted))


def _cells(row: Element) -> Iterator[str]:
    for cell in row.findall("tc"):
        merged = cell.get("vMerge") in ("1", "true") or cell.get("hMerge") in ("1", "true")
        yield (
            ""
            if merged
            else " ".join(
                _paragraph(paragraph) for paragraph in descendants(cell, "p", _NOT_IN_CELLS)
            )
        )


def _lines(body: Element, bulleted: bool) -> Iterator[str]:
    counts = [0] * (MAX_LEVEL + 1)
    for paragraph in body.findall("p"):
        text = _paragraph(paragraph).strip()
        if not text:
            continue
        properties = paragraph.find("pPr")
        level = properties.get("lvl", "0") if properties is not None else "0"
        depth = min(int(level), MAX_LEVEL) if level.isdecimal() else 0
        mark = _label(properties, bulleted or depth > 0, counts, depth)
        counts[depth + 1 :] = [0] * (MAX_LEVEL - depth)
        lead = "  " * depth
        yield lead + indent(f"{mark} {text}", len(lead) + 2) if mark else shield(text)


def _label(properties: Element | None, bulleted: bool, counts: list[int], depth: int) -> str:
    """Label of a paragraph: from its own properties, else the default of its placeholder."""
    numbered = properties.find("buAutoNum") if properties is not None else None
    if numbered is None:
        counts[depth] = 0
    else:
        start = numbered.get("startAt", "1")
        counts[depth] = (
            counts[depth] + 1 if counts[depth] else (int(start) if start.isdecimal() else 1)
        )
        form = numbered.get("type", "arabicPeriod")
        name = next((name for prefix, name in _FORMS if form.startswith(prefix)), "decimal")
        return counted(counts[depth], name) + (")" if "Paren" in form else ".")
    if properties is not None and properties.find("buNone") is not None:
        return ""
    return (
        "-"
        if bulleted or (properties is not None and properties.find("buChar") is not None)
        else ""
    )


def _paragraph(paragraph: Element) -> str:
    out: list[str] = []
    for child in paragraph.iter():
        if child.tag == "t":
            out.append(child.text or "")
        elif child.tag == "br":
            out.append("\n")
    return "".join(out)


def _notes(root: Element) -> str:
    lines = [
        line
        for shape in _shapes(root)
        if _placeholder(shape) == "body"
        for body in shape.findall("txBody")
        for line in _lines(body, False)
    ]
    return "Notes: " + "\n".join(lines) if lines else ""
