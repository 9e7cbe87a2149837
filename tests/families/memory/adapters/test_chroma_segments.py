"""Flushed vectors of a Chroma store: headers, labels, pickles, and damaged or hostile files."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from families.memory.adapters.chroma_stores import (
    ADD,
    EAST,
    NORTH,
    UP,
    MadeCollection,
    make_collection,
    read_vectors,
)


def test_flushed_vectors_come_by_label_and_not_by_order(made: MadeCollection) -> None:
    made.flush([(7, NORTH), (3, EAST)], {3: "a", 7: "b"})
    assert read_vectors(made) == {"a": EAST, "b": NORTH}


@pytest.mark.parametrize(("dimensions", "links"), [(384, 16), (96, 24), (1, 2)])
def test_the_layout_is_what_the_header_says(tmp_path: Path, dimensions: int, links: int) -> None:
    made = make_collection(tmp_path, "notes", dimensions)
    numbers = np.random.default_rng(1).normal(size=(9, dimensions)).astype(np.float32)
    made.flush(
        [(n, row) for n, row in enumerate(numbers)], {n: f"id{n}" for n in range(9)}, links=links
    )
    read = read_vectors(made)
    for number, row in enumerate(numbers):
        np.testing.assert_allclose(read[f"id{number}"], row / np.linalg.norm(row), atol=1e-6)


def test_label_without_an_id_is_a_deleted_vector(made: MadeCollection) -> None:
    made.flush([(1, EAST), (2, NORTH)], {2: "b"})
    assert read_vectors(made) == {"b": NORTH}


class _Marker:
    """An object that leaves a trace when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self._path,)


def test_a_pickle_with_a_class_is_never_followed(made: MadeCollection, tmp_path: Path) -> None:
    made.flush([(1, EAST)], {1: "a"})
    made.queue(ADD, "b", NORTH)
    trace = tmp_path / "trace"
    (made.folder / "index_metadata.pickle").write_bytes(
        pickle.dumps({"label_to_id": {1: "a"}, "x": _Marker(trace)})
    )
    assert read_vectors(made) == {"b": NORTH}
    assert not trace.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x02",
        b"garbage",
        pickle.dumps([1, 2]),
        pickle.dumps({"label_to_id": "no dict"}),
        pickle.dumps({"label_to_id": {"1": 1}}),
        # A memo at index 2,147,483,647
        b"\x80\x02}r\xff\xff\xff\x7f.",
        # A text that is longer than the file
        b"\x80\x02}q\x00(X\x05\x00\x00\x00ab.",
        # A dict as a key
        b"\x80\x02}}}s.",
        b"\x80\x02s.",
        b"\x80\x02h\x05.",
    ],
)  # fmt: skip
def test_a_damaged_pickle_costs_the_flushed_vectors_only(
    made: MadeCollection, content: bytes
) -> None:
    made.flush([(1, EAST)], {1: "a"})
    made.queue(ADD, "b", NORTH)
    (made.folder / "index_metadata.pickle").write_bytes(content)
    assert read_vectors(made) == {"b": NORTH}


def test_a_truncated_file_gives_the_rows_that_are_whole(made: MadeCollection) -> None:
    made.flush([(1, EAST), (2, NORTH), (3, UP)], {1: "a", 2: "b", 3: "c"})
    file = made.folder / "data_level0.bin"
    file.write_bytes(file.read_bytes()[:-5])
    assert read_vectors(made) == {"a": EAST, "b": NORTH}


def test_a_count_that_is_too_large_reads_no_further_than_the_file(made: MadeCollection) -> None:
    made.flush([(1, EAST)], {1: "a"}, count=2**63)
    assert read_vectors(made) == {"a": EAST}


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\1" * 10,
        # Another version
        struct.pack("<iQQQQQQ", 2, 0, 9, 1, 156, 148, 132),
        struct.pack("<iQQQQQQ", 1, 0, 9, 1, 2**40, 2**40 - 8, 132),
        struct.pack("<iQQQQQQ", 1, 0, 9, 1, 0, 0, 0),
        struct.pack("<iQQQQQQ", 1, 0, 9, 1, 10, 2, 132),
        # Five numbers, where the collection has four
        struct.pack("<iQQQQQQ", 1, 0, 9, 1, 160, 152, 132),
    ],
)
def test_invalid_header_costs_the_flushed_vectors_only(made: MadeCollection, header: bytes) -> None:
    made.flush([(1, EAST)], {1: "a"})
    made.queue(ADD, "b", NORTH)
    (made.folder / "header.bin").write_bytes(header)
    assert read_vectors(made) == {"b": NORTH}


def test_signalling_nan_is_left_out_without_a_warning(made: MadeCollection) -> None:
    made.flush([(1, EAST), (2, NORTH)], {1: "a", 2: "b"})
    file = made.folder / "data_level0.bin"
    raw = bytearray(file.read_bytes())
    raw[132:136] = b"\1\0\x80\x7f"
    file.write_bytes(raw)
    assert read_vectors(made) == {"b": NORTH}


def test_segment_outside_the_store_is_not_read(made: MadeCollection, tmp_path: Path) -> None:
    made.flush([(1, EAST)], {1: "a"})
    os.rename(made.folder, tmp_path / "outside")
    made.sql("UPDATE segments SET id = '../outside'")
    assert read_vectors(made) == {}


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("name", ["", "header.bin", "data_level0.bin", "index_metadata.pickle"])
def test_links_are_not_followed(made: MadeCollection, tmp_path: Path, name: str) -> None:
    made.flush([(1, EAST)], {1: "a"})
    outside, inside = tmp_path / "outside", made.folder / name
    os.rename(inside, outside)
    inside.symlink_to(outside, target_is_directory=not name)
    assert read_vectors(made) == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_not_waited_for(made: MadeCollection) -> None:
    made.flush([(1, EAST)], {1: "a"})
    (made.folder / "data_level0.bin").unlink()
    os.mkfifo(made.folder / "data_level0.bin")
    assert read_vectors(made) == {}
