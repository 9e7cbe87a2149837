"""Embedding servers over real HTTP: OpenAI-compatible ones, Ollama and cortex-embed."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from cortex.base.errors import CortexError
from cortex.base.settings import load
from cortex.base.types import Stamp
from cortex.engine.embedders import open_embedder, remote, server_client
from cortex.engine.embedders.remote import Lanes, RemoteEmbedder, RemoteModel
from cortex.engine.embedders.server_client import EmbeddingServer
from cortex.engine.embedders.server_protocols import PREFIXES, scheme_of
from engine.embedders.stub import DIMENSIONS, Asked, Reply, Stub, embeddings, texts_of, vectors_of

KEY = "sk-0123456789abcdef"
PROVIDERS = ("openai", "ollama", "cortex-embed")
Opens = Callable[..., RemoteEmbedder]


@pytest.fixture
def opens(stub: Stub) -> Iterator[Opens]:
    """Open embedders of the stub, and close them in the end."""
    opened: list[RemoteEmbedder] = []

    def open_one(
        provider: str = "openai", *, key: str = "", timeout: float = 20.0, **model: int | str
    ) -> RemoteEmbedder:
        url = stub.url + ("/v1" if provider == "openai" else "")
        name = {} if provider == "cortex-embed" else {"name": "small"}
        opened.append(
            RemoteEmbedder(
                EmbeddingServer(provider, url, key, timeout), RemoteModel(**(name | model))
            )
        )  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for embedder in opened:
        embedder.close()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without a wait between them."""
    monkeypatch.setattr(server_client, "FIRST_WAIT_SECONDS", 0.0)


def error_of(work: Callable[[], object]) -> CortexError:
    with pytest.raises(CortexError) as caught:
        work()
    assert KEY not in f"{caught.value} {caught.value.context} {caught.value.suggestions}"
    assert caught.value.__cause__ is None or KEY not in repr(caught.value.__cause__)
    return caught.value


# -- vectors and requests
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_text_gets_its_own_vector_of_length_one(opens: Opens, provider: str) -> None:
    texts = [f"word{number} text" for number in range(23)]
    rows = opens(provider, batch=4).embed(texts, "passage")
    expected = np.asarray(vectors_of(texts)) / 3
    assert rows.dtype == np.float32
    assert np.allclose(rows, expected, atol=1e-6)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_opening_sends_no_request_and_connecting_sends_one(
    opens: Opens, stub: Stub, provider: str
) -> None:
    embedder = opens(provider)
    assert embedder.stamp is None and stub.asked == []
    model = "stub" if provider == "cortex-embed" else "small"
    assert (
        embedder.connect()
        == embedder.connect()
        == embedder.stamp
        == Stamp(provider, model, DIMENSIONS)
    )
    assert len(stub.asked) == 1


def test_each_provider_gets_requests_in_its_own_format(opens: Opens, stub: Stub) -> None:
    for provider in PROVIDERS:
        embedder = opens(provider)
        embedder.connect()
        stub.asked.clear()
        embedder.embed(["a", "b"], "query")
        (asked,) = stub.asked
        assert asked.headers["Content-Type"] == "application/json"
        assert "Authorization" not in asked.headers
        assert (asked.path, asked.body) == {
            "openai": (
                "/v1/embeddings",
                {"model": "small", "input": ["a", "b"], "encoding_format": "float"},
            ),
            "ollama": ("/api/embed", {"model": "small", "input": ["a", "b"], "truncate": True}),
            "cortex-embed": ("/embed", {"texts": ["a", "b"], "mode": "query"}),
        }[provider]


def test_no_texts_give_an_empty_array_of_vectors(opens: Opens) -> None:
    assert opens().embed([], "passage").shape == (0, DIMENSIONS)


def test_an_empty_text_is_not_sent_empty(opens: Opens, stub: Stub) -> None:
    assert opens().embed(["", " \n"], "passage").shape == (2, DIMENSIONS)
    assert all(text.strip() for asked in stub.asked for text in texts_of(asked))


def test_a_model_gets_the_prefixes_that_it_was_trained_with(opens: Opens, stub: Stub) -> None:
    embedder = opens("ollama", name="nomic-embed-text:v1.5")
    embedder.embed(["where"], "query")
    embedder.embed(["here"], "passage")
    assert [texts_of(asked) for asked in stub.asked[1:]] == [
        ["search_query: where"],
        ["search_document: here"],
    ]
    assert embedder.stamp == Stamp(
        "ollama", "nomic-embed-text:v1.5", DIMENSIONS, "nomic-embed-text"
    )


