"""The front end's promise, against a cortexd that dies on cue: one answer per id, always, and
nothing done twice unasked.
"""

from __future__ import annotations

import json
import sys

import psutil
import pytest

from cortex.interfaces.daemon.shim import BYE, LEAVING, LOG_LINE
from interfaces.daemon.fake_cortexd import FakeCortexd
from interfaces.daemon.place import CALL
from protocol.code_server import check_envelope, text_of

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in listens at a Unix socket"
)

WRITE = {"name": "reindex_workspace", "arguments": {}}
KEYED = {"name": "reindex_workspace", "arguments": {"idempotency_key": "k1"}}


@pytest.fixture
def fake(place):
    cortexd = FakeCortexd(place.meeting.socket)
    yield cortexd
    cortexd.close()


@pytest.fixture
def window(place, fake):
    with place.window() as opened:
        yield opened


def error_of(answer: dict) -> dict:
    assert answer["result"]["isError"] is True
    return check_envelope(json.loads(text_of(answer["result"])))


def test_its_hello_says_who_the_client_is(place, fake):
    with place.window(CODEINDEX_WORKSPACE_PATH="/elsewhere"):
        hello = fake.accept().hello
    assert hello["arguments"] == ["code", "--workspace", str(place.root)]
    assert hello["variables"]["CODEINDEX_WORKSPACE_PATH"] == "/elsewhere"
    assert set(hello) == {"protocol", "arguments", "cwd", "variables", "version", "pid", "log"}
    assert all(name.startswith(("CORTEX_", "CODEINDEX_")) for name in hello["variables"])


def test_windows_at_once_each_carry_their_own_variables(place, fake, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not ours to carry")
    keyed = {"ACK_MEM_SCOPE": "team", "CODEINDEX_OPENAI_API_KEY": "mine"}
    with place.window(ACK_MEM_SCOPE="private") as one, place.window(**keyed) as two:
        hellos = {
            hello["pid"]: hello["variables"] for hello in (fake.accept().hello, fake.accept().hello)
        }
        own = [hellos[window.process.pid] for window in (one, two)]
    assert [one["ACK_MEM_SCOPE"] for one in own] == ["private", "team"]
    assert [one.get("CODEINDEX_OPENAI_API_KEY") for one in own] == [None, "mine"]
    assert all("OPENAI_API_KEY" not in one for one in own)


def test_a_line_for_people_goes_to_stderr_and_not_to_the_client(place, fake):
    with place.window() as window:
        served = fake.accept()
        id = window.ask("tools/call", CALL)
        asked = served.hear()
        served.say({LOG_LINE: "kb_search: 3 ms \x1b[31m"})
        served.answer(asked, {"content": []})
        assert window.answer(id)["result"] == {"content": []}
        window.process.stdin.close()
        served.write(BYE + b"\n")
        window.process.wait(30)
        assert window.stderr == "kb_search: 3 ms \\x1b[31m\n"


def test_a_call_that_reads_is_asked_again_and_answered_once(window, fake):
    first = fake.accept()
    id = window.ask("tools/call", CALL)
    asked = first.hear()
    first.die()
    second = fake.accept()
    assert second.hear() == asked
    second.answer(asked, {"content": []})
    assert window.answer(id)["result"] == {"content": []}
    second.die()
    window.ask("ping", id="next")
    third = fake.accept()
    assert third.hear()["id"] == "next"  # and not the call


def test_a_call_that_writes_is_not_asked_again_but_said_to_be_lost(window, fake):
    first = fake.accept()
    id = window.ask("tools/call", WRITE)
    first.hear()
    first.die()
    second = fake.accept()
    told = error_of(window.answer(id))
    assert (told["code"], told["retryable"]) == ("SERVER_LOST", True)
    assert second.hears_nothing_more()


def test_a_call_that_writes_with_a_key_is_asked_again(window, fake):
    first = fake.accept()
    id = window.ask("tools/call", KEYED)
    asked = first.hear()
    first.die()
    second = fake.accept()
    assert second.hear() == asked
    second.answer(asked)
    assert window.answer(id)["result"] == {}


@pytest.mark.parametrize("call", [CALL, KEYED])
def test_nothing_is_asked_a_third_time(window, fake, call):
    id = window.ask("tools/call", call)
    for _ in range(2):
        connection = fake.accept()
        assert connection.hear()["id"] == id
        connection.die()
    last = fake.accept()
    assert error_of(window.answer(id))["code"] == "SERVER_LOST"
    assert last.hears_nothing_more()


def test_a_request_that_is_no_call_is_lost_with_an_error_of_the_protocol(window, fake):
    id = window.ask("tools/list")
    for _ in range(2):
        connection = fake.accept()
        connection.hear()
        connection.die()
    fake.accept()
    answer = window.answer(id)
    assert answer["error"]["code"] == -32603
    assert answer["error"]["data"]["error"]["retryable"] is True


def shake_hands(window, connection) -> None:
    window.ask("initialize", {"protocolVersion": "2025-03-26", "capabilities": {}}, id=0)
    connection.answer(connection.hear(), {"protocolVersion": "2025-03-26"})
    assert window.answer(0)["result"]["protocolVersion"] == "2025-03-26"
    window.notify("notifications/initialized")
    assert connection.hear()["method"] == "notifications/initialized"


def test_the_session_is_made_again_and_the_client_hears_nothing_of_it(window, fake):
    first = fake.accept()
    shake_hands(window, first)
    for method, params in (
        ("logging/setLevel", {"level": "error"}),
        ("resources/subscribe", {"uri": "a:"}),
        ("resources/subscribe", {"uri": "b:"}),
        ("resources/unsubscribe", {"uri": "a:"}),
        ("logging/setLevel", {"level": "debug"}),
    ):
        id = window.ask(method, params)
        first.answer(first.hear())
        window.answer(id)
    first.die()
    # A client may use an id again, also that of its handshake
    id = window.ask("tools/call", CALL, id=0)
    second = fake.accept()
    said = [second.hear() for _ in range(5)]
    assert [one["method"] for one in said] == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
        "tools/call",
    ]
    assert said[2]["params"] == {"level": "debug"}
    assert said[3]["params"] == {"uri": "b:"}
    for one in said:
        if "id" in one:
            second.answer(one, {"for": one["method"]})
    assert window.answer(0)["result"] == {"for": "tools/call"}
    window.ask("ping", id="last")
    second.answer(second.hear())
    window.answer("last")
    assert window.aside == []


