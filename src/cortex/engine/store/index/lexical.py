"""Lexical index over chunks, on tantivy: a disposable, searchable copy of the database.

One row is one chunk of one doc, with four fields of stems as `text.words_of` makes them; no text is
stored.

Work-arounds for tantivy: ids are signed integers (delete-by-term on unsigned fields deletes
nothing), there is one writer thread (two make the order of ties random), the watermark is a row of
its own in the same commit (there is no commit payload), and fast fields return ids without stored
rows.

Road not taken: SQLite FTS5, which was forty times slower on OR queries at 200,000 chunks and twice
the size.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

import tantivy

from cortex.base.errors import (
    CortexError,
    FileError,
    StoreError,
    is_short_of_memory,
    short_of_memory,
)
from cortex.base.paths import keep_private
from cortex.base.text import identifiers_of, split_identifier
from cortex.base.types import Chunk, Doc

# The signature is part of the body: as a field of its own it made answers worse.
FIELDS = ("name", "path", "doc_text", "body")
# The doc text is part of the body too.
COVER_FIELDS = ("name", "path", "body")
# Memory of the one writer thread; more makes fewer segments and costs exactly that much.
WRITER_BYTES = 32_000_000
# A writer that gets no memory kills the process (Rust aborts), so the most that one takes is
# reserved before.
ROOM_BYTES = 192 << 20
# Rows between two such reservations, which take microseconds each.
ROOM_ROWS = 250
# Time to wait for the lock of a writer.
LOCK_SECONDS = 2.0
LOCK_POLL_SECONDS = 0.01
# Part of the directory's name: another layout is another directory.
FORMAT = "6"
NO_WATERMARK = -1
# Docs in a query: 5,000 take 10 ms, ten times the search itself.
MANY_DOCS = 1_000
# A single-precision sum distinguishes 24 words.
MAX_HELD = 20
# Factors by which the list of candidates is lengthened.
LONGER = (4, 16)
# Identifiers with cached stems; Django has 67,000.
MAX_REMEMBERED = 100_000
# Combinations of sources with cached word frequencies, and words of each.
MAX_COUNTED = 64
MAX_WORDS_COUNTED = 2_000
# Up to this many rows are counted one by one.
FEW_ROWS = 1_000
_FULL = ("No space left", "StorageFull", "QuotaExceeded", "FileTooLarge", "os error 28")
# All that tantivy reports about a writer thread that failed: mostly a full disk.
_KILLED = "index writer was killed"
LEAST_FREE_BYTES = 2 * WRITER_BYTES
_SHORT = ("Failed to spawn", "Cannot allocate memory", "os error 12", "OutOfMemory", "os error 11")
# Each file of a segment ends with a JSON object that holds the CRC of everything before it, then
# the size of that object and a magic number.
_FOOTER = struct.Struct("<II")
_FOOTER_MAGIC = 1337
_MOST_FOOTER = 4096
BLOCK = 1 << 20
MAX_CHECKED = 10_000


@dataclass(frozen=True, slots=True)
class LexicalRow:
    """Row of the lexical index: one chunk of one doc."""

    doc: Doc
    chunk_id: int
    chunk: Chunk
    body: str


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Restriction of the candidate rows; empty parts don't restrict."""

    sources: tuple[int, ...]
    extensions: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    # Only these docs, if the query has a path or a tag.
    docs: frozenset[int] | None = None
    # True if there are no other sources: filtering by source would take a fifth of a search.
    alone: bool = False


@dataclass(frozen=True, slots=True)
class LexicalTerm:
    """Word to search for, with its weight in each field."""

    word: str
    weights: tuple[tuple[str, float], ...]  # (field, weight)


