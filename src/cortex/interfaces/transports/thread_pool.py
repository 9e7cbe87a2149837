"""Thread pool for blocking work behind an event loop, with throttled progress reports.

Tools block (SQLite, files, regular expressions), the loop must not. A cancelled request returns at
once; its thread keeps its place in the pool until it notices `Call.cancel`, so that repeated
cancelling can't pile up threads. The process ends without waiting for threads.

Road not taken: anyio's worker threads, where a round trip takes twice the time; concurrent.futures,
which uses all threads in turn, so that none has warm caches.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cortex.base.errors import Cancelled
from cortex.toolkit.tool import Call, Family

log = logging.getLogger(__name__)

THREADS = 16
# Shortest time between two progress notifications of one request.
PROGRESS_SECONDS = 0.1
# Time to close all families together.
CLOSE_SECONDS = 0.5
# Time from a signal to the end of the process, even if threads hang.
END_SECONDS = 0.9

Result = TypeVar("Result")
Send = Callable[[float, float | None, str | None], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], Any]
    done: asyncio.Future[tuple[Any, BaseException | None]]


# The queue of one thread; None ends it.
_Jobs = queue.SimpleQueue[_Job | None]


class ThreadPool:
    """Bounded pool for blocking calls that prefers the thread used last: its caches are warm.

    All but the work itself happens on the loop, so no lock is needed. The threads end when the pool
    is garbage collected, for example after the end of its loop.
    """

    def __init__(self, most: int = THREADS) -> None:
        self.running = 0
        self._most = most
        self._idle: list[_Jobs] = []
        self._waiting: deque[_Job] = deque()
        weakref.finalize(self, _end_threads, self._idle).atexit = False

    async def run(self, work: Callable[[], Result], call: Call) -> Result:
        """Await `work()` in a thread; cancelling sets `call.cancel` and stops waiting."""
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future())
        self._waiting.append(job)
        if self.running < self._most:
            self._assign_next(self._idle.pop() if self._idle else _start(self))
        try:
            result, error = await job.done
        except asyncio.CancelledError:
            call.cancel.cancel()
            raise
        if error is not None:
            raise error
        return result

    def _assign_next(self, jobs: _Jobs) -> None:
        """Give a thread the next job that isn't cancelled, or mark it as idle."""
        while self._waiting:
            job = self._waiting.popleft()
            if not job.done.cancelled():
                self.running += 1
                jobs.put(job)
                return
        self._idle.append(jobs)

    def finish(self, jobs: _Jobs, job: _Job, result: Any, error: BaseException | None) -> None:
        """Deliver the result of a job, on the loop, and give its thread the next one."""
        self.running -= 1
        if not job.done.cancelled():
            job.done.set_result((result, error))
        self._assign_next(jobs)


def _start(threads: ThreadPool) -> _Jobs:
    """Start a thread that keeps nothing alive while it is idle."""
    jobs: _Jobs = queue.SimpleQueue()
    owner = weakref.ref(threads)

    def work() -> None:
        while (job := jobs.get()) is not None and _run_job(job, owner, jobs):
            del job

    threading.Thread(target=work, name="tool", daemon=True).start()
    return jobs


def _run_job(job: _Job, owner: weakref.ref[ThreadPool], jobs: _Jobs) -> bool:
    """Run a job and report to its loop; false if the pool or the loop is gone."""
    result, error = None, None
    try:
        result = job.work()
    # Any exception belongs to the caller that awaits the job.
    except BaseException as raised:
        error = raised
    threads = owner()
    return threads is not None and call_on_loop(
        job.done.get_loop(), threads.finish, jobs, job, result, error
    )


def _end_threads(resting: list[_Jobs]) -> None:
    for jobs in resting:
        jobs.put(None)


class BoundedShare(ThreadPool):
    """Bounded share of a pool: at most `most` of its threads at a time."""

    def __init__(self, threads: ThreadPool, most: int) -> None:
        super().__init__(most)
        self._threads = threads
        self._slots = asyncio.Semaphore(most)

    async def run(self, work: Callable[[], Result], call: Call) -> Result:
        """Await `work()` in a thread of the share.

        The slot is held until the work ends, even if the wait is cancelled, so that cancelled
        requests don't use more threads than the share has.
        """
        loop = asyncio.get_running_loop()
        await self._slots.acquire()
        # Acquired by the work or by the cancelled wait, which then releases the slot.
        turn = threading.Lock()

        def in_turn() -> Result:
            if not turn.acquire(blocking=False):
                # The wait was cancelled and has released the slot.
                raise Cancelled()
            try:
                return work()
            finally:
                call_on_loop(loop, self._slots.release)

        try:
            return await self._threads.run(in_turn, call)
        finally:
            # The work never started.
            if turn.acquire(blocking=False):
                self._slots.release()


def call_on_loop(
    loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: object
) -> bool:
    """Schedule a callback on the loop, from any thread; false if the loop has ended."""
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        return False
    return True


def progress_report(send: Send) -> Callable[[float, float | None, str], None]:
    """Return a `Call.report` that sends growing progress, at most ten times a second.

    The last step is always sent.
    """
    loop, lock = asyncio.get_running_loop(), threading.Lock()
    last, due = -1.0, 0.0

    def report(done: float, total: float | None, message: str) -> None:
        nonlocal last, due
        with lock:
            now = time.monotonic()
            complete = total is not None and done >= total
            if done <= last or (now < due and not complete):
                return
            last, due = done, now + PROGRESS_SECONDS
        sending = send(float(done), None if total is None else float(total), message or None)
        try:
            asyncio.run_coroutine_threadsafe(sending, loop).result()
        except (RuntimeError, concurrent.futures.CancelledError):
            sending.close()
            # The request or the loop is gone.
            log.debug("dropped the progress of a call that has ended")

    return report


def close_families(families: Sequence[Family]) -> bool:
    """Close every family; false if one is still closing after CLOSE_SECONDS."""

    def close() -> None:
        for family in families:
            try:
                family.close()
            except Exception:
                log.exception("closing family %s failed", family.name)

    thread = threading.Thread(target=close, name="close", daemon=True)
    thread.start()
    thread.join(CLOSE_SECONDS)
    return not thread.is_alive()


def end(families: Sequence[Family], threads: ThreadPool) -> int:
    """Close the families and return the exit code; exit at once if a thread still runs."""
    closed = close_families(families)
    if threads.running or not closed:
        leave_now()
    return 0


def leave_now() -> None:
    """Exit without waiting for threads: data is on disk, and a tool may run for minutes."""
    logging.shutdown()
    os._exit(0)


def leave_soon() -> None:
    """Ensure that the process ends within END_SECONDS, even if threads hang."""
    timer = threading.Timer(END_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
