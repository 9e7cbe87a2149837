"""Zip archives with XML parts (office files, books), read defensively.

A small file can unpack to terabytes, and a few lines of XML to gigabytes. So unpacking is bounded
by the declared sizes and again by the actual output, and an XML part with a document type is
rejected: no office program writes one, and entities need one. Road not taken: defusedxml, for
thirty lines; lxml, with a faster tree but a large native library.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator
from functools import cached_property
from urllib.parse import unquote
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from cortex.engine.readers.unreadable import Unreadable

MAX_UNPACKED_BYTES = 200_000_000
# Real office files and books are below 50 as a whole.
MAX_RATIO = 200
# Below this size any ratio is harmless.
SMALL_BYTES = 10_000_000
MAX_PARTS = 20_000
MAX_DEPTH = 256
MAX_ELEMENTS = 3_000_000
_BLOCK_BYTES = 1 << 16
_MAIN_PARTS = ("word/document.xml", "ppt/presentation.xml", "xl/workbook.xml")
# Suffix of the namespace of references.
_RELATION = "relationships"


class Archive:
    """Parts of a zip archive, read within limits that apply to all of them together."""

    def __init__(self, raw: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(raw))
            parts = self._zip.infolist()
        except Exception as error:
            # Broken archives raise all kinds of exceptions.
            raise Unreadable("damaged: not a whole archive") from error
        if len(parts) > MAX_PARTS:
            raise Unreadable(f"too many parts: {len(parts)}")
        declared = sum(part.file_size for part in parts)
        if declared > MAX_UNPACKED_BYTES or (
            declared > SMALL_BYTES and declared > MAX_RATIO * len(raw)
        ):
            raise Unreadable(f"unpacks to {declared / 1e6:,.0f} MB")
        self._parts = {part.filename.lstrip("/"): part for part in parts}
        self._by_folded_name = {name.casefold(): name for name in self._parts}
        self._left = MAX_UNPACKED_BYTES

    def __contains__(self, name: str) -> bool:
        return self._name_of(name) in self._parts

    def _name_of(self, name: str) -> str:
        return name if name in self._parts else self._by_folded_name.get(name.casefold(), "")

    def read(self, name: str) -> bytes:
        """Read the bytes of a part.

        Raises: Unreadable.
        """
        return b"".join(self._pieces(name))

    def xml(self, name: str) -> Element:
        """Parse a part as a tree, see `parse_xml`.

        Raises: Unreadable.
        """
        return parse_xml(self.read(name), name)

    def elements(self, name: str, tag: str) -> Iterator[Element]:
        """Yield the elements with this tag one by one, so that a large part can be read in part.

        Raises: Unreadable.
        """
        parser = _Parser(name, tag)
        for piece in self._pieces(name):
            parser.feed(piece)
            yield from parser.taken()
        parser.feed(b"", last=True)
        yield from parser.taken()

    def _pieces(self, name: str) -> Iterator[bytes]:
        part = self._parts.get(self._name_of(name))
        if part is None:
            raise Unreadable(f"damaged: {name} is missing")
        if part.flag_bits & 1:
            raise Unreadable("encrypted")
        try:
            with self._zip.open(part) as stream:
                # A header can lie about the size.
                while piece := stream.read(_BLOCK_BYTES):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise Unreadable(
                            f"unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000} MB"
                        )
                    yield piece
        except (Unreadable, MemoryError):
            raise
        except Exception as error:
            # Each compression method has errors of its own.
            raise Unreadable(f"damaged: {name} can't be unpacked") from error

    @cached_property
    def main(self) -> str:
        """Name of the main part of an office file, "" if there is none."""
        named = [name for kind, name in self.relations("").values() if kind == "officeDocument"]
        return next((name for name in [*named, *_MAIN_PARTS] if name in self), "")

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Relations of a part by id: the kind (last word of its type) and the other part's name."""
        folder, _, name = part.rpartition("/")
        path = f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels"
        if path not in self:
            return {}
        out: dict[str, tuple[str, str]] = {}
        for relation in self.xml(path):
            if relation.get("TargetMode") != "External":
                kind = relation.get("Type", "").rpartition("/")[2]
                out[relation.get("Id", "")] = kind, resolve(folder, relation.get("Target", ""))
        return out


def resolve(folder: str, target: str) -> str:
    """Resolve the part name `target` relative to `folder`."""
    target = unquote(target.partition("#")[0])
    return posixpath.normpath(posixpath.join("/" + folder, target)).lstrip("/")


def parse_xml(raw: bytes, name: str = "the XML") -> Element:
    """Parse XML to elements with local names.

    Attributes have local names too, but references to other parts are "r:id" and the like.

    Raises: Unreadable.
    """
    parser = _Parser(name)
    parser.feed(raw, last=True)
    return parser.taken()[0]


class _Parser:
    """Streaming XML parser: one tree of everything, or one for each element named `tag`.

    Trees are dropped once they are taken.
    """

    def __init__(self, name: str, tag: str = "") -> None:
        self._name, self._tag = name, tag
        self._builder: TreeBuilder | None = None
        self._ready: list[Element] = []
        self._depth = self._count = self._tree_depth = 0
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._parser.EntityDeclHandler = _reject_declaration

    def feed(self, raw: bytes, last: bool = False) -> None:
        try:
            self._parser.Parse(raw, last)
        except (expat.ExpatError, ValueError, LookupError) as error:
            raise Unreadable(f"damaged: {self._name} is no whole XML") from error

    def taken(self) -> list[Element]:
        ready, self._ready = self._ready, []
        return ready

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
        if self._builder is None:
            if self._tag not in ("", tag):
                return
            self._builder, self._tree_depth = TreeBuilder(), self._depth
            self._count = 0 if self._tag else self._count
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise Unreadable("too many elements")
        self._builder.start(tag, {_local(key): value for key, value in attributes.items()})

    def _end(self, name: str) -> None:
        if self._builder is not None:
            self._builder.end(name.rpartition(" ")[2])
            if self._depth == self._tree_depth:
                self._ready.append(self._builder.close())
                self._builder = None
        self._depth -= 1

    def _text(self, text: str) -> None:
        if self._builder is not None:
            self._builder.data(text)


def _reject_declaration(*_: object) -> None:
    raise Unreadable("declares XML entities")


def _local(name: str) -> str:
    space, _, local = name.rpartition(" ")
    return f"r:{local}" if space.endswith(_RELATION) else local


def descendants(
    element: Element, tag: str, skip: frozenset[str] = frozenset()
) -> Iterator[Element]:
    """Yield the elements with this tag below `element`, without descending into `skip`."""
    for child in element:
        if child.tag in skip:
            continue
        if child.tag == tag:
            yield child
        yield from descendants(child, tag, skip)
