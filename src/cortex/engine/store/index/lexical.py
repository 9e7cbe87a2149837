"""The word index of a store (tantivy): a disposable copy of what SQLite knows, made to be searched.

One row is one chunk of one doc, with four fields of the stems of `text.words_of`; no text is
stored. What the engine's traps ask for: ids are signed integers (delete-by-term on unsigned fields
deletes nothing), one writer thread (two make ties random), the watermark is a row of its own in the
same commit (there is no commit payload), fast fields give ids back without stored rows. SQLite FTS5
was the other candidate: forty times slower on OR queries at 200,000 chunks, twice the size.
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

# A signature stands in the body: as a field of its own it made answers worse
FIELDS = (
    "name",
    "path",
    "doc_text",
    "body",
)
COVER_FIELDS = ("name", "path", "body")  # the doc stands in the body too
WRITER_BYTES = (
    # Memory of the one writer thread; more makes fewer segments and costs exactly that much memory
    32_000_000
)
# A writer that gets no memory ends the process (Rust aborts), so as much as one takes at most is
# asked for before.
ROOM_BYTES = 192 << 20
ROOM_ROWS = 250  # between two looks at that, of microseconds each
LOCK_SECONDS = 2.0  # that the lock of a writer is waited for
LOCK_POLL_SECONDS = 0.01
FORMAT = "6"  # part of the directory's name: another layout is another directory
NO_WATERMARK = -1
MANY_DOCS = 1_000  # in a query: 5,000 take 10 ms, ten times the search itself
MAX_HELD = 20  # a sum of single precision tells 24 words apart
LONGER = (4, 16)  # times as many rows
MAX_REMEMBERED = 100_000  # identifiers whose stems are kept; Django has 67,000
MAX_COUNTED = 64  # choices of sources whose words are counted once
MAX_WORDS_COUNTED = 2_000  # of each
FEW_ROWS = 1_000  # that are looked at one by one to count them
_FULL = ("No space left", "StorageFull", "QuotaExceeded", "FileTooLarge", "os error 28")
# tantivy says no more of a thread that could not write: mostly a full disk
_KILLED = "index writer was killed"
LEAST_FREE_BYTES = 2 * WRITER_BYTES
_SHORT = ("Failed to spawn", "Cannot allocate memory", "os error 12", "OutOfMemory", "os error 11")
# Each file of a segment ends with a JSON object that holds the CRC of all before it, the object's
# size and a magic number.
_FOOTER = struct.Struct("<II")
_FOOTER_MAGIC = 1337
_MOST_FOOTER = 4096
BLOCK = 1 << 20
MAX_CHECKED = 10_000


@dataclass(frozen=True, slots=True)
class LexicalRow:
    """What is indexed of one chunk of one doc."""

    doc: Doc
    chunk_id: int
    chunk: Chunk
    body: str


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Which rows may be candidates at all; empty parts don't narrow."""

    sources: tuple[int, ...]
    extensions: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    docs: frozenset[int] | None = None  # only these, where a path or a tag was asked for
    # There are no other sources: asking each row for its own would be a fifth of a search
    alone: bool = False


@dataclass(frozen=True, slots=True)
class LexicalTerm:
    """A word to look for, and how much it weighs in each field."""

    word: str
    weights: tuple[tuple[str, float], ...]  # (field, weight)


