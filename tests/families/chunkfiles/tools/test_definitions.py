"""`cortex mcp chunks` as a foreign client meets it: requests, answers, errors and notes."""

import json
import subprocess
import sys

import pytest

import forking
from engine.embedders.stub import Reply, Stub, embeddings
from families.chunkfiles.chunk_files import make_chunk, write_chunks
from protocol.client import Client
from protocol.golden import check_golden
from protocol.http_client import serving

CORTEX = (sys.executable, "-m", "cortex")
KEYS = ["id", "chunk_type", "title", "text", "tags", "metadata", "created_at", "updated_at"]
HANDLER = {
    "source": "code",
    "file_path": "internal/auth/handler.go",
    "language": "go",
    "package": "auth",
    "imports_count": 5,
    "ratio": 0.5,
    "nothing": None,
    "nested": {"lines": [10, 15]},
}


@pytest.fixture(scope="session")
def embed_server():
    server = Stub()
    yield server
    server.close()


@pytest.fixture(scope="session")
def project(tmp_path_factory, strangers_environment):
    root = tmp_path_factory.mktemp("chunks") / "project"
    folder = root / ".cortex" / "chunks"
    folder.mkdir(parents=True)
    write_chunks(
        folder / "code-symbols.json",
        make_chunk(
            "code-symbols-internal/auth/handler.go",
            "Package: auth\n\nTypes:\n  - AuthHandler (struct) (lines 10-15)",
            kind="symbols",
            tags=("code", "go", "symbols"),
            metadata=HANDLER,
            created_at="2025-10-28T22:06:02.745712-06:00",
        ),
        make_chunk(
            "bare <&> 🎉",
            "the auth handler of nobody",
            kind="symbols",
            tags=(),
            metadata=None,
            title=None,
        ),
    )
    write_chunks(
        folder / "doc-chunks.json",
        *[
            make_chunk(
                f"doc-{n}", f"authentication part {n} " + "word " * 400, tags=("documentation",)
            )
            for n in range(30)
        ],
    )
    return root


@pytest.fixture(scope="session")
def server(project, embed_server, strangers_environment):
    environment = strangers_environment.environment(
        CORTEX_EMBEDDING_ENDPOINT=f"{embed_server.url}/embed"
    )
    with Client([*CORTEX, "mcp", "chunks", "--workspace", str(project)], env=environment) as client:
        client.initialize()
        yield client


def search(client, **arguments):
    return client.call("cortex_search", arguments)


def body(answer):
    (text,) = answer["result"]["content"]
    assert set(answer["result"]) <= {"content", "isError"}
    return json.loads(text["text"])


def test_the_only_tool_is_read_only(server):
    (tool,) = server.request("tools/list")["result"]["tools"]
    check_golden("chunks-tools", tool)
    assert tool["annotations"]["readOnlyHint"] is True
    assert tool["annotations"]["destructiveHint"] is False


def test_answer_has_exactly_the_keys_of_the_contract(server):
    answer = body(search(server, query="auth handler", chunk_types=["symbols"]))
    check_golden("chunks-answer", hide_scores(answer))
    assert list(answer) == ["results", "total"]
    for result in answer["results"]:
        assert list(result) == ["chunk", "combined_score"]
        assert list(result["chunk"]) == KEYS
        assert isinstance(result["combined_score"], float)
    first = next(result["chunk"] for result in answer["results"] if result["chunk"]["metadata"])
    assert json.dumps(first["metadata"]) == json.dumps(HANDLER)
    assert answer["total"] == len(answer["results"]) == 2


def hide_scores(answer):
    results = sorted(
        ({**result, "combined_score": "<score>"} for result in answer["results"]),
        key=lambda result: result["chunk"]["id"],
    )
    return {**answer, "results": results}


def test_nothing_found_is_an_empty_list(server):
    assert body(search(server, query="auth", tags=["no such tag"])) == {"results": [], "total": 0}


def test_no_answer_holds_a_vector(server):
    text = search(server, query="authentication", limit=100)["result"]["content"][0]["text"]
    assert "embedding" not in text


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (None, 15),
        (1, 1),
        (0, 1),
        (-5, 1),
        (100, 30),
        (1000, 30),
        (10**30, 30),
        (7.0, 7),
        (1e300, 30),
        (2.9, 2),
    ],
)
def test_a_limit_beyond_the_range_is_clamped(server, limit, expected):
    more = {} if limit is None else {"limit": limit}
    answer = body(search(server, query="authentication part", tags=["documentation"], **more))
    assert answer["total"] == len(answer["results"]) == expected


def test_null_arguments_count_as_omitted(server):
    answer = body(
        search(server, query="authentication", limit=None, tags=None, chunk_types=None, budget=None)
    )
    assert answer["total"] == 15


def test_scores_descend(server):
    scores = [
        result["combined_score"]
        for result in body(search(server, query="authentication 7", limit=100))["results"]
    ]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": ""},
        {"query": " \n"},
        {},
        {"query": 7},
        {"query": "x" * 30_000},
        {"query": "a", "limit": "7"},
        {"query": "a", "limit": True},
        {"query": "a", "tags": "go"},
        {"query": "a", "chunk_types": [1]},
        {"query": "a", "unknown": 1},
        {"query": "a", "budget": 0},
    ],
)
def test_invalid_arguments_are_a_request_error(server, arguments):
    answer = search(server, **arguments)
    assert answer["error"]["code"] == -32602


