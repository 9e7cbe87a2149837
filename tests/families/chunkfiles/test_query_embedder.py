"""The embedder of questions about chunks: an endpoint, the bundled model, or none."""

import json
import socket
import sys
from pathlib import Path

import psutil
import pytest

from cortex.base.errors import NetworkError
from cortex.base.types import Mode
from cortex.engine.embedders import open_local
from cortex.families.chunkfiles.index import ChunkQuery
from cortex.families.chunkfiles.query_embedder import is_same
from engine.embedders.stub import DIMENSIONS, Reply, embeddings
from families.chunkfiles.chunk_files import another_process, ids, make_chunk, write_chunks


@pytest.fixture(autouse=True)
def chunks(folder):
    write_chunks(folder / "a.json", make_chunk("a", "apple tree"), make_chunk("b", "pear tree"))


@pytest.fixture
def from_file(folder, home):
    """`from_file({...})`: a project with this in its own file, allowed by the person."""

    def write(embedding: dict, *, allowed: bool = True) -> Path:
        root = folder.parent.parent
        (root / ".cortex" / "config.yml").write_text(
            json.dumps({"embedding": embedding}), encoding="utf-8"
        )
        if allowed:
            home.mkdir(exist_ok=True)
            own = {"embedding": {"allowed_projects": [str(root)]}}
            (home / "config.yml").write_text(json.dumps(own), encoding="utf-8")
        return root

    return write


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_an_endpoint_with_the_files_model_embeds_questions(opened, stub):
    found = opened(CORTEX_EMBEDDING_ENDPOINT=f"{stub.url}/embed").search(ChunkQuery("apple"))
    assert (found.mode, found.notes) == (Mode.HYBRID, ())
    assert ids(found)[0] == "a"
    asked = [request for request in stub.asked if request.method == "POST"]
    assert asked[-1].path == "/embed"
    assert asked[-1].body == {"texts": ["apple"], "mode": "query"}


def test_chunk_without_a_shared_word_is_found_by_meaning(folder, opened, stub):
    vector = embeddings(stub_question("quince")).body["embeddings"][0]
    write_chunks(
        folder / "a.json",
        make_chunk("near", "something else", embedding=vector),
        make_chunk("far", "pear"),
    )
    index = opened(CORTEX_EMBEDDING_ENDPOINT=stub.url)
    assert ids(index.search(ChunkQuery("quince"))) == ["near"]


def stub_question(text):
    from engine.embedders.stub import Asked

    return Asked("POST", "/embed", {}, {"texts": [text], "mode": "query"})


def test_loopback_endpoint_of_an_allowed_project_is_asked(opened, stub, from_file):
    index = opened(root=from_file({"endpoint": f"{stub.url}/embed"}))
    assert index.search(ChunkQuery("apple")).mode is Mode.HYBRID


def test_endpoint_of_a_project_that_is_not_allowed_is_not_asked(opened, stub, from_file):
    found = opened(root=from_file({"endpoint": f"{stub.url}/embed"}, allowed=False)).search(
        ChunkQuery("apple")
    )
    assert (found.mode, stub.asked) == (Mode.WORDS, [])
    assert "`cortex chunks allow`" in found.notes[0]


def test_remote_endpoint_from_a_projects_file_is_never_asked(opened, from_file, settings):
    root = from_file({"endpoint": "http://192.0.2.1:8121/embed"})
    assert settings(root).embedding.endpoint == ""
    assert opened(root=root).search(ChunkQuery("apple")).mode is Mode.WORDS


def test_unreachable_endpoint_from_a_file_means_words_and_a_note(opened, from_file):
    index = opened(root=from_file({"endpoint": f"http://127.0.0.1:{unused_port()}/embed"}))
    found = index.search(ChunkQuery("apple"))
    assert (ids(found), found.mode) == (["a"], Mode.WORDS)
    assert "can't be asked now" in found.notes[0]
    assert "is searched by words" in index.warning