class LexicalIndex:
    """One generation of the lexical index. `directory` None keeps it in memory.

    Raises: StoreError INDEX_DAMAGED if it is missing or damaged and `create` is false; FileError
    DISK_FULL; LimitError MEMORY_SHORT. Every method raises these too.
    """

    def __init__(self, directory: Path | None, *, create: bool = False) -> None:
        self._directory = directory
        self._links: tempfile.TemporaryDirectory[str] | None = None
        with self._translated():
            if directory is None:
                self._index = tantivy.Index(_schema())
            elif create:
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._index = tantivy.Index(_schema(), path=str(directory), reuse=True)
            else:
                # tantivy complains on stderr about files that it can't read, or misreads them, so
                # it only gets intact files.
                if damaged := find_damage(directory):
                    raise _damage(directory, f"{damaged} is damaged")
                self._links = _link(directory)
                self._index = tantivy.Index.open(
                    self._links.name if self._links else str(directory)
                )
            self._index.register_tokenizer(
                "words", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
            )
            self._index.reload()
        self._writer: tantivy.IndexWriter | None = None
        # True if no merge of a killed writer is left to do.
        self._merged = create
        # The last set of docs too sparse for filtering a longer list of candidates.
        self._sparse: frozenset[int] = frozenset()
        # Word frequencies in the current state, by combination of sources.
        self._frequencies: dict[tuple[int, ...], dict[tuple[str, str], int]] = {}
        # Source filter queries, by combination of sources.
        self._source_filters: dict[tuple[int, ...], tantivy.Query] = {}

    def watermark(self) -> int:
        """The `seq` up to which this index is complete, or NO_WATERMARK."""
        with self._translated():
            searcher = self._index.searcher()
            query = tantivy.Query.term_query(
                self._index.schema, "meta", "watermark", index_option="basic"
            )
            hits = searcher.search(query, limit=1, count=False).hits
            if not hits:
                return NO_WATERMARK
            return int(searcher.fast_field_values("doc", [hits[0][1]])[0] or 0)

    def __len__(self) -> int:
        with self._translated():
            return max(0, self._index.searcher().num_docs - (self.watermark() != NO_WATERMARK))

    def apply(self, rows: Iterable[LexicalRow], gone: Iterable[int], watermark: int) -> int:
        """Delete the docs in `gone`, add or replace `rows`, commit; returns the rows added.

        Only the lease holder may call this.
        """
        try:
            with self._translated():
                return self._apply(rows, gone, watermark)
        except BaseException:
            # A failed writer can't be used again. Dropping it discards its uncommitted rows and
            # releases the lock on the directory.
            self._writer, self._merged = None, False
            raise

    def _apply(self, rows: Iterable[LexicalRow], gone: Iterable[int], watermark: int) -> int:
        added = 0
        _check_memory()
        if self._writer is None:
            self._writer = self._open_writer()
        for doc in gone:
            self._writer.delete_documents_by_term("doc", doc)
        current = 0
        for row in rows:
            if row.doc.id != current:
                current = row.doc.id
                self._writer.delete_documents_by_term("doc", current)
            self._writer.add_document(_to_document(row))
            added += 1
            if added % ROOM_ROWS == 0:
                _check_memory()
        self._writer.delete_documents_by_term("meta", "watermark")
        self._writer.add_document(tantivy.Document(meta="watermark", doc=watermark))
        self._writer.commit()
        if self._directory is not None:
            keep_private(self._directory)
        self._index.reload()
        self._frequencies = {}
        return added

    def _open_writer(self) -> tantivy.IndexWriter:
        """Open a writer with no merges left to do.

        Rows deleted in the first commit of a writer would come back when a merge of older segments
        ends later.
        """
        if not self._merged:
            writer = self._new_writer()
            try:
                # The commit starts the merges.
                writer.commit()
                writer.wait_merging_threads()
            finally:
                # An exception that is kept would keep the writer, and with it the lock.
                del writer
            self._merged = True
        return self._new_writer()

    def _new_writer(self) -> tantivy.IndexWriter:
        """Open a writer, waiting for tantivy's own lock.

        A killed lease holder releases the lease first and this lock a moment later.
        """
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                return self._index.writer(heap_size=WRITER_BYTES, num_threads=1)
            except ValueError as error:
                if "LockBusy" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(LOCK_POLL_SECONDS)

    def search(
        self, terms: Sequence[LexicalTerm], scope: SearchFilter, limit: int
    ) -> list[tuple[int, int, float]]:
        """Best rows as (doc, chunk, score), best first, ties by doc and chunk."""
        parts = [
            tantivy.Query.boost_query(self._term(field, term.word), weight)
            for term in terms
            for field, weight in term.weights
        ]
        return self._best(parts, scope, limit)

    def cover(
        self, word_weights: Mapping[str, float], scope: SearchFilter, limit: int
    ) -> list[tuple[int, int, float]]:
        """Rows that contain the largest share of these words, as (doc, chunk, share of the mass).

        Neither the field nor the number of occurrences matters.
        """
        parts = [
            tantivy.Query.const_score_query(
                _any([self._term(field, word) for field in COVER_FIELDS]), mass
            )
            for word, mass in word_weights.items()
        ]
        total = sum(word_weights.values()) or 1.0
        return [(doc, chunk, mass / total) for doc, chunk, mass in self._best(parts, scope, limit)]

    def held(
        self, words: Sequence[str], scope: SearchFilter, limit: int
    ) -> dict[tuple[int, int], frozenset[str]]:
        """Words contained in each row that has any of them, by (doc, chunk).

        Considers the first `MAX_HELD` words only.
        """
        # Each word scores a power of two. The sum is exact and identifies the words.
        known = words[:MAX_HELD]
        parts = [
            tantivy.Query.const_score_query(
                _any([self._term(field, word) for field in COVER_FIELDS]), float(1 << bit)
            )
            for bit, word in enumerate(known)
        ]
        return {
            (doc, chunk): frozenset(word for bit, word in enumerate(known) if int(total) >> bit & 1)
            for doc, chunk, total in self._best(parts, scope, limit)
        }

    def frequency(self, word: str, field: str = "body", scope: SearchFilter | None = None) -> int:
        """Number of rows with `word` in `field`, optionally within the sources of a filter."""
        if scope is None or scope.alone:
            with self._translated():
                return self._index.searcher().doc_freq(field, stem_of(word))
        # Keep a reference: another thread may reset the cache meanwhile.
        known = self._frequencies
        if scope.sources not in known and len(known) >= MAX_COUNTED:
            known = self._frequencies = {}
        counts = known.setdefault(scope.sources, {})
        count = counts.get((field, word))
        if count is None:
            with self._translated():
                count = self._count(field, word, scope.sources)
            if len(counts) >= MAX_WORDS_COUNTED:
                counts.clear()
            counts[field, word] = count
        return count

    def _count(self, field: str, word: str, sources: tuple[int, ...]) -> int:
        """Number of rows of these sources with `word` in `field`.

        A rare word's rows are fetched and their sources compared: collecting all rows of hundreds
        of sources first takes much longer.
        """
        searcher = self._index.searcher()
        # An upper bound: it still includes deleted rows.
        most = searcher.doc_freq(field, stem_of(word))
        if not most:
            return 0
        if most > FEW_ROWS:
            query = self._filtered(self._term(field, word), SearchFilter(sources))
            return int(searcher.search(query, limit=1, count=True).count)  # type: ignore[attr-defined]
        hits = searcher.search(self._term(field, word), limit=most, count=False).hits
        row_sources = searcher.fast_field_values("source", [address for _, address in hits])
        wanted = frozenset(sources)
        return sum(source in wanted for source in row_sources)

    def identities(self) -> set[tuple[int, int]]:
        """All (doc, chunk) pairs in the index, to compare with the database."""
        with self._translated():
            searcher = self._index.searcher()
            query = tantivy.Query.exists_query("chunk")
            hits = searcher.search(query, limit=max(1, searcher.num_docs), count=False).hits
            addresses = [address for _, address in hits]
            docs = searcher.fast_field_values("doc", addresses)
            chunks = searcher.fast_field_values("chunk", addresses)
        pairs = zip(docs, chunks, strict=True)
        return {(int(doc or 0), int(chunk or 0)) for doc, chunk in pairs}

    def reload(self) -> None:
        """Load the commits of other processes."""
        with self._translated():
            self._index.reload()
        self._frequencies = {}

    def close(self) -> None:
        """Release the writer, so that the next lease holder can open one."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with self._translated():
                writer.wait_merging_threads()
        if self._links is not None:
            self._links.cleanup()

    def _translated(self) -> AbstractContextManager[None]:
        return _translated(self._directory)

    def _term(self, field: str, word: str) -> tantivy.Query:
        return tantivy.Query.term_query(
            self._index.schema, field, stem_of(word), index_option="freq"
        )

    def _best(
        self, parts: Sequence[tantivy.Query], scope: SearchFilter, limit: int
    ) -> list[tuple[int, int, float]]:
        """Rows that score best over all parts, best first, ties by doc and chunk."""
        if not parts:
            return []
        if (
            scope.docs is not None
            and len(scope.docs) >= MANY_DOCS
            and scope.docs is not self._sparse
        ):
            rows = self._best_of_many(parts, scope, scope.docs, limit)
            if rows is not None:
                return rows
        return self._rows(self._filtered(_any(parts), scope), limit)

    def _best_of_many(
        self, parts: Sequence[tantivy.Query], scope: SearchFilter, docs: frozenset[int], limit: int
    ) -> list[tuple[int, int, float]] | None:
        """Like `_best`, by filtering a longer list: thousands of docs in a query cost far more.

        Returns None if the list would have to be much longer.
        """
        query = self._filtered(_any(parts), replace(scope, docs=None))
        for times in LONGER:
            rows = self._rows(query, limit * times)
            kept = [row for row in rows if row[0] in docs]
            if len(kept) >= limit or len(rows) < limit * times:
                return kept[:limit]
            # Judging by this list, the longest one won't have enough either.
            if len(kept) * LONGER[-1] < limit * times:
                self._sparse = docs
                break
        return None

    def _rows(self, query: tantivy.Query, limit: int) -> list[tuple[int, int, float]]:
        with self._translated():
            searcher = self._index.searcher()
            hits = searcher.search(query, limit=limit, count=False).hits
            addresses = [address for _, address in hits]
            # Every row has both fields.
            docs = cast("list[int]", searcher.fast_field_values("doc", addresses))
            chunks = cast("list[int]", searcher.fast_field_values("chunk", addresses))
        # Sorted without a key function: two hundred calls of one take a tenth of a query.
        ranked = sorted(
            (-round(score, 4), doc, chunk)
            for (score, _), doc, chunk in zip(hits, docs, chunks, strict=True)
        )
        return [(doc, chunk, -negated) for negated, doc, chunk in ranked]

    def _filtered(self, query: tantivy.Query, scope: SearchFilter) -> tantivy.Query:
        schema = self._index.schema
        filters: list[tantivy.Query] = []
        if scope.extensions:
            filters.append(
                tantivy.Query.term_set_query(schema, "extension", list(scope.extensions))
            )
        if scope.languages:
            filters.append(tantivy.Query.term_set_query(schema, "language", list(scope.languages)))
        if scope.docs is not None:
            filters.append(tantivy.Query.term_set_query(schema, "doc", list(scope.docs)))
        must = [query, *(tantivy.Query.const_score_query(part, 0.0) for part in filters)]
        if not scope.alone:
            must.append(self._source_filter(scope.sources))
        if len(must) == 1:
            return query
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, clause) for clause in must])

    def _source_filter(self, sources: tuple[int, ...]) -> tantivy.Query:
        """Query that matches rows of these sources only.

        Cached by combination of sources, since they may be hundreds.
        """
        known = self._source_filters
        query = known.get(sources)
        if query is None:
            if len(known) >= MAX_COUNTED:
                known = self._source_filters = {}
            chosen = tantivy.Query.term_set_query(self._index.schema, "source", list(sources))
            query = known[sources] = tantivy.Query.const_score_query(chosen, 0.0)
        return query


class _Stems(dict[str, str]):
    """Cache from an identifier to the stems of its words, separated by spaces.

    Stemming lets a question that says "registered" match code that says "register". Each identifier
    is stemmed once: source code repeats the same ones, and a filter of the index would stem every
    single word, at twice the cost of everything else.
    """

    def __init__(self) -> None:
        stemmer = tantivy.Filter.stemmer("english")
        self._analyzer = (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(stemmer).build()
        )

    def __missing__(self, identifier: str) -> str:
        if len(self) >= MAX_REMEMBERED:
            self.clear()
        stems = self[identifier] = " ".join(
            self._analyzer.analyze(" ".join(split_identifier(identifier)))
        )
        return stems

    def spaced(self, text: str) -> str:
        """Stems of a text, as they are indexed."""
        return " ".join(map(self.__getitem__, identifiers_of(text)))

    def of(self, word: str) -> str:
        """Stem of one word as `words_of` returns it."""
        return next(iter(self._analyzer.analyze(word)), word)


_STEMS = _Stems()


@lru_cache(maxsize=10_000)
def stem_of(word: str) -> str:
    """Stem of one word, as in the index. Cached: a query asks for each word ten times."""
    return _STEMS.of(word)


def _any(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])


def _link(directory: Path) -> tempfile.TemporaryDirectory[str] | None:
    """Make a folder of links to a read-only index, since tantivy locks the folder it reads.

    Returns None if the index folder is writable.
    """
    if not directory.is_dir() or os.access(directory, os.W_OK | os.X_OK):
        return None
    folder = tempfile.TemporaryDirectory(prefix="cortex-words-", ignore_cleanup_errors=True)
    for file in directory.iterdir():
        if not file.name.endswith(".lock"):
            os.symlink(file.absolute(), os.path.join(folder.name, file.name))
    return folder


def remove_generation(directory: Path) -> None:
    """Delete an index directory.

    Files that another process still has open (Windows) are left for the next time.
    """
    shutil.rmtree(directory, ignore_errors=True)
    # A file may have taken the place of the directory.
    with suppress(OSError):
        directory.unlink()


# Files found intact, with their inode, modification time and size.
_checked: dict[str, tuple[int, int, int]] = {}


def find_damage(directory: Path, *, again: bool = False) -> str:
    """Name of the first file of an index that fails its checksum, "" if all are intact.

    A file that this process has found intact is only read again if it has changed, or with `again`.
    """
    try:
        segments = json.loads((directory / "meta.json").read_text(encoding="utf-8"))["segments"]
        names = {segment["segment_id"].replace("-", "") for segment in segments}
        files = [
            entry.name for entry in os.scandir(directory) if entry.name.partition(".")[0] in names
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "meta.json"
    for name in sorted(files):
        path = os.path.join(directory, name)
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                state = status.st_ino, status.st_mtime_ns, status.st_size
                if not again and _checked.get(path) == state:
                    continue
                if not _is_intact(file, status.st_size):
                    return name
        except FileNotFoundError:
            # A merge in another process has just removed it; tantivy reports missing files.
            continue
        except (OSError, ValueError, KeyError, TypeError):
            return name
        if len(_checked) >= MAX_CHECKED:
            _checked.clear()
        _checked[path] = state
    return ""


def _is_intact(file: BinaryIO, size: int) -> bool:
    """Compare the bytes of a segment's file with the checksum at its end."""
    file.seek(max(0, size - _FOOTER.size))
    length, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    start = size - _FOOTER.size - length
    if magic != _FOOTER_MAGIC or length > _MOST_FOOTER or start < 0:
        return False
    file.seek(start)
    expected = json.loads(file.read(length))["crc"]
    file.seek(0)
    actual = 0
    while start > 0 and (block := file.read(min(BLOCK, start))):
        actual, start = zlib.crc32(block, actual), start - len(block)
    return actual == expected


