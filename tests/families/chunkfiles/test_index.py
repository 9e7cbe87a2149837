"""Answers from chunk files: filters, duplicates, changes, broken files and notes about them."""

import json
import os
import sys

import pytest

from cortex.base.errors import InputError
from cortex.base.types import Mode
from families.chunkfiles.chunk_files import ask, ids, make_chunk, wait_until_loaded, write_chunks


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


def test_secret_in_a_chunk_file_is_redacted_and_noted(folder, opened):
    key = "AKIA" + "QWERTYUIOP234567"
    write_chunks(
        folder / "doc-chunks.json",
        make_chunk("one", f"the basket\nopens with {key}", metadata={"by": key}),
    )
    index = opened()
    found = ask(index, "basket")
    ((entry, _),) = found.results
    assert entry.text == "the basket\nopens with [redacted: AWS key]"
    assert entry.metadata == {"by": "[redacted: AWS key]"}
    assert any(
        note.endswith("don't copy these lines into a file: one:2 (AWS key)") for note in found.notes
    )
    alone = index.entry("one")
    assert alone is not None and key not in repr(alone)


def test_scores_descend_and_limit_caps_the_results(folder, opened):
    write_chunks(
        folder / "a.json",
        *[make_chunk(f"n{n}", "basket " * n + "words " * 9) for n in range(1, 30)],
    )
    found = ask(opened(), "basket", limit=7)
    scores = [score for _, score in found.results]
    assert len(scores) == 7
    assert scores == sorted(scores, reverse=True)


def test_any_type_and_all_tags_must_match_before_the_limit_cuts(folder, opened):
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
    index = opened()
    assert set(ids(ask(index, "token", tags=("go",)))) == {"s-go", "d-go"}
    assert set(ids(ask(index, "token", chunk_types=("symbols", "definitions")))) == {
        "s-go",
        "s-py",
        "d-go",
    }
    assert ids(ask(index, "token", chunk_types=("symbols",), tags=("go", "code"))) == ["s-go"]
    assert ids(ask(index, "token", tags=("go", "python"))) == []
    assert ids(ask(index, "token", chunk_types=("data",))) == []
    assert len(ask(index, "token", tags=("documentation",), limit=100).results) == 100


def test_definition_ranks_first_for_its_name(folder, opened):
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


def test_blank_query_is_rejected(folder, opened):
    write_chunks(folder / "a.json", make_chunk("one", "basket"))
    with pytest.raises(InputError) as caught:
        ask(opened(), "  ")
    assert caught.value.code == "QUERY_EMPTY"


def test_last_of_two_chunks_with_one_id_is_served(folder, opened, caplog):
    write_chunks(folder / "a.json", make_chunk("same", "apple"), make_chunk("same", "pear"))
    index = opened()
    assert ids(ask(index, "pear")) == ["same"]
    assert ids(ask(index, "apple")) == []
    assert "the id same occurs twice" in index.state().files["a.json"].warnings[0]


def test_chunk_of_an_earlier_file_returns_when_the_later_file_drops_its_id(folder, opened, until):
    write_chunks(
        folder / "a.json",
        make_chunk("same", "apple", metadata={"file_path": "x.md"}),
        make_chunk("other", "plum"),
    )
    write_chunks(folder / "b.json", make_chunk("same", "pear"))
    index = opened()
    assert (ids(ask(index, "pear")), ids(ask(index, "apple"))) == (["same"], [])
    assert index.state().chunks == 2
    write_chunks(folder / "b.json", make_chunk("third", "cherry"))
    wait_until_loaded(index, until, 3)
    assert (ids(ask(index, "pear")), ids(ask(index, "apple"))) == ([], ["same"])
    write_chunks(folder / "c.json", make_chunk("same", "quince"))
    until(lambda: ids(ask(index, "quince")) == ["same"])
    assert ids(ask(index, "apple")) == []
    (folder / "c.json").unlink()
    until(lambda: index.state().problems)
    write_chunks(folder / "b.json", make_chunk("third", "sloe"))
    until(lambda: ids(ask(index, "apple")) == ["same"])


def test_changed_file_changes_and_removes_single_entries(folder, opened, until):
    chunks = [make_chunk(f"n{n}", f"number {n}") for n in range(10)]
    write_chunks(folder / "a.json", *chunks)
    index = opened()
    wait_until_loaded(index, until, 10)
    kept = {entry.id: score for entry, score in ask(index, "number 7", limit=100).results}
    chunks[3] = make_chunk("n3", "a zebra")
    write_chunks(folder / "a.json", *chunks[:9])
    wait_until_loaded(index, until, 9)
    assert ids(ask(index, "zebra")) == ["n3"]
    assert "n9" in kept
    assert "n9" not in ids(ask(index, "number 9", limit=100))


def test_change_of_unindexed_fields_is_served(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("one", "basket"))
    index = opened()
    ask(index, "basket")
    write_chunks(
        folder / "a.json",
        make_chunk("one", "basket", updated_at="2026-01-01T00:00:00Z", metadata=None),
    )
    until(lambda: ask(index, "basket").results[0][0].updated_at == "2026-01-01T00:00:00Z")
    assert ask(index, "basket").results[0][0].metadata is None


