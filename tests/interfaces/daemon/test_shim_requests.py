"""Requests that the shim keeps and resends to the next cortexd."""

from __future__ import annotations

import json
import re
import sys

import pytest

from cortex.interfaces.daemon.shim import BYE, LEAVING
from interfaces.daemon.fake_cortexd import Connection, FakeCortexd
from interfaces.daemon.sandbox import CALL

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in listens at a Unix socket"
)

WRITE = {"name": "reindex_workspace", "arguments": {}}


@pytest.fixture
def fake(sandbox):
    cortexd = FakeCortexd(sandbox.meeting.socket)
    yield cortexd
    cortexd.close()


@pytest.fixture
def window(sandbox, fake):
    with sandbox.window() as opened:
        yield opened


def settle(window, connection: Connection) -> None:
    """Wait until cortexd has read every line of the client so far."""
    window.ask("ping", id="settled")
    asked: object = None
    while not isinstance(asked, dict) or asked.get("id") != "settled":
        asked = connection.hear()
    connection.answer({"id": "settled"})
    window.answer("settled")


def test_answer_of_the_client_is_not_resent(window, fake):
    first = fake.accept()
    window.send(b'{"jsonrpc":"2.0","id":5,"result":{"roots":[]}}')
    window.send(b'{"jsonrpc":"2.0","id":6,"error":{"code":1,"message":"m"}}')
    settle(window, first)
    first.die()
    window.ask("ping", id="next")
    second = fake.accept()
    assert second.hear()["id"] == "next"
    assert second.hears_nothing_more()


@pytest.mark.parametrize(
    "odd",
    [
        {"jsonrpc": "2.0", "id": 5, "method": "x", "result": {}},
        {"jsonrpc": "1.0", "id": 5, "result": {}},
        {"id": 5, "error": {}},
        {"jsonrpc": "2.0", "id": 5},
        {"jsonrpc": "2.0", "id": "", "method": "x"},
        {"jsonrpc": "2.0", "id": 0, "method": "x"},
    ],
)
def test_message_that_only_resembles_an_answer_is_a_request(window, fake, odd):
    first = fake.accept()
    window.send(json.dumps(odd).encode())
    assert first.hear() == odd
    first.die()
    second = fake.accept()
    assert second.hear() == odd
    second.answer(odd, {"done": 1})
    assert window.answer(odd["id"])["result"] == {"done": 1}


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":true,"method":"x"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"x"}',
        b'{"jsonrpc":"2.0","id":null,"method":"x"}',
        b'{"jsonrpc":"2.0","id":[1],"method":"x"}',
        b'"text"',
        b"7",
        b"[]",
        b"[1]",
    ],
)
def test_message_without_a_valid_request_id_is_not_waited_for(window, fake, line):
    first = fake.accept()
    window.send(line)
    settle(window, first)
    first.die()
    assert fake.no_connection_comes()
    window.ask("ping", id="next")
    assert fake.accept().hear()["id"] == "next"


def test_number_and_text_are_different_request_ids(window, fake):
    first = fake.accept()
    window.ask("ping", id=1)
    window.ask("ping", id="1")
    first.hear()
    first.answer(first.hear())
    assert window.answer("1")
    first.die()
    second = fake.accept()
    assert second.hear()["id"] == 1
    assert second.hears_nothing_more()


def test_two_requests_with_the_same_id_get_two_answers(window, fake):
    first = fake.accept()
    window.ask("tools/call", CALL, id=1)
    window.ask("ping", id=1)
    assert (first.hear()["method"], first.hear()["method"]) == ("tools/call", "ping")
    first.answer({"id": 1})
    window.answer(1)
    first.die()
    second = fake.accept()
    assert second.hear()["method"] == "ping"
    assert second.hears_nothing_more()
    second.answer({"id": 1})
    window.answer(1)
    second.die()
    window.ask("ping", id="next")
    assert fake.accept().hear()["id"] == "next"


def test_request_id_with_a_lone_surrogate_is_answered(window, fake):
    first = fake.accept()
    window.send(b'{"jsonrpc":"2.0","id":"a\\ud800","method":"ping"}')
    first.hear()
    first.write(b'{"jsonrpc":"2.0","id":"a?","result":{}}\n')
    assert window.take()["id"] == "a?"
    first.die()
    window.ask("ping", id="next")
    second = fake.accept()
    assert second.hear()["id"] == "next"
    assert second.hears_nothing_more()


# -- the session


def test_session_is_restored_in_order_before_pending_requests(window, fake):
    first = fake.accept()
    window.ask("tools/call", CALL, id="call")
    window.ask("resources/subscribe", {"uri": "a:"}, id="late")
    assert (first.hear()["id"], first.hear()["id"]) == ("call", "late")
    first.die()
    second = fake.accept()
    assert (second.hear()["id"], second.hear()["id"]) == ("late", "call")
    for id in ("call", "late"):
        second.answer({"id": id})
        window.answer(id)
    second.die()
    window.ask("ping", id="next")
    third = fake.accept()
    assert third.hear()["method"] == "resources/subscribe"
    assert third.hear()["id"] == "next"


def test_requests_that_restore_the_session_have_ids_of_their_own(window, fake):
    first = fake.accept()
    for number, method in enumerate(("initialize", "logging/setLevel", "resources/subscribe")):
        window.ask(method, {"uri": "a:"}, id=number)
        first.answer(first.hear())
        window.answer(number)
    first.die()
    window.ask("ping", id="next")
    second = fake.accept()
    asked = [second.hear() for _ in range(4)]
    ids = [message["id"] for message in asked]
    assert len(set(ids)) == 4 and ids[3] == "next"
    assert all(str(id).startswith("cortex mcp ") for id in ids[:3])
    for message in asked:
        second.answer(message)
    assert window.answer("next")["result"] == {}
    assert window.aside == []


