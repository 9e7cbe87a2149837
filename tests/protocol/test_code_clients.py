"""Clients of `cortex mcp code` that come early, vanish, never read or come in crowds."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from protocol.client import MODERN, envelope
from protocol.code_server import CORTEX, CodeServer, make_repository, wait_for
from protocol.fuzz_lines import hostile_lines
from protocol.http_client import HEADERS, last_message, serving

TOOLS = (
    "search_code",
    "reindex_workspace",
    "update_config",
    "get_file_context",
    "find_similar_code",
)
QUERY = {"name": "search_code", "arguments": {"query": "parse_invoice_number"}}
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
CROWD = 20
LATER = (0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.8, 1.0, 1.5)
BRIDGE = """\
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n')
server.stdin.flush()
server.stdout.readline()
print(server.pid, flush=True)
server.wait()
"""

posix = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return make_repository(tmp_path_factory.mktemp("asked") / "shop")


@pytest.fixture(scope="module")
def web(repository):
    # A campaign sends more than a client may
    unlimited = {**os.environ, "CORTEX_SERVER_RATE_LIMIT": "0"}
    argv = [*CORTEX, "mcp", "code", "--workspace", str(repository), "--http", "127.0.0.1:0"]
    with serving(argv, unlimited) as server:
        yield server


def command(repository: Path) -> list[str]:
    return [*CORTEX, "mcp", "code", "--workspace", str(repository)]


def request(method: str, params: dict, id: int = 1) -> dict:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def hello(version: str) -> dict:
    who = {"name": "foreign", "version": "1"}
    return request(
        "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": who}
    )


def found_in(result: dict) -> list[str]:
    return [hit["file"] for hit in json.loads(result["content"][0]["text"])["results"]]


def check_found(result: dict) -> None:
    assert found_in(result)[0] == "shop/payment/invoice.py"


# -- revisions


@pytest.mark.soak
@pytest.mark.parametrize("version", [*REVISIONS, MODERN])
def test_every_revision_searches_over_stdio_in_a_server_of_its_own(repository, version):
    with CodeServer(repository) as server:
        if version == MODERN:
            assert (
                version
                in server.request("server/discover", {"_meta": envelope()})["result"][
                    "supportedVersions"
                ]
            )
            check_found(server.call("search_code", QUERY["arguments"], **envelope())["result"])
        else:
            assert server.initialize(version)["result"]["protocolVersion"] == version
            check_found(server.call("search_code", QUERY["arguments"])["result"])
        assert server.close() == 0
        assert server.garbage == []


@pytest.mark.parametrize("version", REVISIONS)
def test_every_revision_with_a_session_searches_over_http(web, version):
    response, text = web.send("POST", json.dumps(hello(version)).encode())
    assert last_message(response, text)["result"]["protocolVersion"] == version
    headers = {
        "mcp_session_id": response.getheader("mcp-session-id"),
        "mcp_protocol_version": version,
    }
    assert web.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)[0] == 202
    status, answer = web.post(request("tools/call", QUERY, 2), **headers)
    assert status == 200
    check_found(answer["result"])


def test_the_stateless_revision_searches_over_http(web):
    assert MODERN in web.modern("server/discover", {})[1]["result"]["supportedVersions"]
    check_found(web.modern("tools/call", QUERY)[1]["result"])


# -- signals during the start


@posix
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads from /proc whether a signal is caught"
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "delay", [0.0, 0.15, 0.4, *(pytest.param(more, marks=pytest.mark.soak) for more in LATER)]
)
def test_a_signal_ends_a_starting_server_at_any_moment(repository, number, delay):
    with CodeServer(repository) as server:
        wait_for(lambda: catches(server.process.pid, number))
        threading.Event().wait(delay)
        assert server.signal(number) < 1
        assert server.process.returncode == 0


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal, besides the one that Python starts
    with.
    """
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    caught = int(
        next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")), 16
    )
    # Python itself catches SIGINT from its first moment; ours comes with that of SIGTERM, in one
    # breath before it.
    return bool(caught >> (signal.SIGTERM - 1) & 1) and bool(caught >> (number - 1) & 1)


# -- clients that misbehave


