"""One memory in the store: its row with tags and citations, and the doc that it is found by.

A memory that may be found is a doc (its path is the memory's key) in one of two sources of its
origin: those that are shown and those in staging; so a filter by state is a choice of sources, and
what was rejected or superseded is in no index at all.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from cortex.base.types import Citation, Cut, Memory, MemoryState, ScannedFile
from cortex.engine.store.content.writer import forget_blob, next_seq, put_blob, put_doc, remove_doc
from cortex.engine.store.memories.queries import MEMORIES, Ref

SHOWN, STAGED = "shown", "staging"  # the names of an origin's two
OWN = ""  # the origin of what was written here

MAX_NANOSECONDS = 2**63 - 1  # that SQLite has room for: until 2262

# What of a memory is indexed: a hash of it, and the text with its chunks.
MemoryTextExtractor = Callable[[Memory], tuple[bytes, Cut]]
NameOf = Callable[[MemoryState | None], str | None]  # the source that a state is found in

_WRITTEN = (
    "number, source, state, title, subtitle, facts, concepts, files, text, project, session, date, created, kind, provenance, "
    "other_project, scope, fingerprint, signature"
)


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory on its way in; `name` is the source that it is found in, None: none."""

    memory: Memory
    name: str | None
    state: MemoryState | None  # None: nobody has judged it
    scope: str
    fingerprint: bytes
    origin: str = OWN
    number: int = 0  # the row in the other product's database
    other_project: str = ""
    signature: bytes = b""  # of that row
    citations: tuple[Citation, ...] = ()
    successor: str = ""  # the key of what took its place


def write_memory(
    connection: sqlite3.Connection, new: NewMemory, wording: MemoryTextExtractor, seq: int
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
        number = connection.execute(
            f"INSERT INTO memories (origin, key, {_WRITTEN}) VALUES ({marks})",
            (origin, memory.key, *values),
        ).lastrowid
        assert number is not None
    else:
        number = known[0]
        columns = ", ".join(f"{name} = ?" for name in _WRITTEN.split(", "))
        connection.execute(f"UPDATE memories SET {columns} WHERE id = ?", (*values, number))
        connection.execute("DELETE FROM concepts WHERE memory = ?", (number,))
        connection.execute("DELETE FROM citations WHERE memory = ?", (number,))
    _put_parts(connection, number, new)


def _put_parts(connection: sqlite3.Connection, number: int, new: NewMemory) -> None:
    """The tags of a memory, to be asked by, and what it cites."""
    connection.executemany(
        "INSERT OR IGNORE INTO concepts VALUES (?, ?)",
        [(concept.strip(), number) for concept in new.memory.concepts],
    )
    connection.executemany(
        "INSERT INTO citations VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (number, c.root, c.path, c.symbol, c.file_hash, c.body_hash, c.commit)
            for c in new.citations
        ],
    )


def _put_doc(
    connection: sqlite3.Connection,
    origin: str,
    memory: Memory,
    name: str | None,
    before: int | None,
    wording: MemoryTextExtractor,
    seq: int,
) -> int | None:
    """Have a memory found in the origin's source of this name, and nowhere else; gives the source."""
    source = None if name is None else _source(connection, origin, name)
    if before is not None and before != source:
        remove_doc(connection, before, memory.key, seq)
    if source is not None:
        content_hash, cut = wording(memory)
        blob = put_blob(connection, content_hash, cut)
        found = ScannedFile(
            memory.key,
            len(cut.text.encode("utf-8")),
            min(memory.created * 1_000_000, MAX_NANOSECONDS),
        )
        put_doc(connection, source, found, blob, "", seq, time.time_ns())
    return source


def _source(connection: sqlite3.Connection, origin: str, name: str) -> int:
    ask = "SELECT id FROM sources WHERE kind = ? AND name = ? AND root = ?"
    if (row := connection.execute(ask, (MEMORIES, name, origin)).fetchone()) is not None:
        return row[0]
    put = "INSERT INTO sources (kind, name, root) VALUES (?, ?, ?)"
    number = connection.execute(put, (MEMORIES, name, origin)).lastrowid
    assert number is not None
    return number


def reword_memory(
    connection: sqlite3.Connection,
    number: int,
    memory: Memory,
    name: str | None,
    wording: MemoryTextExtractor,
) -> None:
    """Have a memory of our own found by what it says, where nothing of it is indexed; `name` as in
    NewMemory.
    """
    source = _put_doc(connection, OWN, memory, name, None, wording, next_seq(connection))
    connection.execute("UPDATE memories SET source = ? WHERE id = ?", (source, number))
    connection.executemany(
        "INSERT OR IGNORE INTO concepts VALUES (?, ?)",
        [(concept.strip(), number) for concept in memory.concepts],
    )


def erase_memory(connection: sqlite3.Connection, ref: Ref, seq: int) -> int:
    """Remove a memory with its doc and text; 1 where there was one."""
    row = connection.execute(
        "SELECT id, source FROM memories WHERE origin = ? AND key = ?", ref
    ).fetchone()
    if row is None:
        return 0
    number, source = row
    if source is not None:
        doc = connection.execute(
            "SELECT blob FROM docs WHERE source = ? AND path = ?", (source, ref[1])
        ).fetchone()
        remove_doc(connection, source, ref[1], seq)
        if doc is not None:
            forget_blob(connection, doc[0])
    connection.execute("DELETE FROM memories WHERE id = ?", (number,))
    return 1


def is_said(connection: sqlite3.Connection, fingerprint: bytes, besides: Collection[str]) -> bool:
    """Whether a memory of our own says that, besides these."""
    rows = connection.execute(
        "SELECT key FROM memories WHERE fingerprint = ? AND origin = ?", (fingerprint, OWN)
    )
    return any(key not in besides for (key,) in rows)
