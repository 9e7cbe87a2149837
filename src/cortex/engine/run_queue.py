"""Queue of the index runs of one engine: one at a time, by the holder of the store's lease.

Knows turns, limits on forced runs, requests between processes, and the progress of a run. The run
itself is in `engine/indexer.py`; the engine and the auto-indexer decide when one is due.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field

from cortex.base.errors import Cancelled, CortexError, LimitError, StoreError, error_of, explained
from cortex.base.settings import Settings
from cortex.base.text import rfc3339
from cortex.base.types import Cancel, Freshness, IndexReport, Progress, ProgressCallback, Source
from cortex.engine import indexer
from cortex.engine.file_queue import FileQueue
from cortex.engine.store import EmbeddingJob, OperationRequest, Store
from cortex.engine.worker.pool import Pool

# Time between two forced runs requested by tools.
FORCE_SECONDS = 60
POLL_SECONDS = 0.1
# Time between two progress reports to another process.
TELL_SECONDS = 0.25
# Runs that may wait; each takes a thread that a query could need.
WAITING_RUNS = 4
# The sender of an older request has most likely gone.
REQUEST_SECONDS = 600
# Time for a run under way to end on close.
CLOSE_SECONDS = 2.0
# Time between two heartbeats to waiting processes.
BEAT_SECONDS = 2.0
# Silence after which the wait for the lease holder is logged.
NOTICE_SECONDS = 2.0
# Silence after which a lease holder counts as stopped.
SILENCE_SECONDS = 15.0

log = logging.getLogger(__name__)


def _no_progress(step: Progress) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """A requested run."""

    source: Source
    force: bool = False
    # None is the whole source.
    paths: tuple[str, ...] | None = None
    # Requested by a tool: forced runs are rate-limited.
    limited: bool = False
    progress: ProgressCallback = _no_progress
    cancel: Cancel = field(default_factory=Cancel)


@dataclass(slots=True)
class _ForcedRun:
    """A forced run of a whole source under way; equal requests wait for its report."""

    source: Source
    report: IndexReport | None = None


class RunQueue:
    """Runs requests in the process with the lease, or sends them to the holder."""

    def __init__(
        self,
        store: Store,
        source: Source,
        pool: Pool,
        settings: Callable[[Source], Settings],
        embedding_jobs: Callable[[], tuple[EmbeddingJob, ...]],
    ) -> None:
        self._store = store
        self._source = source
        self._pool = pool
        self._settings = settings
        self._embedding_jobs = embedding_jobs
        self._turn = threading.Lock()
        # Limits the runs that wait for the one under way.
        self._waiting_slots = threading.BoundedSemaphore(WAITING_RUNS)
        # Cancels the run under way.
        self._cancel = Cancel()
        self._forced: _ForcedRun | None = None
        # Time of the last progress report to other processes.
        self._announced_at = 0.0
        self.step = Progress("idle", 0, 0)
        # Files of the run under way, once they are known.
        self.queue: FileQueue | None = None
        self.error = ""
        self.running = threading.Event()
        self._heartbeat_lock = threading.Lock()
        # Blocks of `alive` under way, and the event that ends their heartbeat.
        self._busy = 0
        self._idle = threading.Event()

    def index(self, request: IndexRequest) -> IndexReport:
        """Run a request here, or have the lease holder run it.

        Raises: LimitError, Cancelled, FileError DISK_FULL, StoreError, CortexError INTERNAL_ERROR.
        """
        while True:
            if self._store.lease.take():
                return self._run_here(request)
            report = self._run_remotely(request)
            if report is not None:
                return report

    def serve_requests(self) -> None:
        """As the lease holder, run recent requests, also those sent to a former holder."""
        for request in self._store.log.asked(int(time.time()) - REQUEST_SECONDS):
            self._store.log.answer(request.id, self._serve(request))

    def freshness(self) -> Freshness:
        """State and progress of the index."""
        indexed_at = self._store.content.indexed_at(self._source.id)
        step = self.under_way()
        if step is None and self.error:
            state = "error"
        else:
            state = "ready" if step is None and indexed_at else "indexing"
        progress = 1.0 if indexed_at else 0.0
        if step and step.total:
            progress = round(step.done / step.total, 4)
        return Freshness(
            state=state,
            progress=progress,
            last_indexed=rfc3339(indexed_at) if indexed_at else "",
            error=self.error,
        )

    def under_way(self) -> Progress | None:
        """Progress of the run under way, here or in the lease holder; None without one."""
        if self.running.is_set():
            return self.step
        if self._store.lease.held:
            return None
        try:
            holder, *step = json.loads(
                self._store.content.get(_progress_key(self._source)) or "[0]"
            )
            return Progress(*step) if holder and holder == self._store.lease.holder() else None
        except (ValueError, TypeError):
            # Another version may use another format.
            return None

    def progress_note(self, more_than: int) -> str:
        """Note on a run over more files than this; empty where none is under way."""
        step = self.under_way()
        if step is None or step.total <= more_than:
            return ""
        return f"indexing is under way: {step.done} of {step.total} files"

    def unread(self) -> str:
        """Note on the files that a first run has not read yet."""
        step = self.under_way() or self.step
        left = (
            f"{step.total - step.done:,} of {step.total:,} files are"
            if step.total
            else "some files are"
        )
        return f"the first index is under way: {left} not read yet; ask again in a few seconds"

    def between(self, work: Callable[[], object]) -> None:
        """Call `work` while no run is under way."""
        with self._turn:
            work()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Send heartbeats to waiting processes during the block; blocks may overlap."""
        with self._heartbeat_lock:
            self._busy += 1
            if self._busy == 1:
                self._idle = threading.Event()
                beat = threading.Thread(
                    target=self._beat, args=(self._idle,), name="signs of life", daemon=True
                )
                beat.start()
        try:
            yield
        finally:
            with self._heartbeat_lock:
                self._busy -= 1
                if not self._busy:
                    self._idle.set()

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT_SECONDS):
            # A failed heartbeat is no reason to stop; the next one may succeed.
            with suppress(CortexError):
                self._store.log.beat(self.step)

    def close(self) -> None:
        """Cancel the run under way and wait for it, briefly."""
        self._cancel.cancel()
        self._pool.close()
        if self._turn.acquire(timeout=CLOSE_SECONDS):
            self._turn.release()

    def _run_here(self, request: IndexRequest) -> IndexReport:
        with self.alive():
            return self._run(request)

    def _run(self, request: IndexRequest) -> IndexReport:
        same = self._forced
        if same is not None and not (
            request.force and request.paths is None and request.source == same.source
        ):
            same = None
        self._await_turn(request)
        try:
            if same is not None and same.report is not None:
                return same.report
            # A request that waited for a failed run has not had its own yet.
            if request.force and request.limited and same is None:
                self._check_force_rate(request.source)
            self._cancel = request.cancel
            self._forced = (
                _ForcedRun(request.source) if request.force and request.paths is None else None
            )
            self._announced_at = time.monotonic()
            self.running.set()
            report = indexer.run(self._task(request))
            self.error = ""
            if self._forced is not None and report.status == "completed":
                self._forced.report = report
        except Exception as failure:
            # Every failure must show up in status and log.
            error = explained(failure, "indexing")
            if self.running.is_set():
                self.error = "" if isinstance(error, Cancelled) else error.message
                done = (
                    failure.report
                    if isinstance(failure, indexer.Stopped)
                    else IndexReport("partial")
                )
                self._record(request, done, error.code)
            if error is failure:
                raise
            log.error("indexing %s failed", request.source.root, exc_info=failure)
            raise error from failure
        finally:
            self.step, self.queue, self._forced = Progress("idle", 0, 0), None, None
            self._end_announcement(request.source)
            self.running.clear()
            self._turn.release()
        self._record(request, report)
        self._store.indexes.tidy()
        if request.paths is None:
            self._store.checkpoint()
        return report

    def _task(self, request: IndexRequest) -> indexer.IndexTask:
        def note(step: Progress) -> None:
            self.step = step
            self._announce(request.source, step)
            request.progress(step)

        def share(queue: FileQueue) -> None:
            if request.source == self._source:
                self.queue = queue

        return indexer.IndexTask(
            store=self._store,
            source=request.source,
            settings=self._settings(request.source),
            pool=self._pool,
            embedding_jobs=self._embedding_jobs(),
            force=request.force,
            paths=request.paths,
            progress=note,
            cancel=request.cancel,
            share_queue=share,
        )

    def _announce(self, source: Source, step: Progress) -> None:
        """Publish the progress a few times a second, for processes without the lease."""
        if time.monotonic() - self._announced_at > TELL_SECONDS:
            self._announced_at = time.monotonic()
            # A full disk fails the run at its next write.
            with suppress(CortexError):
                line = json.dumps([os.getpid(), step.stage, step.done, step.total])
                self._store.content.set({_progress_key(source): line})

    def _end_announcement(self, source: Source) -> None:
        """Withdraw the published progress of this run, or of one that was cut off."""
        with suppress(CortexError):
            if self._store.content.get(_progress_key(source)):
                self._store.content.set({_progress_key(source): ""})

    def _await_turn(self, request: IndexRequest) -> None:
        """Wait until no other run is under way, passing its progress on.

        Raises: LimitError INDEX_BUSY where too many wait already.
        """
        if self._turn.acquire(blocking=False):
            return
        if not self._waiting_slots.acquire(blocking=False):
            root = self._source.root
            raise LimitError(
                "INDEX_BUSY",
                f"{self._source.name} is being indexed right now",
                context={"workspace": root},
            )
        try:
            while not self._turn.acquire(timeout=POLL_SECONDS):
                if request.cancel:
                    raise Cancelled()
                request.progress(self.step)
        finally:
            self._waiting_slots.release()

    def _check_force_rate(self, source: Source) -> None:
        """Reject a second forced run within a minute, by any process.

        Uses wall-clock time, because processes share no monotonic clock.
        """
        content, now = self._store.content, time.time()
        since = now - float(content.get(f"forced:{source.id}", "0"))
        if 0 <= since < FORCE_SECONDS:
            raise LimitError(
                "RATE_LIMITED",
                f"{source.name} was reindexed by force {since:.0f} seconds ago",
                context={"retry_after_seconds": round(FORCE_SECONDS - since)},
            )
        content.set({f"forced:{source.id}": f"{now:.3f}"})

    def _record(self, request: IndexRequest, report: IndexReport, error: str = "") -> None:
        detail: dict[str, object] = {
            **asdict(report),
            "force": request.force,
            "whole": request.paths is None,
        }
        if error:
            detail["error"] = error
        try:
            self._store.log.record("index", detail)
            if report.deleted:
                self._store.log.record(
                    "delete", {"docs": report.deleted, "source": request.source.name}
                )
        except CortexError as failure:
            # A full disk must not hide the first error.
            log.warning("the operations log could not be written: %s", failure.message)

    def _run_remotely(self, request: IndexRequest) -> IndexReport | None:
        """Have the lease holder run it; None when the holder is gone and this process may."""
        journal, lease = self._store.log, self._store.lease
        request_id = journal.ask(request.source.id, request.force, request.limited, request.paths)
        deadline = time.monotonic() + self._settings(request.source).limits.processing.index_timeout
        last_step, heartbeat, last_sign_at, is_logged = None, "", time.monotonic(), False
        try:
            while (answer := journal.answered(request_id)) is None:
                if request.cancel:
                    raise Cancelled()
                now, last_heartbeat = time.monotonic(), heartbeat
                if (heartbeat := journal.sign(request_id)) != last_heartbeat:
                    last_sign_at = now
                    if (step := journal.progress_of(request_id)) is not None and step != last_step:
                        last_step = step
                        request.progress(step)
                if now > deadline or now - last_sign_at > SILENCE_SECONDS:
                    raise _holder_silent(lease.holder(), request.source.root, now - last_sign_at)
                if now - last_sign_at > NOTICE_SECONDS and not is_logged:
                    is_logged = True
                    log.warning(
                        "waiting for process %d, which holds the store of %s",
                        lease.holder(),
                        request.source.root,
                    )
                if lease.take():
                    return None
                time.sleep(POLL_SECONDS)
        finally:
            # A holder stuck in a transaction must not hide the outcome.
            with suppress(CortexError):
                journal.withdraw(request_id)
        body = json.loads(answer)
        if "error" in body:
            raise error_of(body["error"], body["message"], body["context"])
        return IndexReport(**body)

    def _serve(self, request: OperationRequest) -> str:
        """Run one request of another process.

        It may be for another source of this store, such as a linked worktree of the same
        repository.
        """
        try:
            source = self._store.content.source_by_id(request.source)
            if source is None or not source.root:
                raise StoreError(
                    "STORE_LOCKED",
                    f"the store has no folder with the number {request.source} any more",
                )
            report = self._run_here(
                IndexRequest(
                    source,
                    request.force,
                    request.paths,
                    request.limited,
                    self._reporter(request.id),
                )
            )
        except Exception as failure:
            # The sender must get an answer, or it would wait on.
            error = explained(failure, "indexing")
            if error is not failure:
                log.error("a run for another process failed", exc_info=failure)
            return json.dumps(
                {"error": error.code, "message": error.message, "context": error.context},
                default=str,
            )
        return json.dumps(asdict(report))

    def _reporter(self, request_id: int) -> ProgressCallback:
        """Callback that reports progress to the sender a few times a second."""
        reported_at = 0.0

        def report(step: Progress) -> None:
            nonlocal reported_at
            if time.monotonic() - reported_at > TELL_SECONDS:
                reported_at = time.monotonic()
                # A lost report is no reason to stop.
                with suppress(CortexError):
                    self._store.log.tell(request_id, step)

        return report


def _progress_key(source: Source) -> str:
    """Key of the published progress of a run over this source."""
    return f"running:{source.id}"


def _holder_silent(holder: int, root: str, seconds: float) -> StoreError:
    return StoreError(
        "STORE_LOCKED",
        f"process {holder} holds the store of {root} and has not answered for "
        f"{seconds:.0f} seconds",
        context={"pid": holder},
        instead=("Run `cortex restart` if it is cortexd, else end that process; then try again.",),
    )
