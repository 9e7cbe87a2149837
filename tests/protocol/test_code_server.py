"""`cortex mcp code` as a process: pipes, signals, revisions, progress, cancellation, HTTP."""

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time

import psutil
import pytest

import forking
from protocol.client import MODERN, envelope
from protocol.code_server import CORTEX, CodeServer, make_repository, text_of, wait_for
from protocol.fuzz_lines import hostile_lines

TOOLS = (
    "search_code",
    "reindex_workspace",
    "update_config",
    "get_file_context",
    "find_similar_code",
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return make_repository(tmp_path_factory.mktemp("served") / "shop")


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A folder that takes some seconds to index."""
    root = tmp_path_factory.mktemp("big") / "big"
    body = "".join(
        f"def function_{number}(value):\n    return value + {number}\n\n\n" for number in range(120)
    )
    for number in range(1_500):
        path = root / f"part{number % 30}" / f"m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# module {number}\n{body}", encoding="utf-8")
    return make_repository(root, {})


def fresh(root):
    """The folder as if it had never been indexed."""
    import shutil

    shutil.rmtree(root / ".cortex", ignore_errors=True)
    return root


def test_a_piped_tools_list_without_handshake_is_answered_and_ends_with_0(repository):
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    done = forking.run(
        [*CORTEX, "mcp", "code"], input=line, cwd=repository, capture_output=True, timeout=30
    )
    (answer,) = [json.loads(splitline) for splitline in done.stdout.splitlines()]
    assert [tool["name"] for tool in answer["result"]["tools"]] == list(TOOLS)
    assert done.returncode == 0


def test_read_only_leaves_out_the_tools_that_write(repository):
    with CodeServer(repository, more=["--read-only"]) as server:
        names = [tool["name"] for tool in server.request("tools/list")["result"]["tools"]]
        assert names == ["search_code", "get_file_context", "find_similar_code"]


def test_every_revision_is_answered(repository):
    with CodeServer(repository) as server:
        for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            assert server.initialize(version)["result"]["protocolVersion"] == version
            assert server.tool("search_code", query="basket")["results"]
        result = server.call("search_code", {"query": "basket"}, **envelope())["result"]
        assert json.loads(text_of(result))["results"]
        assert server.request("server/discover", {"_meta": envelope()})["result"][
            "supportedVersions"
        ] == [MODERN]
        assert server.close() == 0
        assert server.garbage == []


def test_nothing_but_the_protocol_reaches_stdout_even_with_warnings(tmp_path):
    root = make_repository(tmp_path / "warned", {"a.py": "x = 1\n"})
    (root / "codeindex.config.json").write_text(
        '{"workspace": {"maxFile": 5}, "server": {"logLevel": "debug"}}'
    )
    with CodeServer(
        root, env=os.environ | {"PYTHONWARNINGS": "always", "CORTEX_LOG_LEVEL": "debug"}
    ) as server:
        server.initialize()
        server.wait_until_ready()
        (root / "b.py").write_text("appeared = 1\n", encoding="utf-8")
        wait_for(lambda: server.tool("search_code", query="appeared", fileTypes=["py"])["results"])
        warnings = server.read("codeindex://workspace/status")["warnings"]
        assert any("maxFile" in warning and "did you mean" in warning for warning in warnings)
        assert server.close() == 0
        assert server.garbage == []


def test_invalid_arguments_are_protocol_errors_and_other_failures_tool_errors(repository):
    with CodeServer(repository) as server:
        for tool, arguments in (
            ("search_code", {}),
            ("search_code", {"query": 5}),
            ("search_code", {"query": None}),
            ("search_code", {"query": "a", "strategy": "magic"}),
            ("search_code", {"query": "a", "threshold": 1.5}),
            ("search_code", {"query": "a", "fileTypes": "py"}),
            ("search_code", {"query": "a", "budget": 0}),
            ("search_code", {"query": "a", "limit": 5}),
            ("reindex_workspace", {"force": "yes"}),
            ("reindex_workspace", {"strategy": "all"}),
            ("update_config", {}),
            ("update_config", {"settings": {"chunkSize": 49}}),
            ("update_config", {"settings": {"maxFiles": 99}}),
            ("update_config", {"settings": {"cacheSize": "500 MB"}}),
            ("update_config", {"settings": {"embeddingProvider": "hashing"}}),
            ("update_config", {"settings": {"apiKey": "x"}}),
            ("get_file_context", {}),
            ("find_similar_code", {"code": "a", "maxResults": 101}),
            ("search_codes", {"query": "a"}),
        ):
            error = server.call(tool, arguments)["error"]
            assert error["code"] == -32602, (tool, arguments)
            assert error["message"]
        for tool, arguments in (
            ("search_code", {"query": ""}),
            ("search_code", {"query": "a", "workspace": "nowhere"}),
            ("search_code", {"query": "a", "cursor": "x"}),
            ("search_code", {"query": "a", "budget": 5}),
            ("get_file_context", {"path": "../a"}),
            ("find_similar_code", {"code": "a", "language": "klingon"}),
            ("update_config", {"settings": {"cacheSize": "9999999999999999999999GB"}}),
            ("reindex_workspace", {"path": "nowhere"}),
        ):
            server.failure(tool, **arguments)
        assert server.tool("reindex_workspace", path=None)["status"] == "completed"


# -- while a big folder is indexed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_within_a_second_also_while_it_indexes(big, number):
    with CodeServer(fresh(big)) as server:
        server.initialize()
        wait_for(
            lambda: server.read("codeindex://workspace/status")["indexing"]["indexedFiles"] > 0
        )
        assert server.read("codeindex://workspace/status")["indexing"]["status"] == "indexing"
        children = psutil.Process(server.process.pid).children(recursive=True)
        assert children
        assert server.signal(number) < 1
        assert server.process.returncode == 0
        assert server.garbage == []
        _, alive = psutil.wait_procs(children, timeout=5)
        assert not alive


def test_first_index_answers_early_reports_progress_and_can_be_cancelled(big):
    with CodeServer(fresh(big)) as server:
        server.initialize()
        # A slow machine has nothing yet
        while not (body := server.tool("search_code", query="function_7"))["results"]:
            assert body["metadata"]["index"]["status"] == "indexing"
        assert body["metadata"]["index"]["status"] == "indexing"
        assert "not read yet" in body["metadata"]["notes"][0]
        arguments = {
            "name": "reindex_workspace",
            "arguments": {},
            "_meta": {"progressToken": "mine"},
        }
        asked = server.ask("tools/call", arguments)
        step = server.wait_for("notifications/progress")["params"]
        assert step["progressToken"] == "mine"
        assert server.tool("reindex_workspace", force=True)["status"] in ("indexing", "completed")
        server.notify("notifications/cancelled", {"requestId": asked, "reason": "enough"})
        assert (
            server.tool("get_file_context", path="part1/m1.py", lineRange={"start": 1, "end": 1})[
                "totalLines"
            ]
            > 100
        )
        assert all(message.get("id") != asked for message in server.aside)
        assert server.close() == 0


def test_a_forced_run_that_is_cancelled_stops_and_the_server_still_answers(big):
    with CodeServer(big) as server:
        server.initialize()
        wait_for(
            lambda: server.read("codeindex://workspace/status")["indexing"]["status"] == "ready", 60
        )
        arguments = {
            "name": "reindex_workspace",
            "arguments": {"force": True},
            "_meta": {"progressToken": 7},
        }
        asked, far = server.ask("tools/call", arguments), 0.0
        while far <= 0:
            message = server.take()
            if message.get("method") == "notifications/progress":
                far = message["params"]["progress"]
        server.notify("notifications/cancelled", {"requestId": asked})
        wait_for(
            lambda: server.read("codeindex://workspace/status")["indexing"]["status"] == "ready", 10
        )
        assert server.tool("search_code", query="function_7", threshold=0)["results"]
        assert all(message.get("id") != asked for message in server.aside)


# -- hostile lines


@pytest.mark.soak
@pytest.mark.timeout(1_800 if os.environ.get("CORTEX_SOAK") else 90)
def test_hostile_lines_neither_end_nor_silence_the_server(repository, campaign):
    with CodeServer(repository) as server:

        def write() -> None:
            for line in hostile_lines(20260731, campaign(5_000, 100_000), tools=TOOLS, large=2):
                server.send(line)
            server.ask("ping", id="the end")

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        assert "result" in server.answer("the end", seconds=campaign(60, 1_500))
        writer.join(5)
        server.initialize()
        assert server.tool("search_code", query="basket")["results"]
        assert server.close() == 0
        assert server.garbage == []


# -- HTTP


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def port(repository):
    port = free_port()
    argv = [*CORTEX, "mcp", "code", "--workspace", str(repository), "--http", f"127.0.0.1:{port}"]
    process = forking.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: is_open(port))
    yield port
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert time.monotonic() - started < 1.5
    assert process.stdout.read() == b""
    process.stdout.close()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def post(port: int, body: bytes, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", "/mcp", body, usual | headers)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_code_tools_are_served_over_http(port):
    call = {"name": "search_code", "arguments": {"query": "merge_baskets"}, "_meta": envelope()}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    headers = {
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "search_code",
    }
    status, answer = post(port, body, **headers)
    assert status == 200, answer
    line = next(
        splitline for splitline in answer.decode().splitlines() if "jsonrpc" in splitline
    ).removeprefix("data: ")
    assert json.loads(text_of(json.loads(line)["result"]))["results"][0]["file"] == "shop/basket.py"


def test_other_origins_hosts_and_large_bodies_are_refused(port):
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert post(port, ping, Origin="https://example.com")[0] == 403
    assert post(port, ping, Host="example.com")[0] == 421
    assert post(port, b'{"x":"' + b"y" * 5_000_000 + b'"}')[0] == 413


@pytest.mark.parametrize(
    ("address", "environment", "word", "code"),
    [
        ("0.0.0.0:0", {}, "token", 1),
        (
            "0.0.0.0:0",
            {"CORTEX_HTTP_TOKEN": "t", "CORTEX_SERVER_LOCAL_ONLY": "true"},
            "localOnly",
            1,
        ),
        ("[::]:0", {}, "token", 1),
        ("nonsense", {}, "HOST:PORT", 2),
        ("127.0.0.1:99999", {}, "HOST:PORT", 2),
    ],
)
def test_invalid_or_foreign_http_address_is_refused(repository, address, environment, word, code):
    argv = [*CORTEX, "mcp", "--workspace", str(repository), "--http", address]
    done = forking.run(argv, capture_output=True, timeout=30, env=os.environ | environment)
    assert done.returncode == code
    assert word in done.stderr.decode()
    assert done.stdout == b""


def test_server_beyond_this_machine_answers_only_with_its_token(repository):
    port = free_port()
    argv = [*CORTEX, "mcp", "--workspace", str(repository), "--http", f"0.0.0.0:{port}"]
    process = forking.Popen(
        argv, stderr=subprocess.DEVNULL, env=os.environ | {"CORTEX_HTTP_TOKEN": "open-sesame"}
    )
    try:
        wait_for(lambda: is_open(port))
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        assert post(port, ping)[0] == 401
        assert post(port, ping, Authorization="Bearer wrong")[0] == 401
        assert post(port, ping, Authorization="Bearer open-sesame")[0] not in (401, 403, 421)
    finally:
        process.terminate()
        assert process.wait(10) == 0
