"""Connections over lines without a process of their own, as a daemon has many of."""

import json

import anyio

from cortex.interfaces.transports.mcp.line_server import serve_lines
from cortex.interfaces.transports.mcp.server import make_server
from cortex.interfaces.transports.thread_pool import ThreadPool
from protocol.family import make_family


def test_connections_of_one_server_are_served_side_by_side():
    async def converse() -> None:
        server = make_server([make_family()], ThreadPool())
        said: dict[int, list[dict]] = {1: [], 2: []}

        async def connect(number: int) -> None:
            async def source():
                params = {"name": "echo", "arguments": {"text": f"from {number}"}}
                yield json.dumps(
                    {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
                ).encode()
                yield None

            async def sink(line: bytes) -> None:
                said[number].append(json.loads(line))

            await serve_lines(server, source(), sink)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connect, 1)
                tasks.start_soon(connect, 2)
        for number, messages in said.items():
            refused, answered = sorted(messages, key=lambda message: message["id"] or 0)
            assert refused["error"]["code"] == -32600
            assert answered["result"]["content"][0]["text"] == f"from {number}"

    anyio.run(converse)


def test_a_sink_that_breaks_ends_the_connection():
    async def converse() -> None:
        async def source():
            while True:
                yield b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
                await anyio.lowlevel.checkpoint()

        async def sink(line: bytes) -> None:
            raise BrokenPipeError

        with anyio.fail_after(10):
            await serve_lines(make_server([make_family()], ThreadPool()), source(), sink)

    anyio.run(converse)
