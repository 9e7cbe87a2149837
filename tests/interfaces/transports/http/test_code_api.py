"""The code tools as a JSON API, from a process of their own and from cortexd, as over MCP."""

import http.client
import json
import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from cortex.base.errors import CODES
from cortex.base.runtime.rendezvous import meet_at
from cortex.interfaces.transports.http.openapi import REFUSALS
from protocol.code_server import CORTEX, check_envelope, make_repository, wait_for
from protocol.golden import _steady, check_golden
from protocol.http_client import serving

PAGE = Path(__file__).parents[4] / "docs" / "http.md"
CALLS = {
    "search_code": {"query": "merge_baskets", "maxResults": 3},
    "find_similar_code": {"code": "sum(prices[a] * n for a, n in lines)", "maxResults": 1},
    "get_file_context": {"path": "shop/basket.py", "lineRange": {"start": 2, "end": 4}},
    "reindex_workspace": {},
    "update_config": {"settings": {"cacheSize": "10MB"}},
}
FAILURES = [
    ("search_code", {"query": " "}, 400, "QUERY_EMPTY"),
    ("search_code", {"query": "a", "cursor": "x"}, 400, "CURSOR_INVALID"),
    ("search_code", {"query": "a", "workspace": "nowhere"}, 404, "WORKSPACE_UNKNOWN"),
    ("search_code", {"query": "/(/"}, 400, "REGEX_INVALID"),
    ("get_file_context", {"path": "nowhere.py"}, 404, "FILE_NOT_FOUND"),
    ("get_file_context", {"path": "../a"}, 403, "PATH_OUTSIDE"),
    ("get_file_context", {"path": ".env"}, 403, "FILE_UNREADABLE"),
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return make_repository(tmp_path_factory.mktemp("api") / "shop")


@contextmanager
def serving_by_cortexd(argv: list[str], home: Path):
    """A front end of a cortexd of its own, which serves in its place and is stopped afterwards."""
    variables = {**os.environ, "CORTEX_HOME": str(home)}
    del variables["CORTEX_NO_SIDECAR"]
    meeting = meet_at(str(home))
    try:
        with serving(argv, variables) as server:
            yield server
            assert meeting.ask({"control": "status"})["clients"][0]["pid"] == server.process.pid
    finally:
        meeting.ask({"control": "stop"})
        wait_for(lambda: meeting.ask({"control": "status"}) is None)


@pytest.fixture(scope="module", params=["own process", "cortexd"])
def server(request, repository, tmp_path_factory):
    argv = [*CORTEX, "mcp", "code", "--workspace", str(repository), "--http", "127.0.0.1:0"]
    own = request.param == "own process"
    with (
        serving(argv)
        if own
        else serving_by_cortexd(argv, tmp_path_factory.mktemp("home")) as server
    ):
        wait_for(
            lambda: (
                server.api("search_code", {"query": "basket"})[1]["metadata"]["index"]["status"]
                == "ready"
            )
        )
        yield server


def test_each_tool_answers_as_it_does_over_mcp(server):
    tools = {tool["name"]: tool for tool in server.modern("tools/list", {})[1]["result"]["tools"]}
    assert set(tools) == set(CALLS)
    for name, arguments in CALLS.items():
        # So that update_config has nothing to change when it is compared
        server.api(name, arguments)

        def agree(name=name, arguments=arguments) -> bool:
            result = server.modern("tools/call", {"name": name, "arguments": arguments})[1][
                "result"
            ]
            status, body = server.api(name, arguments)
            assert status == 200
            if "outputSchema" in tools[name]:
                Draft202012Validator(tools[name]["outputSchema"]).validate(body)
            return _steady(body) == _steady(json.loads(result["content"][0]["text"]))

        wait_for(agree, 10)  # a look at the files may be under way in one of the two answers


@pytest.mark.parametrize(("tool", "arguments", "status", "code"), FAILURES)
def test_each_error_is_the_one_of_mcp_with_its_status(server, tool, arguments, status, code):
    result = server.modern("tools/call", {"name": tool, "arguments": arguments})[1]["result"]
    answered, body = server.api(tool, arguments)
    assert (answered, check_envelope(body)["code"]) == (status, code)
    assert _steady(body) == _steady(json.loads(result["content"][0]["text"]))


def test_second_forced_reindex_says_when_to_retry(server):
    server.api("reindex_workspace", {"force": True})
    response, text = server.send("POST", b'{"force": true}', path="/api/reindex_workspace")
    error = check_envelope(json.loads(text))
    assert (response.status, error["code"]) == (429, "RATE_LIMITED")
    assert int(response.getheader("retry-after")) == error["context"]["retry_after_seconds"]


def test_api_document_is_valid_and_golden(server):
    document = json.loads(server.send("GET", path="/api/openapi.json")[1])
    OpenAPIV31SpecValidator(document).validate()
    tools = server.modern("tools/list", {})[1]["result"]["tools"]
    assert list(document["paths"])[2:] == [f"/api/{tool['name']}" for tool in tools]
    for tool in tools:
        operation = document["paths"][f"/api/{tool['name']}"]["post"]
        assert (
            operation["requestBody"]["content"]["application/json"]["schema"] == tool["inputSchema"]
        )
        assert operation["description"] == tool["description"]
        assert operation["x-read-only"] is tool["annotations"]["readOnlyHint"]
    check_golden("openapi", document | {"info": document["info"] | {"version": "<version>"}})


def test_concurrent_searches_all_succeed(server):
    queries = ["merge_baskets", "parse_invoice_number", "addToCart"] * 8
    with ThreadPoolExecutor(12) as crowd:
        answers = list(
            crowd.map(lambda query: server.api("search_code", {"query": query}), queries)
        )
    assert {status for status, _ in answers} == {200}
    for query, (_, body) in zip(queries, answers, strict=True):
        assert any(query in hit["chunk"]["text"] for hit in body["results"]), query


def test_a_client_that_goes_away_leaves_the_server_working(server):
    for _ in range(20):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        body = json.dumps({"query": "basket", "strategy": "fullworkspace"}).encode()
        connection.request("POST", "/api/search_code", body, {"Content-Type": "application/json"})
        connection.close()
    assert server.api("search_code", {"query": "basket"})[0] == 200


def test_read_only_leaves_out_the_tools_that_write(repository):
    argv = [*CORTEX, "mcp", "--workspace", str(repository), "--http", "127.0.0.1:0", "--read-only"]
    with serving(argv) as server:
        names = [tool["name"] for tool in json.loads(server.send("GET", path="/api")[1])["tools"]]
        assert names[:3] == ["search_code", "get_file_context", "find_similar_code"]
        assert not {
            "reindex_workspace",
            "update_config",
            "cortex_create_draft",
            "cortex_update_task",
        } & set(names)
        assert server.api("reindex_workspace", {})[0] == 404
        assert (
            "/api/update_config"
            not in json.loads(server.send("GET", path="/api/openapi.json")[1])["paths"]
        )


@pytest.mark.parametrize("sidecar", [False, True])
def test_rate_limit_comes_from_settings_but_not_from_the_files_of_a_project(
    tmp_path, monkeypatch, sidecar
):
    root = make_repository(tmp_path / "limited", {"a.py": "x = 1\n"})
    (root / "codeindex.config.json").write_text('{"server": {"rateLimit": 1}}', encoding="utf-8")
    monkeypatch.setenv("CORTEX_SERVER_RATE_LIMIT", "4")
    argv = [*CORTEX, "mcp", "--workspace", str(root), "--http", "127.0.0.1:0"]
    with serving_by_cortexd(argv, tmp_path / "home") if sidecar else serving(argv) as server:
        assert [server.send("GET", path="/api")[0].status for _ in range(6)] == [200] * 4 + [
            429
        ] * 2


# -- the page


def commands() -> list[str]:
    """Each curl command of the page."""
    return re.findall(r"^\$ (curl (?:.*\\\n)*.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_commands_of_the_http_api_page_work(repository, monkeypatch):
    argv = [*CORTEX, "mcp", "--workspace", str(repository), "--http", "127.0.0.1:0"]
    lines = commands()
    assert len(lines) >= 5
    monkeypatch.setenv("CORTEX_HTTP_TOKEN", "sesame")
    with serving(argv) as server:
        for line in lines:
            here = os.path.expandvars(line.replace("127.0.0.1:8765", f"127.0.0.1:{server.port}"))
            words = [*shlex.split(here.replace("\\\n", " ")), "-w", "\n%{http_code}"]
            if "Authorization" not in line:
                words += ["-H", "Authorization: Bearer sesame"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=30)
            body, _, status = done.stdout.rpartition("\n")
            wanted = "404" if "nowhere" in line else "200"
            assert (done.returncode, status) == (0, wanted), f"{line}\n{done.stdout}{done.stderr}"
            assert isinstance(json.loads(body), dict)


def test_http_api_page_has_the_status_of_every_error():
    text = PAGE.read_text(encoding="utf-8")
    rows = ["| status | meaning | codes |", "|---|---|---|"]
    others = {500: "all others", 503: "all others that are retryable"}
    for status, meaning in REFUSALS.items():
        codes = ", ".join(f"`{name}`" for name, code in CODES.items() if code.status == status)
        rows.append(
            f"| {status} | {meaning} | {codes or others.get(status, '`REQUEST_REFUSED`')} |"
        )
    present = text.partition("<!-- statuses -->")[2].partition("<!-- end of statuses -->")[0]
    assert present.strip().splitlines() == rows, "put this there:\n" + "\n".join(rows)
