"""Shelves are shared by windows with the same folder and settings, and closed after the last one."""

import threading

import pytest

from cortex.base.errors import ConfigError, FileError
from cortex.families.chunkfiles.index import ChunkQuery
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.interfaces.assembly.families import SharedResources
from cortex.interfaces.assembly.pool import engine_pool
from families.chunkfiles.chunkmaking import ids, make_chunk, write_chunks


@pytest.fixture
def shelves():
    made = []

    def make(**options):
        made.append(ChunkIndexPool(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_windows_with_the_same_settings_share_a_shelf(folder, settings, shelves):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    lender = shelves()
    first, second = lender.borrow(folder, settings()), lender.borrow(folder, settings())
    other = lender.borrow(folder, settings(CORTEX_EMBEDDING_MODEL="another"))
    assert first.resource is second.resource is not other.resource
    lender.give_back(first)
    assert ids(second.resource.search(ChunkQuery("apple"))) == ["a"]
    lender.give_back(second)
    assert lender.indexes() == [other.resource]


def test_a_shelf_lingers_for_the_next_window(folder, settings, shelves):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    lender = shelves(linger=60)
    first = lender.borrow(folder, settings())
    shelf = first.resource
    lender.give_back(first)
    second = lender.borrow(folder, settings())
    assert second.resource is shelf
    lender.give_back(second)
    lender.close_idle()
    assert lender.indexes() == [shelf]
    second.used -= 120
    lender.close_idle()
    assert lender.indexes() == []


def test_a_shelf_in_use_is_never_closed_however_short_memory_is(folder, settings, shelves):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    lender = shelves(linger=60)
    window = lender.borrow(folder, settings())
    window.used -= 120
    lender.close_idle(most_bytes=1)
    assert ids(window.resource.search(ChunkQuery("apple"))) == ["a"]


def test_a_process_closes_unused_shelves_in_one_round_with_its_engines(folder, settings, shelves):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    lender = shelves(linger=60)
    resources = SharedResources(engine_pool(keep=False, linger=60), lender)
    window = lender.borrow(folder, settings())
    lender.give_back(window)
    window.used -= 120
    resources.close_idle(0)
    assert lender.indexes() == []
    resources.close()


def test_a_shelf_that_cannot_start_is_not_kept(folder, settings, shelves):
    lender = shelves(linger=60)
    with pytest.raises(FileError):
        lender.borrow(folder, settings())
    assert lender.indexes() == []
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    assert lender.borrow(folder, settings()).resource is not None


def test_after_the_end_nothing_is_lent_and_who_asks_is_told(folder, settings, shelves):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    lender = shelves()
    shelf = lender.borrow(folder, settings()).resource
    lender.close()
    with pytest.raises(ConfigError):
        lender.borrow(folder, settings())
    with pytest.raises(ConfigError, match="ending"):
        shelf.search(ChunkQuery("apple"))


def test_many_windows_at_once_open_one_shelf(folder, settings, shelves):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    lender = shelves()
    lent = []
    windows = [
        threading.Thread(target=lambda: lent.append(lender.borrow(folder, settings())))
        for _ in range(8)
    ]
    for window in windows:
        window.start()
    for window in windows:
        window.join(30)
    assert len({id(one.resource) for one in lent}) == 1
    for one in lent:
        lender.give_back(one)
    assert lender.indexes() == []
