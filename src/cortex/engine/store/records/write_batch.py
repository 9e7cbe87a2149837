"""Write transaction that buffers new rows and writes them together.

That makes ten times fewer round trips to a database across a network. Every other statement runs
after all buffered rows are written, so that the result is the same. Reads are cached for the whole
transaction, including buffered records, since there is no other writer. A failed step drops its own
buffered rows; a savepoint is only needed if some of them were written. Knows no driver.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cortex.base.errors import CortexError
from cortex.base.record_model import Record
from cortex.engine.store.connection import Connection, Key, Row, Value, Values

INTO_RECORDS = (
    "INSERT INTO records (version, state, sensitivity, body, updated, source, change, scope, id, "
    "kind, author, created, made)"
)
INTO_REFS = "INSERT INTO refs (role, target, record)"
INTO_AUDIT = "INSERT INTO audit (at, actor, tier, key, action, record, version, via)"
INTO_KEYS = "INSERT INTO keys (actor, key, payload, result, at)"
# Targets of foreign keys come first.
_ORDER = (INTO_RECORDS, INTO_REFS, INTO_AUDIT, INTO_KEYS)
# Rows of a statement: few different sizes, so that the database can cache the statements.
_SIZES = (128, 64, 32, 16, 8, 4, 2, 1)

# Key of the suffix of the newest record's id, in a cache.
NEWEST = "newest"


class WriteBatch:
    """Connection inside a transaction that holds the lock on the counter's row."""

    def __init__(self, connection: Connection, change: int) -> None:
        """Start a batch; `change` is the number of the last write."""
        self._connection = connection
        self._waiting: dict[str, list[Row]] = {into: [] for into in _ORDER}
        # The counter now, and as written to the database.
        self._change = self._written_change = change
        # Number of buffered rows at the start of the step, and the counter then.
        self._before: tuple[dict[str, int], int] | None = None
        # True if the step has a savepoint.
        self._saved = False
        # True if the caches may contain rows that were rolled back.
        self._is_stale = False
        self._cache: dict[Hashable, Any] = {}

    # Steps.

    @contextmanager
    def part(self) -> Iterator[None]:
        """Run a step that is rolled back by itself if it fails; steps can't be nested."""
        if self._before is not None:
            raise CortexError("INTERNAL_ERROR", "a step can't be part of another one")
        self._clear_stale()
        self._before, self._saved = (
            ({into: len(rows) for into, rows in self._waiting.items()}, self._change),
            False,
        )
        try:
            yield
            if self._saved:
                self._connection.execute("RELEASE SAVEPOINT part")
        except BaseException:
            self._roll_back(*self._before)
            raise
        finally:
            self._before = None

    def _roll_back(self, waited: dict[str, int], change: int) -> None:
        if self._saved:
            # If this fails, the transaction can't be committed either, which raises at its end.
            with suppress(Exception):
                self._connection.execute("ROLLBACK TO SAVEPOINT part")
                self._connection.execute("RELEASE SAVEPOINT part")
            self._written_change = change
        for into, rows in self._waiting.items():
            del rows[0 if self._saved else waited[into] :]
        self._change = change
        self._is_stale = True

    # Statements.

    def execute(self, statement: str, values: Values = ()) -> Any:
        """Run a statement after writing all buffered rows."""
        reads = statement.startswith("SELECT")
        self._flush_before(save=not reads)
        if not reads:
            self._cache.clear()
        return self._connection.execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement for each row after writing all buffered rows."""
        self._flush_before(save=True)
        self._cache.clear()
        self._connection.executemany(statement, rows)

    def insert(self, into: str, rows: Sequence[Row]) -> None:
        """Buffer new rows; they are written before any statement that may depend on them."""
        self._waiting[into] += rows

    def remember(self, key: Hashable, value: object) -> None:
        """Cache what was written."""
        self._cache[key] = value

    def remember_record(self, record: Record[Any]) -> None:
        """Cache a record that was written."""
        self._cache[record.id] = record
        if (newest := self._cache.get(NEWEST)) is not None:
            self._cache[NEWEST] = max(newest, record.id[-26:])

    def cached(self, key: Hashable, read: Callable[[Connection], Value]) -> Value:
        """Result of a read, kept for the transaction; buffered rows stay in the buffer."""
        self._clear_stale()
        if key not in self._cache:
            self._cache[key] = read(self._connection)
        return self._cache[key]

    def prefetch(
        self, keys: Iterable[Key], read: Callable[[Connection, list[Key]], Mapping[Key, Any]]
    ) -> None:
        """Read several values for `cached` with few statements."""
        self._clear_stale()
        missing = [key for key in dict.fromkeys(keys) if key not in self._cache]
        found = read(self._connection, missing)
        self._cache.update({key: found.get(key) for key in missing})

    def next_change(self) -> int:
        """Next change number."""
        self._change += 1
        return self._change

    def write(self) -> None:
        """Write all buffered rows."""
        for into, rows in self._waiting.items():
            for part in _parts(rows):
                placeholders = f"({', '.join('?' * len(part[0]))})"
                statement = f"{into} VALUES {', '.join([placeholders] * len(part))}"
                self._connection.execute(statement, [value for row in part for value in row])
            rows.clear()
        if self._before is not None:
            self._before = (dict.fromkeys(_ORDER, 0), self._before[1])
        if self._written_change != self._change:
            self._connection.execute(
                "UPDATE counters SET value = ? WHERE name = 'change'", (self._change,)
            )
            self._written_change = self._change

    def _flush_before(self, *, save: bool) -> None:
        """Write all buffered rows, with a savepoint before those of the current step.

        A step needs one if some of the rows are its own, or if it will write more (`save`).
        """
        self._clear_stale()
        if self._before is None or self._saved:
            self.write()
            return
        waited, change = self._before
        own = {into: rows[waited[into] :] for into, rows in self._waiting.items()}
        if not save and not any(own.values()):
            self.write()
            return
        now, self._change = self._change, change
        for into, rows in self._waiting.items():
            del rows[waited[into] :]
        self.write()
        self._connection.execute("SAVEPOINT part")
        self._saved, self._change, self._waiting = True, now, own
        self.write()

    def _clear_stale(self) -> None:
        """Write the remaining rows and clear the caches after a rollback."""
        if self._is_stale:
            self._is_stale = False
            self.write()
            self._cache.clear()


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
