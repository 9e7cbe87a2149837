"""MCP on stdin and stdout, with a foreign client."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import forking
from protocol.client import FAMILY, MODERN, Client, envelope

SERVER = [sys.executable, str(FAMILY), "stdio"]


@pytest.fixture
def client():
    """A server of its own, for tests that shake hands or end it."""
    with Client() as client:
        yield client
        assert client.garbage == []


@pytest.fixture(scope="module")
def started():
    with Client() as client:
        yield client


@pytest.fixture
def shared(started):
    """A server that many tests share, each without a handshake."""
    started.aside.clear()
    yield started
    assert started.garbage == []


def pipe(*lines: bytes) -> tuple[list[dict], int]:
    done = forking.run(SERVER, input=b"\n".join(lines), capture_output=True, timeout=20)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def test_a_piped_tools_list_without_handshake_is_answered_and_ends_with_0():
    answers, code = pipe(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert [answer["id"] for answer in answers] == [1]
    assert [tool["name"] for tool in answers[0]["result"]["tools"]][:2] == ["echo", "count"]
    assert code == 0


def test_requests_before_the_end_of_input_are_answered():
    call = {"name": "count", "arguments": {"to": 200_000}}
    lines = [
        {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call} for id in range(5)
    ]
    answers, code = pipe(*(json.dumps(line).encode() for line in lines))
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3, 4]
    assert all(answer["result"]["content"][0]["text"] == "200000" for answer in answers)
    assert code == 0


def test_empty_input_ends_with_0():
    assert pipe() == ([], 0)


def test_the_end_of_input_ends_an_idle_server_within_a_second(client):
    client.initialize()
    start = time.monotonic()
    assert client.close() == 0
    assert time.monotonic() - start < 1


@pytest.mark.parametrize(
    ("number", "tool"),
    [(signal.SIGTERM, None), (signal.SIGINT, "wait"), (signal.SIGTERM, "stubborn")],
)
def test_a_signal_ends_the_server_within_a_second_whatever_runs(number, tool, tmp_path):
    closed = tmp_path / "family.closed"
    with Client([*SERVER, str(closed)]) as client:
        client.initialize()
        if tool:
            client.ask("tools/call", {"name": tool, "arguments": {}, "_meta": {"progressToken": 1}})
            client.wait_for("notifications/progress")
        assert client.signal(number) < 1
        assert client.process.returncode == 0
        assert closed.read_text(encoding="utf-8") == "closed"
        assert client.garbage == []


def test_vanished_client_ends_the_server_cleanly():
    process = forking.Popen(
        SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    for _ in range(3):
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n')
    process.stdin.flush()
    assert process.wait(10) == 0  # although stdin is still open
    assert b"Traceback" not in process.stderr.read()
    process.stdin.close()
    process.stderr.close()


def test_a_stray_print_never_reaches_the_protocol(shared):
    assert shared.call("chatter")["result"]["content"][0]["text"] == "said"
    assert shared.garbage == []


def test_every_handshake_revision_is_echoed_and_answered(client):
    for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
        result = client.initialize(version)["result"]
        assert result["protocolVersion"] == version
        assert result["serverInfo"]["name"] == "cortex"
        assert set(result["capabilities"]) == {"tools", "resources", "prompts"}
        assert "Use echo" in result["instructions"]
        assert client.call("echo", {"text": "hi"})["result"]["content"] == [
            {"type": "text", "text": "hi"}
        ]
    assert client.initialize("1999-01-01")["result"]["protocolVersion"] == "2025-11-25"


def test_the_stateless_revision_needs_no_handshake(shared):
    found = shared.request("server/discover", {"_meta": envelope()})["result"]
    assert found["supportedVersions"] == [MODERN]
    assert "Use echo" in found["instructions"]
    result = shared.call("echo", {"text": "hi"}, **envelope())["result"]
    assert result["resultType"] == "complete"
    assert result["content"][0]["text"] == "hi"
    refused = shared.request("tools/list", {"_meta": envelope("2031-01-01")})["error"]
    assert refused["code"] == -32022
    assert MODERN in refused["data"]["supported"]


def test_connection_may_mix_handshake_and_stateless_revisions(client):
    client.request("server/discover", {"_meta": envelope()})
    assert client.initialize("2025-06-18")["result"]["protocolVersion"] == "2025-06-18"
    assert "resultType" not in client.request("tools/list")["result"]
    assert "resultType" in client.request("tools/list", {"_meta": envelope()})["result"]


def test_every_tool_carries_all_four_annotations_and_a_plain_schema(shared):
    tools = {tool["name"]: tool for tool in shared.request("tools/list")["result"]["tools"]}
    for tool in tools.values():
        assert {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} <= set(
            tool["annotations"]
        )
    assert tools["chatter"]["annotations"]["readOnlyHint"] is False
    assert tools["echo"]["inputSchema"] == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "text": {"type": "string", "description": "What to say", "maxLength": 20_000_000},
            "howOften": {
                "type": "number",
                "default": 1,
                "minimum": 1,
                "maximum": 5,
                "description": "Repetitions",
            },
            "voice": {"type": "string", "enum": ["plain", "loud"], "default": "plain"},
        },
        "required": ["text"],
    }


@pytest.mark.parametrize(
    ("params", "hint"),
    [
        ({"name": "ech", "arguments": {}}, "did you mean `echo`"),
        ({"name": "echo"}, "`text` is required"),
        ({"name": "echo", "arguments": {"text": 5}}, "`text`"),
        ({"name": "echo", "arguments": {"text": "a", "howOften": "2"}}, "`howOften`"),
        ({"name": "echo", "arguments": {"text": "a", "howOften": 6}}, "less than or equal to 5"),
        ({"name": "echo", "arguments": {"text": "a", "howoften": 2}}, "did you mean `howOften`"),
        ({"name": "echo", "arguments": {"text": "a", "voice": "high"}}, "'plain' or 'loud'"),
        ({"name": "echo", "arguments": ["a"]}, "arguments"),
        ({"arguments": {}}, "name"),
    ],
)
def test_invalid_call_is_an_invalid_params_error_with_the_reason(shared, params, hint):
    error = shared.request("tools/call", params)["error"]
    assert error["code"] == -32602
    assert hint in error["message"]


def test_a_whole_number_may_be_written_as_a_float(shared):
    assert (
        shared.call("echo", {"text": "a", "howOften": 2.0})["result"]["content"][0]["text"] == "a a"
    )


def test_a_known_failure_is_a_tool_error_with_the_whole_envelope(shared):
    result = shared.call("fail", {"how": "known"})["result"]
    assert result["isError"] is True
    error = json.loads(result["content"][0]["text"])["error"]
    assert error["code"] == "FILE_NOT_FOUND"
    assert error["context"] == {"path": "a.py"}
    assert set(error) == {
        "code", "message", "category", "severity", "retryable", "context", "suggestions", "timestamp",
    }  # fmt: skip


def test_unforeseen_failure_reveals_nothing_private(shared):
    result = shared.call("fail", {"how": "unknown"})["result"]
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"])["error"]["code"] == "INTERNAL_ERROR"
    assert "private" not in result["content"][0]["text"]


def test_text_that_has_no_utf8_is_sent_with_a_replacement(shared):
    assert shared.call("fail", {"how": "surrogate"})["result"]["content"][0]["text"] == "odd ? name"
    assert shared.call("echo", {"text": "cut \ud83e"})["result"]["content"][0]["text"] == "cut ?"
    assert shared.call("echo", {"text": "whole 🦀"})["result"]["content"][0]["text"] == "whole 🦀"


def test_a_structured_answer_is_sent_beside_its_text(shared):
    assert shared.call("count", {"to": 3})["result"]["structuredContent"] == {"count": 3}


def test_progress_grows_is_throttled_and_comes_before_the_answer(client):
    client.initialize()
    start = time.monotonic()
    client.call("count", {"to": 300_000}, progressToken="p")
    seconds = time.monotonic() - start
    sent = [
        message["params"]
        for message in client.aside
        if message.get("method") == "notifications/progress"
    ]
    steps = [params["progress"] for params in sent]
    assert steps == sorted(set(steps))
    assert steps[-1] == 300_000
    assert len(steps) <= seconds * 10 + 3
    assert {params["progressToken"] for params in sent} == {"p"}


def test_without_a_token_there_is_no_progress(shared):
    shared.call("count", {"to": 10})
    assert shared.aside == []


def test_a_cancelled_call_stops_and_is_never_answered(client):
    client.initialize()
    id = client.ask("tools/call", {"name": "wait", "arguments": {}, "_meta": {"progressToken": 1}})
    client.wait_for("notifications/progress")
    client.notify("notifications/cancelled", {"requestId": id})
    assert client.call("was_cancelled")["result"]["content"][0]["text"] == "True"
    assert client.close() == 0
    assert client.take() is None
    assert id not in [message.get("id") for message in client.aside]


def test_calls_beyond_the_number_of_threads_wait_their_turn_and_the_loop_stays_free(shared):
    waiting = [shared.ask("tools/call", {"name": "wait", "arguments": {}}) for _ in range(40)]
    assert "result" in shared.request("ping")
    for id in waiting:
        shared.notify("notifications/cancelled", {"requestId": id})
    assert shared.call("echo", {"text": "free"})["result"]["content"][0]["text"] == "free"


def test_resources_are_listed_and_templates_apart(shared):
    fixed = shared.request("resources/list")["result"]["resources"]
    assert [resource["uri"] for resource in fixed] == ["box://status"]
    templates = shared.request("resources/templates/list")["result"]["resourceTemplates"]
    assert [template["uriTemplate"] for template in templates] == [
        "box://status{?part}",
        "box://file/{+path}/text",
        "box://search/{query}{?limit,mode}",
    ]


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("box://status", "{}"),
        ("box://status?part=a%20b", "{'part': 'a b'}"),
        ("box://file/src/a.py/text", "src/a.py"),
        ("box://file/src%2Fa.py/text", "src/a.py"),
        ("box://file/text/text/text", "text/text"),
        ("box://file/n%C3%A4me%20%F0%9F%A6%80.py/text", "näme 🦀.py"),
        ("box://search/how%20is%20a%2Fb%3F", "{'query': 'how is a/b?'}"),
        (
            "box://search/how is a/b, c?limit=3&mode=x",
            "{'limit': '3', 'mode': 'x', 'query': 'how is a/b, c'}",
        ),
    ],
)
def test_a_resource_is_read_with_its_variables_decoded(shared, uri, text):
    contents = shared.request("resources/read", {"uri": uri})["result"]["contents"][0]
    assert contents["text"] == text
    assert contents["uri"] == uri


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("box://nothing", -32002),
        ("", -32002),
        ("box://file/missing.py/text", -32002),
        ("box://file/../x/text", -32602),
        ("box://file/%2e%2e%2fx/text", -32602),
        ("box://search/x?limits=3", -32602),
        ("box://search/%20", -32602),
        ("box://file/broken.py/text", -32603),
        ("box://file/" + "x" * 100_000 + "/text", -32002),
    ],
)
def test_a_resource_that_can_not_be_read_is_an_error_of_the_right_code(shared, uri, code):
    assert shared.request("resources/read", {"uri": uri})["error"]["code"] == code


def test_the_stateless_revision_calls_an_unknown_resource_invalid_params(shared):
    params = {"uri": "box://nothing", "_meta": envelope()}
    assert shared.request("resources/read", params)["error"]["code"] == -32602


def test_prompts_are_listed_rendered_and_checked(shared):
    prompt = shared.request("prompts/list")["result"]["prompts"][0]
    assert [(argument["name"], argument["required"]) for argument in prompt["arguments"]] == [
        ("who", True),
        ("how", False),
    ]
    got = shared.request("prompts/get", {"name": "greet", "arguments": {"who": "Ada"}})["result"]
    assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "Greet Ada"}}]
    for bad in (
        {"name": "greet"},
        {"name": "grt"},
        {"name": "greet", "arguments": {"who": "A", "x": "y"}},
    ):
        assert shared.request("prompts/get", bad)["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"\xff\xfe", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b'"x"', -32600, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"no/such"}', -32601, 7),
    ],
)
def test_a_bad_line_is_answered_with_its_own_code(shared, line, code, id):
    shared.send(line)
    answer = shared.take()
    assert (answer["error"]["code"], answer["id"]) == (code, id)
    assert "result" in shared.request("ping")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  ",
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}',
        b'{"jsonrpc":"2.0","method":"notifications/whatever","params":{"a":1}}',
    ],
)
def test_message_without_an_answer_is_not_answered(shared, line):
    shared.send(line)
    assert shared.request("ping")["result"] == {}
    assert shared.aside == []


def test_large_whole_numbers_and_repeated_ids_are_answered_each(shared):
    for id in (10**30, 5, 5):
        shared.ask("ping", id=id)
    assert [shared.take()["id"] for _ in range(3)] == [10**30, 5, 5]


def test_a_server_without_stderr_works():
    if os.name == "nt":
        pytest.skip("needs a POSIX shell")
    script = f"exec {sys.executable} {FAMILY} stdio 2>&-"
    line = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chatter","arguments":{}}}'
    )
    done = subprocess.run(["sh", "-c", script], input=line, stdout=subprocess.PIPE, timeout=20)
    assert [json.loads(splitline)["id"] for splitline in done.stdout.splitlines()] == [1]