def test_unreachable_endpoint_from_the_environment_is_an_error(opened):
    with pytest.raises(NetworkError) as caught:
        opened(CORTEX_EMBEDDING_ENDPOINT=f"http://127.0.0.1:{unused_port()}")
    assert caught.value.code == "EMBEDDER_UNAVAILABLE"


def test_unreachable_required_endpoint_is_an_error(opened, from_file):
    with pytest.raises(NetworkError):
        opened(root=from_file({"endpoint": f"http://127.0.0.1:{unused_port()}", "required": True}))


@pytest.mark.parametrize(
    ("greeting", "reason", "code"),
    [
        ({"model": "another", "dimensions": DIMENSIONS}, "is not the model", "EMBEDDER_CHANGED"),
        ({"model": "stub", "dimensions": 8}, "dimensions", "EMBEDDER_CHANGED"),
        ({"model": 7}, "can't be used", "EMBEDDER_UNAVAILABLE"),
    ],
)
def test_a_server_with_another_model_is_not_asked(opened, stub, from_file, greeting, reason, code):
    stub.answer = lambda asked: Reply(greeting) if asked.method == "GET" else embeddings(asked)
    root = from_file({"endpoint": stub.url})
    found = opened(root=root).search(ChunkQuery("apple"))
    assert (found.mode, ids(found)) == (Mode.WORDS, ["a"])
    assert reason in found.notes[0]
    with pytest.raises(NetworkError, match="questions can't be embedded") as caught:
        opened(CORTEX_EMBEDDING_ENDPOINT=stub.url)
    assert (caught.value.code, caught.value.retryable) == (code, code == "EMBEDDER_UNAVAILABLE")
    assert (
        "tfidf" not in str(caught.value.suggestions)
        and "CORTEX_EMBEDDING_ENDPOINT" in caught.value.suggestions[0]
    )


def test_failing_endpoint_is_an_error_only_where_it_is_required(opened, stub, from_file):
    required = opened(CORTEX_EMBEDDING_ENDPOINT=stub.url)
    optional = opened(root=from_file({"endpoint": stub.url}))
    assert (
        optional.search(ChunkQuery("apple")).mode
        is required.search(ChunkQuery("apple")).mode
        is Mode.HYBRID
    )
    stub.answer = lambda asked: Reply({"error": "broken"}, 500)
    with pytest.raises(NetworkError):
        required.search(ChunkQuery("pear"))
    found = optional.search(ChunkQuery("pear"))
    assert (found.mode, ids(found)) == (Mode.WORDS, ["b"])
    assert "answered by words" in found.notes[0]
    stub.answer = embeddings
    # It doesn't rest: each question is a try
    assert required.search(ChunkQuery("pear")).mode is Mode.HYBRID


def test_query_with_a_zero_vector_is_answered_by_words(opened, stub):
    index = opened(CORTEX_EMBEDDING_ENDPOINT=stub.url)
    stub.answer = lambda asked: (
        embeddings(asked) if asked.method == "GET" else Reply({"embeddings": [[0.0] * DIMENSIONS]})
    )
    found = index.search(ChunkQuery("apple"))
    assert (found.mode, ids(found)) == (Mode.WORDS, ["a"])
    assert found.notes == ("answered by words: the model knows no word of the query",)


def test_vectors_of_the_bundled_model_need_no_server(folder, opened):
    local = open_local()
    stamp = local.connect()
    texts = ["open a connection to the database", "paint the fence green"]
    rows = local.embed(texts, "passage").tolist()
    write_chunks(
        folder / "a.json",
        *[make_chunk(text[:4], text, embedding=row) for text, row in zip(texts, rows, strict=True)],
        model=stamp.model,
        dimensions=stamp.dimensions,
    )
    found = opened().search(ChunkQuery("connect to database"))
    assert (found.mode, ids(found)[0], found.notes) == (Mode.HYBRID, "open", ())


def test_unavailable_model_is_named_with_advice_to_reembed(opened):
    (note,) = opened().search(ChunkQuery("apple")).notes
    assert "by stub" in note
    assert "cortex chunks reembed" in note


