"""Chunk files as indexers write them, and malformed ones."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import FileError
from cortex.families.chunkfiles import format
from cortex.families.chunkfiles.format import ChunkFileReader, list_chunk_files


def chunk(number: int = 1, **changes: object) -> dict:
    return {
        "id": f"doc-{number}",
        "chunk_type": "documentation",
        "title": f"Part {number}",
        "text": f"text of part {number}",
        "embedding": [0.1 * number, 0.2, 0.3],
        "tags": ["documentation"],
        "metadata": {"file_path": "docs/a.md", "start_line": number},
        "created_at": "2025-10-28T22:06:02.745712-06:00",
        "updated_at": "2025-10-28T22:06:02.745712-06:00",
    } | changes


def wrapped(*chunks: object, **about: object) -> dict:
    return {
        "_metadata": {"model": "BAAI/bge-small-en-v1.5", "dimensions": 3} | about,
        "chunks": list(chunks),
    }


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def read(path: Path) -> tuple[list, ChunkFileReader]:
    reading = ChunkFileReader(path)
    return list(reading), reading


@pytest.fixture
def file(tmp_path):
    return tmp_path / "doc-chunks.json"


def test_a_wrapped_file_gives_its_chunks_with_model_and_dimensions(file):
    found, reading = read(write(file, wrapped(chunk(1), chunk(2))))
    assert [parsed.entry.id for parsed in found] == ["doc-1", "doc-2"]
    assert (reading.model, reading.dimensions, reading.warnings) == (
        "BAAI/bge-small-en-v1.5",
        3,
        [],
    )
    assert found[0].embedding.dtype == np.float32
    assert found[1].embedding.tolist() == pytest.approx([0.2, 0.2, 0.3])


def test_first_vector_of_a_bare_list_sets_the_dimensions(file):
    found, reading = read(write(file, [chunk(1), chunk(2, embedding=[1, 2])]))
    assert [parsed.entry.id for parsed in found] == ["doc-1"]
    assert (reading.model, reading.dimensions) == ("", 3)
    assert reading.warnings == [
        "doc-chunks.json: chunk 2 (doc-2) has an embedding of 2 numbers instead of 3 (left out)"
    ]


def test_metadata_after_the_chunks_is_read(file):
    text = json.dumps({"chunks": [chunk()], "_metadata": {"model": "m", "dimensions": 3}})
    found, reading = read(write(file, text))
    assert (len(found), reading.model) == (1, "m")


def test_fields_are_kept_as_they_are_written(file):
    metadata = {
        "n": 1,
        "f": 1.5,
        "big": 2**70,
        "null": None,
        "deep": {"list": [1, "two", None, True]},
    }
    written = chunk(metadata=metadata, tags=None, title=None)
    del written["chunk_type"]
    ((parsed,), _) = read(write(file, wrapped(written)))
    assert parsed.entry.metadata == metadata
    assert (parsed.entry.tags, parsed.entry.title, parsed.entry.chunk_type) == (None, None, None)
    assert parsed.entry.created_at == "2025-10-28T22:06:02.745712-06:00"


def test_keys_are_read_in_any_order_and_unknown_keys_are_ignored(file):
    written = dict(reversed([*chunk(text="é" * 50_000).items(), ("extra", {"embedding": [1]})]))
    ((parsed,), reading) = read(write(file, wrapped(written)))
    assert (parsed.entry.text, len(parsed.embedding), reading.warnings) == ("é" * 50_000, 3, [])


@pytest.mark.parametrize("embedding", [None, []])
def test_a_chunk_without_a_vector_is_served(file, embedding):
    ((parsed,), reading) = read(write(file, wrapped(chunk(embedding=embedding))))
    assert (parsed.embedding, reading.warnings) == (None, [])


def test_embedding_key_inside_metadata_is_no_vector(file):
    written = {"id": "a", "metadata": {"embedding": [1, 2]}, "text": "t"}
    found, _ = read(write(file, wrapped(written, chunk(2))))
    assert found[0].entry.metadata == {"embedding": [1, 2]}
    assert found[0].embedding is None
    assert len(found[1].embedding) == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"embedding": [0.1, 0.2]}, "2 numbers instead of 3"),
        ({"embedding": [0.1, 0.2, float("nan")]}, "no finite number"),
        ({"embedding": [0.1, 0.2, float("inf")]}, "no finite number"),
        ({"embedding": [0.1, 0.2, 1e300]}, "no finite number"),
        ({"embedding": [0.1, 0.2, "0.3"]}, "no list of numbers"),
        ({"embedding": [0.1, 0.2, None]}, "no list of numbers"),
        ({"embedding": [0.1, 0.2, [0.3]]}, "no list of numbers"),
        ({"embedding": [True, False, True]}, "no list of numbers"),
        ({"embedding": [1, 2, 10**500]}, "no"),
        ({"embedding": "0.1,0.2,0.3"}, "no list"),
        ({"embedding": {"0": 0.1}}, "no list"),
        ({"id": ""}, "has no id"),
        ({"id": None}, "has no id"),
        ({"id": 7}, "id that is no text"),
        ({"text": ""}, "has no text"),
        ({"text": None}, "has no text"),
        ({"text": ["a"]}, "has no text"),
        ({"title": 7}, "title that is no text"),
        ({"tags": "go"}, "tags that are no list of texts"),
        ({"tags": ["go", 7]}, "tags that are no list of texts"),
        ({"metadata": ["a"]}, "metadata that is no object"),
        ({"metadata": {"n": float("inf")}}, "number that is too large"),
        ({"chunk_type": 3}, "chunk_type that is no text"),
        ({"created_at": 1_730_000_000}, "created_at that is no text"),
    ],
)
def test_a_malformed_chunk_is_named_and_the_rest_is_served(file, changes, reason):
    found, reading = read(write(file, wrapped(chunk(1), chunk(2, **changes), chunk(3))))
    assert [parsed.entry.id for parsed in found] == ["doc-1", "doc-3"]
    (warning,) = reading.warnings
    assert warning.startswith("doc-chunks.json: chunk 2")
    assert reason in warning


@pytest.mark.parametrize("value", [7, "text", None, [1, 2]])
def test_chunk_that_is_no_object_is_left_out(file, value):
    found, reading = read(write(file, wrapped(value, chunk(2))))
    assert [parsed.entry.id for parsed in found] == ["doc-2"]
    assert reading.warnings == ["doc-chunks.json: chunk 1 is no object (left out)"]


def test_chunk_with_an_oversized_number_is_left_out(file):
    text = json.dumps(wrapped(chunk(1), chunk(2))).replace(
        '"start_line": 1', '"start_line": ' + "9" * 100_000
    )
    text = text.replace("doc-2", "doc-two")
    found, reading = read(write(file, text))
    assert [parsed.entry.id for parsed in found] == ["doc-two"]
    assert "number that is too large" in reading.warnings[0]


def test_warnings_about_malformed_chunks_are_capped(file):
    _, reading = read(write(file, wrapped(*[{"id": str(n)} for n in range(100)])))
    assert len(reading.warnings) == format.MAX_WARNINGS + 1
    assert reading.warnings[-1] == "doc-chunks.json: 80 more chunks are malformed"


@pytest.mark.parametrize("cut", [1, 2, 20, 200, 400, -1, -2])
def test_a_truncated_file_is_an_error(file, cut):
    write(file, json.dumps(wrapped(chunk(1), chunk(2)))[:cut])
    with pytest.raises(FileError) as caught:
        read(file)
    assert caught.value.code == "FILE_UNREADABLE"
    assert "doc-chunks.json" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "nonsense",
        "7",
        '"chunks"',
        '{"chunks": 7 8}',
        '{"chunks": [{}]} more',
        '{"chunks": [1 2]}',
        "{chunks: []}",
        "[" * 100_000,
        '{"chunks": [' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "]}",
    ],
)
def test_invalid_json_is_an_error(file, text):
    with pytest.raises(FileError) as caught:
        read(write(file, text))
    assert caught.value.code == "FILE_UNREADABLE"


def test_invalid_utf8_is_an_error(file):
    file.write_bytes(json.dumps(wrapped(chunk())).encode("utf-16"))
    with pytest.raises(FileError):
        read(file)


def test_byte_order_mark_is_skipped(file):
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(wrapped(chunk())).encode())
    assert len(read(file)[0]) == 1


def test_file_without_chunks_is_warned_about_and_an_empty_list_is_not(file):
    assert read(write(file, {"nodes": []}))[1].warnings == ["doc-chunks.json holds no chunks"]
    assert read(write(file, wrapped()))[1].warnings == []
    assert read(write(file, {"chunks": None}))[1].warnings == []


@pytest.mark.parametrize("dimensions", ["384", -1, 0, 1.5, True, 10**9])
def test_invalid_dimensions_are_ignored_with_a_warning(file, dimensions):
    found, reading = read(write(file, wrapped(chunk(), dimensions=dimensions)))
    assert (len(found), reading.dimensions) == (1, 3)
    assert "ignored" in reading.warnings[0]


def test_lone_surrogates_are_replaced(file):
    text = json.dumps(
        wrapped(
            chunk(id="a\ud800", text="\udfffx", tags=["\ud800"], metadata={"k\ud800": "\udc00"})
        )
    )
    ((parsed,), _) = read(write(file, text))
    assert (parsed.entry.id, parsed.entry.text) == ("a�", "�x")
    assert (parsed.entry.tags, parsed.entry.metadata) == (("�",), {"k�": "�"})


@given(
    texts=st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=6),
    block=st.sampled_from([7, 64, 1000]),
    indent=st.sampled_from([None, 2]),
    order=st.booleans(),
)
def test_file_reads_the_same_in_blocks_of_any_size(tmp_path_factory, texts, block, indent, order):
    chunks = [
        chunk(number, text=text, id=f"{number}-{text[:5]}") for number, text in enumerate(texts)
    ]
    if order:
        chunks = [dict(reversed(written.items())) for written in chunks]
    file = tmp_path_factory.mktemp("pieces") / "a.json"
    file.write_text(
        json.dumps(wrapped(*chunks), indent=indent, ensure_ascii=False)
        .encode("utf-8", "replace")
        .decode()
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(format, "BLOCK", block)
        found, reading = read(file)
    assert reading.warnings == []
    expected = json.loads(file.read_text(encoding="utf-8"))["chunks"]
    assert [(parsed.entry.id, parsed.entry.text) for parsed in found] == [
        (written["id"], written["text"]) for written in expected
    ]
    assert [parsed.embedding.tolist() for parsed in found] == [
        np.asarray(written["embedding"], dtype=np.float32).tolist() for written in expected
    ]


def test_only_the_json_files_of_the_folder_itself_are_listed(tmp_path):
    for name in ("b.json", "a.json", "generator-output.json", "notes.txt", "c.JSON"):
        write(tmp_path / name, {})
    (tmp_path / "graph").mkdir()
    write(tmp_path / "graph" / "code-graph.json", {})
    (tmp_path / "folder.json").mkdir()
    listing = list_chunk_files(tmp_path)
    assert [file.name for file in listing.files] == ["a.json", "b.json"]
    assert listing.warnings == ("folder.json is no ordinary file (left out)",)


def test_changed_content_changes_the_signature(tmp_path):
    first = list_chunk_files(write(tmp_path / "a.json", {}).parent).files
    write(tmp_path / "new.tmp", []).replace(tmp_path / "a.json")
    assert list_chunk_files(tmp_path).files != first


@pytest.mark.skipif(sys.platform == "win32", reason="names and links of POSIX")
def test_links_and_pipes_are_left_out_and_strange_names_are_listed(tmp_path):
    write(tmp_path / "a.json", {})
    (tmp_path / "link.json").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe.json")
    write(tmp_path / "two\nlines 🎉.json", wrapped({"id": "x"}))
    open(os.fsencode(tmp_path) + b"/bad-\xff.json", "w").close()
    listing = list_chunk_files(tmp_path)
    assert [file.name for file in listing.files] == ["a.json", "two\nlines 🎉.json"]
    assert len(listing.warnings) == 3
    _, reading = read(tmp_path / "two\nlines 🎉.json")
    assert "\n" not in reading.warnings[0]


def test_a_missing_folder_or_file_is_an_error(tmp_path):
    with pytest.raises(FileError) as caught:
        list_chunk_files(tmp_path / "nowhere")
    assert caught.value.code == "FILE_NOT_FOUND"
    with pytest.raises(FileError):
        ChunkFileReader(tmp_path / "nowhere.json")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_an_error(file):
    write(file, wrapped(chunk())).chmod(0)
    with pytest.raises(FileError) as caught:
        ChunkFileReader(file)
    assert caught.value.code == "PERMISSION_DENIED"


@pytest.mark.skipif(os.name == "nt", reason="no pipes among files")
def test_a_file_that_became_a_link_or_a_pipe_since_it_was_listed_is_not_read(tmp_path):
    (tmp_path / "outside.json").write_text('[{"id": "a", "text": "private"}]', encoding="utf-8")
    (tmp_path / "link.json").symlink_to(tmp_path / "outside.json")
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("link.json", "pipe.json"):
        with pytest.raises(FileError) as caught:
            list(ChunkFileReader(tmp_path / name))
        assert caught.value.code == "FILE_UNREADABLE"
