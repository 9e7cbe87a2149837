"""What the front end does about the welcome of a cortexd, and where there is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from cortex.interfaces.daemon.shim import BYE, LEAVING
from interfaces.daemon.fake_cortexd import FakeCortexd
from interfaces.daemon.place import CALL, CORTEX

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in listens at a Unix socket"
)
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
OWN_PROCESS = "; serving in a process of its own\n"


@pytest.fixture
def fake(place):
    cortexd = FakeCortexd(place.meeting.socket)
    yield cortexd
    cortexd.close()


def test_the_hello_says_which_program_asks_and_where(place, fake):
    with place.window() as window:
        hello = fake.accept().hello
        pid = window.process.pid
    assert (hello["version"], hello["cwd"]) == (version("cortex-context"), str(place.root))
    assert (hello["pid"], hello["log"], hello["protocol"]) == (pid, True, 1)


def test_a_window_that_cortexd_refuses_is_served_by_a_process_of_its_own(place, fake):
    with place.window() as window:
        id = window.ask("tools/call", {"name": "search_code", "arguments": {"query": "lamp"}})
        fake.refuse({"refused": "it ends for an \x1b[31mupdate"})
        assert "lamp.py" in str(window.answer(id)["result"])
        assert window.close() == 0
        assert (
            window.stderr
            == "warning: it ends for an \\x1b[31mupdate; serving in a process of its own\n"
        )


def test_a_cortexd_that_hangs_up_three_times_at_the_welcome_is_not_asked_a_fourth(place, fake):
    with place.window() as window:
        id = window.ask("ping")
        for welcome in (None, ["no welcome"], None):
            fake.refuse(welcome)
        assert window.answer(id)["result"] == {}
        assert fake.nobody_comes()
        assert window.close() == 0
        assert window.stderr == "warning: cortexd did not answer" + OWN_PROCESS


def test_a_welcome_that_comes_at_the_third_time_counts(place, fake):
    with place.window() as window:
        window.ask("ping", id="once")
        fake.refuse(None)
        fake.refuse(None)
        connection = fake.accept()
        assert connection.hear()["id"] == "once"
        connection.answer({"id": "once"}, {"by": "the third"})
        assert window.answer("once")["result"] == {"by": "the third"}


def test_one_that_is_leaving_is_asked_for_nothing_until_it_has_left(place, fake):
    with place.window():
        fake.refuse({"leaving": True})
        # Only whether it still listens
        assert [fake.next_says() for _ in range(5)] == [b""] * 5


def test_what_the_first_welcome_says_goes_to_stderr_and_its_exit_code_is_ours(place, fake):
    with place.window() as window:
        fake.refuse({"messages": ["error: no such folder", "Look at the\x07path."], "exit": 3})
        assert window.process.wait(30) == 3
        assert window.stderr == "error: no such folder\nLook at the\\x07path.\n"
        assert window.take() is None


def test_a_welcome_may_have_something_to_say_and_still_serve(place, fake):
    with place.window() as window:
        connection = fake.accept(messages=["warning: an old setting"])
        window.ask("ping", id="x")
        connection.answer(connection.hear())
        assert window.answer("x")["result"] == {}
        connection.write(LEAVING + b"\n")
        window._stdin.close()
        connection.write(BYE + b"\n")
        assert window.process.wait(30) == 0
        assert window.stderr == "warning: an old setting\n"


def test_only_tools_that_the_welcome_names_are_called_again(place, fake):
    with place.window() as window:
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
def test_the_next_cortexd_serves_http_at_the_same_port_without_being_asked(place, fake, wish, kept):
    with place.window(more=wish) as window:
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


def test_an_address_without_a_wish_for_http_is_no_port_to_keep(place, fake):
    root = place.root / "a:0"
    root.mkdir()
    with place.window(root) as window:
        fake.accept(port=4711).die()
        window.ask("ping")
        assert fake.accept().hello["arguments"] == ["code", "--workspace", str(root)]


def test_http_is_served_on_where_the_client_has_closed_its_end(place, fake):
    read_end, write_end = os.pipe()
    with place.front_end("--http=127.0.0.1:0", stdout=write_end) as front:
        os.close(write_end)
        fake.accept(reads=False).die()
        connection = fake.accept(reads=False)
        os.close(read_end)
        assert connection.hears_nothing_more()
        connection.die()
        assert fake.accept(reads=False).hello["pid"] == front.pid


def test_it_ends_with_a_client_that_hangs_up_although_an_answer_is_due(place, fake):
    read_end, write_end = os.pipe()
    with place.front_end(stdout=write_end) as front:
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
def test_it_ends_where_an_answer_can_not_be_passed_on(place, fake):
    with open("/dev/full", "wb", buffering=0) as full, place.front_end(stdout=full.fileno()) as end:
        connection = fake.accept()
        connection.say({"jsonrpc": "2.0", "method": "notifications/message"})
        assert end.wait(15) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_well_when_told_to_although_an_answer_is_due(place, fake, number):
    with place.window() as window:
        connection = fake.accept()
        window.ask("tools/call", CALL)
        connection.hear()
        window.process.send_signal(number)
        assert window.process.wait(30) == 0
        assert window.stderr == ""


def test_a_wrong_variable_is_an_error_before_anything_is_started(place, fake):
    done = place.pipe("code", said=PING, CORTEX_PROFILE="no/such")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert b"no/such" in done.stderr
    assert done.stdout == b""
    assert fake.nobody_comes()


def test_the_folder_it_was_started_in_may_be_gone(place, fake):
    gone = place.root / "gone"
    gone.mkdir()
    variables = place.environment()
    command = f"cd {gone} && rmdir {gone} && exec {' '.join(CORTEX)} mcp code --workspace /"
    with subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, env=variables) as process:
        assert fake.accept().hello["cwd"] == "/"
        process.kill()