def test_handshake_within_a_batch_is_resent_once_with_its_batch(window, fake):
    first = fake.accept()
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    window.send(json.dumps(batch).encode())
    assert first.hear() == batch
    first.die()
    second = fake.accept()
    assert second.hear() == batch
    assert second.hears_nothing_more()
    second.say([{"jsonrpc": "2.0", "id": id, "result": {}} for id in (1, 2)])
    assert [message["id"] for message in window.take_batch()] == [1, 2]


def test_requests_made_without_a_cortexd_are_sent_unchanged(window, fake):
    fake.accept().die()
    assert fake.no_connection_comes()
    window.notify("notifications/roots/list_changed")
    window.ask("ping", id="one")
    second = fake.accept()
    said = [second.hear(), second.hear()]
    assert {message["method"] for message in said} == {"notifications/roots/list_changed", "ping"}
    assert second.hears_nothing_more()


@pytest.mark.parametrize(
    "params", [None, [], "text", {"name": "reindex_workspace", "arguments": []}, {"arguments": {}}]
)
def test_call_is_retried_only_if_its_params_cannot_name_a_tool(window, fake, params):
    first = fake.accept()
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    window.send(json.dumps(asked).encode())
    first.hear()
    first.die()
    second = fake.accept()
    if isinstance(params, dict):
        assert window.answer(1)["result"]["isError"] is True
        assert second.hears_nothing_more()
    else:
        assert second.hear() == asked


@pytest.mark.parametrize("key", ["", None, 0])
def test_empty_idempotency_key_does_not_allow_a_retry(window, fake, key):
    first = fake.accept()
    window.ask("tools/call", {**WRITE, "arguments": {"idempotency_key": key}}, id=1)
    first.hear()
    first.die()
    fake.accept()
    assert window.answer(1)["result"]["isError"] is True


def test_subscription_request_is_resent_to_every_cortexd(window, fake):
    window.ask("subscriptions/listen", id=1)
    for _ in range(2):
        connection = fake.accept()
        assert connection.hear()["method"] == "subscriptions/listen"
        connection.die()
    assert fake.accept().hear()["id"] == 1
    assert window.aside == []


# -- what is lost


def test_lost_call_error_has_every_field_of_an_error(window, fake):
    first = fake.accept()
    window.ask("tools/call", WRITE, id=1)
    first.hear()
    first.die()
    fake.accept()
    answer = window.answer(1)
    assert set(answer) == {"jsonrpc", "id", "result"}
    assert answer["result"]["isError"] is True
    (content,) = answer["result"]["content"]
    error = json.loads(content["text"])["error"]
    assert content["type"] == "text"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", error.pop("timestamp"))
    assert error == {
        "code": "SERVER_LOST",
        "message": "cortexd ended during this call; it may or may not have been carried out",
        "category": "network",
        "severity": "error",
        "retryable": True,
        "context": {},
        "suggestions": ["Check whether it was done, then call it again."],
    }


def test_lost_batch_answers_only_its_pending_requests(window, fake):
    first = fake.accept()
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": WRITE}
    batch = [{**call, "id": 1}, {**call, "id": 2}, {"jsonrpc": "2.0", "method": "note"}, 7]
    window.send(json.dumps(batch).encode())
    assert first.hear() == batch
    first.say({"jsonrpc": "2.0", "id": 2, "result": {}})
    window.answer(2)
    first.die()
    second = fake.accept()
    (lost,) = window.take_batch()
    assert lost["id"] == 1
    assert second.hears_nothing_more()
    window.ask("ping", id="next")
    second.hear()
    second.die()
    third = fake.accept()
    assert third.hear()["id"] == "next"


# -- ends


def test_cortexd_that_answered_everything_is_replaced_by_the_next(window, fake):
    first = fake.accept()
    settle(window, first)
    first.write(BYE + b"\n")
    assert first.hear() == {}
    assert fake.no_connection_comes()
    window.ask("ping", id="next")
    assert fake.accept().hear()["id"] == "next"


def test_ten_cortexd_exits_in_a_minute_make_the_shim_serve_itself(window, fake):
    window.ask("ping", id=1)
    for _ in range(10):
        connection = fake.accept()
        assert connection.hear()["id"] == 1
        connection.write(LEAVING + b"\n")
        connection.die()
    assert window.answer(1)["result"] == {}
    assert fake.no_connection_comes()
    assert window.close() == 0
    assert (
        window.stderr
        == "warning: cortexd ended 10 times within a minute; serving in a process of its own\n"
    )


def test_cortexd_deaths_are_counted_apart_from_orderly_exits(window, fake):
    window.ask("resources/subscribe", {"uri": "a:"}, id=1)
    for is_peaceful in (True, False, True, False, True, True):
        connection = fake.accept()
        assert connection.hear()["id"] == 1
        if is_peaceful:
            connection.write(LEAVING + b"\n")
        connection.die()
    last = fake.accept()
    last.answer(last.hear(), {"done": True})
    assert window.answer(1)["result"] == {"done": True}


def test_cortexd_death_after_stdin_ended_with_nothing_pending_ends_the_shim(window, fake):
    connection = fake.accept()
    settle(window, connection)
    window._stdin.close()
    assert connection.hear() == {}
    connection.die()
    assert window.process.wait(30) == 0
    assert fake.no_connection_comes()
