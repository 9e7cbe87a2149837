"""One index run: bring a store up to date with a folder.

A run scans the folder, compares it with the store, reads and chunks what is new, stores it, and
updates the indexes. Only this module joins sources, worker and store. A run may be stopped at any
moment: every stored step is complete in itself, and the next run continues from there. It doesn't
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

# Files between two checks of memory and disk.
CHECK_FILES = 250
# Text that may wait in memory; `limits.memory.buffer` may lower it.
FLUSH_CHARACTERS = 16_000_000
# Time between two writes, so the most work that is lost if the process is killed.
FLUSH_SECONDS = 2.0
# Time until the indexes are first updated: short, so that a query soon finds something.
FIRST_CATCH_UP_SECONDS = 1.0
# Time between later updates: each makes a segment, and fewer segments are faster to search.
CATCH_UP_SECONDS = 10.0
# Pause before a file that took too much time or memory is tried again.
RETRY_SECONDS = 3_600
# Files for which the order in git's history is stored.
RECENT_FILES = 5_000
# A file changed this shortly before it was read may change again within the clock's resolution.
RACY_NS = 2_000_000_000

log = logging.getLogger(__name__)


class Stopped(LimitError):
    """A limit or a failing worker ended the run; `report` covers the work done so far."""

    def __init__(
        self, code: str, message: str, report: IndexReport, context: Mapping[str, object]
    ) -> None:
        super().__init__(code, message, context=context)
        self.report = report


@dataclass(frozen=True, slots=True)
class IndexTask:
    """Input of one run."""

    store: Store
    source: Source
    settings: Settings
    pool: Pool
    # The embedding models whose vectors to bring up to date.
    embedding_jobs: tuple[EmbeddingJob, ...] = ()
    force: bool = False
    # Only these files and folders; None is the whole source.
    paths: Collection[str] | None = None
    progress: ProgressCallback = lambda progress: None
    cancel: Cancel = field(default_factory=Cancel)
    # Called with the queue of files, so that queries may move files to the front.
    share_queue: Callable[[FileQueue], object] = lambda queue: None


def rules_of(settings: Settings, root: Path, *, documents: bool = False) -> Rules:
    """Rules for the files of a root that belong in the index, taken from the settings.

    With `documents`, PDF and office files belong, too.
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


def scan_files(
    root: Path, settings: Settings, cancel: Cancel | None = None
) -> tuple[ScannedFile, ...]:
    """Files of a root that belong in the index, as they are on disk now."""
    return scan(root, rules_of(settings, root), cancel).files


def _chunk_files(settings: Settings, root: Path) -> tuple[str, ...]:
    """Pattern of the project's chunk files, which have a search of their own."""
    folder = Path(os.path.abspath(root / settings.server.chunks_dir))
    if folder == root or not folder.is_relative_to(root):
        return ()
    return (f"/{folder.relative_to(root).as_posix()}/*.json",)


def run(task: IndexTask) -> IndexReport:
    """Bring the task's source up to date.

    Raises: Stopped INDEX_TIMEOUT, MEMORY_LIMIT, DISK_LIMIT or WORKER_FAILED; the work done so far
    is kept. Stopped EMBEDDINGS_LIMIT; everything but the vectors is done.
    """
    return _Run(task).go()


