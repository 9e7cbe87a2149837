"""Mirror other products' memory databases into the store, to search them like our own.

Rows are copied in batches, newest first; copying can stop and resume at any point. It runs in two
directions: up, to new rows, and then down through all older rows, comparing each with its copy
until every row was seen once. A database is compared again when its files have changed; a large one
at most every ten minutes, but its new rows at once. The database itself is never written to.
Curation decisions about a row outlive its copy.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.runtime.sqlite_file_state import needs_reread, state_of
from cortex.base.secret_scanner import Leak, find_leaks, redact
from cortex.base.text import hash_bytes
from cortex.base.types import Cancel, Memory, MemoryState
from cortex.engine.library import Library
from cortex.engine.store import Mirror, NewMemory
from cortex.families.memory.adapters.claude_mem import (
    ClaudeMemDatabase,
    ClaudeMemRow,
    open_database,
)
from cortex.families.memory.chroma_vectors import clear_cache, reuse
from cortex.families.memory.databases import MemoryDatabase, databases
from cortex.families.memory.dedup import fingerprint
from cortex.families.memory.fields import LISTS, REDACTED, map_texts, texts_of
from cortex.families.memory.index_text import VERSION, word
from cortex.families.memory.states import is_forgotten, name_of

# Rows per transaction.
BATCH = 500
# Most rows with a row number that isn't positive.
MAX_BELOW = 100_000
# Rows: a database up to this size is compared whenever it has changed.
SMALL = 5_000
# Time between two comparisons of a larger database.
COMPARE_SECONDS = 600
# Time that the copy of a database is kept after it was last requested.
KEEP_SECONDS = 14 * 86_400
# Time between two updates of the time of the last request.
WANT_SECONDS = 86_400
FIRST_CATCH_UP_SECONDS, CATCH_UP_SECONDS = 0.5, 10.0
POLL_SECONDS = 0.02
# Delay after a database could not be read.
RETRY_SECONDS = 5
# Special values of `Mirror.cursor`.
WAITING, NOT_BEGUN, DONE = -2, -1, 0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Copied:
    """Progress of mirroring."""

    # Rows in the databases.
    rows: int
    # Upper bound of the rows that are not copied yet.
    left: int
    problems: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return not self.left and not self.problems


def sync(library: Library, *, seconds: float = 60.0, cancel: Cancel | None = None) -> bool:
    """Copy changed rows for at most `seconds`; return True when everything is copied.

    If another process holds the lease, wait for that process to copy.
    """
    deadline = time.monotonic() + seconds
    want(library)
    if not library.holds_lease():
        return _await_holder(library, deadline, cancel)
    done = []
    for mirror in library.store.memories.mirrors():
        if os.path.isfile(mirror.origin) and time.time() - mirror.wanted_at < KEEP_SECONDS:
            done.append(_Copy(library, mirror, deadline, cancel).go())
        elif time.time() - mirror.wanted_at > KEEP_SECONDS:
            count = library.store.memories.drop_copy(mirror.origin)
            log.info("%s was not used lately: %d copies are forgotten", mirror.origin, count)
    return all(done)


def want(library: Library) -> None:
    """Request copies of the databases in these settings.

    The requests are stored, because the process that holds the lease may have other settings.
    """
    known = _mirrors(library)
    now = time.time()
    requests = [
        (database.origin, database.scope)
        for database in databases(library.settings)
        if database.origin not in known
        or known[database.origin].scope != database.scope
        or now - known[database.origin].wanted_at > WANT_SECONDS
    ]
    if requests:
        library.store.memories.want(requests)


def _await_holder(library: Library, deadline: float, cancel: Cancel | None) -> bool:
    while due := is_due(library):
        if time.monotonic() > deadline or cancel:
            break
        time.sleep(POLL_SECONDS)
    return not due


def is_due(library: Library) -> bool:
    """True if a database has changed since it was copied, or is not copied completely.

    Only looks at the files' state.
    """
    known = _mirrors(library)
    return any(
        _is_due(known.get(database.origin, Mirror(database.origin)))
        for database in databases(library.settings)
    )


def behind(library: Library) -> list[MemoryDatabase]:
    """List the databases that may have rows without a copy; only looks at the files' state."""
    known = _mirrors(library)

    def lacks(mirror: Mirror) -> bool:
        return bool(mirror.problem) or not mirror.compared_at or _has_changed(mirror)

    return [
        database
        for database in databases(library.settings)
        if lacks(known.get(database.origin, Mirror(database.origin)))
    ]


