"""`cortex mcp memory` over stdio: four tools that only read."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from families.memory.adapters.claude_mem_databases import START, MadeDatabase, make_claude_mem
from families.memory.libraries import listing
from protocol.client import MODERN, Client, envelope
from protocol.code_server import CORTEX
from protocol.golden import check_golden

NAMES = ["query_memories", "get_memory", "list_scopes", "get_context"]


@pytest.fixture
def start(isolated, tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """A function that starts servers in a folder of the user."""
    (tmp_path / "ack").mkdir()
    with ExitStack() as opened:

        def start_one(*families: str, **variables: str) -> Client:
            argv = [*CORTEX, "mcp", *families]
            return opened.enter_context(
                Client(argv, cwd=tmp_path / "ack", env=isolated.environment(**variables))
            )

        yield start_one


def orchard(user: Path) -> MadeDatabase:
    made = make_claude_mem(user / ".claude-mem" / "claude-mem.db")
    session = made.session("s1", title="A day in the orchard")
    made.observation(
        session, "Apples keep in the cellar", concepts=["storage"], facts=["They last until May"]
    )
    made.summary(session, "Store the apples", learned="Cellars are cool")
    return made


@pytest.fixture
def made(isolated) -> Iterator[MadeDatabase]:
    made = orchard(isolated.user)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server for tests that only ask."""
    place = tmp_path_factory.mktemp("asked")
    (place / "ack").mkdir()
    orchard(place).close()
    variables = {
        "HOME": str(place),
        "USERPROFILE": str(place),
        "CORTEX_HOME": str(place / "cortex"),
    }
    with Client(
        [*CORTEX, "mcp", "memory"], cwd=place / "ack", env={**os.environ, **variables}
    ) as running:
        assert running.initialize()["result"]["instructions"]
        yield running
        assert running.garbage == [] and running.close() == 0


def data_of(answer: dict) -> dict:
    assert not answer["result"].get("isError"), answer
    return json.loads(answer["result"]["content"][0]["text"])


def titles(server: Client, **arguments: object) -> list[str]:
    return [row["title"] for row in data_of(server.call("query_memories", arguments))["results"]]


def names(server: Client) -> list[str]:
    return [tool["name"] for tool in server.request("tools/list")["result"]["tools"]]


def test_the_four_tools_are_listed_as_reading_only(server):
    tools = server.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == NAMES
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools)
    check_golden("memory-tools", tools)


def test_memory_session_goes_from_a_query_to_the_whole_memory(server, until):
    until(lambda: titles(server, query="where do apples keep") == ["Apples keep in the cellar"])
    found = data_of(server.call("query_memories", {"tags": ["storage"]}))["results"][0]
    whole = data_of(server.call("get_memory", {"id": found["id"]}))
    assert (
        whole["facts"] == ["They last until May"] and "orchard" in whole["session_context"]["title"]
    )
    assert data_of(server.call("list_scopes"))["scopes"][0]["name"] == "ack"
    context = data_of(server.call("get_context"))
    assert context["project"]["name"] == "ack" and [
        row["id"] for row in context["recent_memories"]
    ] == [found["id"]]


def test_memory_server_answers_the_stateless_revision(server, until):
    ask = {"name": "query_memories", "arguments": {}, "_meta": envelope(MODERN)}
    until(lambda: data_of(server.request("tools/call", ask))["results"])


def test_memory_errors_are_tool_errors_with_a_code(server):
    failed = server.call("get_memory", {"id": "obs_99"})["result"]
    assert (
        failed["isError"] and json.loads(failed["content"][0]["text"])["error"] == "MEMORY_UNKNOWN"
    )
    for wrong in ({"limit": 51}, {"limit": 0}, {"limit": 2.5}, {"limit": "many"}, {"status": "x"}):
        answer = server.call("query_memories", wrong)
        assert "error" in answer or answer["result"]["isError"], wrong


def test_without_a_memory_the_tools_name_where_one_would_be(start, isolated):
    server = start("memory")
    server.initialize()
    assert names(server) == NAMES
    failed = server.call("query_memories", {"query": "apples"})["result"]
    assert failed["isError"]
    answer = json.loads(failed["content"][0]["text"])
    places = [
        str(isolated.user / folder / "claude-mem.db") for folder in (".claude-mem", ".ack-mem")
    ]
    assert (answer["path"], answer["searched"]) == (places[0], places)


def test_rows_of_another_process_appear_without_a_restart_and_its_folder_stays_as_it_is(
    start, made, isolated, until
):
    server = start("memory")
    server.initialize()
    until(lambda: titles(server) == ["Apples keep in the cellar"])
    made.observation("own-s1", "Pears bruise", created_at_epoch=START + 1)
    until(lambda: titles(server, query="bruise pears")[:1] == ["Pears bruise"], 10)
    made.close()
    before = listing(isolated.user / ".claude-mem")
    assert len(titles(server)) == 2
    assert server.close() == 0
    assert listing(isolated.user / ".claude-mem") == before


def test_memory_scope_and_path_come_from_the_environment(start, isolated, tmp_path, until):
    made = make_claude_mem(tmp_path / "mem" / "scopes" / "dev" / "memory.db")
    made.observation(made.session("s"), "In dev")
    made.close()
    server = start("memory", ACK_MEM_PATH=str(tmp_path / "mem"), ACK_MEM_SCOPE="dev")
    server.initialize()
    until(lambda: titles(server, scope="dev") == ["In dev"])
    scopes = data_of(server.call("list_scopes"))
    assert scopes["current_scope"] == "dev" and scopes["scopes"][0]["path"].endswith("dev")


def test_memory_servers_answer_while_one_of_them_copies(start, made, until):
    servers = [start("memory") for _ in range(2)]
    found: list[int] = []

    def use(server: Client) -> None:
        server.initialize()
        until(lambda: len(titles(server)) == 1)
        found.append(1)

    threads = [threading.Thread(target=use, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and all(server.close() == 0 for server in servers)
