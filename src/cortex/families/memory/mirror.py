"""Copies of other products' memories, so that they are searched like our own: newest first, a batch
at a time, started and stopped at will.

A copy goes two ways: up, to rows that are new, and then down through all that was there, comparing
each row with its copy, until everything was seen once. A database is compared anew when its files
have changed; a large one not more often than every ten minutes, but its new rows always at once.
Nothing is ever written to it. What a person decided about a row outlives its copy.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.runtime.sqlite_file_state import may_lack, state_of
from cortex.base.secret_scanner import Leak, find_leaks, redact
from cortex.base.text import hash_bytes
from cortex.base.types import Cancel, Memory, MemoryState
from cortex.engine.library import Library
from cortex.engine.store import Mirror, NewMemory
from cortex.families.memory.adapters.claude_mem import ClaudeMemDatabase as Opened
from cortex.families.memory.adapters.claude_mem import ClaudeMemRow, open_database
from cortex.families.memory.chroma_vectors import let_go, reuse
from cortex.families.memory.databases import MemoryDatabase, databases
from cortex.families.memory.dedup import fingerprint
from cortex.families.memory.index_text import VERSION, word
from cortex.families.memory.states import is_forgotten, name_of

BATCH = 500  # rows in one step
MAX_BELOW = 100_000  # rows with a number that isn't positive
SMALL = 5_000  # rows: a database up to this size is compared whenever it changed
COMPARE_SECONDS = 600  # between two comparisons of a larger one
KEEP_SECONDS = 14 * 86_400  # that the copy of a database is kept which nobody asks for
WANT_SECONDS = 86_400  # between two notes that somebody does
FIRST_CATCH_UP_SECONDS, CATCH_UP_SECONDS = 0.5, 10.0
POLL_SECONDS = 0.02
RETRY_SECONDS = 5  # after a database could not be read
WAITING, NOT_BEGUN, DONE = -2, -1, 0  # of `Mirror.cursor`

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Copied:
    """How far the copies are."""

    rows: int  # that the databases have
    left: int  # that are not copied yet, at most
    problems: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return not self.left and not self.problems


def sync(library: Library, *, seconds: float = 60.0, cancel: Cancel | None = None) -> bool:
    """Copy what has changed, for at most that long; true where everything is copied.

    Where another process holds the lease, it copies.
    """
    deadline = time.monotonic() + seconds
    want(library)
    if not library.holds():
        return _await(library, deadline, cancel)
    done = []
    for mirror in library.store.remembered.mirrors():
        if os.path.isfile(mirror.origin) and time.time() - mirror.wanted_at < KEEP_SECONDS:
            done.append(_Copy(library, mirror, deadline, cancel).go())
        elif time.time() - mirror.wanted_at > KEEP_SECONDS:
            count = library.store.memories.drop_copy(mirror.origin)
            log.info(
                "nobody has asked for %s lately: %d copies are forgotten", mirror.origin, count
            )
    return all(done)


def want(library: Library) -> None:
    """Have the databases of these settings copied: not only the process that holds the lease may
    know of them.
    """
    known = _mirrors(library)
    now = time.time()
    new = [
        (database.origin, database.scope)
        for database in databases(library.settings)
        if database.origin not in known
        or known[database.origin].scope != database.scope
        or now - known[database.origin].wanted_at > WANT_SECONDS
    ]
    if new:
        library.store.memories.want(new)


def _await(library: Library, deadline: float, cancel: Cancel | None) -> bool:
    while due := is_due(library):
        if time.monotonic() > deadline or cancel:
            break
        time.sleep(POLL_SECONDS)
    return not due


def is_due(library: Library) -> bool:
    """Whether a database has changed since it was copied, or is not copied completely; looks at
    files only.
    """
    known = _mirrors(library)
    return any(
        _is_due(known.get(database.origin, Mirror(database.origin)))
        for database in databases(library.settings)
    )


def behind(library: Library) -> list[MemoryDatabase]:
    """The databases that may have rows which are not copied; looks at files only."""
    known = _mirrors(library)

    def lacks(mirror: Mirror) -> bool:
        return bool(mirror.problem) or not mirror.compared_at or _has_changed(mirror)

    return [
        database
        for database in databases(library.settings)
        if lacks(known.get(database.origin, Mirror(database.origin)))
    ]


def is_work(library: Library) -> bool:
    """The same for every database that somebody wants, for whoever holds the lease."""
    want(library)
    return any(
        _is_due(mirror)
        or _may_lack(mirror)
        or (not mirror.problem and mirror.shown_as != _shown_as(library, mirror))
        if os.path.isfile(mirror.origin)
        else time.time() - mirror.wanted_at > KEEP_SECONDS
        for mirror in library.store.remembered.mirrors()
    )


def copied(library: Library) -> Copied:
    """How far the copies are, as it was remembered."""
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
    return {mirror.origin: mirror for mirror in library.store.remembered.mirrors()}


def _is_due(mirror: Mirror) -> bool:
    if mirror.problem:  # also where the files look as they did before it
        return abs(time.time() - mirror.tried_at) > RETRY_SECONDS
    return _has_changed(mirror) or (mirror.cursor != DONE and _may_compare(mirror))


def _shown_as(library: Library, mirror: Mirror) -> str:
    """What the copies depend on besides the rows: where it changes, each is made anew."""
    return f"{library.settings.memory.uncurated}:{VERSION}:{mirror.scope}"


def _may_compare(mirror: Mirror) -> bool:
    return mirror.total <= SMALL or abs(time.time() - mirror.compared_at) > COMPARE_SECONDS


def _seen(mirror: Mirror) -> str:
    """How the files are, and since when somebody knows that."""
    return f"{_files_of(mirror)}@{int(time.time())}"


def _files_in(seen: str) -> str:
    return seen.partition("@")[0]


def _has_changed(mirror: Mirror) -> bool:
    return _files_in(mirror.seen) != _files_of(mirror)


def _may_lack(mirror: Mirror) -> bool:
    """Whether a write may have been under way when the files were last seen: they don't change any
    more when it can be read.
    """
    files, _, seen_at = mirror.seen.partition("@")
    if mirror.problem or not files or not seen_at:
        return False
    return may_lack([int(number) for number in files.split(",")], int(seen_at), time.time())


def _files_of(mirror: Mirror) -> str:
    return ",".join(map(str, state_of(Path(mirror.origin))))


class _Copy:
    """One go at one database."""

    def __init__(
        self, library: Library, mirror: Mirror, deadline: float, cancel: Cancel | None
    ) -> None:
        self.library, self.store = library, library.store
        self.deadline, self.cancel = deadline, cancel
        self.uncurated = library.settings.memory.uncurated
        self.shown_as = _shown_as(library, mirror)
        if mirror.shown_as != self.shown_as:
            # Each copy is made anew on the way down
            mirror = replace(mirror, seen="", cursor=NOT_BEGUN, compared_at=0)
        self.mirror = mirror
        self.database = MemoryDatabase(Path(mirror.origin), mirror.scope)
        self.forgotten = self.store.remembered.forgotten(mirror.origin)
        self.new: list[Memory] = []
        self.behind = False  # the indexes are
        first = self.mirror.cursor < DONE
        self.caught_up, self.interval = (
            time.monotonic(),
            FIRST_CATCH_UP_SECONDS if first else CATCH_UP_SECONDS,
        )

    def go(self) -> bool:
        """Copy until all is done or time is over; true where all is."""
        if not _is_due(self.mirror) and not _may_lack(self.mirror):
            return not self.mirror.problem
        seen = _seen(self.mirror)
        try:
            with open_database(self.database.path) as opened:
                self._begin(opened, seen)
                complete = self._up(opened) and self._down(opened)
            self._reuse_vectors()
            # Before it counts as done: who waits for that asks the indexes next, and who was killed
            # while they followed left nothing to copy.
            if self.behind or complete:
                self._catch_up()
            if complete:
                self._finish(seen)
                let_go()
            return complete and (
                _files_in(self.mirror.seen) == _files_in(seen)
                or (not self._is_over() and self.go())
            )
        except CortexError as error:
            if error.code not in ("FILE_NOT_FOUND", "IMPORT_UNREADABLE"):
                raise
            if self.mirror.problem != error.message:
                log.warning("%s", error.message)
            self._step(replace(self.mirror, tried_at=int(time.time()), problem=error.message))
            return False

    def _begin(self, opened: Opened, seen: str) -> None:
        """What is to be done, now that it can be read."""
        mirror, total, highest = self.mirror, opened.count(), opened.last()
        # Rows are gone, or it is another database
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
        if fewer or mirror.cursor <= DONE:  # from the top
            top = max(highest, mirror.high, DONE + 1)
            self.mirror = (
                replace(self.mirror, cursor=top, begun=seen)
                if _may_compare(self.mirror)
                else replace(self.mirror, cursor=WAITING)
            )

    def _finish(self, seen: str) -> None:
        """All is copied, as it was when the comparison began: what changed since above its cursor
        was not seen.
        """
        begun = seen if self.mirror.cursor == WAITING else self.mirror.begun
        self._step(
            replace(
                self.mirror, seen=begun, compared_at=self.mirror.compared_at or int(time.time())
            )
        )

    def _up(self, opened: Opened) -> bool:
        """The rows that came since."""
        while rows := opened.rows(above=self.mirror.high, limit=BATCH, ascending=True):
            high = rows[-1].number
            if high <= self.mirror.high:  # numbers that don't grow would never end
                break
            known = self.store.remembered.signatures(self.mirror.origin, self.mirror.high, high)
            self._step(
                replace(self.mirror, high=high),
                self._changed(rows, known),
                _gone(rows, known, self.forgotten),
            )
            if self._is_over():
                return False
        return True

    def _down(self, opened: Opened) -> bool:
        """All rows from the cursor down, each compared with its copy."""
        while (at := self.mirror.cursor) > DONE:
            rows = opened.rows(below=at + 1, limit=BATCH)
            last = len(rows) < BATCH
            # No product makes such numbers: those below are taken at once
            if not last and rows[-1].number <= DONE + 1:
                rows, last = opened.rows(below=at + 1, limit=MAX_BELOW), True
            low = DONE if last else rows[-1].number - 1
            known = self.store.remembered.signatures(
                self.mirror.origin, -(2**62) if last else low, at
            )
            done = {"compared_at": int(time.time())} if low <= DONE else {}
            mirror = replace(self.mirror, cursor=max(low, DONE), **done)
            self._step(mirror, self._changed(rows, known), _gone(rows, known, self.forgotten))
            if self._is_over():
                return self.mirror.cursor == DONE
        return True

    def _changed(
        self, rows: Sequence[ClaudeMemRow], known: Mapping[int, tuple[str, bytes]]
    ) -> list[NewMemory]:
        """The rows whose copy isn't there, or is of another wording."""
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
            self._name(row.state),
            row.state,
            scope=self.database.scope or memory.project,
            fingerprint=fingerprint(memory),
            origin=self.mirror.origin,
            number=row.number,
            other_project=redact(row.other_project)[0],
            signature=signature,
        )

    def _step(
        self, mirror: Mirror, new: Sequence[NewMemory] = (), gone: Sequence[str] = ()
    ) -> None:
        """Remember a batch and how far it is; the indexes follow from time to time: each time makes
        a segment.
        """
        self.store.memories.copy(mirror, new, gone, word, self._name)
        self.mirror = mirror
        self.new += [one.memory for one in new if one.name]
        self.behind |= bool(new or gone)
        if self.behind and time.monotonic() - self.caught_up > self.interval:
            self._catch_up()

    def _name(self, state: MemoryState | None) -> str | None:
        return name_of(state, self.uncurated)

    def _catch_up(self) -> None:
        self.library.embedding.catch_up()
        self.behind, self.caught_up, self.interval = False, time.monotonic(), CATCH_UP_SECONDS

    def _reuse_vectors(self) -> None:
        """Where the model that made the vectors beside the database is the one that is wanted here,
        they need not be paid for again.
        """
        for folder in self.database.vectors:
            reuse(self.library, folder, ((one.key, _chunks_of(one)) for one in self.new))

    def _is_over(self) -> bool:
        return time.monotonic() > self.deadline or bool(self.cancel)


