"""The promise of the shim against a cortexd that dies on cue: one answer per id, no write twice."""

from __future__ import annotations

import json
import sys

import psutil
import pytest

from cortex.base.errors import CODES
from cortex.interfaces.daemon import shim
from cortex.interfaces.daemon.shim import BYE, LEAVING, LOG_LINE
from interfaces.daemon.fake_cortexd import FakeCortexd
from interfaces.daemon.sandbox import CALL
from protocol.code_server import check_envelope, text_of

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in listens at a Unix socket"
)

WRITE = {"name": "reindex_workspace", "arguments": {}}
KEYED = {"name": "reindex_workspace", "arguments": {"idempotency_key": "k1"}}


@pytest.fixture
def fake(sandbox):
    cortexd = FakeCortexd(sandbox.meeting.socket)
    yield cortexd
    cortexd.close()


@pytest.fixture
def window(sandbox, fake):
    with sandbox.window() as opened:
        yield opened


def error_of(answer: dict) -> dict:
    assert answer["result"]["isError"] is True
    return check_envelope(json.loads(text_of(answer["result"])))


def test_hello_carries_the_arguments_and_only_our_variables(sandbox, fake):
    with sandbox.window(CODEINDEX_WORKSPACE_PATH="/elsewhere"):
        hello = fake.accept().hello
    assert hello["arguments"] == ["code", "--workspace", str(sandbox.root)]
    assert hello["variables"]["CODEINDEX_WORKSPACE_PATH"] == "/elsewhere"
    assert set(hello) == {"protocol", "arguments", "cwd", "variables", "version", "pid", "log"}
    assert all(name.startswith(("CORTEX_", "CODEINDEX_")) for name in hello["variables"])


def test_concurrent_windows_send_their_own_variables(sandbox, fake, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not ours to carry")
    keyed = {"ACK_MEM_SCOPE": "team", "CODEINDEX_OPENAI_API_KEY": "mine"}
    with sandbox.window(ACK_MEM_SCOPE="private") as one, sandbox.window(**keyed) as two:
        hellos = {
            hello["pid"]: hello["variables"] for hello in (fake.accept().hello, fake.accept().hello)
        }
        own = [hellos[window.process.pid] for window in (one, two)]
    assert [variables["ACK_MEM_SCOPE"] for variables in own] == ["private", "team"]
    assert [variables.get("CODEINDEX_OPENAI_API_KEY") for variables in own] == [None, "mine"]
    assert all("OPENAI_API_KEY" not in variables for variables in own)


def test_message_for_people_goes_to_stderr_only(sandbox, fake):
    with sandbox.window() as window:
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


def test_read_call_is_retried_and_answered_once(window, fake):
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


def test_write_call_is_not_retried_and_is_reported_lost(window, fake):
    first = fake.accept()
    id = window.ask("tools/call", WRITE)
    first.hear()
    first.die()
    second = fake.accept()
    error = error_of(window.answer(id))
    assert (error["code"], error["retryable"]) == ("SERVER_LOST", True)
    assert second.hears_nothing_more()


def test_write_call_with_an_idempotency_key_is_retried(window, fake):
    first = fake.accept()
    id = window.ask("tools/call", KEYED)
    asked = first.hear()
    first.die()
    second = fake.accept()
    assert second.hear() == asked
    second.answer(asked)
    assert window.answer(id)["result"] == {}


@pytest.mark.parametrize("call", [CALL, KEYED])
def test_call_is_retried_only_once(window, fake, call):
    id = window.ask("tools/call", call)
    for _ in range(2):
        connection = fake.accept()
        assert connection.hear()["id"] == id
        connection.die()
    last = fake.accept()
    assert error_of(window.answer(id))["code"] == "SERVER_LOST"
    assert last.hears_nothing_more()


def test_lost_request_other_than_a_tool_call_gets_a_protocol_error(window, fake):
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


def test_session_is_restored_unseen_by_the_client(window, fake):
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
    assert [message["method"] for message in said] == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
        "tools/call",
    ]
    assert said[2]["params"] == {"level": "debug"}
    assert said[3]["params"] == {"uri": "b:"}
    for message in said:
        if "id" in message:
            second.answer(message, {"for": message["method"]})
    assert window.answer(0)["result"] == {"for": "tools/call"}
    window.ask("ping", id="last")
    second.answer(second.hear())
    window.answer("last")
    assert window.aside == []


def test_unanswered_handshake_is_answered_by_the_next_cortexd(window, fake):
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
    assert [message["id"] for message in window.aside] == [2]  # lost: it was asked twice


