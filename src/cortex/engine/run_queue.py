"""The index runs of one engine: one at a time, by whoever holds the store's lease.

Knows turns, limits on forced runs, requests between processes, and how far a run is. What a run
does is `engine/indexer.py`'s, when one is due is the engine's and the keeper's.
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
from cortex.engine.worker import Pool

FORCE_SECONDS = 60  # between two forced runs that tools ask for
POLL_SECONDS = 0.1
TELL_SECONDS = 0.25  # between two words to another process on how far its request is
WAITING_RUNS = 4  # each takes a thread that a question could need
REQUEST_SECONDS = 600  # who asked longer ago has most likely gone
CLOSE_SECONDS = 2.0  # what a run under way gets to end
BEAT_SECONDS = 2.0  # between two signs of life to those who wait
NOTICE_SECONDS = 2.0  # of silence, after which it is said what is waited for
SILENCE_SECONDS = 15.0  # after which a holder that gave no sign of life is taken for stopped

log = logging.getLogger(__name__)


def _no_progress(step: Progress) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What somebody wants indexed, and how."""

    source: Source
    force: bool = False
    paths: tuple[str, ...] | None = None  # None is the whole source
    limited: bool = False  # a tool asks: forced runs are rare
    progress: ProgressCallback = _no_progress
    cancel: Cancel = field(default_factory=Cancel)


@dataclass(slots=True)
class _ForcedRun:
    """A forced run of a whole source while it is under way; those who ask for the same wait for its
    report.
    """

    source: Source
    report: IndexReport | None = None


