"""Batches of messages over stdio: answered together in the one revision that has them."""

import json
import sys

import pytest

import forking
from protocol.client import FAMILY, Client


@pytest.fixture
def client():
    with Client() as client:
        yield client
        assert client.garbage == []


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def calling(id: int | str, tool: str, **rest: object) -> dict:
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": tool, "arguments": {}, **rest},
    }


def send_batch(client: Client, *messages: object) -> None:
    client.send(json.dumps(messages).encode())


def test_the_answers_to_a_batch_come_together_and_each_bad_member_has_its_own(client):
    client.initialize("2025-03-26")
    send_batch(
        client,
        PING,
        INITIALIZED,
        5,
        calling("a", "echo", arguments={"text": "hi"}),
        calling(2, "nothing"),
    )
    bad, ping, unknown, echo = sorted(
        client.take_batch(), key=lambda answer: str(answer["id"] or "")
    )
    assert (bad["id"], bad["error"]["code"]) == (None, -32600)
    assert (ping["id"], ping["result"]) == (1, {})
    assert (unknown["id"], unknown["error"]["code"]) == (2, -32602)
    assert (echo["id"], echo["result"]["content"][0]["text"]) == ("a", "hi")
    assert client.aside == []


def test_a_batch_waits_for_its_last_answer_while_progress_and_other_answers_go_out(client):
    client.initialize("2025-03-26")
    send_batch(
        client, PING, calling(2, "wait", _meta={"progressToken": "p"}), calling(3, "nothing")
    )
    assert client.wait_for("notifications/progress")["params"]["progressToken"] == "p"
    assert "result" in client.request("ping")
    assert client.aside == []
    client.notify("notifications/cancelled", {"requestId": 2})
    assert [answer["id"] for answer in client.take_batch()] == [1, 3]


def test_batch_of_notifications_is_not_answered(client):
    client.initialize("2025-03-26")
    send_batch(client, INITIALIZED, {"jsonrpc": "2.0", "id": 5, "result": {}})
    send_batch(client, calling(2, "wait", _meta={"progressToken": "p"}))
    client.wait_for("notifications/progress")
    client.notify("notifications/cancelled", {"requestId": 2})
    assert "result" in client.request("ping")
    assert client.aside == []


def test_a_handshake_inside_a_batch_is_refused_and_changes_nothing(client):
    client.initialize("2025-03-26")
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    send_batch(client, {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params}, PING)
    ping, refused = client.take_batch()
    assert (ping["id"], refused["id"], refused["error"]["code"]) == (1, 7, -32600)
    send_batch(client, PING)
    assert [answer["id"] for answer in client.take_batch()] == [1]


@pytest.mark.parametrize("messages", [[], [PING] * 101])
def test_a_batch_of_none_or_too_many_is_refused_whole(client, messages):
    client.initialize("2025-03-26")
    send_batch(client, *messages)
    refused = client.take()
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize("version", [None, "2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_revisions_refuse_a_batch(client, version):
    if version:
        client.initialize(version)
    send_batch(client, PING)
    refused = client.take()
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)


def test_a_batch_sent_right_after_the_handshake_and_before_the_end_is_answered():
    hello = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    lines = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        [PING, calling(2, "nothing")],
    ]
    given = "".join(json.dumps(line) + "\n" for line in lines).encode()
    ended = forking.run(
        [sys.executable, str(FAMILY), "stdio"], input=given, capture_output=True, timeout=20
    )
    greeting, answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert greeting["result"]["protocolVersion"] == "2025-03-26"
    assert sorted(answer["id"] for answer in answers) == [1, 2]
    assert ended.returncode == 0
