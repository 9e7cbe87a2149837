"""Bringing a store up to date with a folder: look, compare, read, cut, remember, and let the
indexes catch up.

The one place that joins sources, worker and store. What it does is safe to stop at any moment:
every step that is remembered is complete in itself, and the next run goes on from there. It doesn't
know leases, threads or watching; the engine does.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base import secret_scanner
from cortex.base.errors import Cancelled, FileError, LimitError
from cortex.base.runtime.process_stats import memory_bytes
from cortex.base.settings import Settings
from cortex.base.settings.values import format_size
from cortex.base.text import hash_bytes
from cortex.base.types import (
    Cancel,
    IndexReport,
    Progress,
    ProgressCallback,
    Scan,
    ScannedFile,
    Source,
    UnreadableFile,
)
from cortex.engine import chunkers, readers
from cortex.engine.file_queue import FileQueue
from cortex.engine.readers import is_mended
from cortex.engine.sources import git
from cortex.engine.sources.scanner import OVER_LIMIT, Rules, read_bytes, scan, scan_paths
from cortex.engine.store import DOCUMENTS, ContentChange, EmbeddingJob, Known, Store
from cortex.engine.worker.pool import NOT_STARTED, Pool

if TYPE_CHECKING:
    import numpy as np

CHECK_FILES = 250  # between two looks at how much memory and disk is used
FLUSH_CHARACTERS = 16_000_000  # of text that waits in memory; `limits.memory.buffer` may lower it
FLUSH_SECONDS = 2.0  # of work that a kill can cost
FIRST_CATCH_UP_SECONDS = 1.0  # so that a query during the first run finds something soon
CATCH_UP_SECONDS = 10.0  # each catch-up makes a segment: fewer are faster
# Until a file that took too long or too much is tried again: it may have been a bad moment
RETRY_SECONDS = 3_600
RECENT_FILES = 5_000  # whose order in the history is remembered
# A file changed this shortly before it was read may change again within the clock's grain
RACY_NS = 2_000_000_000

log = logging.getLogger(__name__)


class Stopped(LimitError):
    """A limit or a lack of workers ended the run; `report` is what was done until then."""

    def __init__(
        self, code: str, message: str, report: IndexReport, context: Mapping[str, object]
    ) -> None:
        super().__init__(code, message, context=context)
        self.report = report


@dataclass(frozen=True, slots=True)
class IndexTask:
    """What one run works on and with."""

    store: Store
    source: Source
    settings: Settings
    pool: Pool
    makings: tuple[EmbeddingJob, ...] = ()  # whose vectors follow
    force: bool = False
    # None is the whole source; else only these files and folders
    paths: Collection[str] | None = None
    progress: ProgressCallback = lambda progress: None
    cancel: Cancel = field(default_factory=Cancel)
    # So that questions may move files to the front
    share_queue: Callable[[FileQueue], object] = lambda queue: None


def rules_of(settings: Settings, root: Path, *, documents: bool = False) -> Rules:
    """Which files of a root belong in the index, as the settings say it; `documents` are wanted
    beside plain text or not.
    """
    return Rules(
        include=tuple(settings.workspace.include_patterns),
        exclude=(
            *settings.workspace.exclude_patterns,
            *(() if documents else _chunk_files(settings, root)),
        ),
        max_file_size=settings.workspace.max_file_size,
        max_files=settings.workspace.max_files,
        documents=documents,
    )


def _chunk_files(settings: Settings, root: Path) -> tuple[str, ...]:
    """A pattern for the project's chunk files: they repeat its other files, and have a search of
    their own.
    """
    folder = Path(os.path.abspath(root / settings.server.chunks_dir))
    if folder == root or not folder.is_relative_to(root):
        return ()
    return (f"/{folder.relative_to(root).as_posix()}/*.json",)


def run(task: IndexTask) -> IndexReport:
    """Bring the task's source up to date.

    Raises: Stopped INDEX_TIMEOUT, MEMORY_LIMIT, DISK_LIMIT or WORKER_FAILED; what was done until
    then is kept. EMBEDDINGS_LIMIT; all but vectors is done.
    """
    return _Run(task).go()


class _Run:
    def __init__(self, task: IndexTask) -> None:
        self.task = task
        self.started = time.monotonic()
        self.started_ns = time.time_ns()
        self.deadline = self.started + task.settings.limits.processing.index_timeout
        self.root = Path(task.source.root)
        self.documents = task.source.kind == DOCUMENTS
        self.rules = rules_of(task.settings, self.root, documents=self.documents)
        self.stamp = _chunker_stamp(task.settings, self.documents)
        self.change = ContentChange(self.started_ns)
        self.waiting_characters = 0
        self.flush_characters = min(FLUSH_CHARACTERS, task.settings.limits.memory.buffer)
        self.flushed = self.caught_up = self.started
        self.queue = FileQueue()
        self.interval = FIRST_CATCH_UP_SECONDS
        self.retry = False
        self.identity: tuple[int, int] | None = None  # of the folder
        self.full: LimitError | None = None  # why there are no more vectors
        self.added = self.changed = self.same = self.deleted = self.skipped = self.done = (
            self.total
        ) = 0
        self.died = 0  # files that ended the process that read them

    def go(self) -> IndexReport:
        task = self.task
        truth = task.store.truth
        self._check_root()
        task.progress(Progress("scanning", 0, 0))
        # Near the limit on files only a look at all of them tells which ones count.
        paths = (
            task.paths
            if task.paths is not None and truth.size(task.source.id) < self.rules.max_files
            else None
        )
        whole = paths is None
        known, skips = truth.known(task.source.id, paths), truth.skips(task.source.id, paths)
        found = self._scan(paths)
        self._find_due(found, known, skips, whole)
        task.share_queue(self.queue)
        self._read(known)
        cancelled = bool(task.cancel) or self.done < self.total  # the pool was closed
        if self.died and not (self.added or self.changed or self.same):
            message = f"nothing is indexed: the process that reads files died at each of {self.died} files"
            self._stop("WORKER_FAILED", message)
        self._check_root()
        gone = [] if cancelled else self._gone(found, {*known, *skips})
        self.deleted += sum(1 for path in gone if path in known)
        self.change.removed.extend(gone)
        self._flush()
        self._catch_up()
        if whole and not cancelled:
            self._finish(len(found.files), [(one.path, one.reason) for one in found.skipped])
        if self.full is not None and not cancelled:
            self._stop(self.full.code, self.full.message)
        return self._report("cancelled" if cancelled else "completed")

    def _check_root(self) -> None:
        """Refuse to go on without the folder that was meant: an unmounted disk must not look like
        one that was emptied.

        Raises: FileError FILE_NOT_FOUND.
        """
        why = ""
        try:
            seen = os.stat(self.root)
            identity = seen.st_dev, seen.st_ino
            if not stat.S_ISDIR(seen.st_mode) or identity != (self.identity or identity):
                why = f"there is no folder {self.root}"
            self.identity = identity
        except (OSError, ValueError):
            why = f"there is no folder {self.root}"
        if self.documents and not why:
            if os.path.realpath(self.root) != str(self.root):
                why = (
                    f"{self.root} leads elsewhere by now; remove the source and add it where it is"
                )
            elif self.task.store.truth.get(f"mount:{self.task.source.id}") and not os.path.ismount(
                self.root
            ):
                why = f"the disk of {self.root} is not mounted"
        if why:
            raise FileError("FILE_NOT_FOUND", why, context={"path": str(self.root)})

    def _gone(self, found: Scan, before: set[str]) -> list[str]:
        """What was there before and isn't any more; of a folder that can't be read just now nobody
        knows.
        """
        closed = {skip.path for skip in found.skipped if skip.reason == "unreadable"}
        if "." in closed:
            raise FileError(
                "FILE_UNREADABLE", f"{self.root} can't be read", context={"path": str(self.root)}
            )
        gone = sorted(before.difference(file.path for file in found.files))
        return [
            path for path in gone if not any(path.startswith(f"{folder}/") for folder in closed)
        ]

    def _find_due(
        self,
        found: Scan,
        known: Mapping[str, Known],
        skips: Mapping[str, tuple[int, int, str]],
        whole: bool,
    ) -> None:
        """Queue the files to read, count the others."""
        task, truth = self.task, self.task.store.truth
        again = task.force or (
            whole and truth.get(f"stamp:{task.source.id}") not in ("", self.stamp)
        )
        if task.force:
            truth.set({"epoch": str(int(truth.get("epoch", "0")) + 1)})
            truth.doubt()
        self.salt = f"{self.stamp}:{truth.get('epoch', '0')}".encode()
        self.retry = (
            whole
            and not 0
            <= time.time() - int(truth.get(f"retried:{task.source.id}", "0"))
            < RETRY_SECONDS
        )
        waiting = [
            file
            for file in found.files
            if again or _changed(file, known.get(file.path), skips.get(file.path), self.retry)
        ]
        quiet = {file.path for file in found.files} - {file.path for file in waiting}
        self.queue = FileQueue(waiting)
        self.total = len(waiting)
        self.same = len(quiet - skips.keys())
        self.skipped = len(found.skipped) + len(quiet & skips.keys())

    def _report(self, status: str) -> IndexReport:
        return IndexReport(
            status=status,
            added=self.added,
            changed=self.changed,
            deleted=self.deleted,
            unchanged=self.same,
            skipped=self.skipped,
            seconds=round(time.monotonic() - self.started, 3),
        )

    def _scan(self, paths: Collection[str] | None) -> Scan:
        until = _Until(self.task.cancel, self.deadline)
        try:
            if paths is None:
                return scan(self.root, self.rules, until)
            return scan_paths(self.root, self.rules, paths, until)
        except Cancelled:
            if not self.task.cancel:
                self._check_time()
            raise

    def _read(self, known: Mapping[str, Known]) -> None:
        """Read, and cut what is new; every file ends up in the change exactly once."""
        task = self.task
        # By content hash: the files that one cut in flight is for
        twins: dict[bytes, list[ScannedFile]] = {}
        cutting = task.pool.cut_all(
            self._unseen(known, twins),
            task.settings.indexing.chunk_size,
            task.settings.indexing.chunk_overlap,
            task.cancel,
            documents=self.documents,
            redacted=task.settings.security.redact == "index",
        )
        # Or the pool would be taken for as long as somebody keeps an exception from here
        with closing(cutting):
            for content_hash, outcome in cutting:
                if isinstance(outcome, UnreadableFile) and outcome.reason.startswith(NOT_STARTED):
                    _, _, why = outcome.reason.partition(": ")
                    message = "indexing stopped: the process that reads files can't be started"
                    self._stop("WORKER_FAILED", f"{message} ({why})" if why else message)
                for file in twins.pop(content_hash):
                    if isinstance(outcome, UnreadableFile):
                        self._refuse(file, outcome.reason, known)
                    else:
                        self._count(file, known)
                        self.change.cuts.append((file, content_hash, outcome))
                        self.waiting_characters += len(outcome.text)
                self._step()

    def _unseen(
        self, known: Mapping[str, Known], twins: dict[bytes, list[ScannedFile]]
    ) -> Iterator[tuple[bytes, str, bytes]]:
        """The files whose content the store doesn't have; the others go into the change on the way."""
        for number, file in enumerate(self.queue):
            if self.task.cancel:
                return
            self._check_limits(number)
            raw = read_bytes(self.root, file.path, self.rules.max_file_size)
            if isinstance(raw, UnreadableFile):
                self._refuse(file, raw.reason, known)
                continue
            language = chunkers.language_of(
                file.path, raw[: chunkers.HEAD_CHARACTERS].decode("utf-8", "replace")
            )
            content_hash = hash_bytes(self.salt, language.encode(), raw)
            if content_hash in twins:
                twins[content_hash].append(file)
                continue
            blob = self.task.store.truth.blobs([content_hash]).get(content_hash)
            if blob is None:
                twins[content_hash] = [file]
                yield content_hash, file.path, raw
                continue
            before = known.get(file.path)
            if before is not None and before.blob == blob:
                self.change.touched.append((before.doc, file))
                self.same += 1
                self._finish_file(file)
            else:
                self._count(file, known)
                self.change.links.append((file, blob))
            self._step()

    def _finish_file(self, file: ScannedFile) -> None:
        self.done += 1
        self.queue.finish(file.path)

    def _refuse(self, file: ScannedFile, reason: str, known: Mapping[str, Known]) -> None:
        self._finish_file(file)
        self.died += reason == "worker died"
        if reason != "vanished":
            self.skipped += 1
            self.change.skips.append((file, reason))
        elif file.path in known:
            self._check_root()
            self.deleted += 1
            self.change.removed.append(file.path)

    def _count(self, file: ScannedFile, known: Mapping[str, Known]) -> None:
        self._finish_file(file)
        if file.path in known:
            self.changed += 1
        else:
            self.added += 1

    def _step(self) -> None:
        now = time.monotonic()
        self.task.progress(Progress("reading", self.done, self.total))
        full = (
            len(self.change) >= self.task.settings.indexing.batch_size
            or self.waiting_characters >= self.flush_characters
        )
        awaited = self.queue.take_read()
        if full or awaited or now - self.flushed > FLUSH_SECONDS:
            self._flush()
            if awaited or now - self.caught_up > self.interval:
                self.interval = CATCH_UP_SECONDS
                self._catch_up()
        for preference in awaited:
            preference.searchable.set()

    def _flush(self) -> None:
        if len(self.change):
            self.task.store.truth.apply(self.task.source.id, self.change)
            self.change = ContentChange(self.started_ns)
            self.waiting_characters = 0
        self.flushed = time.monotonic()

    def _catch_up(self) -> None:
        makings = () if self.full else [self._in_time(making) for making in self.task.makings]
        try:
            self.task.store.indexes.catch_up(makings, self.task.settings.limits.memory.embeddings)
        except LimitError as error:
            if error.code != "EMBEDDINGS_LIMIT":
                raise
            self.full = error  # all else goes on
        self.caught_up = time.monotonic()

    def _in_time(self, making: EmbeddingJob) -> EmbeddingJob:
        """The same, but that it ends when the run's time does."""
        embed = making.embed
        if embed is None:
            return making

        def embed_in_time(texts: list[str]) -> np.ndarray:
            self._check_time()
            return embed(texts)

        return EmbeddingJob(making.stamp, embed_in_time)

    def _finish(self, files: int, skipped: list[tuple[str, str]]) -> None:
        """Remember that everything was seen once."""
        truth = self.task.store.truth
        truth.finish(
            self.task.source.id,
            self.stamp,
            files,
            round(time.monotonic() - self.started, 3),
            skipped,
        )
        state = git.head(self.root)
        if state != truth.get(f"recent-state:{self.task.source.id}"):
            truth.remember_recent(
                self.task.source.id, state, git.recent_files(self.root)[:RECENT_FILES]
            )
        if self.documents:
            truth.set({f"mount:{self.task.source.id}": "1" if os.path.ismount(self.root) else ""})
        over = sum(reason == OVER_LIMIT for _, reason in skipped)
        made = json.dumps(self.task.settings.index_values(), sort_keys=True)
        truth.set(
            {f"settings:{self.task.source.id}": made, f"over:{self.task.source.id}": str(over)}
        )
        if self.retry:
            truth.set({f"retried:{self.task.source.id}": str(int(time.time()))})
        if self.task.force:
            self._check_time()
            truth.sweep(int(time.time()) + 1)
            self.task.store.indexes.rebuild()

    def _check_limits(self, number: int) -> None:
        limits = self.task.settings.limits
        self._check_time()
        if number % CHECK_FILES == 0:
            if memory_bytes() > limits.memory.heap:
                self._stop(
                    "MEMORY_LIMIT",
                    f"indexing stopped: the process uses more than {format_size(limits.memory.heap)}",
                )
            if self.task.store.disk_bytes() > limits.disk.database:
                self._stop(
                    "DISK_LIMIT",
                    f"indexing stopped: the store is larger than {format_size(limits.disk.database)}",
                )

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            seconds = self.task.settings.limits.processing.index_timeout
            self._stop("INDEX_TIMEOUT", f"indexing stopped after {seconds:g} seconds")

    def _stop(self, code: str, message: str) -> None:
        self._flush()
        # The words of what was read; vectors would take their time
        self.task.store.indexes.catch_up()
        raise Stopped(
            code,
            message,
            self._report("partial"),
            {
                "operation": "indexing",
                "workspace": self.task.source.root,
                "files_processed": self.done,
                "files_remaining": self.total - self.done,
            },
        )