class RunQueue:
    """Does wishes here, where this process holds the lease, and has them done there where another
    one does.
    """

    def __init__(
        self,
        store: Store,
        source: Source,
        pool: Pool,
        settings: Callable[[Source], Settings],
        makings: Callable[[], tuple[EmbeddingJob, ...]],
    ) -> None:
        self._store = store
        self._source = source
        self._pool = pool
        self._settings = settings
        self._makings = makings
        self._turn = threading.Lock()
        # For runs that wait for the one under way
        self._places = threading.BoundedSemaphore(WAITING_RUNS)
        self._cancel = Cancel()  # of the run under way
        self._forced: _ForcedRun | None = None
        self._announced = 0.0  # when others were last told how far the run under way is
        self.step = Progress("idle", 0, 0)
        self.queue: FileQueue | None = None  # of the run under way, once it knows its files
        self.error = ""
        self.running = threading.Event()
        self._beating, self._busy, self._idle = threading.Lock(), 0, threading.Event()

    def index(self, wish: IndexRequest) -> IndexReport:
        """Do it, or have it done.

        Raises: LimitError, Cancelled, FileError DISK_FULL, StoreError, CortexError INTERNAL_ERROR.
        """
        while True:
            if self._store.lease.take():
                return self._here(wish)
            report = self._there(wish)
            if report is not None:
                return report

    def serve_requests(self) -> None:
        """As the lease holder, do what other processes asked for lately, be it of a holder that is
        gone.
        """
        for request in self._store.log.asked(int(time.time()) - REQUEST_SECONDS):
            self._store.log.answer(request.id, self._serve(request))

    def freshness(self) -> Freshness:
        """How far the index follows the folder."""
        indexed_at = self._store.truth.get(f"indexed:{self._source.id}")
        step = self.under_way()
        busy = step is not None
        return Freshness(
            state="indexing"
            if busy
            else "error"
            if self.error
            else "ready"
            if indexed_at
            else "indexing",
            progress=round(step.done / step.total, 4)
            if step and step.total
            else 1.0
            if indexed_at
            else 0.0,
            last_indexed=rfc3339(int(indexed_at)) if indexed_at else "",
            error=self.error,
        )

    def under_way(self) -> Progress | None:
        """The step of the run under way, here or where the lease is held; None while there is no
        run.
        """
        if self.running.is_set():
            return self.step
        if self._store.lease.held:
            return None
        try:
            holder, *step = json.loads(self._store.truth.get(_announcement(self._source)) or "[0]")
            return Progress(*step) if holder and holder == self._store.lease.holder() else None
        except (ValueError, TypeError):
            # Another version may write it in another form.
            return None

    def progress_note(self, more_than: int) -> str:
        """How far a run over more files than this is; empty where none is under way."""
        step = self.under_way()
        if step is None or step.total <= more_than:
            return ""
        return f"indexing is under way: {step.done} of {step.total} files"

    def unread(self) -> str:
        """How many files a first run has not read yet."""
        step = self.under_way() or self.step
        left = (
            f"{step.total - step.done:,} of {step.total:,} files are"
            if step.total
            else "some files are"
        )
        return f"the first index is under way: {left} not read yet; ask again in a few seconds"

    def between(self, work: Callable[[], object]) -> None:
        """Do something while no run is under way."""
        with self._turn:
            work()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Give signs of life to processes that wait, for as long as the block takes; blocks may
        overlap.
        """
        with self._beating:
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
            with self._beating:
                self._busy -= 1
                if not self._busy:
                    self._idle.set()

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT_SECONDS):
            # Too many of them are better than an error: the next one may succeed.
            with suppress(CortexError):
                self._store.log.beat(self.step)

    def close(self) -> None:
        """Cancel the run under way and wait for it, briefly."""
        self._cancel.cancel()
        self._pool.close()
        if self._turn.acquire(timeout=CLOSE_SECONDS):
            self._turn.release()

    def _here(self, wish: IndexRequest) -> IndexReport:
        with self.alive():
            return self._run(wish)

    def _run(self, wish: IndexRequest) -> IndexReport:
        same = self._forced
        if same is not None and not (
            wish.force and wish.paths is None and wish.source == same.source
        ):
            same = None
        self._await_turn(wish)
        try:
            if same is not None and same.report is not None:
                return same.report
            # Who waited for a run that came to nothing did not have its own yet.
            if wish.force and wish.limited and same is None:
                self._check_force_rate(wish.source)
            self._cancel = wish.cancel
            self._forced = _ForcedRun(wish.source) if wish.force and wish.paths is None else None
            self._announced = time.monotonic()
            self.running.set()
            report = indexer.run(self._task(wish))
            self.error = ""
            if self._forced is not None and report.status == "completed":
                self._forced.report = report
        except Exception as failure:  # whatever it is, status and log must tell of it
            error = explained(failure, "indexing")
            if self.running.is_set():
                self.error = "" if isinstance(error, Cancelled) else error.message
                done = (
                    failure.report
                    if isinstance(failure, indexer.Stopped)
                    else IndexReport("partial")
                )
                self._record(wish, done, error.code)
            if error is failure:
                raise
            log.error("indexing %s failed", wish.source.root, exc_info=failure)
            raise error from failure
        finally:
            self.step, self.queue, self._forced = Progress("idle", 0, 0), None, None
            self._end_announcement(wish.source)
            self.running.clear()
            self._turn.release()
        self._record(wish, report)
        self._store.indexes.tidy()
        if wish.paths is None:
            self._store.checkpoint()
        return report

    def _task(self, wish: IndexRequest) -> indexer.IndexTask:
        def note(step: Progress) -> None:
            self.step = step
            self._announce(wish.source, step)
            wish.progress(step)

        def share(queue: FileQueue) -> None:
            if wish.source == self._source:
                self.queue = queue

        return indexer.IndexTask(
            store=self._store,
            source=wish.source,
            settings=self._settings(wish.source),
            pool=self._pool,
            makings=self._makings(),
            force=wish.force,
            paths=wish.paths,
            progress=note,
            cancel=wish.cancel,
            share_queue=share,
        )

    def _announce(self, source: Source, step: Progress) -> None:
        """Write how far the run is a few times a second, for processes and engines without the
        lease.
        """
        if time.monotonic() - self._announced > TELL_SECONDS:
            self._announced = time.monotonic()
            with suppress(CortexError):  # a full disk ends the run at what matters
                line = json.dumps([os.getpid(), step.stage, step.done, step.total])
                self._store.truth.set({_announcement(source): line})

    def _end_announcement(self, source: Source) -> None:
        """Take back what was written of this run, or of one that a closed engine left."""
        with suppress(CortexError):
            if self._store.truth.get(_announcement(source)):
                self._store.truth.set({_announcement(source): ""})

    def _await_turn(self, wish: IndexRequest) -> None:
        """Wait until no other run is under way, passing on how far that one is; one too many
        doesn't wait.
        """
        if self._turn.acquire(blocking=False):
            return
        if not self._places.acquire(blocking=False):
            root = self._source.root
            raise LimitError(
                "INDEX_BUSY",
                f"{self._source.name} is being indexed right now",
                context={"workspace": root},
            )
        try:
            while not self._turn.acquire(timeout=POLL_SECONDS):
                if wish.cancel:
                    raise Cancelled()
                wish.progress(self.step)
        finally:
            self._places.release()

    def _check_force_rate(self, source: Source) -> None:
        """Refuse a second forced run within a minute, whichever process did the first: hence the
        clock on the wall.
        """
        truth, now = self._store.truth, time.time()
        since = now - float(truth.get(f"forced:{source.id}", "0"))
        if 0 <= since < FORCE_SECONDS:
            raise LimitError(
                "RATE_LIMITED",
                f"{source.name} was reindexed by force {since:.0f} seconds ago",
                context={"retry_after_seconds": round(FORCE_SECONDS - since)},
            )
        truth.set({f"forced:{source.id}": f"{now:.3f}"})

    def _record(self, wish: IndexRequest, report: IndexReport, error: str = "") -> None:
        detail: dict[str, object] = {
            **asdict(report),
            "force": wish.force,
            "whole": wish.paths is None,
        }
        if error:
            detail["error"] = error
        try:
            self._store.log.record("index", detail)
            if report.deleted:
                self._store.log.record(
                    "delete", {"docs": report.deleted, "source": wish.source.name}
                )
        except CortexError as failure:  # a full disk must not hide the error that came first
            log.warning("the operations log could not be written: %s", failure.message)

    def _there(self, wish: IndexRequest) -> IndexReport | None:
        """Have the lease holder do it; None when it went away, so that this process may try itself."""
        journal, lease = self._store.log, self._store.lease
        request = journal.ask(wish.source.id, wish.force, wish.limited, wish.paths)
        deadline = time.monotonic() + self._settings(wish.source).limits.processing.index_timeout
        last, sign, heard, noticed = None, "", time.monotonic(), False
        try:
            while (answer := journal.answered(request)) is None:
                if wish.cancel:
                    raise Cancelled()
                now, before = time.monotonic(), sign
                if (sign := journal.sign(request)) != before:
                    heard = now
                    if (step := journal.told(request)) is not None and step != last:
                        last = step
                        wish.progress(step)
                if now > deadline or now - heard > SILENCE_SECONDS:
                    raise _silent(lease.holder(), wish.source.root, now - heard)
                if now - heard > NOTICE_SECONDS and not noticed:
                    noticed = True
                    log.warning(
                        "waiting for process %d, which holds the store of %s",
                        lease.holder(),
                        wish.source.root,
                    )
                if lease.take():
                    return None
                time.sleep(POLL_SECONDS)
        finally:
            # A holder that stands still in a transaction must not hide what was found out.
            with suppress(CortexError):
                journal.withdraw(request)
        body = json.loads(answer)
        if "error" in body:
            raise error_of(body["error"], body["message"], body["context"])
        return IndexReport(**body)

    def _serve(self, request: OperationRequest) -> str:
        """Do one request; it may be for another source of this store, such as a linked worktree of
        the same repository.
        """
        try:
            source = self._store.truth.source_by_id(request.source)
            if source is None or not source.root:
                raise StoreError(
                    "STORE_LOCKED",
                    f"the store has no folder with the number {request.source} any more",
                )
            report = self._here(
                IndexRequest(
                    source, request.force, request.paths, request.limited, self._tell(request.id)
                )
            )
        except Exception as failure:  # who asked must get an answer, or waits for it
            error = explained(failure, "indexing")
            if error is not failure:
                log.error("a run for another process failed", exc_info=failure)
            return json.dumps(
                {"error": error.code, "message": error.message, "context": error.context},
                default=str,
            )
        return json.dumps(asdict(report))

    def _tell(self, request: int) -> ProgressCallback:
        """Passes progress on to who asked, a few times a second."""
        last = 0.0

        def tell(step: Progress) -> None:
            nonlocal last
            if time.monotonic() - last > TELL_SECONDS:
                last = time.monotonic()
                with suppress(CortexError):  # a word that gets lost is no reason to stop
                    self._store.log.tell(request, step)

        return tell


def _announcement(source: Source) -> str:
    """The key of the fact that a run over this source is under way."""
    return f"running:{source.id}"


def _silent(holder: int, root: str, seconds: float) -> StoreError:
    return StoreError(
        "STORE_LOCKED",
        f"process {holder} holds the store of {root} and has not answered for {seconds:.0f} seconds",
        context={"pid": holder},
        instead=("Run `cortex restart` if it is cortexd, else end that process; then try again.",),
    )