@pytest.mark.parametrize(
    ("configured", "reported"),
    [
        ("nomic-embed-text", "default"),
        ("mine", "nomic-ai/nomic-embed-text-v1.5"),
        ("e5-base", "nomic-embed-text"),
    ],
)
def test_sent_prefixes_are_those_of_the_stamp(
    opens: Opens, stub: Stub, configured: str, reported: str
) -> None:
    stub.answer = lambda asked: _embedded_as(asked, reported, DIMENSIONS)
    embedder = opens(name=configured)
    assert embedder.connect() == Stamp("openai", reported, DIMENSIONS, "nomic-embed-text")
    embedder.embed(["where"], "query")
    embedder.embed(["here"], "passage")
    assert [texts_of(asked) for asked in stub.asked[1:]] == [
        ["search_query: where"],
        ["search_document: here"],
    ]


@pytest.mark.parametrize(
    ("model", "scheme"),
    [
        ("nomic-embed-text:137m-v1.5-fp16", "nomic-embed-text"),
        ("hf.co/nomic-ai/nomic-embed-text-v2-moe-GGUF:Q8_0", "nomic-embed-text"),
        ("text-embedding-nomic-embed-text-v1.5@q8_0", "nomic-embed-text"),
        ("C:\\models\\nomic-embed-text-v1.5.Q4_K_M.gguf", "nomic-embed-text"),
        ("snowflake-arctic-embed:335m", "snowflake-arctic-embed"),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", "snowflake-arctic-embed"),
        ("snowflake-arctic-embed2:latest", "snowflake-arctic-embed2"),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "snowflake-arctic-embed2"),
        ("BAAI/bge-small-en-v1.5", "bge-small-en"),
        ("intfloat/multilingual-e5-large", "multilingual-e5"),
        ("intfloat/multilingual-e5-large-instruct", ""),
        ("e5-mistral-7b-instruct", ""),
        ("bge-m3", ""),
        ("text-embedding-3-small", ""),
    ],
)
def test_prefix_scheme_follows_the_whole_name_of_a_model(model: str, scheme: str) -> None:
    assert scheme_of(model) == scheme


def test_every_prefix_scheme_belongs_to_a_model() -> None:
    assert all(
        scheme_of(f"{scheme}-small" if scheme == "multilingual-e5" else scheme) == scheme
        for scheme in PREFIXES
    )


def test_dimensions_that_are_configured_are_asked_for_and_checked(opens: Opens, stub: Stub) -> None:
    opens(dimensions=DIMENSIONS).connect()
    assert stub.asked[0].body["dimensions"] == DIMENSIONS
    error = error_of(opens(dimensions=8).connect)
    assert (
        error.code == "EMBEDDER_ANSWER" and "16 dimensions, and 8 are configured" in error.message
    )


def test_batch_stays_below_the_configured_number_of_texts(opens: Opens, stub: Stub) -> None:
    opens(batch=7).embed(["x"] * 40, "passage")
    sizes = [len(texts_of(asked)) for asked in stub.asked[1:]]
    assert max(sizes) == 7 and sum(sizes) == 40


def test_batch_stays_below_the_character_limit(opens: Opens, stub: Stub, monkeypatch) -> None:
    monkeypatch.setattr(remote, "MAX_BATCH_CHARACTERS", 100)
    opens().embed(["x" * 40] * 9, "passage")
    assert [len(texts_of(asked)) for asked in stub.asked[1:]] == [2, 2, 2, 2, 1] or len(
        stub.asked
    ) == 6


def test_parallel_requests_reach_and_respect_their_limit(opens: Opens, stub: Stub) -> None:
    meet = threading.Barrier(3)

    def answer(asked: Asked) -> Reply:
        if len(stub.asked) > 1:
            meet.wait(10)  # three at once, or nothing ever
        return embeddings(asked)

    stub.answer = answer
    assert len(opens(batch=1, requests=3).embed(["x"] * 12, "passage")) == 12
    assert stub.most_at_once == 3


