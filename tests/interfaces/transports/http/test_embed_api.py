"""`cortex models serve`: the shapes of cortex-embed, the guard of every HTTP server here, and our
own client of it.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from cortex.base.errors import CortexError
from cortex.base.settings import load
from cortex.engine.embedders import open_embedder, open_local
from cortex.engine.embedders.remote import RemoteEmbedder, RemoteModel
from cortex.engine.embedders.server_client import EmbeddingServer as Address
from engine.embedders.stub import DIMENSIONS, Reply, Stub, vectors_of
from protocol.http_client import serving

SERVE = [sys.executable, "-m", "cortex", "models", "serve", "--port", "0"]
TOKEN = "sesame-0123"


@pytest.fixture(scope="module")
def model():
    """A stand-in for Ollama, which the served embedder asks in turn."""
    stub = Stub()
    yield stub
    stub.close()


@contextmanager
def embedding(strangers_environment, model, *arguments: str, **variables: str):
    chosen = {
        "CODEINDEX_EMBEDDING_PROVIDER": "ollama",
        "CODEINDEX_OLLAMA_BASE_URL": model.url,
        **variables,
    }
    with serving([*SERVE, *arguments], strangers_environment.environment(**chosen)) as server:
        yield server


@pytest.fixture(scope="module")
def server(strangers_environment, model):
    with embedding(strangers_environment, model) as server:
        yield server


def ask(server, body: object, **headers: str) -> tuple[int, dict]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response, text = server.send("POST", content, path="/embed", **headers)
    return response.status, json.loads(text)


def test_health_and_model_have_the_shapes_of_cortex_embed(server):
    about = {"dimensions": DIMENSIONS, "max_tokens": 512}
    for path, expected in (
        ("/", {"status": "ok", "model": "nomic-embed-text", **about}),
        ("/model_info", {"name": "nomic-embed-text", **about}),
    ):
        response, text = server.send("GET", path=path)
        assert (response.status, json.loads(text)) == (200, expected)
        assert response.getheader("content-type") == "application/json"


def test_texts_become_vectors_of_length_one_in_their_order(server, model):
    texts = [f"text number {number}" for number in range(5)]
    for mode, prefix in (("query", "search_query: "), ("passage", "search_document: ")):
        status, answer = ask(server, {"texts": texts, "mode": mode})
        expected = np.asarray(vectors_of([prefix + text for text in texts])) / 3
        assert status == 200 and list(answer) == ["embeddings"]
        assert np.allclose(answer["embeddings"], expected, atol=1e-6)


def test_texts_are_embedded_as_passages_by_default(server, model):
    assert ask(server, {"texts": ["a"]})[0] == 200
    assert model.asked[-1].body["input"] == ["search_document: a"]
    assert ask(server, {"texts": []}) == (200, {"embeddings": []})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        {},
        {"texts": "a"},
        {"texts": ["a", 1]},
        {"texts": [None]},
        {"texts": ["a"], "mode": "document"},
        {"texts": ["a"], "mode": 1},
        {"texts": ["a"] * 2049},
    ],
)
def test_malformed_embedding_request_is_refused(server, body):
    status, answer = ask(server, body)
    assert status == 400
    assert answer["error"]["code"] == "ARGUMENT_INVALID"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/embed", 405),
        ("POST", "/", 405),
        ("DELETE", "/model_info", 405),
        ("GET", "/docs", 404),
        ("POST", "/v1", 404),
    ],
)
def test_other_paths_and_methods_are_refused(server, method, path, status):
    response, text = server.send(method, b"{}", path=path)
    assert (response.status, json.loads(text)["error"]["code"]) == (status, "REQUEST_REFUSED")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Length": str(5 * 1024 * 1024)}, 413),
    ],
)
def test_embed_api_checks_host_origin_content_type_and_size(server, headers, status):
    assert ask(server, {"texts": ["a"]}, **headers)[0] == status


def test_failing_model_is_reported_and_the_server_goes_on(server, model):
    model.answer, well = (lambda asked: Reply({"error": "no such model"}, 404)), model.answer
    try:
        status, answer = ask(server, {"texts": ["a"]})
        assert (status, answer["error"]["code"]) == (500, "EMBEDDER_REFUSED")
    finally:
        model.answer = well
    assert ask(server, {"texts": ["a"]})[0] == 200


def test_remote_embedder_works_with_the_embed_server(server, tmp_path):
    variables = {
        "CODEINDEX_EMBEDDING_PROVIDER": "cortex-embed",
        "CORTEX_PROVIDERS_CORTEX_EMBED_BASE_URL": f"http://127.0.0.1:{server.port}",
        "CORTEX_LIMITS_NETWORK_BATCH_SIZE": "3",
    }
    embedder = open_embedder(load(None, environment=variables, user_home=tmp_path))
    assert embedder is not None
    stamp = embedder.connect()
    assert (stamp.provider, stamp.model, stamp.dimensions) == (
        "cortex-embed",
        "nomic-embed-text",
        DIMENSIONS,
    )
    texts = [f"text number {number}" for number in range(10)]
    expected = np.asarray(vectors_of([f"search_document: {text}" for text in texts])) / 3
    assert np.allclose(embedder.embed(texts, "passage"), expected, atol=1e-6)
    embedder.close()


def test_embed_server_requires_its_token_and_the_remote_embedder_sends_it(
    strangers_environment, model
):
    with embedding(strangers_environment, model, CORTEX_HTTP_TOKEN=TOKEN) as server:
        assert ask(server, {"texts": ["a"]})[0] == 401
        assert server.send("GET", path="/")[0].status == 401
        assert ask(server, {"texts": ["a"]}, authorization=f"Bearer {TOKEN}")[0] == 200
        for token, code in ((TOKEN, ""), ("wrong", "EMBEDDER_REFUSED"), ("", "EMBEDDER_REFUSED")):
            embedder = RemoteEmbedder(
                Address("cortex-embed", f"http://127.0.0.1:{server.port}", token), RemoteModel()
            )
            try:
                assert embedder.connect().dimensions == DIMENSIONS and not code
            except CortexError as error:
                assert error.code == code and TOKEN not in str(error)
            embedder.close()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_signal_ends_the_embed_server_with_success(strangers_environment, model):
    with embedding(strangers_environment, model) as server:
        assert server.send("GET", path="/")[0].status == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0


def test_local_model_is_served_by_default(strangers_environment):
    with serving(SERVE, strangers_environment.environment()) as server:
        response, text = server.send("GET", path="/model_info")
        about, local = json.loads(text), open_local()
        assert local.stamp is not None and (about["name"], about["dimensions"]) == (
            local.stamp.model,
            local.stamp.dimensions,
        )
        status, answer = ask(server, {"texts": ["parse a config file", ""], "mode": "query"})
        assert (response.status, status) == (200, 200)
        assert np.allclose(
            answer["embeddings"], local.embed(["parse a config file", ""], "query"), atol=1e-6
        )
