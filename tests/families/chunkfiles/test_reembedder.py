"""New vectors for the chunk files of another model."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from cortex.base.errors import CortexError
from cortex.engine.embedders.circuit_breaker import CircuitBreaker
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.families.chunkfiles.export_files import is_ours
from cortex.families.chunkfiles.exporter import reembed

HEAD = {
    "model": "BAAI/bge-small-en-v1.5",
    "dimensions": 3,
    "chunk_type": "data",
    "generated": "x",
    "version": "2.0.0",
}


def chunk(number: int, **more: object) -> dict[str, object]:
    return {
        "id": f"code-data-{number}.go",
        "chunk_type": "data",
        "title": f"Data: {number}.go",
        "text": f"const Lamp{number} = {number} // ö \n\t\u2028",
        "embedding": [0.1, 0.2, 0.3],
        "tags": ["code", "go", "data"],
        "metadata": {
            "file_path": f"{number}.go",
            "start_line": 1,
            "share": 0.10,
            "large": 12345678901234567890,
            "no": None,
        },
        "created_at": "2025-10-28T22:06:02.745712-06:00",
        "updated_at": "2025-10-28T22:06:02.745712-06:00",
        **more,
    }


def put(folder: Path, name: str, content: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(
        content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
    )


def run(folder: Path, dimensions: int = 16) -> dict[str, tuple[int, str, str]]:
    done = reembed(folder, CircuitBreaker(HashingEmbedder(dimensions)))
    return {file.name: (file.chunks, file.before, file.problem) for file in done}


def test_reembedding_changes_only_model_dimensions_and_vectors(tmp_path):
    before = {
        "_metadata": HEAD,
        "chunks": [chunk(1), chunk(2, extra={"kept": [1, 2.50, True], "embedding": [1, 2]})],
        "later": 1e400,
    }
    put(
        tmp_path,
        "code-data.json",
        json.dumps(before).replace("0.1,", "0.100,").replace("Infinity", "1e400"),
    )
    assert run(tmp_path) == {"code-data.json": (2, "BAAI/bge-small-en-v1.5", "")}
    raw = (tmp_path / "code-data.json").read_text(encoding="utf-8")
    # Numbers as they were written
    assert '"later":1e400' in raw and "2.5," in raw
    after = json.loads(raw)
    assert after["_metadata"] == {**HEAD, "model": "words", "dimensions": 16}
    assert list(after["_metadata"]) == list(HEAD)
    for old, new in zip(before["chunks"], after["chunks"], strict=True):
        assert list(old) == list(new)
        vector = new.pop("embedding")
        wanted = HashingEmbedder(16).embed([str(old["text"])], "passage")[0]
        assert np.array_equal(np.asarray(vector, np.float32), wanted)
        assert new == {name: value for name, value in old.items() if name != "embedding"}
    assert run(tmp_path) == {"code-data.json": (0, "words", "")}


def test_bare_list_is_wrapped_with_the_name_of_its_model(tmp_path):
    put(tmp_path, "list.json", [{"id": "a", "text": "lamp"}])
    assert run(tmp_path) == {"list.json": (1, "", "")}
    content = json.loads((tmp_path / "list.json").read_text(encoding="utf-8"))
    assert content["_metadata"] == {"model": "words", "dimensions": 16}
    assert list(content["chunks"][0]) == ["id", "text", "embedding"]


@pytest.mark.parametrize(
    "content",
    [
        '{"chunks": [',
        '{"chunks": [{"id": "a"}]}',
        '{"graph": 1}',
        '"text"',
        '{"chunks": [NaN]}',
        "[" * 50_000,
    ],
)
def test_invalid_chunk_file_is_left_alone_and_named(tmp_path, content):
    put(tmp_path, "bad.json", content)
    put(tmp_path, "good.json", {"_metadata": HEAD, "chunks": [chunk(1)]})
    put(tmp_path, "generator-output.json", '{"version": "2.0.0"}')
    done = run(tmp_path)
    assert set(done) == {"bad.json", "good.json"}
    assert done["bad.json"][0] == 0 and "chunk file" in done["bad.json"][2]
    assert done["good.json"][0] == 1
    assert (tmp_path / "bad.json").read_text(encoding="utf-8") == content
    assert (tmp_path / "generator-output.json").read_text(
        encoding="utf-8"
    ) == '{"version": "2.0.0"}'


def test_missing_folder_is_an_error(tmp_path):
    with pytest.raises(CortexError) as caught:
        run(tmp_path / "none")
    assert caught.value.code == "FILE_NOT_FOUND"


def test_links_and_pipes_are_left_alone(tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps([chunk(1)]), encoding="utf-8")
    put(tmp_path / "chunks", "code-data.json", {"_metadata": HEAD, "chunks": [chunk(0)]})
    (tmp_path / "chunks" / "private.json").symlink_to(outside)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "chunks" / "pipe.json")
        os.mkfifo(tmp_path / "chunks" / "generator-output.json")
    assert run(tmp_path / "chunks").keys() == {"code-data.json"}
    assert (tmp_path / "chunks" / "private.json").is_symlink()
    assert is_ours(tmp_path / "chunks") is False
