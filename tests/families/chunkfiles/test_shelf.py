"""A shelf answers from chunk files: filters, duplicates, changes, broken files, and what it says
about them.
"""

import json
import os
import shutil
import sys

import pytest

from cortex.base.errors import ConfigError, FileError, InputError
from cortex.base.types import Mode
from cortex.families.chunkfiles import builder
from cortex.families.chunkfiles.index import ChunkQuery
from cortex.families.chunkfiles.loader import GenerationLoader
from families.chunkfiles.chunkmaking import ids, make_chunk, write_chunks


def ask(shelf, text, **more):
    return shelf.search(ChunkQuery(text, **more))


def settled(shelf, until, chunks):
    until(lambda: shelf.ready and shelf.state().chunks == chunks)


def test_an_entry_comes_back_as_it_was_written(folder, opened):
    metadata = {
        "file_path": "docs/a.md",
        "n": 1,
        "f": 1.5,
        "none": None,
        "deep": {"list": [1, "two"]},
    }
    write_chunks(
        folder / "doc-chunks.json",
        make_chunk("one", "the basket holds articles", metadata=metadata, tags=("a", "b")),
    )
    ((entry, score),) = ask(opened(), "basket").results
    assert (entry.id, entry.text, entry.tags) == ("one", "the basket holds articles", ("a", "b"))
    assert json.dumps(entry.metadata) == json.dumps(metadata)
    assert 0 < score <= 1


def test_a_secret_in_a_chunk_file_is_redacted_and_told(folder, opened):
    key = "AKIA" + "QWERTYUIOP234567"
    write_chunks(
        folder / "doc-chunks.json",
        make_chunk("one", f"the basket\nopens with {key}", metadata={"by": key}),
    )
    shelf = opened()
    found = ask(shelf, "basket")
    ((entry, _),) = found.results
    assert entry.text == "the basket\nopens with [redacted: AWS key]"
    assert entry.metadata == {"by": "[redacted: AWS key]"}
    assert any(
        note.endswith("don't copy these lines into a file: one:2 (AWS key)") for note in found.notes
    )
    alone = shelf.entry("one")
    assert alone is not None and key not in repr(alone)


def test_scores_descend_and_the_limit_holds(folder, opened):
    write_chunks(
        folder / "a.json",
        *[make_chunk(f"n{n}", "basket " * n + "words " * 9) for n in range(1, 30)],
    )
    found = ask(opened(), "basket", limit=7)
    scores = [score for _, score in found.results]
    assert len(scores) == 7
    assert scores == sorted(scores, reverse=True)


def test_types_are_any_of_and_tags_all_of_and_both_count_before_the_cut(folder, opened):
    noise = [
        make_chunk(f"doc{n}", "token token token", tags=("documentation",)) for n in range(300)
    ]
    write_chunks(folder / "doc-chunks.json", *noise)
    rest = " and many other words that make it a worse match"
    write_chunks(
        folder / "code-symbols.json",
        make_chunk("s-go", "token" + rest, kind="symbols", tags=("code", "go")),
        make_chunk("s-py", "token" + rest, kind="symbols", tags=("code", "python")),
    )
    write_chunks(
        folder / "code-definitions.json",
        make_chunk("d-go", "token" + rest, kind="definitions", tags=("code", "go")),
    )
    shelf = opened()
    assert set(ids(ask(shelf, "token", tags=("go",)))) == {"s-go", "d-go"}
    assert set(ids(ask(shelf, "token", chunk_types=("symbols", "definitions")))) == {
        "s-go",
        "s-py",
        "d-go",
    }
    assert ids(ask(shelf, "token", chunk_types=("symbols",), tags=("go", "code"))) == ["s-go"]
    assert ids(ask(shelf, "token", tags=("go", "python"))) == []
    assert ids(ask(shelf, "token", chunk_types=("data",))) == []
    assert len(ask(shelf, "token", tags=("documentation",), limit=100).results) == 100


def test_a_definition_is_found_by_its_name(folder, opened):
    write_chunks(
        folder / "a.json",
        *[
            make_chunk(f"n{n}", "uses LocalProvider and LocalProvider again", kind="symbols")
            for n in range(20)
        ],
        make_chunk(
            "defines",
            "// (line 5)\ntype LocalProvider struct { ... }\nfunc (p *LocalProvider) Start() error",
            kind="definitions",
        ),
    )
    assert ids(ask(opened(), "LocalProvider"))[0] == "defines"


