"""Word documents to Markdown: headings, paragraphs, numbered lists, tables, notes.

Lists and headings keep the numbers that a person sees. Page headers and footers, comments, deleted
and hidden text and a table of contents are left out. Measured against a general extraction library,
which lost list marks, heading numbers and nesting; the format is plain XML, so there is no
dependency.
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
# Elements that may wrap rows and cells.
_WRAPPERS = frozenset({"sdt", "sdtContent", "ins", "moveTo", "customXml"})
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
    """Lists of a document: their definitions and counters."""

    # Definition of each list, by list id.
    kinds: dict[str, str] = field(default_factory=dict)
    levels: dict[str, dict[int, _Level]] = field(default_factory=dict)
    restarts: dict[str, dict[int, int]] = field(default_factory=dict)
    # Last number of each level, by definition.
    counts: dict[str, list[int | None]] = field(default_factory=dict)

    def label(self, list_id: str, depth: int) -> str:
        """Return the label of the next paragraph in this list: "-", a printed number, or ""."""
        kind = self.kinds.get(list_id, "")
        levels = self.levels.get(kind, {})
        level = levels.get(depth)
        if level is None or level.form == "none":
            return ""
        counts = self.counts.setdefault(kind, [None] * (MAX_LEVEL + 1))
        for level_index, start in self.restarts.pop(list_id, {}).items():
            counts[level_index] = start - 1
        last = counts[depth]
        counts[depth] = level.start if last is None else last + 1
        counts[depth + 1 :] = [None] * (MAX_LEVEL - depth)
        if level.form == "bullet":
            return "-"

        def shown(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            other = levels.get(index)
            if other is None:
                return ""
            value = counts[index]
            return counted(other.start if value is None else value, other.form)

        return re.sub(r"%([1-9])", shown, level.text).strip()


def read_docx(archive: Archive) -> str:
    """Convert the document to Markdown.

    Raises: Unreadable.
    """
    return _Reader(archive).text()


class _Reader:
    def __init__(self, archive: Archive) -> None:
        related = archive.relations(archive.main).values()
        parts = {kind: name for kind, name in related if name in archive}
        self._body = archive.xml(archive.main).find("body")
        self._paragraph_styles, self._default_style = (
            _paragraph_styles(archive.xml(parts["styles"])) if "styles" in parts else ({}, "")
        )
        self._list_numbering = (
            _list_numbering(archive.xml(parts["numbering"]))
            if "numbering" in parts
            else _Numbering()
        )
        self._notes: list[str] = []
        self._note_elements = {
            tag: {note.get("id", ""): note for note in archive.xml(parts[f"{tag}s"])}
            for tag in ("footnote", "endnote")
            if f"{tag}s" in parts
        }

    def text(self) -> str:
        if self._body is None:
            raise Unreadable("damaged: no body")
        blocks = _group_blocks(self._blocks(self._body))
        return "\n\n".join([*blocks, *self._notes])

    def _blocks(self, parent: Element) -> Iterator[tuple[str, str]]:
        """Yield (kind, text) of every block; adjacent "list" and "code" blocks belong together."""
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
        names = [self._paragraph_styles[style_id].name for style_id in self._chain(style)]
        if text.strip() and not any(_CONTENTS_NAME.match(name) for name in names):
            level = self._heading_level(properties, style, names)
            list_id, depth = self._list_position(properties, style)
            label = self._list_numbering.label(list_id, depth) if list_id not in ("", "0") else ""
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
        """Yield a style and the styles that it is based on."""
        seen: set[str] = set()
        while style in self._paragraph_styles and style not in seen:
            seen.add(style)
            yield style
            style = self._paragraph_styles[style].base

    def _heading_level(self, properties: Element | None, style: str, names: list[str]) -> int:
        if "title" in names[:1]:
            return 1
        own = _value(properties, "outlineLvl")
        if own.isdecimal():
            return int(own) + 1 if int(own) < MAX_LEVEL else 0
        for style_id in self._chain(style):
            outline = self._paragraph_styles[style_id].outline
            if outline is not None:
                return outline + 1 if outline < MAX_LEVEL else 0
            if match := _HEADING_NAME.match(self._paragraph_styles[style_id].name):
                return int(match[1])
        return 0

    def _list_position(self, properties: Element | None, style: str) -> tuple[str, int]:
        """Id of the list that a paragraph belongs to, "" for none, and its depth in it."""
        own = properties.find("numPr") if properties is not None else None
        list_id, depth = _value(own, "numId"), _value(own, "ilvl")
        for style_id in self._chain(style):
            list_id = list_id or self._paragraph_styles[style_id].number or ""
            inherited = self._paragraph_styles[style_id].depth
            depth = depth or ("" if inherited is None else str(inherited))
        return list_id, min(int(depth), MAX_LEVEL - 1) if depth.isdecimal() else 0

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
        # Each note is read once: one that refers to itself would never end.
        note = self._note_elements.get(kind, {}).pop(key, None)
        if note is None:
            return ""
        mark = f"[^{len(self._notes) + 1}]"
        # Reserve the place first, because a note can contain another.
        self._notes.append("")
        index = len(self._notes) - 1
        self._notes[index] = f"{mark}: " + one_line(
            " ".join(text for _, text in self._blocks(note))
        )
        return mark

    def _table(self, element: Element) -> str:
        rows: list[list[str]] = []
        for row in _unwrapped(element, "tr"):
            cells: list[str] = []
            for cell in _unwrapped(row, "tc"):
                properties = cell.find("tcPr")
                merge = properties.find("vMerge") if properties is not None else None
                is_continued = merge is not None and merge.get("val") != "restart"
                cells.append(
                    "" if is_continued else " ".join(text for _, text in self._blocks(cell))
                )
                span = _value(properties, "gridSpan")
                cells.extend([""] * (min(int(span), 100) - 1 if span.isdecimal() else 0))
            rows.append(cells)
        return table(rows)


def _unwrapped(element: Element, tag: str) -> Iterator[Element]:
    """Yield the rows of a table or the cells of a row, also inside wrapper elements."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _unwrapped(child, tag)


