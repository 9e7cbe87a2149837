"""The parent's side of the workers: batches out, answers in, the dead replaced.

One thread for each process talks in lockstep (a batch, its answer): small files share a batch
because a frame costs more than cutting them. When a process dies or hangs, its batch is sent again
file by file to a fresh one, and the file that fails alone is refused. The iterable is read in the
caller's thread only, as results are taken.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import BinaryIO, Generic, TypeVar, cast

from cortex.base.types import Cancel, Cut, UnreadableFile
from cortex.engine.worker.frames import READY, Request, read_frame, unpack_reply, write_frame

BATCH_FILES = 32
BATCH_BYTES = 256 * 1024
FLIGHT_BYTES = 16 * 1024 * 1024
# One being worked on, the others waiting: a worker never waits for the caller's next step
BATCHES_A_WORKER = 3
POLL_SECONDS = 0.1
START_SECONDS = 60.0  # what a process gets until it is ready: a busy machine is no file's fault
KILL_SECONDS = 5.0  # what the system gets to end a process that was killed
END_SECONDS = 0.5  # what a process gets to end by itself

# How the reason begins where no process got ready: that is no file's fault.
NOT_STARTED = "worker not started"

log = logging.getLogger(__name__)

Key = TypeVar("Key")
Batch = list[tuple[Key, str, bytes]]


class _Lost(Exception):
    """The process died or was killed before it answered."""


class _Worker:
    """One child process; started when first asked, replaced when lost."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline: float | None = None
        self._overdue = False
        self._guard = threading.Lock()  # between the thread that asks and the one that watches

    def ask(self, request: Request, seconds: float) -> list[Cut | UnreadableFile]:
        """The answers to a request; the time counts from when the process is ready.

        Raises:
            _Lost: the process did not answer, or not to this; the message is the reason.
        """
        answers: list[Cut | UnreadableFile] | None = None
        # The reason where no answer comes: in time, and because time was up.
        lost = late = NOT_STARTED
        try:
            process = self._ready()
            lost, late = "worker died", "timed out"
            self._allow(seconds)
            write_frame(cast(BinaryIO, process.stdin), request)
            answers = unpack_reply(read_frame(cast(BinaryIO, process.stdout)), request[-1])
        except Exception as error:  # a process whose memory is broken may send anything
            log.debug("a worker did not answer: %r", error)
            if lost == NOT_STARTED:
                lost = f"{NOT_STARTED}: {error}"
        with self._guard:
            self._deadline = None
            overdue = self._overdue
        if answers is None or overdue:
            self.end()
        if answers is None:
            raise _Lost(late if overdue else lost)
        return answers

    def watch(self, now: float) -> None:
        """Kill the process if it is overdue; the thread that waits for it then sees the end of its
        stream.
        """
        with self._guard:
            if self._deadline is not None and now > self._deadline:
                self._overdue = True
                self._kill()

    def end(self, grace_seconds: float = 0.0) -> None:
        """End the process: by closing its stdin, then by force."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if grace_seconds:
                process.wait(grace_seconds)
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_SECONDS)
        if process.stdout is not None:
            process.stdout.close()

    def interrupt(self) -> None:
        """Kill the process if it is at work."""
        with self._guard:
            if self._deadline is not None:
                self._kill()

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()

    def _allow(self, seconds: float) -> None:
        with self._guard:
            self._overdue = False
            self._deadline = time.monotonic() + seconds

    def _ready(self) -> subprocess.Popen[bytes]:
        """The process, started if there is none, when it has said that it is ready."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # No folder of the user's, or it couldn't be removed
                cwd=os.path.dirname(os.path.abspath(sys.executable)),
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
            self._allow(START_SECONDS)
            greeting = read_frame(cast(BinaryIO, self._process.stdout))
            if greeting != READY:
                fault = "ended at once" if greeting is None else "isn't a worker"
                raise ValueError(f"{self._command[0]} {fault}")
        return self._process


class _Run(Generic[Key]):
    """One call of `cut_all`: what waits for a worker, and what came back."""

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
    """Processes that read and cut files. They start at the first file and stay until `close`."""

    def __init__(
        self,
        size: int,
        *,
        timeout_seconds: float = 10,
        memory_bytes: int = 1 << 30,
        command: list[str] | None = None,
    ) -> None:
        # -P: the folder that a workspace happens to be must not shadow modules.
        self._is_ours = command is None
        self._command = command or [
            sys.executable,
            "-P",
            "-m",
            "cortex.engine.worker.child",
            str(memory_bytes),
        ]
        self._workers = [_Worker(self._command) for _ in range(max(1, size))]
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()  # one cut_all at a time
        self._stopped: threading.Event | None = None  # of the run under way
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
        """Exactly one answer for each (key, path, content), in any order; fewer only after `cancel`
        or `close`.

        `documents` reads PDF, office files and the like, and makes text of HTML and notebooks; else
        a file's text is its own. `redacted` takes secrets out; else they are only found. The next
        call waits until this one is exhausted or closed: who may stop in the middle closes it.
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
        """Give each file this time, and each process that is started from now on this memory."""
        self._timeout_seconds = timeout_seconds
        if self._is_ours:
            self._command[-1] = str(memory_bytes)

    def close_if_idle(self, seconds: float) -> bool:
        """End the processes if nothing was cut for `seconds`; whether they are ended."""
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
        # Wait for a run in another thread; one that is suspended in this thread has nothing at
        # work.
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
        flying = flying_bytes = 0
        exhausted = False
        watched = time.monotonic()
        while not run.stopped.is_set() and not cancel:
            while (
                not exhausted
                and flying < BATCHES_A_WORKER * len(self._workers)
                and flying_bytes < FLIGHT_BYTES
            ):
                batch = next(batches, None)
                if batch is None:
                    exhausted = True
                    break
                flying += 1
                flying_bytes += _size(batch)
                run.waiting.put(batch)
            if exhausted and not flying:
                return
            if (now := time.monotonic()) - watched > POLL_SECONDS:
                watched = now
                for worker in self._workers:
                    worker.watch(now)
            try:
                batch, answers = run.done.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            flying -= 1
            flying_bytes -= _size(batch)
            for (key, _, _), answer in zip(batch, answers, strict=True):
                yield key, answer

    def _finish(self, run: _Run[Key], threads: list[threading.Thread]) -> None:
        """End the threads; a process that is still at work is killed, the next run starts another."""
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
        """The life of one worker's thread during a run."""
        while (batch := run.waiting.get()) is not None:
            if not run.stopped.is_set():
                try:
                    answers = self._answers(worker, run, batch)
                # A thread that ends without an answer would leave the run waiting for ever
                except Exception:
                    log.exception("asking a worker failed")
                    answers = [UnreadableFile("worker died") for _ in batch]
                # Else a process ended by `close` would look like the file's fault
                if not run.stopped.is_set():
                    run.done.put((batch, answers))

    def _answers(
        self, worker: _Worker, run: _Run[Key], batch: Batch[Key]
    ) -> list[Cut | UnreadableFile]:
        """The answers for a batch, file by file when it fails as a whole."""
        # A batch is small files: it gets half the time, so that one that hangs costs 1.5 times the
        # timeout, not twice.
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
            return [UnreadableFile("cancelled") for _ in batch]  # nobody takes it
        try:
            return worker.ask(request, seconds)
        except _Lost as lost:
            if len(batch) == 1:
                return [UnreadableFile(str(lost))]
            return [self._answers(worker, run, [single])[0] for single in batch]


def _batches(files: Iterable[tuple[Key, str, bytes]]) -> Iterator[Batch[Key]]:
    """Small files together, a large one alone."""
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
