"""`cortex search`."""

import json
import os
import re
import subprocess

import pytest

from cortex.base.settings import environment, load
from cortex.engine.engine import Engine
from interfaces.cli.command_process import process
from protocol.code_server import CORTEX, make_repository
from protocol.golden import check_golden


def test_search_shows_position_relevance_name_and_lines(cortex, indexed):
    code, out, _ = cortex("search", "parse_invoice_number", "--path", indexed)
    assert code == 0
    first, *rest = out.splitlines()
    assert first.startswith("shop/payment/invoice.py:6  ")
    assert first.endswith("parse_invoice_number")
    assert rest[0] == "     6  def parse_invoice_number(text):"


def test_text_output_cuts_long_hits_and_json_has_all_lines(cortex, tmp_path):
    long = "def long_story():\n" + "".join(
        f"    print({n}, 'and so it goes on')\n" for n in range(30)
    )
    root = make_repository(tmp_path / "long", {"a.py": long}, git=False)
    title, *lines = cortex("search", "long_story", "--path", root)[1].splitlines()
    assert title.startswith("a.py:1")
    assert 5 < len(lines) < 20
    assert lines == [f"{n:>6}  {line}" for n, line in enumerate(long.splitlines(), 1)][: len(lines)]
    (hit,) = json.loads(cortex("search", "long_story", "--path", root, "--json")[1])["results"]
    assert "print(29," in hit["text"]


def test_matching_lines_further_down_keep_their_numbers(cortex, tmp_path):
    long = (
        "def story():\n"
        + "".join(f"    print({n}, 'and so it goes on')\n" for n in range(30))
        + "    needle()\n"
    )
    root = make_repository(tmp_path / "long", {"a.py": long}, git=False)
    _, first, *_, last = cortex("search", "needle", "--path", root)[1].splitlines()
    assert first == "     1  def story():"
    assert last == "    32      needle()"


def test_explain_adds_a_line_below_each_hit_and_a_json_field(cortex, indexed):
    out = cortex("search", "parse_invoice_number", "-n", 1, "--explain", "--path", indexed)[1]
    assert re.fullmatch(r" {8}[\d.]+ = words \+1, .*definition \+2.*", out.splitlines()[-1])
    (hit,) = json.loads(
        cortex("search", "parse_invoice_number", "-n", 1, "--explain", "--json", "--path", indexed)[
            1
        ]
    )["results"]
    assert hit["evidence"]["definition"] == 2


def test_search_json_matches_its_golden_file(cortex, indexed):
    body = json.loads(
        cortex("search", "parse an invoice number", "-n", 1, "--path", indexed, "--json")[1]
    )
    assert set(body) == {"results", "metadata"}
    assert set(body["results"][0]) == {
        "file",
        "startLine",
        "endLine",
        "relevance",
        "text",
        "context",
    }
    assert {"strategy", "executionTime", "totalResults", "index"} <= set(body["metadata"])
    check_golden("search-json", body)


def test_limit_language_threshold_and_mode_options_take_effect(cortex, indexed):
    def files(*more):
        code, out, _ = cortex("search", "article", "--path", indexed, "--json", *more)
        assert code == 0
        return [result["file"] for result in json.loads(out)["results"]]

    assert len(files("--limit", "1")) == len(files("-n", "1")) == 1
    assert set(files("--lang", "typescript")) == set(files("--lang", "ts")) == {"web/cart.ts"}
    assert {file.rsplit(".")[-1] for file in files("--lang", "python", "--lang", "ts")} == {
        "py",
        "ts",
    }
    assert len(files("--threshold", "0.9")) < len(files())
    for mode in (
        "auto",
        "hybrid",
        "meaning",
        "embeddings",
        "semantic",
        "words",
        "tfidf",
        "fullworkspace",
        "exact",
    ):
        assert "web/cart.ts" in files("--mode", mode), mode
    body = json.loads(
        cortex("search", r"def \w+_invoice", "--regex", "--path", indexed, "--json")[1]
    )
    assert body["metadata"]["strategy"] == "exact"
    assert {result["file"] for result in body["results"]} == {"shop/payment/invoice.py"}
    assert cortex("search", "(", "--regex", "--path", indexed)[0] == 1


@pytest.mark.parametrize("mode", ["hybrid", "auto", "words", "meaning", "fullworkspace"])
def test_quoted_or_regex_query_is_exact_in_every_mode(cortex, indexed, mode):
    for query in ('"voice_num"', "/voice_n[a-z]m/"):
        body = json.loads(cortex("search", query, "--mode", mode, "--path", indexed, "--json")[1])
        assert body["metadata"]["strategy"] == "exact"
        assert {result["file"] for result in body["results"]} == {"shop/payment/invoice.py"}
    quoted = json.loads(
        cortex("search", '"voice_num"', "--mode", "exact", "--path", indexed, "--json")[1]
    )
    assert quoted["results"] == []


def test_search_without_hits_exits_with_zero(cortex, indexed):
    code, out, err = cortex("search", "zzzz_nowhere", "--path", indexed)
    assert (code, out) == (0, "")
    assert "nothing found" in err
    assert (
        json.loads(cortex("search", "zzzz_nowhere", "--path", indexed, "--json")[1])["results"]
        == []
    )