class _Run:
    """State of one run."""

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
        # Device and inode of the folder.
        self.identity: tuple[int, int] | None = None
        # The limit because of which no more vectors are made.
        self.full: LimitError | None = None
        # Counts of files by outcome.
        self.added = self.changed = self.same = self.deleted = self.skipped = 0
        self.done = self.total = 0
        # Count of files that killed the worker reading them.
        self.died = 0

    def go(self) -> IndexReport:
        """Scan, read, and bring database and indexes up to date."""
        task = self.task
        content = task.store.content
        self._check_root()
        task.progress(Progress("scanning", 0, 0))
        # Near the limit on files, only a full scan can decide which files belong.
        paths = (
            task.paths
            if task.paths is not None and content.doc_count(task.source.id) < self.rules.max_files
            else None
        )
        is_full_scan = paths is None
        known, skips = content.known(task.source.id, paths), content.skips(task.source.id, paths)
        scanned = self._scan(paths)
        self._queue_changed(scanned, known, skips, is_full_scan)
        task.share_queue(self.queue)
        self._read(known)
        # Files are left over if the pool was closed.
        cancelled = bool(task.cancel) or self.done < self.total
        if self.died and not (self.added or self.changed or self.same):
            message = (
                f"nothing is indexed: the process that reads files died at each of {self.died} "
                "files"
            )
            self._stop("WORKER_FAILED", message)
        self._check_root()
        removed = [] if cancelled else self._removed_paths(scanned, {*known, *skips})
        self.deleted += sum(1 for path in removed if path in known)
        self.change.removed.extend(removed)
        self._flush()
        self._catch_up()
        if is_full_scan and not cancelled:
            self._finish(len(scanned.files), [(skip.path, skip.reason) for skip in scanned.skipped])
        if self.full is not None and not cancelled:
            self._stop(self.full.code, self.full.message)
        return self._report("cancelled" if cancelled else "completed")

    def _check_root(self) -> None:
        """Check that the folder is still the same one.

        Otherwise an unmounted disk would look like a folder whose files were all removed.

        Raises: FileError FILE_NOT_FOUND.
        """
        problem = ""
        try:
            status = os.stat(self.root)
            identity = status.st_dev, status.st_ino
            if not stat.S_ISDIR(status.st_mode) or identity != (self.identity or identity):
                problem = f"there is no folder {self.root}"
            self.identity = identity
        except (OSError, ValueError):
            problem = f"there is no folder {self.root}"
        if self.documents and not problem:
            if os.path.realpath(self.root) != str(self.root):
                problem = (
                    f"{self.root} now leads to another folder; remove the source and add that one"
                )
            elif self.task.store.content.get(
                f"mount:{self.task.source.id}"
            ) and not os.path.ismount(self.root):
                problem = f"the disk of {self.root} is not mounted"
        if problem:
            raise FileError("FILE_NOT_FOUND", problem, context={"path": str(self.root)})

    def _removed_paths(self, scanned: Scan, indexed: set[str]) -> list[str]:
        """Paths of indexed files that no longer exist.

        Files below a folder that can't be read at the moment don't count as removed.
        """
        unreadable = {skip.path for skip in scanned.skipped if skip.reason == "unreadable"}
        if "." in unreadable:
            raise FileError(
                "FILE_UNREADABLE", f"{self.root} can't be read", context={"path": str(self.root)}
            )
        removed = sorted(indexed.difference(file.path for file in scanned.files))
        return [
            path
            for path in removed
            if not any(path.startswith(f"{folder}/") for folder in unreadable)
        ]

    def _queue_changed(
        self,
        scanned: Scan,
        known: Mapping[str, Known],
        skips: Mapping[str, tuple[int, int, str]],
        is_full_scan: bool,
    ) -> None:
        """Queue the files to read, and count the others."""
        task, content = self.task, self.task.store.content
        all_again = task.force or (
            is_full_scan and content.get(f"stamp:{task.source.id}") not in ("", self.stamp)
        )
        if task.force:
            content.set({"epoch": str(content.number("epoch") + 1)})
            content.recheck_vectors()
        self.salt = f"{self.stamp}:{content.number('epoch')}".encode()
        self.retry = (
            is_full_scan
            and not 0 <= time.time() - content.number(f"retried:{task.source.id}") < RETRY_SECONDS
        )
        waiting = [
            file
            for file in scanned.files
            if all_again or _changed(file, known.get(file.path), skips.get(file.path), self.retry)
        ]
        unchanged = {file.path for file in scanned.files} - {file.path for file in waiting}
        self.queue = FileQueue(waiting)
        self.total = len(waiting)
        self.same = len(unchanged - skips.keys())
        self.skipped = len(scanned.skipped) + len(unchanged & skips.keys())

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
        stop = _CancelOrDeadline(self.task.cancel, self.deadline)
        try:
            if paths is None:
                return scan(self.root, self.rules, stop)
            return scan_paths(self.root, self.rules, paths, stop)
        except Cancelled:
            if not self.task.cancel:
                self._check_time()
            raise

    def _read(self, known: Mapping[str, Known]) -> None:
        """Read and chunk new content; every file ends up in the change exactly once."""
        task = self.task
        # Files by content hash: equal files in flight are chunked once.
        files_by_hash: dict[bytes, list[ScannedFile]] = {}
        outcomes = task.pool.cut_all(
            self._new_contents(known, files_by_hash),
            task.settings.indexing.chunk_size,
            task.settings.indexing.chunk_overlap,
            task.cancel,
            documents=self.documents,
            redacted=task.settings.security.redact == "index",
        )
        # Closed explicitly: otherwise a kept exception would keep the pool occupied.
        with closing(outcomes):
            for content_hash, outcome in outcomes:
                if isinstance(outcome, UnreadableFile) and outcome.reason.startswith(NOT_STARTED):
                    _, _, why = outcome.reason.partition(": ")
                    message = "indexing stopped: the process that reads files can't be started"
                    self._stop("WORKER_FAILED", f"{message} ({why})" if why else message)
                for file in files_by_hash.pop(content_hash):
                    if isinstance(outcome, UnreadableFile):
                        self._skip_file(file, outcome.reason, known)
                    else:
                        self._count_indexed(file, known)
                        self.change.cuts.append((file, content_hash, outcome))
                        self.waiting_characters += len(outcome.text)
                self._save_progress()

    def _new_contents(
        self, known: Mapping[str, Known], files_by_hash: dict[bytes, list[ScannedFile]]
    ) -> Iterator[tuple[bytes, str, bytes]]:
        """Yield files with content new to the store; the others go straight into the change."""
        for index, file in enumerate(self.queue):
            if self.task.cancel:
                return
            self._check_limits(index)
            raw = read_bytes(self.root, file.path, self.rules.max_file_size)
            if isinstance(raw, UnreadableFile):
                self._skip_file(file, raw.reason, known)
                continue
            language = chunkers.language_of(
                file.path, raw[: chunkers.HEAD_CHARACTERS].decode("utf-8", "replace")
            )
            content_hash = hash_bytes(self.salt, language.encode(), raw)
            if content_hash in files_by_hash:
                files_by_hash[content_hash].append(file)
                continue
            blob = self.task.store.content.blobs([content_hash]).get(content_hash)
            if blob is None:
                files_by_hash[content_hash] = [file]
                yield content_hash, file.path, raw
                continue
            before = known.get(file.path)
            if before is not None and before.blob == blob:
                self.change.touched.append((before.doc, file))
                self.same += 1
                self._mark_done(file)
            else:
                self._count_indexed(file, known)
                self.change.links.append((file, blob))
            self._save_progress()

    def _mark_done(self, file: ScannedFile) -> None:
        self.done += 1
        self.queue.finish(file.path)

    def _skip_file(self, file: ScannedFile, reason: str, known: Mapping[str, Known]) -> None:
        """Record a file that can't be read, or remove one that has vanished."""
        self._mark_done(file)
        self.died += reason == "worker died"
        if reason != "vanished":
            self.skipped += 1
            self.change.skips.append((file, reason))
        elif file.path in known:
            self._check_root()
            self.deleted += 1
            self.change.removed.append(file.path)

    def _count_indexed(self, file: ScannedFile, known: Mapping[str, Known]) -> None:
        self._mark_done(file)
        if file.path in known:
            self.changed += 1
        else:
            self.added += 1

    def _save_progress(self) -> None:
        """Report the progress; flush and update the indexes if that is due or a query waits."""
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
        """Write the collected change to the database."""
        if len(self.change):
            self.task.store.content.apply(self.task.source.id, self.change)
            self.change = ContentChange(self.started_ns)
            self.waiting_characters = 0
        self.flushed = time.monotonic()

    def _catch_up(self) -> None:
        """Bring the indexes up to date with the database."""
        jobs = () if self.full else [self._with_deadline(job) for job in self.task.embedding_jobs]
        try:
            self.task.store.indexes.catch_up(jobs, self.task.settings.limits.memory.embeddings)
        except LimitError as error:
            if error.code != "EMBEDDINGS_LIMIT":
                raise
            # The run continues without vectors.
            self.full = error
        self.caught_up = time.monotonic()

    def _with_deadline(self, job: EmbeddingJob) -> EmbeddingJob:
        """Wrap an embedding job so that it stops at the run's deadline."""
        embed = job.embed
        if embed is None:
            return job

        def embed_before_deadline(texts: list[str]) -> np.ndarray:
            self._check_time()
            return embed(texts)

        return EmbeddingJob(job.stamp, embed_before_deadline)

    def _finish(self, files: int, skipped: list[tuple[str, str]]) -> None:
        """Record a complete run over the source."""
        content = self.task.store.content
        content.finish(
            self.task.source.id,
            self.stamp,
            files,
            round(time.monotonic() - self.started, 3),
            skipped,
        )
        state = git.head(self.root)
        if state != content.get(f"recent-state:{self.task.source.id}"):
            content.remember_recent(
                self.task.source.id, state, git.recent_files(self.root)[:RECENT_FILES]
            )
        if self.documents:
            content.set({f"mount:{self.task.source.id}": "1" if os.path.ismount(self.root) else ""})
        over_limit = sum(reason == OVER_LIMIT for _, reason in skipped)
        index_values = json.dumps(self.task.settings.index_values(), sort_keys=True)
        content.set(
            {
                f"settings:{self.task.source.id}": index_values,
                f"over:{self.task.source.id}": str(over_limit),
            }
        )
        if self.retry:
            content.set({f"retried:{self.task.source.id}": str(int(time.time()))})
        if self.task.force:
            self._check_time()
            content.sweep(int(time.time()) + 1)
            self.task.store.indexes.rebuild()

    def _check_limits(self, index: int) -> None:
        """Check time, memory and disk. Raises: Stopped."""
        limits = self.task.settings.limits
        self._check_time()
        if index % CHECK_FILES == 0:
            if memory_bytes() > limits.memory.heap:
                self._stop(
                    "MEMORY_LIMIT",
                    "indexing stopped: the process uses more than "
                    f"{format_size(limits.memory.heap)}",
                )
            if self.task.store.disk_bytes() > limits.disk.database:
                self._stop(
                    "DISK_LIMIT",
                    "indexing stopped: the store is larger than "
                    f"{format_size(limits.disk.database)}",
                )

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            seconds = self.task.settings.limits.processing.index_timeout
            self._stop("INDEX_TIMEOUT", f"indexing stopped after {seconds:g} seconds")

    def _stop(self, code: str, message: str) -> None:
        """Keep the work done so far, and end the run. Raises: Stopped."""
        self._flush()
        # Only the lexical index: vectors would take longer than the limit allows.
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