def test_a_handshake_that_was_not_answered_is_answered_by_the_next(window, fake):
    window.ask("initialize", {"protocolVersion": "2025-11-25"}, id=1)
    window.ask("tools/list", id=2)
    for _ in range(2):
        connection = fake.accept()
        assert [connection.hear()["method"] for _ in range(2)] == ["initialize", "tools/list"]
        connection.die()
    last = fake.accept()
    asked = last.hear()
    assert (asked["method"], asked["id"]) == ("initialize", 1)
    last.answer(asked)
    assert window.answer(1)["result"] == {}
    assert [one["id"] for one in window.aside] == [2]  # lost: it was asked twice


def test_a_batch_that_reads_is_asked_again_whole_and_one_that_writes_is_lost_whole(window, fake):
    first = fake.accept()
    shake_hands(window, first)
    reads = [
        {"jsonrpc": "2.0", "id": f"r{n}", "method": "tools/call", "params": CALL} for n in range(3)
    ]
    writes = [reads[0] | {"id": "w0"}, reads[0] | {"id": "w1", "params": WRITE}]
    window.send(json.dumps(reads).encode())
    window.send(json.dumps(writes).encode())
    assert (first.hear(), first.hear()) == (reads, writes)
    first.die()
    second = fake.accept()
    assert [second.hear().get("method") for _ in range(2)] == [
        "initialize",
        "notifications/initialized",
    ]
    assert second.hear() == reads
    lost = window.take_batch()
    assert [one["id"] for one in lost] == ["w0", "w1"]
    assert {error_of(one)["code"] for one in lost} == {"SERVER_LOST"}
    second.say([{"jsonrpc": "2.0", "id": read["id"], "result": {}} for read in reads])
    assert [one["id"] for one in window.take_batch()] == ["r0", "r1", "r2"]
    second.die()  # all three have their answers: nothing is asked again
    window.ask("ping", id="next")
    third = fake.accept()
    assert [third.hear()["method"] for _ in range(3)] == [
        "initialize",
        "notifications/initialized",
        "ping",
    ]


def test_what_was_cancelled_does_not_come_back(window, fake):
    first = fake.accept()
    window.ask("tools/call", CALL, id=7)
    window.notify("notifications/cancelled", {"requestId": 7})
    assert [first.hear()["method"] for _ in range(2)] == ["tools/call", "notifications/cancelled"]
    first.die()
    window.ask("ping", id=8)
    second = fake.accept()
    assert second.hear()["id"] == 8
    second.answer({"id": 8})
    assert window.answer(8)["result"] == {}
    assert window.aside == []


def test_half_an_answer_never_reaches_the_client(window, fake):
    first = fake.accept()
    id = window.ask("tools/call", CALL)
    asked = first.hear()
    first.write(b'{"jsonrpc":"2.0","id":"q1","result":{"content":[{"ty')
    first.die()
    second = fake.accept()
    second.answer(second.hear(), {"whole": True})
    assert window.answer(id)["result"] == {"whole": True}
    assert asked["id"] == id
    assert window.garbage == []


