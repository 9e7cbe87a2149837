"""`cortex doctor`: what it finds on the machine and in an index, and what `--fix` does about it;
with real processes.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cortex.base.runtime.rendezvous import Rendezvous, meet_at
from cortex.base.settings import environment, load
from cortex.engine.engine import Engine
from cortex.interfaces.cli import run
from cortex.interfaces.daemon import control
from engine.embedders.stub import Stub
from protocol.code_server import CORTEX, make_repository

posix = pytest.mark.skipif(os.name == "nt", reason="modes and signals of POSIX")


@pytest.fixture
def root(isolated, tmp_path, monkeypatch):
    """An indexed project, and the machine of somebody new."""
    monkeypatch.delenv("CORTEX_NO_SIDECAR")
    folder = make_repository(tmp_path / "shop", {"a.py": "x = 1\n", "b.py": "y = 2\n"})
    assert run(["index", str(folder), "--json"]) == 0
    yield folder
    control.stop_all(str(isolated.cortex))


@pytest.fixture
def doctor(capsys, root):
    """Runs the doctor; gives its exit code and the findings that aren't ok, by what was looked at."""

    def call(*arguments, path=root):
        capsys.readouterr()
        code = run(["doctor", str(path), "--json", *arguments])
        body = json.loads(capsys.readouterr().out)
        return (
            code,
            {one["check"]: one for one in body["findings"] if one["level"] != "ok" or one["done"]},
            body,
        )

    return call


@pytest.fixture
def start(capsys, root, isolated, monkeypatch):
    """Has a cortexd; gives its process id."""

    def call():
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(isolated.user)
            assert run(["start", "--json"]) == 0
        return json.loads(capsys.readouterr().out)["pid"]

    return call


def test_a_plugin_that_is_on_and_unknown_is_told_with_those_that_are_known(doctor, isolated):
    (isolated.cortex / "config.yml").write_text("team:\n  plugins: [git, gti]\n", encoding="utf-8")
    code, found, _ = doctor()
    assert (code, found["plugins"]["level"]) == (0, "warning")
    assert (
        "has gti; known: git," in found["plugins"]["text"]
        and "config.yml" in found["plugins"]["text"]
    )


def test_a_healthy_machine_has_no_problems(doctor, start):
    code, found, body = doctor()
    assert (code, found, body["problems"]) == (0, {}, [])
    start()
    code, found, body = doctor()
    assert (code, found) == (0, {})
    (cortexd,) = [one for one in body["findings"] if one["check"] == "cortexd"]
    assert "started by cortex start" in cortexd["text"] and "CORTEX_NO_SIDECAR" in cortexd["text"]


