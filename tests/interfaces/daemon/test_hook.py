"""`cortex hook` as clients run it: its output, its inbox, and sessions that never wait or fail."""

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
from interfaces.daemon.sandbox import CORTEX, Sandbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets in folders")
MARKED = {
    "hook_event_name": "Stop",
    "session_id": "s1",
    "last_assistant_message": "Done.\n- **Decision:** blue\n",
}
START = {"hook_event_name": "SessionStart", "session_id": "s1"}


def hook(
    sandbox: Sandbox, event: str, said: object = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    raw = said if isinstance(said, bytes) else json.dumps(said).encode()
    environment = sandbox.environment(**variables)
    return subprocess.run(
        [*CORTEX, "hook", event],
        input=raw,
        capture_output=True,
        env=environment,
        cwd=sandbox.root,
        timeout=30,
    )


def silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def notes(sandbox: Sandbox) -> list[dict]:
    return [
        json.loads(file.read_bytes()) for file in sorted((sandbox.home / "inbox").glob("*.json"))
    ]


@pytest.fixture
def fake(sandbox: Sandbox) -> Iterator[FakeCortexd]:
    """A scripted cortexd."""
    made = FakeCortexd(sandbox.meeting.socket)
    yield made
    made.close()


@pytest.fixture
def answered(
    sandbox: Sandbox, fake: FakeCortexd
) -> Callable[..., tuple[subprocess.CompletedProcess[bytes], dict]]:
    """`answered(event, said, answer)`: run a hook and answer it; gives the process and its request."""

    def run(event: str, said: object, answer: dict, **variables: str):
        heard: list[dict] = []
        listener = threading.Thread(target=lambda: heard.append(fake.refuse(answer)), daemon=True)
        listener.start()
        done = hook(sandbox, event, said, **variables)
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
def test_session_start_prints_context_in_the_format_of_each_client(
    answered, said, variables, wanted
):
    done, _ = answered("session-start", said, {"text": "T\n“é”"}, **variables)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == wanted


def test_hook_without_a_client_prints_plain_text(answered):
    done, _ = answered("session-start", b"", {"text": "T\n“é”"})
    assert done.stdout.decode() == "T\n“é”\n"


def test_hook_sends_cortexd_the_folder_and_cortex_variables_only(answered, sandbox):
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
    assert asked["cwd"] == str(sandbox.root)


@pytest.mark.parametrize(
    "answer",
    [{}, {"text": ""}, {"text": " \n"}, {"text": None}, {"text": "x" * (MOST_CHARACTERS + 1)}],
)
def test_hook_prints_nothing_when_cortexd_answers_nothing(answered, answer):
    assert silent(answered("session-start", START, answer)[0])


def test_session_start_does_not_wait_for_a_silent_cortexd(sandbox, fake):
    assert silent(hook(sandbox, "session-start", START))


def test_session_start_starts_cortexd(sandbox, until):
    assert silent(hook(sandbox, "session-start", START))
    until(lambda: sandbox.meeting.ask({"control": "ping"}) is not None)


def test_hook_starts_no_cortexd_when_the_sidecar_is_disabled(sandbox):
    assert silent(hook(sandbox, "session-start", START, CORTEX_NO_SIDECAR="1"))
    assert silent(hook(sandbox, "stop", MARKED, CORTEX_NO_SIDECAR="1"))
    assert not sandbox.cortexds()
    assert [note["candidates"][0]["title"] for note in notes(sandbox)] == ["blue"]


# -- the end of a turn
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["stop", "pre-compact"])
def test_marked_lines_are_in_the_inbox_before_cortexd_is_notified(answered, sandbox, event):
    done, asked = answered(
        event,
        {**MARKED, "cwd": "/work/shop", "transcript_path": "/x/.claude/t.jsonl"},
        {"text": ""},
    )
    assert silent(done)
    assert (asked["event"], asked["cwd"]) == (event, "/work/shop")
    (note,) = notes(sandbox)
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


def test_turn_without_marks_writes_nothing(sandbox, fake):
    assert silent(hook(sandbox, "stop", {"session_id": "s1", "last_assistant_message": "Done."}))
    assert fake.no_connection_comes()
    assert not sandbox.home.exists()


def test_marked_lines_survive_a_hook_killed_before_it_notifies_cortexd(sandbox, fake):
    with subprocess.Popen(
        [*CORTEX, "hook", "stop"],
        stdin=subprocess.PIPE,
        env=sandbox.environment(),
        cwd=sandbox.root,
    ) as process:
        assert process.stdin
        process.stdin.write(json.dumps(MARKED).encode())
        process.stdin.close()
        raw, _ = fake._listener.accept()  # it waits for an answer
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        raw.close()
    assert [note["candidates"][0]["title"] for note in notes(sandbox)] == ["blue"]


def test_stop_hook_does_not_wait_for_a_silent_cortexd(sandbox, fake):
    assert silent(hook(sandbox, "stop", MARKED))
    assert len(notes(sandbox)) == 1


def test_marked_lines_are_kept_and_cortexd_started_when_none_runs(sandbox, until):
    assert silent(hook(sandbox, "stop", MARKED))
    until(lambda: sandbox.meeting.ask({"control": "ping"}) is not None)


