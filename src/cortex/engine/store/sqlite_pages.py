"""Reader of SQLite files page by page, without SQLite, for databases that SQLite rejects.

Knows the file format (sqlite.org/fileformat2.html): b-tree pages, records, overflow chains, the
freelist and the write-ahead log. Anything invalid is skipped: a damaged page costs the rows on it.
Rows below a known root are returned with their table; rows on leaf pages that no root leads to
without one.

Road not taken: the `.recover` command of SQLite's shell, which few machines have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"SQLite format 3\0"
DEFAULT_PAGE_BYTES = 4096
# A larger value has a damaged length.
MOST_VALUE_BYTES = 64 << 20
MOST_COLUMNS = 100
_TABLE_LEAF, _TABLE_NODE, _INDEX_LEAF, _INDEX_NODE = 13, 5, 10, 2
_LEAVES = (_TABLE_LEAF, _INDEX_LEAF)
_WAL_MAGICS = (0x377F0682, 0x377F0683)
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)

Value = None | int | float | str | bytes


class Damaged(Exception):
    """Page, cell or value that doesn't fit the format."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """Row of a table; `rowid` is 0 in a table without rowids."""

    rowid: int
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """Table or index in the schema."""

    kind: str
    name: str
    root: int


class Pages:
    """Pages of a database file, with newer ones from its write-ahead log."""

    def __init__(self, database: Path) -> None:
        """Read the file and its log.

        Raises: OSError.
        """
        self._bytes = database.read_bytes() if database.exists() else b""
        wal = database.with_name(f"{database.name}-wal")
        log = wal.read_bytes() if wal.exists() else b""
        self.size, reserved = _page_size(self._bytes, log)
        self._usable = self.size - reserved
        self._newer = _frames(log, self.size)
        self.count = max(-(-len(self._bytes) // self.size), max(self._newer, default=0))

    @property
    def version(self) -> int:
        """Schema version (`user_version`), 0 if it can't be read."""
        try:
            return (
                struct.unpack_from(">i", self.page(1), 60)[0]
                if self.page(1).startswith(MAGIC)
                else 0
            )
        except Damaged:
            return 0

    def page(self, page_number: int) -> bytes:
        """Content of a page.

        Raises: Damaged.
        """
        content = (
            self._newer.get(page_number)
            or self._bytes[(page_number - 1) * self.size : page_number * self.size]
        )
        if page_number < 1 or len(content) != self.size:
            raise Damaged(f"there is no page {page_number}")
        return content

    def schema(self, seen: set[int]) -> list[SchemaEntry]:
        """Readable tables and indexes."""
        entries = []
        for row in self.rows(1, seen):
            match row.values:
                case (str(kind), str(name), str(), int(root), *_):
                    entries.append(SchemaEntry(kind, name, root))
        return entries

    def rows(self, root: int, seen: set[int]) -> Iterator[RawRow]:
        """Yield the rows below a root, in order; visited pages are added to `seen`."""
        waiting = [root]
        while waiting:
            page_number = waiting.pop()
            if page_number in seen:
                continue
            seen.add(page_number)
            try:
                page = self.page(page_number)
                kind, cells, last = _header(page, page_number)
            except Damaged:
                continue
            if last:
                waiting.append(last)
            below = []
            for offset in cells:
                try:
                    if kind in (_TABLE_NODE, _INDEX_NODE):
                        below.append(struct.unpack_from(">I", page, offset)[0])
                        offset += 4
                    if kind != _TABLE_NODE:
                        yield self._row(page, offset, kind)
                except (Damaged, struct.error, IndexError):
                    continue
            waiting.extend(reversed(below))

    def lost_rows(self, seen: set[int]) -> Iterator[RawRow]:
        """Yield the rows on leaf pages that weren't visited yet and aren't free."""
        free = self._free()
        for page_number in range(1, self.count + 1):
            if page_number in seen or page_number in free:
                continue
            try:
                kind, _, _ = _header(self.page(page_number), page_number)
            except Damaged:
                continue
            if kind in _LEAVES:
                yield from self.rows(page_number, seen)

    def _free(self) -> set[int]:
        """Pages on the freelist, as far as it can be followed."""
        free: set[int] = set()
        try:
            first = self.page(1)
            trunk = struct.unpack_from(">I", first, 32)[0] if first.startswith(MAGIC) else 0
            while trunk and trunk not in free:
                free.add(trunk)
                following, count = struct.unpack_from(">II", self.page(trunk))
                free.update(
                    struct.unpack_from(f">{min(count, self.size // 4 - 2)}I", self.page(trunk), 8)
                )
                trunk = following
        except (Damaged, struct.error):
            pass
        return free

    def _row(self, page: bytes, offset: int, kind: int) -> RawRow:
        size, offset = _varint(page, offset)
        rowid = 0
        if kind == _TABLE_LEAF:
            rowid, offset = _varint(page, offset)
        return RawRow(rowid, _values(self._payload(page, offset, size, kind)))

    def _payload(self, page: bytes, offset: int, size: int, kind: int) -> bytes:
        usable = self._usable
        if size > MOST_VALUE_BYTES:
            raise Damaged("a row that long was never written")
        most = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return page[offset : offset + size]
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= most else least
        parts, left = [page[offset : offset + local]], size - local
        following, passed = struct.unpack_from(">I", page, offset + local)[0], set[int]()
        while left > 0:
            if following in passed:
                raise Damaged("a chain of pages that comes back to itself")
            passed.add(following)
            more = self.page(following)
            parts.append(more[4 : 4 + min(left, usable - 4)])
            left -= usable - 4
            following = struct.unpack_from(">I", more)[0]
        return b"".join(parts)


def _header(page: bytes, page_number: int) -> tuple[int, Sequence[int], int]:
    """Kind of a b-tree page, offsets of its cells, and its last child.

    Raises: Damaged.
    """
    start = 100 if page_number == 1 else 0
    kind, count = page[start], struct.unpack_from(">H", page, start + 3)[0]
    if kind not in (*_LEAVES, _TABLE_NODE, _INDEX_NODE) or count > len(page) // 2 - 8:
        raise Damaged("this is no page of a table")
    leaf = kind in _LEAVES
    try:
        cells = struct.unpack_from(f">{count}H", page, start + (8 if leaf else 12))
    except struct.error as error:
        raise Damaged(str(error)) from error
    return kind, cells, 0 if leaf else struct.unpack_from(">I", page, start + 8)[0]


def _varint(page: bytes, offset: int) -> tuple[int, int]:
    value = index = 0
    for index in range(9):
        byte = page[offset + index]
        if index == 8:
            value = (value << 8) | byte
            break
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value - (1 << 64) if value >> 63 else value, offset + index + 1


def _values(payload: bytes) -> tuple[Value, ...]:
    """Decode the values of a record.

    Raises: Damaged, IndexError.
    """
    length, offset = _varint(payload, 0)
    if not 1 <= length <= len(payload):
        raise Damaged("a row's header is longer than the row")
    values: list[Value] = []
    body = length
    while offset < length:
        code, offset = _varint(payload, offset)
        value, body = _value(payload, body, code)
        values.append(value)
        if len(values) > MOST_COLUMNS:
            raise Damaged("a row of that many columns was never written")
    if body != len(payload):
        raise Damaged("a row's values are longer or shorter than the row")
    return tuple(values)


def _value(payload: bytes, start: int, code: int) -> tuple[Value, int]:
    if code < 0 or code in (10, 11):
        raise Damaged("there is no such type")
    if code in (0, 8, 9):
        return (None, 0, 1)[(0, 8, 9).index(code)], start
    size = _INTEGER_BYTES[code] if code < 7 else 8 if code == 7 else (code - 12) // 2
    raw = payload[start : start + size]
    if len(raw) != size:
        raise Damaged("a value reaches beyond its row")
    if code < 7:
        return int.from_bytes(raw, "big", signed=True), start + size
    if code == 7:
        return struct.unpack(">d", raw)[0], start + size
    if code % 2 == 0:
        return raw, start + size
    try:
        return raw.decode("utf-8"), start + size
    except UnicodeDecodeError as error:
        raise Damaged("a text that isn't UTF-8") from error


def _page_size(database: bytes, log: bytes) -> tuple[int, int]:
    """Page size and reserved bytes; Cortex's defaults if they can't be read."""
    if database.startswith(MAGIC) and len(database) > 20:
        size = struct.unpack_from(">H", database, 16)[0]
        size = 65_536 if size == 1 else size
        if size >= 512 and not size & (size - 1):
            return size, database[20]
    if len(log) >= 32 and struct.unpack_from(">I", log)[0] in _WAL_MAGICS:
        size = struct.unpack_from(">I", log, 8)[0]
        if 512 <= size <= 65_536 and not size & (size - 1):
            return size, 0
    return DEFAULT_PAGE_BYTES, 0


def _frames(log: bytes, size: int) -> dict[int, bytes]:
    """Latest committed version of each page in a write-ahead log."""
    if len(log) < 32 or struct.unpack_from(">I", log)[0] not in _WAL_MAGICS:
        return {}
    salts = log[16:24]
    committed_pages: dict[int, bytes] = {}
    open_frames: dict[int, bytes] = {}
    for start in range(32, len(log) - 24 - size + 1, 24 + size):
        page_number, is_commit = struct.unpack_from(">II", log, start)
        if log[start + 8 : start + 16] != salts:
            break
        open_frames[page_number] = log[start + 24 : start + 24 + size]
        if is_commit:
            committed_pages |= open_frames
            open_frames = {}
    return committed_pages