def test_outside_of_a_project_the_machine_is_looked_at(capsys, root, isolated, monkeypatch):
    monkeypatch.chdir(isolated.user)
    capsys.readouterr()
    assert run(["doctor", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["workspaces"] == []
    assert {"cortexd", "git", "disk", "clients"} <= {one["check"] for one in body["findings"]}


@posix
def test_what_a_killed_cortexd_left_is_found_and_removed(doctor, start, isolated, until):
    pid = start()
    meeting = meet_at(str(isolated.cortex))
    os.kill(pid, signal.SIGKILL)
    until(lambda: not control.is_held(meeting.lock))
    code, found, _ = doctor()
    assert (code, list(found)) == (0, ["left files"])
    assert os.path.exists(meeting.socket)
    assert "removed" in doctor("--fix")[1]["left files"]["done"]
    assert not os.path.exists(meeting.socket) and not os.path.exists(meeting.note)
    assert doctor()[1] == {}


@posix
def test_a_cortexd_that_does_not_answer_is_ended(doctor, start, isolated, impatient):
    os.kill(start(), signal.SIGSTOP)
    code, found, _ = doctor("--fix")
    assert code == 0
    assert "doesn't answer" in found["cortexd"]["text"] and "was ended" in found["cortexd"]["done"]
    assert not control.look(meet_at(str(isolated.cortex))).running


@pytest.mark.parametrize(
    ("said", "check", "level", "ended"),
    [
        ({"python": "/nowhere/bin/python"}, "python", "error", True),
        ({"python": sys.executable + "/../../other/bin/python"}, "python", "error", True),
        ({"python": "/bin/sh"}, "python", "warning", False),
    ],
)
@posix
def test_a_cortexd_of_another_python_is_found_and_ended_where_that_is_gone(
    doctor, start, isolated, said, check, level, ended
):
    start()
    meeting = meet_at(str(isolated.cortex))
    note = meeting.read_note() | said
    Path(meeting.note).write_text(json.dumps(note), encoding="utf-8")
    code, found, _ = doctor()
    assert (code, found[check]["level"]) == (1 if level == "error" else 0, level)
    doctor("--fix")
    assert control.look(meeting).running is not ended


def test_a_cortexd_of_an_older_version_is_ended_and_one_of_a_newer_is_not(
    doctor, start, isolated, monkeypatch
):
    start()
    meeting = meet_at(str(isolated.cortex))
    monkeypatch.setattr("cortex.interfaces.cli.checks.cortexd.VERSION", "0.0.9")
    code, found, _ = doctor("--fix")
    assert (code, found["version"]["level"], found["version"]["fixable"]) == (0, "warning", False)
    assert control.look(meeting).answers
    monkeypatch.setattr("cortex.interfaces.cli.checks.cortexd.VERSION", "99.0")
    assert "was ended" in doctor("--fix")[1]["version"]["done"]
    assert not control.look(meeting).running


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found where Linux shows them")
def test_a_second_cortexd_for_the_same_home_is_found_and_ended(
    doctor, start, isolated, tmp_path_factory, until
):
    start()
    elsewhere = tmp_path_factory.mktemp("run")
    second = subprocess.Popen(
        [sys.executable, "-m", "cortex.cortexd"],
        env=isolated.environment(XDG_RUNTIME_DIR=str(elsewhere)),
    )
    meeting = Rendezvous(str(isolated.cortex), {"XDG_RUNTIME_DIR": str(elsewhere)})
    until(lambda: control.look(meeting).answers)
    code, found, _ = doctor("--fix")
    assert (code, list(found)) == (0, ["second cortexd"])
    assert str(second.pid) in found["second cortexd"]["done"]
    assert second.wait(30) == 0
    assert control.look(meet_at(str(isolated.cortex))).answers


@posix
def test_folders_that_others_can_enter_are_closed(doctor, root, isolated):
    isolated.cortex.mkdir(exist_ok=True)
    for folder in (isolated.cortex, root / ".cortex"):
        folder.chmod(0o755)
    assert doctor()[1]["permissions"]["level"] == "warning"
    assert doctor("--fix")[0] == 0
    assert [folder.stat().st_mode & 0o777 for folder in (isolated.cortex, root / ".cortex")] == [
        0o700,
        0o700,
    ]
    assert doctor()[1] == {}


@pytest.mark.parametrize(
    ("entry", "level", "word"),
    [
        ({"command": "/nowhere/bin/cortex", "args": ["mcp"]}, "error", "isn't there"),
        ({"command": "cortex", "args": ["mcp", "--workspace", "/nowhere"]}, "error", ""),
        ({"command": "npx", "args": ["cortex-of-somebody"]}, "warning", "another server"),
    ],
)
def test_an_entry_of_a_client_that_leads_nowhere_is_found(doctor, isolated, entry, level, word):
    file = isolated.user / ".claude.json"
    file.write_text(json.dumps({"mcpServers": {"cortex": entry}}), encoding="utf-8")
    code, found, _ = doctor()
    assert (code, found["clients"]["level"]) == (1 if level == "error" else 0, level)
    assert word in found["clients"]["text"] and "Claude Code" in found["clients"]["text"]
    assert "cortex install claude-code" in found["clients"]["fix"]


def test_an_entry_whose_program_is_gone_starts_this_one_after_a_fix(doctor, isolated):
    file = isolated.user / ".claude.json"
    entry = {"command": "/nowhere/bin/cortex", "args": ["mcp", "code"], "env": {"A": "b"}}
    file.write_text(
        json.dumps({"mcpServers": {"cortex": entry, "other": {"command": "x"}}}), encoding="utf-8"
    )
    doctor("--fix")
    servers = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    program = str(Path(sys.executable).with_name("cortex"))
    assert servers == {"cortex": {**entry, "command": program}, "other": {"command": "x"}}
    assert "clients" not in doctor()[1]


def test_an_entry_that_starts_this_program_is_well_and_a_broken_file_is_told(
    doctor, root, isolated
):
    program = Path(sys.executable).with_name("cortex")
    file = root / ".mcp.json"
    file.write_text(
        json.dumps({"mcpServers": {"cortex": {"command": str(program), "args": ["mcp"]}}}), "utf-8"
    )
    assert "clients" not in doctor("--fix")[1]
    file.write_text("{ nonsense", encoding="utf-8")
    assert "can't be read" in doctor()[1]["clients"]["text"]


def test_an_index_that_is_behind_is_brought_up_to_date(doctor, root):
    (root / "c.py").write_text("z = 3\n", encoding="utf-8")
    (root / "a.py").unlink()
    code, found, _ = doctor()
    assert code == 0
    assert "2 files have changed" in found["freshness"]["text"]
    code, found, _ = doctor("--fix")
    assert found["freshness"]["done"] == "indexed: 1 added, 0 changed, 1 deleted"
    assert doctor()[1] == {}


def test_a_folder_that_was_never_indexed_is_indexed(doctor, tmp_path):
    fresh = make_repository(tmp_path / "fresh", {"a.py": "x = 1\n"})
    code, found, body = doctor(path=fresh)
    assert code == 1 and body["problems"] == [found["freshness"]["text"]]
    code, _, body = doctor("--fix", path=fresh)
    assert (code, body["problems"]) == (0, []) and body["files"] >= 1
    code, _, body = doctor(path=fresh)  # and it stays so
    assert (code, body["problems"], body["files"]) == (0, [], 1)


def test_a_damaged_store_is_kept_and_built_anew(doctor, root):
    database = root / ".cortex" / "cortex.db"
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    database.write_bytes(b"not a database" * 1000)
    code, found, body = doctor()
    assert code == 1 and body["problems"] and body["files"] is None
    assert "cortex index" in found["store"]["fix"]
    code, found, _ = doctor("--fix")
    assert code == 0 and "damaged" in found["store"]["done"]
    assert doctor()[1] == {}


def test_vectors_of_another_model_are_told_and_made_anew(doctor, root, monkeypatch):
    from cortex.engine.embedders.hash_embedder import HashingEmbedder

    settings = load(root, environment=environment())
    with Engine(root, settings, embedder=HashingEmbedder()) as engine:
        engine.index(force=True)
    found = doctor()[1]["vectors"]
    assert ("0% is embedded by local" in found["text"], "vectors of hashing" in found["text"]) == (
        True,
        True,
    )
    assert doctor("--fix")[1]["vectors"]["done"] == "everything is embedded"
    assert doctor()[1] == {}
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "none")
    assert "nothing embeds now" in doctor()[1]["vectors"]["text"]
    assert "removed" in doctor("--fix")[1]["vectors"]["done"]
    assert doctor()[1] == {}


def test_an_embedder_that_can_not_be_asked_is_told(doctor, root, monkeypatch):
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "ollama")
    monkeypatch.setenv("CODEINDEX_OLLAMA_BASE_URL", "http://127.0.0.1:9")
    found = doctor()[1]["vectors"]
    assert "0% is embedded by ollama; now local" in found["text"]
    assert "127.0.0.1:9" in doctor("--fix")[1]["vectors"]["failed"]


