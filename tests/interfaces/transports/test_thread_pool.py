"""Threads end with their loop; a bounded share is never exceeded, not even by cancelling."""

import asyncio
import threading

from cortex.interfaces.transports.thread_pool import BoundedShare, ThreadPool
from cortex.toolkit.tool import Call


def test_cancelled_call_keeps_its_slot_until_its_work_ends():
    go, begun, runs = threading.Event(), threading.Event(), []

    def work() -> str:
        runs.append(1)
        begun.set()
        go.wait(10)
        return "done"

    async def ask() -> int:
        threads = ThreadPool(8)
        share = BoundedShare(threads, 1)
        first = asyncio.create_task(share.run(work, Call()))
        await asyncio.to_thread(begun.wait, 10)
        first.cancel()
        second = asyncio.create_task(share.run(work, Call()))
        # The threads take later work: a second call in its turn would have begun before it.
        for _ in range(8):
            await threads.run(lambda: None, Call())
        at_once = len(runs)
        go.set()
        assert await second == "done"
        return at_once

    assert asyncio.run(ask()) == 1


def test_call_cancelled_before_its_turn_takes_no_slot():
    go, begun = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return go.wait(10)

    async def ask() -> str:
        share = BoundedShare(ThreadPool(1), 2)
        first = asyncio.create_task(share.run(work, Call()))
        await asyncio.to_thread(begun.wait, 10)
        waiting = [asyncio.create_task(share.run(lambda: "never", Call())) for _ in range(3)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        go.set()
        await first
        return await share.run(lambda: "served", Call())

    assert asyncio.run(asyncio.wait_for(ask(), 10)) == "served"


def test_threads_end_when_their_pool_is_dropped(until):
    before = set(threading.enumerate())

    async def ask() -> list[int]:
        threads = ThreadPool(4)
        return await asyncio.gather(*(threads.run(lambda: 1, Call()) for _ in range(8)))

    assert asyncio.run(ask()) == [1] * 8
    until(lambda: not set(threading.enumerate()) - before)


def test_thread_busy_at_the_end_of_its_loop_ends_with_its_work(until):
    before, go = set(threading.enumerate()), threading.Event()

    async def ask() -> None:
        threads = ThreadPool(1)
        await asyncio.wait(
            {asyncio.create_task(threads.run(lambda: go.wait(30), Call()))}, timeout=0.01
        )

    asyncio.run(ask())
    assert set(threading.enumerate()) - before
    go.set()
    until(lambda: not set(threading.enumerate()) - before)