def _check_memory() -> None:
    """Fail early if the system can't provide the memory that a writer takes.

    Raises: LimitError MEMORY_SHORT.
    """
    try:
        # Reserved and released at once: no page of it is ever touched.
        mmap.mmap(-1, ROOM_BYTES).close()
    except (OSError, MemoryError) as error:
        raise short_of_memory("writing the word index") from error


def extension_of(path: str) -> str:
    """Lower-case extension without its dot; "makefile" for a name without one."""
    name = path.rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[-1].lower()


def _to_document(row: LexicalRow) -> tantivy.Document:
    path = row.doc.path
    return tantivy.Document(
        doc=row.doc.id,
        chunk=row.chunk_id,
        source=row.doc.source,
        extension=extension_of(path),
        language=row.doc.language,
        name=_STEMS.spaced(row.chunk.qualified or row.chunk.name),
        path=_STEMS.spaced(path),
        doc_text=_STEMS.spaced(row.chunk.doc),
        body=_STEMS.spaced(row.body),
    )


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("doc", indexed=True, fast=True)
    builder.add_integer_field("chunk", indexed=False, fast=True)
    builder.add_integer_field("source", indexed=True, fast=True)
    for raw in ("meta", "extension", "language"):
        builder.add_text_field(raw, tokenizer_name="raw", index_option="basic")
    for field in FIELDS:
        builder.add_text_field(field, tokenizer_name="words", index_option="freq")
    return builder.build()