def test_vectors_with_lost_rows_are_told_and_built_anew(doctor, root):
    settings = load(root, environment=environment())
    with Engine(root, settings) as engine:
        assert engine.holds_lease()
        vectors = engine.store.indexes.vectors(engine.embedding.answering().stamp)
        vectors.remove(vectors.ids()[:1])
        vectors.sync(engine.store.content.seq())
    code, found, _ = doctor()
    assert (code, found["store"]["text"]) == (1, "vectors: 1 rows missing, 0 too many")
    assert doctor("--fix")[0] == 0
    assert doctor()[1] == {}


def test_vectors_that_the_writing_process_does_not_make_are_not_promised(
    doctor, root, isolated, until, monkeypatch
):
    server = subprocess.Popen(
        [*CORTEX, "mcp", "--no-sidecar", "--workspace", str(root)],
        env=isolated.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    other = Stub()
    try:
        until(lambda: doctor()[2]["leaseHolder"] == server.pid)
        monkeypatch.setenv("CODEINDEX_EMBEDDING_PROVIDER", "openai")
        monkeypatch.setenv("CODEINDEX_OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("CORTEX_PROVIDERS_OPENAI_BASE_URL", f"{other.url}/v1")
        found = doctor("--fix")[1]["vectors"]
        for text in (found["text"], found["failed"]):
            assert (
                f"process {server.pid} alone writes to this store, and there are vectors of local"
                in text
            )
            assert "none of openai" in text
        assert "cortex restart" in found["fix"]
        monkeypatch.setenv("CODEINDEX_EMBEDDING_PROVIDER", "none")
        found = doctor("--fix")[1]["vectors"]
        assert (f"process {server.pid} keeps them" in found["text"], found["done"]) == (True, "")
    finally:
        server.communicate(timeout=30)
        other.close()


def test_the_process_that_writes_is_named(doctor, root, isolated, until):
    server = subprocess.Popen(
        [*CORTEX, "mcp", "--no-sidecar", "--workspace", str(root)],
        env=isolated.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: doctor()[2]["leaseHolder"] == server.pid)
        (writer,) = [one["text"] for one in doctor()[2]["findings"] if one["check"] == "writer"]
        assert str(server.pid) in writer
        if sys.platform == "linux":
            assert "mcp --no-sidecar" in writer
    finally:
        server.communicate(timeout=30)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts watches")
def test_more_folders_than_may_be_watched_are_told(doctor, monkeypatch, tmp_path):
    limit = tmp_path / "max_user_watches"
    limit.write_text("2\n", encoding="ascii")
    monkeypatch.setattr("cortex.interfaces.cli.checks.machine.WATCHES", limit)
    assert "max_user_watches" in doctor()[1]["watching"]["fix"]


def test_for_people_each_finding_is_a_line_with_its_fix(capsys, root):
    (root / "c.py").write_text("z = 3\n", encoding="utf-8")
    capsys.readouterr()
    assert run(["doctor", str(root)]) == 0
    out = capsys.readouterr().out
    assert "warning      freshness: 1 files have changed" in out
    assert "fix: cortex index" in out
    assert out.rstrip().endswith("1 problem; `cortex doctor --fix` sees to 1 of them")
