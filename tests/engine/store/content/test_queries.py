"""Content queries: places, definitions, texts, counts."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.engine import chunkers
from cortex.engine.store import Counts
from cortex.engine.store.content.queries import rows_below

CODE = 'class Lamp:\n    """A light."""\n\n    def switch(self):\n        return 1\n\n\ndef lamp():\n    return Lamp()\n'


def test_unknown_ids_are_left_out_of_places(folder):
    folder.write(a_py=CODE)
    doc = folder.doc("a.py")
    chunks = [chunk for chunk, _ in folder.store.content.chunks(folder.blob("a.py"))]
    pairs = [(doc, chunks[0]), (doc, 9999), (9999, chunks[0])]
    assert list(folder.store.content.places(pairs)) == [(doc, chunks[0])]


def test_definitions_are_found_in_any_case_exact_case_first(folder):
    folder.write(a_py=CODE)
    found = folder.store.content.definitions([folder.source.id], ["lamp", "switch"])
    assert [definition.qualified for definition in found] == ["Lamp.switch", "lamp", "Lamp"]
    chunks = dict(folder.store.content.chunks(folder.blob("a.py")))
    assert [
        chunks[definition.chunk].start_line <= line
        for definition, line in zip(found, (4, 8, 1), strict=True)
    ] == [True] * 3
    assert {definition.doc for definition in found} == {folder.doc("a.py")}


def test_cost_of_a_definition_grows_with_the_headings_of_its_text(folder):
    """Counted in steps of SQLite, of which a look at each heading takes some twenty: a look at each
    chunk for each took 400,000,000.
    """
    headings = 6_000
    folder.write(a_md="# limit\n" * headings, b_md="# Limit\n\ntext\n")
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    with folder.store._connections.read() as connection:
        connection.set_progress_handler(count, 1_000)
        try:
            found = folder.store.content.definitions([folder.source.id], ["Limit"])
        finally:
            connection.set_progress_handler(None, 0)
    assert steps * 1_000 < 100 * headings
    chunks = dict(folder.store.content.chunks(folder.blob("a.md")))
    assert len(chunks) == headings and len(found) == 200
    assert found[0].doc == folder.doc("b.md")
    assert [chunks[definition.chunk].start_line for definition in found[1:]] == list(range(1, 200))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.sampled_from(["# lamp", "# Lamp", "# other", "text", "", "word " * 90, "x" * 9_000]),
        max_size=120,
    )
)
def test_definition_is_in_exactly_the_chunks_that_hold_its_line(folder, lines):
    folder.write(a_md="\n".join(lines))
    chunks = folder.store.content.chunks(folder.blob("a.md"))
    named = [
        symbol
        for symbol in folder.store.content.symbols(folder.blob("a.md"))
        if symbol.name.lower() == "lamp"
    ]
    named.sort(key=lambda symbol: (symbol.name != "lamp", symbol.start_line))
    wanted = [
        (n, symbol.qualified)
        for symbol in named
        for n, chunk in chunks
        if chunk.start_line <= symbol.start_line <= chunk.end_line
    ]
    found = folder.store.content.definitions([folder.source.id], ["lamp"])
    assert [(definition.chunk, definition.qualified) for definition in found] == wanted


def test_definition_on_a_line_of_many_chunks_is_in_each(folder):
    folder.write(
        a_py="x = 1\n" * 400 + "def lamp(): return [" + "1, " * 4_000 + "]\n" + "y = 1\n" * 400
    )
    chunks = folder.store.content.chunks(folder.blob("a.py"))
    here = [number for number, chunk in chunks if chunk.start_line <= 401 <= chunk.end_line]
    assert len(chunks) > len(here) > 5
    assert [
        definition.chunk
        for definition in folder.store.content.definitions([folder.source.id], ["lamp"])
    ] == here
    assert [
        definition.chunk
        for definition in folder.store.content.definitions([folder.source.id], ["lamp"], 3)
    ] == here[:3]


def test_text_is_read_back_unchanged(folder):
    text = "s = 'Zoë 漢字 \U0001f9ff'\n\n\tx = 1"
    folder.write(a_py=text)
    assert folder.store.content.text(folder.blob("a.py")) == text
    for _, chunk in folder.store.content.chunks(folder.blob("a.py")):
        assert text[chunk.start : chunk.end].strip()


def test_docs_below_a_folder_exclude_its_neighbours(folder):
    folder.write_all(
        {
            "src/a.py": "a = 1\n",
            "src/in/b.py": "b = 1\n",
            "src2/c.py": "c = 1\n",
            "src.py": "d = 1\n",
        }
    )
    below = [doc.path for doc in folder.store.content.docs(folder.source.id, "src")]
    assert below == ["src/a.py", "src/in/b.py"]


def test_path_is_looked_up_without_a_scan_of_all_docs(folder):
    folder.write_all({"src/a.py": "a = 1\n", "src2/c.py": "c = 1\n"})
    lookup, source = folder.store.content, folder.source.id
    assert [
        lookup.knows(source, path)
        for path in ("", "src", "src/a.py", "src2", "sr", "src/a", "src/b.py")
    ] == [*(True, True, True, True), *(False, False, False)]
    with folder.store._connections.read() as connection:
        rows = list(
            rows_below(connection, "EXPLAIN QUERY PLAN SELECT 1 FROM docs", source, ["src"])
        )
    # The index is used for the path, not for the source alone
    assert ["path" in row[3] for row in rows] == [True, True]


@pytest.mark.parametrize("path", ["a.py", "a.md"])
def test_symbols_are_read_back_unchanged(folder, path):
    text = (
        CODE
        if path == "a.py"
        else "# Guide.\n\ntext\n\n## Install\n\ntext\n\n### On a > b\n\ntext\n"
    )
    folder.write_all({path: text})
    cut = chunkers.cut(text, path, chunkers.language_of(path, text))
    assert folder.store.content.symbols(folder.blob(path)) == cut.symbols
    assert any(symbol.parent for symbol in cut.symbols)


def test_counts_are_of_docs_not_of_blobs(folder):
    folder.write(a_py="x = 1\n", b_py="x = 1\n")
    assert folder.store.content.counts(folder.source.id) == Counts(2, 2, 12)
    assert folder.store.content.languages(folder.source.id) == {"python": 2}
    assert folder.store.content.sizes(folder.source.id, 5, 100) == (0, 2, 0)


def test_sources_do_not_see_each_other_s_docs(folder):
    other = folder.store.content.source("files", "other", "/other")
    folder.write(a_py=CODE)
    assert folder.store.content.definitions([other.id], ["Lamp"]) == []
    assert folder.store.content.counts(other.id).docs == 0
    assert folder.store.content.source("files", "other", "/other") == other


def test_damaged_or_oversized_blob_is_reported_as_corrupt():
    import zlib

    import pytest

    from cortex.base.errors import StoreError
    from cortex.engine.store.content.blobs import MAX_TEXT_BYTES, unpack

    assert unpack(zlib.compress("größe".encode())) == "größe"
    assert unpack(zlib.compress(b"")) == ""
    for packed in (
        b"no zlib",
        zlib.compress(b"\xff\xfe"),
        zlib.compress(bytes(MAX_TEXT_BYTES + 1), 1),
        zlib.compress(b"x" * 99)[:-4],
    ):
        with pytest.raises(StoreError) as caught:
            unpack(packed)
        assert caught.value.code == "STORE_CORRUPT"


def test_cached_counts_of_sources_follow_every_change(folder):
    """Every search needs the number of docs and of other sources, and reads them once."""
    store, own = folder.store, folder.source.id
    other = store.content.source("files", "other", "/other").id
    folder.write(a_py=CODE)
    assert [store.content.are_all(some) for some in ((own,), (other,), (own, other))] == [
        True,
        False,
        True,
    ]
    assert (store.counts(own, other).docs, store.counts(own).docs, store.counts(other).docs) == (
        1,
        1,
        0,
    )
    folder.source = store.content.source("files", "other", "/other")
    folder.write_all({"b.py": CODE, "c.py": "c = 1\n"})
    assert [store.content.are_all(some) for some in ((own,), (other,), (own, other))] == [
        False,
        False,
        True,
    ]
    assert (store.counts(own, other).docs, store.counts(own).docs, store.counts(other).docs) == (
        3,
        1,
        2,
    )
    folder.remove("b.py", "c.py")
    assert [store.content.are_all(some) for some in ((own,), (other,), (own, other))] == [
        True,
        False,
        True,
    ]
    assert (store.counts(own, other).docs, store.counts(other).docs) == (1, 0)