def test_chunks_of_an_unavailable_model_are_found_by_words_beside_another(folder, opened, stub):
    write_chunks(
        folder / "b.json",
        *[make_chunk(f"n{n}", "apple", embedding=[1.0] * 8) for n in range(3)],
        model="other",
        dimensions=8,
    )
    found = opened(CORTEX_EMBEDDING_ENDPOINT=stub.url).search(ChunkQuery("apple"))
    assert found.mode is Mode.HYBRID
    assert found.notes == ("chunks with vectors of another model (other) are found by words only",)
    assert set(ids(found)) >= {"a", "n0", "n1", "n2"}


def test_local_only_refuses_a_remote_endpoint(opened, settings):
    with pytest.raises(NetworkError, match=r"server\.localOnly is on"):
        opened(CORTEX_EMBEDDING_ENDPOINT="http://192.0.2.1:8121", CORTEX_SERVER_LOCAL_ONLY="true")


def test_token_is_not_sent_to_an_endpoint_from_a_projects_file(opened, stub, from_file, home):
    home.mkdir()
    config = home / "config.yml"
    config.write_text("providers:\n  cortexEmbed:\n    token: secret-token\n", encoding="utf-8")
    config.chmod(0o600)
    opened(root=from_file({"endpoint": stub.url})).search(ChunkQuery("apple"))
    assert stub.asked
    assert not [request for request in stub.asked if "secret-token" in str(request.headers)]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("BAAI/bge-small-en-v1.5", "bge-small-en-v1.5", True),
        ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8", True),
        ("bge-small-en-v1.5", "bge-base-en-v1.5", False),
        ("", "anything", True),
    ],
)
def test_model_names_match_without_organisation_and_quantization(first, second, same):
    assert is_same(first, second) is same


@pytest.mark.skipif(sys.platform == "win32", reason="psutil's children of a child")
def test_autostarted_model_server_ends_with_the_index(folder, home, opened, until):
    stamp = open_local().connect()
    row = open_local().embed(["apple tree"], "passage").tolist()[0]
    write_chunks(
        folder / "a.json",
        make_chunk("a", "apple tree", embedding=row),
        model=stamp.model,
        dimensions=stamp.dimensions,
    )
    address = f"http://127.0.0.1:{unused_port()}/embed"
    index = opened(CORTEX_EMBEDDING_ENDPOINT=address, CORTEX_EMBEDDING_AUTOSTART="true")
    assert index.search(ChunkQuery("apple")).mode is Mode.HYBRID
    (child,) = [process for process in psutil.Process().children() if "models" in process.cmdline()]
    index.close()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.skipif(sys.platform == "win32", reason="psutil's children of a child")
def test_autostarted_model_server_ends_when_its_owner_is_killed(folder, home, until):
    address = f"http://127.0.0.1:{unused_port()}"
    variables = (f"CORTEX_EMBEDDING_ENDPOINT={address}", "CORTEX_EMBEDDING_AUTOSTART=true")
    stamp = open_local().connect()
    row = open_local().embed(["apple tree"], "passage").tolist()[0]
    write_chunks(
        folder / "a.json",
        make_chunk("a", "apple tree", embedding=row),
        model=stamp.model,
        dimensions=stamp.dimensions,
    )
    with another_process(folder, home, *variables) as (process, _):
        (child,) = [
            found for found in psutil.Process(process.pid).children() if "models" in found.cmdline()
        ]
        process.kill()
        process.wait(10)
        until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_own_vectors_are_served_whatever_dimensions_are_configured(folder, opened, from_file):
    stamp = open_local().connect()
    row = open_local().embed(["apple tree"], "passage").tolist()[0]
    write_chunks(
        folder / "a.json",
        make_chunk("a", "apple tree", embedding=row),
        model=stamp.model,
        dimensions=stamp.dimensions,
    )
    index = opened(root=from_file({"dimensions": 384}))
    assert index.search(ChunkQuery("apple")).mode is Mode.HYBRID


def test_autostart_from_a_projects_file_starts_no_server(opened, from_file):
    opened(root=from_file({"endpoint": f"http://127.0.0.1:{unused_port()}", "autostart": True}))
    assert [child for child in psutil.Process().children() if "models" in child.cmdline()] == []