def test_an_answer_may_be_longer_than_what_a_client_may_say(window, fake):
    connection = fake.accept()
    id = window.ask("tools/call", CALL)
    connection.answer(connection.hear(), {"text": "x" * 12_000_000})
    assert len(window.answer(id)["result"]["text"]) == 12_000_000
    assert window.garbage == []


def test_refusals_pass_whatever_their_ids(window, fake):
    connection = fake.accept()
    odd = [
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}',
        b'[{"jsonrpc":"2.0","id":null,"error":{}},{"jsonrpc":"2.0","id":null,"error":{}}]',
        b'{"jsonrpc":"2.0","id":"?","error":{"code":1,"message":"half of a pair"}}',
        b'{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"nobody asked"}}',
    ]
    for line in odd:
        connection.write(line + b"\n")
    ids = [window.take_batch(), window.take(), window.take()]
    assert [one["id"] for one in (*window.aside, *ids[0], *ids[1:])] == [None, None, None, "?", 5]


def test_a_cortexd_that_goes_in_peace_costs_no_call(window, fake):
    window.ask("tools/call", WRITE, id="w")
    for _ in range(5):  # more often than deaths are forgiven
        connection = fake.accept()
        assert connection.hear()["id"] == "w"
        connection.write(LEAVING + b"\n")
        connection.die()
    last = fake.accept()
    last.answer(last.hear(), {"done": True})
    assert window.answer("w")["result"] == {"done": True}


def test_without_a_cortexd_it_waits_until_there_is_something_to_ask(window, fake):
    fake.accept().die()
    assert fake.nobody_comes()
    window.ask("tools/call", WRITE, id="first time")  # never asked before, so it may be
    window.send(b"not json")
    connection = fake.accept()
    assert connection.hear()["id"] == "first time"
    assert connection._lines.readline() == b"not json\n"
    connection.die()


def test_at_the_end_of_stdin_what_was_asked_is_answered_first(window, fake):
    connection = fake.accept()
    window.ask("tools/call", CALL)
    window._stdin.close()
    asked = connection.hear()
    assert connection.hear() == {}  # the end, and still it listens
    connection.answer(asked, {"late": True})
    connection.write(BYE + b"\n")
    assert window.take()["result"] == {"late": True}
    assert window.process.wait(30) == 0


def test_after_the_end_of_stdin_a_death_still_costs_no_answer(window, fake):
    first = fake.accept()
    window.ask("tools/call", CALL)
    window._stdin.close()
    first.hear()
    first.die()
    second = fake.accept()
    second.answer(second.hear(), {"late": True})
    assert second.hear() == {}
    second.write(BYE + b"\n")
    assert window.take()["result"] == {"late": True}
    assert window.process.wait(30) == 0


def test_a_refusal_by_the_next_one_ends_the_session_with_every_answer_given(window, fake):
    window.ask("tools/call", CALL, id=1)
    window.ask("tools/list", id=2)
    first = fake.accept()
    assert (first.hear()["id"], first.hear()["id"]) == (1, 2)
    first.die()
    fake.refuse({"messages": ["error: the folder is gone"], "exit": 1})
    assert window.answers([1, 2])
    assert window.process.wait(30) == 1
    assert window.stderr == "error: the folder is gone\n"


def test_its_own_server_ends_with_it_however_it_ends(window, fake, gone):
    window.ask("ping", id=0)
    for _ in range(2):
        connection = fake.accept()
        connection.hear()
        connection.die()
    connection = fake.accept()
    assert "error" in window.answer(0)
    window.ask("ping", id=1)
    connection.hear()
    connection.die()
    assert "result" in window.answer(1)
    (child,) = psutil.Process(window.process.pid).children()
    window.process.kill()
    gone(child.pid)


def test_three_deaths_in_a_minute_are_enough(window, fake):
    first = fake.accept()
    shake_hands(window, first)
    first.die()
    for number in range(2):
        window.ask("ping", id=number + 10)
        connection = fake.accept()
        while (asked := connection.hear())["method"] != "ping":
            pass
        if number == 0:
            connection.answer(asked)
            window.answer(10)
        else:
            window.ask("tools/call", CALL, id="read")
            connection.hear()
        connection.die()
    # By a server of its own, in the same session
    assert "switch_lamp" in text_of(window.answer("read")["result"])
    assert [one["id"] for one in window.aside] == [11]
    assert window.found("switch_lamp") == ["lamp.py"]
    assert window.close() == 0
    assert (
        window.stderr
        == "warning: cortexd ended 3 times within a minute; serving in a process of its own\n"
    )
