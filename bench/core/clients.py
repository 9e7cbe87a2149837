"""Clients of a Core, many in one cheap process: one JSON argument, JSON on stdout.

HTTP/1.1 over asyncio's streams and nothing else, one connection for each client, so that the clients
leave the CPU to the server. With a pace each asks so many seconds after the
question before, and waits from the moment it meant to ask: a server that falls behind doesn't get
rest.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from urllib.parse import urlsplit

API = "/api/v2"
ANSWER_SECONDS = 120.0
LIMIT = 1 << 26  # bytes of an answer
SUMMARY = (
    "The run took longer than the one before; what changed is the order of the files, and nothing of it is in the log. "
    * 3
)


class Client:
    """A client with a token and a connection of its own."""

    def __init__(self, address: str, token: str) -> None:
        self._where = urlsplit(address)
        self._token = token
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: object = None) -> bytes:
        """Ask and return the answer's body. Raises: SystemExit for a refusal."""
        reader, writer = await self._connected()
        content = b"" if body is None else json.dumps(body).encode()
        head = [
            f"{method} {API}{path} HTTP/1.1",
            f"Host: {self._where.netloc}",
            f"Authorization: Bearer {self._token}",
        ]
        if method == "POST":
            head += [
                "Content-Type: application/json",
                f"Content-Length: {len(content)}",
                f"Idempotency-Key: bench-{uuid.uuid4().hex}",
            ]
        writer.write("\r\n".join((*head, "", "")).encode() + content)
        async with asyncio.timeout(ANSWER_SECONDS):
            status, answer = await _read(reader)
        if status not in (200, 201):
            raise SystemExit(f"{method} {path}: {status} {answer[:500]!r}")
        return answer

    async def close(self) -> None:
        """End the connection."""
        if self._writer is not None:
            self._writer.close()
            await self._writer.wait_closed()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                self._where.hostname, self._where.port, limit=LIMIT
            )
        return self._reader, self._writer


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    size = next(
        int(line.partition(":")[2])
        for line in head.splitlines()
        if line.startswith("content-length:")
    )
    return int(head.split(" ", 2)[1]), await reader.readexactly(size)


Ask = tuple[str, str, dict[str, object]]  # method, path, body


def searches(questions: Sequence[str]) -> Iterator[Ask]:
    """Searches for these questions, over and over."""
    for question in cycle(questions):
        yield "POST", "/search", {"query": question}


def writes(scopes: Sequence[str]) -> Iterator[Ask]:
    """New observations, each in the next scope."""
    for scope in cycle(scopes):
        body = {
            "title": f"The queue was {uuid.uuid4().hex[:10]} long",
            "summary_md": SUMMARY,
            "linked_subcortex_id": scope,
        }
        yield "POST", "/observations", {**body, "type": "research_note", "tags": ["bench"]}


async def _client(
    client: Client, asks: Iterator[Ask], first: float, until: float, pace: float, took: list[float]
) -> None:
    """Ask until the end; appends the milliseconds of each answer to `took`."""
    due = first
    while True:
        now = time.perf_counter()
        if pace and due > now:
            await asyncio.sleep(due - now)
        began = due if pace else now
        if began >= until:
            return
        method, path, body = next(asks)
        await client.ask(method, path, body)
        took.append((time.perf_counter() - began) * 1000)
        due += pace


async def load(
    addresses: Sequence[str],
    tokens: Sequence[str],
    asks: Iterator[Ask],
    seconds: float,
    pace: float,
) -> dict[str, object]:
    """Ask for so many seconds with a client for each token, each at the next of these servers."""
    clients = [Client(address, token) for address, token in zip(cycle(addresses), tokens)]
    took: list[float] = []
    try:
        for client in clients:
            await client.ask("GET", "/subcortexes?limit=1")  # connected, and known
        start, cpu = time.perf_counter(), time.process_time()
        until = start + seconds
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                first = start + (pace * number / len(clients))
                group.create_task(_client(client, asks, first, until, pace, took))
        wall = time.perf_counter() - start
    finally:
        for client in clients:
            await client.close()
    return {"took": took, "wall": wall, "cpu": time.process_time() - cpu}


def main() -> None:
    given = json.loads(sys.argv[1])
    ways: dict[str, Callable[[Sequence[str]], Iterator[Ask]]] = {
        "search": searches,
        "write": writes,
    }
    asks = ways[given["way"]](given["given"])
    print(
        json.dumps(
            asyncio.run(
                load(given["addresses"], given["tokens"], asks, given["seconds"], given["pace"])
            )
        )
    )


if __name__ == "__main__":
    main()
