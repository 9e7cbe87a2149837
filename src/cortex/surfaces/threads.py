"""Blocking work behind an event loop: bounded threads, progress that doesn't flood, and an end that waits for nobody.

Tools block (SQLite, files, regular expressions), the loop must not. A cancelled request is let go at once; its thread keeps its
place among the bounded ones until it notices `Call.cancel`, so that cancelling in a loop can't pile up threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from cortex.tools import Call, Family

log = logging.getLogger(__name__)

THREADS = 16
PROGRESS_SECONDS = 0.1  # between two notifications of one request
CLOSE_SECONDS = 0.5  # for all families together
END_SECONDS = 0.9  # from a signal to the end, whatever hangs

Result = TypeVar("Result")
Send = Callable[[float, float | None, str | None], Coroutine[Any, Any, None]]


class Threads:
    """Runs blocking calls, at most THREADS at a time, and knows how many are still at it."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None
        self.running = 0

    async def run(self, work: Callable[[], Result], call: Call) -> Result:
        """Await `work()` done in a thread; being cancelled raises `call.cancel` and waits no longer."""
        limiter = self._limiter = self._limiter or anyio.CapacityLimiter(THREADS)
        loop, borrower, begun = asyncio.get_running_loop(), object(), threading.Lock()

        def leave() -> None:
            self.running -= 1
            limiter.release_on_behalf_of(borrower)

        def in_thread() -> Result:
            if not begun.acquire(blocking=False):
                raise RuntimeError("cancelled before it began")  # nobody hears it
            try:
                return work()
            finally:
                _soon(loop, leave)

        await limiter.acquire_on_behalf_of(borrower)
        self.running += 1
        try:
            return await anyio.to_thread.run_sync(in_thread, abandon_on_cancel=True, limiter=_unlimited())
        except anyio.get_cancelled_exc_class():
            call.cancel.cancel()
            raise
        finally:
            if begun.acquire(blocking=False):  # the thread didn't come to it, and now it won't
                leave()


def progress_report(send: Send) -> Callable[[float, float | None, str], None]:
    """A `Call.report` that passes on growing progress, ten times a second at most, and always the last step."""
    lock = threading.Lock()
    last, due = -1.0, 0.0

    def report(done: float, total: float | None, message: str) -> None:
        nonlocal last, due
        with lock:
            now = time.monotonic()
            complete = total is not None and done >= total
            if done <= last or (now < due and not complete):
                return
            last, due = done, now + PROGRESS_SECONDS
        try:
            anyio.from_thread.run(send, float(done), None if total is None else float(total), message or None)
        except (RuntimeError, asyncio.CancelledError, concurrent.futures.CancelledError):
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


def end(families: Sequence[Family], threads: Threads) -> int:
    """Close what is open and give the exit code; leaves the process at once where a thread would hold it up."""
    closed = close_families(families)
    if threads.running or not closed:
        leave_now()
    return 0


def leave_now() -> None:
    """End the process without waiting for threads: what matters is on disk, and a tool may run for minutes."""
    logging.shutdown()
    os._exit(0)


def leave_soon() -> None:
    """See to it that the process ends within END_SECONDS, whatever hangs."""
    timer = threading.Timer(END_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        log.debug("the loop ended before the thread")


def _unlimited() -> anyio.CapacityLimiter:
    # Threads.run has its own limiter, held until the thread ends and not only until the request does.
    return anyio.CapacityLimiter(1)
