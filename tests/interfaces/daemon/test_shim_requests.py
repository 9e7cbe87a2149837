"""What the front end keeps of the client's lines, and sends again to the next cortexd."""

from __future__ import annotations

import json
import re
import sys

import pytest

from cortex.interfaces.daemon.shim import BYE, LEAVING
from interfaces.daemon.fake_cortexd import Connection, FakeCortexd
from interfaces.daemon.place import CALL

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in listens at a Unix socket"
)

WRITE = {"name": "reindex_workspace", "arguments": {}}


@pytest.fixture
def fake(place):
    cortexd = FakeCortexd(place.meeting.socket)
    yield cortexd
    cortexd.close()


@pytest.fixture
def window(place, fake):
    with place.window() as opened:
        yield opened


def settle(window, connection: Connection) -> None:
    """See that everything the client has said so far has been taken."""
    window.ask("ping", id="settled")
    asked: object = None
    while not isinstance(asked, dict) or asked.get("id") != "settled":
        asked = connection.hear()
    connection.answer({"id": "settled"})
    window.answer("settled")


def test_an_answer_of_the_client_is_no_request_and_is_not_sent_again(window, fake):
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
def test_what_only_looks_like_an_answer_is_a_request(window, fake, odd):
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
def test_what_nobody_answers_is_not_waited_for(window, fake, line):
    first = fake.accept()
    window.send(line)
    settle(window, first)
    first.die()
    assert fake.nobody_comes()
    window.ask("ping", id="next")
    assert fake.accept().hear()["id"] == "next"


def test_the_same_number_as_text_is_another_id(window, fake):
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


def test_two_requests_of_one_id_are_two(window, fake):
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


def test_an_id_with_half_a_letter_is_answered_as_it_comes_back(window, fake):
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


def test_a_session_is_made_again_in_its_order_before_what_was_asked(window, fake):
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


def test_each_request_that_restores_the_session_has_an_id_of_its_own(window, fake):
    first = fake.accept()
    for number, method in enumerate(("initialize", "logging/setLevel", "resources/subscribe")):
        window.ask(method, {"uri": "a:"}, id=number)
        first.answer(first.hear())
        window.answer(number)
    first.die()
    window.ask("ping", id="next")
    second = fake.accept()
    asked = [second.hear() for _ in range(4)]
    ids = [one["id"] for one in asked]
    assert len(set(ids)) == 4 and ids[3] == "next"
    assert all(str(id).startswith("cortex mcp ") for id in ids[:3])
    for one in asked:
        second.answer(one)
    assert window.answer("next")["result"] == {}
    assert window.aside == []


def test_a_handshake_within_a_batch_is_sent_again_with_its_batch_and_once(window, fake):
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
    assert [one["id"] for one in window.take_batch()] == [1, 2]


def test_what_was_asked_while_there_was_no_cortexd_is_sent_as_it_came(window, fake):
    fake.accept().die()
    assert fake.nobody_comes()
    window.notify("notifications/roots/list_changed")
    window.ask("ping", id="one")
    second = fake.accept()
    said = [second.hear(), second.hear()]
    assert {one["method"] for one in said} == {"notifications/roots/list_changed", "ping"}
    assert second.hears_nothing_more()


@pytest.mark.parametrize(
    "params", [None, [], "text", {"name": "reindex_workspace", "arguments": []}, {"arguments": {}}]
)
def test_a_call_without_the_form_of_one_is_asked_again_where_no_tool_can_be_meant(
    window, fake, params
):
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
def test_an_empty_key_is_none(window, fake, key):
    first = fake.accept()
    window.ask("tools/call", {**WRITE, "arguments": {"idempotency_key": key}}, id=1)
    first.hear()
    first.die()
    fake.accept()
    assert window.answer(1)["result"]["isError"] is True


def test_what_listens_is_asked_of_every_cortexd(window, fake):
    window.ask("subscriptions/listen", id=1)
    for _ in range(2):
        connection = fake.accept()
        assert connection.hear()["method"] == "subscriptions/listen"
        connection.die()
    assert fake.accept().hear()["id"] == 1
    assert window.aside == []


# -- what is lost


def test_what_is_lost_is_told_with_all_that_an_error_has(window, fake):
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


def test_of_a_batch_that_is_lost_only_what_is_still_due_is_answered(window, fake):
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


def test_a_cortexd_that_answered_all_is_followed_by_the_next(window, fake):
    first = fake.accept()
    settle(window, first)
    first.write(BYE + b"\n")
    assert first.hear() == {}
    assert fake.nobody_comes()
    window.ask("ping", id="next")
    assert fake.accept().hear()["id"] == "next"


def test_ten_ends_in_a_minute_are_enough_however_peaceful(window, fake):
    window.ask("ping", id=1)
    for _ in range(10):
        connection = fake.accept()
        assert connection.hear()["id"] == 1
        connection.write(LEAVING + b"\n")
        connection.die()
    assert window.answer(1)["result"] == {}
    assert fake.nobody_comes()
    assert window.close() == 0
    assert (
        window.stderr
        == "warning: cortexd ended 10 times within a minute; serving in a process of its own\n"
    )


def test_deaths_among_peaceful_ends_are_counted_alone(window, fake):
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


def test_after_the_end_of_stdin_a_death_with_nothing_due_is_the_end(window, fake):
    connection = fake.accept()
    settle(window, connection)
    window._stdin.close()
    assert connection.hear() == {}
    connection.die()
    assert window.process.wait(30) == 0
    assert fake.nobody_comes()