@pytest.fixture
def deaf(repository):
    """A server whose client asks for more than the pipe holds and reads nothing."""
    process = subprocess.Popen(command(repository), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    line = json.dumps(request("tools/list", {})).encode() + b"\n"
    process.stdin.write(line * 200)
    process.stdin.flush()
    wait_for(lambda: psutil.Process(process.pid).num_threads() > 2)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()
    process.stdin.close()


@posix
def test_a_signal_ends_a_server_whose_client_does_not_read(deaf):
    start = time.monotonic()
    deaf.send_signal(signal.SIGTERM)
    assert deaf.wait(10) == 0
    assert time.monotonic() - start < 1


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_client_that_does_not_read_and_closes_stdin_is_waited_for_with_a_limit(deaf):
    deaf.stdin.close()
    assert deaf.wait(90) == 0


def test_stdio_client_gone_during_a_call_ends_the_server_cleanly(repository):
    process = subprocess.Popen(command(repository), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for id in range(50):
        process.stdin.write(json.dumps(request("tools/call", QUERY, id)).encode() + b"\n")
    process.stdin.flush()
    assert process.stdout.readline()
    family = tree(process.pid)
    process.stdout.close()
    assert process.wait(10) == 0  # although stdin is still open
    process.stdin.close()
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_http_client_gone_during_an_answer_leaves_the_server_working(web):
    for _ in range(40):  # more than there are threads
        connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=10)
        message = request("tools/call", QUERY | {"_meta": envelope()})
        headers = HEADERS | {
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": "search_code",
        }
        connection.request("POST", "/mcp", json.dumps(message).encode(), headers)
        connection.close()
    check_found(web.modern("tools/call", QUERY)[1]["result"])


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_hostile_bodies_are_refused_or_answered_and_never_an_error_of_the_server(web, campaign):
    for number, body in enumerate(hostile_lines(20261115, campaign(300, 5_000), tools=TOOLS)):
        headers = {"mcp_protocol_version": MODERN} if number % 2 else {}
        assert web.send("POST", body, **headers)[0].status < 500, body[:300]
    check_found(web.modern("tools/call", QUERY)[1]["result"])


@posix
def test_killed_client_takes_its_server_and_the_workers_along(repository):
    client = subprocess.Popen(
        [sys.executable, "-c", BRIDGE, *command(repository)], stdout=subprocess.PIPE
    )
    server = psutil.Process(int(client.stdout.readline()))
    family = [server, *server.children(recursive=True)]
    client.kill()
    client.wait()
    client.stdout.close()
    assert psutil.wait_procs(family, timeout=10)[1] == []


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_many_servers_started_at_once_on_one_workspace_all_answer(tmp_path, campaign):
    root = make_repository(tmp_path / "shop")
    servers = [CodeServer(root) for _ in range(campaign(4, CROWD))]
    try:
        for server in servers:
            server.ask("initialize", hello("2025-11-25")["params"], id="hello")
        for server in servers:
            assert server.answer("hello", 120)["result"]["serverInfo"]["name"] == "cortex"
            server.notify("notifications/initialized")
        for server in servers:  # on a busy machine the first answers come before the first index
            wait_for(
                lambda server=server: found_in(
                    server.answer(server.ask("tools/call", QUERY), 120)["result"]
                ),
                120,
            )
        family = [process for server in servers for process in tree(server.process.pid)]
        assert [server.close() for server in servers] == [0] * len(servers)
        assert psutil.wait_procs(family, timeout=10)[1] == []
        assert all(server.garbage == [] for server in servers)
    finally:
        for server in servers:
            server.__exit__()


def tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


# -- start


@pytest.mark.parametrize(
    ("provider", "needed"), [("none", set()), ("local", {"numpy", "turbovec"})]
)
def test_a_server_loads_nothing_heavy_that_it_does_not_need(repository, provider, needed):
    argv = [sys.executable, "-X", "importtime", *command(repository)[1:]]
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    environment = os.environ | {"CODEINDEX_EMBEDDING_PROVIDER": provider}
    done = subprocess.run(argv, input=asked, capture_output=True, timeout=60, env=environment)
    loaded = {
        line.rsplit("|", 1)[1].strip() for line in done.stderr.decode().splitlines() if "|" in line
    }
    assert done.returncode == 0
    assert "cortex.engine.engine" in loaded
    assert not loaded & ({"numpy", "rich", "ruamel", "tree_sitter", "turbovec"} - needed)