class _Until(Cancel):
    """Another flag, that is up as well when time is."""

    def __init__(self, flag: Cancel, deadline: float) -> None:
        super().__init__()
        self._flag, self._deadline = flag, deadline

    def __bool__(self) -> bool:
        return bool(self._flag) or time.monotonic() > self._deadline


def _chunker_stamp(settings: Settings, documents: bool) -> str:
    """What decides how a file is read and cut: where it is another one, all files are read again."""
    reading = f"{DOCUMENTS}{readers.VERSION}:" if documents else ""
    if settings.security.redact == "index":
        reading += f"redacted{secret_scanner.VERSION}:"
    return f"{reading}{chunkers.VERSION}:{settings.indexing.chunk_size}:{settings.indexing.chunk_overlap}"


def _changed(
    file: ScannedFile, known: Known | None, skip: tuple[int, int, str] | None, retry: bool
) -> bool:
    if skip is not None:
        size, mtime_ns, reason = skip
        # Files that hold a secret were left out once; now only those that are one.
        passing = (
            reason in ("worker died", "secret")
            or (retry and reason in ("timed out", "memory"))
            or is_mended(reason)
        )
        return (file.size, file.mtime_ns) != (size, mtime_ns) or passing
    if known is None or (file.size, file.mtime_ns) != (known.size, known.mtime_ns):
        return True
    return known.mtime_ns > known.checked_ns - RACY_NS
