"""`cortex hook` as clients run it: what it prints, what it keeps, and that no session ever waits
for it or fails.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cortex.interfaces.daemon.hook import MOST_CHARACTERS
from interfaces.daemon.fake_cortexd import FakeCortexd
from interfaces.daemon.place import CORTEX, Place

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets in folders")
MARKED = {
    "hook_event_name": "Stop",
    "session_id": "s1",
    "last_assistant_message": "Done.\n- **Decision:** blue\n",
}
START = {"hook_event_name": "SessionStart", "session_id": "s1"}


def hook(
    place: Place, event: str, said: object = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    raw = said if isinstance(said, bytes) else json.dumps(said).encode()
    environment = place.environment(**variables)
    return subprocess.run(
        [*CORTEX, "hook", event],
        input=raw,
        capture_output=True,
        env=environment,
        cwd=place.root,
        timeout=30,
    )


def silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def notes(place: Place) -> list[dict]:
    return [json.loads(one.read_bytes()) for one in sorted((place.home / "inbox").glob("*.json"))]


@pytest.fixture
def fake(place: Place) -> Iterator[FakeCortexd]:
    """A cortexd that answers what a test says."""
    made = FakeCortexd(place.meeting.socket)
    yield made
    made.close()


@pytest.fixture
def answered(
    place: Place, fake: FakeCortexd
) -> Callable[..., tuple[subprocess.CompletedProcess[bytes], dict]]:
    """`answered(event, said, answer)`: run a hook and answer it; gives how it ended and what it
    asked.
    """

    def run(event: str, said: object, answer: dict, **variables: str):
        heard: list[dict] = []
        listener = threading.Thread(target=lambda: heard.append(fake.refuse(answer)), daemon=True)
        listener.start()
        done = hook(place, event, said, **variables)
        listener.join(10)
        return done, heard[0]

    return run


# -- the start of a session
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "variables", "wanted"),
    [
        (
            START,
            {},
            {
                "hookSpecificOutput": {
                    "hookEventName": "SessionStart",
                    "additionalContext": "T\n“é”",
                }
            },
        ),
        (
            {**START, "hook_event_name": "SubagentStart"},
            {},
            {
                "hookSpecificOutput": {
                    "hookEventName": "SubagentStart",
                    "additionalContext": "T\n“é”",
                }
            },
        ),
        (
            {"hook_event_name": "sessionStart", "cursor_version": "2.4", "workspace_roots": []},
            {},
            {"additional_context": "T\n“é”"},
        ),
        ({"sessionId": "x", "source": "new"}, {}, {"additionalContext": "T\n“é”"}),
        (START, {"COPILOT_CLI": "1"}, {"additionalContext": "T\n“é”"}),
    ],
)
def test_each_client_gets_the_context_in_the_form_it_reads(answered, said, variables, wanted):
    done, _ = answered("session-start", said, {"text": "T\n“é”"}, **variables)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == wanted


def test_a_person_gets_plain_text(answered):
    done, _ = answered("session-start", b"", {"text": "T\n“é”"})
    assert done.stdout.decode() == "T\n“é”\n"


def test_cortexd_hears_of_the_folder_and_of_our_variables(answered, place):
    _, asked = answered(
        "session-start", {**START, "cwd": "/work/shop"}, {"text": ""}, ACK_MEM_SCOPE="shop"
    )
    assert (asked["control"], asked["event"], asked["cwd"]) == (
        "hook",
        "session-start",
        "/work/shop",
    )
    assert asked["variables"]["ACK_MEM_SCOPE"] == "shop" and "PATH" not in asked["variables"]
    _, asked = answered(
        "session-start", {"cursor_version": "2", "workspace_roots": ["/work/a", "/b"]}, {}
    )
    assert asked["cwd"] == "/work/a"
    _, asked = answered("session-start", {"cwd": 7}, {})
    assert asked["cwd"] == str(place.root)


@pytest.mark.parametrize(
    "answer",
    [{}, {"text": ""}, {"text": " \n"}, {"text": None}, {"text": "x" * (MOST_CHARACTERS + 1)}],
)
def test_where_there_is_nothing_to_say_it_says_nothing(answered, answer):
    assert silent(answered("session-start", START, answer)[0])


def test_a_cortexd_that_does_not_answer_holds_up_no_session(place, fake):
    assert silent(hook(place, "session-start", START))


def test_a_session_start_without_cortexd_starts_it(place):
    assert silent(hook(place, "session-start", START))
    assert place.pid()


def test_who_wants_no_cortexd_gets_none(place):
    assert silent(hook(place, "session-start", START, CORTEX_NO_SIDECAR="1"))
    assert silent(hook(place, "stop", MARKED, CORTEX_NO_SIDECAR="1"))
    assert not place.cortexds()
    assert [note["candidates"][0]["title"] for note in notes(place)] == ["blue"]


# -- the end of a turn
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["stop", "pre-compact"])
def test_what_was_marked_is_in_the_inbox_before_cortexd_hears_of_it(answered, place, event):
    done, asked = answered(
        event,
        {**MARKED, "cwd": "/work/shop", "transcript_path": "/x/.claude/t.jsonl"},
        {"text": ""},
    )
    assert silent(done)
    assert (asked["event"], asked["cwd"]) == (event, "/work/shop")
    (note,) = notes(place)
    assert abs(note.pop("at") - time.time()) < 60
    assert note == {
        "format": 1,
        "event": event,
        "client": "claude-code",
        "session": "s1",
        "cwd": "/work/shop",
        "candidates": [
            {
                "title": "blue",
                "kind": "decision",
                "text": "",
                "facts": [],
                "concepts": [],
                "files": [],
            }
        ],
    }


def test_a_turn_without_marks_touches_nothing(place, fake):
    assert silent(hook(place, "stop", {"session_id": "s1", "last_assistant_message": "Done."}))
    assert fake.nobody_comes()
    assert not place.home.exists()


def test_a_hook_that_is_killed_before_it_told_cortexd_has_lost_nothing(place, fake):
    with subprocess.Popen(
        [*CORTEX, "hook", "stop"], stdin=subprocess.PIPE, env=place.environment(), cwd=place.root
    ) as process:
        assert process.stdin
        process.stdin.write(json.dumps(MARKED).encode())
        process.stdin.close()
        raw, _ = fake._listener.accept()  # it has come to tell, and isn't answered
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        raw.close()
    assert [note["candidates"][0]["title"] for note in notes(place)] == ["blue"]


def test_a_cortexd_that_is_busy_or_leaves_holds_up_nobody(place, fake):
    assert silent(hook(place, "stop", MARKED))  # nobody answers
    assert len(notes(place)) == 1


def test_without_cortexd_what_was_marked_is_kept_and_cortexd_is_started(place, until):
    assert silent(hook(place, "stop", MARKED))
    until(lambda: place.meeting.ask({"control": "ping"}) is not None)


def test_hooks_of_many_windows_at_once_lose_nothing(place, fake):
    processes = []
    for number in range(8):
        said = json.dumps({"candidates": [f"{number}"], "session_id": "s"}).encode()
        process = subprocess.Popen(
            [*CORTEX, "hook", "stop"],
            stdin=subprocess.PIPE,
            env=place.environment(CORTEX_NO_SIDECAR="1"),
        )
        processes.append(process)
        assert process.stdin
        process.stdin.write(said)
        process.stdin.close()
    assert [process.wait(30) for process in processes] == [0] * 8
    assert sorted(note["candidates"][0]["title"] for note in notes(place)) == [
        str(number) for number in range(8)
    ]


def test_a_transcript_is_read_where_the_client_hands_over_no_message(answered, place, tmp_path):
    transcript = tmp_path / "rollout.jsonl"
    content = [{"type": "output_text", "text": "gotcha: sharp"}]
    record = {
        "type": "response_item",
        "payload": {"type": "message", "role": "assistant", "content": content},
    }
    transcript.write_text(json.dumps(record) + "\n", encoding="utf-8")
    done, _ = answered(
        "pre-compact", {"session_id": "s1", "transcript_path": str(transcript)}, {"text": ""}
    )
    assert silent(done)
    assert notes(place)[0]["candidates"][0]["title"] == "sharp"


def test_copilot_s_last_message_may_come_while_the_hook_is_under_way(place, tmp_path):
    transcript = tmp_path / "events.jsonl"
    transcript.write_text(
        '{"type": "user.message", "data": {"content": "hello"}}\n', encoding="utf-8"
    )
    message = {"type": "assistant.message", "data": {"content": "gotcha: late"}}

    def finish() -> None:
        with transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(message) + "\n")

    later = threading.Timer(0.8, finish)
    later.start()
    said = {"hook_event_name": "Stop", "session_id": "s1", "transcript_path": str(transcript)}
    assert silent(hook(place, "stop", said, COPILOT_CLI="1", CORTEX_NO_SIDECAR="1"))
    later.join()
    assert [note["candidates"][0]["title"] for note in notes(place)] == ["late"]


# -- whatever happens
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["session-start", "stop", "pre-compact"])
@pytest.mark.parametrize("home", ["a file", "in a file", "relative"])
def test_a_home_that_cannot_be_is_nobody_s_problem(place, tmp_path, event, home):
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    where = {"a file": str(file), "in a file": str(file / "home"), "relative": "home"}[home]
    assert silent(hook(place, event, MARKED, CORTEX_HOME=where, CORTEX_NO_SIDECAR="1"))


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="everything can be written"
)
def test_a_home_that_cannot_be_written_is_nobody_s_problem(place):
    place.home.mkdir(0o500)
    assert silent(hook(place, "stop", MARKED))


def test_a_full_disk_is_nobody_s_problem(place):
    import resource

    done = subprocess.run(
        [*CORTEX, "hook", "stop"],
        input=json.dumps(MARKED).encode(),
        capture_output=True,
        env=place.environment(CORTEX_NO_SIDECAR="1"),
        timeout=30,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert silent(done)
    assert os.listdir(place.home / "inbox") == []


def test_without_a_meeting_place_what_was_marked_is_kept(place, tmp_path):
    exposed = tmp_path / "run"
    (exposed / "cortex").mkdir(parents=True)
    os.chmod(exposed / "cortex", 0o777)
    assert silent(hook(place, "stop", MARKED, XDG_RUNTIME_DIR=str(exposed), CORTEX_NO_SIDECAR="1"))
    assert len(notes(place)) == 1


@pytest.mark.parametrize(
    "said",
    [
        b"\xff" * 3_000_000,
        b"[" * 200_000,
        b"[1]",
        b'"text"',
        b"{",
        b'{"a": ' + b"9" * 9_000 + b"}",
        b"x" * (9 << 20),
    ],
    ids=["bytes", "deep", "list", "string", "half", "number", "huge"],
)
def test_garbage_is_as_good_as_nothing(place, said):
    for event in ("session-start", "stop", "something-new"):
        assert silent(hook(place, event, said, CORTEX_NO_SIDECAR="1"))
    assert not place.home.exists()


def test_a_message_counts_also_where_the_client_does_not_end_it(place):
    with subprocess.Popen(
        [*CORTEX, "hook", "stop"],
        stdin=subprocess.PIPE,
        env=place.environment(CORTEX_NO_SIDECAR="1"),
    ) as process:
        assert process.stdin
        process.stdin.write(json.dumps(MARKED).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(30) == 0
    assert len(notes(place)) == 1


@pytest.mark.parametrize("stdin", ["terminal", "closed"])
def test_without_a_client_nothing_is_waited_for(place, stdin):
    command = [*CORTEX, "hook", "stop"]
    if stdin == "closed":
        command = ["/bin/sh", "-c", 'exec "$0" "$@" <&-', *command]
    main, other = os.openpty()
    done = subprocess.run(
        command, stdin=other, capture_output=True, env=place.environment(), timeout=30
    )
    assert silent(done)
    os.close(main)
    os.close(other)


# -- cortexd's side
# ----------------------------------------------------------------------------------------------------


@pytest.fixture
def daemon(run_folder: Path) -> Iterator[Callable[..., dict | None]]:
    """`daemon(event, token)`: what a Daemon answers at a moment; its end is seen to."""
    path = str(run_folder / f"d{os.urandom(3).hex()}.sock")
    command = [sys.executable, str(Path(__file__).with_name("hooked_daemon.py")), path, "secret"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"listens\n"

        def ask(event: str, token: str = "secret") -> dict | None:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
                link.settimeout(30)
                link.connect(path)
                hello = {
                    "protocol": 1,
                    "control": "hook",
                    "event": event,
                    "cwd": "/w",
                    "variables": {"ACK_KEY": "k3y"},
                    "seconds": 0.5,
                }
                link.sendall(json.dumps({**hello, "token": token}).encode() + b"\n")
                line = link.makefile("rb").readline()
                return json.loads(line) if line else None

        yield ask
        process.kill()
        _, said = process.communicate(timeout=30)
        assert b"k3y" not in said


def test_cortexd_says_what_there_is_to_say_and_nothing_where_that_fails_or_takes_long(daemon):
    assert daemon("stop") == {"text": "stop in /w"}
    assert daemon("raise") == {"text": ""}
    assert daemon("wait") == {"text": ""}


def test_cortexd_takes_moments_only_from_who_has_its_token(daemon):
    assert daemon("stop", token="another") is None


def test_a_secret_never_reaches_the_inbox(place):
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"
    listed = [{"title": "Deploy key", "facts": ["It is this", token]}, "Lamps are blue"]
    said = {**MARKED, "last_assistant_message": f"remember: use {token}", "candidates": listed}
    assert silent(hook(place, "stop", said, CORTEX_NO_SIDECAR="1"))
    assert [[one["title"] for one in note["candidates"]] for note in notes(place)] == [
        ["Lamps are blue"]
    ]
    assert silent(
        hook(
            place,
            "stop",
            {**MARKED, "last_assistant_message": f"gotcha: {token}"},
            CORTEX_NO_SIDECAR="1",
        )
    )
    files = [file for file in place.home.rglob("*") if file.is_file()]
    assert not [file for file in files if token.encode() in file.read_bytes()]
