"""Checks of the index of a project, and what `--fix` does about them."""

import subprocess
import sys

from cortex.base.settings import environment, load
from cortex.engine.engine import Engine
from engine.embedders.stub import Stub
from protocol.code_server import CORTEX, make_repository


def test_stale_index_is_updated_by_fix(doctor, root):
    (root / "c.py").write_text("z = 3\n", encoding="utf-8")
    (root / "a.py").unlink()
    code, found, _ = doctor()
    assert code == 0
    assert "2 files have changed" in found["freshness"]["text"]
    code, found, _ = doctor("--fix")
    assert found["freshness"]["done"] == "indexed: 1 added, 0 changed, 1 deleted"
    assert doctor()[1] == {}


def test_folder_never_indexed_is_indexed_by_fix(doctor, tmp_path):
    fresh = make_repository(tmp_path / "fresh", {"a.py": "x = 1\n"})
    code, found, body = doctor(path=fresh)
    assert code == 1 and body["problems"] == [found["freshness"]["text"]]
    code, _, body = doctor("--fix", path=fresh)
    assert (code, body["problems"]) == (0, []) and body["files"] >= 1
    code, _, body = doctor(path=fresh)  # and it stays so
    assert (code, body["problems"], body["files"]) == (0, [], 1)


def test_damaged_store_is_kept_and_rebuilt_by_fix(doctor, root):
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


def test_vectors_of_another_model_are_reported_and_rebuilt_by_fix(doctor, root, monkeypatch):
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


def test_unreachable_embedder_is_reported(doctor, root, monkeypatch):
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "ollama")
    monkeypatch.setenv("CODEINDEX_OLLAMA_BASE_URL", "http://127.0.0.1:9")
    found = doctor()[1]["vectors"]
    assert "0% is embedded by ollama; now local" in found["text"]
    assert "127.0.0.1:9" in doctor("--fix")[1]["vectors"]["failed"]


def test_missing_vector_rows_are_reported_and_rebuilt_by_fix(doctor, root):
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


def test_fix_reports_vectors_that_the_writing_process_will_not_make(
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


def test_doctor_names_the_writing_process(doctor, root, isolated, until):
    server = subprocess.Popen(
        [*CORTEX, "mcp", "--no-sidecar", "--workspace", str(root)],
        env=isolated.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: doctor()[2]["leaseHolder"] == server.pid)
        (writer,) = [
            finding["text"] for finding in doctor()[2]["findings"] if finding["check"] == "writer"
        ]
        assert str(server.pid) in writer
        if sys.platform == "linux":
            assert "mcp --no-sidecar" in writer
    finally:
        server.communicate(timeout=30)
