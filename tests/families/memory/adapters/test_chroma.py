"""Vectors of a Chroma store, read as bytes; the layout is that of stores which chromadb 1.5.9 made."""

from __future__ import annotations

import shutil
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from cortex.base.errors import FileError
from cortex.families.memory.adapters.chroma import (
    ChromaCollection,
    collections,
    memory_vectors,
    vectors,
)
from families.memory.adapters.chroma_stores import (
    ADD,
    DELETE,
    EAST,
    NORTH,
    UP,
    UPDATE,
    UPSERT,
    WEST,
    MadeCollection,
    make_collection,
    read_vectors,
)


def test_vectors_are_made_length_one(made: MadeCollection) -> None:
    made.flush([(1, [3, 0, 4, 0])], {1: "a"})
    made.queue(ADD, "b", [0, 0.5, 0, 0])
    assert read_vectors(made) == {"a": pytest.approx([0.6, 0, 0.8, 0]), "b": NORTH}


def test_queued_changes_win_over_flushed_vectors(made: MadeCollection) -> None:
    made.flush([(1, EAST), (2, EAST), (3, EAST)], {1: "a", 2: "b", 3: "c"})
    made.queue(UPDATE, "a", NORTH)
    made.queue(UPSERT, "a", UP)
    made.queue(DELETE, "b")
    made.queue(ADD, "new", WEST)
    assert read_vectors(made) == {"a": UP, "c": EAST, "new": WEST}


def test_the_queue_is_applied_as_chroma_does(made: MadeCollection) -> None:
    made.flush([(1, EAST)], {1: "known"})
    # Exists already
    made.queue(ADD, "known", NORTH)
    # Does not exist
    made.queue(UPDATE, "unknown", NORTH)
    # Changes only its metadata
    made.queue(UPDATE, "known", None)
    made.queue(ADD, "again", NORTH)
    made.queue(DELETE, "again")
    made.queue(ADD, "again", UP)
    assert read_vectors(made) == {"known": EAST, "again": UP}


def test_flushed_changes_are_not_applied_again(made: MadeCollection) -> None:
    made.queue(UPSERT, "a", NORTH)
    made.queue(UPSERT, "a", UP)
    made.flush([(1, EAST)], {1: "a"}, upto=1)
    assert read_vectors(made) == {"a": UP}
    made.flush([(1, EAST)], {1: "a"}, upto=2)
    assert read_vectors(made) == {"a": EAST}


def test_collections_are_listed_with_dimensions_and_count(made: MadeCollection) -> None:
    make_collection(made.store, "empty", 384)
    made.sql(
        "INSERT INTO segments VALUES ('m', 'urn:chroma:segment/metadata/sqlite', 'METADATA', ?)",
        (made.id,),
    )
    made.sql(
        "INSERT INTO embeddings (segment_id, embedding_id, seq_id) VALUES ('m', 'a', 1), ('m', 'b', 2)"
    )
    assert collections(made.store) == [
        ChromaCollection("empty", 384, 0),
        ChromaCollection("notes", 4, 2),
    ]


def test_vectors_of_other_and_unknown_collections_do_not_mix(made: MadeCollection) -> None:
    other = make_collection(made.store, "other")
    made.queue(ADD, "a", EAST)
    other.queue(ADD, "a", NORTH)
    assert read_vectors(made) == {"a": EAST}
    assert read_vectors(made, "nobody's") == {}


def test_a_memory_is_the_centre_of_its_parts(tmp_path: Path) -> None:
    made = make_collection(tmp_path, "cm__claude-mem")
    made.flush([(1, EAST), (2, NORTH)], {1: "obs_12_narrative", 2: "obs_12_fact_0"})
    made.queue(ADD, "obs_120_text", UP)
    made.queue(ADD, "summary_12_learned", WEST)
    made.queue(ADD, "prompt_12", WEST)
    memories = memory_vectors(tmp_path)
    assert memories.keys() == {"obs_12", "obs_120"}
    np.testing.assert_allclose(memories["obs_12"], [0.5**0.5, 0.5**0.5, 0, 0], atol=1e-6)
    assert memories["obs_120"].tolist() == UP


def test_narrative_weighs_as_much_as_all_facts_together(tmp_path: Path) -> None:
    made = make_collection(tmp_path, "cm__x")
    made.queue(ADD, "obs_1_narrative", EAST)
    for number in range(9):
        made.queue(ADD, f"obs_1_fact_{number}", NORTH)
    np.testing.assert_allclose(
        memory_vectors(tmp_path)["obs_1"], [0.5**0.5, 0.5**0.5, 0, 0], atol=1e-6
    )


def test_third_generation_vectors_are_keyed_by_document_id(tmp_path: Path) -> None:
    made = make_collection(tmp_path, "claude_memories")
    made.queue(ADD, "web_5f_2025-10-01_001", EAST)
    made.queue(ADD, "web_5f_2025-10-01_001_fact_000", EAST)
    made.queue(ADD, "web_5f_2025-10-01_002", NORTH)
    make_collection(tmp_path, "somebody's").queue(ADD, "obs_1_text", UP)
    assert {key: vector.tolist() for key, vector in memory_vectors(tmp_path).items()} == {
        "web_5f_2025-10-01_001": EAST,
        "web_5f_2025-10-01_002": NORTH,
    }