def without_secrets(memory: Memory) -> Memory:
    """The memory with every key and password in it blotted out: no index has one."""
    lines = (memory.title, memory.subtitle, memory.project, memory.kind, memory.text)
    lists = (memory.facts, memory.concepts, memory.files)
    parts = [*lines, *(part for some in lists for part in some)]
    # Of all together: the lines of a private key may be so many facts
    leaks = find_leaks("\n".join(parts))
    if not leaks:
        return memory
    clean, at = [], 0
    for part in parts:
        clean.append(_blotted(part, at, leaks))
        at += len(part) + 1
    title, subtitle, project, kind, text = clean[:5]
    rest = iter(clean[5:])
    facts, concepts, files = (tuple(filter(None, islice(rest, len(some)))) for some in lists)
    return replace(
        memory,
        title=title,
        subtitle=subtitle,
        project=project,
        kind=kind,
        text=text,
        facts=facts,
        concepts=concepts,
        files=files,
    )


def _blotted(part: str, at: int, leaks: Sequence[Leak]) -> str:
    """A part that begins at that place, without what leaks there; the name of a secret stands where
    it begins.
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


def _gone(
    rows: Sequence[ClaudeMemRow],
    known: Mapping[int, tuple[str, bytes]],
    forgotten: Mapping[str, int],
) -> list[str]:
    """The keys that no row has any more of those that were copied from where these rows are; what
    is forgotten is no row.
    """
    here = {row.number: row.memory.key for row in rows if not is_forgotten(row.memory, forgotten)}
    return [key for number, (key, _) in known.items() if here.get(number) != key]


def _signature(row: ClaudeMemRow, shown_as: str) -> bytes:
    return hash_bytes(repr((row, shown_as)).encode("utf-8", "surrogatepass"))