class LexicalIndex:
    """One generation of the word index. `directory` None keeps it in memory.

    Raises: StoreError INDEX_DAMAGED where there is none, or a damaged one, and `create` is not
    said; FileError DISK_FULL; LimitError MEMORY_SHORT. So does every method.
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
                # What tantivy can't read it says on stderr as well, or reads wrongly: it gets sound
                # files only.
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
        self._merged = create  # no merge of a writer that was killed is left to do
        # Docs that were too few among all for a longer list
        self._sparse: frozenset[int] = frozenset()
        # Frequencies, by sources; of this state
        self._counted: dict[tuple[int, ...], dict[tuple[str, str], int]] = {}
        # What asks each row for its source, by sources
        self._within: dict[tuple[int, ...], tantivy.Query] = {}

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
        """Drop the docs in `gone`, add `rows` (replacing rows of the same docs), commit; returns
        the number of rows added.

        Only the lease holder may call this.
        """
        try:
            with self._translated():
                return self._apply(rows, gone, watermark)
        except BaseException:
            # A writer that failed is of no use any more; with it goes what it holds uncommitted,
            # and the lock on the directory.
            self._writer, self._merged = None, False
            raise

    def _apply(self, rows: Iterable[LexicalRow], gone: Iterable[int], watermark: int) -> int:
        added = 0
        _check_room()
        if self._writer is None:
            self._writer = self._open_writer()
        for doc in gone:
            self._writer.delete_documents_by_term("doc", doc)
        current = 0
        for row in rows:
            if row.doc.id != current:
                current = row.doc.id
                self._writer.delete_documents_by_term("doc", current)
            self._writer.add_document(_document(row))
            added += 1
            if added % ROOM_ROWS == 0:
                _check_room()
        self._writer.delete_documents_by_term("meta", "watermark")
        self._writer.add_document(tantivy.Document(meta="watermark", doc=watermark))
        self._writer.commit()
        if self._directory is not None:
            keep_private(self._directory)
        self._index.reload()
        self._counted = {}
        return added

    def _open_writer(self) -> tantivy.IndexWriter:
        """A writer with nothing left to merge: rows deleted in its first commit come back when a
        merge of older segments ends later.
        """
        if not self._merged:
            writer = self._new_writer()
            try:
                writer.commit()  # which starts the merges
                writer.wait_merging_threads()
            finally:
                # Whoever keeps the exception would keep the lock on the directory with it
                del writer
            self._merged = True
        return self._new_writer()

    def _new_writer(self) -> tantivy.IndexWriter:
        """A writer, under a lock of its own: a holder of the lease that was killed gives that back
        first, and this a moment later.
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
        self, terms: Sequence[LexicalTerm], narrow: SearchFilter, limit: int
    ) -> list[tuple[int, int, float]]:
        """The best rows as (doc, chunk, score), best first, ties by doc and chunk."""
        parts = [
            tantivy.Query.boost_query(self._term(field, term.word), weight)
            for term in terms
            for field, weight in term.weights
        ]
        return self._best(parts, narrow, limit)

    def cover(
        self, masses: Mapping[str, float], narrow: SearchFilter, limit: int
    ) -> list[tuple[int, int, float]]:
        """The rows that hold most of these words, wherever and however often: (doc, chunk, share of
        the whole mass).
        """
        parts = [
            tantivy.Query.const_score_query(
                _any([self._term(field, word) for field in COVER_FIELDS]), mass
            )
            for word, mass in masses.items()
        ]
        total = sum(masses.values()) or 1.0
        return [(doc, chunk, mass / total) for doc, chunk, mass in self._best(parts, narrow, limit)]

    def held(
        self, words: Sequence[str], narrow: SearchFilter, limit: int
    ) -> dict[tuple[int, int], frozenset[str]]:
        """Which of these words stand in each row that has any of them, by (doc, chunk): for the
        first `MAX_HELD` words.
        """
        # Each word is worth a power of two: so many add up exactly, and the sum says which they
        # were.
        known = words[:MAX_HELD]
        parts = [
            tantivy.Query.const_score_query(
                _any([self._term(field, word) for field in COVER_FIELDS]), float(1 << place)
            )
            for place, word in enumerate(known)
        ]
        return {
            (doc, chunk): frozenset(
                word for place, word in enumerate(known) if int(total) >> place & 1
            )
            for doc, chunk, total in self._best(parts, narrow, limit)
        }

    def frequency(self, word: str, field: str = "body", narrow: SearchFilter | None = None) -> int:
        """In how many rows a word stands in a field; of those of some sources, where that is asked
        for.
        """
        if narrow is None or narrow.alone:
            with self._translated():
                return self._index.searcher().doc_freq(field, stem_of(word))
        known = self._counted  # of this state, whatever comes meanwhile
        if narrow.sources not in known and len(known) >= MAX_COUNTED:
            known = self._counted = {}
        counts = known.setdefault(narrow.sources, {})
        count = counts.get((field, word))
        if count is None:
            with self._translated():
                count = self._count(field, word, narrow.sources)
            if len(counts) >= MAX_WORDS_COUNTED:
                counts.clear()
            counts[field, word] = count
        return count

    def _count(self, field: str, word: str, sources: tuple[int, ...]) -> int:
        """In how many rows of these sources a word stands in a field.

        Where it stands in few, those are asked for their source: to gather all rows of hundreds of
        sources first takes much longer.
        """
        searcher = self._index.searcher()
        most = searcher.doc_freq(field, stem_of(word))  # deleted rows are still among them
        if not most:
            return 0
        if most > FEW_ROWS:
            query = self._narrowed(self._term(field, word), SearchFilter(sources))
            return int(searcher.search(query, limit=1, count=True).count)  # type: ignore[attr-defined]
        hits = searcher.search(self._term(field, word), limit=most, count=False).hits
        whose = searcher.fast_field_values("source", [address for _, address in hits])
        wanted = frozenset(sources)
        return sum(source in wanted for source in whose)

    def identities(self) -> set[tuple[int, int]]:
        """Every (doc, chunk) that the index holds, to compare with SQLite."""
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
        """See what another process committed."""
        with self._translated():
            self._index.reload()
        self._counted = {}

    def close(self) -> None:
        """Let go of the writer, so that the next lease holder can have it."""
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
        self, parts: Sequence[tantivy.Query], narrow: SearchFilter, limit: int
    ) -> list[tuple[int, int, float]]:
        """The rows that match most of the parts, best first, ties by doc and chunk."""
        if not parts:
            return []
        if (
            narrow.docs is not None
            and len(narrow.docs) >= MANY_DOCS
            and narrow.docs is not self._sparse
        ):
            found = self._best_of_many(parts, narrow, narrow.docs, limit)
            if found is not None:
                return found
        return self._rows(self._narrowed(_any(parts), narrow), limit)

    def _best_of_many(
        self, parts: Sequence[tantivy.Query], narrow: SearchFilter, docs: frozenset[int], limit: int
    ) -> list[tuple[int, int, float]] | None:
        """The same, by a longer list from which others are left out: thousands of docs in a query
        cost more than all the rest.

        None where the list would have to be much longer.
        """
        query = self._narrowed(_any(parts), replace(narrow, docs=None))
        for times in LONGER:
            rows = self._rows(query, limit * times)
            kept = [row for row in rows if row[0] in docs]
            if len(kept) >= limit or len(rows) < limit * times:
                return kept[:limit]
            # By the look of it, the longest list hasn't enough either
            if len(kept) * LONGER[-1] < limit * times:
                self._sparse = docs
                break
        return None

    def _rows(self, query: tantivy.Query, limit: int) -> list[tuple[int, int, float]]:
        with self._translated():
            searcher = self._index.searcher()
            hits = searcher.search(query, limit=limit, count=False).hits
            addresses = [address for _, address in hits]
            # Every row has them
            docs = cast("list[int]", searcher.fast_field_values("doc", addresses))
            chunks = cast("list[int]", searcher.fast_field_values("chunk", addresses))
        # Sorted as they are, without a key function: two hundred calls of one are a tenth of a
        # query.
        found = sorted(
            (-round(score, 4), doc, chunk)
            for (score, _), doc, chunk in zip(hits, docs, chunks, strict=True)
        )
        return [(doc, chunk, -less) for less, doc, chunk in found]

    def _narrowed(self, query: tantivy.Query, narrow: SearchFilter) -> tantivy.Query:
        schema = self._index.schema
        filters: list[tantivy.Query] = []
        if narrow.extensions:
            filters.append(
                tantivy.Query.term_set_query(schema, "extension", list(narrow.extensions))
            )
        if narrow.languages:
            filters.append(tantivy.Query.term_set_query(schema, "language", list(narrow.languages)))
        if narrow.docs is not None:
            filters.append(tantivy.Query.term_set_query(schema, "doc", list(narrow.docs)))
        must = [query, *(tantivy.Query.const_score_query(one, 0.0) for one in filters)]
        if not narrow.alone:
            must.append(self._of(narrow.sources))
        if len(must) == 1:
            return query
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, one) for one in must])

    def _of(self, sources: tuple[int, ...]) -> tantivy.Query:
        """What only rows of these sources match; made once for whoever sees the same, since they
        may be hundreds.
        """
        known = self._within
        query = known.get(sources)
        if query is None:
            if len(known) >= MAX_COUNTED:
                known = self._within = {}
            chosen = tantivy.Query.term_set_query(self._index.schema, "source", list(sources))
            query = known[sources] = tantivy.Query.const_score_query(chosen, 0.0)
        return query


