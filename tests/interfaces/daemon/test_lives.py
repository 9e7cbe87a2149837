"""How a cortexd begins and ends: one at a time, told to go, idle, replaced, stopped, killed; no
window loses an answer by it.
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

from interfaces.daemon.place import CALL, CORTEX, Window
from protocol.code_server import check_envelope, text_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and Unix sockets")

REINDEX = {"name": "reindex_workspace", "arguments": {}}
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


def open_window(place, **options) -> Window:
    window = place.window(**options)
    window.initialize()
    return window


def test_windows_that_open_at_once_get_one_cortexd(place):
    windows = [place.window() for _ in range(6)]
    try:
        with ThreadPoolExecutor(6) as threads:
            assert (
                list(threads.map(lambda one: one.found("switch_lamp"), windows))
                == [["lamp.py"]] * 6
            )
        assert place.cortexds() == [place.pid()]
        assert [window.close() for window in windows] == [0] * 6
        assert [one.stderr for one in windows] == [""] * 6
    finally:
        for one in windows:
            one.__exit__()


def test_told_to_go_it_answers_what_it_has_taken_and_the_windows_go_on_with_the_next(place, gone):
    with open_window(place) as window:
        window.wait_until_ready()
        pid = place.pid()
        ids = [
            window.ask("tools/call", REINDEX if number % 10 == 5 else CALL) for number in range(40)
        ]
        os.kill(pid, signal.SIGTERM)
        answers = window.answers(ids)
        assert [answers[id]["result"].get("isError", False) for id in ids] == [False] * 40
        gone(pid)
        assert window.found("switch_lamp") == ["lamp.py"]
        assert place.pid() != pid
        assert window.close() == 0
        assert (window.stderr, window.garbage) == ("", [])


def test_told_to_go_with_nobody_asking_it_goes_and_stays_away_until_it_is_needed(place, gone):
    with open_window(place) as window:
        window.found("switch_lamp")
        pid = place.pid()
        assert place.meeting.ask({"control": "stop"}) == {"pid": pid, "leaving": True}
        gone(pid)
        assert place.cortexds() == []
        assert not os.path.exists(place.meeting.socket) and not os.path.exists(place.meeting.note)
        assert window.found("switch_lamp") == ["lamp.py"]
        assert window.close() == 0
        assert window.stderr == ""


def test_a_connection_that_says_nothing_holds_nobody_up(place, gone):
    with open_window(place) as window, place.meeting.connect(), place.meeting.connect() as half:
        half.sendall(b'{"protocol":1,"argum')
        window.found("switch_lamp")
        pid = place.pid()
        os.kill(pid, signal.SIGTERM)
        gone(pid)
        # An end that was forced leaves it behind.
        assert not os.path.exists(place.meeting.socket)


def test_without_clients_it_closes_what_is_open_and_ends_by_itself(place, gone, until):
    place.home.mkdir()
    (place.home / "config.yml").write_text(
        "server:\n  idleTimeout: 3s\n  memory: 1\n", encoding="utf-8"
    )
    with open_window(place) as window:
        window.found("switch_lamp")
        pid = place.pid()
        status = place.status()
        assert (status["endsIn"], status["idle"]) == (None, 3)
        assert [project["users"] for project in status["projects"]] == [1]
        assert window.close() == 0
    # Above the limit on memory they don't linger; on a busy machine it may have ended by now.
    until(lambda: not (place.status() or {}).get("projects"))
    ending = place.status()
    assert ending is None or ending["endsIn"] <= 3
    gone(pid)
    assert not os.path.exists(place.meeting.socket)


def test_where_memory_is_short_a_project_with_a_window_is_closed_and_opened_by_its_next_call(
    place, tmp_path, until
):
    place.home.mkdir()
    (place.home / "config.yml").write_text("server:\n  memory: 1\n", encoding="utf-8")
    other = tmp_path / "other"
    other.mkdir()
    (other / "fan.py").write_text("def start_fan():\n    return 1\n", encoding="utf-8")

    def states() -> dict[str, tuple[str, int]]:
        return {one["root"]: (one["status"], one["users"]) for one in place.status()["projects"]}

    with open_window(place) as window, place.window(other) as second:
        assert window.found("switch_lamp") == ["lamp.py"]
        until(
            lambda: (
                second.found("start_fan") == ["fan.py"]
                and states()[str(place.root)] == ("closed", 1)
            )
        )
        assert states()[str(other)] == ("ready", 1)  # it is in use all the time
        (place.root / "bulb.py").write_text("def change_bulb():\n    return 1\n", encoding="utf-8")
        assert window.found("change_bulb") == ["bulb.py"]
        assert states()[str(place.root)] == ("ready", 1)


def test_a_newer_front_end_takes_over_and_the_windows_go_on(place, gone):
    with open_window(place) as window:
        window.found("switch_lamp")
        pid = place.pid()
        hello = {
            "arguments": [],
            "cwd": "/",
            "variables": {},
            "version": "99.0.0",
            "pid": os.getpid(),
        }
        assert place.meeting.ask(hello) == {"leaving": True}
        gone(pid)
        assert window.found("switch_lamp") == ["lamp.py"]
        assert place.pid() != pid
        assert window.stderr == "" if window.close() == 0 else False


def test_what_a_killed_one_left_behind_is_in_nobodys_way(place, killed):
    with open_window(place) as window:
        pid = place.pid()
        killed(pid)
        left = [place.meeting.socket, place.meeting.lock, place.meeting.note]
        assert all(os.path.exists(path) for path in left)
        with open_window(place) as another:
            assert another.found("switch_lamp") == window.found("switch_lamp") == ["lamp.py"]
            assert place.cortexds() == [place.pid()] != [pid]
            assert place.meeting.read_note()["pid"] == place.pid()


@pytest.mark.parametrize("lost", ["socket", "lock"])
def test_one_that_can_not_be_found_any_more_ends_and_the_next_one_serves(place, gone, lost):
    with open_window(place) as window:
        window.found("switch_lamp")
        pid = place.pid()
        os.unlink(getattr(place.meeting, lost))
        with open_window(place) as another:
            assert another.found("switch_lamp") == ["lamp.py"]
            gone(pid)
            assert window.found("switch_lamp") == another.found("switch_lamp") == ["lamp.py"]
            assert place.cortexds() == [place.pid()] != [pid]


def test_a_home_that_can_not_be_written_costs_only_the_log(place):
    (place.home.parent / "file").write_text("", encoding="utf-8")
    place.home = place.home.parent / "file" / "home"  # not even root can make a folder there
    with open_window(place) as window:
        assert window.found("switch_lamp") == ["lamp.py"]
        assert place.cortexds() == [place.pid()]


def test_where_there_can_be_no_meeting_place_it_serves_alone(place):
    script = (
        "import sys, cortex.base.runtime.rendezvous as r\n"
        "def refuse(*_): raise PermissionError('/tmp/x is not ours')\n"
        "r._private_folder = refuse\n"
        f"sys.argv = ['cortex', 'mcp', '--workspace', {str(place.root)!r}]\n"
        "from cortex.__main__ import main\nsys.exit(main())"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, input=LIST, env=place.environment(), capture_output=True, timeout=30
    )
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stderr == b"warning: /tmp/x is not ours; serving without cortexd\n"


@pytest.fixture
def asked(place):
    """A window, a cortexd that is stopped, and a call of each kind that waits in its socket."""
    with open_window(place) as window:
        window.wait_until_ready()
        pid = place.pid()
        os.kill(pid, signal.SIGSTOP)
        yield window, pid, window.ask("tools/call", CALL), window.ask("tools/call", REINDEX)


def test_killed_with_calls_in_hand_the_next_one_answers_what_reads(place, asked, killed):
    window, pid, read, write = asked
    killed(pid)
    answers = window.answers([read, write])
    assert "switch_lamp" in text_of(answers[read]["result"])
    assert check_envelope(json.loads(text_of(answers[write]["result"])))["code"] == "SERVER_LOST"
    assert place.cortexds() == [place.pid()]
    assert window.found("switch_lamp") == ["lamp.py"]
    assert window.close() == 0
    assert (window.stderr, window.garbage) == ("", [])


def test_stopped_and_continued_it_answers_as_if_nothing_had_been(place, asked):
    window, pid, read, write = asked
    os.kill(pid, signal.SIGCONT)
    answers = window.answers([read, write])
    assert [answers[id]["result"].get("isError", False) for id in (read, write)] == [False, False]
    assert place.pid() == pid


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_stopped_for_good_a_window_goes_on_in_a_process_of_its_own(place, asked):
    window, _, read, write = asked
    answers = window.answers([read, write], 90)
    assert "switch_lamp" in text_of(answers[read]["result"])
    assert check_envelope(json.loads(text_of(answers[write]["result"])))["code"] == "SERVER_LOST"
    assert window.found("switch_lamp") == ["lamp.py"]
    with open_window(place) as another:  # and a new one, too
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
def test_when_a_client_is_killed_its_front_end_goes_also_during_a_call(shared, gone, kind, busy):
    place = shared
    with open_window(place) as window:
        window.found("switch_lamp")
    pid = place.pid()
    command = [sys.executable, "-c", CLIENT, kind, *CORTEX, "mcp", "--workspace", str(place.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=place.environment()) as client:
        if busy:
            os.kill(pid, signal.SIGSTOP)
        assert client.stdout
        front = int(client.stdout.readline())
        client.kill()
    gone(front)
    os.kill(pid, signal.SIGCONT)


def test_a_client_that_never_reads_is_alone_with_it(place, until):
    for number in range(60):
        (place.root / f"lamp{number}.py").write_text(
            f"def lamp_{number}():\n    '''lamp {'x' * 900}'''\n", encoding="utf-8"
        )
    with open_window(place) as window:
        window.wait_until_ready()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
            deaf.connect(place.meeting.socket)
            hello = {
                "arguments": ["--workspace", str(place.root)],
                "cwd": "/",
                "variables": {},
                "version": "0",
                "pid": 1,
            }
            deaf.sendall(place.meeting.encode(hello))
            ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            ask["params"] = {
                "name": "search_code",
                "arguments": {"query": "lamp", "maxResults": 50},
            }
            line = json.dumps(ask).encode() + b"\n"
            deaf.setblocking(False)
            process = psutil.Process(place.pid())
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
        until(lambda: len(place.status()["clients"]) == 1, 90)
        assert window.found("switch_lamp")[0] == "lamp.py"
