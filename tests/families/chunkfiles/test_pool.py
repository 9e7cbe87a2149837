"""Indexes shared by connections with the same folder and settings."""

import threading

import pytest

from cortex.base.errors import ConfigError, FileError
from cortex.families.chunkfiles.index import ChunkQuery
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.interfaces.assembly.families import SharedResources
from cortex.interfaces.assembly.pool import engine_pool
from families.chunkfiles.chunk_files import ids, make_chunk, write_chunks


@pytest.fixture
def indexes():
    made = []

    def make(**options):
        made.append(ChunkIndexPool(**options))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def test_connections_with_the_same_settings_share_an_index(folder, settings, indexes):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    pool = indexes()
    first, second = pool.borrow(folder, settings()), pool.borrow(folder, settings())
    other = pool.borrow(folder, settings(CORTEX_EMBEDDING_MODEL="another"))
    assert first.resource is second.resource is not other.resource
    pool.give_back(first)
    assert ids(second.resource.search(ChunkQuery("apple"))) == ["a"]
    pool.give_back(second)
    assert pool.indexes() == [other.resource]


def test_index_lingers_for_the_next_connection(folder, settings, indexes):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    pool = indexes(linger=60)
    first = pool.borrow(folder, settings())
    index = first.resource
    pool.give_back(first)
    second = pool.borrow(folder, settings())
    assert second.resource is index
    pool.give_back(second)
    pool.close_idle()
    assert pool.indexes() == [index]
    second.used -= 120
    pool.close_idle()
    assert pool.indexes() == []


def test_index_in_use_is_never_closed_to_save_memory(folder, settings, indexes):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    pool = indexes(linger=60)
    handle = pool.borrow(folder, settings())
    handle.used -= 120
    pool.close_idle(most_bytes=1)
    assert ids(handle.resource.search(ChunkQuery("apple"))) == ["a"]


def test_shared_resources_close_idle_indexes_with_their_engines(folder, settings, indexes):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    pool = indexes(linger=60)
    resources = SharedResources(engine_pool(keep=False, linger=60), pool)
    handle = pool.borrow(folder, settings())
    pool.give_back(handle)
    handle.used -= 120
    resources.close_idle(0)
    assert pool.indexes() == []
    resources.close()


def test_index_that_cannot_start_is_not_kept(folder, settings, indexes):
    pool = indexes(linger=60)
    with pytest.raises(FileError):
        pool.borrow(folder, settings())
    assert pool.indexes() == []
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    assert pool.borrow(folder, settings()).resource is not None


def test_closed_pool_lends_nothing_and_its_indexes_refuse_searches(folder, settings, indexes):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    pool = indexes()
    index = pool.borrow(folder, settings()).resource
    pool.close()
    with pytest.raises(ConfigError):
        pool.borrow(folder, settings())
    with pytest.raises(ConfigError, match="ending"):
        index.search(ChunkQuery("apple"))


def test_concurrent_borrowers_open_one_index(folder, settings, indexes):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    pool = indexes()
    lent = []
    threads = [
        threading.Thread(target=lambda: lent.append(pool.borrow(folder, settings())))
        for _ in range(8)
    ]
    for handle in threads:
        handle.start()
    for handle in threads:
        handle.join(30)
    assert len({id(handle.resource) for handle in lent}) == 1
    for borrowed in lent:
        pool.give_back(borrowed)
    assert pool.indexes() == []