def is_work(library: Library) -> bool:
    """True if there are rows to copy or expired copies to drop, in any requested database.

    For the lease holder.
    """
    want(library)
    return any(
        _is_due(mirror)
        or _may_lack(mirror)
        or (not mirror.problem and mirror.shown_as != _shown_as(library, mirror))
        if os.path.isfile(mirror.origin)
        else time.time() - mirror.wanted_at > KEEP_SECONDS
        for mirror in library.store.memories.mirrors()
    )


def copied(library: Library) -> Copied:
    """Report the progress of mirroring from the stored state."""
    known = _mirrors(library)
    rows = left = 0
    problems = []
    for database in databases(library.settings):
        mirror = known.get(database.origin, Mirror(database.origin))
        if mirror.problem:
            problems.append(mirror.problem)
        else:
            rows += mirror.total
            left += 0 if mirror.compared_at else max(1, min(mirror.cursor, mirror.total))
    return Copied(rows, left, tuple(problems))


def _mirrors(library: Library) -> dict[str, Mirror]:
    return {mirror.origin: mirror for mirror in library.store.memories.mirrors()}


def _is_due(mirror: Mirror) -> bool:
    # After a problem retry even if the files look the same as before.
    if mirror.problem:
        return abs(time.time() - mirror.tried_at) > RETRY_SECONDS
    return _has_changed(mirror) or (mirror.cursor != DONE and _may_compare(mirror))


def _shown_as(library: Library, mirror: Mirror) -> str:
    """Signature of the settings that the copies depend on; when it changes, all are rebuilt."""
    return f"{library.settings.memory.uncurated}:{VERSION}:{mirror.scope}"


def _may_compare(mirror: Mirror) -> bool:
    return mirror.total <= SMALL or abs(time.time() - mirror.compared_at) > COMPARE_SECONDS


def _snapshot_state(mirror: Mirror) -> str:
    """State of the database's files and the time it was read."""
    return f"{_file_state(mirror)}@{int(time.time())}"


def _file_state_in(seen: str) -> str:
    return seen.partition("@")[0]


def _has_changed(mirror: Mirror) -> bool:
    return _file_state_in(mirror.seen) != _file_state(mirror)


def _may_lack(mirror: Mirror) -> bool:
    """True if a write may have been in progress when the files were last seen.

    Such a write becomes readable without another change to the files.
    """
    files, _, seen_at = mirror.seen.partition("@")
    if mirror.problem or not files or not seen_at:
        return False
    return needs_reread([int(value) for value in files.split(",")], int(seen_at), time.time())


def _file_state(mirror: Mirror) -> str:
    return ",".join(map(str, state_of(Path(mirror.origin))))


