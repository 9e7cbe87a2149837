"""Indexed text of a memory: title as a heading, content, and the tags, files and date.

Pure. A short memory is one chunk; a long text is split like Markdown, and every chunk has the title
and the date. A memory that is a line of a conversation ("Name: ...", with an optional time in
brackets in front) is marked as a turn of that speaker.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from cortex.base.text import hash_bytes
from cortex.base.types import TURN, Chunk, Cut, Memory
from cortex.engine import chunkers

VERSION = "2"
CHUNK_TOKENS = 500
LANGUAGE = "markdown"
# Separator between headings.
SEPARATOR = " > "
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
# A name of one or two words.
_TURN = re.compile(
    r"\s*(?:\[[^\]\n]{1,60}\]\s*)?([^\W\d_][\w'-]{0,40}(?: [^\W\d_][\w'-]{0,40})?):\s"
)


def word(memory: Memory) -> tuple[bytes, Cut]:
    """Text and chunks of a memory, and a hash of everything they depend on."""
    text = text_of(memory)
    salt = f"{VERSION}:{chunkers.VERSION}:{CHUNK_TOKENS}"
    key = hash_bytes(b"memory", salt.encode(), memory.title.encode("utf-8"), text.encode("utf-8"))
    cut = chunkers.cut(text, "memory.md", LANGUAGE, CHUNK_TOKENS, 0)
    if len(cut.chunks) > 1:
        return key, replace(cut, chunks=tuple(_with_title(chunk, memory) for chunk in cut.chunks))
    speaker = "" if memory.facts else speaker_of(memory.text)
    if speaker:
        turns = tuple(replace(chunk, kind=TURN, name=speaker) for chunk in cut.chunks)
        return key, replace(cut, chunks=turns)
    return key, cut


def text_of(memory: Memory) -> str:
    """Markdown text of a memory; a title that the text begins with isn't repeated."""
    start = " ".join(memory.text[: 4 * len(memory.title)].split())
    repeated = memory.title and start.startswith(memory.title)
    parts = [] if repeated else [f"# {memory.title}"]
    parts += [
        part
        for part in (memory.subtitle, "\n".join(f"- {fact}" for fact in memory.facts), memory.text)
        if part
    ]
    about = [", ".join(memory.concepts), " ".join(memory.files), spelt(memory.date)]
    return "\n\n".join((*parts, "\n".join(part for part in about if part))).strip() + "\n"


def speaker_of(text: str) -> str:
    """Speaker of a conversation turn, "" if there is none or several.

    A name doesn't begin with a small letter.
    """
    speakers = [turn[1] for line in text.splitlines() if (turn := _TURN.match(line))]
    names = {name for name in speakers if not any(part[0].islower() for part in name.split())}
    return names.pop() if len(names) == 1 and _TURN.match(text) else ""


def spelt(day: str) -> str:
    """Date in ISO format and with the month's name, since people search for May and not for 05."""
    try:
        parsed = date.fromisoformat(day)
    except ValueError:
        return day
    return f"{day}, {parsed.day} {_MONTHS[parsed.month - 1]} {parsed.year}"


def _with_title(chunk: Chunk, memory: Memory) -> Chunk:
    """Add the title and date of a long memory to one of its chunks."""
    trail, title = chunk.qualified, memory.title
    if trail != title and not trail.startswith(title + SEPARATOR):
        trail = SEPARATOR.join(part for part in (title, trail) if part)
    return replace(chunk, qualified=trail, doc=spelt(memory.date))
