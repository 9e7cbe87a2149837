"""`cortex chunks` and `cortex index --chunks` as a person or a script runs them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forking
from protocol.code_server import CORTEX, make_repository, wait_for

NAMES = {
    "code-symbols.json",
    "code-definitions.json",
    "code-data.json",
    "doc-chunks.json",
    "generator-output.json",
}


@pytest.fixture
def root(tmp_path, strangers_environment):
    return make_repository(
        tmp_path / "shop",
        {"lamp.py": "LAMPS = 3\n\n\ndef switch():\n    pass\n", "a.md": "# A\nlamp\n"},
    )


def chunks_of(folder: Path, name: str) -> dict[str, str]:
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    return {chunk["id"]: chunk["text"] for chunk in content["chunks"]}


def test_export_indexes_writes_and_reports_its_files(cortex, root):
    code, out, _ = cortex("chunks", "export", "--workspace", root)
    folder = root / ".cortex" / "chunks"
    assert code == 0 and "wrote code-symbols.json" in out
    assert {path.name for path in folder.glob("*.json")} == NAMES
    assert "LAMPS = 3" in chunks_of(folder, "code-data.json")["code-data-lamp.py"]
    code, out, _ = cortex("chunks", "export", "--workspace", root, "--json")
    assert (code, json.loads(out)["written"]) == (0, [])


def test_export_writes_into_the_given_folder(cortex, root, tmp_path):
    code, out, _ = cortex(
        "chunks", "export", "--workspace", root, "--out", tmp_path / "there", "--json"
    )
    assert (code, json.loads(out)["folder"]) == (0, str(tmp_path / "there"))
    assert {path.name for path in (tmp_path / "there").glob("*.json")} == NAMES
    assert not (root / ".cortex" / "chunks").exists()


def test_files_of_another_program_need_force(cortex, root):
    folder = root / ".cortex" / "chunks"
    folder.mkdir(parents=True)
    (folder / "doc-chunks.json").write_text("[]", encoding="utf-8")
    for command in (["chunks", "export", "--workspace", root], ["index", root, "--chunks"]):
        code, _, err = cortex(*command)
        assert code == 1 and "CHUNKS_FOREIGN" in err and "--force" in err
    assert (folder / "doc-chunks.json").read_text(encoding="utf-8") == "[]"
    assert cortex("chunks", "export", "--workspace", root, "--force")[0] == 0
    assert chunks_of(folder, "doc-chunks.json")


def test_index_with_chunks_writes_chunk_files(cortex, root):
    code, out, _ = cortex("index", root, "--chunks", "--json")
    assert code == 0
    assert json.loads(out)["chunk_files"]["chunks"]["documentation"] == 1
    assert "chunk_files" not in json.loads(cortex("index", root, "--json")[1])


@pytest.mark.skipif(
    sys.platform == "win32", reason="a console's Ctrl-C can't be sent to one process there"
)
def test_watching_keeps_the_chunk_files_current(root):
    watching = forking.Popen(
        [*CORTEX, "index", str(root), "--chunks", "--watch"], stdout=subprocess.PIPE, text=True
    )
    folder = root / ".cortex" / "chunks"
    try:
        assert any("watching" in line for line in iter(watching.stdout.readline, ""))
        before = (folder / "doc-chunks.json").read_bytes()
        (root / "lamp.py").write_text("LAMPS = 4\n", encoding="utf-8")
        wait_for(lambda: "LAMPS = 4" in chunks_of(folder, "code-data.json")["code-data-lamp.py"])
        wait_for(lambda: chunks_of(folder, "code-symbols.json") == {})
        assert (folder / "doc-chunks.json").read_bytes() == before
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(10) == 0
    finally:
        watching.kill()
        watching.stdout.close()
        watching.wait()


def test_reembed_embeds_chunk_files_of_another_model(cortex, root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    folder = root / ".cortex" / "chunks"
    folder.mkdir(parents=True)
    chunk = {"id": "a", "text": "lamp", "embedding": [1.0, 0.0]}
    (folder / "own.json").write_text(
        json.dumps({"_metadata": {"model": "strange", "dimensions": 2}, "chunks": [chunk]}),
        encoding="utf-8",
    )
    code, out, _ = cortex("chunks", "reembed")
    assert code == 0 and "1 chunks, strange before" in out
    (folder / "bad.json").write_text("{", encoding="utf-8")
    code, out, err = cortex("chunks", "reembed", folder)
    assert code == 1 and "bad.json" in err
    code, out, _ = cortex("chunks", "reembed", folder, "--json")
    answer = json.loads(out)
    assert [file["name"] for file in answer["files"]] == ["bad.json", "own.json"]
    assert answer["files"][1]["before"] == answer["model"]
    code, _, err = cortex("chunks", "reembed", tmp_path / "none")
    assert code == 1 and "FILE_NOT_FOUND" in err


def test_allowed_project_names_its_embedding_server_until_removed(cortex, root):
    (root / ".cortex").mkdir(exist_ok=True)
    (root / "codeindex.config.json").write_text(
        '{"embedding": {"endpoint": "http://127.0.0.1:9/embed"}}', "utf-8"
    )
    assert cortex("config", "get", "embedding.endpoint", "--path", root)[1].strip() == ""
    code, out, _ = cortex("chunks", "allow", "--path", root)
    assert (code, "they name http://127.0.0.1:9/embed" in out) == (0, True)
    assert (
        cortex("config", "get", "embedding.endpoint", "--path", root)[1].strip()
        == "http://127.0.0.1:9/embed"
    )
    code, out, _ = cortex("chunks", "allow", "--path", root, "--remove", "--json")
    assert (code, json.loads(out)["allowed"], json.loads(out)["endpoint"]) == (0, False, "")


def test_chunks_folder_outside_the_project_is_refused_with_the_setting(cortex, root, tmp_path):
    (root / "codeindex.config.json").write_text(
        json.dumps({"server": {"chunks_dir": str(tmp_path)}}), "utf-8"
    )
    code, _, err = cortex("chunks", "export", "--workspace", root)
    assert code == 1
    assert (
        "server.chunksDir: a path outside the project counts only from your own configuration"
        in err
    )
    assert "[PATH_OUTSIDE]" in err and str(tmp_path) in err
