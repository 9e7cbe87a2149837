"""One cortexd behind many windows: separate sessions, the errors of a direct server, no traces."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from interfaces.daemon.sandbox import CORTEX, Sandbox

LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
COSTLY = {
    "asyncio",
    "typing",
    "dataclasses",
    "pathlib",
    "hashlib",
    "subprocess",
    "inspect",
    "email",
    "ssl",
    "tempfile",
}
SESSION = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search_code","arguments":{"query":"lamp"}}}\n'
)


@pytest.fixture(scope="module")
def served(shared: Sandbox) -> Sandbox:
    """With a cortexd that runs."""
    assert shared.pipe("--workspace", str(shared.root), said=LIST).returncode == 0
    return shared


def modules(code: str, sandbox: Sandbox) -> set[str]:
    command = [
        sys.executable,
        "-c",
        f"import sys\n{code}\nprint(*sorted(sys.modules), file=sys.stderr)",
    ]
    done = subprocess.run(
        command,
        input=SESSION,
        env=sandbox.environment(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert len(done.stdout.splitlines()) == (2 if code else 0)
    return set(done.stderr.decode().split())


def test_shim_imports_only_cheap_modules_of_the_standard_library(served):
    argv = ["cortex", "mcp", "--workspace", str(served.root)]
    used = modules(
        f"sys.argv = {argv!r}\nfrom cortex.__main__ import main\nassert main() == 0", served
    )
    used -= modules("", served)  # what this Python loads for itself
    ours = {name for name in used if name.split(".")[0] == "cortex"}
    packages = {
        "cortex",
        "cortex.base",
        "cortex.base.runtime",
        "cortex.interfaces",
        "cortex.interfaces.daemon",
    }
    assert ours == packages | {
        "cortex.__main__",
        "cortex.base.runtime.home",
        "cortex.interfaces.daemon.shim",
        "cortex.interfaces.daemon.channels",
        "cortex.base.runtime.rendezvous",
    }
    assert {name.split(".")[0] for name in used - ours} <= sys.stdlib_module_names
    assert not COSTLY & used


def test_pipe_without_a_handshake_is_answered_and_exits_with_zero(served):
    done = served.pipe("--workspace", str(served.root), said=LIST)
    assert (done.returncode, done.stderr) == (0, b"")
    (line,) = done.stdout.splitlines()
    assert len(json.loads(line)["result"]["tools"]) == 19


def test_shim_answers_pending_calls_and_exits_at_the_end_of_stdin(served):
    with served.window() as window:
        window.initialize()
        ids = [
            window.ask("tools/call", {"name": "search_code", "arguments": {"query": f"lamp {n}"}})
            for n in range(20)
        ]
        window._stdin.close()
        for _ in ids:
            assert "result" in window.take()
        assert window.process.wait(30) == 0
        assert window.take() is None


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_shim_exits_with_zero_on_sigterm_and_sigint(served, number):
    with served.window() as window:
        window.initialize()
        window.signal(number)
        assert window.process.returncode == 0


def test_windows_with_different_variables_get_their_own_workspace_and_server_name(served, tmp_path):
    roots = []
    for name in ("left", "right"):
        roots.append(tmp_path / name)
        roots[-1].mkdir()
        (roots[-1] / f"{name}.py").write_text(
            f"def only_{name}():\n    return 1\n", encoding="utf-8"
        )
    windows = [
        served.window(
            guess=True, CODEINDEX_WORKSPACE_PATH=str(root), CORTEX_SERVER_NAME=f"of {root.name}"
        )
        for root in roots
    ]
    with windows[0], windows[1]:
        for window, root in zip(windows, roots, strict=True):
            assert window.initialize()["result"]["serverInfo"]["name"] == f"of {root.name}"
        for window, root in zip(windows, roots, strict=True):
            assert window.found(f"only_{root.name}") == [f"{root.name}.py"]
        assert windows[0].found("only_right") == []
        assert windows[1].found("only_left") == []
        assert len(served.cortexds()) == 1


def test_windows_with_the_same_settings_share_one_open_project(served, until):
    with served.window() as one, served.window() as two:
        assert one.found("switch_lamp") == two.found("switch_lamp") == ["lamp.py"]
        (project,) = [
            project
            for project in served.status()["projects"]
            if project["root"] == str(served.root)
        ]
        assert project["users"] == 2
        assert {client["pid"] for client in served.status()["clients"]} == {
            one.process.pid,
            two.process.pid,
        }
    until(lambda: served.status()["clients"] == [])


def test_token_is_in_no_file_status_or_note(served):
    secret = "sk-do-not-write-4711"
    served.pipe("nosuch", said=LIST, CORTEX_HTTP_TOKEN=secret)
    served.pipe("--http", "999.1.1.1:1", CORTEX_HTTP_TOKEN=secret, CORTEX_NO_SUCH_KEY=secret)
    with served.window(CORTEX_HTTP_TOKEN=secret) as window:
        window.found("switch_lamp")
        hello = {
            "protocol": 1,
            "arguments": 5,
            "cwd": "/",
            "variables": {"CORTEX_HTTP_TOKEN": secret},
            "version": "1",
        }
        assert served.meeting.ask({**hello, "pid": 1}) is None
        assert secret not in json.dumps(served.status())
        assert secret not in json.dumps(served.meeting.read_note())
    written = [
        path
        for folder in (served.home, served.run, served.root)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    assert any(path.name == "cortexd.log" for path in written)
    assert [path for path in written if secret.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["nosuch"], {}),
        (["--workspace", "not-there"], {}),
        (["--workspace", "lamp.py"], {}),
        (["--http", "nonsense", "--workspace", "."], {}),
        (["--http", "192.0.2.1:80", "--workspace", "."], {}),
        (["--workspace", "."], {"CORTEX_LOG_LEVEL": "loud"}),
        (
            ["--workspace", "."],
            {"CODEINDEX_MAX_RESULTS": "many", "CORTEX_SEARCH_TIMEOUT": "\x1b[31mred"},
        ),
    ],
)
def test_configuration_errors_read_the_same_with_and_without_cortexd(served, arguments, variables):
    with_it = served.pipe(*arguments, said=LIST, **variables)
    without = served.pipe(*arguments, "--no-sidecar", said=LIST, **variables)
    assert with_it.stderr.decode() == without.stderr.decode()
    assert with_it.returncode == without.returncode
    assert with_it.stdout == without.stdout


def test_usage_errors_read_the_same_with_and_without_cortexd(served):
    with_it, without = served.pipe("--nosuch"), served.pipe("--nosuch", "--no-sidecar")
    said = [
        re.sub("(python -m )?cortex", "cortex", done.stderr.decode()).split()
        for done in (with_it, without)
    ]
    assert said[0] == said[1]
    assert with_it.returncode == without.returncode == 2


def is_served(address: str) -> bool:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    request = urllib.request.Request(address, data=SESSION.splitlines()[0], headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return b"serverInfo" in answer.read()
    except OSError:
        return False


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("wish", [["--http", "127.0.0.1:0"], ["--http=127.0.0.1:0"]])
def test_http_is_served_until_its_shim_ends(served, until, wish):
    command = [*CORTEX, "mcp", "--workspace", str(served.root), *wish]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, env=served.environment(), cwd=served.root
    ) as front:
        try:
            assert front.stderr
            address = f"127.0.0.1:{re.findall(r'[0-9]+', front.stderr.readline().decode())[-1]}"
            assert is_served(f"http://{address}/mcp")
            # The next cortexd serves at the same address
            for number in (signal.SIGKILL, signal.SIGTERM):
                pid = served.pid()
                os.kill(pid, number)
                until(
                    lambda pid=pid: (
                        is_served(f"http://{address}/mcp") and served.cortexds() != [pid]
                    )
                )
            front.send_signal(signal.SIGTERM)
            assert front.wait(30) == 0
            until(lambda: not is_served(f"http://{address}/mcp"))
        finally:
            front.kill()
    # The terminated one finishes its current work
    until(lambda: len(served.cortexds()) == 1)


def test_batch_is_rejected_by_a_protocol_version_without_batches(served):
    with served.window() as window:
        window.initialize("2025-11-25")
        window.send(
            b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]'
        )
        assert window.take()["error"]["code"] == -32600
        assert window.close() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use can't be removed")
def test_deleted_working_folder_fails_the_same_with_and_without_cortexd(served, tmp_path):
    said = []
    for more in ((), ("--no-sidecar",)):
        folder = tmp_path / "gone"
        folder.mkdir()
        script = f"import os, sys; os.rmdir({str(folder)!r}); os.execv(sys.executable, {[*CORTEX, 'mcp', *more]!r})"
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command,
            input=LIST,
            cwd=folder,
            env=served.environment(),
            capture_output=True,
            timeout=30,
        )
        said.append((done.returncode, done.stdout == b""))
    assert said[0] == said[1]


def test_hello_of_another_protocol_is_refused(served):
    hello = {"arguments": [], "cwd": "/", "variables": {}, "version": "0.0.1", "pid": 1}
    pid = served.pid()
    answer = served.meeting.ask({"protocol": 0, **hello})
    assert answer and "refused" in answer
    assert served.pid() == pid


def test_older_shim_is_served(served):
    hello = {
        "arguments": ["--workspace", str(served.root)],
        "cwd": "/",
        "variables": {},
        "version": "0.0.1",
        "pid": 1,
    }
    answer = served.meeting.ask(hello)
    assert (
        answer and "search_code" in answer["again"] and "reindex_workspace" not in answer["again"]
    )


def test_log_is_readable_by_its_owner_only(served):
    log = Path(served.home, "logs", "cortexd.log")
    assert "cortexd" in log.read_text(encoding="utf-8")
    if sys.platform != "win32":
        assert [os.stat(path).st_mode & 0o777 for path in (log.parent, log)] == [0o700, 0o600]
