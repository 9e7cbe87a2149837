"""Queries over the indexed content: chunks behind hits, definitions, file texts, counts.

Read-only. Functions take ids or names and return typed values; unknown ids are omitted. Texts,
chunks and names are redacted, so that no caller can show a secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from cortex.base.redaction import CLEAN, Redacted
from cortex.base.types import Chunk, Doc, Symbol
from cortex.engine.store.connection import Connection
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.blobs import unpack
from cortex.engine.store.content.redactions import Redactions
from cortex.engine.store.sql import marks, parts, rows_in

# Characters of texts kept unpacked: unpacking took half of a query.
RECENT_CHARACTERS = 8_000_000
RECENT_CHUNKS = 10_000
# Combinations of sources for which `are_all` is cached.
MAX_CHOICES = 64
# Values in one statement.
PART = 900
# Chunks of a blob that are read one by one instead of by bisection.
FEW_CHUNKS = 32
DOC_COLUMNS = (
    "docs.id, docs.source, docs.path, docs.blob, docs.size, docs.mtime_ns, blobs.language, "
    "docs.role"
)
CHUNK_COLUMNS = (
    "ordinal, start, end, start_line, end_line, kind, name, qualified, signature, chunks.doc"
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ChunkLocation:
    """Chunk of a doc: the subject of a row in the lexical index."""

    doc: Doc
    chunk_id: int
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class DefinitionSite:
    """Name and the chunk of the doc that defines it."""

    doc: int
    chunk: int
    name: str
    qualified: str


@dataclass(frozen=True, slots=True)
class Counts:
    """Amount of content in a store or in one source."""

    docs: int
    chunks: int
    characters: int


class ContentQueries:
    """Read access to the indexed content of a store."""

    def __init__(self, connections: Connections, redactions: Redactions) -> None:
        self._connections = connections
        self._redactions = redactions
        self._recent_texts: _Recent[str] = _Recent(RECENT_CHARACTERS)
        self._recent_chunks: _Recent[Chunk] = _Recent(RECENT_CHUNKS)
        self._recent_docs: _Recent[Doc] = _Recent(RECENT_CHUNKS)
        self._recent_ranges: _Recent[tuple[int, int]] = _Recent(RECENT_CHUNKS)
        # State of the store at the time of the cached lookups.
        self._recent_state = ""
        self._changes: dict[int, tuple[str, dict[str, int]]] = {}
        # (state, answers of `are_all` in that state).
        self._alone: tuple[str, dict[tuple[int, ...], bool]] = ("", {})

    def places(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], ChunkLocation]:
        """Locations of (doc, chunk) pairs."""
        docs = self._docs_by_id(sorted({doc for doc, _ in pairs}))
        chunks = self._chunks_by_id({chunk for _, chunk in pairs})
        return {
            (doc, chunk): ChunkLocation(docs[doc], chunk, chunks[chunk])
            for doc, chunk in pairs
            if doc in docs and chunk in chunks
        }

    def _chunks_by_id(self, ids: Set[int]) -> dict[int, Chunk]:
        recent = self._recent_chunks
        chunks = {
            chunk_id: chunk for chunk_id in ids if (chunk := recent.get(chunk_id)) is not None
        }
        with self._connections.read() as connection:
            for part in parts(sorted(ids - chunks.keys()), PART):
                rows = connection.execute(
                    f"SELECT id, blob, {CHUNK_COLUMNS} FROM chunks WHERE id IN ({marks(part)})",
                    part,
                ).fetchall()
                redacted = self._redactions.of_all({row[1] for row in rows})
                new = {chunk_id: Chunk(*rest) for chunk_id, _, *rest in rows}
                for chunk_id, blob, *_ in rows if redacted else ():
                    if blob in redacted:
                        new[chunk_id] = redacted[blob].chunk(new[chunk_id])
                recent.keep_all(new)
                chunks |= new
        return chunks

    def _docs_by_id(self, ids: Sequence[int]) -> dict[int, Doc]:
        with self._connections.read() as connection:
            state = _state(connection)
            # Docs may have been removed.
            if state != self._recent_state:
                self._recent_docs.clear()
                self._recent_state = state
            recent = self._recent_docs
            docs = {doc_id: doc for doc_id in ids if (doc := recent.get(doc_id)) is not None}
            for part in parts([doc_id for doc_id in ids if doc_id not in docs], PART):
                rows = connection.execute(
                    f"SELECT first_chunk, last_chunk, {DOC_COLUMNS} FROM docs "
                    "JOIN blobs ON blobs.id = blob "
                    f"WHERE docs.id IN ({marks(part)})",
                    part,
                ).fetchall()
                new = {doc.id: doc for doc in (Doc(*row[2:]) for row in rows)}
                recent.keep_all(new)
                docs |= new
                # A caller that wants a doc mostly asks for its range next.
                self._recent_ranges.keep_all(
                    {doc.blob: row[:2] for doc, row in zip(new.values(), rows, strict=True)}
                )
        return docs

    def places_of_chunks(
        self, sources: Sequence[int], chunks: Sequence[int]
    ) -> list[tuple[int, int]]:
        """All (doc, chunk) pairs in the sources for chunk ids, in the given order."""
        docs: dict[int, list[int]] = {}
        with self._connections.read() as connection:
            for part in parts(list(chunks), PART):
                # Joined in this order and sorted in Python: to sort the rows, SQLite would walk
                # through all docs of the source.
                for chunk, doc in connection.execute(
                    "SELECT chunks.id, docs.id FROM chunks "
                    "CROSS JOIN docs ON docs.blob = chunks.blob "
                    f"WHERE chunks.id IN ({marks(part)}) AND docs.source IN ({marks(sources)})",
                    [*part, *sources],
                ):
                    docs.setdefault(chunk, []).append(doc)
        return [(doc, chunk) for chunk in chunks for doc in sorted(docs.get(chunk, ()))]

    def ranges(self, blobs: Collection[int]) -> dict[int, tuple[int, int]]:
        """First and last chunk id of each blob; the ids between belong to it too."""
        recent = self._recent_ranges
        ranges = {blob: ends for blob in blobs if (ends := recent.get(blob)) is not None}
        with self._connections.read() as connection:
            for part in parts([blob for blob in blobs if blob not in ranges], PART):
                rows = connection.execute(
                    f"SELECT id, first_chunk, last_chunk FROM blobs WHERE id IN ({marks(part)})",
                    part,
                )
                new = {blob: (first, last) for blob, first, last in rows}
                recent.keep_all(new)
                ranges |= new
        return ranges

    def definitions(
        self, sources: Sequence[int], names: Sequence[str], limit: int = 200
    ) -> list[DefinitionSite]:
        """Definitions of these names (any case) in the sources, exact spellings first."""
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
        """Definitions of names with this prefix (any case), shorter names first."""
        # Sorts after every name with the prefix.
        after = f"{prefix}\U0010ffff"
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
            # First as many names as requested, then the chunks of each. In one statement SQLite
            # compared every heading of a text with all its chunks before applying the limit: 4.5 s
            # for 6,250 times "# limit". CROSS JOIN keeps the written order: with two names SQLite
            # would begin with every doc (38 ms instead of 0.3 ms on 10,000).
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
            chunks_at = {
                (blob, line): _chunks_at(connection, *ranges[blob], line, limit)
                for blob, line in lines
            }
            redactions = self._redactions.of_all(ranges)
        sites = (
            DefinitionSite(doc, chunk, field(name), field(qualified))
            for doc, blob, line, name, qualified in rows
            for field in [redactions.get(blob, CLEAN).field]
            for chunk in chunks_at[blob, line]
        )
        return list(islice(sites, limit))

    def doc(self, source: int, path: str) -> Doc | None:
        """Doc at this path, None if there is none."""
        row = self._connections.row(
            f"SELECT {DOC_COLUMNS} FROM docs JOIN blobs ON blobs.id = blob WHERE source = ? "
            "AND path = ?",
            (source, path),
        )
        return None if row is None else Doc(*row)

    def docs_called(self, sources: Sequence[int], name: str, limit: int = 20) -> list[Doc]:
        """Docs with a path that is `name` or ends with it.

        If there are none, docs with a path that `name` ends with, as an absolute path does.
        """
        select = (
            f"SELECT {DOC_COLUMNS} FROM docs JOIN blobs ON blobs.id = blob "
            f"WHERE source IN ({marks(sources)})"
        )
        parts = name.strip("/").split("/")
        endings = ["/".join(parts[start:]) for start in range(len(parts))]
        with self._connections.read() as connection:
            rows = connection.execute(
                f"{select} AND (path = ? OR substr(path, -length(?)) = ?) "
                "ORDER BY length(path), path LIMIT ?",
                (*sources, endings[0], f"/{endings[0]}", f"/{endings[0]}", limit),
            ).fetchall()
            if not rows:
                rows = connection.execute(
                    f"{select} AND path IN ({marks(endings)}) ORDER BY length(path) DESC LIMIT ?",
                    (*sources, *endings, limit),
                ).fetchall()
        return [Doc(*row) for row in rows]

    def docs(self, source: int, below: str = "") -> Iterator[Doc]:
        """Docs of a source at or below a path, by path."""
        select = f"SELECT {DOC_COLUMNS} FROM docs JOIN blobs ON blobs.id = blob"
        with self._connections.read() as connection:
            rows = list(rows_below(connection, select, source, [below]))
        yield from (Doc(*row) for row in sorted(rows, key=lambda row: row[2]))

    def knows(self, source: int, below: str) -> bool:
        """True if the source has a doc at or below a path."""
        with self._connections.read() as connection:
            return (
                next(rows_below(connection, "SELECT 1 FROM docs", source, [below]), None)
                is not None
            )

    def drop_recent(self) -> None:
        """Clear the caches, which may hold content that was just removed for good."""
        self._recent_texts.clear()
        self._recent_chunks.clear()
        self._recent_docs.clear()
        self._recent_ranges.clear()
        self._redactions.clear()

    def redacts(self, enabled: bool) -> None:
        """Turn the redaction of secrets in all later reads on or off."""
        if self._redactions.enabled != enabled:
            self._redactions.enabled = enabled
            self.drop_recent()

    def redacted(self, blob: int) -> tuple[Redacted, ...]:
        """Redacted lines of a blob's text, with the kinds of secrets found in them."""
        return self._redactions.of(blob).lines

    def count_redacted(self, source: int) -> int:
        """Number of docs of a source in which secrets were found."""
        query = (
            "SELECT count(*) FROM leaks JOIN docs ON docs.blob = leaks.blob WHERE found <> '' "
            "AND source = ?"
        )
        return self._connections.value(query, (source,))

    def text(self, blob: int) -> str:
        """Whole text of a blob, "" if it is gone."""
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
        """Chunks of a blob with their ids, in order."""
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT id, {CHUNK_COLUMNS} FROM chunks WHERE blob = ? ORDER BY ordinal", (blob,)
            )
            redaction = self._redactions.of(blob)
            chunks = ((chunk_id, Chunk(*rest)) for chunk_id, *rest in rows)
            return tuple(
                (chunk_id, redaction.chunk(chunk) if redaction else chunk)
                for chunk_id, chunk in chunks
            )

    def symbols(self, blob: int) -> tuple[Symbol, ...]:
        """Definitions in a blob, by line."""
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
        """Recently changed files of a source, by path to rank; 0 is the newest."""
        with self._connections.read() as connection:
            query = "SELECT value FROM meta WHERE key = ?"
            state = (connection.execute(query, (f"recent-state:{source}",)).fetchone() or ("",))[0]
            if not state:
                return {}
            known, ranks = self._changes.get(source, ("", {}))
            if known != state:
                paths = connection.execute(query, (f"recent:{source}",)).fetchone()[0].split("\0")
                ranks = {path: rank for rank, path in enumerate(paths)}
                self._changes[source] = (state, ranks)
            return ranks

    def are_all(self, sources: tuple[int, ...]) -> bool:
        """True if no other source of the store has any docs."""
        with self._connections.read() as connection:
            state, known = _state(connection), self._alone
            if known[0] != state or (len(known[1]) >= MAX_CHOICES and sources not in known[1]):
                known = self._alone = (state, {})
            if sources not in known[1]:
                # Asks the table itself: sources hidden from a viewer count too.
                others = (
                    f"SELECT 1 FROM main.sources WHERE id NOT IN ({marks(sources)}) "
                    "AND EXISTS (SELECT 1 FROM docs WHERE docs.source = sources.id) LIMIT 1"
                )
                known[1][sources] = connection.execute(others, sources).fetchone() is None
            return known[1][sources]

    def counts(self, source: int) -> Counts:
        """Number of docs, chunks and characters of a source."""
        return self.counts_of((source,))[source]

    def counts_of(self, sources: Sequence[int]) -> dict[int, Counts]:
        """Number of docs, chunks and characters of each of these sources."""
        query = (
            "SELECT source, count(*), coalesce(sum(last_chunk - first_chunk + 1), 0), "
            "coalesce(sum(characters), 0) "
            "FROM docs JOIN blobs ON blobs.id = blob WHERE source IN (?*) GROUP BY source"
        )
        with self._connections.read() as connection:
            counts = {row[0]: Counts(*row[1:]) for row in rows_in(connection, query, sources)}
        return dict.fromkeys(sources, Counts(0, 0, 0)) | counts

    def size(self, source: int) -> int:
        """Total size of the files of a source in bytes."""
        total = "SELECT coalesce(sum(size), 0) FROM docs WHERE source = ?"
        return self._connections.value(total, (source,))

    def languages(self, source: int) -> dict[str, int]:
        """Number of docs per language, most first."""
        return dict(
            self._connections.rows(
                "SELECT language, count(*) AS n FROM docs JOIN blobs ON blobs.id = blob "
                "WHERE source = ? "
                "GROUP BY language ORDER BY n DESC, language",
                (source,),
            )
        )

    def sizes(self, source: int, small: int, large: int) -> tuple[int, int, int]:
        """Number of docs below `small` bytes, in between, and from `large` bytes on."""
        row = self._connections.row(
            "SELECT coalesce(sum(size < ?), 0), coalesce(sum(size >= ? "
            "AND size < ?), 0), coalesce(sum(size >= ?), 0) "
            "FROM docs WHERE source = ?",
            (small, small, large, large, source),
        )
        return (row[0], row[1], row[2])