def _damage(directory: Path | None, message: str) -> StoreError:
    name = directory.name if directory else ""
    return StoreError("INDEX_DAMAGED", f"the word index failed: {message}", context={"index": name})


@contextmanager
def _translated(directory: Path | None) -> Iterator[None]:
    try:
        yield
    except CortexError:
        raise
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        message = str(error)
        if is_short_of_memory(error):
            raise short_of_memory("using the word index") from error
        if any(mark in message for mark in _FULL):
            raise FileError(
                "DISK_FULL", f"the word index can't grow, the disk is full: {message}"
            ) from error
        if "LockBusy" in message:
            raise StoreError(
                "STORE_LOCKED", f"another process writes to the word index: {message}"
            ) from error
        if "Permission denied" in message or "Read-only" in message:
            raise StoreError(
                "STORE_UNWRITABLE", f"the word index can't be written: {message}"
            ) from error
        if any(mark in message for mark in _SHORT):
            raise short_of_memory("using the word index") from error
        if _KILLED in message and _is_full(directory):
            raise FileError(
                "DISK_FULL", f"the word index can't grow, the disk is full: {message}"
            ) from error
        raise _damage(directory, message) from error
    except BaseException as error:
        # tantivy's own panic type, which no except clause can name.
        if type(error).__name__ != "PanicException":
            raise
        raise _damage(directory, str(error)) from error


def _is_full(directory: Path | None) -> bool:
    try:
        return directory is not None and shutil.disk_usage(directory).free < LEAST_FREE_BYTES
    except OSError:
        return False