def test_broken_file_keeps_its_old_chunks_with_a_note_until_it_is_whole(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    write_chunks(folder / "b.json", make_chunk("b", "pear"))
    index = opened()
    wait_until_loaded(index, until, 2)
    (folder / "a.json").write_text(
        '{"chunks": [{"id": "a", "text": "quince"}, {"id', encoding="utf-8"
    )
    write_chunks(folder / "b.json", make_chunk("b", "cherry"))
    until(lambda: ids(ask(index, "cherry")) == ["b"])
    found = ask(index, "apple")
    assert ids(found) == ["a"]
    assert ids(ask(index, "quince")) == []
    (note,) = [note for note in found.notes if "a.json" in note]
    assert "its chunks are those of before" in note
    write_chunks(folder / "a.json", make_chunk("a", "quince"))
    until(lambda: ids(ask(index, "quince")) == ["a"])
    assert not [note for note in ask(index, "quince").notes if "a.json" in note]


def test_a_broken_file_alone_makes_no_new_generation(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    index = opened()
    wait_until_loaded(index, until, 1)
    before = index.state().generation
    (folder / "b.json").write_text("{", encoding="utf-8")
    until(lambda: index.state().problems)
    assert index.state().generation == before
    (folder / "b.json").unlink()
    until(lambda: not index.state().problems)
    assert ids(ask(index, "apple")) == ["a"]


def test_a_missing_file_keeps_its_chunks_with_a_note_until_another_file_is_written(
    folder, opened, until
):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    write_chunks(folder / "b.json", make_chunk("b", "pear"), make_chunk("moved", "medlar"))
    index = opened()
    wait_until_loaded(index, until, 3)
    write_chunks(folder / "a.json", make_chunk("a", "quince"), make_chunk("moved", "rowan"))
    (folder / "b.json").rename(folder / "b.aside")
    until(lambda: ids(ask(index, "quince")) == ["a"])
    found = ask(index, "pear")
    assert ids(found) == ["b"] and [
        note for note in found.notes if note.startswith("b.json is gone")
    ]
    assert (ids(ask(index, "rowan")), ids(ask(index, "medlar"))) == (["moved"], [])
    (folder / "b.aside").rename(folder / "b.json")
    until(lambda: not index.state().problems)
    (folder / "b.json").unlink()
    until(lambda: index.state().problems)
    write_chunks(folder / "a.json", make_chunk("a", "sloe"))
    wait_until_loaded(index, until, 1)
    assert ids(ask(index, "pear")) == [] and index.state().problems == ()


def test_renamed_file_is_served_once_and_a_restart_drops_a_deleted_file(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    write_chunks(folder / "c.json", make_chunk("c", "pear"))
    index = opened()
    wait_until_loaded(index, until, 2)
    (folder / "c.json").rename(folder / "b.json")
    until(lambda: set(index.state().files) == {"a.json", "b.json"})
    assert index.state().chunks == 2 and index.state().problems == ()
    index.close()
    (folder / "b.json").unlink()
    wait_until_loaded(opened(), until, 1)


def test_last_state_answers_when_every_file_is_deleted(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    index = opened()
    wait_until_loaded(index, until, 1)
    (folder / "a.json").unlink()
    until(lambda: index.state().problems)
    assert ids(ask(index, "apple")) == ["a"]


def test_malformed_chunks_are_left_out_and_strange_names_are_served(folder, opened):
    write_chunks(
        folder / "a\n🎉.json" if sys.platform != "win32" else folder / "a🎉.json",
        make_chunk("good\n🎉", "apple"),
        make_chunk("short", "apple", embedding=[1.0]),
        make_chunk("nan", "apple", embedding=[float("nan")] * 16),
        {"id": "empty"},
    )
    (folder / "generator-output.json").write_text("{", encoding="utf-8")
    index = opened()
    found = ask(index, "apple")
    assert ids(found) == ["good\n🎉"]
    (state,) = index.state().files.values()
    assert len(state.warnings) == 3


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_left_out_with_a_note(folder, opened):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    write_chunks(folder / "b.json", make_chunk("b", "apple"))
    (folder / "b.json").chmod(0)
    index = opened()
    found = ask(index, "apple")
    assert ids(found) == ["a"]
    assert any("b.json" in note for note in found.notes)


def test_chunks_without_vectors_are_found_by_words(folder, opened):
    write_chunks(folder / "a.json", make_chunk("a", "apple", embedding=None))
    found = ask(opened(), "apple")
    assert (ids(found), found.mode) == (["a"], Mode.WORDS)
    assert found.notes == ("answered by words: no chunk has a vector",)


def test_stepwise_and_fresh_builds_give_the_same_answer(folder, opened, until, tmp_path):
    chunks = [make_chunk(f"n{n}", f"basket number {n} of {n % 7} articles") for n in range(60)]
    write_chunks(folder / "a.json", *chunks[:20])
    index = opened()
    wait_until_loaded(index, until, 20)
    write_chunks(folder / "a.json", *chunks[10:40])
    wait_until_loaded(index, until, 30)
    write_chunks(folder / "a.json", *chunks)
    wait_until_loaded(index, until, 60)
    stepwise = ask(index, "basket of 3 articles", limit=10).results
    index.close()
    afresh = ask(
        opened(CORTEX_HOME=str(tmp_path / "another")), "basket of 3 articles", limit=10
    ).results
    assert stepwise == afresh
