"""Memories read from exports, Markdown files and folders of notes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from cortex.base.errors import FileError
from cortex.base.types import Memory, Skipped
from cortex.families.memory.file_import import (
    MAX_NOTE_BYTES,
    ImportedMemory,
    natural,
    read,
    read_export,
    read_markdown,
)

ROW = {
    "id": 12,
    "memory_session_id": "inner",
    "project": "shop",
    "text": None,
    "type": "bugfix",
    "title": "Lamps flicker",
    "subtitle": "A relay was loose",
    "facts": '["The relay is K3", "It hums"]',
    "narrative": "We looked for hours.",
    "concepts": '["gotcha"]',
    "files_read": '["lamp.py"]',
    "files_modified": '["relay.py", "lamp.py"]',
    "prompt_number": 3,
    "created_at": "2026-01-08T10:00:00.000Z",
    "created_at_epoch": 1767866400000,
}
SESSION = {
    "memory_session_id": "inner",
    "content_session_id": "outer",
    "started_at_epoch": 1767779999000,
    "project": "shop",
}


def write(path: Path, said: object) -> Path:
    path.write_text(json.dumps(said), encoding="utf-8")
    return path


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


# -- exports
# -----------------------------------------------------------------------------------------------------------


def test_an_observation_of_an_export_is_a_memory_of_its_session(tmp_path):
    said = {
        "observations": [ROW],
        "sessions": [SESSION],
        "summaries": [{"learned": "x"}],
        "prompts": [{}],
    }
    (brought,) = read_export(write(tmp_path / "export.json", said))
    assert brought == ImportedMemory(
        Memory(
            key="obs_12",
            title="Lamps flicker",
            subtitle="A relay was loose",
            facts=("The relay is K3", "It hums"),
            concepts=("gotcha",),
            files=("lamp.py", "relay.py"),
            text="We looked for hours.",
            project="shop",
            session="outer",
            date="2026-01-07",
            created=1767866400000,
            kind="bugfix",
            provenance="export",
        )
    )


def test_export_rows_may_have_real_lists_and_missing_columns(tmp_path):
    rows = [
        {"title": "a", "facts": ["one", 2, None, {}]},
        {"narrative": "First line.\nSecond.", "facts": "null"},
    ]
    first, second = read_export(write(tmp_path / "export.json", {"observations": rows}))
    assert (first.memory.facts, first.memory.session, first.memory.created) == (("one", "2"), "", 0)
    assert (second.memory.title, second.memory.text, second.memory.facts) == (
        "First line.",
        "First line.\nSecond.",
        (),
    )


def test_merged_project_counts_unless_a_project_is_given(tmp_path):
    path = write(
        tmp_path / "export.json", {"observations": [{**ROW, "merged_into_project": "mall"}]}
    )
    assert [imported.memory.project for imported in read_export(path)] == ["mall"]
    assert [imported.memory.project for imported in read_export(path, project="mine")] == ["mine"]


def test_empty_rows_of_an_export_are_reported(tmp_path):
    skips: list[Skipped] = []
    path = write(
        tmp_path / "export.json",
        {"observations": [{"id": 1}, 7, ROW], "sessions": [None, {"x": 1}]},
    )
    assert len(list(read_export(path, report=skips.append))) == 1
    assert skips == [
        Skipped("observations[0]", "it says nothing"),
        Skipped("observations[1]", "it is no object"),
    ]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"observations": 3}', b"[" * 100_000, b"\xff\xfe{}", b"\x00" * 50],
)
def test_file_that_is_no_export_is_reported(tmp_path, content):
    path = tmp_path / "export.json"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        list(read(path))
    assert caught.value.code == "IMPORT_UNREADABLE"
    assert str(path) in caught.value.message


def test_oversized_export_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("cortex.families.memory.file_import.MAX_EXPORT_BYTES", 10)
    with pytest.raises(FileError) as caught:
        list(read(write(tmp_path / "export.json", {"observations": []})))
    assert "larger than" in caught.value.message


@pytest.mark.parametrize("name", ["gone.json", "gone.md", "gone"])
def test_missing_file_is_reported(tmp_path, name):
    with pytest.raises(FileError) as caught:
        list(read(tmp_path / name))
    assert caught.value.code == "FILE_NOT_FOUND"


# -- notes
# -------------------------------------------------------------------------------------------------------------


def test_a_folder_gives_one_memory_for_each_file_in_natural_order(tmp_path):
    notes = fill(
        tmp_path / "notes",
        {
            "D1_10.md": "ten",
            "D1_2.md": "two",
            "D1_1.txt": "# One\n\nbody",
            "deep/er/x.MD": "deep",
            "no.py": "x = 1",
        },
    )
    memories = [imported.memory for imported in read(notes)]
    assert [memory.title for memory in memories] == ["One", "two", "ten", "deep"]
    assert [memory.session for memory in memories] == ["notes", "notes", "notes", "deep/er"]
    assert {memory.project for memory in memories} == {"notes"}
    assert {(memory.key, memory.provenance) for memory in memories} == {("", "note")}
    assert [imported.memory.project for imported in read(notes, project="mine")] == ["mine"] * 4


def test_note_without_a_date_takes_its_files_time(tmp_path):
    notes = fill(tmp_path, {"a.md": "no date", "b.md": "---\ndate: 2026-01-05\n---\nbody"})
    os.utime(notes / "a.md", (1_700_000_000, 1_700_000_000))
    dates = [(imported.memory.date, imported.memory.created) for imported in read_markdown(notes)]
    assert dates == [("2023-11-14", 1_700_000_000_000), ("2026-01-05", 1767571200000)]


def test_unusable_notes_are_reported_but_hidden_folders_are_not(tmp_path):
    notes = fill(
        tmp_path / "notes",
        {
            "good.md": "good",
            "empty.md": " \n",
            "credentials.txt": "password",
            "large.md": "x" * (MAX_NOTE_BYTES + 1),
            ".hidden/a.md": "hidden",
            "node_modules/a.md": "somebody's",
            "key.md": "-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 64 + "\n",
        },
    )
    (notes / "binary.md").write_bytes(b"\x00\x01" * 100)
    skips: list[Skipped] = []
    assert [imported.memory.title for imported in read(notes, report=skips.append)] == ["good"]
    assert {skipped.path: skipped.reason for skipped in skips} == {
        "binary.md": "binary",
        "credentials.txt": "secret",
        "empty.md": "empty",
        "key.md": "private key",
        "large.md": "too large",
    }


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_out_of_the_folder_are_not_followed(tmp_path):
    fill(tmp_path, {"outside/secret.md": "secret", "notes/a.md": "a"})
    (tmp_path / "notes" / "link.md").symlink_to(tmp_path / "outside" / "secret.md")
    (tmp_path / "notes" / "folder").symlink_to(tmp_path / "outside", target_is_directory=True)
    skips: list[Skipped] = []
    assert [
        imported.memory.title for imported in read(tmp_path / "notes", report=skips.append)
    ] == ["a"]
    assert Skipped("link.md", "symlink") in skips


def test_files_beyond_the_limit_are_reported(tmp_path, monkeypatch):
    from dataclasses import replace

    from cortex.families.memory import file_import

    monkeypatch.setattr(file_import, "_RULES", replace(file_import._RULES, max_files=2))
    skips: list[Skipped] = []
    assert (
        len(list(read(fill(tmp_path, {f"{n}.md": "x" for n in range(5)}), report=skips.append)))
        == 2
    )
    assert len(skips) == 3


def test_ignored_folder_is_read_when_it_is_named(tmp_path):
    fill(tmp_path, {".gitignore": "notes/\n*.local.md\n", "notes/CLAUDE.local.md": "mine"})
    assert [imported.memory.title for imported in read(tmp_path / "notes")] == ["mine"]


def test_one_file_is_one_memory_of_its_folder(tmp_path):
    path = fill(tmp_path / "shop", {"CLAUDE.md": "# Shop\n\nUse tabs.\n"}) / "CLAUDE.md"
    (brought,) = read(path)
    assert (brought.memory.title, brought.memory.text) == ("Shop", "Use tabs.")
    assert (brought.memory.project, brought.memory.session) == ("shop", "shop")


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_named_file_may_be_a_link(tmp_path):
    path = fill(tmp_path / "shop", {"AGENTS.md": "# Shop\n"}) / "CLAUDE.md"
    path.symlink_to("AGENTS.md")
    assert [imported.memory.title for imported in read(path)] == ["Shop"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("credentials.txt", b"x", "secrets"),
        ("a.pdf", b"%PDF-1.4", "no Markdown"),
        ("a.md", b"\x00\x01" * 50, "binary"),
        ("b.md", b" \n", "empty"),
        ("c.md", b"x" * (MAX_NOTE_BYTES + 1), "too large"),
    ],
)
def test_unusable_file_is_refused_with_the_reason(tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError) as caught:
        list(read(tmp_path / name))
    assert caught.value.code == "IMPORT_UNREADABLE"
    assert why in caught.value.message


@hypothesis.given(strategies.lists(strategies.text(max_size=8), max_size=6))
def test_natural_order_is_independent_of_the_input_order(names):
    assert sorted(sorted(names), key=natural) == sorted(
        sorted(names, reverse=True), key=lambda name: (natural(name), name)
    )
