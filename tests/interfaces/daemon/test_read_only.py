"""A home on a file system mounted read-only, which root cannot write to either."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex.interfaces.cli import run as run_command
from interfaces.daemon.sandbox import CALL, CORTEX

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="mounts in a namespace of their own"
)

MOUNT = """\
while [ "$1" != -- ]; do mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99; shift; done
shift; exec "$@"
"""
SEVERAL = """\
import contextlib, io, json, sys
from cortex.interfaces.cli import run
said = []
for words in json.loads(sys.argv[1]):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    for stream in (out, err):
        stream.flush()
    said.append([code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()])
print(json.dumps(said))
"""
LINES = b"".join(
    json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
    + b"\n"
    for number, (method, params) in enumerate([("tools/list", {}), ("tools/call", CALL)], 1)
)

Run = Callable[..., subprocess.CompletedProcess[str]]


def _namespace() -> list[str]:
    """Command prefix for mounts of its own; empty where the system forbids them."""
    program = shutil.which("unshare")
    for options in (["-m"], ["-r", "-m"]) if program else ():
        command = [str(program), *options, "--propagation", "private"]
        trial = [*command, "sh", "-c", 'mount --bind "$1" "$1"', "sh", "/tmp"]
        if subprocess.run(trial, capture_output=True, timeout=10).returncode == 0:
            return command
    return []


@pytest.fixture(scope="module")
def namespace() -> list[str]:
    found = _namespace()
    if not found:
        pytest.skip("no mounts may be made here, not even in a namespace of one's own")
    return found


@pytest.fixture(params=["there", "missing"])
def cortex(sandbox, namespace, tmp_path, request) -> Run:
    """`cortex(*arguments, frozen=[...])`: the command where the home, or what is around it, is
    read-only, and other folders too; `start` is what stands before its arguments.
    """
    around = tmp_path / "frozen"
    sandbox.home = around / "home"
    sandbox.home.mkdir(parents=True)
    if request.param == "missing":
        sandbox.home.rmdir()

    def run(
        *arguments: str, frozen: tuple[Path, ...] = (), start: tuple[str, ...] = CORTEX
    ) -> subprocess.CompletedProcess[str]:
        command = [
            *namespace,
            "sh",
            "-c",
            MOUNT,
            "sh",
            str(around),
            *map(str, frozen),
            "--",
            *start,
            *arguments,
        ]
        done = subprocess.run(
            command,
            input=LINES,
            capture_output=True,
            env=sandbox.environment(),
            cwd=sandbox.root,
            timeout=60,
        )
        assert done.returncode != 99, done.stderr
        text = done.stderr.decode()
        assert "Traceback" not in text
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), text)

    return run


def several(cortex: Run, *commands: list[str]) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of commands, one after the other in one process."""
    done = cortex(json.dumps(commands), start=(sys.executable, "-c", SEVERAL))
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


def answers(done: subprocess.CompletedProcess[str]) -> dict[int, dict]:
    return {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("more", [[], ["--no-sidecar"]])
def test_project_is_served_with_a_warning_from_a_read_only_home(cortex, sandbox, more):
    done = cortex("mcp", "--workspace", str(sandbox.root), *more)
    assert done.returncode == 0
    assert "switch_lamp" in json.dumps(answers(done)[2])
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"warning: {sandbox.home} can't be written: nothing is logged")
    assert bool(sandbox.cortexds()) is not bool(more)  # it meets its windows elsewhere
    assert not list(sandbox.home.parent.rglob("*"))[1:]


def test_commands_work_or_name_a_next_step_on_a_read_only_home(cortex, sandbox):
    cortex("mcp", "--workspace", str(sandbox.root))
    status, search, *refused, stop = several(
        cortex,
        ["status", "--json"],
        ["search", "switch_lamp"],
        ["config", "set", "search.timeout", "10s"],
        ["install", "cursor", "--yes"],
        ["stop"],
    )
    assert (status[0], json.loads(status[1])["running"]) == (0, True)
    assert search[1].startswith("lamp.py:1")
    for code, _, error in refused:
        assert code == 1
        assert "Read-only file system" in error and "CORTEX_HOME" in error
    assert stop[0] == 0


def test_doctor_names_a_read_only_home_and_fixes_nothing(cortex, sandbox):
    for code, out, _ in several(cortex, ["doctor", "--json"], ["doctor", "--json", "--fix"]):
        assert code == 1
        found = [
            finding
            for finding in json.loads(out)["findings"]
            if finding["check"] == "permissions" and finding["level"] == "error"
        ]
        assert [str(sandbox.home) in finding["text"] for finding in found] == [True]
        assert "mounted read-only" in found[0]["text"] and "CORTEX_HOME" in found[0]["fix"]
        assert (found[0]["fixable"], found[0]["done"]) == (False, "")


