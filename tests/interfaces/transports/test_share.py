"""Threads behind a loop, which end with it; a share of them: nobody gets more than the share, not
even by cancelling.
"""

import asyncio
import threading

from cortex.interfaces.transports.thread_pool import BoundedShare, ThreadPool
from cortex.toolkit.tool import Call


def make_call() -> Call:
    return Call()


def test_a_cancelled_call_keeps_its_turn_until_its_work_ends():
    go, begun = threading.Event(), []

    def work() -> str:
        begun.append(1)
        go.wait(10)
        return "done"

    async def ask() -> int:
        share = BoundedShare(ThreadPool(8), 1)
        first = asyncio.create_task(share.run(work, make_call()))
        while not begun:
            await asyncio.sleep(0.001)
        first.cancel()
        second = asyncio.create_task(share.run(work, make_call()))
        await asyncio.sleep(0.05)
        at_once = len(begun)
        go.set()
        assert await second == "done"
        return at_once

    assert asyncio.run(ask()) == 1


def test_a_call_that_is_cancelled_before_its_turn_takes_none():
    go = threading.Event()

    async def ask() -> str:
        share = BoundedShare(ThreadPool(1), 2)
        first = asyncio.create_task(share.run(lambda: go.wait(10), make_call()))
        await asyncio.sleep(0.01)
        waiting = [asyncio.create_task(share.run(lambda: "never", make_call())) for _ in range(3)]
        await asyncio.sleep(0.01)
        for one in waiting:
            one.cancel()
        go.set()
        await first
        return await share.run(lambda: "served", make_call())

    assert asyncio.run(asyncio.wait_for(ask(), 10)) == "served"


def test_threads_end_when_nobody_has_them_any_more(until):
    before = set(threading.enumerate())

    async def ask() -> list[int]:
        threads = ThreadPool(4)
        return await asyncio.gather(*(threads.run(lambda: 1, make_call()) for _ in range(8)))

    assert asyncio.run(ask()) == [1] * 8
    until(lambda: not set(threading.enumerate()) - before)


def test_a_thread_that_works_when_its_loop_ends_ends_with_its_work(until):
    before, go = set(threading.enumerate()), threading.Event()

    async def ask() -> None:
        threads = ThreadPool(1)
        await asyncio.wait(
            {asyncio.create_task(threads.run(lambda: go.wait(30), make_call()))}, timeout=0.01
        )

    asyncio.run(ask())
    assert set(threading.enumerate()) - before
    go.set()
    until(lambda: not set(threading.enumerate()) - before)
