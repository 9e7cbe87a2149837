"""Hostile lines on stdin: the server goes on answering and writes nothing but JSON-RPC."""

import threading

import pytest

from protocol.client import Client
from protocol.fuzz_lines import hostile_lines


def feed(client: Client, lines) -> threading.Thread:
    def write() -> None:
        for line in lines:
            client.send(line)
        client.ask("ping", id="the end")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_server_survives_hostile_lines_and_still_answers(campaign):
    with Client() as client:
        client.initialize("2025-03-26")  # the revision with batches
        writer = feed(client, hostile_lines(20261115, campaign(2_000, 100_000), large=2))
        assert "result" in client.answer("the end", seconds=600)
        writer.join(5)
        assert (
            client.call("echo", {"text": "still here"})["result"]["content"][0]["text"]
            == "still here"
        )
        assert client.close() == 0
        assert client.garbage == []


def test_a_huge_line_is_refused_without_being_held():
    import psutil

    with Client() as client:
        client.initialize()
        before = psutil.Process(client.process.pid).memory_info().rss
        for _ in range(200):
            client._stdin.write(b"x" * 1_000_000)
        client.send(b"")
        assert client.take()["error"]["code"] == -32600
        assert psutil.Process(client.process.pid).memory_info().rss - before < 40_000_000
        assert "result" in client.request("ping")