@pytest.mark.parametrize("more", [[], ["--no-sidecar"]])
def test_call_fails_with_a_reason_when_no_folder_is_writable(cortex, sandbox, more):
    done = cortex("mcp", "--workspace", str(sandbox.root), *more, frozen=(sandbox.root,))
    assert done.returncode == 0
    assert len(answers(done)[1]["tools"]) == 19
    error = json.loads(answers(done)[2]["content"][0]["text"])["error"]
    assert error["code"] == "PERMISSION_DENIED" and "Read-only file system" in error["message"]
    assert any("CORTEX_HOME" in suggestion for suggestion in error["suggestions"])
    if not more:  # it is all the same to the doctor
        doctor = cortex("doctor", "--fix", frozen=(sandbox.root,))
        assert doctor.returncode == 1 and "mounted read-only" in doctor.stdout
    assert not os.path.exists(sandbox.root / ".cortex")


ASKED = b"".join(
    json.dumps(
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": name, "arguments": given},
        }
    ).encode()
    + b"\n"
    for number, (name, given) in enumerate(
        [
            ("search_code", {"query": "switch_lamp"}),
            ("query_memories", {"query": "apples"}),
            ("kb_search", {"query": "walrus"}),
            ("cortex_search", {"query": "operations"}),
        ],
        1,
    )
)


@pytest.fixture
def filled(sandbox, namespace, tmp_path, monkeypatch) -> Run:
    """The same for a home and a project that are full: everything was written and indexed while
    that was possible.
    """
    sandbox.home = tmp_path / "home"
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "walrus.md").write_text("# The walrus and the carpenter\n", encoding="utf-8")
    commands = [
        ["index", "--json"],
        ["memory", "add", "Apples grow on trees"],
        ["kb", "add", str(papers)],
        ["team", "subcortex", "create", "ops", "--name", "Operations"],
    ]
    with monkeypatch.context() as patch:
        patch.setenv("CORTEX_HOME", str(sandbox.home))
        patch.chdir(sandbox.root)
        assert [run_command(words) for words in commands] == [0, 0, 0, 0]

    def run(
        *arguments: str, start: tuple[str, ...] = CORTEX, **_: object
    ) -> subprocess.CompletedProcess[str]:
        frozen = (str(sandbox.home), str(sandbox.root))
        command = [*namespace, "sh", "-c", MOUNT, "sh", *frozen, "--", *start, *arguments]
        done = subprocess.run(
            command,
            input=ASKED,
            capture_output=True,
            env=sandbox.environment(),
            cwd=sandbox.root,
            timeout=60,
        )
        assert done.returncode != 99 and b"Traceback" not in done.stderr, done.stderr
        return subprocess.CompletedProcess(
            command, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return run


LEFT = """\
import os
from cortex.engine.library import Library
from cortex.families.memory.writer import add
from cortex.base.settings import environment, load
from cortex.base.types import Memory
add(Library(load(None, environment=environment())), Memory('', 'Pears are green'))
os._exit(0)
"""


def test_commands_read_and_search_a_filled_read_only_home(filled, sandbox):
    commands = {
        "Apples": ["memory", "list"],
        "Apples grow": ["memory", "search", "apples"],
        "papers": ["kb", "list"],
        "walrus.md": ["kb", "search", "walrus"],
        "Operations": ["team", "subcortex", "list"],
        "lamp.py:1": ["search", "switch_lamp"],
    }
    *read, written, indexed = several(
        filled, *commands.values(), ["memory", "add", "More"], ["index"]
    )
    for wanted, (code, out, err) in zip(commands, read, strict=True):
        assert code == 0 and wanted in out, (wanted, out, err)
    for code, _, err in (written, indexed):
        assert code == 1 and "STORE_UNWRITABLE" in err and "can be read only" in err
    # What a killed process left in the log is read, too, though SQLite's own index of the log is
    # gone.
    subprocess.run([sys.executable, "-c", LEFT], env=sandbox.environment(), check=True, timeout=60)
    (sandbox.home / "cortex.db-shm").unlink()
    assert (sandbox.home / "cortex.db-wal").stat().st_size
    ((code, out, _),) = several(filled, ["memory", "list"])
    assert code == 0 and "Pears are green" in out and "Apples" in out


def test_agents_read_and_search_a_filled_read_only_home(filled, sandbox):
    for more in ([], ["--no-sidecar"]):
        done = filled(
            "mcp", "code", "memory", "kb", "team", "--workspace", str(sandbox.root), *more
        )
        results = answers(done)
        for number, wanted in enumerate(
            ("switch_lamp", "Apples grow on trees", "walrus", "Operations"), 1
        ):
            assert wanted in json.dumps(results[number]) and not results[number].get("isError"), (
                results[number]
            )
