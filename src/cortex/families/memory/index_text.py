"""What of a memory is indexed: its title as a heading, what is said under it, and the tags, files
and date that people ask by.

Pure. A short memory is one chunk, a long story is cut as Markdown is, and every piece of it has the
title and the date. What somebody says in a conversation ("Name: ...", perhaps with a moment in
brackets before) is a turn of theirs.
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
SEPARATOR = " > "  # between headings
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"
)  # fmt: skip
# A name of one or two words
_TURN = re.compile(
    r"\s*(?:\[[^\]\n]{1,60}\]\s*)?([^\W\d_][\w'-]{0,40}(?: [^\W\d_][\w'-]{0,40})?):\s"
)


def word(memory: Memory) -> tuple[bytes, Cut]:
    """The text of a memory with its chunks, and a hash that both follow from."""
    text = text_of(memory)
    salt = f"{VERSION}:{chunkers.VERSION}:{CHUNK_TOKENS}"
    key = hash_bytes(b"memory", salt.encode(), memory.title.encode("utf-8"), text.encode("utf-8"))
    cut = chunkers.cut(text, "memory.md", LANGUAGE, CHUNK_TOKENS, 0)
    if len(cut.chunks) > 1:
        return key, replace(cut, chunks=tuple(_anchored(chunk, memory) for chunk in cut.chunks))
    speaker = "" if memory.facts else speaker_of(memory.text)
    if speaker:
        return key, replace(
            cut, chunks=tuple(replace(chunk, kind=TURN, name=speaker) for chunk in cut.chunks)
        )
    return key, cut


def text_of(memory: Memory) -> str:
    """All that a memory says, as Markdown; what the story begins with anyway isn't said twice."""
    repeated = memory.title and " ".join(memory.text[: 4 * len(memory.title)].split()).startswith(
        memory.title
    )
    parts = [] if repeated else [f"# {memory.title}"]
    parts += [
        part
        for part in (memory.subtitle, "\n".join(f"- {fact}" for fact in memory.facts), memory.text)
        if part
    ]
    about = [", ".join(memory.concepts), " ".join(memory.files), spelt(memory.date)]
    return "\n\n".join((*parts, "\n".join(part for part in about if part))).strip() + "\n"


def speaker_of(text: str) -> str:
    """Who says this, "" where nobody does, or several: a name begins with no small letter."""
    said = [found[1] for line in text.splitlines() if (found := _TURN.match(line))]
    names = {name for name in said if not any(part[0].islower() for part in name.split())}
    return names.pop() if len(names) == 1 and _TURN.match(text) else ""


def spelt(day: str) -> str:
    """A date as it is written, and as people say it: somebody who asks for May says no 05."""
    try:
        on = date.fromisoformat(day)
    except ValueError:
        return day
    return f"{day}, {on.day} {_MONTHS[on.month - 1]} {on.year}"


def _anchored(chunk: Chunk, memory: Memory) -> Chunk:
    """A piece of a long memory, with the title and the date of the whole."""
    own = chunk.qualified != memory.title and not chunk.qualified.startswith(
        memory.title + SEPARATOR
    )
    trail = (
        SEPARATOR.join(part for part in (memory.title, chunk.qualified) if part)
        if own
        else chunk.qualified
    )
    return replace(chunk, qualified=trail, doc=spelt(memory.date))
