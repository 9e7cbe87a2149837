"""Generations on disk: taken over, copied, rebuilt where damaged, removed when unused."""

import os
import sqlite3
import time

import pytest

from cortex.engine.store import Store
from cortex.families.chunkfiles import generations
from cortex.families.chunkfiles.index import ChunkQuery
from families.chunkfiles.chunk_files import (
    another_process,
    ids,
    make_chunk,
    wait_until_loaded,
    write_chunks,
)


@pytest.fixture
def place(folder, home):
    return generations.home_of(folder.resolve(), home)


def numbers(place) -> list[int]:
    return [int(path.name) for path in generations.newest_first(place)]


def test_a_generation_of_a_killed_process_is_taken_over(folder, home, place, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    with another_process(folder, home) as (process, generation):
        process.kill()
        process.wait(10)
        index = opened()
        wait_until_loaded(index, until, 1)
        assert index.state().generation == generation
        assert ids(index.search(ChunkQuery("apple"))) == ["a"]
        assert numbers(place) == [generation]


def test_files_changed_while_closed_are_loaded_at_the_next_start(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    write_chunks(folder / "b.json", make_chunk("b", "pear"))
    index = opened()
    wait_until_loaded(index, until, 2)
    index.close()
    (folder / "b.json").unlink()
    write_chunks(folder / "c.json", make_chunk("c", "quince"), make_chunk("d", "plum"))
    index = opened()
    wait_until_loaded(index, until, 3)
    assert (ids(index.search(ChunkQuery("quince"))), ids(index.search(ChunkQuery("pear")))) == (
        ["c"],
        [],
    )


def test_a_generation_of_a_living_process_is_copied_and_left_alone(
    folder, home, place, opened, until
):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    with another_process(folder, home) as (process, generation):
        index = opened()
        wait_until_loaded(index, until, 1)
        assert index.state().generation == generation + 1
        assert process.poll() is None
        assert numbers(place) == [generation + 1, generation]
        assert ids(index.search(ChunkQuery("apple"))) == ["a"]


def test_older_generations_are_removed(folder, place, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    index = opened()
    for number in range(1, 5):
        until(lambda number=number: index.ready and index.state().generation == number)
        if number < 4:
            write_chunks(folder / "a.json", *[make_chunk(f"n{n}", "apple") for n in range(number)])
    until(lambda: numbers(place) == [4])


def test_unpublished_generation_is_removed(folder, place, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    half = generations.begin(place, None)
    half.close()
    index = opened()
    wait_until_loaded(index, until, 1)
    until(lambda: numbers(place) == [index.state().generation])


@pytest.mark.parametrize("damage", ["database", "words", "vectors", "format", "facts"])
def test_a_damaged_generation_is_built_anew(folder, place, opened, until, damage):
    write_chunks(folder / "a.json", *[make_chunk(f"n{n}", f"apple number {n}") for n in range(300)])
    index = opened()
    wait_until_loaded(index, until, 300)
    index.close()
    (path,) = generations.newest_first(place)
    match damage:
        case "database":
            (path / "store" / "cortex.db").write_bytes(b"no database" * 1000)
        case "words":
            for file in path.glob("store/words-*/*"):
                file.unlink()
        case "vectors":
            for file in path.glob("store/vectors-*/*/*"):
                file.write_bytes(b"")
        case "format":
            (path / "published").write_text("shelf 0\n", encoding="utf-8")
        case "facts":
            store = Store(path / "store")
            store.content.set({"chunk files": "["})
            store.close()
    index = opened()
    wait_until_loaded(index, until, 300)
    until(lambda: "n7" in ids(index.search(ChunkQuery("apple number 7"))))
    (current,) = [
        path for path in generations.newest_first(place) if generations.is_published(path)
    ]
    assert sum(
        log.stat().st_size for log in current.glob("store/vectors-*/*/rows-*.log")
    ) == 300 * (8 + 2 * 16)


@pytest.mark.parametrize("harm", ["words", "database"])
def test_a_generation_that_is_damaged_while_it_answers_is_built_anew(
    folder, place, opened, until, harm
):
    write_chunks(folder / "a.json", *[make_chunk(f"n{n}", f"apple number {n}") for n in range(20)])
    index = opened()
    wait_until_loaded(index, until, 20)
    before = index.state().generation
    if harm == "words":
        (words,) = (place / str(before)).glob("store/words-*")
        # The mark of another process that failed there
        (words / "damaged").touch()
        assert any(
            "word index is damaged" in note
            for note in index.search(ChunkQuery("apple number 7")).notes
        )
    else:
        with sqlite3.connect(place / str(before) / "store" / "cortex.db") as connection:
            connection.execute("DROP TABLE entries")
        connection.close()
        assert "n7" in ids(index.search(ChunkQuery("apple number 7")))
    until(lambda: index.state().generation != before)
    found = index.search(ChunkQuery("apple number 7"))
    assert "n7" in ids(found) and not any("damaged" in note for note in found.notes)


def test_generations_of_an_unused_folder_are_removed_after_a_month(folder, place, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    for name, days in (("old", 40), ("young", 20), ("held", 40)):
        other = generations.begin(place.parent / name, None)
        if name != "held":
            other.close()
        moment = time.time() - days * 86_400
        os.utime(place.parent / name, (moment, moment))
    index = opened()
    wait_until_loaded(index, until, 1)
    until(lambda: {path.name for path in place.parent.iterdir()} == {place.name, "young", "held"})
    other.close()


def test_copied_generation_shares_no_writable_file(folder, place, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    index = opened()
    wait_until_loaded(index, until, 1)
    index.close()
    (path,) = generations.newest_first(place)
    base = generations.adopt(place)
    copy = generations.begin(place, base)
    for file in copy.path.rglob("*"):
        twin = path / file.relative_to(copy.path)
        if file.is_file() and twin.exists() and file.samefile(twin):
            assert "words-" in str(file)
            assert file.suffix != ".json"
    copy.retire()
    base.close()


def test_unwritable_home_is_an_error_of_each_search(folder, tmp_path, opened):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    (tmp_path / "file").write_text("", encoding="utf-8")
    index = opened(CORTEX_HOME=str(tmp_path / "file" / "home"))
    with pytest.raises(Exception, match="can't"):
        index.search(ChunkQuery("apple"))