def test_concurrent_hooks_lose_no_marked_line(sandbox, fake):
    processes = []
    for number in range(8):
        said = json.dumps({"candidates": [f"{number}"], "session_id": "s"}).encode()
        process = subprocess.Popen(
            [*CORTEX, "hook", "stop"],
            stdin=subprocess.PIPE,
            env=sandbox.environment(CORTEX_NO_SIDECAR="1"),
        )
        processes.append(process)
        assert process.stdin
        process.stdin.write(said)
        process.stdin.close()
    assert [process.wait(30) for process in processes] == [0] * 8
    assert sorted(note["candidates"][0]["title"] for note in notes(sandbox)) == [
        str(number) for number in range(8)
    ]


def test_transcript_is_read_when_the_client_sends_no_message(answered, sandbox, tmp_path):
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
    assert notes(sandbox)[0]["candidates"][0]["title"] == "sharp"


def test_copilot_message_written_during_the_hook_is_read(sandbox, tmp_path):
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
    assert silent(hook(sandbox, "stop", said, COPILOT_CLI="1", CORTEX_NO_SIDECAR="1"))
    later.join()
    assert [note["candidates"][0]["title"] for note in notes(sandbox)] == ["late"]


# -- whatever happens
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["session-start", "stop", "pre-compact"])
@pytest.mark.parametrize("home", ["a file", "in a file", "relative"])
def test_home_that_cannot_be_created_fails_no_hook(sandbox, tmp_path, event, home):
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    where = {"a file": str(file), "in a file": str(file / "home"), "relative": "home"}[home]
    assert silent(hook(sandbox, event, MARKED, CORTEX_HOME=where, CORTEX_NO_SIDECAR="1"))


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="everything can be written"
)
def test_read_only_home_fails_no_hook(sandbox):
    sandbox.home.mkdir(0o500)
    assert silent(hook(sandbox, "stop", MARKED))


def test_full_disk_fails_no_hook(sandbox):
    import resource

    done = subprocess.run(
        [*CORTEX, "hook", "stop"],
        input=json.dumps(MARKED).encode(),
        capture_output=True,
        env=sandbox.environment(CORTEX_NO_SIDECAR="1"),
        timeout=30,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert silent(done)
    assert os.listdir(sandbox.home / "inbox") == []


def test_marked_lines_are_kept_when_no_socket_folder_can_be_made(sandbox, tmp_path):
    exposed = tmp_path / "run"
    (exposed / "cortex").mkdir(parents=True)
    os.chmod(exposed / "cortex", 0o777)
    assert silent(
        hook(sandbox, "stop", MARKED, XDG_RUNTIME_DIR=str(exposed), CORTEX_NO_SIDECAR="1")
    )
    assert len(notes(sandbox)) == 1


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
def test_garbage_on_stdin_is_ignored(sandbox, said):
    for event in ("session-start", "stop", "something-new"):
        assert silent(hook(sandbox, event, said, CORTEX_NO_SIDECAR="1"))
    assert not sandbox.home.exists()


def test_message_on_an_open_stdin_is_read(sandbox):
    with subprocess.Popen(
        [*CORTEX, "hook", "stop"],
        stdin=subprocess.PIPE,
        env=sandbox.environment(CORTEX_NO_SIDECAR="1"),
    ) as process:
        assert process.stdin
        process.stdin.write(json.dumps(MARKED).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(30) == 0
    assert len(notes(sandbox)) == 1


@pytest.mark.parametrize("stdin", ["terminal", "closed"])
def test_hook_without_a_client_does_not_wait_for_stdin(sandbox, stdin):
    command = [*CORTEX, "hook", "stop"]
    if stdin == "closed":
        command = ["/bin/sh", "-c", 'exec "$0" "$@" <&-', *command]
    main, other = os.openpty()
    done = subprocess.run(
        command, stdin=other, capture_output=True, env=sandbox.environment(), timeout=30
    )
    assert silent(done)
    os.close(main)
    os.close(other)


# -- cortexd's side
# ----------------------------------------------------------------------------------------------------


@pytest.fixture
def daemon(run_folder: Path) -> Iterator[Callable[..., dict | None]]:
    """`daemon(event, token)`: the answer of a Daemon to a session event."""
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


def test_session_event_answers_nothing_on_failure_or_timeout(daemon):
    assert daemon("stop") == {"text": "stop in /w"}
    assert daemon("raise") == {"text": ""}
    assert daemon("wait") == {"text": ""}


def test_session_event_with_a_wrong_token_is_ignored(daemon):
    assert daemon("stop", token="another") is None


def test_candidate_with_a_secret_never_reaches_the_inbox(sandbox):
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"
    listed = [{"title": "Deploy key", "facts": ["It is this", token]}, "Lamps are blue"]
    said = {**MARKED, "last_assistant_message": f"remember: use {token}", "candidates": listed}
    assert silent(hook(sandbox, "stop", said, CORTEX_NO_SIDECAR="1"))
    assert [
        [candidate["title"] for candidate in note["candidates"]] for note in notes(sandbox)
    ] == [["Lamps are blue"]]
    assert silent(
        hook(
            sandbox,
            "stop",
            {**MARKED, "last_assistant_message": f"gotcha: {token}"},
            CORTEX_NO_SIDECAR="1",
        )
    )
    files = [file for file in sandbox.home.rglob("*") if file.is_file()]
    assert not [file for file in files if token.encode() in file.read_bytes()]
