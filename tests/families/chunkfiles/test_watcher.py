"""Changes in a folder of chunk files, as the watcher notices them."""

import shutil

from families.chunkfiles.chunk_files import ask, ids, make_chunk, wait_until_loaded, write_chunks


def test_vanished_folder_keeps_answering_and_is_followed_when_it_returns(folder, opened, until):
    write_chunks(folder / "a.json", make_chunk("a", "apple"))
    index = opened()
    wait_until_loaded(index, until, 1)
    shutil.rmtree(folder)
    until(lambda: index.state().problems)
    found = ask(index, "apple")
    assert ids(found) == ["a"]
    assert any("what was there before is served" in note for note in found.notes)
    folder.mkdir()
    write_chunks(folder / "a.json", make_chunk("a", "quince"))
    until(lambda: ids(ask(index, "quince")) == ["a"])
    assert index.state().problems == ()


def test_files_written_in_quick_succession_are_one_reload(folder, opened, until, patient):
    for name in "abcd":
        write_chunks(folder / f"{name}.json", make_chunk(name, f"apple {name}"))
    index = opened()
    wait_until_loaded(index, until, 4)
    before = index.state().generation
    for name in "abcd":
        write_chunks(folder / f"{name}.json", make_chunk(name, f"pear {name}"))
    until(lambda: len(ask(index, "pear").results) == 4)
    assert index.state().generation == before + 1