def test_search_indexes_a_new_folder_first_and_sees_later_changes(cortex, tmp_path):
    root = make_repository(tmp_path / "new", {"a.py": "def first_one():\n    pass\n"}, git=False)
    assert "a.py:1" in cortex("search", "first_one", "--path", root)[1]
    (root / "b.py").write_text("def second_one():\n    pass\n", encoding="utf-8")
    assert "b.py:1" in cortex("search", "second_one", "--path", root)[1]


def test_search_in_an_incomplete_index_warns(cortex, tmp_path, isolated):
    root = make_repository(tmp_path / "young")
    with Engine(root, load(root, environment=environment())) as holder:
        holder.index(paths=["shop"])
        code, out, err = cortex("search", "basket", "--path", root)
        assert code == 0
        assert "shop/basket.py" in out
        assert "the first index is under way: some files are not read yet" in err


def test_meaning_search_without_an_embedder_warns(cortex, tmp_path, isolated, monkeypatch):
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "none")
    root = make_repository(tmp_path / "plain")
    assert "no embedder" not in cortex("search", "basket", "--path", root)[2]
    assert "no embedder" in cortex("search", "basket", "--path", root, "--mode", "meaning")[2]


@pytest.mark.parametrize("mode", ["exact", "fullworkspace"])
def test_exact_search_indexes_nothing(cortex, tmp_path, mode):
    root = make_repository(tmp_path / "fresh")
    code, out, err = cortex("search", "total_price", "--path", root, "--mode", mode)
    assert (code, err) == (0, "")
    assert "shop/basket.py" in out
    with Engine(root, load(root, environment=environment())) as engine:
        assert not engine.knows("shop/basket.py")


@pytest.mark.skipif(os.name == "nt", reason="there is no pty")
def test_folder_that_is_no_project_is_indexed_only_after_a_yes(
    cortex, typed, tmp_path, isolated, monkeypatch
):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "a.txt").write_text("the needle is here\n", encoding="utf-8")
    monkeypatch.chdir(scratch)
    code, out, err = cortex("search", "needle")
    assert (code, out) == (1, "")
    assert "no project and has no index" in err
    assert f"cortex index {scratch}" in err
    assert not (isolated.cortex / "projects").exists()
    # Its files are read for an exact search, which keeps nothing.
    assert "needle" in cortex("search", '"needle"')[1]
    code, out, err = typed("n\n", "search", "needle")
    assert (code, out) == (1, "")
    assert "is no project" in err
    code, out, err = typed("y\n", "search", "needle")
    assert (code, "a.txt:1" in out) == (0, True)
    # What has an index is searched as ever.
    assert "a.txt:1" in cortex("search", "needle")[1]


def test_hit_below_the_threshold_of_tools_is_marked_as_weak(cortex, tmp_path):
    root = make_repository(
        tmp_path / "work", {"a.py": "def parse_invoice(text):\n    return text\n"}
    )
    _, out, err = cortex("search", "kafka consumer offset of an invoice commit", "--path", root)
    first = out.splitlines()[0]
    assert re.match(r"a\.py:1  0\.\d\d weak  ", first)
    assert "all of these are weak" in err
    (row,) = json.loads(
        cortex("search", "kafka consumer offset of an invoice", "--path", root, "--json")[1]
    )["results"]
    assert row["weak"] is True
    _, out, err = cortex("search", "parse_invoice", "--path", root)
    assert "weak" not in out + err
    assert (
        "weak"
        not in json.loads(cortex("search", "parse_invoice", "--path", root, "--json")[1])[
            "results"
        ][0]
    )


def test_hits_of_several_folders_name_their_folder(cortex, tmp_path, indexed):
    other = make_repository(tmp_path / "other", {"a.py": "def merge_baskets():\n    pass\n"})
    code, out, _ = cortex("search", "merge_baskets", "--path", indexed, "--path", other)
    assert code == 0
    assert {"shop/shop/basket.py:21", "other/a.py:1"} <= {
        line.split("  ")[0] for line in out.splitlines()
    }


def test_closed_output_pipe_is_no_error(indexed):
    for arguments in (
        ["search", "article", "--path", str(indexed)],
        ["search", "article", "--path", str(indexed), "--json"],
    ):
        running = subprocess.Popen(
            [*CORTEX, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        running.stdout.close()
        assert running.wait(30) == 0
        assert b"BrokenPipe" not in running.stderr.read()
        running.stderr.close()


def test_terminal_output_has_colours_and_line_numbers(indexed, on_terminal):
    shown = on_terminal(
        "search", "parse_invoice_number", "--path", str(indexed), "--limit", "1"
    ).encode()
    assert b"\x1b[" in shown
    assert b"invoice.py:6" in shown


def test_character_outside_the_output_encoding_is_replaced(tmp_path):
    root = make_repository(tmp_path / "snow", {"a.py": "snow = '☃'\n"})
    done = process(
        "search",
        "snow",
        "--path",
        root,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0
    assert "snow = '?'" in done.stdout
