"""`cortex qdrant` as a person or a script runs it; the server is the official client's local mode."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("isolated")

URL = "http://127.0.0.1:6333"
KEY = "a-very-secret-key"


@pytest.fixture
def filled(cortex, tmp_path, monkeypatch, local_qdrant):
    """A library whose vectors are in Qdrant; the server."""
    monkeypatch.setenv("CORTEX_KB_QDRANT_URL", URL)
    monkeypatch.setenv("CORTEX_KB_QDRANT_API_KEY", KEY)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "desk.md").write_text(
        "# Desk\n\nThe desk has three drawers.\n", encoding="utf-8"
    )
    assert cortex("kb", "add", tmp_path / "notes")[0] == 0
    return local_qdrant


def searched(cortex):
    code, out, _ = cortex("kb", "search", "how many drawers", "--json")
    assert code == 0
    return json.loads(out)


def test_without_a_server_the_status_says_that_files_are_used(cortex):
    assert cortex("qdrant", "status")[:2] == (
        0,
        "No Qdrant is used: the vectors of documents are kept in files. See kb.qdrant.url.\n",
    )
    code, out, _ = cortex("qdrant", "status", "--json")
    assert (code, json.loads(out)["url"], json.loads(out)["reachable"]) == (0, "", False)
    code, _, err = cortex("qdrant", "purge", "--yes")
    assert (code, "kb.qdrant.url" in err) == (1, True)


def test_status_shows_collections_but_not_the_key(cortex, filled):
    code, out, err = cortex("qdrant", "status", "--json")
    status = json.loads(out)
    (row,) = status.pop("collections")
    assert (code, status) == (
        0,
        {"url": URL, "key": True, "collection": "cortex_kb", "reachable": True, "problem": ""},
    )
    assert row.pop("name").startswith("cortex_kb_")
    assert row.pop("model").startswith("cortex-static")
    assert row == {
        "points": 1,
        "provider": "local",
        "dimensions": 256,
        "own": True,
        "upToDate": True,
    }
    code, shown, more = cortex("qdrant", "status")
    assert (code, "Points:    1" in shown, "this library" in shown) == (0, True, True)
    assert KEY not in out + err + shown + more + cortex("config", "show")[1]


def test_unreachable_server_is_reported_with_the_reason(cortex, filled):
    filled.away = True
    code, out, _ = cortex("qdrant", "status")
    assert (code, "Reachable:   no: Qdrant at" in out, "Connection refused" in out) == (
        1,
        True,
        True,
    )
    code, out, _ = cortex("qdrant", "status", "--json")
    assert (code, json.loads(out)["reachable"]) == (1, False)
    code, out, err = cortex("qdrant", "purge", "--yes", "--json")
    assert (code, "QDRANT_UNAVAILABLE" in out + err) == (1, True)
    found = searched(cortex)
    assert (found["mode"], found["degraded"], found["results"][0]["path"]) == (
        "fts5",
        True,
        "desk.md",
    )
    code, _, err = cortex("kb", "sync")
    assert (code, "words only" in err, "Connection refused" in err) == (2, True, True)
    assert "Connection refused" in cortex("kb", "stats")[1]


def test_sync_restores_purged_collections(cortex, filled):
    code, _, err = cortex("qdrant", "purge")
    assert (code, "--yes" in err, len(filled.names())) == (2, True, 1)
    (name,) = filled.names()
    code, out, _ = cortex("qdrant", "purge", "--yes", "--json")
    assert (code, json.loads(out)) == (0, {"url": URL, "dropped": [{"name": name, "points": 1}]})
    assert filled.names() == []
    assert cortex("qdrant", "purge", "--yes")[1] == "There is nothing to drop.\n"
    assert searched(cortex)["degraded"] is True
    assert cortex("kb", "sync")[0] == 0
    assert filled.names() == [name]
    assert searched(cortex)["mode"] == "hybrid"


def test_collections_of_another_library_are_purged_only_with_all(
    cortex, filled, monkeypatch, tmp_path
):
    monkeypatch.setenv("CORTEX_HOME", str(tmp_path / "other"))
    rows = json.loads(cortex("qdrant", "status", "--json")[1])["collections"]
    assert [row["own"] for row in rows] == [False]
    cortex("qdrant", "purge", "--yes")
    assert len(filled.names()) == 1
    code, out, _ = cortex("qdrant", "purge", "--all", "--yes", "--url", "http://127.0.0.1:7777")
    assert (code, "Dropped" in out, filled.names()) == (0, True, [])
