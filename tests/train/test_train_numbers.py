"""Vocabulary, numbering, held-out packages, rounding and file of the trained table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from train.archives import Archive
from train.attribution import attribution
from train.benchmarks import Overlap, Shared
from train.collect import Collection, component_pairs
from train.heldout import embed, reciprocal_ranks
from train.pairs import Pair
from train.quantise import quantise, write_model
from train.vocabulary import choose_words, encode, is_held_out

from cortex.engine.embedders.static import StaticEmbedder

BODY = "def read(path):\n    with open(path) as file:\n        return file.read()\n"


def collected(folder: Path) -> Path:
    collection = Collection()
    for number in range(6):
        pairs = [
            Pair(
                "doc", "python", f"Read the whole file number{number}", f"{BODY}# httpfile{number}"
            ),
            Pair(
                "heading",
                "markdown",
                "Writing a file",
                "Open the file, write the text, close the file again.",
            ),
        ]
        assert collection.add(pairs, f"pypi/p{number}") == (2 if number == 0 else 1)
    collection.save(folder)
    return folder


def test_duplicate_pair_is_collected_once(tmp_path: Path):
    pairs = encode(collected(tmp_path), choose_words(tmp_path, 100))
    assert len(pairs.package) == 7
    assert [pairs.kinds[kind] for kind in pairs.kind].count("heading") == 1
    assert pairs.languages == ["python", "markdown"]


def test_vocabulary_has_words_of_many_packages_and_splits_others(tmp_path: Path):
    words = choose_words(collected(tmp_path), 100)
    assert set(words) >= {"file", "read", "path"}
    assert "writing" not in words
    pairs = encode(tmp_path, words)
    file = words.index("file")
    numbers, weights, _ = pairs.documents.take(np.array([0]))
    # `file` twice; `httpfile` is too little of it
    assert weights[list(numbers).index(file)] == pytest.approx(2**0.5, abs=1e-3)


def test_bags_can_be_selected_in_any_order(tmp_path: Path):
    pairs = encode(collected(tmp_path), choose_words(tmp_path, 100))
    single, _, _ = pairs.documents.take(np.array([3]))
    both, _, starts = pairs.documents.take(np.array([0, 3]))
    assert np.array_equal(both[starts[1] :], single)


def test_package_gives_a_limited_number_of_pairs_and_none_of_a_benchmark():
    text = "\n\n".join(
        f'def do_thing_{n}():\n    """Do the thing that has the number {n} now."""\n    run_the_thing({n}, {n + 1})\n    return {n} * 1000 + offset_of_thing'
        for n in range(2000)
    )
    none = Shared(set(), Overlap([]))
    pairs = component_pairs("pypi/a", [("a.py", text)], none)
    assert pairs is not None
    assert 0 < sum(pair.kind == "doc" for pair in pairs) <= 900
    assert component_pairs("pypi/a", [("a.py", text)], Shared(set(), Overlap([text]))) == []
    assert (
        component_pairs("pypi/a", [("a.py", text)], Shared({("pypi/a", "a.py")}, Overlap([]))) == []
    )


def test_findings_of_shared_files_are_saved_and_read_back(tmp_path: Path):
    shared = Shared({("pypi/a", "b/c.py")}, Overlap([]))
    shared.write(tmp_path / "shared.txt")
    assert Shared.read(tmp_path / "shared.txt", []).found == {("pypi/a", "b/c.py")}


def test_project_is_held_out_in_every_registry():
    assert is_held_out("pypi/six") == is_held_out("debian/python-six") == is_held_out("debian/six")
    held = sum(is_held_out(f"pypi/package{number}") for number in range(4000))
    assert 140 < held < 260


def test_quantisation_error_is_small_and_zero_rows_stay_zero():
    table = np.random.default_rng(1).standard_normal((50, 256)).astype(np.float32)
    table[3] = 0
    numbers, scales = quantise(table)
    assert np.abs(numbers * scales[:, None] - table).max() <= scales.max() / 2 + 1e-6
    assert not (numbers[3] * scales[3]).any()


def test_model_file_is_reproducible_and_readable_by_the_embedder(tmp_path: Path):
    table = np.random.default_rng(1).standard_normal((3, 256)).astype(np.float32)
    for name in ("a.npz", "b.npz"):
        write_model(tmp_path / name, "cortex-static-test", ["read", "file", "path"], table)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    embedder = StaticEmbedder(tmp_path / "a.npz")
    assert embedder.stamp.model == "cortex-static-test"
    vector = embedder.embed(["readFile"], "query")[0]
    wanted = (table[0] + table[1]) / np.linalg.norm(table[0] + table[1])
    assert np.abs(vector - wanted).max() < 0.01


def test_training_and_embedder_give_a_text_the_same_vector(tmp_path: Path):
    words = choose_words(collected(tmp_path), 100)
    pairs = encode(tmp_path, words)
    table = np.random.default_rng(1).standard_normal((len(words), 256)).astype(np.float32)
    write_model(tmp_path / "m.npz", "cortex-static-test", words, table)
    ours = embed(table, pairs.documents, np.array([0]))[0]
    theirs = StaticEmbedder(tmp_path / "m.npz").embed([f"{BODY}# httpfile0"], "passage")[0]
    assert ours @ theirs > 0.999


def test_reciprocal_ranks_stop_at_ten():
    documents = np.eye(20, dtype=np.float32)
    queries = documents.copy()
    queries[0] = np.linspace(0.1, 1.0, 20)
    ranks = reciprocal_ranks(queries, documents)
    assert ranks[0] == 0.0
    assert set(ranks[1:]) == {1.0}


def test_attribution_names_every_package_under_its_licence():
    text = attribution(
        [
            Archive("pypi", "a", "1", "a-1.tar.gz", "0", "MIT"),
            Archive("npm", "b", "2", "b-2.tgz", "1", "ISC"),
        ]
    )
    assert "== MIT\npypi: a 1\n" in text
    assert "== ISC\nnpm: b 2\n" in text
