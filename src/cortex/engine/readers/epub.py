"""EPUB books to Markdown: chapters in reading order, each under a heading."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from cortex.engine.readers.encodings import decode
from cortex.engine.readers.html import read_html
from cortex.engine.readers.markdown_writer import heading, one_line
from cortex.engine.readers.safe_zip import Archive, descendants, parse_xml, resolve
from cortex.engine.readers.unreadable import Unreadable

# A document type without declarations of its own is harmless.
_DOCTYPE = re.compile(rb"<!DOCTYPE[^>\[]*>", re.IGNORECASE)
_ENTITY = re.compile(r"<!ENTITY", re.IGNORECASE)
_LINK = re.compile(
    r"<a\b[^>]*\bhref\s*=\s*[\"']([^\"'#]+)[^>]*>(.*?)</a>", re.IGNORECASE | re.DOTALL
)
_TAG = re.compile(r"<[^>]*>")
_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})


def read_epub(archive: Archive) -> str:
    """Convert the book to Markdown.

    Raises: Unreadable.
    """
    if "META-INF/encryption.xml" in archive and "META-INF/rights.xml" in archive:
        raise Unreadable("encrypted: the book is protected")
    container = _xml(archive, "META-INF/container.xml")
    package = next((root.get("full-path", "") for root in descendants(container, "rootfile")), "")
    book = _xml(archive, package)
    folder = package.rpartition("/")[0]
    parts = {entry.get("id", ""): entry for entry in descendants(book, "item")}
    titles = _titles(archive, folder, parts)
    blocks = [heading(1, _metadata_text(book, "title")), _metadata_text(book, "creator")]
    for reference in descendants(book, "itemref"):
        part = parts.get(reference.get("idref", ""))
        if (
            part is None
            or part.get("media-type") not in _PAGES
            or "nav" in part.get("properties", "").split()
        ):
            continue
        name = resolve(folder, part.get("href", ""))
        blocks.append(_chapter(archive, name, titles.get(name, "")))
    if not any(blocks[2:]):
        raise Unreadable("no text in it")
    return "\n\n".join(block for block in blocks if block)


def _chapter(archive: Archive, name: str, title: str) -> str:
    page = decode(archive.read(name)) or ""
    text = read_html(
        re.sub(r"<title\b.*?</title>", "", page, count=1, flags=re.IGNORECASE | re.DOTALL)
    )
    if not text.strip():
        return ""
    has_heading = re.search(r"^#{1,6} ", text, re.MULTILINE) is not None
    return text if has_heading or not title else f"{heading(1, title)}\n\n{text}"


def _titles(archive: Archive, folder: str, parts: dict[str, Element]) -> dict[str, str]:
    """Chapter titles from the table of contents; the first one if there are several."""
    out: dict[str, str] = {}
    for part in parts.values():
        name = resolve(folder, part.get("href", ""))
        if name not in archive:
            continue
        here = name.rpartition("/")[0]
        if part.get("media-type") == "application/x-dtbncx+xml":
            for point in descendants(_xml(archive, name), "navPoint"):
                label, content = point.find("navLabel/text"), point.find("content")
                if label is not None and content is not None:
                    out.setdefault(
                        resolve(here, content.get("src", "")), one_line(label.text or "")
                    )
        elif "nav" in part.get("properties", "").split():
            for href, label in _LINK.findall(decode(archive.read(name)) or ""):
                out.setdefault(resolve(here, href), one_line(_TAG.sub("", label)))
    return out


def _xml(archive: Archive, name: str) -> Element:
    raw = archive.read(name)
    if _ENTITY.search(decode(raw) or ""):
        raise Unreadable("declares XML entities")
    return parse_xml(_DOCTYPE.sub(b"", raw, count=1), name)


def _metadata_text(book: Element, tag: str) -> str:
    element = next(descendants(book, tag), None)
    return one_line("".join(element.itertext())) if element is not None else ""
