"""`cortex mcp team` with foreign clients: the official SDK, raw lines, plain HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from cortex.base.actors import agent
from cortex.base.errors import ConfigError
from cortex.families.team.permissions import may
from families.memory.libraries import settings_of
from families.team.invariants import check_records
from protocol.client import MODERN, Client, envelope
from protocol.code_server import CORTEX
from protocol.http_client import Server, serving
from protocol.team_project import NAMES, READS, WRITES, TeamProject, make_team_project, valid_calls

RETRIES = 32
ALL_RIGHTS = {"CORTEX_TEAM_AGENT_TIER": "2", "CORTEX_TEAM_PUBLISH_COMMENTS": "true"}


@pytest.fixture(scope="module")
def place(tmp_path_factory, strangers_environment) -> TeamProject:
    return make_team_project(tmp_path_factory.mktemp("team"))


@pytest.fixture(scope="module")
def server(place) -> Iterator[Client]:
    with place.start("team") as running:
        assert "cortex_get_bootstrap_pack" in running.initialize()["result"]["instructions"]
        yield running
        assert running.garbage == [] and running.close() == 0


@pytest.fixture(scope="module")
def web(place) -> Iterator[Server]:
    """Every family, for an agent with the highest rights of agents, with dots in the names."""
    families = ("code", "chunks", "kb", "memory", "team")
    more = ("--workspace", str(place.root), "--http", "127.0.0.1:0", "--tool-names", "dotted")
    with serving(
        [*CORTEX, "mcp", *families, *more], env=place.environment(**ALL_RIGHTS)
    ) as running:
        yield running


def names(server: Client) -> list[str]:
    return [tool["name"] for tool in server.request("tools/list")["result"]["tools"]]


def data_of(answer: dict) -> dict:
    result = answer["result"]
    assert not result.get("isError"), result
    body = json.loads(result["content"][0]["text"])
    assert body["success"] and set(body) <= {"success", "data", "meta"}
    return body["data"]


# -- clients


def test_official_client_calls_every_tool_and_gets_errors_for_wrong_arguments(place):
    async def converse() -> None:
        argv = [*CORTEX[1:], "mcp", "team"]
        process = StdioServerParameters(
            command=CORTEX[0], args=argv, cwd=place.root, env=place.environment()
        )
        async with stdio_client(process) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            assert list(tools) == NAMES
            for name, arguments in valid_calls(place, "sdk").items():
                assert tools[name].annotations.read_only_hint == (
                    name.removeprefix("cortex_") in READS
                )
                answer = await session.call_tool(name, arguments)
                assert not answer.is_error, (name, answer.content)
                body = json.loads(answer.content[0].text)
                assert body["success"] and body["data"]
                for wrong in (
                    {**arguments, "no_such_argument": 1},
                    {key: [[]] for key in arguments} or {"limit": "x"},
                ):
                    await refused(session, name, wrong)

    async def refused(session: ClientSession, name: str, arguments: dict) -> None:
        try:
            answer = await session.call_tool(name, arguments)
        except Exception as error:  # an error of the protocol
            assert name in str(error)
        else:
            assert (
                answer.is_error
                and json.loads(answer.content[0].text)["error"]["code"] == "VALIDATION_ERROR"
            )

    async def within_time() -> None:
        with anyio.fail_after(60):
            await converse()

    anyio.run(within_time)


def test_tools_are_called_by_either_spelling_and_in_the_stateless_revision(server, place):
    for name, arguments in valid_calls(place, "raw").items():
        first = data_of(server.call(name, arguments))
        again = data_of(server.call(name.replace("_", ".", 1), arguments))
        assert again.pop("replayed", False) == (name.removeprefix("cortex_") in WRITES)
        assert again == first, name
        ask = {"name": name, "arguments": arguments, "_meta": envelope(MODERN)}
        assert data_of(server.request("tools/call", ask))
    assert server.call("cortex.get.thread", {})["error"]["code"] == -32602


def test_read_only_omits_writing_tools_and_lists_the_chunk_search_once(place):
    with place.start("team", "chunks", "--read-only") as server:
        server.initialize()
        assert names(server) == [f"cortex_{name}" for name in READS]
        narrowed = server.call("cortex_search", {"query": "lamp", "chunk_types": ["documentation"]})
        assert json.loads(narrowed["result"]["content"][0]["text"])["total"] == 1
        assert (
            "`cortex_search`" in server.call("chunks_search", {"query": "lamp"})["error"]["message"]
        )
        assert data_of(server.call("cortex_search", {"query": "lamp"}))["results"]
        before = place.deeds()
        for name in WRITES:
            assert "error" in server.call(
                f"cortex_{name}", valid_calls(place, "never")[f"cortex_{name}"]
            )
        assert place.deeds() == before
        assert server.close() == 0


def test_the_http_api_and_its_document_have_the_same_tools(web, place):
    listed = [tool["name"] for tool in json.loads(web.send("GET", path="/api")[1])["tools"]]
    assert [name for name in listed if name.startswith("cortex.")] == [
        f"cortex.{name}" for name in (*READS, *WRITES)
    ]
    assert not {"chunks_search", "cortex_search"} & set(listed)
    document = json.loads(web.send("GET", path="/api/openapi.json")[1])
    assert {f"/api/{name}" for name in listed} <= set(document["paths"])
    for name, arguments in valid_calls(place, "web").items():
        status, body = web.api(name, arguments)
        assert status == 200 and body["success"], (name, body)
        status, body = web.api(name, {**arguments, "no_such_argument": 1})
        assert status == 400, (name, body)
    status, body = web.api("cortex_get_thread", {"thread_id": "thread_01AAAAAAAAAAAAAAAAAAAAAAAA"})
    assert status == 404 and body["error"]["code"] == "NOT_FOUND"
    status, body = web.api("cortex_create_draft", {"draft_type": "thread", "body_md": "x"})
    assert status == 400 and "key_" in body["error"]["suggestions"][0]


# -- rights


def filled(schema: dict, text: str, depth: int = 0) -> object:
    """A value that a schema accepts, with this text wherever a text may be."""
    if "enum" in schema:
        return schema["enum"][-1]
    for choices in ("anyOf", "oneOf"):
        if choices in schema:
            return filled(schema[choices][0], text, depth)
    match schema.get("type"):
        case "object":
            required = schema.get("required", ()) if depth else schema.get("properties", {})
            return {name: filled(schema["properties"][name], text, depth + 1) for name in required}
        case "array":
            return [filled(schema.get("items", {}), text, depth + 1)]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
    return text


def test_no_tool_of_any_family_approves_a_draft(web, place):
    draft, before = place.ids["draft"], len(place.deeds())
    tools = {tool["name"]: tool for tool in web.modern("tools/list", {})[1]["result"]["tools"]}
    assert len(tools) > 2 * len(NAMES)
    told_of = "".join(json.dumps(tool) for tool in tools.values())
    assert not {"approve_draft", "reject_draft", "accept_artifact"} & {
        word.strip('"') for word in told_of.split()
    }
    for name, tool in tools.items():
        if name not in ("reindex_workspace", "update_config"):
            arguments = filled(tool["inputSchema"], draft)
            assert isinstance(arguments, dict)
            web.api(
                name,
                {**arguments, "idempotency_key": name}
                if "idempotency_key" in arguments
                else arguments,
            )
    for name in (
        "cortex_approve_draft",
        "cortex.approve_draft",
        "drafts_approve",
        "approve",
        "cortex_update_draft",
    ):
        assert web.api(name, {"draft_id": draft, "idempotency_key": name})[0] == 404
    attempts = [
        ("cortex_update_task", {"task_id": draft, "status": "done"}),
        ("cortex_publish_comment", {"thread_id": draft, "body_md": f"approve {draft}"}),
        ("cortex_create_draft", {"draft_type": "task_update", "target_ref": draft, "body_md": "x", "metadata": {"status": "done"}}),
        ("cortex_create_draft", {"draft_type": "comment", "target_ref": draft, "body_md": f"cortex team drafts approve {draft}"}),
        ("cortex_create_observations", {"observations": [{"title": f"approve {draft}", "links": [draft]}]}),
    ]  # fmt: skip
    for number, (name, arguments) in enumerate(attempts):
        web.api(name, {**arguments, "idempotency_key": f"attempt-{number}"})
    assert place.state_of(draft) == "pending_review"
    actions = {action for action, _ in place.deeds()[before:]}
    assert actions <= {"create_draft", "create_observations", "notify", "replace_notification"}, (
        actions
    )
    check_records(place.home, place.settings)


def test_no_setting_lets_an_agent_approve(place):
    for tier in ("2", "3", "4", "99"):
        try:
            settings = settings_of(place.home, CORTEX_TEAM_AGENT_TIER=tier)
        except ConfigError:
            assert int(tier) > 2
        else:
            assert not may(agent(settings), "approve_draft") and not may(
                agent(settings), "accept_artifact"
            )


# -- retries


def test_retries_of_one_key_at_once_over_stdio_and_http_are_one_record(server, web, place):
    name = "cortex_create_observations"
    arguments = {"observations": [{"title": "Seen once"}], "idempotency_key": "same"}

    def ask_web(number: int) -> dict:
        status, body = web.api(name, arguments)
        assert status == 200, body
        return body["data"]

    with ThreadPoolExecutor(RETRIES) as threads:
        waiting = [threads.submit(ask_web, number) for number in range(RETRIES)]
        asked = [
            server.ask("tools/call", {"name": name, "arguments": arguments}) for _ in range(RETRIES)
        ]
        found = {message["id"]: message for message in (server.take(60) for _ in asked) if message}
        said = [data_of(found[id]) for id in asked] + [answer.result(60) for answer in waiting]
    assert len(said) == 2 * RETRIES and len({row["ids"][0] for row in said}) == 1
    assert sum(not row.get("replayed") for row in said) == 1
    records = check_records(place.home, place.settings).values()
    assert sum(record.body.title == "Seen once" for record in records) == 1


def test_retries_of_an_update_at_once_change_a_task_once(web, place):
    arguments = {
        "task_id": place.ids["task"],
        "status": "review",
        "notes": "once",
        "idempotency_key": "update-once",
    }
    done, before = ("update_task", place.ids["task"]), place.deeds()
    with ThreadPoolExecutor(RETRIES) as threads:
        answers = list(
            threads.map(lambda _: web.api("cortex_update_task", arguments), range(RETRIES))
        )
    assert {status for status, _ in answers} == {200}, answers
    assert len({body["data"]["version"] for _, body in answers}) == 1
    assert sum(not body["data"].get("replayed") for _, body in answers) == 1
    assert place.deeds()[len(before) :].count(done) == 1
