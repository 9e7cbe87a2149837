import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cortex.base.errors import CortexError
from cortex.base.settings import load
from cortex.base.types import Mode, Query
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine

FILES = {
    "src/lease.py": 'class Lease:\n    """The right to write."""\n\n    def take(self):\n        return lock()\n',
    "src/engine.py": "from lease import Lease\n\n\ndef run():\n    Lease().take()\n    Lease().take()\n",
    "src/util/colour.ts": "export function mixColours(a: string, b: string) {\n  return a + b\n}\n",
    "tests/test_lease.py": "def test_lease_take():\n    lease = Lease()\n    lease.take()\n    assert lease.take()\n",
    "docs/lease.md": "# The lease\n\nWho holds the lease may take and write.\n",
    "src/notes_cjk.py": "# 検索エンジンの設定を読む\nVALUE = 1\n",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("workspace")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    home = str(tmp_path_factory.mktemp("home"))
    with Engine(
        root, load(root, environment={"CORTEX_HOME": home}), embedder=HashingEmbedder()
    ) as opened:
        opened.index()
        yield opened


def paths(engine: Engine, text: str, **more: object) -> list[str]:
    return [hit.path for hit in engine.search(Query(text, mode=Mode.WORDS, **more)).hits]  # type: ignore[arg-type]


def test_the_definition_of_a_name_comes_first(engine: Engine):
    (first, *_) = engine.search(Query("Lease", mode=Mode.WORDS)).hits
    assert (first.path, first.why) == ("src/lease.py", "defines Lease")


def test_any_spelling_of_a_name_finds_it(engine: Engine):
    for spelling in ("mixColours", "mix_colours", "mix colours", "mixcolours"):
        assert paths(engine, spelling)[0] == "src/util/colour.ts"


def test_tests_come_after_code_unless_asked_for(engine: Engine):
    found = paths(engine, "take the lease")
    assert found.index("src/lease.py") < found.index("tests/test_lease.py")
    assert paths(engine, "tests of taking the lease")[0] == "tests/test_lease.py"


def test_filters_narrow_the_candidates(engine: Engine):
    assert set(paths(engine, "lease", extensions=("md",))) == {"docs/lease.md"}
    assert set(paths(engine, "lease take", languages=("python",))) <= {
        p for p in FILES if p.endswith(".py")
    }
    assert set(paths(engine, "lease", path="src")) == {"src/lease.py", "src/engine.py"}


def test_filters_narrow_semantic_candidates(engine: Engine):
    hits = engine.search(Query("lease", mode=Mode.MEANING, extensions=("md",))).hits
    assert {hit.path for hit in hits} == {"docs/lease.md"}


def test_a_language_without_spaces_is_found(engine: Engine):
    assert paths(engine, "検索")[0] == "src/notes_cjk.py"


def test_relevance_falls_with_the_rank_and_is_between_zero_and_one(engine: Engine):
    for mode in (Mode.WORDS, Mode.HYBRID, Mode.MEANING):
        relevances = [
            hit.relevance for hit in engine.search(Query("who may take the lease", mode=mode)).hits
        ]
        assert relevances == sorted(relevances, reverse=True)
        assert all(0 <= relevance <= 1 for relevance in relevances)


def test_semantic_search_finds_near_chunks_without_a_shared_word(tmp_path: Path):
    files = {
        "session.py": "def login(username, password):\n    return check_hash(password, load_user(username))\n",
        "chart.py": "def draw_axis(canvas, ticks):\n    for tick in ticks:\n        canvas.line(tick)\n",
    }
    root = tmp_path / "root"
    root.mkdir()
    for path, text in files.items():
        (root / path).write_text(text, encoding="utf-8")
    question = "sign in with credentials"
    with Engine(root, load(root, environment={"CORTEX_HOME": str(tmp_path / "home")})) as opened:
        opened.index()
        assert not paths(opened, question)
        for mode in (Mode.MEANING, Mode.HYBRID):
            hits = opened.search(Query(question, mode=mode)).hits
            assert [(hit.path, hit.why) for hit in hits] == [("session.py", "meaning")]


@pytest.mark.parametrize("name", ["Lease", "mixCol"])
def test_name_or_its_prefix_is_answered_by_definitions(engine: Engine, name: str):
    hits = engine.search(Query(name, mode=Mode.HYBRID, explain=True)).hits
    assert hits[0].why.startswith("defines ")
    assert not any("meaning" in dict(hit.evidence) for hit in hits)


def test_hits_below_the_threshold_are_left_out(engine: Engine):
    every = engine.search(Query("take the lease", mode=Mode.WORDS)).hits
    cut = sorted(hit.relevance for hit in every)[len(every) // 2]
    page = engine.search(Query("take the lease", mode=Mode.WORDS, threshold=cut))
    assert page.total == len([hit for hit in every if hit.relevance >= cut])


def test_search_pages_have_no_gap(engine: Engine):
    every = engine.search(Query("lease take write", mode=Mode.WORDS)).hits
    pages = [
        engine.search(Query("lease take write", mode=Mode.WORDS, limit=2, offset=at)).hits
        for at in range(0, len(every), 2)
    ]
    assert [hit for page in pages for hit in page] == list(every)


def test_hits_carry_text_up_to_the_character_limit(engine: Engine):
    hits = engine.search(Query("lease take", mode=Mode.WORDS, characters=10)).hits
    assert hits[0].text
    assert not hits[-1].text


def test_repeated_query_gives_the_same_bytes(engine: Engine):
    query = Query("take the lease and write", mode=Mode.HYBRID)
    assert engine.search(query).hits == engine.search(query).hits


def test_query_with_no_known_word_finds_nothing(engine: Engine):
    assert engine.search(Query("zzzqqq", mode=Mode.WORDS)).hits == ()


@pytest.mark.parametrize(
    ("text", "code"), [("", "QUERY_EMPTY"), (" \n", "QUERY_EMPTY"), ("x" * 30_000, "QUERY_INVALID")]
)
def test_empty_or_oversized_query_is_refused(engine: Engine, text: str, code: str):
    with pytest.raises(CortexError) as caught:
        engine.search(Query(text))
    assert caught.value.code == code


def test_last_committed_of_two_equal_files_in_a_clone_comes_first(tmp_path: Path):
    first, root = tmp_path / "first", tmp_path / "clone"
    first.mkdir()
    run = partial(subprocess.run, check=True, capture_output=True)
    run(["git", "init", "-q", str(first)])
    for name in ("m/one.py", "a/two.py", "z/six.py"):
        (first / name).parent.mkdir()
        (first / name).write_text(f"def mix_colours():\n    return {name!r}\n", encoding="utf-8")
        run(["git", "-C", str(first), "add", "-A"])
        run(["git", "-C", str(first), "commit", "-qm", name])
    run(["git", "clone", "-q", str(first), str(root)])
    with Engine(root, load(root, environment={"CORTEX_HOME": str(tmp_path / "home")})) as opened:
        opened.index()
        assert paths(opened, "mix_colours") == ["z/six.py", "a/two.py", "m/one.py"]
        run(["git", "-C", str(root), "reset", "-q", "--hard", "HEAD~1"])
        opened.index()
        assert paths(opened, "mix_colours") == ["a/two.py", "m/one.py"]


def test_prefix_of_a_long_test_title_finds_its_file(tmp_path: Path):
    title = (
        "generates a clause for each primary key of every schema that was loaded before the query"
    )
    (tmp_path / "query_test.exs").write_text(
        f'defmodule QueryTest do\n  test "{title}" do\n    1\n  end\nend\n', encoding="utf-8"
    )
    with Engine(
        tmp_path, load(tmp_path, environment={"CORTEX_HOME": str(tmp_path / "home")})
    ) as opened:
        opened.index()
        assert paths(opened, "generates") == ["query_test.exs"]


def test_query_unknown_to_the_model_is_answered_by_words_with_a_note(tmp_path: Path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "menu.txt").write_text("牛肉面和白米饭\n", encoding="utf-8")
    (root / "store.py").write_text("# 打开数据库\nVALUE = 1\n", encoding="utf-8")
    for number in range(300):  # enough for the quantised scan
        (root / f"{number}.txt").write_text(f"{number}\n", encoding="utf-8")
    with Engine(root, load(root, environment={"CORTEX_HOME": str(tmp_path / "home")})) as opened:
        opened.index()
        for mode in (Mode.HYBRID, Mode.MEANING):
            page = opened.search(Query("数据库", mode=mode))
            assert [hit.path for hit in page.hits] == ["store.py"]
            assert "answered by words: the model knows no word of the query" in page.notes


def test_language_extension_and_path_filters_narrow_semantic_hits(engine: Engine):
    def found(**more: object) -> set[str]:
        query = Query("who may take the lease", mode=Mode.MEANING, **more)  # type: ignore[arg-type]
        return {hit.path for hit in engine.search(query).hits}

    assert {path.rpartition(".")[2] for path in found(extensions=("md",))} == {"md"}
    assert found(languages=("python",)) and all(
        path.endswith(".py") for path in found(languages=("python",))
    )
    assert found(path="src") and all(path.startswith("src/") for path in found(path="src"))
    assert not found(path="src", languages=("markdown",))


@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.MEANING])
def test_semantic_query_without_an_embedder_is_answered_by_words_with_a_note(
    tmp_path: Path, mode: Mode
):
    root = tmp_path / "root"
    root.mkdir()
    (root / "lease.py").write_text(FILES["src/lease.py"], encoding="utf-8")
    settings = load(
        root,
        environment={"CORTEX_HOME": str(tmp_path / "home"), "CODEINDEX_EMBEDDING_PROVIDER": "none"},
    )
    with Engine(root, settings) as opened:
        opened.index()
        page = opened.search(Query("take the lease", mode=mode))
        assert [hit.path for hit in page.hits] == ["lease.py"]
        assert (page.mode, page.notes) == (
            Mode.WORDS,
            ("answered by words: no embedder is configured",),
        )
