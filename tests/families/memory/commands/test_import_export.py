"""`cortex memory import|export` as a person types them."""

import json
import os
import stat

import pytest

from families.memory.commands.memory_answers import answer, titles
from protocol.code_server import check_envelope

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")

NOTES = {
    "decisions/0001-sqlite.md": "---\ntags: [db, local]\ntype: decision\ndate: 2026-03-04\n---\n# Use SQLite\n\nIt is local.\n",
    "MEMORY.md": "# What is known\n\n- Tokens live 15 minutes\n",
    "key.md": "# The key\n\nIt is ghp_aZ3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zB3\n",
    "empty.md": "\n",
}


@pytest.fixture
def notes(tmp_path):
    for name, text in NOTES.items():
        (tmp_path / "notes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / name).write_text(text, encoding="utf-8")
    return tmp_path / "notes"


def test_notes_are_imported_into_staging_and_refused_ones_are_named(cortex, notes):
    code, out, err = cortex("memory", "import", notes, "--dry-run")
    assert (code, out) == (2, "Would be: 2 added, 0 known already, 2 refused\n")
    assert titles(cortex, "--state", "any") == []
    code, out, err = cortex("memory", "import", notes)
    assert code == 2
    assert out.startswith("✓ 2 added, 0 known already, 2 refused\n")
    assert "The key: this memory is not kept: it holds a secret" in err
    assert "empty.md: empty" in err
    found = {
        memory["title"]: memory
        for memory in answer(cortex, "list", "--state", "staging")["memories"]
    }
    assert set(found) == {"Use SQLite", "What is known"}
    assert (
        found["Use SQLite"]
        | {"concepts": ["db", "local"], "kind": "decision", "date": "2026-03-04"}
        == found["Use SQLite"]
    )
    assert {memory["project"] for memory in found.values()} == {"notes"}
    code, out, _ = cortex("memory", "import", notes, "--json")
    body = json.loads(out)
    assert (code, body["added"], body["duplicates"], body["memories"]) == (2, 0, 2, [])
    assert [refusal["title"] for refusal in body["refused"]] == ["The key", "empty.md"]


def test_import_options_set_project_scope_and_state(cortex, notes):
    done = answer(
        cortex,
        "import",
        notes / "MEMORY.md",
        "--project",
        "ack",
        "--scope",
        "dev",
        "--state",
        "approved",
        "--from",
        "markdown",
    )
    (found,) = answer(cortex, "list")["memories"]
    assert done["memories"] == [found["id"]]
    assert (found["project"], found["scope"], found["state"]) == ("ack", "dev", "approved")
    assert answer(cortex, "undo")["undone"] == 1


@pytest.mark.parametrize(
    ("name", "more", "code"),
    [
        ("nowhere", [], "FILE_NOT_FOUND"),
        ("broken.json", [], "IMPORT_UNREADABLE"),
        ("other.json", [], "IMPORT_UNREADABLE"),
        ("MEMORY.md", ["--from", "claude-mem-export"], "IMPORT_UNREADABLE"),
        ("claude-mem.db", [], "ARGUMENT_INVALID"),
    ],
)
def test_unreadable_import_is_reported(cortex, notes, name, more, code):
    (notes / "broken.json").write_text("{", encoding="utf-8")
    (notes / "other.json").write_text('{"name": "package"}', encoding="utf-8")
    _, out, _ = cortex("memory", "import", notes / name, *more, "--json")
    assert check_envelope(json.loads(out))["code"] == code


def test_exported_memories_are_imported_unchanged(cortex, isolated, foreign, tmp_path):
    own = answer(
        cortex,
        "add",
        "Lamps burn",
        "--fact",
        "long",
        "--tag",
        "light",
        "--cite",
        "src/login.py#check",
        "--kind",
        "gotcha",
    )
    answer(cortex, "promote", own["id"])
    answer(
        cortex, "add", "Desks stand", "--state", "staging", "--scope", "dev", "--text", "A\nstory"
    )
    answer(cortex, "approve", "obs_2")
    answer(cortex, "reject", "obs_1")
    file = tmp_path / "out.json"
    code, out, _ = cortex("memory", "export", "--state", "any", "-o", file)
    assert (code, out) == (0, f"✓ Wrote 4 memories to {file}\n")
    if os.name != "nt":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = answer(cortex, "list", "--state", "any")["memories"]
    answer(cortex, "delete", "--all")
    assert answer(cortex, "import", file, "--state", "exported")["added"] == 4
    after = answer(cortex, "list", "--state", "any")["memories"]
    same = (
        "title",
        "facts",
        "concepts",
        "files",
        "text",
        "kind",
        "project",
        "scope",
        "date",
        "created_at",
        "state",
    )
    assert sorted([{name: memory[name] for name in same} for memory in after], key=str) == sorted(
        [{name: memory[name] for name in same} for memory in before], key=str
    )
    lamp = next(memory["id"] for memory in after if memory["title"] == "Lamps burn")
    assert [citation["symbol"] for citation in answer(cortex, "show", lamp)["citations"]] == [
        "check"
    ]


def test_imported_memory_keeps_its_id_unless_it_is_taken(cortex, tmp_path):
    new, old, other = (
        answer(cortex, "add", title)["id"] for title in ("Lamps burn", "Lamps glow", "Desks stand")
    )
    answer(cortex, "supersede", old, "--by", new)
    file = tmp_path / "out.json"
    answer(cortex, "export", "--state", "any", "-o", file)
    answer(cortex, "delete", new, old)
    answer(cortex, "edit", other, "--title", "Desks fall")
    answer(cortex, "import", file, "--state", "exported")
    found = {
        memory["title"]: memory for memory in answer(cortex, "list", "--state", "any")["memories"]
    }
    assert (found["Lamps burn"]["id"], found["Lamps glow"]["id"]) == (new, old)
    assert (found["Lamps glow"]["state"], found["Lamps glow"]["superseded_by"]) == (
        "superseded",
        new,
    )
    assert found["Desks fall"]["id"] == other
    assert found["Desks stand"]["id"] not in (new, old, other)
    answer(cortex, "delete", "--all", "--state", "any")
    answer(cortex, "import", file)
    states = {
        (memory["state"], memory["superseded_by"])
        for memory in answer(cortex, "list", "--state", "any")["memories"]
    }
    assert states == {("staging", "")}


def test_export_is_narrowed_and_overwrites_only_with_force(cortex, foreign, tmp_path):
    answer(cortex, "add", "Lamps burn")
    _, out, _ = cortex("memory", "export", "--origin", "own")
    assert [row["title"] for row in json.loads(out)["observations"]] == ["Lamps burn"]
    file = tmp_path / "out.json"
    file.write_text("mine", encoding="utf-8")
    code, out, _ = cortex("memory", "export", "-o", file, "--json")
    assert (code, check_envelope(json.loads(out))["code"]) == (2, "ARGUMENT_INVALID")
    assert file.read_text(encoding="utf-8") == "mine"
    assert answer(cortex, "export", "-o", file, "--force", "--project", "ack") == {
        "file": str(file),
        "memories": 2,
    }
    assert len(json.loads(file.read_text(encoding="utf-8"))["observations"]) == 2
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")] == []
    code, out, _ = cortex("memory", "export", "-o", tmp_path / "no" / "folder.json", "--json")
    assert (code, check_envelope(json.loads(out))["category"]) == (1, "filesystem")


def test_large_import_is_undone_in_one_step(cortex, tmp_path):
    rows = [
        {"id": number, "title": f"Lamp number {number}", "project": "p"} for number in range(1_200)
    ]
    (tmp_path / "many.json").write_text(json.dumps({"observations": rows}), encoding="utf-8")
    assert answer(cortex, "import", tmp_path / "many.json")["added"] == 1_200
    assert answer(cortex, "undo")["undone"] == 1_200
    assert answer(cortex, "list")["total"] == 0
