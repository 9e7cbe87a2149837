"""The shim and the welcome of cortexd: accepted, refusing, late or missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from cortex.interfaces.daemon.shim import BYE, LEAVING
from interfaces.daemon.fake_cortexd import FakeCortexd
from interfaces.daemon.sandbox import CALL, CORTEX

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in listens at a Unix socket"
)
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
OWN_PROCESS = "; serving in a process of its own\n"


@pytest.fixture
def fake(sandbox):
    cortexd = FakeCortexd(sandbox.meeting.socket)
    yield cortexd
    cortexd.close()


def test_hello_names_the_program_and_its_folder(sandbox, fake):
    with sandbox.window() as window:
        hello = fake.accept().hello
        pid = window.process.pid
    assert (hello["version"], hello["cwd"]) == (version("cortex-context"), str(sandbox.root))
    assert (hello["pid"], hello["log"], hello["protocol"]) == (pid, True, 1)


def test_refused_window_is_served_by_a_process_of_its_own(sandbox, fake):
    with sandbox.window() as window:
        id = window.ask("tools/call", {"name": "search_code", "arguments": {"query": "lamp"}})
        fake.refuse({"refused": "it ends for an \x1b[31mupdate"})
        assert "lamp.py" in str(window.answer(id)["result"])
        assert window.close() == 0
        assert (
            window.stderr
            == "warning: it ends for an \\x1b[31mupdate; serving in a process of its own\n"
        )


def test_shim_serves_itself_after_three_hang_ups_at_the_welcome(sandbox, fake):
    with sandbox.window() as window:
        id = window.ask("ping")
        for welcome in (None, ["no welcome"], None):
            fake.refuse(welcome)
        assert window.answer(id)["result"] == {}
        assert fake.no_connection_comes()
        assert window.close() == 0
        assert window.stderr == "warning: cortexd did not answer" + OWN_PROCESS


def test_welcome_at_the_third_attempt_is_accepted(sandbox, fake):
    with sandbox.window() as window:
        window.ask("ping", id="once")
        fake.refuse(None)
        fake.refuse(None)
        connection = fake.accept()
        assert connection.hear()["id"] == "once"
        connection.answer({"id": "once"}, {"by": "the third"})
        assert window.answer("once")["result"] == {"by": "the third"}


def test_shim_waits_until_a_leaving_cortexd_has_left(sandbox, fake):
    with sandbox.window():
        fake.refuse({"leaving": True})
        # Only whether it still listens
        assert [fake.next_says() for _ in range(5)] == [b""] * 5


def test_refusing_welcome_sets_stderr_and_exit_code(sandbox, fake):
    with sandbox.window() as window:
        fake.refuse({"messages": ["error: no such folder", "Look at the\x07path."], "exit": 3})
        assert window.process.wait(30) == 3
        assert window.stderr == "error: no such folder\nLook at the\\x07path.\n"
        assert window.take() is None


def test_welcome_with_messages_still_serves(sandbox, fake):
    with sandbox.window() as window:
        connection = fake.accept(messages=["warning: an old setting"])
        window.ask("ping", id="x")
        connection.answer(connection.hear())
        assert window.answer("x")["result"] == {}
        connection.write(LEAVING + b"\n")
        window._stdin.close()
        connection.write(BYE + b"\n")
        assert window.process.wait(30) == 0
        assert window.stderr == "warning: an old setting\n"


def test_only_tools_named_in_the_welcome_are_retried(sandbox, fake):
    with sandbox.window() as window:
        first = fake.accept(again=["get_status"])
        window.ask("tools/call", CALL, id="lost")
        window.ask("tools/call", {"name": "get_status"}, id="kept")
        assert (first.hear()["id"], first.hear()["id"]) == ("lost", "kept")
        first.die()
        assert fake.accept(again=["get_status"]).hear()["id"] == "kept"
        assert window.answer("lost")["result"]["isError"] is True


@pytest.mark.parametrize(
    ("wish", "kept"),
    [
        (("--http", "127.0.0.1:0"), ["--http", "127.0.0.1:4711"]),
        (("--http=localhost:0",), ["--http=localhost:4711"]),
        (("--http=127.0.0.1:8080",), ["--http=127.0.0.1:8080"]),
    ],
)
def test_next_cortexd_serves_http_at_the_same_port(sandbox, fake, wish, kept):
    with sandbox.window(more=wish) as window:
        first = fake.accept(port=4711, reads=False)
        assert first.hello["arguments"][-len(wish) :] == list(wish)
        first.die()
        second = fake.accept(port=4711, reads=False)
        assert second.hello["arguments"][-len(kept) :] == kept
        assert second.hello["arguments"][: -len(kept)] == first.hello["arguments"][: -len(wish)]
        # Neither side of the client counts while HTTP is served
        window._stdin.close()
        assert second.hears_nothing_more()
        assert window.process.poll() is None


def test_http_address_is_ignored_when_http_was_not_requested(sandbox, fake):
    root = sandbox.root / "a:0"
    root.mkdir()
    with sandbox.window(root) as window:
        fake.accept(port=4711).die()
        window.ask("ping")
        assert fake.accept().hello["arguments"] == ["code", "--workspace", str(root)]


def test_http_is_served_after_the_client_closes_stdin(sandbox, fake):
    read_end, write_end = os.pipe()
    with sandbox.front_end("--http=127.0.0.1:0", stdout=write_end) as front:
        os.close(write_end)
        fake.accept(reads=False).die()
        connection = fake.accept(reads=False)
        os.close(read_end)
        assert connection.hears_nothing_more()
        connection.die()
        assert fake.accept(reads=False).hello["pid"] == front.pid


def test_shim_exits_when_its_client_hangs_up_with_an_answer_pending(sandbox, fake):
    read_end, write_end = os.pipe()
    with sandbox.front_end(stdout=write_end) as front:
        os.close(write_end)
        connection = fake.accept()
        front.stdin.write(PING)
        front.stdin.flush()
        assert connection.hear()["method"] == "ping"
        assert front.poll() is None
        os.close(read_end)
        assert front.wait(15) == 0
        assert connection.hear() == {}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a file that is always full")
def test_shim_exits_when_an_answer_cannot_be_written(sandbox, fake):
    with (
        open("/dev/full", "wb", buffering=0) as full,
        sandbox.front_end(stdout=full.fileno()) as end,
    ):
        connection = fake.accept()
        connection.say({"jsonrpc": "2.0", "method": "notifications/message"})
        assert end.wait(15) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_shim_exits_with_zero_on_sigterm_with_an_answer_pending(sandbox, fake, number):
    with sandbox.window() as window:
        connection = fake.accept()
        window.ask("tools/call", CALL)
        connection.hear()
        window.process.send_signal(number)
        assert window.process.wait(30) == 0
        assert window.stderr == ""


def test_invalid_variable_is_an_error_before_cortexd_starts(sandbox, fake):
    done = sandbox.pipe("code", said=PING, CORTEX_PROFILE="no/such")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert b"no/such" in done.stderr
    assert done.stdout == b""
    assert fake.no_connection_comes()


def test_shim_works_when_its_folder_was_deleted(sandbox, fake):
    gone = sandbox.root / "gone"
    gone.mkdir()
    variables = sandbox.environment()
    command = f"cd {gone} && rmdir {gone} && exec {' '.join(CORTEX)} mcp code --workspace /"
    with subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, env=variables) as process:
        assert fake.accept().hello["cwd"] == "/"
        process.kill()
