"""The truth of a store, read for answers: chunks behind hits, definitions by name, text of files,
counts.

Only reads. Every function takes ids or names and gives nouns back; ids that SQLite doesn't know are
left out. Texts, and what was cut of them, names too, come without secrets: whoever reads here can't
show one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from cortex.base.redaction import CLEAN, Redacted
from cortex.base.types import Chunk, Doc, Symbol
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.blobs import unpack
from cortex.engine.store.content.redactions import Redactions
from cortex.engine.store.sql import marks, parts

RECENT_CHARACTERS = 8_000_000  # of texts kept unpacked: unpacking was half of a query
RECENT_CHUNKS = 10_000
MAX_CHOICES = 64  # of sources, of which it is remembered whether they are all
PART = 900  # values in one statement
FEW_CHUNKS = 32  # of a blob, that are read one after the other
DOC_COLUMNS = "docs.id, docs.source, docs.path, docs.blob, docs.size, docs.mtime_ns, blobs.language, docs.role"
CHUNK_COLUMNS = (
    "ordinal, start, end, start_line, end_line, kind, name, qualified, signature, chunks.doc"
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ChunkLocation:
    """A chunk of a doc: what a row of the word index stands for."""

    doc: Doc
    chunk_id: int
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class DefinitionSite:
    """A name, and the chunk of the doc that defines it."""

    doc: int
    chunk: int
    name: str
    qualified: str


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a store, or one source of it, holds."""

    docs: int
    chunks: int
    characters: int