def test_a_query_must_say_something(folder, opened):
    write_chunks(folder / "a.json", make_chunk("one", "basket"))
    with pytest.raises(InputError) as caught:
        ask(opened(), "  ")
    assert caught.value.code == "QUERY_EMPTY"


def test_of_two_chunks_with_one_id_the_last_counts(folder, opened, caplog):
    write_chunks(folder / "a.json", make_chunk("same", "apple"), make_chunk("same", "pear"))
    shelf = opened()
    assert ids(ask(shelf, "pear")) == ["same"]
    assert ids(ask(shelf, "apple")) == []
    assert "the id same occurs twice" in shelf.state().files["a.json"].warnings[0]


def test_of_two_files_with_one_id_the_later_counts_and_the_earlier_comes_back(
    folder, opened, until
):
    write_chunks(
        folder / "a.json",
        make_chunk("same", "apple", metadata={"file_path": "x.md"}),
        make_chunk("other", "plum"),
    )
    write_chunks(folder / "b.json", make_chunk("same", "pear"))
    shelf = opened()
    assert (ids(ask(shelf, "pear")), ids(ask(shelf, "apple"))) == (["same"], [])
    assert shelf.state().chunks == 2
    write_chunks(folder / "b.json", make_chunk("third", "cherry"))
    settled(shelf, until, 3)
    assert (ids(ask(shelf, "pear")), ids(ask(shelf, "apple"))) == ([], ["same"])
    write_chunks(folder / "c.json", make_chunk("same", "quince"))
    until(lambda: ids(ask(shelf, "quince")) == ["same"])
    assert ids(ask(shelf, "apple")) == []
    (folder / "c.json").unlink()
    until(lambda: shelf.state().problems)
    write_chunks(folder / "b.json", make_chunk("third", "sloe"))
    until(lambda: ids(ask(shelf, "apple")) == ["same"])


def test_a_change_is_taken_up_entry_by_entry(folder, opened, until):
    chunks = [make_chunk(f"n{n}", f"number {n}") for n in range(10)]
    write_chunks(folder / "a.json", *chunks)
    shelf = opened()
    settled(shelf, until, 10)
    kept = {entry.id: score for entry, score in ask(shelf, "number 7", limit=100).results}
    chunks[3] = make_chunk("n3", "a zebra")
    write_chunks(folder / "a.json", *chunks[:9])
    settled(shelf, until, 9)
    assert ids(ask(shelf, "zebra")) == ["n3"]
    assert "n9" in kept
    assert "n9" not in ids(ask(shelf, "number 9", limit=100))


def test_what_no_index_looks_at_is_taken_up_too(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("one", "basket"))
    shelf = opened()
    ask(shelf, "basket")
    write_chunks(
        folder / "a.json",
        make_chunk("one", "basket", updated_at="2026-01-01T00:00:00Z", metadata=None),
    )
    until(lambda: ask(shelf, "basket").results[0][0].updated_at == "2026-01-01T00:00:00Z")
    assert ask(shelf, "basket").results[0][0].metadata is None


