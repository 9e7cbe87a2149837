"""What of a memory is indexed: its title as a heading, what is said under it, and the tags, files and date that people ask by.

Pure. A long story is cut as Markdown is; a short memory is one chunk.
"""

from __future__ import annotations

from cortex import chunkers
from cortex.text import hash_bytes
from cortex.types import Cut, Memory

VERSION = "1"
CHUNK_TOKENS = 400
LANGUAGE = "markdown"


def word(memory: Memory) -> tuple[bytes, Cut]:
    """The text of a memory with its chunks, and a hash that both follow from."""
    text = text_of(memory)
    salt = f"{VERSION}:{chunkers.VERSION}:{CHUNK_TOKENS}"
    key = hash_bytes(b"memory", salt.encode(), text.encode("utf-8"))
    return key, chunkers.cut(text, "memory.md", LANGUAGE, CHUNK_TOKENS, 0)


def text_of(memory: Memory) -> str:
    """All that a memory says, as Markdown; what the story begins with anyway isn't said twice."""
    parts = [] if memory.title and memory.text.startswith(memory.title) else [f"# {memory.title}"]
    parts += [part for part in (memory.subtitle, "\n".join(f"- {fact}" for fact in memory.facts), memory.text) if part]
    about = [", ".join(memory.concepts), " ".join(memory.files), memory.date]
    return "\n\n".join((*parts, "\n".join(part for part in about if part))).strip() + "\n"