class _Stems(dict[str, str]):
    """Identifier -> the stems of its words with spaces between: a question says "registered" where
    the code says "register".

    Worked out once for each identifier: source code says the same ones over and over, and a filter
    of the index would stem every single word of it, at twice the cost of all the rest.
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
        """What is indexed of a text."""
        return " ".join(map(self.__getitem__, identifiers_of(text)))

    def of(self, word: str) -> str:
        """The stem of one word as `words_of` gives it."""
        return next(iter(self._analyzer.analyze(word)), word)


_STEMS = _Stems()


@lru_cache(maxsize=10_000)
def stem_of(word: str) -> str:
    """The stem of one word, as the index has it; a query asks for each of its words ten times."""
    return _STEMS.of(word)


def _any(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])


def _link(directory: Path) -> tempfile.TemporaryDirectory[str] | None:
    """A folder of links to an index that can't be written: tantivy locks the folder that it reads;
    None where it can.
    """
    if not directory.is_dir() or os.access(directory, os.W_OK | os.X_OK):
        return None
    folder = tempfile.TemporaryDirectory(prefix="cortex-words-", ignore_cleanup_errors=True)
    for file in directory.iterdir():
        if not file.name.endswith(".lock"):
            os.symlink(file.absolute(), os.path.join(folder.name, file.name))
    return folder


def remove_generation(directory: Path) -> None:
    """Delete an index directory; what another process still has open (Windows) is left for the next
    time.
    """
    shutil.rmtree(directory, ignore_errors=True)
    # A file may have taken the place of the directory.
    with suppress(OSError):
        directory.unlink()


# Files that were sound, with inode, time and size then
_checked: dict[str, tuple[int, int, int]] = {}


def find_damage(directory: Path, *, again: bool = False) -> str:
    """Name the first file of an index whose bytes aren't those that were written; "" where all are.

    A file that this process has found sound is read once more only when it has changed, or `again`
    is said.
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
                found = os.fstat(file.fileno())
                state = found.st_ino, found.st_mtime_ns, found.st_size
                if not again and _checked.get(path) == state:
                    continue
                if not _is_whole(file, found.st_size):
                    return name
        except FileNotFoundError:
            # A merge in another process has just removed it; what is missing tantivy says.
            continue
        except (OSError, ValueError, KeyError, TypeError):
            return name
        if len(_checked) >= MAX_CHECKED:
            _checked.clear()
        _checked[path] = state
    return ""