class _CancelOrDeadline(Cancel):
    """Cancel flag that is also set once the deadline has passed."""

    def __init__(self, flag: Cancel, deadline: float) -> None:
        super().__init__()
        self._flag, self._deadline = flag, deadline

    def __bool__(self) -> bool:
        return bool(self._flag) or time.monotonic() > self._deadline


def _chunker_stamp(settings: Settings, documents: bool) -> str:
    """Version of readers, chunkers and their settings; a change makes all files be read again."""
    reading = f"{DOCUMENTS}{readers.VERSION}:" if documents else ""
    if settings.security.redact == "index":
        reading += f"redacted{secret_scanner.VERSION}:"
    return (
        f"{reading}{chunkers.VERSION}:"
        f"{settings.indexing.chunk_size}:{settings.indexing.chunk_overlap}"
    )


def _changed(
    file: ScannedFile, known: Known | None, skip: tuple[int, int, str] | None, retry: bool
) -> bool:
    """True if a file must be read: it is new, changed, or was skipped for a passing reason."""
    if skip is not None:
        size, mtime_ns, reason = skip
        # Older versions skipped every file that contains a secret; now only key files are skipped.
        passing = (
            reason in ("worker died", "secret")
            or (retry and reason in ("timed out", "memory"))
            or is_mended(reason)
        )
        return (file.size, file.mtime_ns) != (size, mtime_ns) or passing
    if known is None or (file.size, file.mtime_ns) != (known.size, known.mtime_ns):
        return True
    return known.mtime_ns > known.checked_ns - RACY_NS
