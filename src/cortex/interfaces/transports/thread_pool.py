"""Blocking work behind an event loop: bounded threads, progress that doesn't flood, and an end that
waits for nobody.

Tools block (SQLite, files, regular expressions), the loop must not. A cancelled request is let go
at once; its thread keeps its place among the bounded ones until it notices `Call.cancel`, so that
cancelling in a loop can't pile up threads. Road not taken: anyio's worker threads, whose way there
and back takes twice the time, and those of concurrent.futures, which take turns.
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
PROGRESS_SECONDS = 0.1  # between two notifications of one request
CLOSE_SECONDS = 0.5  # for all families together
END_SECONDS = 0.9  # from a signal to the end, whatever hangs

Result = TypeVar("Result")
Send = Callable[[float, float | None, str | None], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], Any]
    done: asyncio.Future[tuple[Any, BaseException | None]]


_Jobs = queue.SimpleQueue[_Job | None]  # of one thread; None ends it


class ThreadPool:
    """Runs blocking calls, at most so many at a time, in the thread that rested last: what it has
    open is still warm.

    All but the work itself happens on the loop, so that nothing here needs a lock. When nobody has
    this any more, as after the end of its loop, its threads end.
    """

    def __init__(self, most: int = THREADS) -> None:
        self.running = 0
        self._most = most
        self._resting: list[_Jobs] = []
        self._waiting: deque[_Job] = deque()
        weakref.finalize(self, _dismiss, self._resting).atexit = False

    async def run(self, work: Callable[[], Result], call: Call) -> Result:
        """Await `work()` done in a thread; being cancelled raises `call.cancel` and waits no
        longer.
        """
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future())
        self._waiting.append(job)
        if self.running < self._most:
            self._begin(self._resting.pop() if self._resting else _start(self))
        try:
            result, error = await job.done
        except asyncio.CancelledError:
            call.cancel.cancel()
            raise
        if error is not None:
            raise error
        return result

    def _begin(self, jobs: _Jobs) -> None:
        """Give a thread the next job that somebody still waits for, or let it rest."""
        while self._waiting:
            job = self._waiting.popleft()
            if not job.done.cancelled():
                self.running += 1
                jobs.put(job)
                return
        self._resting.append(jobs)

    def finish(self, jobs: _Jobs, job: _Job, result: Any, error: BaseException | None) -> None:
        """Tell whoever waits what became of a job, on the loop; its thread gets the next."""
        self.running -= 1
        if not job.done.cancelled():
            job.done.set_result((result, error))
        self._begin(jobs)


def _start(threads: ThreadPool) -> _Jobs:
    """A new thread, that keeps nothing alive while it rests."""
    jobs: _Jobs = queue.SimpleQueue()
    owner = weakref.ref(threads)

    def work() -> None:
        while (job := jobs.get()) is not None and _do(job, owner, jobs):
            del job

    threading.Thread(target=work, name="tool", daemon=True).start()
    return jobs


def _do(job: _Job, owner: weakref.ref[ThreadPool], jobs: _Jobs) -> bool:
    """Do a job and tell its loop; False where nobody is there any more who would have another one."""
    result, error = None, None
    try:
        result = job.work()
    except BaseException as raised:  # whatever it is, somebody waits for it
        error = raised
    threads = owner()
    return threads is not None and soon(
        job.done.get_loop(), threads.finish, jobs, job, result, error
    )


def _dismiss(resting: list[_Jobs]) -> None:
    for jobs in resting:
        jobs.put(None)


class BoundedShare(ThreadPool):
    """A part of threads that many use: nobody gets more than this at a time, however much they ask
    for.
    """

    def __init__(self, threads: ThreadPool, most: int) -> None:
        super().__init__(most)
        self._threads = threads
        self._turns = asyncio.Semaphore(most)

    async def run(self, work: Callable[[], Result], call: Call) -> Result:
        """Await `work()`; the turn ends with the work, not with the wait for it: who cancels gets
        no more than others.
        """
        loop = asyncio.get_running_loop()
        await self._turns.acquire()
        turn = threading.Lock()  # whoever gets it ends the turn

        def in_turn() -> Result:
            if not turn.acquire(blocking=False):
                raise Cancelled()  # nobody waits any more, and the turn is over
            try:
                return work()
            finally:
                soon(loop, self._turns.release)

        try:
            return await self._threads.run(in_turn, call)
        finally:
            if turn.acquire(blocking=False):  # it was never begun
                self._turns.release()


def soon(
    loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: object
) -> bool:
    """Have the loop call something, from any thread; False where the loop has ended."""
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        return False
    return True


def progress_report(send: Send) -> Callable[[float, float | None, str], None]:
    """A `Call.report` that passes on growing progress, ten times a second at most, and always the
    last step.
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
            log.debug("progress nobody waits for")  # the request or the loop is gone

    return report


def close_families(families: Sequence[Family]) -> bool:
    """Close every family within CLOSE_SECONDS; False where one is still at it."""

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
    """Close what is open and give the exit code; leaves the process at once where a thread would
    hold it up.
    """
    closed = close_families(families)
    if threads.running or not closed:
        leave_now()
    return 0


def leave_now() -> None:
    """End the process without waiting for threads: what matters is on disk, and a tool may run for
    minutes.
    """
    logging.shutdown()
    os._exit(0)


def leave_soon() -> None:
    """See to it that the process ends within END_SECONDS, whatever hangs."""
    timer = threading.Timer(END_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
