"""Many windows, hostile lines, a full disk, and a cortexd that is killed again and again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.base.types import Mode, Query
from cortex.engine.engine import Engine
from interfaces.daemon.raw_connection import RawConnection
from interfaces.daemon.sandbox import Sandbox, Window
from protocol.code_server import check_envelope, text_of
from protocol.fuzz_lines import hostile_lines

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and Unix sockets")

TOOLS = (
    "search_code",
    "reindex_workspace",
    "update_config",
    "get_file_context",
    "find_similar_code",
)
WINDOWS, READS, FILES, CHANGED = 2, 8, 120, 12


class Agent:
    """A window that writes and indexes a file and reads those of others, all at once."""

    def __init__(self, sandbox: Sandbox, name: str, known: list[str]) -> None:
        self.window = sandbox.window()
        self.name = name
        self.word = f"lantern_{name}"
        self.path = f"said/{self.word}.py"
        target = sandbox.root / self.path
        target.parent.mkdir(exist_ok=True)
        target.write_text(f"def {self.word}():\n    return '{name}'\n", encoding="utf-8")
        chosen = random.Random(name).choices(known, k=READS) if known else []
        self.reads = {f"r{number}": word for number, word in enumerate(chosen)}

    def ask(self) -> None:
        who = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": self.name, "version": "1"},
        }
        self.window.ask("initialize", who, id="hello")
        self.window.notify("notifications/initialized")
        calls = [
            ("search_code", id, {"query": word, "maxResults": 1}) for id, word in self.reads.items()
        ]
        calls.insert(READS // 2, ("reindex_workspace", "w", {"path": self.path}))
        for name, id, arguments in calls:
            self.window.ask("tools/call", {"name": name, "arguments": arguments}, id=id)

    def check(self, *, lossless: bool) -> str | None:
        """Check that each answer came once and is right; gives the acknowledged word."""
        answers = self.window.answers(["hello", "w", *self.reads], 60)
        assert "serverInfo" in answers["hello"]["result"]
        for id, word in self.reads.items():
            body = json.loads(text_of(answers[id]["result"]))
            assert [hit["file"] for hit in body["results"]] == [f"said/{word}.py"], (id, word, body)
        body = json.loads(text_of(answers["w"]["result"]))
        lost = answers["w"]["result"].get("isError", False)
        if lost:
            assert not lossless
            assert check_envelope(body)["code"] == "SERVER_LOST"
        assert self.window.close() == 0
        assert self.window.take() is None  # nothing came twice
        assert self.window.garbage == []
        return None if lost else self.word


def change_some(root: Path, dice: random.Random) -> None:
    for number in dice.sample(range(FILES), CHANGED):
        lines = "".join(
            f"def made_{dice.getrandbits(40)}():\n    return {line}\n\n\n" for line in range(40)
        )
        (root / f"many{number}.py").write_text(lines, encoding="utf-8")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_every_call_is_answered_and_no_acknowledged_write_is_lost_when_cortexd_ends(
    sandbox, campaign, number, record_property
):
    dice = random.Random(int(number))
    change_some(sandbox.root, dice)
    known = ask_all([Agent(sandbox, "first", [])], lossless=True)
    turns, ended = campaign(2 if number == signal.SIGKILL else 1, 200), 0
    for turn in range(turns):
        change_some(sandbox.root, dice)
        running = sandbox.cortexds()[:1]
        killer = threading.Timer(dice.random() * 0.6, send, (running, number))
        killer.start()
        agents = [Agent(sandbox, f"t{turn}n{index}", known) for index in range(WINDOWS)]
        known += ask_all(agents, lossless=number == signal.SIGTERM)
        killer.join()
        ended += running != sandbox.cortexds()[:1]
    record_property("ended", f"{ended} of {turns}; lost: {1 + turns * WINDOWS - len(known)}")
    with sandbox.window() as last:
        for word in known[-5:]:
            assert last.found(word)[0] == f"said/{word}.py"
        assert sandbox.cortexds() == [sandbox.pid()]
    sandbox.end()
    compare_with_fresh(sandbox, known)


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def ask_all(agents: list[Agent], *, lossless: bool) -> list[str]:
    """Run all agents at once; gives the acknowledged words."""
    with ExitStack() as opened, ThreadPoolExecutor(len(agents)) as threads:
        for agent in agents:
            opened.enter_context(agent.window)
        list(threads.map(Agent.ask, agents))
        return [
            word
            for word in threads.map(lambda agent: agent.check(lossless=lossless), agents)
            if word
        ]


def compare_with_fresh(sandbox: Sandbox, known: list[str]) -> None:
    environment = {"CORTEX_HOME": str(sandbox.home)}
    copy = sandbox.root.parent / "copy"
    shutil.copytree(sandbox.root, copy, ignore=shutil.ignore_patterns(".cortex"))
    with Engine(sandbox.root, load(sandbox.root, environment=environment)) as engine:
        docs = {doc.path for doc in engine.store.content.docs(engine.source.id)}
        assert {f"said/{word}.py" for word in known} <= docs
        assert engine.store.check() == []
        engine.index()
        assert engine.store.check() == []
        old = contents(engine)
    with Engine(copy, load(copy, environment=environment)) as engine:
        engine.index()
        assert contents(engine) == old


def contents(engine: Engine) -> tuple[set[tuple[str, int]], int, int]:
    page = engine.search(Query("lantern_first", mode=Mode.WORDS))
    assert page.hits[0].path == "said/lantern_first.py"
    return (
        {(doc.path, doc.size) for doc in engine.store.content.docs(engine.source.id)},
        page.docs,
        page.chunks,
    )


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_concurrent_clients_each_get_their_own_answers(sandbox, campaign):
    clients, calls = campaign(8, 64), campaign(20, 200)
    for number in range(clients):
        (sandbox.root / f"only{number}.py").write_text(
            f"def needle_of_{number}():\n    return 1\n", encoding="utf-8"
        )
    with sandbox.window() as window:
        window.wait_until_ready()

    def work(number: int) -> None:
        with sandbox.window() as window:
            window.initialize()
            for call in range(calls):
                arguments = {
                    "query": f"needle_of_{number}",
                    "maxResults": 1 + call % 3,
                    "threshold": 0,
                }
                answer = window.answer(
                    window.ask(
                        "tools/call", {"name": "search_code", "arguments": arguments}, id=call
                    )
                )
                body = json.loads(text_of(answer["result"]))
                assert body["results"][0]["file"] == f"only{number}.py"
                assert len(body["results"]) <= 1 + call % 3
            assert window.close() == 0
            assert window.take() is None
            assert (window.aside, window.garbage) == ([], [])

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(work, range(clients)))
    assert sandbox.cortexds() == [sandbox.pid()]


def feed(window: Window, lines: Iterator[bytes]) -> threading.Thread:
    def write() -> None:
        for line in lines:
            window.send(line)
        window.ask("ping", id="the end")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_hostile_lines_through_a_window_leave_other_windows_served(sandbox, campaign):
    with sandbox.window() as bystander, sandbox.window() as window:
        bystander.wait_until_ready()
        pid = sandbox.pid()
        window.initialize("2025-03-26")
        writer = feed(window, hostile_lines(4_711, campaign(800, 100_000), TOOLS, large=1))
        assert "result" in window.answer("the end", seconds=3000)
        writer.join(5)
        assert bystander.found("switch_lamp") == window.found("switch_lamp") == ["lamp.py"]
        assert (window.close(), window.garbage, window.stderr) == (0, [], "")
        assert sandbox.pid() == pid


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_hostile_lines_and_hellos_at_the_socket_leave_windows_served(sandbox, campaign):
    with sandbox.window() as bystander:
        bystander.wait_until_ready()
        pid = sandbox.pid()
        for hello in hostile_hellos(815, campaign(150, 20_000)):
            with RawConnection(sandbox.meeting) as raw:
                raw.send(hello)
        with RawConnection(sandbox.meeting) as raw:
            raw.introduce(["--workspace", str(sandbox.root)])
            raw.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26",'
                     b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n')  # fmt: skip
            lines = hostile_lines(42, campaign(800, 100_000), TOOLS, large=1)
            raw.converse(lines, b'{"jsonrpc":"2.0","id":"the end","method":"ping"}\n', 3000)
        assert bystander.found("switch_lamp") == ["lamp.py"]
        assert sandbox.pid() == pid
        assert bystander.close() == 0


def hostile_hellos(seed: int, count: int) -> Iterator[bytes]:
    dice = random.Random(seed)
    good = {
        "protocol": 1,
        "arguments": [],
        "cwd": "/not/there",
        "variables": {},
        "version": "0.0.1",
        "pid": 1,
    }
    odd = (
        None,
        True,
        0,
        -1,
        1e308,
        10**30,
        "",
        "x" * 3000,
        "\ud800",
        "\x00",
        [],
        [[]],
        {},
        {"a": []},
        "9" * 5000,
        "²",
    )
    for number in range(count):
        kind = number % 6
        if kind == 0:
            yield dice.randbytes(dice.randrange(1, 400))
        elif kind == 1:
            yield json.dumps(dice.choice(odd)).encode() + b"\n"
        elif kind == 2:
            name = dice.choice([*good, "control", "token"])
            # Newer
            value = dice.choice(
                [value for value in odd if value != 10**30 or name not in ("version", "protocol")]
            )
            yield json.dumps(good | {name: value}).encode() + b"\n"
        elif kind == 3:
            line = json.dumps(good).encode()
            yield line[: dice.randrange(len(line))] + dice.choice((b"", b"\n"))
        elif kind == 4:
            yield (
                dice.choice(
                    (b"[" * 100_000, b'{"a":' * 5_000, b"x" * 5_000_000 if number < 60 else b"\n")
                )
                + b"\n"
            )
        else:
            yield json.dumps({"protocol": 1, "control": dice.choice(odd)}).encode() + b"\n"


@pytest.fixture
def small_home(sandbox: Sandbox) -> Iterator[Sandbox]:
    """The home on a file system of three megabytes."""
    sandbox.home.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(sandbox.home)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except OSError:
        pytest.skip("there is no mount command here")
    if done.returncode:
        pytest.skip("mounting needs rights that this user hasn't")
    yield sandbox
    sandbox.end()
    subprocess.run(["umount", "-l", str(sandbox.home)], check=True, timeout=20)


def test_full_disk_fails_only_the_project_stored_on_it(small_home, tmp_path):
    # Without a mark of a project: its store is in the home
    sandbox, plain = small_home, tmp_path / "plain"
    plain.mkdir()
    (plain / "a.py").write_text("def before():\n    return 1\n", encoding="utf-8")
    with sandbox.window(plain) as window, sandbox.window() as other:
        window.wait_until_ready()
        assert window.found("before") == ["a.py"]
        for number in range(30):
            lines = (f"{os.urandom(20).hex()} {line}\n" for line in range(1200))
            (plain / f"f{number}.txt").write_text("".join(lines), encoding="utf-8")
        failed = window.failure("reindex_workspace")
        assert (failed["code"], failed["retryable"]) == ("DISK_FULL", True)
        assert window.found("before") == ["a.py"]
        assert other.found("switch_lamp") == ["lamp.py"]
        with sandbox.window() as third:
            assert third.found("switch_lamp") == ["lamp.py"]
        subprocess.run(
            ["mount", "-o", "remount,size=80m", str(sandbox.home)], check=True, timeout=20
        )
        assert window.tool("reindex_workspace")
        assert sandbox.cortexds() == [sandbox.pid()]
        with suppress(OSError):
            assert window.close() == other.close() == 0
