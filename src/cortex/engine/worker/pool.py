"""Parent's side of the workers: sends batches, collects answers, replaces dead processes.

One thread per process works in lockstep (a batch, its answer); small files share a batch because a
frame costs more than chunking them. When a process dies or hangs, its batch is sent again file by
file to a fresh one, and the file that fails alone is rejected. The iterable of files is read only
in the caller's thread, as results are taken.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import BinaryIO, Generic, TypeVar

from cortex.base.runtime.child_process import END_SECONDS, ChildProcess, python_module
from cortex.base.types import Cancel, Cut, UnreadableFile
from cortex.engine.worker.frames import READY, Request, read_frame, unpack_reply, write_frame

BATCH_FILES = 32
BATCH_BYTES = 256 * 1024
FLIGHT_BYTES = 16 * 1024 * 1024
# One in progress, the others waiting, so that a worker never waits for the caller.
BATCHES_A_WORKER = 3
POLL_SECONDS = 0.1
# Time for a process to become ready: a busy machine is not a file's fault.
START_SECONDS = 60.0
# Prefix of the reason where no process became ready, which is not a file's fault.
NOT_STARTED = "worker not started"

log = logging.getLogger(__name__)

Key = TypeVar("Key")
Batch = list[tuple[Key, str, bytes]]


class _Lost(Exception):
    """The process died or was killed before it answered."""


class _Worker:
    """One child process; started on first use, replaced when lost."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: ChildProcess | None = None
        self._at_work = False
        # Between the asking thread and the one that ends the run.
        self._guard = threading.Lock()

    def ask(self, request: Request, seconds: float) -> list[Cut | UnreadableFile]:
        """Send a request and return its answers; the time counts from when the process is ready.

        Raises:
            _Lost: the process did not answer, or not to this request; the message is the reason.
        """
        lost, late = "", NOT_STARTED
        self._at_work = True
        try:
            process = self._ready()
            lost, late = "worker died", "timed out"
            return process.exchange(partial(_ask, request), seconds)
        except TimeoutError:
            reason = late
        except Exception as error:
            # A process with corrupt memory may send anything.
            log.debug("a worker did not answer: %r", error)
            reason = lost or f"{NOT_STARTED}: {error}"
        finally:
            with self._guard:
                self._at_work = False
        self.end()
        raise _Lost(reason)

    def end(self, grace_seconds: float = 0.0) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.end(grace_seconds)

    def interrupt(self) -> None:
        """Kill the process if it is at work."""
        with self._guard:
            if self._at_work and self._process is not None:
                self._process.kill()

    def _ready(self) -> ChildProcess:
        """Return the process, once it is ready; started if there is none any more."""
        if self._process is not None and not self._process.alive:
            self.end()
        if self._process is None:
            self._process = ChildProcess(self._command)
            greeting = self._process.exchange(lambda _, answers: read_frame(answers), START_SECONDS)
            if greeting != READY:
                fault = "ended at once" if greeting is None else "isn't a worker"
                raise ValueError(f"{self._command[0]} {fault}")
        return self._process


def _ask(request: Request, requests: BinaryIO, answers: BinaryIO) -> list[Cut | UnreadableFile]:
    write_frame(requests, request)
    return unpack_reply(read_frame(answers), request[-1])


class _Run(Generic[Key]):
    """State of one `cut_all` call: batches that wait for a worker, and answers."""

    def __init__(
        self, target_tokens: int, overlap_tokens: int, documents: bool, redacted: bool
    ) -> None:
        self.target_tokens = target_tokens
        self.overlap_tokens = overlap_tokens
        self.documents = documents
        self.redacted = redacted
        self.waiting: queue.SimpleQueue[Batch[Key] | None] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[tuple[Batch[Key], Sequence[Cut | UnreadableFile]]] = (
            queue.SimpleQueue()
        )
        self.stopped = threading.Event()


