"""Start and end of cortexd: elected, stopped, idle, replaced, suspended and killed.

No window loses an answer by any of it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from interfaces.daemon.sandbox import CALL, CORTEX, Window
from protocol.code_server import check_envelope, text_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and Unix sockets")

REINDEX = {"name": "reindex_workspace", "arguments": {}}
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


def open_window(sandbox, **options) -> Window:
    window = sandbox.window(**options)
    window.initialize()
    return window


def test_windows_opened_at_once_share_one_cortexd(sandbox):
    windows = [sandbox.window() for _ in range(6)]
    try:
        with ThreadPoolExecutor(6) as threads:
            assert (
                list(threads.map(lambda window: window.found("switch_lamp"), windows))
                == [["lamp.py"]] * 6
            )
        assert sandbox.cortexds() == [sandbox.pid()]
        assert [window.close() for window in windows] == [0] * 6
        assert [window.stderr for window in windows] == [""] * 6
    finally:
        for window in windows:
            window.__exit__()


def test_sigterm_answers_accepted_calls_and_windows_continue_with_the_next_cortexd(sandbox, gone):
    with open_window(sandbox) as window:
        window.wait_until_ready()
        pid = sandbox.pid()
        ids = [
            window.ask("tools/call", REINDEX if number % 10 == 5 else CALL) for number in range(40)
        ]
        os.kill(pid, signal.SIGTERM)
        answers = window.answers(ids)
        assert [answers[id]["result"].get("isError", False) for id in ids] == [False] * 40
        gone(pid)
        assert window.found("switch_lamp") == ["lamp.py"]
        assert sandbox.pid() != pid
        assert window.close() == 0
        assert (window.stderr, window.garbage) == ("", [])


def test_stopped_cortexd_starts_again_only_at_the_next_call(sandbox, gone):
    with open_window(sandbox) as window:
        window.found("switch_lamp")
        pid = sandbox.pid()
        assert sandbox.meeting.ask({"control": "stop"}) == {"pid": pid, "leaving": True}
        gone(pid)
        assert sandbox.cortexds() == []
        assert not os.path.exists(sandbox.meeting.socket) and not os.path.exists(
            sandbox.meeting.note
        )
        assert window.found("switch_lamp") == ["lamp.py"]
        assert window.close() == 0
        assert window.stderr == ""


def test_silent_connections_delay_neither_calls_nor_shutdown(sandbox, gone):
    with (
        open_window(sandbox) as window,
        sandbox.meeting.connect(),
        sandbox.meeting.connect() as half,
    ):
        half.sendall(b'{"protocol":1,"argum')
        window.found("switch_lamp")
        pid = sandbox.pid()
        os.kill(pid, signal.SIGTERM)
        gone(pid)
        # An end that was forced leaves it behind.
        assert not os.path.exists(sandbox.meeting.socket)


def test_idle_cortexd_closes_projects_and_exits(sandbox, gone, until):
    sandbox.home.mkdir()
    (sandbox.home / "config.yml").write_text(
        "server:\n  idleTimeout: 3s\n  memory: 1\n", encoding="utf-8"
    )
    with open_window(sandbox) as window:
        window.found("switch_lamp")
        pid = sandbox.pid()
        status = sandbox.status()
        assert (status["endsIn"], status["idle"]) == (None, 3)
        assert [project["users"] for project in status["projects"]] == [1]
        assert window.close() == 0
    # Above the limit on memory they don't linger; on a busy machine it may have ended by now.
    until(lambda: not (sandbox.status() or {}).get("projects"))
    ending = sandbox.status()
    assert ending is None or ending["endsIn"] <= 3
    gone(pid)
    assert not os.path.exists(sandbox.meeting.socket)


def test_project_closed_to_save_memory_is_reopened_by_its_next_call(sandbox, tmp_path, until):
    sandbox.home.mkdir()
    (sandbox.home / "config.yml").write_text("server:\n  memory: 1\n", encoding="utf-8")
    other = tmp_path / "other"
    other.mkdir()
    (other / "fan.py").write_text("def start_fan():\n    return 1\n", encoding="utf-8")

    def states() -> dict[str, tuple[str, int]]:
        return {
            project["root"]: (project["status"], project["users"])
            for project in sandbox.status()["projects"]
        }

    with open_window(sandbox) as window, sandbox.window(other) as second:
        assert window.found("switch_lamp") == ["lamp.py"]
        until(
            lambda: (
                second.found("start_fan") == ["fan.py"]
                and states()[str(sandbox.root)] == ("closed", 1)
            )
        )
        assert states()[str(other)] == ("ready", 1)  # it is in use all the time
        (sandbox.root / "bulb.py").write_text(
            "def change_bulb():\n    return 1\n", encoding="utf-8"
        )
        assert window.found("change_bulb") == ["bulb.py"]
        assert states()[str(sandbox.root)] == ("ready", 1)


def test_newer_shim_replaces_cortexd_and_windows_continue(sandbox, gone):
    with open_window(sandbox) as window:
        window.found("switch_lamp")
        pid = sandbox.pid()
        hello = {
            "arguments": [],
            "cwd": "/",
            "variables": {},
            "version": "99.0.0",
            "pid": os.getpid(),
        }
        assert sandbox.meeting.ask(hello) == {"leaving": True}
        gone(pid)
        assert window.found("switch_lamp") == ["lamp.py"]
        assert sandbox.pid() != pid
        assert window.stderr == "" if window.close() == 0 else False


def test_files_of_a_killed_cortexd_do_not_block_the_next_one(sandbox, killed):
    with open_window(sandbox) as window:
        pid = sandbox.pid()
        killed(pid)
        left = [sandbox.meeting.socket, sandbox.meeting.lock, sandbox.meeting.note]
        assert all(os.path.exists(path) for path in left)
        with open_window(sandbox) as another:
            assert another.found("switch_lamp") == window.found("switch_lamp") == ["lamp.py"]
            assert sandbox.cortexds() == [sandbox.pid()] != [pid]
            assert sandbox.meeting.read_note()["pid"] == sandbox.pid()


@pytest.mark.parametrize("lost", ["socket", "lock"])
def test_cortexd_without_its_socket_or_lock_exits_and_is_replaced(sandbox, gone, lost):
    with open_window(sandbox) as window:
        window.found("switch_lamp")
        pid = sandbox.pid()
        os.unlink(getattr(sandbox.meeting, lost))
        with open_window(sandbox) as another:
            assert another.found("switch_lamp") == ["lamp.py"]
            gone(pid)
            assert window.found("switch_lamp") == another.found("switch_lamp") == ["lamp.py"]
            assert sandbox.cortexds() == [sandbox.pid()] != [pid]


def test_cortexd_serves_without_a_log_when_the_home_cannot_be_written(sandbox):
    (sandbox.home.parent / "file").write_text("", encoding="utf-8")
    sandbox.home = sandbox.home.parent / "file" / "home"  # not even root can make a folder there
    with open_window(sandbox) as window:
        assert window.found("switch_lamp") == ["lamp.py"]
        assert sandbox.cortexds() == [sandbox.pid()]


def test_shim_serves_without_cortexd_when_no_socket_folder_can_be_made(sandbox):
    script = (
        "import sys, cortex.base.runtime.rendezvous as r\n"
        "def refuse(*_): raise PermissionError('/tmp/x is not ours')\n"
        "r._private_folder = refuse\n"
        f"sys.argv = ['cortex', 'mcp', '--workspace', {str(sandbox.root)!r}]\n"
        "from cortex.__main__ import main\nsys.exit(main())"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, input=LIST, env=sandbox.environment(), capture_output=True, timeout=30
    )
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stderr == b"warning: /tmp/x is not ours; serving without cortexd\n"


@pytest.fixture
def asked(sandbox):
    """A window, a cortexd that is stopped, and a call of each kind that waits in its socket."""
    with open_window(sandbox) as window:
        window.wait_until_ready()
        pid = sandbox.pid()
        os.kill(pid, signal.SIGSTOP)
        yield window, pid, window.ask("tools/call", CALL), window.ask("tools/call", REINDEX)


def test_reads_are_retried_and_writes_reported_lost_when_cortexd_is_killed(sandbox, asked, killed):
    window, pid, read, write = asked
    killed(pid)
    answers = window.answers([read, write])
    assert "switch_lamp" in text_of(answers[read]["result"])
    assert check_envelope(json.loads(text_of(answers[write]["result"])))["code"] == "SERVER_LOST"
    assert sandbox.cortexds() == [sandbox.pid()]
    assert window.found("switch_lamp") == ["lamp.py"]
    assert window.close() == 0
    assert (window.stderr, window.garbage) == ("", [])


def test_cortexd_suspended_and_resumed_answers_pending_calls(sandbox, asked):
    window, pid, read, write = asked
    os.kill(pid, signal.SIGCONT)
    answers = window.answers([read, write])
    assert [answers[id]["result"].get("isError", False) for id in (read, write)] == [False, False]
    assert sandbox.pid() == pid


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_window_serves_itself_when_cortexd_stays_suspended(sandbox, asked):
    window, _, read, write = asked
    answers = window.answers([read, write], 90)
    assert "switch_lamp" in text_of(answers[read]["result"])
    assert check_envelope(json.loads(text_of(answers[write]["result"])))["code"] == "SERVER_LOST"
    assert window.found("switch_lamp") == ["lamp.py"]
    with open_window(sandbox) as another:  # and a new one, too
        assert another.found("switch_lamp") == ["lamp.py"]
        assert "cortexd does not answer" in (another.stderr if another.close() == 0 else "")
    assert window.close() == 0
    assert "cortexd no longer answers" in window.stderr


CLIENT = """
import socket, subprocess, sys, time
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
if sys.argv[1] == "sockets":  # as Node does it
    (near, stdin), (out, stdout) = socket.socketpair(), socket.socketpair()
    pipes = {"stdin": stdin, "stdout": stdout}
