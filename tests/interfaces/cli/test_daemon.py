"""`cortex start`, `stop`, `restart`, `status`, `mcp status`, `mcp logs` and `hook` with a real
cortexd.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from cortex.base.runtime.rendezvous import meet_at
from cortex.interfaces.daemon import control
from protocol.code_server import CORTEX, make_repository

NOT_LOADED = {"asyncio", "pathlib", "pydantic", "typer", "typing", "logging"}


class Commands:
    """Commands run in a project with a home of its own, in this process where possible."""

    def __init__(self, root, home, environment, run):
        self.root, self.home, self.environment, self.run = root, home, environment, run

    def __call__(self, *arguments, **more):
        """Exit code, stdout and stderr."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.root)
            for name, value in more.items():
                patch.setenv(name, value)
            return self.run(*arguments)

    def read(self, *arguments, code=0, **more):
        done = self(*arguments, "--json", **more)
        assert done[0] == code, done
        return json.loads(done[1])

    def alone(self, *arguments, **more):
        """The same in a process of its own."""
        return subprocess.run(
            [*CORTEX, *map(str, arguments)],
            cwd=self.root,
            env=self.environment | more,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def state(self, profile=""):
        return control.look(
            meet_at(str(self.home / "profiles" / profile) if profile else str(self.home))
        )


@pytest.fixture(name="cortex")
def cortex_with_daemon(isolated, tmp_path, cortex, monkeypatch):
    monkeypatch.delenv("CORTEX_NO_SIDECAR")
    root = make_repository(tmp_path / "shop", {"a.py": "x = 1\n"})
    yield Commands(root, isolated.cortex, dict(os.environ), cortex)
    control.stop_all(str(isolated.cortex))


def test_start_starts_cortexd_and_connects_the_project(cortex):
    body = json.loads(cortex.alone("start", "--json").stdout)
    assert body["started"] and body["pid"] == cortex.state().pid
    assert [os.path.basename(path) for path in body["written"]] == [".mcp.json", ".gitignore"]
    entry = json.loads((cortex.root / ".mcp.json").read_text(encoding="utf-8"))
    assert shutil.which(entry["mcpServers"]["cortex"]["command"])
    assert cortex.state().note["startedBy"].startswith("cortex start, process")


def test_second_start_names_the_running_cortexd(cortex):
    pid = cortex.read("start")["pid"]
    again = cortex.read("start")
    assert (again["started"], again["pid"], again["written"]) == (False, pid, [])
    assert f"running already: process {pid}" in cortex("start")[1]


def test_start_outside_a_project_notes_the_files_it_did_not_write(cortex, isolated):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cortex, "root", isolated.user)
        body = cortex.read("start")
    assert body["written"] == [] and any("were not written" in note for note in body["notes"])