def test_read_batch_is_retried_whole_and_write_batch_is_lost_whole(window, fake):
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
    assert [message["id"] for message in lost] == ["w0", "w1"]
    assert {error_of(message)["code"] for message in lost} == {"SERVER_LOST"}
    second.say([{"jsonrpc": "2.0", "id": read["id"], "result": {}} for read in reads])
    assert [message["id"] for message in window.take_batch()] == ["r0", "r1", "r2"]
    second.die()  # all three have their answers: nothing is asked again
    window.ask("ping", id="next")
    third = fake.accept()
    assert [third.hear()["method"] for _ in range(3)] == [
        "initialize",
        "notifications/initialized",
        "ping",
    ]


def test_cancelled_request_is_not_retried(window, fake):
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


def test_partial_answer_never_reaches_the_client(window, fake):
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


def test_answer_may_be_longer_than_the_limit_for_requests(window, fake):
    connection = fake.accept()
    id = window.ask("tools/call", CALL)
    connection.answer(connection.hear(), {"text": "x" * 12_000_000})
    assert len(window.answer(id)["result"]["text"]) == 12_000_000
    assert window.garbage == []


def test_refusals_with_any_id_reach_the_client(window, fake):
    connection = fake.accept()
    odd = [
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}',
        b'[{"jsonrpc":"2.0","id":null,"error":{}},{"jsonrpc":"2.0","id":null,"error":{}}]',
        b'{"jsonrpc":"2.0","id":"?","error":{"code":1,"message":"half of a pair"}}',
        b'{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"not requested"}}',
    ]
    for line in odd:
        connection.write(line + b"\n")
    ids = [window.take_batch(), window.take(), window.take()]
    assert [message["id"] for message in (*window.aside, *ids[0], *ids[1:])] == [
        None,
        None,
        None,
        "?",
        5,
    ]


def test_orderly_cortexd_exit_loses_no_call(window, fake):
    window.ask("tools/call", WRITE, id="w")
    for _ in range(5):  # more often than deaths are forgiven
        connection = fake.accept()
        assert connection.hear()["id"] == "w"
        connection.write(LEAVING + b"\n")
        connection.die()
    last = fake.accept()
    last.answer(last.hear(), {"done": True})
    assert window.answer("w")["result"] == {"done": True}


def test_shim_starts_the_next_cortexd_only_for_a_request(window, fake):
    fake.accept().die()
    assert fake.no_connection_comes()
    window.ask("tools/call", WRITE, id="first time")  # never asked before, so it may be
    window.send(b"not json")
    connection = fake.accept()
    assert connection.hear()["id"] == "first time"
    assert connection._lines.readline() == b"not json\n"
    connection.die()


def test_pending_calls_are_answered_after_the_end_of_stdin(window, fake):
    connection = fake.accept()
    window.ask("tools/call", CALL)
    window._stdin.close()
    asked = connection.hear()
    assert connection.hear() == {}  # the end, and still it listens
    connection.answer(asked, {"late": True})
    connection.write(BYE + b"\n")
    assert window.take()["result"] == {"late": True}
    assert window.process.wait(30) == 0


def test_cortexd_death_after_the_end_of_stdin_loses_no_answer(window, fake):
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


def test_refusal_by_the_next_cortexd_answers_all_requests_and_ends_the_session(window, fake):
    window.ask("tools/call", CALL, id=1)
    window.ask("tools/list", id=2)
    first = fake.accept()
    assert (first.hear()["id"], first.hear()["id"]) == (1, 2)
    first.die()
    fake.refuse({"messages": ["error: the folder is gone"], "exit": 1})
    assert window.answers([1, 2])
    assert window.process.wait(30) == 1
    assert window.stderr == "error: the folder is gone\n"


def test_own_server_process_ends_with_the_shim(window, fake, gone):
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


def test_three_cortexd_deaths_in_a_minute_make_the_shim_serve_itself(window, fake):
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
    assert [message["id"] for message in window.aside] == [11]
    assert window.found("switch_lamp") == ["lamp.py"]
    assert window.close() == 0
    assert (
        window.stderr
        == "warning: cortexd ended 3 times within a minute; serving in a process of its own\n"
    )


def test_lost_call_error_matches_the_error_table():
    answer = shim._lost(7, True)
    body = json.loads(answer["result"]["content"][0]["text"])["error"]
    code = CODES[body["code"]]
    assert (body["category"], body["severity"], body["retryable"]) == (
        code.category,
        code.severity,
        code.retryable,
    )
    assert body["suggestions"] == [code.suggestion]