def test_opposite_parts_have_no_centre(tmp_path: Path) -> None:
    made = make_collection(tmp_path, "cm__x")
    made.queue(ADD, "obs_1_narrative", EAST)
    made.queue(ADD, "obs_1_fact_0", WEST)
    assert memory_vectors(tmp_path) == {}


def test_nothing_in_the_store_is_changed(made: MadeCollection) -> None:
    made.flush([(1, EAST)], {1: "a"})
    made.queue(ADD, "b", NORTH)
    before = {
        file: (file.stat().st_mtime_ns, file.read_bytes())
        for file in made.store.rglob("*")
        if file.is_file()
    }
    assert len(read_vectors(made)) == 2
    after = {
        file: (file.stat().st_mtime_ns, file.read_bytes())
        for file in made.store.rglob("*")
        if file.is_file()
    }
    assert after == before


# -- damaged and hostile ones
# ------------------------------------------------------------------------------------------


def test_missing_store_is_reported(tmp_path: Path) -> None:
    for read in (
        lambda: collections(tmp_path),
        lambda: list(vectors(tmp_path, "x")),
        lambda: memory_vectors(tmp_path),
    ):
        with pytest.raises(FileError) as caught:
            read()
        assert caught.value.code == "FILE_NOT_FOUND"


def test_file_that_is_no_chroma_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "chroma.sqlite3").write_bytes(b"no database" * 500)
    with pytest.raises(FileError) as caught:
        collections(tmp_path)
    assert caught.value.code == "IMPORT_UNREADABLE"


def test_view_in_place_of_a_table_is_unreadable(made: MadeCollection) -> None:
    made.sql("DROP TABLE embeddings_queue")
    made.sql(
        "CREATE VIEW embeddings_queue AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS seq_id, 0 AS operation, 't' AS topic, 'x' AS id, NULL AS vector, '' AS encoding FROM n"
    )
    with pytest.raises(FileError) as caught:
        read_vectors(made)
    assert caught.value.code == "IMPORT_UNREADABLE"


def test_vectors_without_a_direction_are_left_out(made: MadeCollection) -> None:
    rows = [
        (1, [0, 0, 0, 0]),
        (2, [float("nan"), 0, 0, 0]),
        (3, [float("inf"), 1, 0, 0]),
        (4, [3e38, 3e38, 0, 0]),
    ]
    made.flush(rows, {1: "zero", 2: "nan", 3: "inf", 4: "large"})
    made.queue(ADD, "zero in the queue", [0, 0, 0, 0])
    assert read_vectors(made) == {"large": pytest.approx([0.5**0.5, 0.5**0.5, 0, 0])}


def test_schema_that_is_no_text_is_reported(made: MadeCollection) -> None:
    file = made.store / "chroma.sqlite3"
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CR\xff\x80E TABLE"))
    with pytest.raises(FileError) as caught:
        collections(made.store)
    assert caught.value.code == "IMPORT_UNREADABLE"


def test_rows_of_another_size_or_kind_in_the_queue_are_left_out(made: MadeCollection) -> None:
    made.queue(ADD, "short", [1, 0])
    made.queue(ADD, "integers", EAST, encoding="INT32")
    made.queue(ADD, "x" * 501, EAST)
    made.queue(9, "unknown operation", EAST)
    made.queue(ADD, "right", EAST)
    assert read_vectors(made) == {"right": EAST}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> MadeCollection:
    made = make_collection(tmp_path_factory.mktemp("whole"), "cm__x")
    made.flush([(1, EAST), (2, NORTH)], {1: "obs_1_text", 2: "obs_2_text"})
    made.queue(ADD, "obs_3_text", UP)
    return made


@hypothesis.given(
    place=strategies.integers(0, 10**6), byte=strategies.integers(0, 255), cut=strategies.booleans()
)
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize(
    "name", ["header.bin", "data_level0.bin", "index_metadata.pickle", "../chroma.sqlite3"]
)
def test_damaged_file_gives_vectors_or_an_import_error(
    tmp_path_factory: pytest.TempPathFactory,
    whole: MadeCollection,
    name: str,
    place: int,
    byte: int,
    cut: bool,
) -> None:
    store = tmp_path_factory.mktemp("damaged") / "chroma"
    shutil.copytree(whole.store, store)
    file = store / whole.segment / name
    raw = bytearray(file.read_bytes())
    raw[place % len(raw)] = byte
    file.write_bytes(raw[: place % len(raw)] if cut else raw)
    try:
        memories = memory_vectors(store)
    except FileError as error:
        assert error.code == "IMPORT_UNREADABLE"
    else:
        assert all(abs(float(np.linalg.norm(memory)) - 1) < 1e-5 for memory in memories.values())