def _is_whole(file: BinaryIO, size: int) -> bool:
    """Compare the bytes of a segment's file with the checksum at its end."""
    file.seek(max(0, size - _FOOTER.size))
    length, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    start = size - _FOOTER.size - length
    if magic != _FOOTER_MAGIC or length > _MOST_FOOTER or start < 0:
        return False
    file.seek(start)
    wanted = json.loads(file.read(length))["crc"]
    file.seek(0)
    found = 0
    while start > 0 and (block := file.read(min(BLOCK, start))):
        found, start = zlib.crc32(block, found), start - len(block)
    return found == wanted


def _check_room() -> None:
    """Refuse to begin where the system wouldn't give the memory that a writer takes.

    Raises: LimitError MEMORY_SHORT.
    """
    try:
        # Reserved and given back at once: no page of it is ever touched.
        mmap.mmap(-1, ROOM_BYTES).close()
    except (OSError, MemoryError) as error:
        raise short_of_memory("writing the word index") from error


def extension_of(path: str) -> str:
    """The lower-case extension without its dot; a name without one ("Makefile") is its own
    extension.
    """
    name = path.rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[-1].lower()


def _document(row: LexicalRow) -> tantivy.Document:
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
        # Tantivy's own, which no except clause can name
        if type(error).__name__ != "PanicException":
            raise
        raise _damage(directory, str(error)) from error


def _is_full(directory: Path | None) -> bool:
    try:
        return directory is not None and shutil.disk_usage(directory).free < LEAST_FREE_BYTES
    except OSError:
        return False