class _Copy:
    """One copying run over one database."""

    def __init__(
        self, library: Library, mirror: Mirror, deadline: float, cancel: Cancel | None
    ) -> None:
        self.library, self.store = library, library.store
        self.deadline, self.cancel = deadline, cancel
        self.uncurated = library.settings.memory.uncurated
        self.shown_as = _shown_as(library, mirror)
        if mirror.shown_as != self.shown_as:
            # Every copy is rebuilt on the way down.
            mirror = replace(mirror, seen="", cursor=NOT_BEGUN, compared_at=0)
        self.mirror = mirror
        self.database = MemoryDatabase(Path(mirror.origin), mirror.scope)
        self.forgotten = self.store.memories.forgotten(mirror.origin)
        self.new: list[Memory] = []
        # True while the indexes lack rows that were copied.
        self.behind = False
        first = self.mirror.cursor < DONE
        self.caught_up = time.monotonic()
        self.interval = FIRST_CATCH_UP_SECONDS if first else CATCH_UP_SECONDS

    def go(self) -> bool:
        """Copy until everything is done or time is up; return True when everything is."""
        if not _is_due(self.mirror) and not _may_lack(self.mirror):
            return not self.mirror.problem
        seen = _snapshot_state(self.mirror)
        try:
            with open_database(self.database.path) as opened:
                self._begin(opened, seen)
                complete = self._copy_new_rows(opened) and self._compare_rows(opened)
            self._reuse_vectors()
            # The indexes follow before the copy counts as done: a waiting process queries them
            # next, and after a crash in between there would be nothing left to copy.
            if self.behind or complete:
                self._catch_up()
            if complete:
                self._finish(seen)
                clear_cache()
            return complete and (
                _file_state_in(self.mirror.seen) == _file_state_in(seen)
                or (not self._must_stop() and self.go())
            )
        except CortexError as error:
            if error.code not in ("FILE_NOT_FOUND", "IMPORT_UNREADABLE"):
                raise
            if self.mirror.problem != error.message:
                log.warning("%s", error.message)
            self._save_batch(replace(self.mirror, tried_at=int(time.time()), problem=error.message))
            return False

    def _begin(self, opened: ClaudeMemDatabase, seen: str) -> None:
        """Set the start of this run, now that the database can be read."""
        mirror, total, highest = self.mirror, opened.count(), opened.last()
        # Rows were removed, or it is another database.
        fewer = total < mirror.total or highest < mirror.high
        self.mirror = replace(
            mirror,
            total=total,
            high=highest if fewer or mirror.cursor == NOT_BEGUN else mirror.high,
            compared_at=0 if fewer else mirror.compared_at,
            tried_at=int(time.time()),
            problem="",
            shown_as=self.shown_as,
        )
        # Start a new comparison from the newest row.
        if fewer or mirror.cursor <= DONE:
            if _may_compare(self.mirror):
                top = max(highest, mirror.high, DONE + 1)
                self.mirror = replace(self.mirror, cursor=top, begun=seen)
            else:
                self.mirror = replace(self.mirror, cursor=WAITING)

    def _finish(self, seen: str) -> None:
        """Record that everything is copied, as of the state in which the comparison began.

        Later changes above its cursor were not seen.
        """
        begun = seen if self.mirror.cursor == WAITING else self.mirror.begun
        compared_at = self.mirror.compared_at or int(time.time())
        self._save_batch(replace(self.mirror, seen=begun, compared_at=compared_at))

    def _copy_new_rows(self, opened: ClaudeMemDatabase) -> bool:
        """Copy the rows that were added since the last run."""
        while rows := opened.rows(above=self.mirror.high, limit=BATCH, ascending=True):
            high = rows[-1].number
            # Guard against an endless loop over row numbers that don't grow.
            if high <= self.mirror.high:
                break
            self._save_changes(rows, self.mirror.high, high, replace(self.mirror, high=high))
            if self._must_stop():
                return False
        return True

    def _compare_rows(self, opened: ClaudeMemDatabase) -> bool:
        """Compare all rows from the cursor down with their copies."""
        while (at := self.mirror.cursor) > DONE:
            rows = opened.rows(below=at + 1, limit=BATCH)
            last = len(rows) < BATCH
            # No product assigns such row numbers: the rows below are read at once.
            if not last and rows[-1].number <= DONE + 1:
                rows, last = opened.rows(below=at + 1, limit=MAX_BELOW), True
            low = DONE if last else rows[-1].number - 1
            done = {"compared_at": int(time.time())} if low <= DONE else {}
            mirror = replace(self.mirror, cursor=max(low, DONE), **done)
            self._save_changes(rows, -(2**62) if last else low, at, mirror)
            if self._must_stop():
                return self.mirror.cursor == DONE
        return True

    def _save_changes(
        self, rows: Sequence[ClaudeMemRow], above: int, to: int, mirror: Mirror
    ) -> None:
        """Store what differs between rows and the copies in their range of numbers."""
        known = self.store.memories.signatures(self.mirror.origin, above, to)
        removed = _removed_keys(rows, known, self.forgotten)
        self._save_batch(mirror, self._changed_rows(rows, known), removed)

    def _changed_rows(
        self, rows: Sequence[ClaudeMemRow], known: Mapping[int, tuple[str, bytes]]
    ) -> list[NewMemory]:
        """Select the rows that have no copy, or one with other content."""
        new = []
        for row in rows:
            if is_forgotten(row.memory, self.forgotten):
                continue
            signature = _signature(row, self.shown_as)
            if known.get(row.number, ("", b""))[1] != signature:
                new.append(self._new(row, signature))
        return new

    def _new(self, row: ClaudeMemRow, signature: bytes) -> NewMemory:
        memory = without_secrets(row.memory)
        return NewMemory(
            memory,
            self._source_name(row.state),
            row.state,
            scope=self.database.scope or memory.project,
            fingerprint=fingerprint(memory),
            origin=self.mirror.origin,
            number=row.number,
            other_project=redact(row.other_project)[0],
            signature=signature,
        )

    def _save_batch(
        self, mirror: Mirror, new: Sequence[NewMemory] = (), gone: Sequence[str] = ()
    ) -> None:
        """Store a batch together with the progress.

        The indexes follow only from time to time, because each update creates an index segment.
        """
        self.store.memories.copy(mirror, new, gone, word, self._source_name)
        self.mirror = mirror
        self.new += [record.memory for record in new if record.name]
        self.behind |= bool(new or gone)
        if self.behind and time.monotonic() - self.caught_up > self.interval:
            self._catch_up()

    def _source_name(self, state: MemoryState | None) -> str | None:
        return name_of(state, self.uncurated)

    def _catch_up(self) -> None:
        self.library.embedding.catch_up()
        self.behind, self.caught_up, self.interval = False, time.monotonic(), CATCH_UP_SECONDS

    def _reuse_vectors(self) -> None:
        """Reuse the vectors beside the database if they are of the configured embedding model."""
        for folder in self.database.vectors:
            reuse(self.library, folder, ((memory.key, _chunks_of(memory)) for memory in self.new))

    def _must_stop(self) -> bool:
        return time.monotonic() > self.deadline or bool(self.cancel)


