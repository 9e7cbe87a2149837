"""Indexed text of a record: its title as a heading, its prose, tags, paths and ids.

A comment carries the title of its thread, so that it is found by the thread's subject. Drafts,
notifications, links and archived subcortexes are not indexed. Pure except for looking up a
comment's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    Body,
    Comment,
    Observation,
    Record,
    Subcortex,
    Task,
    Thread,
)
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
    match record.body:
        case Subcortex() as body:
            words = [f"{term.term}: {term.meaning}" for term in body.glossary]
            parts = [body.description, body.charter, "\n".join((*words, *body.naming)), body.slug]
            return body.name, "" if body.state == "archived" else _join(body.name, parts)
        case Thread() as body:
            return body.title, _join(body.title, [body.body, body.resolution, about_of(body)])
        case Comment() as body:
            thread = get(body.thread)
            title = thread.body.title if thread else ""
            return title, _join(title, [body.body])
        case Observation() as body:
            return body.title, _join(body.title, [body.summary, about_of(body)])
        case Artifact() as body:
            return body.title, _join(body.title, [body.summary, body.body, about_of(body)])
        case Task() as body:
            return body.title, _join(
                body.title, [body.body, body.blocked_reason, body.notes, about_of(body)]
            )
    return "", ""


def _join(title: str, parts: list[str]) -> str:
    """Join the non-empty parts below the title."""
    return (
        "\n\n".join(
            part for part in (f"# {title}" if title else "", *parts) if part.strip()
        ).strip()
        + "\n"
    )


def about_of(body: Body) -> str:
    """Return a body's tags and code links, one per line."""
    links = [f"{link.path} {link.symbol}".strip() for link in getattr(body, "code_links", ())]
    return "\n".join(
        part for part in (", ".join(getattr(body, "tags", ())), "\n".join(links)) if part
    )


def _with_title(chunk: Chunk, title: str) -> Chunk:
    """Prefix the heading path of a chunk with the record's title."""
    lacks_title = chunk.qualified != title and not chunk.qualified.startswith(title + SEPARATOR)
    return (
        replace(chunk, qualified=SEPARATOR.join(part for part in (title, chunk.qualified) if part))
        if lacks_title
        else chunk
    )
