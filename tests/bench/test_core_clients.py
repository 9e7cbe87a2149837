"""Clients of the load test of a Core: own tokens and connections, and honest waiting times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from bench.core import clients

ANSWER = (
    b'HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"data":[]}'
)


class RecordingServer:
    """A server that records its requests, and may be late once."""

    def __init__(self, late: float = 0.0, status: int = 200) -> None:
        self.heads: list[str] = []
        self.connections = self.open = 0
        self._late, self._status = late, status

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                writer.close()
                await writer.wait_closed()
                self.open -= 1
                return
            self.heads.append(head)
            size = next(
                (
                    int(line.split(":")[1])
                    for line in head.splitlines()
                    if line.startswith("Content-Length")
                ),
                0,
            )
            await reader.readexactly(size)
            if head.startswith("POST"):
                late, self._late = self._late, 0.0
                await asyncio.sleep(late)
            writer.write(ANSWER % self._status)


def run(server: RecordingServer, ask: Callable[[str], Any]) -> Any:
    async def go() -> Any:
        listening = await asyncio.start_server(server, "127.0.0.1", 0)
        async with listening:
            try:
                return await ask(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
            finally:
                while server.open:
                    await asyncio.sleep(0)

    return asyncio.run(go())


def test_each_client_asks_with_its_own_token_over_one_connection():
    server = RecordingServer()
    result = run(
        server,
        lambda where: clients.load(
            [where], ["one", "two"], clients.searches(["a", "b"]), 0.05, 0.0
        ),
    )
    assert (
        server.connections == 2
        and len(result["took"]) == sum(head.startswith("POST") for head in server.heads) > 2
    )
    assert {
        line
        for head in server.heads
        for line in head.splitlines()
        if line.startswith("Authorization")
    } == {"Authorization: Bearer one", "Authorization: Bearer two"}


def test_waiting_time_counts_from_the_intended_moment():
    result = run(
        RecordingServer(late=0.2),
        lambda where: clients.load([where], ["one"], clients.searches(["a"]), 0.18, 0.05),
    )
    took = result["took"]
    assert len(took) == 4  # asked at 0, 50, 100 and 150 ms, all answered after 200
    assert all(milliseconds > 40 for milliseconds in took) and took[0] > took[-1]


def test_refused_request_ends_the_run():
    with pytest.raises(SystemExit, match="500"):
        run(
            RecordingServer(status=500),
            lambda where: clients.load([where], ["one"], clients.writes(["scope"]), 0.1, 0.0),
        )