def _chunks_at(connection: Connection, first: int, last: int, line: int, most: int) -> list[int]:
    """First `most` chunks that contain a line, between `first` and `last` of one blob.

    Chunks are numbered in the order of their lines, so bisection finds them without an index on
    lines.
    """
    # The first chunk that doesn't end before the line is in this range.
    low, high = first, last
    while high - low >= FEW_CHUNKS:
        middle = (low + high) // 2
        row = connection.execute("SELECT end_line FROM chunks WHERE id = ?", (middle,)).fetchone()
        low, high = (middle + 1, high) if row is None or row[0] < line else (low, middle)
    matching: list[int] = []
    query = "SELECT id, start_line, end_line FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id"
    for chunk, start, end in connection.execute(query, (low, last)):
        # A long line is in many chunks.
        if start > line or len(matching) == most:
            break
        if end >= line:
            matching.append(chunk)
    return matching


def _state(connection: Connection) -> str:
    """State of the docs; it changes with every write."""
    return connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()[0]


class _Recent(Generic[Value]):
    """Cache by an id that always stands for the same value; cleared when it is full."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[int, Value] = {}
        self._cost = 0
        self.get = self._values.get

    def keep(self, key: int, value: Value, cost: int) -> None:
        if self._cost + cost > self._limit:
            self.clear()
        if cost <= self._limit:
            self._values[key] = value
            self._cost += cost

    def keep_all(self, values: Mapping[int, Value]) -> None:
        """Cache many values that cost 1 each."""
        if len(self._values) + len(values) > self._limit:
            self.clear()
        if len(values) <= self._limit:
            self._values.update(values)

    def clear(self) -> None:
        self._values.clear()
        self._cost = 0


def _symbol(name: str, qualified: str, kind: str, start_line: int, end_line: int) -> Symbol:
    before = qualified.removesuffix(name)
    # Headings are separated by " > ", definitions by a dot.
    parent = before.removesuffix(" > ") if before.endswith(" > ") else before.rstrip(".")
    return Symbol(name, qualified, kind, start_line, end_line, parent)


def rows_below(
    connection: Connection, select: str, source: int, below: Collection[str] | None
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a source: all, or those at or below these paths."""
    if below is None or "" in below:
        yield from connection.execute(f"{select} WHERE source = ?", (source,))
        return
    # Two statements: SQLite would scan the whole source for an OR of both.
    for path in below:
        yield from connection.execute(f"{select} WHERE source = ? AND path = ?", (source, path))
        # "0" follows "/" in ASCII, so this range is everything below the path.
        yield from connection.execute(
            f"{select} WHERE source = ? AND path > ? AND path < ?", (source, f"{path}/", f"{path}0")
        )
