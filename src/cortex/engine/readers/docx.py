"""Word documents: headings, paragraphs, lists with the numbers that a person sees, tables, foot and
end notes.

Left out is what isn't the text: page headers and footers, comments, deleted and hidden text, a
table of contents. Measured against a general extraction library that lost list marks, numbers of
headings and nesting; the format is plain XML, so there is no dependency.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from cortex.engine.readers.list_numbers import counted
from cortex.engine.readers.markdown_writer import fence, heading, indent, one_line, shield, table
from cortex.engine.readers.safe_zip import Archive
from cortex.engine.readers.unreadable import Unreadable

_HEADING_NAME = re.compile(r"heading ([1-9])$")
_CONTENTS_NAME = re.compile(r"(?:toc [1-9]|toc heading|table of figures)$")
_CODE_NAME = re.compile(
    r"(?:.*\bcode\b.*|html preformatted|plain text|preformatted text|source.*)$"
)
_WRAPPERS = frozenset({"sdt", "sdtContent", "ins", "moveTo", "customXml"})  # around rows and cells
_SKIPPED = frozenset(
    {"del", "moveFrom", "Fallback", "instrText", "delText", "rPr", "pPr", "sdtPr", "sectPr"}
)
_TEXT = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "softHyphen": "", "ptab": "\t"}
MAX_LEVEL = 9


@dataclass(slots=True)
class _Style:
    name: str = ""
    base: str = ""
    outline: int | None = None
    number: str | None = None
    depth: int | None = None


@dataclass(slots=True)
class _Level:
    form: str
    text: str
    start: int


@dataclass(slots=True)
class _Numbering:
    """The lists of a document: definitions, and how far each has counted."""

    kinds: dict[str, str] = field(default_factory=dict)  # list id to its definition
    levels: dict[str, dict[int, _Level]] = field(default_factory=dict)
    restarts: dict[str, dict[int, int]] = field(default_factory=dict)
    # Of a definition: the last number of each level
    counts: dict[str, list[int | None]] = field(default_factory=dict)

    def label(self, number: str, depth: int) -> str:
        """What stands before the next paragraph of this list: "-" or a number as it is printed; ""
        for nothing.
        """
        kind = self.kinds.get(number, "")
        levels = self.levels.get(kind, {})
        level = levels.get(depth)
        if level is None or level.form == "none":
            return ""
        counts = self.counts.setdefault(kind, [None] * (MAX_LEVEL + 1))
        for deep, start in self.restarts.pop(number, {}).items():
            counts[deep] = start - 1
        last = counts[depth]
        counts[depth] = level.start if last is None else last + 1
        counts[depth + 1 :] = [None] * (MAX_LEVEL - depth)
        if level.form == "bullet":
            return "-"

        def shown(found: re.Match[str]) -> str:
            at = int(found[1]) - 1
            other = levels.get(at)
            if other is None:
                return ""
            value = counts[at]
            return counted(other.start if value is None else value, other.form)

        return re.sub(r"%([1-9])", shown, level.text).strip()


def read_docx(archive: Archive, main: str) -> str:
    """The document as Markdown. Raises: Unreadable."""
    return _Reader(archive, main).text()


class _Reader:
    def __init__(self, archive: Archive, main: str) -> None:
        parts = {kind: name for kind, name in archive.relations(main).values() if name in archive}
        self._body = archive.xml(main).find("body")
        self._styles, self._default_style = (
            _styles(archive.xml(parts["styles"])) if "styles" in parts else ({}, "")
        )
        self._numbering = (
            _numbering(archive.xml(parts["numbering"])) if "numbering" in parts else _Numbering()
        )
        self._notes: list[str] = []
        self._texts = {
            tag: {note.get("id", ""): note for note in archive.xml(parts[f"{tag}s"])}
            for tag in ("footnote", "endnote")
            if f"{tag}s" in parts
        }

    def text(self) -> str:
        if self._body is None:
            raise Unreadable("damaged: no body")
        blocks = _joined(self._blocks(self._body))
        return "\n\n".join([*blocks, *self._notes])

    def _blocks(self, parent: Element) -> Iterator[tuple[str, str]]:
        """(kind, text) of every block: "list" and "code" stand close together, others apart."""
        for child in parent:
            if child.tag == "p":
                yield from self._paragraph(child)
            elif child.tag == "tbl":
                yield "table", self._table(child)
            elif child.tag not in _SKIPPED:
                yield from self._blocks(child)

    def _paragraph(self, paragraph: Element) -> Iterator[tuple[str, str]]:
        boxes: list[Element] = []
        text = "".join(self._runs(paragraph, boxes)).strip("\n")
        properties = paragraph.find("pPr")
        style = _value(properties, "pStyle") or self._default_style
        names = [self._styles[each].name for each in self._chain(style)]
        if text.strip() and not any(_CONTENTS_NAME.match(name) for name in names):
            level = self._heading_level(properties, style, names)
            number, depth = self._list_place(properties, style)
            label = self._numbering.label(number, depth) if number not in ("", "0") else ""
            if level:
                yield "heading", heading(level, f"{'' if label == '-' else label} {text}")
            elif label:
                yield "list", "  " * depth + indent(f"{label} {text.strip()}", 2 * depth + 2)
            elif any(_CODE_NAME.match(name) for name in names):
                yield "code", text
            else:
                yield "text", shield(text.strip())
        for box in boxes:
            yield from self._blocks(box)

    def _chain(self, style: str) -> Iterator[str]:
        """A style and those that it is based on."""
        seen: set[str] = set()
        while style in self._styles and style not in seen:
            seen.add(style)
            yield style
            style = self._styles[style].base

    def _heading_level(self, properties: Element | None, style: str, names: list[str]) -> int:
        if "title" in names[:1]:
            return 1
        own = _value(properties, "outlineLvl")
        if own.isdecimal():
            return int(own) + 1 if int(own) < MAX_LEVEL else 0
        for each in self._chain(style):
            outline = self._styles[each].outline
            if outline is not None:
                return outline + 1 if outline < MAX_LEVEL else 0
            if named := _HEADING_NAME.match(self._styles[each].name):
                return int(named[1])
        return 0

    def _list_place(self, properties: Element | None, style: str) -> tuple[str, int]:
        """The id of the list that a paragraph belongs to, "" for none, and how deep it is."""
        own = properties.find("numPr") if properties is not None else None
        number, depth = _value(own, "numId"), _value(own, "ilvl")
        for each in self._chain(style):
            number = number or self._styles[each].number or ""
            inherited = self._styles[each].depth
            depth = depth or ("" if inherited is None else str(inherited))
        return number, min(int(depth), MAX_LEVEL - 1) if depth.isdecimal() else 0

    def _runs(self, parent: Element, boxes: list[Element]) -> Iterator[str]:
        for child in parent:
            tag = child.tag
            if tag == "t":
                yield child.text or ""
            elif tag in _TEXT:
                yield _TEXT[tag]
            elif tag == "txbxContent":
                boxes.append(child)
            elif tag in ("footnoteReference", "endnoteReference"):
                yield self._note(tag.removesuffix("Reference"), child.get("id", ""))
            elif tag not in _SKIPPED and not (tag == "r" and _is_hidden(child)):
                yield from self._runs(child, boxes)

    def _note(self, kind: str, key: str) -> str:
        # Once: a note that refers to itself has no end
        note = self._texts.get(kind, {}).pop(key, None)
        if note is None:
            return ""
        mark = f"[^{len(self._notes) + 1}]"
        self._notes.append("")  # a place, for a note can hold another
        place = len(self._notes) - 1
        self._notes[place] = f"{mark}: " + one_line(
            " ".join(text for _, text in self._blocks(note))
        )
        return mark

    def _table(self, element: Element) -> str:
        rows: list[list[str]] = []
        for row in _inside(element, "tr"):
            cells: list[str] = []
            for cell in _inside(row, "tc"):
                properties = cell.find("tcPr")
                merge = properties.find("vMerge") if properties is not None else None
                goes_on = merge is not None and merge.get("val") != "restart"
                cells.append("" if goes_on else " ".join(text for _, text in self._blocks(cell)))
                span = _value(properties, "gridSpan")
                cells.extend([""] * (min(int(span), 100) - 1 if span.isdecimal() else 0))
            rows.append(cells)
        return table(rows)


def _inside(element: Element, tag: str) -> Iterator[Element]:
    """The rows of a table or the cells of a row, also where something is wrapped around them."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _inside(child, tag)