def test_budget_leaves_off_whole_chunks_and_says_how_many(server):
    whole = search(server, query="authentication part", limit=10)["result"]["content"][0]["text"]
    result = search(server, query="authentication part", limit=10, budget=2000)["result"]
    first, second = result["content"]
    answer = json.loads(first["text"])
    assert len(first["text"]) <= 2000 * 4 < len(whole)
    assert 0 < answer["total"] == len(answer["results"]) < 10
    assert answer["results"] == json.loads(whole)["results"][: answer["total"]]
    left = 10 - answer["total"]
    assert second["text"] == f"{left} more chunks were left off: they don't fit into 2000 tokens"
    assert result["_meta"]["cortex/notes"] == [second["text"]]
    assert result["_meta"]["cortex/mode"] == "hybrid"


def test_failing_required_embedder_is_an_internal_error(project, strangers_environment):
    stub = Stub()
    try:
        environment = strangers_environment.environment(CORTEX_EMBEDDING_ENDPOINT=stub.url)
        with Client(
            [*CORTEX, "mcp", "chunks", "--workspace", str(project)], env=environment
        ) as client:
            client.initialize()
            assert body(search(client, query="auth"))["total"]
            stub.answer = lambda asked: Reply({"error": "broken"}, 500)
            assert search(client, query="auth")["error"]["code"] == -32603
            stub.answer = embeddings
            assert body(search(client, query="auth"))["total"]
    finally:
        stub.close()


def test_search_by_words_only_is_noted_in_the_answer_and_on_stderr(
    project, strangers_environment, tmp_path
):
    command = [*CORTEX, "mcp", "chunks", "--workspace", str(project)]
    with (
        open(tmp_path / "stderr", "wb") as stderr,
        Client(command, env=strangers_environment.environment(), stderr=stderr) as client,
    ):
        client.initialize()
        result = search(client, query="auth")["result"]
    first, second = result["content"]
    assert list(json.loads(first["text"])) == ["results", "total"]
    assert second["text"].startswith("answered by words: ")
    assert result["_meta"]["cortex/mode"] == "words"
    assert (tmp_path / "stderr").read_text(encoding="utf-8").count("is searched by words") == 1


def start(root, environment):
    return forking.run(
        [*CORTEX, "mcp", "chunks", "--workspace", str(root)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"CORTEX_CHUNKS_DIR": "nowhere"}, "there is no folder of chunk files at"),
        ({"CORTEX_EMBEDDING_DIMENSIONS": "384"}, "embedding.dimensions is 384"),
        ({"CORTEX_EMBEDDING_ENDPOINT": "http://127.0.0.1:9"}, "questions can't be embedded"),
    ],
)
def test_server_that_can_serve_nothing_ends_with_the_reason(
    project, strangers_environment, variables, reason
):
    ended = start(project, strangers_environment.environment(**variables))
    assert ended.returncode == 1
    assert reason in ended.stderr
    assert ended.stdout == ""


def test_chunks_folder_linked_out_of_the_project_is_not_served(tmp_path, strangers_environment):
    (tmp_path / "private").mkdir()
    write_chunks(tmp_path / "private" / "x.json", make_chunk("x", "what is nobody's business"))
    (tmp_path / "project" / ".cortex").mkdir(parents=True)
    (tmp_path / "project" / ".cortex" / "chunks").symlink_to(
        tmp_path / "private", target_is_directory=True
    )
    ended = start(tmp_path / "project", strangers_environment.environment())
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "PATH_OUTSIDE" in ended.stderr


def test_unservable_chunks_leave_other_families_working(project, strangers_environment, tmp_path):
    environment = strangers_environment.environment(CORTEX_EMBEDDING_DIMENSIONS="384")
    command = [*CORTEX, "mcp", "--workspace", str(project)]
    with (
        open(tmp_path / "stderr", "wb") as stderr,
        Client(command, env=environment, stderr=stderr) as client,
    ):
        client.initialize()
        names = [tool["name"] for tool in client.request("tools/list")["result"]["tools"]]
        narrowed = client.call("cortex_search", {"query": "auth", "tags": ["documentation"]})[
            "result"
        ]
    assert {"search_code", "cortex_search"} <= set(names)
    assert narrowed["isError"] and "embedding.dimensions is 384" in narrowed["content"][0]["text"]
    assert "embedding.dimensions is 384" in (tmp_path / "stderr").read_text(encoding="utf-8")


def test_chunks_are_served_by_default_where_there_are_some(project, strangers_environment):
    with Client(
        [*CORTEX, "mcp", "--workspace", str(project)], env=strangers_environment.environment()
    ) as client:
        client.initialize()
        names = [tool["name"] for tool in client.request("tools/list")["result"]["tools"]]
    assert {"search_code", "cortex_search"} <= set(names)


def test_json_api_sends_notes_in_a_header(project, strangers_environment):
    command = [*CORTEX, "mcp", "chunks", "--http", "127.0.0.1:0", "--workspace", str(project)]
    with serving(command, strangers_environment.environment()) as http:
        response, text = http.send(
            "POST", b'{"query": "auth", "limit": 1}', path="/api/cortex_search"
        )
        empty, _ = http.send("POST", b'{"query": " "}', path="/api/cortex_search")
    assert list(json.loads(text)) == ["results", "total"]
    assert json.loads(response.getheader("Cortex-Meta"))["cortex/mode"] == "words"
    assert empty.status == 400
