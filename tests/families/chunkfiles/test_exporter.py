"""Chunk files exported from an index: their content, how they follow it, foreign files."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cortex.base.errors import Cancelled, CortexError
from cortex.base.settings import load
from cortex.base.types import Cancel
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine
from cortex.families.chunkfiles.exporter import Exporter, folder_of
from cortex.families.chunkfiles.format import ChunkFileReader, list_chunk_files

Open = Callable[..., Engine]
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
KEYS = [
    "id",
    "chunk_type",
    "title",
    "text",
    "embedding",
    "tags",
    "metadata",
    "created_at",
    "updated_at",
]
FILES = ["code-data.json", "code-definitions.json", "code-symbols.json", "doc-chunks.json"]
GO = """package auth

import (
\t"context"
\t"fmt"
)

// DefaultPort is where it listens.
const DefaultPort = 8080

// Session is somebody who is known.
type Session struct {
\tName string
}

// Login checks a password.
func (s *Session) Login(ctx context.Context, password string) error {
\treturn fmt.Errorf("no")
}
"""
PYTHON = '''"""Lamps."""
import enum

MAX_LAMPS = 3


class Colour(enum.Enum):
    """What a lamp shows."""

    RED = 1


class Lamp:
    """A lamp."""

    watts = 40

    def switch(self, on: bool) -> bool:
        """Turn it on or off."""
        return not on
'''
GUIDE = """---
title: Guide
tags: [Architecture, "design notes"]
---
# Guide
#lamps #how-to

How to switch a lamp. #beginner

## Install

