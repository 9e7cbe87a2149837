"""A transaction of several steps in which new rows wait, and are written together: a database
across a network is asked ten times less.

Whatever is asked or changed by a statement of its own is asked behind all rows that wait, so that
nobody can tell the difference. What was read stays true while the transaction lasts, for nobody
else writes meanwhile; the records that wait are among it. A step that fails takes back its own
rows, which mostly nobody has seen yet: only where some were written there is a savepoint. Knows no
driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cortex.base.errors import CortexError
from cortex.base.record_model import Record

INTO_RECORDS = "INSERT INTO records (version, state, sensitivity, body, updated, source, change, scope, id, kind, author, created, made)"
INTO_REFS = "INSERT INTO refs (role, target, record)"
INTO_AUDIT = "INSERT INTO audit (at, actor, tier, key, action, record, version, via)"
INTO_KEYS = "INSERT INTO keys (actor, key, payload, result, at)"
_ORDER = (INTO_RECORDS, INTO_REFS, INTO_AUDIT, INTO_KEYS)  # what is pointed to comes first
# Rows of a statement: few different ones, which the database knows after a while.
_SIZES = (128, 64, 32, 16, 8, 4, 2, 1)

Row = tuple[Any, ...]
Answer = tuple[bytes, str]  # that a key was used for, and what it gave


class WriteBatch:
    """A connection inside a transaction that holds the row of the counter."""

    def __init__(self, connection: Any, change: int) -> None:
        """`change` is the number of the last write."""
        self._connection = connection
        self._waiting: dict[str, list[Row]] = {into: [] for into in _ORDER}
        self._change = self._counted = change  # now, and as it is written
        # What waited when the step began, and the counter
        self._before: tuple[dict[str, int], int] | None = None
        self._saved = False  # whether the step has a savepoint
        self._doubted = False  # whether what is known may be something that was taken back
        self.records: dict[str, Record[Any] | None] = {}
        self.keys: dict[tuple[str, str], Answer | None] = {}
        self.newest: str | None = None  # the end of the id of what was made last

    # -- a step
    # --------------------------------------------------------------------------------------------------------

    @contextmanager
    def part(self) -> Iterator[None]:
        """What is done inside the block is taken back where it fails; there is none within another."""
        if self._before is not None:
            raise CortexError("INTERNAL_ERROR", "a step can't be part of another one")
        self._settle_doubts()
        self._before, self._saved = (
            ({into: len(rows) for into, rows in self._waiting.items()}, self._change),
            False,
        )
        try:
            yield
            if self._saved:
                self._connection.execute("RELEASE SAVEPOINT part")
        except BaseException:
            self._take_back(*self._before)
            raise
        finally:
            self._before = None

    def _take_back(self, waited: dict[str, int], change: int) -> None:
        if self._saved:
            # Then the transaction can't be committed either, which is told at its end
            with suppress(Exception):
                self._connection.execute("ROLLBACK TO SAVEPOINT part")
                self._connection.execute("RELEASE SAVEPOINT part")
            self._counted = change
        for into, rows in self._waiting.items():
            del rows[0 if self._saved else waited[into] :]
        self._change = change
        self._doubted = True

    # -- statements
    # ----------------------------------------------------------------------------------------------------

    def execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Ask or change something, behind all rows that wait."""
        reads = statement.startswith("SELECT")
        self._write_before(save=not reads)
        if not reads:
            self._forget()
        return self._connection.execute(statement, values)

    def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Change something for each row, behind all rows that wait."""
        self._write_before(save=True)
        self._forget()
        self._connection.executemany(statement, rows)

    def insert(self, into: str, rows: Sequence[Row]) -> None:
        """Have new rows written before anything is asked that they matter for."""
        self._waiting[into] += rows

    def remember(self, record: Record[Any]) -> None:
        """Know a record that was written."""
        self.records[record.id] = record
        if self.newest is not None:
            self.newest = max(self.newest, record.id[-26:])

    def next_change(self) -> int:
        """The number of a write."""
        self._change += 1
        return self._change

    @property
    def aside(self) -> Any:
        """The connection itself, for questions to which no row that waits is an answer that isn't
        known.
        """
        self._settle_doubts()
        return self._connection

    def write(self) -> None:
        """Write all that waits."""
        for into, rows in self._waiting.items():
            for part in _parts(rows):
                one = f"({', '.join('?' * len(part[0]))})"
                statement = f"{into} VALUES {', '.join([one] * len(part))}"
                self._connection.execute(statement, [value for row in part for value in row])
            rows.clear()
        if self._before is not None:
            self._before = (dict.fromkeys(_ORDER, 0), self._before[1])
        if self._counted != self._change:
            self._connection.execute(
                "UPDATE counters SET value = ? WHERE name = 'change'", (self._change,)
            )
            self._counted = self._change

    def _write_before(self, *, save: bool) -> None:
        """Write all that waits; a step whose rows are among it, or that will `save` more, gets a
        savepoint behind those of others.
        """
        self._settle_doubts()
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

    def _settle_doubts(self) -> None:
        """After something was taken back: write the rest, and know nothing."""
        if self._doubted:
            self._doubted = False
            self.write()
            self._forget()

    def _forget(self) -> None:
        self.records.clear()
        self.keys.clear()
        self.newest = None


def insert(connection: Any, into: str, rows: Sequence[Row]) -> None:
    """Write new rows, in a batch or at once."""
    if isinstance(connection, WriteBatch):
        connection.insert(into, rows)
    elif rows:
        connection.executemany(f"{into} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