class Lookup:
    """The reading half of a store's SQLite file."""

    def __init__(self, connections: Connections, redactions: Redactions) -> None:
        self._connections = connections
        self._redactions = redactions
        self._recent_texts: _Recent[str] = _Recent(RECENT_CHARACTERS)
        self._recent_chunks: _Recent[Chunk] = _Recent(RECENT_CHUNKS)
        self._recent_docs: _Recent[Doc] = _Recent(RECENT_CHUNKS)
        self._recent_ranges: _Recent[tuple[int, int]] = _Recent(RECENT_CHUNKS)
        self._recent_state = ""  # of the store when they were looked up
        self._changes: dict[int, tuple[str, dict[str, int]]] = {}
        # Whether sources are all, and of which state
        self._alone: tuple[str, dict[tuple[int, ...], bool]] = ("", {})

    def places(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], ChunkLocation]:
        """The places for (doc, chunk) pairs."""
        docs = self._docs_by_id(sorted({doc for doc, _ in pairs}))
        chunks = self._chunks_by_id({chunk for _, chunk in pairs})
        return {
            (doc, chunk): ChunkLocation(docs[doc], chunk, chunks[chunk])
            for doc, chunk in pairs
            if doc in docs and chunk in chunks
        }

    def _chunks_by_id(self, ids: Set[int]) -> dict[int, Chunk]:
        recent = self._recent_chunks
        chunks = {number: chunk for number in ids if (chunk := recent.get(number)) is not None}
        with self._connections.read() as connection:
            for part in parts(sorted(ids - chunks.keys()), PART):
                rows = connection.execute(
                    f"SELECT id, blob, {CHUNK_COLUMNS} FROM chunks WHERE id IN ({marks(part)})",
                    part,
                ).fetchall()
                redacted = self._redactions.of_all({row[1] for row in rows})
                new = {number: Chunk(*rest) for number, _, *rest in rows}
                for number, blob, *_ in rows if redacted else ():
                    if blob in redacted:
                        new[number] = redacted[blob].chunk(new[number])
                recent.keep_all(new)
                chunks |= new
        return chunks

    def _docs_by_id(self, ids: Sequence[int]) -> dict[int, Doc]:
        with self._connections.read() as connection:
            state = _state(connection)
            if state != self._recent_state:  # docs may be gone
                self._recent_docs.clear()
                self._recent_state = state
            recent = self._recent_docs
            docs = {number: doc for number in ids if (doc := recent.get(number)) is not None}
            for part in parts([number for number in ids if number not in docs], PART):
                rows = connection.execute(
                    f"SELECT first_chunk, last_chunk, {DOC_COLUMNS} FROM docs JOIN blobs ON blobs.id = blob "
                    f"WHERE docs.id IN ({marks(part)})",
                    part,
                ).fetchall()
                new = {doc.id: doc for doc in (Doc(*row[2:]) for row in rows)}
                recent.keep_all(new)
                docs |= new
                # Whoever wants a doc mostly asks for this next.
                self._recent_ranges.keep_all(
                    {doc.blob: row[:2] for doc, row in zip(new.values(), rows, strict=True)}
                )
        return docs

    def places_of_chunks(
        self, sources: Sequence[int], chunks: Sequence[int]
    ) -> list[tuple[int, int]]:
        """Every (doc, chunk) of the sources for chunk ids, in the order given."""
        docs: dict[int, list[int]] = {}
        with self._connections.read() as connection:
            for part in parts(list(chunks), PART):
                # In this order, and sorted here: to have the rows sorted, SQLite goes through all
                # docs of the source.
                for chunk, doc in connection.execute(
                    f"SELECT chunks.id, docs.id FROM chunks CROSS JOIN docs ON docs.blob = chunks.blob "
                    f"WHERE chunks.id IN ({marks(part)}) AND docs.source IN ({marks(sources)})",
                    [*part, *sources],
                ):
                    docs.setdefault(chunk, []).append(doc)
        return [(doc, chunk) for chunk in chunks for doc in sorted(docs.get(chunk, ()))]

    def ranges(self, blobs: Collection[int]) -> dict[int, tuple[int, int]]:
        """The first and the last chunk of each blob: those between are its own, too."""
        recent = self._recent_ranges
        found = {number: ends for number in blobs if (ends := recent.get(number)) is not None}
        with self._connections.read() as connection:
            for part in parts([number for number in blobs if number not in found], PART):
                rows = connection.execute(
                    f"SELECT id, first_chunk, last_chunk FROM blobs WHERE id IN ({marks(part)})",
                    part,
                )
                new = {number: (first, last) for number, first, last in rows}
                recent.keep_all(new)
                found |= new
        return found

    def definitions(
        self, sources: Sequence[int], names: Sequence[str], limit: int = 200
    ) -> list[DefinitionSite]:
        """Where these names (any case) are defined in the sources, those written exactly so first."""
        if not names:
            return []
        return self._definitions(
            f"symbols.name IN ({marks(names)})",
            names,
            sources,
            f"symbols.name COLLATE BINARY IN ({marks(names)}) DESC, ",
            names,
            limit,
        )

    def definitions_beginning(
        self, sources: Sequence[int], prefix: str, limit: int = 50
    ) -> list[DefinitionSite]:
        """Where names that begin with this (any case) are defined, shorter names first."""
        after = f"{prefix}\U0010ffff"  # comes after whatever begins with the prefix
        return self._definitions(
            "symbols.name >= ? AND symbols.name < ?",
            (prefix, after),
            sources,
            "length(symbols.name), ",
            (),
            limit,
        )

    def _definitions(
        self,
        where: str,
        values: Sequence[str],
        sources: Sequence[int],
        order: str,
        ordered: Sequence[str],
        limit: int,
    ) -> list[DefinitionSite]:
        with self._connections.read() as connection:
            # First the names, as many as are wanted, then where each stands. In one statement
            # SQLite compared every heading of a text with every chunk of it, before it knew which
            # are wanted: 4.5 s for 6,250 times "# limit". CROSS JOIN keeps the order: with two
            # names SQLite would begin with every doc (38 ms instead of 0.3 ms on 10,000).
            rows = connection.execute(
                "SELECT docs.id, symbols.blob, symbols.start_line, symbols.name, symbols.qualified "
                "FROM symbols CROSS JOIN docs ON docs.blob = symbols.blob "
                f"WHERE {where} AND source IN ({marks(sources)}) "
                f"ORDER BY {order}docs.role <> '', docs.path, symbols.start_line LIMIT ?",
                [*values, *sources, *ordered, limit],
            ).fetchall()
            if not rows:
                return []
            ranges = self.ranges({blob for _, blob, *_ in rows})
            lines = {(blob, line) for _, blob, line, *_ in rows}
            held = {
                (blob, line): _chunks_at(connection, *ranges[blob], line, limit)
                for blob, line in lines
            }
            redactions = self._redactions.of_all(ranges)
        found = (
            DefinitionSite(doc, chunk, field(name), field(qualified))
            for doc, blob, line, name, qualified in rows
            for field in [redactions.get(blob, CLEAN).field]
            for chunk in held[blob, line]
        )
        return list(islice(found, limit))

    def doc(self, source: int, path: str) -> Doc | None:
        """The doc at this path, if there is one."""
        with self._connections.read() as connection:
            row = connection.execute(
                f"SELECT {DOC_COLUMNS} FROM docs JOIN blobs ON blobs.id = blob WHERE source = ? AND path = ?",
                (source, path),
            ).fetchone()
            return None if row is None else Doc(*row)

    def docs_called(self, sources: Sequence[int], name: str, limit: int = 20) -> list[Doc]:
        """Docs whose path is `name` or ends with it; where there are none, those whose path `name`
        ends with (an absolute one does).
        """
        select = f"SELECT {DOC_COLUMNS} FROM docs JOIN blobs ON blobs.id = blob WHERE source IN ({marks(sources)})"
        parts = name.strip("/").split("/")
        endings = ["/".join(parts[start:]) for start in range(len(parts))]
        with self._connections.read() as connection:
            rows = connection.execute(
                f"{select} AND (path = ? OR substr(path, -length(?)) = ?) ORDER BY length(path), path LIMIT ?",
                (*sources, endings[0], f"/{endings[0]}", f"/{endings[0]}", limit),
            ).fetchall()
            if not rows:
                rows = connection.execute(
                    f"{select} AND path IN ({marks(endings)}) ORDER BY length(path) DESC LIMIT ?",
                    (*sources, *endings, limit),
                ).fetchall()
        return [Doc(*row) for row in rows]

    def docs(self, source: int, below: str = "") -> Iterator[Doc]:
        """The docs of a source at or below a path, by path."""
        select = f"SELECT {DOC_COLUMNS} FROM docs JOIN blobs ON blobs.id = blob"
        with self._connections.read() as connection:
            rows = list(rows_below(connection, select, source, [below]))
        yield from (Doc(*row) for row in sorted(rows, key=lambda row: row[2]))

    def knows(self, source: int, below: str) -> bool:
        """Whether there is a doc of the source at or below a path."""
        with self._connections.read() as connection:
            return (
                next(rows_below(connection, "SELECT 1 FROM docs", source, [below]), None)
                is not None
            )

    def drop_recent(self) -> None:
        """Keep nothing in memory of what may just have been removed for good."""
        self._recent_texts.clear()
        self._recent_chunks.clear()
        self._recent_docs.clear()
        self._recent_ranges.clear()
        self._redactions.clear()

    def redacts(self, enabled: bool) -> None:
        """Take secrets out of what is read from now on, or leave them in."""
        if self._redactions.enabled != enabled:
            self._redactions.enabled = enabled
            self.drop_recent()

    def redacted(self, blob: int) -> tuple[Redacted, ...]:
        """The lines of a blob's text that are redacted, and what was in them."""
        return self._redactions.of(blob).lines

    def count_redacted(self, source: int) -> int:
        """The number of docs of a source in which secrets were found."""
        with self._connections.read() as connection:
            ask = "SELECT count(*) FROM leaks JOIN docs ON docs.blob = leaks.blob WHERE found <> '' AND source = ?"
            return connection.execute(ask, (source,)).fetchone()[0]

    def text(self, blob: int) -> str:
        """The whole text of a blob, "" when it is gone."""
        text = self._recent_texts.get(blob)
        if text is None:
            with self._connections.read() as connection:
                row = connection.execute("SELECT text FROM blobs WHERE id = ?", (blob,)).fetchone()
                text = "" if row is None else unpack(row[0])
            if redaction := self._redactions.of(blob, text):
                text = redaction.text
            self._recent_texts.keep(blob, text, len(text))
        return text

    def chunks(self, blob: int) -> tuple[tuple[int, Chunk], ...]:
        """The chunks of a blob with their ids, in order."""
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT id, {CHUNK_COLUMNS} FROM chunks WHERE blob = ? ORDER BY ordinal", (blob,)
            )
            redaction = self._redactions.of(blob)
            chunks = ((chunk_id, Chunk(*rest)) for chunk_id, *rest in rows)
            return tuple(
                (number, redaction.chunk(chunk) if redaction else chunk) for number, chunk in chunks
            )

    def symbols(self, blob: int) -> tuple[Symbol, ...]:
        """The definitions in a blob, by line."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT name, qualified, kind, start_line, end_line FROM symbols WHERE blob = ? "
                "ORDER BY start_line, end_line DESC, qualified",
                (blob,),
            )
            redaction = self._redactions.of(blob)
            return tuple(
                redaction.symbol(_symbol(*row)) if redaction else _symbol(*row) for row in rows
            )

    def recency(self, source: int) -> Mapping[str, int]:
        """The files of a source that its history changed lately, by path: 0 is the newest."""
        with self._connections.read() as connection:
            ask = "SELECT value FROM meta WHERE key = ?"
            state = (connection.execute(ask, (f"recent-state:{source}",)).fetchone() or ("",))[0]
            if not state:
                return {}
            known, places = self._changes.get(source, ("", {}))
            if known != state:
                paths = connection.execute(ask, (f"recent:{source}",)).fetchone()[0].split("\0")
                places = {path: number for number, path in enumerate(paths)}
                self._changes[source] = (state, places)
            return places

    def are_all(self, sources: tuple[int, ...]) -> bool:
        """Whether no other source of the store has anything."""
        with self._connections.read() as connection:
            state, known = _state(connection), self._alone
            if known[0] != state or (len(known[1]) >= MAX_CHOICES and sources not in known[1]):
                known = self._alone = (state, {})
            if sources not in known[1]:
                others = (  # of the table: those that a viewer doesn't see are others, too
                    f"SELECT 1 FROM main.sources WHERE id NOT IN ({marks(sources)}) "
                    "AND EXISTS (SELECT 1 FROM docs WHERE docs.source = sources.id) LIMIT 1"
                )
                known[1][sources] = connection.execute(others, sources).fetchone() is None
            return known[1][sources]

    def counts(self, source: int) -> Counts:
        """How many docs and chunks a source has."""
        return self.counts_of((source,))[source]

    def counts_of(self, sources: Sequence[int]) -> dict[int, Counts]:
        """How many docs and chunks each of these sources has."""
        found = dict.fromkeys(sources, Counts(0, 0, 0))
        with self._connections.read() as connection:
            for part in parts(sources, PART):
                rows = connection.execute(
                    "SELECT source, count(*), coalesce(sum(last_chunk - first_chunk + 1), 0), coalesce(sum(characters), 0) "
                    f"FROM docs JOIN blobs ON blobs.id = blob WHERE source IN ({marks(part)}) GROUP BY source",
                    part,
                )
                found.update({row[0]: Counts(*row[1:]) for row in rows})
        return found

    def size(self, source: int) -> int:
        """How many bytes the files of a source have."""
        with self._connections.read() as connection:
            total = "SELECT coalesce(sum(size), 0) FROM docs WHERE source = ?"
            return connection.execute(total, (source,)).fetchone()[0]

    def languages(self, source: int) -> dict[str, int]:
        """The number of docs per language, most first."""
        with self._connections.read() as connection:
            return dict(
                connection.execute(
                    "SELECT language, count(*) AS n FROM docs JOIN blobs ON blobs.id = blob WHERE source = ? "
                    "GROUP BY language ORDER BY n DESC, language",
                    (source,),
                )
            )

    def sizes(self, source: int, small: int, large: int) -> tuple[int, int, int]:
        """How many docs are below `small` bytes, between, and at or above `large` bytes."""
        with self._connections.read() as connection:
            row = connection.execute(
                "SELECT coalesce(sum(size < ?), 0), coalesce(sum(size >= ? AND size < ?), 0), coalesce(sum(size >= ?), 0) "
                "FROM docs WHERE source = ?",
                (small, small, large, large, source),
            ).fetchone()
            return (row[0], row[1], row[2])


def _chunks_at(
    connection: sqlite3.Connection, first: int, last: int, line: int, most: int
) -> list[int]:
    """The first `most` chunks that hold a line, of those between `first` and `last`, which are one
    blob's.

    These are numbered in the order of their lines: by halving, whatever their number, and without
    an index of lines.
    """
    low, high = first, last  # the first one that doesn't end before the line is among these
    while high - low >= FEW_CHUNKS:
        middle = (low + high) // 2
        row = connection.execute("SELECT end_line FROM chunks WHERE id = ?", (middle,)).fetchone()
        low, high = (middle + 1, high) if row is None or row[0] < line else (low, middle)
    held: list[int] = []
    ask = "SELECT id, start_line, end_line FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id"
    for chunk, start, end in connection.execute(ask, (low, last)):
        if start > line or len(held) == most:  # a long line is in many
            break
        if end >= line:
            held.append(chunk)
    return held


def _state(connection: sqlite3.Connection) -> str:
    """Which state the docs are in: another one is another text."""
    return connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()[0]


class _Recent(Generic[Value]):
    """What was looked up lately, by an id that never means anything else; all of it is dropped when
    it becomes too much.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[int, Value] = {}
        self._cost = 0
        self.get = self._values.get

    def keep(self, number: int, value: Value, cost: int) -> None:
        if self._cost + cost > self._limit:
            self.clear()
        if cost <= self._limit:
            self._values[number] = value
            self._cost += cost

    def keep_all(self, values: Mapping[int, Value]) -> None:
        """Keep many that cost one each."""
        if len(self._values) + len(values) > self._limit:
            self.clear()
        if len(values) <= self._limit:
            self._values.update(values)

    def clear(self) -> None:
        self._values.clear()
        self._cost = 0


def _symbol(name: str, qualified: str, kind: str, start_line: int, end_line: int) -> Symbol:
    before = qualified.removesuffix(name)
    # Headings have " > " between them, definitions a dot.
    parent = before.removesuffix(" > ") if before.endswith(" > ") else before.rstrip(".")
    return Symbol(name, qualified, kind, start_line, end_line, parent)


def rows_below(
    connection: sqlite3.Connection, select: str, source: int, below: Collection[str] | None
) -> Iterator[tuple[Any, ...]]:
    """The rows of a source; all, or those at or below these paths."""
    if below is None or "" in below:
        yield from connection.execute(f"{select} WHERE source = ?", (source,))
        return
    for path in below:  # two questions: SQLite answers an OR of both by a look at the whole source
        yield from connection.execute(f"{select} WHERE source = ? AND path = ?", (source, path))
        # "0" is what comes after "/": the range is what lies below the path.
        yield from connection.execute(
            f"{select} WHERE source = ? AND path > ? AND path < ?", (source, f"{path}/", f"{path}0")
        )