def test_a_broken_file_keeps_its_old_state_and_is_told_until_it_is_whole(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    write_chunks(folder / "b.json", make_chunk("b", "pear"))
    shelf = opened()
    settled(shelf, until, 2)
    (folder / "a.json").write_text(
        '{"chunks": [{"id": "a", "text": "quince"}, {"id', encoding="utf-8"
    )
    write_chunks(folder / "b.json", make_chunk("b", "cherry"))
    until(lambda: ids(ask(shelf, "cherry")) == ["b"])
    found = ask(shelf, "apple")
    assert ids(found) == ["a"]
    assert ids(ask(shelf, "quince")) == []
    (note,) = [note for note in found.notes if "a.json" in note]
    assert "its chunks are those of before" in note
    write_chunks(folder / "a.json", make_chunk("a", "quince"))
    until(lambda: ids(ask(shelf, "quince")) == ["a"])
    assert not [note for note in ask(shelf, "quince").notes if "a.json" in note]


def test_a_broken_file_alone_makes_no_new_generation(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    shelf = opened()
    settled(shelf, until, 1)
    before = shelf.state().generation
    (folder / "b.json").write_text("{", encoding="utf-8")
    until(lambda: shelf.state().problems)
    assert shelf.state().generation == before
    (folder / "b.json").unlink()
    until(lambda: not shelf.state().problems)
    assert ids(ask(shelf, "apple")) == ["a"]


def test_a_missing_file_keeps_its_chunks_with_a_note_until_another_file_is_written(
    folder, opened, until
):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    write_chunks(folder / "b.json", make_chunk("b", "pear"), make_chunk("moved", "medlar"))
    shelf = opened()
    settled(shelf, until, 3)
    write_chunks(folder / "a.json", make_chunk("a", "quince"), make_chunk("moved", "rowan"))
    (folder / "b.json").rename(folder / "b.aside")
    until(lambda: ids(ask(shelf, "quince")) == ["a"])
    found = ask(shelf, "pear")
    assert ids(found) == ["b"] and [
        note for note in found.notes if note.startswith("b.json is gone")
    ]
    assert (ids(ask(shelf, "rowan")), ids(ask(shelf, "medlar"))) == (["moved"], [])
    (folder / "b.aside").rename(folder / "b.json")
    until(lambda: not shelf.state().problems)
    (folder / "b.json").unlink()
    until(lambda: shelf.state().problems)
    write_chunks(folder / "a.json", make_chunk("a", "sloe"))
    settled(shelf, until, 1)
    assert ids(ask(shelf, "pear")) == [] and shelf.state().problems == ()


def test_a_renamed_file_has_its_chunks_once_and_a_start_takes_the_files_as_they_are(
    folder, opened, until
):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    write_chunks(folder / "c.json", make_chunk("c", "pear"))
    shelf = opened()
    settled(shelf, until, 2)
    (folder / "c.json").rename(folder / "b.json")
    until(lambda: set(shelf.state().files) == {"a.json", "b.json"})
    assert shelf.state().chunks == 2 and shelf.state().problems == ()
    shelf.close()
    (folder / "b.json").unlink()
    settled(opened(), until, 1)


def test_a_directory_that_vanishes_keeps_answering_and_is_followed_when_it_is_back(
    folder, opened, until
):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    shelf = opened()
    settled(shelf, until, 1)
    shutil.rmtree(folder)
    until(lambda: shelf.state().problems)
    found = ask(shelf, "apple")
    assert ids(found) == ["a"]
    assert any("what was there before is served" in note for note in found.notes)
    folder.mkdir()
    write_chunks(folder / "a.json", make_chunk("a", "quince"))
    until(lambda: ids(ask(shelf, "quince")) == ["a"])
    assert shelf.state().problems == ()


def test_without_any_file_left_the_last_state_answers(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    shelf = opened()
    settled(shelf, until, 1)
    (folder / "a.json").unlink()
    until(lambda: shelf.state().problems)
    assert ids(ask(shelf, "apple")) == ["a"]


def test_several_files_written_shortly_after_one_another_are_one_reload(
    folder, opened, until, patient
):
    for name in "abcd":
        write_chunks(folder / f"{name}.json", make_chunk(name, f"apple {name}"))
    shelf = opened()
    settled(shelf, until, 4)
    before = shelf.state().generation
    for name in "abcd":
        write_chunks(folder / f"{name}.json", make_chunk(name, f"pear {name}"))
    until(lambda: len(ask(shelf, "pear").results) == 4)
    assert shelf.state().generation == before + 1


def test_malformed_chunks_and_strange_names_cost_only_themselves(folder, opened):
    write_chunks(
        folder / "a\n🎉.json" if sys.platform != "win32" else folder / "a🎉.json",
        make_chunk("good\n🎉", "apple"),
        make_chunk("short", "apple", embedding=[1.0]),
        make_chunk("nan", "apple", embedding=[float("nan")] * 16),
        {"id": "empty"},
    )
    (folder / "generator-output.json").write_text("{", encoding="utf-8")
    shelf = opened()
    found = ask(shelf, "apple")
    assert ids(found) == ["good\n🎉"]
    (state,) = shelf.state().files.values()
    assert len(state.warnings) == 3


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_costs_itself(folder, opened):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    write_chunks(folder / "b.json", make_chunk("b", "apple"))
    (folder / "b.json").chmod(0)
    shelf = opened()
    found = ask(shelf, "apple")
    assert ids(found) == ["a"]
    assert any("b.json" in note for note in found.notes)


def test_a_start_needs_a_folder_a_chunk_and_the_configured_length(folder, opened):
    shutil.rmtree(folder)
    with pytest.raises(FileError, match="there is no folder of chunk files") as caught:
        opened()
    assert [
        advice for advice in caught.value.suggestions if "cortex chunks export" not in advice
    ] == []
    folder.mkdir()
    with pytest.raises(FileError, match="no chunk in the files") as caught:
        opened()
    assert [
        advice for advice in caught.value.suggestions if "cortex chunks export" not in advice
    ] == []
    (folder / "a.json").write_text('{"chunks": [{"id": "x"}]}', encoding="utf-8")
    with pytest.raises(FileError, match=r"chunk 1 \(x\) has no text"):
        opened()
    write_chunks(folder / "b.json", make_chunk("b", "apple"))
    with pytest.raises(ConfigError, match=r"embedding\.dimensions is 384 .* b\.json have 16"):
        opened(CORTEX_EMBEDDING_DIMENSIONS="384")
    assert ids(ask(opened(CORTEX_EMBEDDING_DIMENSIONS="16"), "apple")) == ["b"]


def test_a_folder_outside_of_the_project_that_its_file_names_is_told_where_none_is_found(
    folder, opened, tmp_path
):
    root = folder.parent.parent
    shutil.rmtree(folder)
    (root / ".cortex" / "config.yml").write_text(
        f"server:\n  chunks_dir: {tmp_path.parent}\n", encoding="utf-8"
    )
    with pytest.raises(FileError, match="there is no folder of chunk files") as caught:
        opened(root=root)
    assert (
        "server.chunksDir" in caught.value.suggestions[0]
        and "outside the project" in caught.value.suggestions[0]
    )


def test_chunks_without_vectors_are_found_by_words(folder, opened):
    write_chunks(folder / "a.json", make_chunk("a", "apple", embedding=None))
    found = ask(opened(), "apple")
    assert (ids(found), found.mode) == (["a"], Mode.WORDS)
    assert found.notes == ("answered by words: no chunk has a vector",)


def test_the_same_chunks_give_the_same_answer_however_they_came_about(
    folder, opened, until, tmp_path
):
    chunks = [make_chunk(f"n{n}", f"basket number {n} of {n % 7} articles") for n in range(60)]
    write_chunks(folder / "a.json", *chunks[:20])
    shelf = opened()
    settled(shelf, until, 20)
    write_chunks(folder / "a.json", *chunks[10:40])
    settled(shelf, until, 30)
    write_chunks(folder / "a.json", *chunks)
    settled(shelf, until, 60)
    stepwise = ask(shelf, "basket of 3 articles", limit=10).results
    shelf.close()
    afresh = ask(
        opened(CORTEX_HOME=str(tmp_path / "another")), "basket of 3 articles", limit=10
    ).results
    assert stepwise == afresh


def test_dead_rows_are_cleared_away_after_a_reload(folder, home, monkeypatch):
    monkeypatch.setattr(builder, "FEW_ENTRIES", 0)
    chunks = [make_chunk(f"n{n}", f"basket number {n}", embedding=None) for n in range(1500)]
    loading = GenerationLoader(folder, home)
    tidied = []
    for turn in range(4):  # 400 of 1,500 at a time: too few to write the words anew at once
        changed = [make_chunk(f"n{n}", f"other {turn}", embedding=None) for n in range(400)]
        write_chunks(folder / "a.json", *changed, *chunks[400:])
        assert loading.reload()
        tidied.append(loading.tidy())
    assert tidied == [False, False, False, True]
    assert not loading.tidy()
    with loading.using() as generation:
        assert generation.store.content.get("dead") == "0"
        assert generation.store.check() == []
    loading.close(ConfigError("WORKSPACE_MISSING", "over"))
