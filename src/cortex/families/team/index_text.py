"""Indexed text of a record: its title as a heading, its prose, tags, paths and ids.

A comment carries the title of its thread, so that it is found by the thread's subject. Drafts,
notifications, links and archived subcortexes are not indexed. Pure except for looking up a
comment's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from cortex.base.record_model import SENSITIVE, Body, CodeLink, Comment, Record, Subcortex, Term
from cortex.base.record_spec import FieldSpec, fields_of, spec_of
from cortex.base.settings import Settings
from cortex.base.text import hash_bytes
from cortex.base.types import Chunk, Cut
from cortex.engine import chunkers
from cortex.engine.store import IndexedText

VERSION = "1"
CHUNK_TOKENS = 500
LANGUAGE = "markdown"
# Between headings.
SEPARATOR = " > "
# Most sections of a record: the longest, with 50,000 characters, then has one for every hundred.
MOST_SECTIONS = 500

Get = Callable[[str], Record[Any] | None]


def wording(settings: Settings) -> Callable[[Record[Any], Get], IndexedText | None]:
    """Return the function that makes the indexed text of a record, for these settings."""

    def word(record: Record[Any], get: Get) -> IndexedText | None:
        title, text = text_of(record, get)
        if not text:
            return None
        is_private = record.body.sensitivity == SENSITIVE and not settings.team.embed_sensitive
        cut = _chunk(text)
        # Equal texts differ if one of them is private: vectors belong to a text, not to a record.
        salt = f"{VERSION}:{chunkers.VERSION}:{CHUNK_TOKENS}:{is_private}" + (
            "" if cut.language == LANGUAGE else ":lines"
        )
        key = hash_bytes(b"record", salt.encode(), title.encode("utf-8"), text.encode("utf-8"))
        if len(cut.chunks) > 1:
            cut = replace(cut, chunks=tuple(_with_title(chunk, title) for chunk in cut.chunks))
        return IndexedText(key, cut, meaning=not is_private)

    return word


def _chunk(text: str) -> Cut:
    """Cut a text by headings, or by lines if it has too many of them.

    By lines, only the first heading is a symbol, mostly the title.

    Each heading without text would be a chunk and a symbol of its own. 6,250 of them in one
    artifact made searches for that word take 4.5 s, and the write, which blocks all others, 0.25 s.
    """
    cut = chunkers.cut(text, "record.md", LANGUAGE, CHUNK_TOKENS, 0)
    if max(len(cut.chunks), len(cut.symbols)) <= MOST_SECTIONS:
        return cut
    return replace(
        chunkers.cut(text, "record.txt", "text", CHUNK_TOKENS, 0), symbols=cut.symbols[:1]
    )


def text_of(record: Record[Any], get: Get) -> tuple[str, str]:
    """Return the title and the indexed text of a record; "" if it isn't indexed."""
    body = record.body
    if not spec_of(type(body)).found:
        return "", ""
    title = body.title
    if isinstance(body, Comment):
        thread = get(body.thread)
        title = thread.body.title if thread else ""
    if isinstance(body, Subcortex) and body.state == "archived":
        return title, ""
    parts = [f"# {title}" if title else "", *_paragraphs(body)]
    return title, "\n\n".join(part for part in parts if part.strip()).strip() + "\n"


def _paragraphs(body: Body) -> Iterator[str]:
    """Iterate over the indexed texts in their order; lists in a row make one paragraph."""
    specs = sorted(
        (spec for spec in fields_of(type(body)).values() if spec.indexed),
        key=lambda spec: spec.indexed,
    )
    for is_list, group in groupby(specs, key=lambda spec: spec.part is not None):
        texts = [_text_of_field(getattr(body, spec.name), spec) for spec in group]
        yield from ["\n".join(filter(None, texts))] if is_list else texts


def _text_of_field(value: Any, spec: FieldSpec) -> str:
    """Return a text, or the elements of a list, one per line; tags are separated by commas."""
    if spec.part is None:
        return value
    return (", " if spec.name == "tags" else "\n").join(map(_line_of, value))


def _line_of(element: str | Term | CodeLink) -> str:
    match element:
        case Term():
            return f"{element.term}: {element.meaning}"
        case CodeLink():
            return f"{element.path} {element.symbol}".strip()
    return element


def about_of(body: Body) -> str:
    """Return a body's tags and code links, one per line."""
    fields = fields_of(type(body))
    specs = [fields[name] for name in ("tags", "code_links") if name in fields]
    return "\n".join(filter(None, (_text_of_field(getattr(body, s.name), s) for s in specs)))


def _with_title(chunk: Chunk, title: str) -> Chunk:
    """Prefix the heading path of a chunk with the record's title."""
    lacks_title = chunk.qualified != title and not chunk.qualified.startswith(title + SEPARATOR)
    return (
        replace(chunk, qualified=SEPARATOR.join(part for part in (title, chunk.qualified) if part))
        if lacks_title
        else chunk
    )
