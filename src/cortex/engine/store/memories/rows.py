"""Rows of one memory: the memory with its tags and citations, and its searchable doc.

A searchable memory is a doc (its path is the memory's key) in one of two sources of its origin:
shown or staging. So a filter by state is a choice of sources, and rejected or superseded memories
are in no index at all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from cortex.base.types import Citation, Cut, Memory, MemoryState, ScannedFile
from cortex.engine.store.connection import Connection
from cortex.engine.store.content.writer import forget_blob, next_seq, put_blob, put_doc, remove_doc
from cortex.engine.store.memories.queries import MEMORIES, Ref

# Names of the two sources of an origin.
SHOWN, STAGED = "shown", "staging"
# Origin of memories written here.
OWN = ""

# Largest integer in SQLite: the year 2262.
MAX_NANOSECONDS = 2**63 - 1

# Returns the indexed part of a memory: a hash of it, and the text with its chunks.
MemoryTextExtractor = Callable[[Memory], tuple[bytes, Cut]]
# Returns the name of the source for a state.
NameOf = Callable[[MemoryState | None], str | None]

_WRITTEN = (
    "number, source, state, title, subtitle, facts, concepts, files, text, project, session, "
    "date, created, kind, provenance, "
    "other_project, scope, fingerprint, signature"
)


@dataclass(frozen=True, slots=True)
class NewMemory:
    """Memory to write; `name` is the source in which search finds it, None for no source."""

    memory: Memory
    name: str | None
    # None if it has not been judged.
    state: MemoryState | None
    scope: str
    fingerprint: bytes
    origin: str = OWN
    # Row in the other product's database, and its signature.
    number: int = 0
    other_project: str = ""
    signature: bytes = b""
    citations: tuple[Citation, ...] = ()
    # Key of the memory that replaced it.
    successor: str = ""


def write_memory(
    connection: Connection, new: NewMemory, wording: MemoryTextExtractor, seq: int
) -> None:
    """Write a memory and its doc; one with the same key is replaced."""
    memory, origin = new.memory, new.origin
    known = connection.execute(
        "SELECT id, source FROM memories WHERE origin = ? AND key = ?", (origin, memory.key)
    ).fetchone()
    source = _put_doc(
        connection, origin, memory, new.name, known[1] if known else None, wording, seq
    )
    values = (
        new.number,
        source,
        new.state.value if new.state else "",
        memory.title,
        memory.subtitle,
        json.dumps(memory.facts, ensure_ascii=False),
        json.dumps(memory.concepts, ensure_ascii=False),
        json.dumps(memory.files, ensure_ascii=False),
        memory.text,
        memory.project,
        memory.session,
        memory.date,
        memory.created,
        memory.kind,
        memory.provenance,
        new.other_project,
        new.scope,
        new.fingerprint,
        new.signature,
    )
    if known is None:
        marks = ", ".join("?" * (len(values) + 2))
        memory_id = connection.execute(
            f"INSERT INTO memories (origin, key, {_WRITTEN}) VALUES ({marks})",
            (origin, memory.key, *values),
        ).lastrowid
        assert memory_id is not None
    else:
        memory_id = known[0]
        columns = ", ".join(f"{name} = ?" for name in _WRITTEN.split(", "))
        connection.execute(f"UPDATE memories SET {columns} WHERE id = ?", (*values, memory_id))
        connection.execute("DELETE FROM concepts WHERE memory = ?", (memory_id,))
        connection.execute("DELETE FROM citations WHERE memory = ?", (memory_id,))
    _put_tags_and_citations(connection, memory_id, new)


def _put_tags_and_citations(connection: Connection, memory_id: int, new: NewMemory) -> None:
    """Write the tags of a memory, for filters, and its citations."""
    connection.executemany(
        "INSERT OR IGNORE INTO concepts VALUES (?, ?)",
        [(concept.strip(), memory_id) for concept in new.memory.concepts],
    )
    connection.executemany(
        "INSERT INTO citations VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (memory_id, c.root, c.path, c.symbol, c.file_hash, c.body_hash, c.commit)
            for c in new.citations
        ],
    )


def _put_doc(
    connection: Connection,
    origin: str,
    memory: Memory,
    name: str | None,
    before: int | None,
    wording: MemoryTextExtractor,
    seq: int,
) -> int | None:
    """Index a memory in the origin's source of this name and in no other; returns the source."""
    source = None if name is None else _source(connection, origin, name)
    if before is not None and before != source:
        remove_doc(connection, before, memory.key, seq)
    if source is not None:
        content_hash, cut = wording(memory)
        blob = put_blob(connection, content_hash, cut)
        file = ScannedFile(
            memory.key,
            len(cut.text.encode("utf-8")),
            min(memory.created * 1_000_000, MAX_NANOSECONDS),
        )
        put_doc(connection, source, file, blob, "", seq, time.time_ns())
    return source


def _source(connection: Connection, origin: str, name: str) -> int:
    query = "SELECT id FROM sources WHERE kind = ? AND name = ? AND root = ?"
    if (row := connection.execute(query, (MEMORIES, name, origin)).fetchone()) is not None:
        return row[0]
    insert = "INSERT INTO sources (kind, name, root) VALUES (?, ?, ?)"
    source_id = connection.execute(insert, (MEMORIES, name, origin)).lastrowid
    assert source_id is not None
    return source_id


def reword_memory(
    connection: Connection,
    memory_id: int,
    memory: Memory,
    name: str | None,
    wording: MemoryTextExtractor,
) -> None:
    """Index one of our own memories that has no doc; `name` as in NewMemory."""
    source = _put_doc(connection, OWN, memory, name, None, wording, next_seq(connection))
    connection.execute("UPDATE memories SET source = ? WHERE id = ?", (source, memory_id))
    connection.executemany(
        "INSERT OR IGNORE INTO concepts VALUES (?, ?)",
        [(concept.strip(), memory_id) for concept in memory.concepts],
    )


def erase_memory(connection: Connection, ref: Ref, seq: int) -> int:
    """Remove a memory with its doc and text; returns 1 if there was one, else 0."""
    row = connection.execute(
        "SELECT id, source FROM memories WHERE origin = ? AND key = ?", ref
    ).fetchone()
    if row is None:
        return 0
    memory_id, source = row
    if source is not None:
        doc = connection.execute(
            "SELECT blob FROM docs WHERE source = ? AND path = ?", (source, ref[1])
        ).fetchone()
        remove_doc(connection, source, ref[1], seq)
        if doc is not None:
            forget_blob(connection, doc[0])
    connection.execute("DELETE FROM memories WHERE id = ?", (memory_id,))
    return 1


def has_fingerprint(connection: Connection, fingerprint: bytes, besides: Collection[str]) -> bool:
    """True if one of our own memories, except `besides`, has this fingerprint."""
    rows = connection.execute(
        "SELECT key FROM memories WHERE fingerprint = ? AND origin = ?", (fingerprint, OWN)
    )
    return any(key not in besides for (key,) in rows)