def test_concurrent_starts_start_one_cortexd(cortex):
    command = [*CORTEX, "start", "--json", "--no-mcp-write", "--no-gitignore-write"]
    several = [
        subprocess.Popen(command, cwd=cortex.root, env=cortex.environment, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in several]
    assert sorted(process.returncode for process in several) == [0, 0, 0, 0]
    assert len({answer["pid"] for answer in answers}) == 1


def test_start_writes_no_project_files_with_the_no_write_flags(cortex):
    assert cortex.read("start", "--no-mcp-write", "--no-gitignore-write")["written"] == []
    assert not (cortex.root / ".mcp.json").exists()
    assert not (cortex.root / ".gitignore").exists()


def test_start_reports_a_file_it_could_not_write_and_still_runs(cortex):
    (cortex.root / ".mcp.json").write_text("{ nonsense", encoding="utf-8")
    body = cortex.read("start", code=1)
    assert body["started"] and ".mcp.json" in body["error"]
    assert (cortex.root / ".mcp.json").read_text(encoding="utf-8") == "{ nonsense"
    assert cortex.state().answers


def test_start_notes_flags_without_effect_and_keeps_plugins_enabled(cortex):
    notes = cortex.read("start", "--skip-sync", "--plugins", "coldstart,git", "--no-mcp-write")[
        "notes"
    ]
    assert [note.split()[0] for note in notes] == ["--plugins:"]
    assert "--skip-sync has no effect" in cortex.read("start", "--skip-sync")["notes"][0]
    assert cortex.read("status")["plugins"] == ["git", "coldstart"]


def test_start_rejects_an_unknown_plugin_and_lists_known_ones(cortex):
    error = cortex.read("start", "--plugins", "coldstrat", code=1)["error"]
    assert (error["code"], error["context"]["known"][:2]) == (
        "PLUGIN_UNKNOWN",
        ["git", "coldstart"],
    )
    assert "unknown plugin 'coldstrat'; known: git, coldstart" in error["message"]
    assert not cortex.state().running and cortex.read("status")["plugins"] == ["git"]


def test_the_log_level_reaches_cortexd(cortex):
    pid = cortex.read("start", "--log-level", "debug")["pid"]
    assert psutil.Process(pid).cmdline()[-2:] == ["--log-level", "debug"]
    assert "--log-level" in cortex.read("start", "--log-level", "info")["notes"][0]


def test_stop_ends_cortexd_and_succeeds_when_none_runs(cortex):
    pid = cortex.read("start")["pid"]
    assert cortex.read("stop") == {
        "stopped": True,
        "pid": pid,
        "home": str(cortex.home),
        "clients": 0,
    }
    assert not cortex.state().running
    assert cortex.read("stop")["stopped"] is False
    assert "not running" in cortex("stop")[1]


@pytest.mark.skipif(os.name == "nt", reason="no such signal")
def test_stop_kills_a_silent_cortexd_that_status_reports_as_not_answering(cortex, impatient):
    pid = cortex.read("start")["pid"]
    os.kill(pid, signal.SIGSTOP)
    silent = cortex.read("status", code=1)
    assert (silent["running"], silent["answers"], silent["pid"]) == (True, False, pid)
    assert cortex.read("stop")["pid"] == pid
    assert not cortex.state().running
    assert not os.path.exists(meet_at(str(cortex.home)).socket)


def test_restart_replaces_the_cortexd_process(cortex):
    before = cortex.read("start")["pid"]
    body = cortex.read("restart")
    assert body["ended"] == before != body["pid"]
    assert cortex.state().pid == body["pid"]
    assert cortex.state().note["startedBy"].startswith("cortex restart")


def test_status_works_without_cortexd(cortex):
    body = cortex.read("status")
    assert (body["running"], body["pid"], body["clients"], body["projects"]) == (
        False,
        None,
        [],
        [],
    )
    code, text, _ = cortex("status")
    assert code == 0
    assert "not running" in text
    assert "server       none" in text


def test_status_shows_clients_and_projects_and_stop_counts_clients(cortex, until):
    (cortex.root / ".env").write_text("A=1\n", encoding="utf-8")
    client = subprocess.Popen(
        [*CORTEX, "mcp", "code"],
        cwd=cortex.root,
        env=cortex.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        until(
            lambda: (
                [project["status"] for project in cortex.read("status")["projects"]] == ["ready"]
            )
        )
        body = cortex.read("status")
        assert [(client["pid"], client["arguments"]) for client in body["clients"]] == [
            (client.pid, ["code"])
        ]
        assert body["projects"][0]["root"] == str(cortex.root)
        assert body["projects"][0]["diskBytes"] > 0
        assert body["cacheBytes"] >= body["projects"][0]["diskBytes"]
        assert body["startedBy"] == "cortex mcp" and body["endsIn"] is None
        shown = cortex("status")[1]
        assert "after the last client" in shown
        assert "    1 files are left out as secrets: `cortex doctor` names them\n" in shown
        assert "turn it off" in cortex("mcp", "status")[1]
        assert "projects" not in cortex.read("mcp", "status")
        assert cortex.read("stop")["clients"] == 1
    finally:
        client.communicate(timeout=30)
    assert client.returncode == 0


def test_profile_has_a_home_and_a_cortexd_of_its_own(cortex):
    own = cortex.read("start")
    other = cortex.read("start", "--profile", "work")
    assert other["started"] and other["pid"] != own["pid"]
    assert other["home"] == str(cortex.home / "profiles" / "work")
    assert cortex.read("status", "--profile", "work")["pid"] == other["pid"]
    assert cortex.read("status", CORTEX_PROFILE="work")["pid"] == other["pid"]
    assert cortex.read("stop", "--profile", "work")["pid"] == other["pid"]
    assert cortex.state().pid == own["pid"]
    code, _, refused = cortex("status", "--profile", "../up")
    assert code == 1 and "--profile" in refused


@pytest.mark.parametrize("spelled", [["--profile", "work"], ["--profile=work"]])
@pytest.mark.parametrize("alone", [[], ["--no-sidecar"]])
def test_client_with_a_profile_is_served_from_its_home(cortex, spelled, alone):
    (cortex.home / "profiles" / "work").mkdir(parents=True)
    (cortex.home / "profiles" / "work" / "config.yml").write_text(
        "server:\n  name: Work\n", encoding="utf-8"
    )
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    done = subprocess.run(
        [*CORTEX, "mcp", *alone, *spelled],
        input=line,
        cwd=cortex.root,
        env=cortex.environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "Work", done.stderr
    assert (cortex.state("work").running, cortex.state().running) == (not alone, False)


def test_logs_shows_the_last_lines_of_the_log(cortex):
    assert "nothing was logged" in cortex("mcp", "logs")[2]
    cortex.read("start")
    cortex.read("stop")
    assert cortex("mcp", "logs", "--tail", "1")[1].rstrip().endswith("cortexd ends")
    assert "cortexd" in cortex("mcp", "logs")[1].splitlines()[0]


def test_failed_start_reports_cortexd_unavailable(cortex):
    cortex.home.mkdir(parents=True)
    done = cortex.alone("start", "--json", PYTHONPATH=str(broken_package(cortex.root)))
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "CORTEXD_UNAVAILABLE"


def broken_package(folder):
    """A folder that keeps cortexd's process, and no other, from starting."""
    (folder / "sitecustomize.py").write_text(
        "import sys\nif 'cortex.cortexd' in sys.orig_argv: sys.exit('no')\n", encoding="utf-8"
    )
    return folder


def test_mcp_with_an_unknown_option_exits_with_2(cortex):
    done = cortex.alone("mcp", "--nonsense")
    assert done.returncode == 2
    assert "--nonsense" in done.stderr


# -- hook
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["stop", "pre-compact", "something-new"])
@pytest.mark.parametrize("said", [b"", b'{"session_id": "1"}', b"\xff" * 3_000_000, b"not JSON"])
def test_hook_with_nothing_to_do_is_silent_and_starts_no_cortexd(cortex, event, said):
    done = subprocess.run(
        [*CORTEX, "hook", event],
        input=said,
        cwd=cortex.root,
        env=cortex.environment,
        capture_output=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not cortex.state().running


def test_hook_does_not_wait_for_a_stdin_that_stays_open(cortex):
    began = time.monotonic()
    with subprocess.Popen(
        [*CORTEX, "hook", "stop"], env=cortex.environment, stdin=subprocess.PIPE
    ) as process:
        assert process.wait(30) == 0
        assert time.monotonic() - began < 2
    closed = subprocess.run(
        [*CORTEX, "hook", "stop"], env=cortex.environment, timeout=30, stdin=subprocess.DEVNULL
    )
    assert closed.returncode == 0


@pytest.mark.parametrize("event", ["session-start", "stop"])
def test_hook_imports_no_heavy_module(cortex, event):
    code = f"import sys; sys.argv = ['cortex', 'hook', '{event}']; from cortex.__main__ import main; main(); print(*sys.modules)"
    environment = cortex.environment | {"CORTEX_NO_SIDECAR": "1"}
    said = '{"candidates": ["one"]}'
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        input=said,
        env=environment,
    )
    assert (cortex.home / "inbox").exists() == (event == "stop")
    assert not NOT_LOADED & set(done.stdout.split())
