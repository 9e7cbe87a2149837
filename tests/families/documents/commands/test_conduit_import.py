"""`cortex kb import conduit` as a person or a script runs it."""

import json

import pytest

from families.documents.conduit_databases import make_base

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def base(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "lamp.md").write_text("# Lamp\n\nHow to switch a lamp.\n", encoding="utf-8")
    made = make_base(tmp_path / "conduit" / "conduit.db", 1)
    made.source("the-id", str(notes), "My notes")
    yield made
    made.connection.close()


def test_imported_conduit_database_is_searched(cortex, base, monkeypatch):
    monkeypatch.setenv("CONDUIT_HOME", str(base.path.parent))
    code, out, _ = cortex("kb", "import", "conduit")
    assert code == 0
    assert "✓ My notes: 1 documents, 1 chunks" in out and "ID: the-id" in out and "version 1" in out
    code, out, _ = cortex("kb", "search", "switch a lamp", "--source", "the-id", "--json")
    assert (code, json.loads(out)["results"][0]["path"]) == (0, "lamp.md")


def test_missing_source_makes_an_import_partial(cortex, base, tmp_path):
    base.source("gone", str(tmp_path / "gone"), "Old")
    code, out, err = cortex("kb", "import", "conduit", base.path)
    assert code == 2 and "✗ Old (gone)" in err and "✓ My notes" in out
    code, out, _ = cortex("kb", "import", "conduit", base.path, "--json")
    assert (code, [row["status"] for row in json.loads(out)["sources"]]) == (2, ["present", "gone"])


def test_file_that_is_no_conduit_database_is_an_error(cortex, tmp_path):
    code, _, err = cortex("kb", "import", "conduit", tmp_path)
    assert code == 1 and "FILE_NOT_FOUND" in err
    (tmp_path / "conduit.db").write_bytes(b"x" * 1000)
    code, _, err = cortex("kb", "import", "conduit", tmp_path)
    assert code == 1 and "IMPORT_UNREADABLE" in err
