"""`cortex index`."""

import json
import signal
import subprocess
import sys

import pytest

import forking
from interfaces.cli.command_process import process
from protocol.code_server import CORTEX, make_repository, wait_for


def test_index_reports_added_changed_and_deleted_files(cortex, tmp_path):
    root = make_repository(
        tmp_path / "fresh", {"a.py": "x = 1\n", "b.py": "y = 2\n", ".env": "S=1\n"}
    )
    code, out, _ = cortex("index", root)
    assert code == 0
    assert "2 added, 0 changed, 0 deleted, 0 unchanged, 1 skipped" in out
    assert "2 files, 2 chunks" in out
    (root / "a.py").write_text("x = 11\n", encoding="utf-8")
    (root / "b.py").unlink()
    code, out, _ = cortex("index", root, "--json")
    body = json.loads(out)
    assert set(body) == {
        "workspace", "status", "added", "changed", "deleted", "unchanged", "skipped", "seconds", "files", "chunks",
        "embedding", "over_max_files",
    }  # fmt: skip
    assert (body["added"], body["changed"], body["deleted"], body["skipped"]) == (0, 1, 1, 1)
    assert (body["files"], body["workspace"], body["status"]) == (1, str(root), "completed")


def test_python_that_cannot_be_started_is_a_worker_error(cortex, tmp_path, monkeypatch):
    root = make_repository(tmp_path / "work", {"a.py": "x = 1\n"}, git=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    code, out, err = cortex("index", root)
    assert (code, out) == (1, "")
    assert "can't be started" in err
    assert "no-python" in err
    assert "[WORKER_FAILED]" in err


def test_force_rebuilds_every_file_each_time(cortex, indexed):
    for _ in range(2):
        body = json.loads(cortex("index", indexed, "--force", "--json")[1])
        assert body["unchanged"] == 0
        assert body["changed"] >= 6


def test_every_workspace_of_a_configuration_is_indexed(cortex, tmp_path, monkeypatch):
    root = make_repository(tmp_path / "mono", {"one/a.py": "x = 1\n", "two/b.py": "y = 1\n"})
    (root / "codeindex.config.json").write_text(
        '{"workspace": {"paths": ["one", "two"]}}', encoding="utf-8"
    )
    monkeypatch.chdir(root)
    body = json.loads(cortex("index", "--json")[1])
    assert [workspace["added"] for workspace in body["workspaces"]] == [1, 1]
    found = json.loads(cortex("search", "x", "--mode", "exact", "--json")[1])["results"]
    assert [(hit["workspace"], hit["file"]) for hit in found] == [("one", "a.py")]


def test_damaged_store_is_kept_aside_and_rebuilt_by_any_command(cortex, tmp_path, caplog):
    root = make_repository(tmp_path / "broken", {"a.py": "x = 1\n"})
    (root / ".cortex").mkdir()
    for arguments in (["index", root], ["search", "x", "--path", root], ["index", root, "--force"]):
        (root / ".cortex" / "cortex.db").write_bytes(b"no database" * 1_000)
        code, out, _ = cortex("doctor", root)
        assert code == 1 and "STORE_CORRUPT" in out
        caplog.clear()
        assert cortex(*arguments)[0] == 0
        assert "the index was damaged and is built anew" in caplog.text
    assert list((root / ".cortex").glob("cortex.db.damaged-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_indexes_changes_until_a_signal(tmp_path, number):
    root = make_repository(tmp_path / "watched", {"a.py": "x = 1\n"})
    watching = forking.Popen(
        [*CORTEX, "index", str(root), "--watch"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert any("watching" in line for line in iter(watching.stdout.readline, ""))
        (root / "b.py").write_text("def came_later():\n    pass\n", encoding="utf-8")
        wait_for(lambda: "came_later" in process("search", "came_later", "--path", root).stdout)
        watching.send_signal(number)
        assert watching.wait(10) == 0
    finally:
        watching.kill()
        watching.stdout.close()
