"""Streams of stdin and stdout over pipes: bytes until the end, whole lines in their order."""

import asyncio
import os

import pytest

from cortex.interfaces.transports.mcp.std_streams import Stdio, chunks, writing

LARGE = b"x" * 1_000_000


def test_stdin_is_read_until_its_end():
    read, write = os.pipe()

    async def collect() -> bytes:
        received = b""
        async for chunk in chunks(Stdio(read, -1)):
            received += chunk
            if received == b"first":
                os.write(write, b" second")
                os.close(write)
        return received

    os.write(write, b"first")
    assert asyncio.run(collect()) == b"first second"
    os.close(read)


def test_line_whose_wait_is_cancelled_is_still_written_whole_and_in_order():
    read, write = os.pipe()

    async def converse() -> bytes:
        write_line = writing(Stdio(-1, write))
        first = asyncio.create_task(write_line(LARGE))
        await asyncio.sleep(0)
        first.cancel()
        second = asyncio.create_task(write_line(b"second"))
        received = b""
        while received.count(b"\n") < 2:
            received += await asyncio.to_thread(os.read, read, 65_536)
        await second
        return received

    assert asyncio.run(converse()) == LARGE + b"\nsecond\n"
    os.close(read)
    os.close(write)


def test_write_to_a_reader_that_is_gone_fails():
    read, write = os.pipe()
    os.close(read)

    async def converse() -> None:
        await writing(Stdio(-1, write))(b"line")

    with pytest.raises(BrokenPipeError):
        asyncio.run(converse())
    os.close(write)