front = subprocess.Popen(sys.argv[2:], **pipes)
if sys.argv[1] == "sockets":
    stdin.close(), stdout.close()
say = near.sendall if sys.argv[1] == "sockets" else front.stdin.write
say(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_code","arguments":{"query":"lamp"}}}\\n')
if sys.argv[1] == "pipes":
    front.stdin.flush()
print(front.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["pipes", "sockets"])
@pytest.mark.parametrize("busy", [True, False])
def test_shim_exits_when_its_client_is_killed_even_during_a_call(shared, gone, kind, busy):
    sandbox = shared
    with open_window(sandbox) as window:
        window.found("switch_lamp")
    pid = sandbox.pid()
    command = [sys.executable, "-c", CLIENT, kind, *CORTEX, "mcp", "--workspace", str(sandbox.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=sandbox.environment()) as client:
        if busy:
            os.kill(pid, signal.SIGSTOP)
        assert client.stdout
        front = int(client.stdout.readline())
        client.kill()
    gone(front)
    os.kill(pid, signal.SIGCONT)


def test_client_that_never_reads_slows_no_other_client(sandbox, until):
    for number in range(60):
        (sandbox.root / f"lamp{number}.py").write_text(
            f"def lamp_{number}():\n    '''lamp {'x' * 900}'''\n", encoding="utf-8"
        )
    with open_window(sandbox) as window:
        window.wait_until_ready()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
            deaf.connect(sandbox.meeting.socket)
            hello = {
                "arguments": ["--workspace", str(sandbox.root)],
                "cwd": "/",
                "variables": {},
                "version": "0",
                "pid": 1,
            }
            deaf.sendall(sandbox.meeting.encode(hello))
            ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            ask["params"] = {
                "name": "search_code",
                "arguments": {"query": "lamp", "maxResults": 50},
            }
            line = json.dumps(ask).encode() + b"\n"
            deaf.setblocking(False)
            process = psutil.Process(sandbox.pid())
            before = process.memory_info().rss
            sent = 0
            try:
                for _ in range(20_000):
                    sent += deaf.send(line * 10)
            except BlockingIOError:
                pass  # cortexd takes no more
            assert sent > 100_000
            for _ in range(20):
                assert window.found("switch_lamp")[0] == "lamp.py"
            assert process.memory_info().rss - before < 200_000_000
        until(lambda: len(sandbox.status()["clients"]) == 1, 90)
        assert window.found("switch_lamp")[0] == "lamp.py"