def test_threads_can_embed_at_the_same_time(opens: Opens) -> None:
    embedder, shapes = opens(batch=2, requests=4), []
    threads = [
        threading.Thread(
            target=lambda: shapes.append(embedder.embed(["a", "b", "c"], "passage").shape)
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert shapes == [(3, DIMENSIONS)] * 8


# -- keys
# --------------------------------------------------------------------------------------------------------------


def test_the_key_goes_into_one_header_and_is_never_shown(opens: Opens, stub: Stub, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    embedder = opens(key=KEY)
    embedder.embed(["a"], "passage")
    assert {asked.headers["Authorization"] for asked in stub.asked} == {f"Bearer {KEY}"}
    assert KEY not in caplog.text
    assert KEY not in repr(embedder.__dict__) and KEY not in repr(
        EmbeddingServer("openai", stub.url, KEY)
    )


@pytest.mark.parametrize("status", [401, 403])
def test_refused_key_is_reported_without_the_server_s_message(
    opens: Opens, stub: Stub, status: int
) -> None:
    stub.answer = lambda asked: Reply(
        {"error": {"message": f"Incorrect API key provided: {KEY[:8]}***"}}, status
    )
    error = error_of(opens(key=KEY).connect)
    assert (
        error.code == "EMBEDDER_REFUSED"
        and "refuses the key" in error.message
        and KEY[:8] not in error.message
    )
    assert "wants a key" in error_of(opens().connect).message


def test_key_repeated_by_the_server_is_masked_in_the_error(opens: Opens, stub: Stub) -> None:
    stub.answer = lambda asked: Reply({"error": f"who is {asked.headers['Authorization']}?"}, 400)
    assert "who is Bearer ***?" in error_of(opens(key=KEY).connect).message


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX-Other: 1", f"{KEY}é", f" {KEY}"])
def test_a_key_that_would_break_the_header_is_refused(opens: Opens, stub: Stub, key: str) -> None:
    error = error_of(opens(key=key).connect)
    assert error.code == "EMBEDDER_REFUSED" and "key" in error.message
    assert stub.asked == []


def test_a_redirect_is_not_followed(opens: Opens, stub: Stub) -> None:
    other = Stub()
    try:
        stub.answer = lambda asked: Reply(None, 307, {"Location": f"{other.url}/v1/embeddings"})
        error = error_of(opens(key=KEY).connect)
        assert error.code == "EMBEDDER_REFUSED" and "redirect" in error.message
        assert other.asked == []
    finally:
        other.close()


def test_an_address_is_shown_without_the_secrets_in_it() -> None:
    assert (
        server_client.shown("https://me:hush@models.example:8443/v1?token=hush#x")
        == "https://models.example:8443/v1"
    )
    assert server_client.shown("http://[::1]:8121") == "http://[::1]:8121"


def test_no_proxy_of_the_environment_is_used(opens: Opens, stub: Stub, monkeypatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert opens().connect().dimensions == DIMENSIONS


# -- retries
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_passages_are_retried_after_a_temporary_error(
    opens: Opens, stub: Stub, status: int
) -> None:
    embedder, failures = opens(), iter([1, 1, 1])
    embedder.connect()
    stub.answer = lambda asked: (
        Reply({"error": "busy"}, status) if next(failures, 0) else embeddings(asked)
    )
    assert len(embedder.embed(["a"], "passage")) == 1
    assert len(stub.asked) == 1 + 4


def test_passages_are_given_up_after_the_last_retry(opens: Opens, stub: Stub) -> None:
    embedder = opens()
    embedder.connect()
    stub.answer = lambda asked: Reply({"error": "busy"}, 503)
    error = error_of(lambda: embedder.embed(["a"], "passage"))
    assert (
        error.code == "EMBEDDER_UNAVAILABLE" and error.retryable and error.context["status"] == 503
    )
    assert len(stub.asked) == 1 + remote.PASSAGE_TRIES


def test_retry_waits_as_long_as_retry_after_says(opens: Opens, stub: Stub) -> None:
    embedder, failures = opens(), iter([1])
    embedder.connect()
    stub.answer = lambda asked: (
        Reply({"error": "slow down"}, 429, {"Retry-After": "1"})
        if next(failures, 0)
        else embeddings(asked)
    )
    started = time.monotonic()
    embedder.embed(["a"], "passage")
    assert time.monotonic() - started >= 0.9


@pytest.mark.parametrize("after", ["3600", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_retry_after_of_an_hour_is_an_error_at_once(opens: Opens, stub: Stub, after: str) -> None:
    embedder = opens()
    embedder.connect()
    stub.answer = lambda asked: Reply({"error": "slow down"}, 429, {"Retry-After": after})
    error = error_of(lambda: embedder.embed(["a"], "passage"))
    assert (
        error.code == "EMBEDDER_UNAVAILABLE"
        and int(str(error.context["retry_after_seconds"])) >= 3600
    )
    assert len(stub.asked) == 2


def test_failed_query_is_not_retried(opens: Opens, stub: Stub) -> None:
    embedder = opens()
    embedder.connect()
    stub.answer = lambda asked: Reply({"error": "busy"}, 503)
    assert error_of(lambda: embedder.embed(["a"], "query")).code == "EMBEDDER_UNAVAILABLE"
    assert len(stub.asked) == 2
    stub.answer = embeddings
    assert len(embedder.embed(["b"], "query")) == 1


class SlowPassages:
    """An answer that holds passages back until an event, and queries not at all."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self, asked: Asked) -> Reply:
        if "passage" in texts_of(asked):
            self.over.wait(10)
        return embeddings(asked)


def test_a_query_does_not_wait_for_passages(opens: Opens, stub: Stub, until) -> None:
    embedder, slow, done = opens(batch=1, requests=2), SlowPassages(), []
    embedder.connect()
    stub.answer = slow
    thread = threading.Thread(
        target=lambda: done.append(embedder.embed(["passage"] * 8, "passage"))
    )
    thread.start()
    try:
        until(lambda: len(stub.asked) == 3)
        assert len(embedder.embed(["where"], "query")) == 1
        assert len(stub.asked) == 4 and not done  # it overtook the six that wait
    finally:
        slow.over.set()
        thread.join(20)
    assert len(done[0]) == 8 and stub.most_at_once == 3


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_query_is_given_up_in_time_while_connecting_or_embedding(
    opens: Opens, stub: Stub, monkeypatch, provider: str, connected: bool
) -> None:
    monkeypatch.setattr(remote, "QUERY_SECONDS", 0.5)
    over = threading.Event()
    embedder = opens(provider, batch=1, requests=1)
    if connected:
        embedder.connect()
    stub.answer = lambda asked: embeddings(asked) if over.wait(10) else Reply()
    reported: list[CortexError] = []
    threads = [
        threading.Thread(
            target=lambda: reported.append(error_of(lambda: embedder.embed(["where"], "query")))
        )
        for _ in range(5)
    ]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    took = time.monotonic() - started
    over.set()
    assert [error.code for error in reported] == ["EMBEDDER_UNAVAILABLE"] * 5
    assert all("did not answer within" in error.message for error in reported)
    assert took < 2  # one after the other, they would take 2.5


def test_endless_work_and_the_wait_for_its_lane_end_at_the_deadline() -> None:
    lanes, over = Lanes(1, lambda: CortexError("INTERNAL_ERROR", "closed")), threading.Event()
    started = time.monotonic()
    for _ in range(4):  # the second has the lane for those in a hurry, the others none
        with pytest.raises(TimeoutError):
            lanes.run([lambda: over.wait(10)], time.monotonic() + 0.1)
    over.set()
    assert time.monotonic() - started < 5


def test_passage_waiting_for_its_retry_lets_queries_through(
    opens: Opens, stub: Stub, until
) -> None:
    embedder, meet = opens(batch=1, requests=1), threading.Barrier(2)
    embedder.connect()

    def answer(asked: Asked) -> Reply:
        if "passage" in texts_of(asked):
            return Reply({"error": "slow down"}, 429, {"Retry-After": "30"})
        meet.wait(4)  # two at once, or an error
        return embeddings(asked)

    stub.answer = answer
    passages = threading.Thread(
        target=lambda: error_of(lambda: embedder.embed(["passage"] * 2, "passage"))
    )
    passages.start()
    shapes: list[tuple[int, ...]] = []
    queries = [
        threading.Thread(target=lambda: shapes.append(embedder.embed(["where"], "query").shape))
        for _ in range(2)
    ]
    until(lambda: len(stub.asked) == 2)
    for thread in queries:
        thread.start()
    for thread in queries:
        thread.join(20)
    embedder.close()
    passages.join(20)
    assert shapes == [(1, DIMENSIONS)] * 2 and not passages.is_alive()
    # The second isn't sent meanwhile
    assert sum("passage" in texts_of(asked) for asked in stub.asked) == 1


@pytest.mark.parametrize("status", [400, 404, 405, 422])
def test_request_refused_by_the_server_is_not_retried(
    opens: Opens, stub: Stub, status: int
) -> None:
    stub.answer = lambda asked: Reply(
        {"error": 'model "small" not found, try pulling it first'}, status
    )
    error = error_of(lambda: opens("ollama").embed(["a"], "passage"))
    assert (
        error.code == "EMBEDDER_REFUSED"
        and not error.retryable
        and "try pulling it" in error.message
    )
    assert len(stub.asked) == 1


def test_spent_quota_is_an_error_without_a_retry(opens: Opens, stub: Stub) -> None:
    stub.answer = lambda asked: Reply(
        {"error": {"code": "insufficient_quota", "message": "You exceeded it"}}, 429
    )
    assert error_of(lambda: opens().embed(["a"], "passage")).code == "EMBEDDER_REFUSED"
    assert len(stub.asked) == 1


def test_unreachable_server_is_an_error_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    embedder = RemoteEmbedder(
        EmbeddingServer("ollama", f"http://127.0.0.1:{port}"), RemoteModel("small")
    )
    error = error_of(embedder.connect)
    assert (
        error.code == "EMBEDDER_UNAVAILABLE"
        and f"ollama at http://127.0.0.1:{port} can't be reached" in error.message
    )
    embedder.close()


def test_a_server_that_never_answers_is_given_up_in_time(opens: Opens, stub: Stub) -> None:
    over = threading.Event()
    stub.answer = lambda asked: embeddings(asked) if over.wait(20) else Reply()
    try:
        error = error_of(opens(timeout=0.2).connect)
        assert error.code == "EMBEDDER_UNAVAILABLE" and "within 0.2 s" in error.message
    finally:
        over.set()


def test_slow_server_gets_smaller_batches(opens: Opens, stub: Stub) -> None:
    embedder, over = opens(batch=8, requests=1, timeout=0.5), threading.Event()
    embedder.connect()

    def answer(asked: Asked) -> Reply:
        if len(texts_of(asked)) > 2:
            over.wait(20)
        return embeddings(asked)

    stub.answer = answer
    texts = [f"word{number}" for number in range(9)]
    try:
        for _ in range(2):
            rows = embedder.embed(texts, "passage")
            assert np.allclose(rows, np.asarray(vectors_of(texts)) / 3, atol=1e-6)
        sizes = [len(texts_of(asked)) for asked in stub.asked[1:]]
        assert sizes[:3] == [8, 4, 2] and max(sizes[-5:]) <= 2  # the second time it is known
    finally:
        over.set()


def test_closing_ends_every_wait_at_once(opens: Opens, stub: Stub, until) -> None:
    embedder, over = opens(batch=1, requests=2), threading.Event()
    embedder.connect()
    stub.answer = lambda asked: embeddings(asked) if over.wait(20) else Reply()
    reported: list[CortexError] = []
    thread = threading.Thread(
        target=lambda: reported.append(error_of(lambda: embedder.embed(["x"] * 9, "passage")))
    )
    thread.start()
    try:
        until(lambda: len(stub.asked) == 3)
        embedder.close()
        thread.join(5)
        assert [error.code for error in reported] == ["EMBEDDER_UNAVAILABLE"]
        assert error_of(lambda: embedder.embed(["x"], "passage")).code == "EMBEDDER_UNAVAILABLE"
    finally:
        over.set()


# -- answers that can't be used
# ----------------------------------------------------------------------------------------

WRONG = {
    "no JSON": Reply(raw=b"<html>"),
    "nested without end": Reply(raw=b"[" * 100_000),
    "no object": Reply([1, 2]),
    "no vectors": Reply({"model": "small"}),
    "too few": Reply({"embeddings": []}),
    "too many": Reply({"embeddings": vectors_of(["a", "b"])}),
    "no list": Reply({"embeddings": {"0": [1.0]}}),
    "empty": Reply({"embeddings": [[]]}),
    "texts": Reply({"embeddings": [["1.0", "2.0"]]}),
    "nothing": Reply({"embeddings": [[None, 1.0]]}),
    "nested": Reply({"embeddings": [[[1.0]]]}),
    "zeros": Reply({"embeddings": [[0.0, 0.0]]}),
    "not a number": Reply(raw=b'{"embeddings": [[NaN, 1.0]]}'),
    "endless": Reply(raw=b'{"embeddings": [[Infinity, 1.0]]}'),
    "huge": Reply(raw=b'{"embeddings": [[1e999, 1.0]]}'),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_malformed_answer_is_an_error_and_never_a_vector(
    opens: Opens, stub: Stub, wrong: str
) -> None:
    stub.answer = lambda asked: WRONG[wrong]
    error = error_of(lambda: opens("ollama").embed(["a"], "passage"))
    assert (error.code, error.context["provider"]) == ("EMBEDDER_ANSWER", "ollama")
    assert any("baseUrl" in line for line in error.suggestions)


def test_vectors_of_different_lengths_are_an_error(opens: Opens, stub: Stub) -> None:
    embedder = opens("ollama")
    embedder.connect()
    stub.answer = lambda asked: Reply({"embeddings": [[1.0, 2.0], [1.0]]})
    assert "different lengths" in error_of(lambda: embedder.embed(["a", "b"], "passage")).message


@pytest.mark.parametrize("numbers", [(0, 0), (1, 2), (0, "x")])
def test_vectors_that_are_numbered_wrongly_are_an_error(
    opens: Opens, stub: Stub, numbers: tuple[object, object]
) -> None:
    embedder = opens()
    embedder.connect()
    stub.answer = lambda asked: Reply(
        {"data": [{"index": n, "embedding": [1.0] * DIMENSIONS} for n in numbers]}
    )
    assert error_of(lambda: embedder.embed(["a", "b"], "passage")).code == "EMBEDDER_ANSWER"


def test_endless_answer_is_not_read_to_its_end(opens: Opens, stub: Stub, monkeypatch) -> None:
    monkeypatch.setattr(server_client, "MAX_ANSWER_BYTES", 1_000_000)
    stub.answer = lambda asked: Reply(raw=b"[" + b"0," * 2_000_000 + b"0]")
    assert error_of(lambda: opens().embed(["a"], "passage")).code == "EMBEDDER_ANSWER"


def test_vectors_of_another_length_than_before_are_an_error(opens: Opens, stub: Stub) -> None:
    for provider in PROVIDERS:
        stub.answer = embeddings
        embedder = opens(provider)
        embedder.connect()
        stub.answer = lambda asked: _embedded_as(asked, "small", 8)
        error = error_of(lambda embedder=embedder: embedder.embed(["a"], "passage"))
        assert error.code == "EMBEDDER_CHANGED" and "8 dimensions now" in error.message
        assert any("restart" in line for line in error.suggestions)


def test_answer_of_another_model_than_before_is_an_error(opens: Opens, stub: Stub) -> None:
    embedder = opens("ollama")
    embedder.embed(["a"], "passage")
    # The same by another name
    stub.answer = lambda asked: _embedded_as(asked, "library/small:latest", DIMENSIONS)
    embedder.embed(["a"], "passage")
    stub.answer = lambda asked: _embedded_as(asked, "large", DIMENSIONS)
    error = error_of(lambda: embedder.embed(["a"], "passage"))
    assert error.code == "EMBEDDER_CHANGED" and "'large'" in error.message


def test_model_missing_in_answers_is_asked_for_now_and_then(
    opens: Opens, stub: Stub, monkeypatch
) -> None:
    embedder = opens("cortex-embed")
    for _ in range(3):
        embedder.embed(["a"], "passage")
    assert [asked.path for asked in stub.asked] == ["/", "/embed", "/embed", "/embed"]
    monkeypatch.setattr(remote, "GREETING_SECONDS", -1.0)
    embedder.embed(["a"], "passage")
    about = {"status": "ok", "model": "other", "dimensions": DIMENSIONS, "max_tokens": 512}
    stub.answer = lambda asked: Reply(about) if asked.method == "GET" else embeddings(asked)
    error = error_of(lambda: embedder.embed(["a"], "passage"))
    assert error.code == "EMBEDDER_CHANGED" and "'other'" in error.message
    assert stub.asked[-1].path == "/"


def test_server_with_another_model_is_refused_until_the_earlier_one_is_back(
    opens: Opens, stub: Stub, monkeypatch
) -> None:
    embedder = opens("cortex-embed")
    embedder.connect()
    about = {"status": "ok", "model": "other", "dimensions": DIMENSIONS, "max_tokens": 512}
    stub.answer = lambda asked: Reply(about) if asked.method == "GET" else embeddings(asked)
    with monkeypatch.context() as later:
        later.setattr(remote, "GREETING_SECONDS", -1.0)
        assert error_of(lambda: embedder.embed(["a"], "passage")).code == "EMBEDDER_CHANGED"
    for mode in ("passage", "query", "passage"):
        assert error_of(lambda mode=mode: embedder.embed(["a"], mode)).code == "EMBEDDER_CHANGED"
    assert {asked.path for asked in stub.asked} == {"/"}  # no text was sent to it
    stub.answer = embeddings
    assert embedder.embed(["a"], "passage").shape == (1, DIMENSIONS)


def test_stamp_names_the_model_that_the_server_chose(opens: Opens, stub: Stub) -> None:
    stub.answer = lambda asked: _embedded_as(asked, "/models/other.gguf", DIMENSIONS)
    assert opens("ollama").connect().model == "/models/other.gguf"


def _embedded_as(asked: Asked, model: str, dimensions: int) -> Reply:
    vectors = vectors_of(texts_of(asked), dimensions)
    if asked.path == "/v1/embeddings":
        return Reply(
            {"data": [{"index": i, "embedding": v} for i, v in enumerate(vectors)], "model": model}
        )
    return Reply(
        {"embeddings": vectors, "model": model}
        if asked.path != "/embed"
        else {"embeddings": vectors}
    )


# -- too long
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "refusal",
    [
        Reply({"error": {"message": "This model's maximum context length is 8192 tokens"}}, 400),
        Reply({"error": "the input length exceeds the context length"}, 400),
        Reply(
            {
                "error": {
                    "message": "input is too large to process. increase the physical batch size"
                }
            },
            500,
        ),
        Reply({"detail": "too much"}, 413),
    ],
)
def test_text_too_long_for_the_server_is_cut_until_it_fits(
    opens: Opens, stub: Stub, refusal: Reply
) -> None:
    texts = ["short", "long " * 300, "other", "", "longer " * 1000]

    def answer(asked: Asked) -> Reply:
        return refusal if any(len(text) > 400 for text in texts_of(asked)) else embeddings(asked)

    stub.answer = answer
    rows = opens().embed(texts, "passage")
    assert rows.shape == (5, DIMENSIONS)
    assert np.allclose(rows[[0, 2]], np.asarray(vectors_of(["short", "other"])) / 3, atol=1e-6)


def test_a_text_is_cut_before_it_is_sent(opens: Opens, stub: Stub) -> None:
    opens().embed(["x" * 1_000_000], "passage")
    assert len(texts_of(stub.asked[-1])[0]) == remote.MAX_CHARACTERS


def test_server_that_refuses_every_length_is_given_up(opens: Opens, stub: Stub) -> None:
    embedder = opens()
    embedder.connect()
    stub.answer = lambda asked: Reply({"error": "too long"}, 400)
    assert error_of(lambda: embedder.embed(["x" * 5_000], "passage")).code == "EMBEDDER_REFUSED"
    assert error_of(opens().connect).code == "EMBEDDER_REFUSED"


def test_lone_surrogates_are_sent_as_valid_text(opens: Opens) -> None:
    assert opens().embed(["\ud800"], "passage").shape == (1, DIMENSIONS)


# -- chosen by settings
# ------------------------------------------------------------------------------------------------


def open_configured(tmp_path, **variables: str):
    settings = load(
        None, environment={"CORTEX_HOME": str(tmp_path / "home"), **variables}, user_home=tmp_path
    )
    return open_embedder(settings)


def test_provider_setting_chooses_the_embedder(tmp_path, stub: Stub) -> None:
    for provider in PROVIDERS:
        embedder = open_configured(
            tmp_path,
            CODEINDEX_EMBEDDING_PROVIDER=provider,
            CORTEX_PROVIDERS_OPENAI_BASE_URL=stub.url,  # /v1 is added
            CODEINDEX_OPENAI_API_KEY=KEY,
            CODEINDEX_OLLAMA_BASE_URL=f"{stub.url}/",
            # As other programs spell it
            CORTEX_PROVIDERS_CORTEX_EMBED_BASE_URL=f"{stub.url}/embed",
        )
        assert embedder is not None and (embedder.name, embedder.costly) == (provider, True)
        assert embedder.embed(["a"], "passage").shape == (1, DIMENSIONS)
        embedder.close()
    assert [asked.headers.get("Authorization") for asked in stub.asked] == [f"Bearer {KEY}"] * 2 + [
        None
    ] * 4


def test_lower_of_two_batch_limits_counts(tmp_path, stub: Stub) -> None:
    variables = {
        "CODEINDEX_EMBEDDING_PROVIDER": "openai",
        "CORTEX_PROVIDERS_OPENAI_BASE_URL": f"{stub.url}/v1",
    }
    for own, general in ((3, 5), (5, 3)):
        stub.asked.clear()
        embedder = open_configured(
            tmp_path,
            **variables,
            CORTEX_PROVIDERS_OPENAI_BATCH_SIZE=str(own),
            CORTEX_LIMITS_NETWORK_BATCH_SIZE=str(general),
            CORTEX_LIMITS_NETWORK_CONCURRENT_REQUESTS="1",
        )
        assert embedder is not None
        embedder.embed(["x"] * 7, "passage")
        assert [len(texts_of(asked)) for asked in stub.asked] == [1, 3, 3, 1]
        embedder.close()


@pytest.mark.parametrize(
    ("provider", "own"), [("ollama", "100ms"), ("openai", "20s"), ("ollama", "20s")]
)
def test_request_ends_at_the_lower_of_two_timeouts(
    tmp_path, stub: Stub, provider: str, own: str
) -> None:
    over = threading.Event()
    stub.answer = lambda asked: embeddings(asked) if over.wait(20) else Reply()
    embedder = open_configured(
        tmp_path,
        CODEINDEX_EMBEDDING_PROVIDER=provider,
        CORTEX_PROVIDERS_OPENAI_BASE_URL=stub.url,
        CODEINDEX_OLLAMA_BASE_URL=stub.url,
        CORTEX_PROVIDERS_OLLAMA_TIMEOUT=own,
        CORTEX_LIMITS_NETWORK_EMBEDDING_TIMEOUT="20s" if own == "100ms" else "100ms",
    )
    assert embedder is not None
    try:
        assert "within 0.1 s" in error_of(embedder.connect).message
    finally:
        over.set()
        embedder.close()


def test_the_number_of_requests_at_once_is_limited(tmp_path, stub: Stub) -> None:
    under_way, most, lock = 0, 0, threading.Lock()

    def answer(asked: Asked) -> Reply:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        reply = embeddings(asked)
        with lock:
            under_way -= 1
        return reply

    stub.answer = answer
    embedder = open_configured(
        tmp_path,
        CODEINDEX_EMBEDDING_PROVIDER="ollama",
        CODEINDEX_OLLAMA_BASE_URL=stub.url,
        CORTEX_LIMITS_NETWORK_BATCH_SIZE="1",
        CORTEX_LIMITS_NETWORK_CONCURRENT_REQUESTS="1",
    )
    assert embedder is not None
    embedder.embed(["x"] * 8, "passage")
    embedder.close()
    assert most == 1


def test_openai_without_a_key_is_not_contacted_and_the_error_names_the_setting(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: pytest.fail("somebody was contacted")
    )
    embedder = open_configured(tmp_path, CODEINDEX_EMBEDDING_PROVIDER="openai")
    assert embedder is not None
    for work in (
        embedder.connect,
        lambda: embedder.embed(["x"], "query"),
        lambda: embedder.embed(["x"], "passage"),
    ):
        error = error_of(work)
        assert (error.code, error.retryable) == ("EMBEDDER_REFUSED", False)
        assert (
            "there is no key; set CODEINDEX_OPENAI_API_KEY, or providers.openai.apiKey"
            in error.message
        )
    embedder.close()


def test_no_embedder_is_opened_where_semantic_search_is_off(tmp_path) -> None:
    assert (
        open_configured(
            tmp_path, CORTEX_INDEXING_STRATEGIES="tfidf", CODEINDEX_EMBEDDING_PROVIDER="ollama"
        )
        is None
    )
    assert open_configured(tmp_path, CODEINDEX_EMBEDDING_PROVIDER="none") is None


def test_local_only_mode_uses_no_remote_embedder(tmp_path) -> None:
    away = {"CORTEX_SERVER_LOCAL_ONLY": "true", "CODEINDEX_EMBEDDING_PROVIDER": "ollama"}
    elsewhere = open_configured(tmp_path, **away, CODEINDEX_OLLAMA_BASE_URL="http://10.0.0.1:11434")
    assert elsewhere is not None and elsewhere.name == "static"
    here = open_configured(tmp_path, **away)
    assert here is not None and here.name == "ollama"
    here.close()