def without_secrets(memory: Memory) -> Memory:
    """Redact every key and password in a memory, so that none reaches an index."""
    # Scan all parts together: the lines of a private key may be spread over several facts.
    leaks = find_leaks("\n".join(texts_of(memory, REDACTED)))
    if not leaks:
        return memory
    end = -1

    def clean(_: str, part: str) -> str:
        nonlocal end
        start, end = end + 1, end + 1 + len(part)
        return _redacted(part, start, leaks)

    redacted = map_texts(memory, REDACTED, clean)
    lists = {name: tuple(filter(None, getattr(redacted, name))) for name in LISTS}
    return replace(redacted, **lists)


def _redacted(part: str, at: int, leaks: Sequence[Leak]) -> str:
    """Redact the leaks in a part that begins at offset `at` of the whole text.

    The name of a secret is placed where the secret begins.
    """
    kept, done = [], 0
    for leak in leaks:
        start, end = max(leak.start - at, 0), min(leak.end - at, len(part))
        if start < end:
            kept += [part[done:start], f"[redacted: {leak.name}]" if leak.start >= at else ""]
            done = end
    return "".join((*kept, part[done:]))


def _chunks_of(memory: Memory) -> list[str]:
    cut = word(memory)[1]
    return [cut.text[chunk.start : chunk.end] for chunk in cut.chunks]


def _removed_keys(
    rows: Sequence[ClaudeMemRow],
    known: Mapping[int, tuple[str, bytes]],
    forgotten: Mapping[str, int],
) -> list[str]:
    """Keys of copies in the range of these rows that no row has any more.

    Forgotten rows count as removed.
    """
    key_by_number = {
        row.number: row.memory.key for row in rows if not is_forgotten(row.memory, forgotten)
    }
    return [key for number, (key, _) in known.items() if key_by_number.get(number) != key]


def _signature(row: ClaudeMemRow, shown_as: str) -> bytes:
    return hash_bytes(repr((row, shown_as)).encode("utf-8", "surrogatepass"))