def _joined(blocks: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Blocks, with entries of one list and lines of one listing together."""
    group: list[str] = []
    before = ""
    for kind, text in blocks:
        if not text:
            continue
        if group and not (kind == before and kind in ("list", "code")):
            yield _group(before, group)
            group = []
        group.append(text)
        before = kind
    if group:
        yield _group(before, group)


def _group(kind: str, lines: list[str]) -> str:
    return fence("\n".join(lines)) if kind == "code" else "\n".join(lines)


def _value(element: Element | None, tag: str) -> str:
    child = element.find(tag) if element is not None else None
    return child.get("val", "") if child is not None else ""


def _is_hidden(run: Element) -> bool:
    properties = run.find("rPr")
    mark = properties.find("vanish") if properties is not None else None
    return mark is not None and mark.get("val", "1") not in ("0", "false", "off")


def _styles(root: Element) -> tuple[dict[str, _Style], str]:
    """Paragraph styles by id, and the id of the one that paragraphs have by default."""
    out: dict[str, _Style] = {}
    default = ""
    for style in root.findall("style"):
        if style.get("type", "paragraph") != "paragraph":
            continue
        key = style.get("styleId", "")
        properties = style.find("pPr")
        number = properties.find("numPr") if properties is not None else None
        outline, depth = _value(properties, "outlineLvl"), _value(number, "ilvl")
        out[key] = _Style(
            name=_value(style, "name").lower(),
            base=_value(style, "basedOn"),
            outline=int(outline) if outline.isdecimal() else None,
            number=_value(number, "numId") or None,
            depth=int(depth) if depth.isdecimal() else None,
        )
        if style.get("default") in ("1", "true"):
            default = key
    return out, default


def _numbering(root: Element) -> _Numbering:
    out = _Numbering()
    links: dict[str, str] = {}  # definitions that only point to a list style
    owners: dict[str, str] = {}
    for kind in root.findall("abstractNum"):
        key = kind.get("abstractNumId", "")
        out.levels[key] = {
            int(level.get("ilvl", "0")): _level(level) for level in kind.findall("lvl")
        }
        if link := _value(kind, "numStyleLink"):
            links[key] = link
        if owner := _value(kind, "styleLink"):
            owners[owner] = key
    for key, link in links.items():
        out.levels[key] = out.levels.get(owners.get(link, ""), {})
    for number in root.findall("num"):
        key = number.get("numId", "")
        kind = _value(number, "abstractNumId")
        levels = {int(each.get("ilvl", "0")): each for each in number.findall("lvlOverride")}
        if any(each.find("lvl") is not None for each in levels.values()):  # a definition of its own
            own = {
                deep: _level(level)
                for deep, each in levels.items()
                if (level := each.find("lvl")) is not None
            }
            out.levels[f"{kind}:{key}"] = {**out.levels.get(kind, {}), **own}
            kind = f"{kind}:{key}"
        out.kinds[key] = kind
        restarts = {deep: _value(each, "startOverride") for deep, each in levels.items()}
        out.restarts[key] = {
            deep: int(start)
            for deep, start in restarts.items()
            if start.isdecimal() and deep <= MAX_LEVEL
        }
    return out


def _level(level: Element) -> _Level:
    start = _value(level, "start")
    return _Level(
        _value(level, "numFmt") or "decimal",
        _value(level, "lvlText"),
        int(start) if start.isdecimal() else 1,
    )