```sh
#notatag
make install
```
"""


@dataclass(frozen=True)
class Project:
    root: Path
    open: Open

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    root = tmp_path / "work"
    root.mkdir()
    with ExitStack() as opened:

        def open_one(embedder=None, **flags: object) -> Engine:
            named = {name.replace("__", "."): value for name, value in flags.items()}
            settings = load(
                root,
                environment={"CORTEX_HOME": str(tmp_path / "home")},
                flags={"indexing.workers": 1, **named},
                user_home=tmp_path,
            )
            return opened.enter_context(
                Engine(root, settings, embedder=embedder or HashingEmbedder())
            )

        project = Project(root, open_one)
        project.write("pyproject.toml", "[project]\nname = 'x'\n")
        project.write("internal/auth/session.go", GO)
        project.write("src/lamp.py", PYTHON)
        project.write("docs/guide.md", GUIDE)
        yield project


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "chunks"


def strict_load(folder: Path) -> dict[str, dict]:
    """Chunks by id, as the strict loader of another program takes them."""
    chunks: dict[str, dict] = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_bytes().decode("utf-8"), parse_constant=pytest.fail)
        for chunk in content.get("chunks") or ():
            assert list(content) == ["_metadata", "chunks"]
            assert list(content["_metadata"]) == [
                "model",
                "dimensions",
                "chunk_type",
                "generated",
                "version",
            ]
            assert list(chunk) == KEYS
            assert chunk["id"] and chunk["id"] not in chunks
            assert chunk["text"]
            assert len(chunk["embedding"]) == content["_metadata"]["dimensions"]
            assert math.isclose(float(np.linalg.norm(chunk["embedding"])), 1.0, abs_tol=1e-5)
            assert chunk["chunk_type"] == content["_metadata"]["chunk_type"]
            assert all(RFC3339.fullmatch(chunk[name]) for name in ("created_at", "updated_at"))
            assert [
                chunk["metadata"][f"tag_{number}"] for number in range(len(chunk["tags"]))
            ] == chunk["tags"]
            assert list(chunk["metadata"]) == sorted(chunk["metadata"])
            chunks[chunk["id"]] = chunk
    return chunks


def export(project: Project, out: Path, **flags: object) -> dict[str, dict]:
    engine = project.open(**flags)
    engine.index()
    Exporter(engine, out).export()
    return strict_load(out)


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


# -- content
# ---------------------------------------------------------------------------------------------------


def test_code_file_is_exported_as_symbols_definitions_and_data(project, out):
    chunks = export(project, out)
    symbols = chunks["code-symbols-internal/auth/session.go"]
    assert symbols["title"] == "Symbols: internal/auth/session.go"
    assert symbols["text"] == (
        "Package: auth\n\nImports: 2 packages\n\nTypes:\n  - Session (struct) (lines 12-14)\n\n"
        "Functions:\n  - Session.Login(ctx context.Context, password string) error (lines 17-19)"
    )
    assert symbols["tags"] == ["code", "go", "symbols", "internal", "auth"]
    assert symbols["metadata"] == {
        "file_path": "internal/auth/session.go",
        "language": "go",
        "package": "auth",
        "source": "code",
        **{f"tag_{number}": tag for number, tag in enumerate(symbols["tags"])},
    }
    definitions = chunks["code-definitions-internal/auth/session.go"]
    assert definitions["text"] == (
        "// (lines 12-14)\n// Session is somebody who is known.\ntype Session struct {\n\tName string\n}\n\n"
        "// (lines 17-19)\n// Login checks a password.\n"
        "func (s *Session) Login(ctx context.Context, password string) error { ... }"
    )
    assert definitions["title"] == "Definitions: internal/auth/session.go"
    data = chunks["code-data-internal/auth/session.go"]
    assert (
        data["text"] == "// (line 9)\n// DefaultPort is where it listens.\nconst DefaultPort = 8080"
    )
    assert data["title"] == "Data: internal/auth/session.go"


def test_class_is_exported_up_to_its_first_method(project, out):
    chunks = export(project, out)
    definitions = chunks["code-definitions-src/lamp.py"]["text"]
    assert 'class Lamp:\n    """A lamp."""\n\n    watts = 40\n...' in definitions
    assert 'def switch(self, on: bool) -> bool:\n    """Turn it on or off."""' in definitions
    assert "return not on" not in definitions
    data = chunks["code-data-src/lamp.py"]["text"]
    assert "MAX_LAMPS = 3" in data
    assert "class Colour(enum.Enum):" in data and "RED = 1" in data
    assert "watts" not in data


def test_configuration_file_is_exported_as_data(project, out):
    project.write("deploy/app.yaml", "server:\n  port: 8080\n")
    chunk = export(project, out)["code-data-deploy/app.yaml"]
    assert chunk["text"] == "server:\n  port: 8080"
    assert chunk["tags"] == ["code", "yaml", "data", "deploy"]


def test_document_is_cut_by_section_and_tagged_by_its_text(project, out):
    chunks = export(project, out)
    first = chunks["doc-docs/guide.md-s1"]
    assert first["title"] == "Documentation: docs/guide.md (section 1)"
    assert first["tags"] == [
        *(
            "documentation",
            "markdown",
            "docs",
            "architecture",
            "design-notes",
            "lamps",
            "how-to",
            "beginner",
        )
    ]
    numbers = {
        name: first["metadata"][name]
        for name in ("section_index", "chunk_index", "start_line", "end_line")
    }
    assert numbers == {"section_index": 1, "chunk_index": 0, "start_line": 5, "end_line": 8}
    assert first["metadata"]["source"] == "markdown"
    second = chunks["doc-docs/guide.md-s2"]
    assert second["tags"] == [tag for tag in first["tags"] if tag != "beginner"]
    assert "notatag" not in second["tags"]


def test_a_long_section_is_cut_into_numbered_parts(project, out):
    project.write(
        "docs/long.md",
        "# Long\n\n" + "\n\n".join(f"Paragraph {n} about lamps and desks." for n in range(60)),
    )
    chunks = export(project, out, chunking__doc_chunk_size=100)
    parts = [name for name in chunks if name.startswith("doc-docs/long.md")]
    assert parts[:3] == ["doc-docs/long.md-s0", "doc-docs/long.md-s0-c1", "doc-docs/long.md-s0-c2"]
    assert [chunks[name]["metadata"]["chunk_index"] for name in parts] == list(range(len(parts)))
    assert {chunks[name]["title"] for name in parts} == {"Documentation: docs/long.md (section 0)"}


def test_only_configured_kinds_and_paths_are_exported(project, out):
    project.write(
        ".cortex/config.yml",
        'chunking: {strategies: ["symbols"]}\npaths: {code: ["**/*.go"], docs: ["nothing/**"]}\n',
    )
    settings = load(project.root, environment={"CORTEX_HOME": str(out / "home")}, user_home=out)
    with Engine(project.root, settings, embedder=HashingEmbedder()) as engine:
        engine.index()
        Exporter(engine, out).export()
    assert list(strict_load(out)) == ["code-symbols-internal/auth/session.go"]


def test_code_chunks_keep_to_the_configured_size(project, out):
    project.write(
        "many.py", "\n\n".join(f"def f{n}(value):\n    return value + {n}" for n in range(40))
    )
    chunks = export(project, out, chunking__code_chunk_size=100, chunking__overlap=20)
    parts = [chunk for name, chunk in chunks.items() if name.startswith("code-definitions-many.py")]
    assert len(parts) > 3
    assert all(len(part["text"]) < 500 for part in parts)
    last, following = (part["text"].split("\n\n") for part in parts[:2])
    assert following[0] in last and following[-1] not in last


# -- updates
# -----------------------------------------------------------------------------------------


def test_exported_files_read_back_the_same(project, out):
    chunks = export(project, out)
    listing = list_chunk_files(out)
    assert [file.name for file in listing.files] == FILES
    read = {}
    for file in listing.files:
        reading = ChunkFileReader(file.path)
        assert (reading.model, reading.dimensions) == ("words", 64)
        read |= {chunk.entry.id: chunk for chunk in reading}
        assert reading.warnings == []
    assert list(read) and set(read) == set(chunks)
    for name, chunk in read.items():
        assert (chunk.entry.text, list(chunk.entry.tags or ())) == (
            chunks[name]["text"],
            chunks[name]["tags"],
        )
        assert chunk.embedding is not None
        assert np.array_equal(
            chunk.embedding, HashingEmbedder().embed([chunk.entry.text], "passage")[0]
        )


def test_unchanged_index_writes_nothing_even_from_a_new_exporter(project, out):
    engine = project.open()
    engine.index()
    exporter = Exporter(engine, out)
    exporter.export()
    before = content_of(out)
    for again in (exporter, Exporter(engine, out)):
        report = again.export()
        assert (report.written, report.embedded) == ((), 0)
    assert content_of(out) == before
    assert not exporter.is_due()


def test_change_rewrites_only_its_file_and_other_chunks_keep_their_times(project, out):
    engine = project.open()
    engine.index()
    exporter = Exporter(engine, out)
    exporter.export()
    before = strict_load(out)
    project.write("src/lamp.py", PYTHON.replace("MAX_LAMPS = 3", "MAX_LAMPS = 4"))
    engine.index()
    assert exporter.is_due()
    report = exporter.export()
    assert report.written == ("code-data.json",)
    assert report.embedded == 1
    after = strict_load(out)
    changed = after.pop("code-data-src/lamp.py")
    old = before.pop("code-data-src/lamp.py")
    assert "MAX_LAMPS = 4" in changed["text"]
    assert changed["created_at"] == old["created_at"]
    assert changed["updated_at"] > old["updated_at"]
    assert after == before


def test_deleted_and_renamed_files_are_followed_without_new_embeddings(project, out):
    engine = project.open()
    engine.index()
    exporter = Exporter(engine, out)
    exporter.export()
    (project.root / "docs/guide.md").unlink()
    (project.root / "src/lamp.py").rename(project.root / "src/bulb.py")
    engine.index()
    report = exporter.export()
    assert report.embedded == 0
    chunks = strict_load(out)
    assert not any(name.startswith("doc-") for name in chunks)
    assert "code-symbols-src/bulb.py" in chunks and "code-symbols-src/lamp.py" not in chunks


def test_other_model_embeds_everything_again(project, out):
    first = export(project, out)
    engine = project.open(embedder=HashingEmbedder(32))
    report = Exporter(engine, out).export()
    assert len(report.written) == 4
    second = strict_load(out)
    assert set(first) == set(second)
    assert {len(chunk["embedding"]) for chunk in second.values()} == {32}


def test_generator_output_names_every_file(project, out):
    chunks = export(project, out)
    raw = (out / "generator-output.json").read_text(encoding="utf-8")
    notes = json.loads(raw)
    assert list(notes)[:6] == [
        "version",
        "dimensions",
        "generated_at",
        "file_checksums",
        "file_mtimes",
        "stats",
    ]
    assert set(notes["file_checksums"]) == {
        "pyproject.toml",
        "internal/auth/session.go",
        "src/lamp.py",
        "docs/guide.md",
    }
    assert all(RFC3339.fullmatch(moment) for moment in notes["file_mtimes"].values())
    assert notes["file_checksums"]["src/lamp.py"] == hashlib.sha256(PYTHON.encode()).hexdigest()
    documents = sum(chunk["chunk_type"] == "documentation" for chunk in chunks.values())
    assert notes["stats"]["total_doc_chunks"] == documents
    assert notes["stats"]["total_code_chunks"] == len(chunks) - documents
    assert raw.startswith('{\n  "version"')


# -- failures
# -------------------------------------------------------------------------------------------------


def test_files_of_another_program_are_replaced_only_with_force(project, out):
    out.mkdir()
    (out / "code-data.json").write_text('{"_metadata":{},"chunks":[]}', encoding="utf-8")
    (out / "own.txt").write_text("mine", encoding="utf-8")
    engine = project.open()
    engine.index()
    with pytest.raises(CortexError) as caught:
        Exporter(engine, out)
    assert caught.value.code == "CHUNKS_FOREIGN"
    Exporter(engine, out, force=True).export()
    assert strict_load(out)
    assert (out / "own.txt").read_text(encoding="utf-8") == "mine"
    assert Exporter(engine, out).export().written == ()


def test_interrupted_export_is_completed_by_the_next(project, out):
    engine = project.open()
    engine.index()
    stop = Cancel()
    stop.cancel()
    with pytest.raises(Cancelled):
        Exporter(engine, out).export(cancel=stop)
    # A disk that lost power may leave this
    (out / "code-data.json").write_text("{", encoding="utf-8")
    assert len(Exporter(engine, out).export().written) == 4
    assert strict_load(out)


def test_text_without_a_vector_takes_the_vector_of_its_title(project, out):
    class Forgetful(HashingEmbedder):
        def embed(self, texts, mode):
            rows = super().embed(texts, mode)
            for row, text in zip(rows, texts, strict=True):
                row *= "~~~" not in text and "hopeless" not in text
            return rows

    project.write("docs/signs.md", "~~~\n")
    project.write("docs/hopeless.md", "~~~ ~~~\n")
    engine = project.open(embedder=Forgetful())
    engine.index()
    report = Exporter(engine, out).export()
    assert report.left_out == 1
    chunks = strict_load(out)
    assert "doc-docs/signs.md-s0" in chunks and "doc-docs/hopeless.md-s0" not in chunks


def test_second_export_into_a_busy_folder_is_refused(project, out):
    engine = project.open()
    engine.index()
    entered, leave = threading.Event(), threading.Event()

    def hold(step: object) -> None:
        entered.set()
        assert leave.wait(20)

    worker = threading.Thread(target=lambda: Exporter(engine, out).export(progress=hold))
    worker.start()
    try:
        assert entered.wait(20)
        with pytest.raises(CortexError) as caught:
            Exporter(engine, out).export()
        assert caught.value.code == "INDEX_BUSY"
    finally:
        leave.set()
        worker.join(20)
    assert strict_load(out)


@pytest.mark.skipif(os.name == "nt", reason="links need a right that most don't have there")
def test_nothing_is_written_through_links(project, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project.root / ".cortex").mkdir(exist_ok=True)
    (project.root / ".cortex" / "chunks").symlink_to(elsewhere)
    engine = project.open()
    with pytest.raises(CortexError) as caught:
        folder_of(engine.settings, engine.root)
    assert caught.value.code == "PATH_OUTSIDE"
    assert folder_of(engine.settings, engine.root, elsewhere) == elsewhere
    out = tmp_path / "out"
    out.mkdir()
    (out / ".tmp").symlink_to(elsewhere)
    with pytest.raises(CortexError) as caught:
        Exporter(engine, out).export()
    assert caught.value.code == "PERMISSION_DENIED"
    assert list(elsewhere.iterdir()) == []


def test_bundled_model_embeds_when_no_embedder_is_configured(project, out, tmp_path):
    settings = load(
        project.root,
        environment={"CORTEX_HOME": str(tmp_path / "home")},
        flags={"indexing.embeddingProvider": "none"},
        user_home=tmp_path,
    )
    with Engine(project.root, settings) as engine:
        engine.index()
        report = Exporter(engine, out).export()
    assert report.model.startswith("cortex-static")
    assert {len(chunk["embedding"]) for chunk in strict_load(out).values()} == {report.dimensions}