class Pool:
    """Processes that read and chunk files, from the first file until `close`."""

    def __init__(
        self,
        size: int,
        *,
        timeout_seconds: float = 10,
        memory_bytes: int = 1 << 30,
        command: list[str] | None = None,
    ) -> None:
        self._is_ours = command is None
        self._command = command or python_module("cortex.engine.worker.child", str(memory_bytes))
        self._workers = [_Worker(self._command) for _ in range(max(1, size))]
        self._timeout_seconds = timeout_seconds
        # One cut_all at a time.
        self._lock = threading.Lock()
        # Stops the run under way.
        self._stopped: threading.Event | None = None
        self._used = time.monotonic()

    def cut_all(
        self,
        files: Iterable[tuple[Key, str, bytes]],
        target_tokens: int = 250,
        overlap_tokens: int = 0,
        cancel: Cancel | None = None,
        documents: bool = False,
        redacted: bool = False,
    ) -> Generator[tuple[Key, Cut | UnreadableFile], None, None]:
        """Yield one answer for each (key, path, content), in any order.

        There are fewer only after `cancel` or `close`. `documents` reads PDF, office files and the
        like, and extracts the text of HTML and notebooks; otherwise a file is taken as plain text.
        `redacted` removes secrets; otherwise they are only located. The next call waits until this
        generator is exhausted or closed, so a caller that may stop in the middle closes it.
        """
        with self._lock:
            run: _Run[Key] = _Run(target_tokens, overlap_tokens, documents, redacted)
            self._stopped = run.stopped
            threads = [
                threading.Thread(target=self._work, args=(worker, run), daemon=True)
                for worker in self._workers
            ]
            for thread in threads:
                thread.start()
            try:
                yield from self._drive(run, _batches(files), cancel)
            finally:
                self._finish(run, threads)

    def limit(self, timeout_seconds: float, memory_bytes: int) -> None:
        """Set the time for each file, and the memory of processes started from now on."""
        self._timeout_seconds = timeout_seconds
        if self._is_ours:
            self._command[-1] = str(memory_bytes)

    def close_if_idle(self, seconds: float) -> bool:
        """End the processes if nothing was cut for `seconds`; true if they are ended."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if time.monotonic() - self._used < seconds:
                return False
            self._end_workers()
            return True
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the processes within a second; a `cut_all` under way ends early."""
        if self._stopped is not None:
            self._stopped.set()
            for worker in self._workers:
                worker.interrupt()
        # Wait for a run in another thread; one suspended in this thread has nothing in progress.
        free = self._lock.acquire(timeout=END_SECONDS / 2)
        try:
            self._end_workers()
        finally:
            if free:
                self._lock.release()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_workers(self) -> None:
        deadline = time.monotonic() + END_SECONDS
        for worker in self._workers:
            worker.end(max(0.05, deadline - time.monotonic()))

    def _drive(
        self, run: _Run[Key], batches: Iterator[Batch[Key]], cancel: Cancel | None
    ) -> Iterator[tuple[Key, Cut | UnreadableFile]]:
        """Feed batches and yield answers until all are answered."""
        in_flight = in_flight_bytes = 0
        exhausted = False
        while not run.stopped.is_set() and not cancel:
            while (
                not exhausted
                and in_flight < BATCHES_A_WORKER * len(self._workers)
                and in_flight_bytes < FLIGHT_BYTES
            ):
                batch = next(batches, None)
                if batch is None:
                    exhausted = True
                    break
                in_flight += 1
                in_flight_bytes += _size(batch)
                run.waiting.put(batch)
            if exhausted and not in_flight:
                return
            try:
                batch, answers = run.done.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            in_flight -= 1
            in_flight_bytes -= _size(batch)
            for (key, _, _), answer in zip(batch, answers, strict=True):
                yield key, answer

    def _finish(self, run: _Run[Key], threads: list[threading.Thread]) -> None:
        """End the threads; a process still at work is killed, and replaced in the next run."""
        run.stopped.set()
        for _ in threads:
            run.waiting.put(None)
        while any(thread.is_alive() for thread in threads):
            for worker, thread in zip(self._workers, threads, strict=True):
                worker.interrupt()
                thread.join(POLL_SECONDS)
        self._stopped = None
        self._used = time.monotonic()

    def _work(self, worker: _Worker, run: _Run[Key]) -> None:
        """Body of one worker's thread during a run."""
        while (batch := run.waiting.get()) is not None:
            if not run.stopped.is_set():
                try:
                    answers = self._answers(worker, run, batch)
                except Exception:
                    # A thread that ends without an answer would leave the run waiting for ever.
                    log.exception("asking a worker failed")
                    answers = [UnreadableFile("worker died") for _ in batch]
                # A process ended by `close` must not look like the file's fault.
                if not run.stopped.is_set():
                    run.done.put((batch, answers))

    def _answers(
        self, worker: _Worker, run: _Run[Key], batch: Batch[Key]
    ) -> list[Cut | UnreadableFile]:
        """Answers for a batch; file by file when it fails as a whole."""
        # A batch of small files gets half the time, so that one that hangs costs 1.5 times the
        # timeout instead of twice.
        seconds = self._timeout_seconds if len(batch) == 1 else self._timeout_seconds / 2
        files = [(path, raw) for _, path, raw in batch]
        request: Request = (
            run.target_tokens,
            run.overlap_tokens,
            seconds,
            run.documents,
            run.redacted,
            files,
        )
        if run.stopped.is_set():
            # The run has ended; the answer is dropped.
            return [UnreadableFile("cancelled") for _ in batch]
        try:
            return worker.ask(request, seconds)
        except _Lost as lost:
            if len(batch) == 1:
                return [UnreadableFile(str(lost))]
            return [self._answers(worker, run, [single])[0] for single in batch]


def _batches(files: Iterable[tuple[Key, str, bytes]]) -> Iterator[Batch[Key]]:
    """Group small files into batches; a large one is alone."""
    batch: Batch[Key] = []
    size = 0
    for file in files:
        length = len(file[2])
        if batch and (len(batch) >= BATCH_FILES or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += length
    if batch:
        yield batch


def _size(batch: Batch[Key]) -> int:
    return sum(len(raw) for _, _, raw in batch)
