"""Chunk files as a target of federated search."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cortex.base.errors import InputError
from cortex.base.types import Cancel, Mode, Query
from cortex.engine.search.federated import SearchTarget
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.families.chunkfiles.tools.definitions import ChunkSession
from cortex.families.chunkfiles.tools.search_target import place_of
from families.chunkfiles.chunk_files import make_chunk, write_chunks


@pytest.fixture
def target(folder, settings) -> Iterator[SearchTarget]:
    where = {"file_path": "src/lamp.py", "start_line": 3, "end_line": 9}
    write_chunks(
        folder / "a.json",
        make_chunk("lamp", "a lamp burns", metadata=where),
        make_chunk("desk", "a desk stands beside the lamp", title=None, metadata=None),
    )
    pool = ChunkIndexPool()
    session = ChunkSession(pool)
    session.add(pool.borrow(folder, settings()))
    yield place_of(session)
    session.close()
    pool.close()


def test_hit_has_lines_title_and_source_file_of_its_chunk(target):
    page = target.ask(Query("burns", mode=Mode.WORDS), Cancel())
    (hit,) = page.hits
    assert (hit.path, hit.name, hit.start_line, hit.end_line) == ("lamp", "About lamp", 3, 9)
    assert target.cite(hit) == {"id": "lamp", "title": "About lamp"}
    assert target.copy_of(hit) == "src/lamp.py"


def test_page_begins_at_the_offset_of_the_query(target):
    whole = target.ask(Query("lamp", mode=Mode.WORDS), Cancel()).hits
    assert {hit.path for hit in whole} == {"lamp", "desk"}
    assert target.ask(Query("lamp", mode=Mode.WORDS, offset=1), Cancel()).hits == whole[1:]


def test_chunk_is_read_by_its_id_and_an_unknown_id_is_refused(target):
    assert target.read("desk") == ("desk", "a desk stands beside the lamp")
    with pytest.raises(InputError) as caught:
        target.read("chair")
    assert caught.value.code == "DOCUMENT_UNKNOWN"


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.FULL])
def test_file_search_modes_are_refused(target, mode):
    with pytest.raises(InputError):
        target.ask(Query("lamp", mode=mode), Cancel())
