"""What of a record is indexed: its title as a heading, what is said under it, and the tags, paths
and ids that people ask by.

A comment carries the title of its thread, so that it is found by what the thread is about. Drafts,
notifications and links aren't found, nor is what was archived as a topic. Pure but for the look-up
of a comment's thread.
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
SEPARATOR = " > "  # between headings
# Of a record: the longest, with 50,000 characters, has one in every hundred of them then
MOST_SECTIONS = 500

Get = Callable[[str], Record[Any] | None]


def wording(settings: Settings) -> Callable[[Record[Any], Get], IndexedText | None]:
    """How records are found, as these settings have it."""

    def word(record: Record[Any], get: Get) -> IndexedText | None:
        title, text = text_of(record, get)
        if not text:
            return None
        private = record.body.sensitivity == SENSITIVE and not settings.team.embed_sensitive
        cut = _cut(text)
        # Equal texts of which one is private are two: vectors are made of a text and not of a
        # record.
        salt = f"{VERSION}:{chunkers.VERSION}:{CHUNK_TOKENS}:{private}" + (
            "" if cut.language == LANGUAGE else ":lines"
        )
        key = hash_bytes(b"record", salt.encode(), title.encode("utf-8"), text.encode("utf-8"))
        if len(cut.chunks) > 1:
            cut = replace(cut, chunks=tuple(_anchored(chunk, title) for chunk in cut.chunks))
        return IndexedText(key, cut, meaning=not private)

    return word


def _cut(text: str) -> Cut:
    """A text by its headings; by lines, where it is hardly anything else: then only the first
    heading, mostly the title, is a name.

    Each heading without text would be a chunk and a name of its own. 6,250 of them in one artifact
    made searches for that word take 4.5 s, and the write, for which all others wait, 0.25 s.
    """
    cut = chunkers.cut(text, "record.md", LANGUAGE, CHUNK_TOKENS, 0)
    if max(len(cut.chunks), len(cut.symbols)) <= MOST_SECTIONS:
        return cut
    return replace(
        chunkers.cut(text, "record.txt", "text", CHUNK_TOKENS, 0), symbols=cut.symbols[:1]
    )


def text_of(record: Record[Any], get: Get) -> tuple[str, str]:
    """The title and all that is indexed of a record; "" where it isn't found."""
    match record.body:
        case Subcortex() as body:
            words = [f"{term.term}: {term.meaning}" for term in body.glossary]
            parts = [body.description, body.charter, "\n".join((*words, *body.naming)), body.slug]
            return body.name, "" if body.state == "archived" else _joined(body.name, parts)
        case Thread() as body:
            return body.title, _joined(body.title, [body.body, body.resolution, about_of(body)])
        case Comment() as body:
            thread = get(body.thread)
            title = thread.body.title if thread else ""
            return title, _joined(title, [body.body])
        case Observation() as body:
            return body.title, _joined(body.title, [body.summary, about_of(body)])
        case Artifact() as body:
            return body.title, _joined(body.title, [body.summary, body.body, about_of(body)])
        case Task() as body:
            return body.title, _joined(
                body.title, [body.body, body.blocked_reason, body.notes, about_of(body)]
            )
    return "", ""


def _joined(title: str, parts: list[str]) -> str:
    return (
        "\n\n".join(
            part for part in (f"# {title}" if title else "", *parts) if part.strip()
        ).strip()
        + "\n"
    )


def about_of(body: Body) -> str:
    """What a body is filed under, a line each: its tags, the code that it links."""
    links = [f"{link.path} {link.symbol}".strip() for link in getattr(body, "code_links", ())]
    return "\n".join(
        part for part in (", ".join(getattr(body, "tags", ())), "\n".join(links)) if part
    )


def _anchored(chunk: Chunk, title: str) -> Chunk:
    """A piece of a long record, with the title of the whole."""
    own = chunk.qualified != title and not chunk.qualified.startswith(title + SEPARATOR)
    return (
        replace(chunk, qualified=SEPARATOR.join(part for part in (title, chunk.qualified) if part))
        if own
        else chunk
    )