def _group_blocks(blocks: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Group the entries of one list and the lines of one listing."""
    group: list[str] = []
    before = ""
    for kind, text in blocks:
        if not text:
            continue
        if group and not (kind == before and kind in ("list", "code")):
            yield _render_group(before, group)
            group = []
        group.append(text)
        before = kind
    if group:
        yield _render_group(before, group)


def _render_group(kind: str, lines: list[str]) -> str:
    return fence("\n".join(lines)) if kind == "code" else "\n".join(lines)


def _value(element: Element | None, tag: str) -> str:
    child = element.find(tag) if element is not None else None
    return child.get("val", "") if child is not None else ""


def _is_hidden(run: Element) -> bool:
    properties = run.find("rPr")
    mark = properties.find("vanish") if properties is not None else None
    return mark is not None and mark.get("val", "1") not in ("0", "false", "off")


def _paragraph_styles(root: Element) -> tuple[dict[str, _Style], str]:
    """Read paragraph styles by id, and the id of the default style."""
    out: dict[str, _Style] = {}
    default = ""
    for style in root.findall("style"):
        if style.get("type", "paragraph") != "paragraph":
            continue
        key = style.get("styleId", "")
        properties = style.find("pPr")
        list_properties = properties.find("numPr") if properties is not None else None
        outline, depth = _value(properties, "outlineLvl"), _value(list_properties, "ilvl")
        out[key] = _Style(
            name=_value(style, "name").lower(),
            base=_value(style, "basedOn"),
            outline=int(outline) if outline.isdecimal() else None,
            number=_value(list_properties, "numId") or None,
            depth=int(depth) if depth.isdecimal() else None,
        )
        if style.get("default") in ("1", "true"):
            default = key
    return out, default


def _list_numbering(root: Element) -> _Numbering:
    out = _Numbering()
    # Definitions that only point to a list style.
    links: dict[str, str] = {}
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
    for list_element in root.findall("num"):
        key = list_element.get("numId", "")
        kind = _value(list_element, "abstractNumId")
        levels = {
            int(override.get("ilvl", "0")): override
            for override in list_element.findall("lvlOverride")
        }
        # The list overrides its definition.
        if any(override.find("lvl") is not None for override in levels.values()):
            own = {
                level_index: _level(level)
                for level_index, override in levels.items()
                if (level := override.find("lvl")) is not None
            }
            out.levels[f"{kind}:{key}"] = {**out.levels.get(kind, {}), **own}
            kind = f"{kind}:{key}"
        out.kinds[key] = kind
        restarts = {
            level_index: _value(override, "startOverride")
            for level_index, override in levels.items()
        }
        out.restarts[key] = {
            level_index: int(start)
            for level_index, start in restarts.items()
            if start.isdecimal() and level_index <= MAX_LEVEL
        }
    return out


def _level(level: Element) -> _Level:
    start = _value(level, "start")
    return _Level(
        _value(level, "numFmt") or "decimal",
        _value(level, "lvlText"),
        int(start) if start.isdecimal() else 1,
    )
