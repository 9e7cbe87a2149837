"""The tools that a client gets without naming families: the same before and after the first record,
memory and chunk.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from mcp import Client, MCPError

from cortex.base.actors import person
from cortex.base.record_model import Thread
from cortex.base.types import Memory
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.families.memory.writer import add
from cortex.families.team.writes.create import create
from cortex.interfaces.assembly.families import SharedResources, open_families, resolve_request
from cortex.interfaces.assembly.pool import engine_pool
from cortex.interfaces.transports.mcp.server import make_server
from cortex.interfaces.transports.thread_pool import ThreadPool
from cortex.toolkit.tool import Family
from families.chunkfiles.chunk_files import make_chunk, write_chunks
from families.memory.libraries import open_library, settings_of
from protocol.team_project import NAMES

CODE = [
    "search_code",
    "reindex_workspace",
    "update_config",
    "get_file_context",
    "find_similar_code",
]
MEMORY = ["query_memories", "get_memory", "list_scopes", "get_context"]


@dataclass
class Bench:
    """A project and a home, and servers over them in this process."""

    root: Path
    home: Path

    @contextmanager
    def families(self, *names: str) -> Iterator[list[Family]]:
        variables = {"CORTEX_HOME": str(self.home), "CORTEX_INDEXING_WORKERS": "1"}
        lenders = SharedResources(engine_pool(keep=True), ChunkIndexPool(watch=False))
        families, _ = open_families(
            resolve_request(names, [], variables, self.root), lenders, read_only=False
        )
        try:
            yield families
        finally:
            for family in families:
                family.close()
            lenders.close()

    def converse(self, talk: Callable[[Client], Awaitable[None]], *names: str) -> None:
        """Talk to a server with these families through the official SDK's client."""

        async def run() -> None:
            with anyio.fail_after(60):
                async with Client(make_server(families, ThreadPool())) as client:
                    await talk(client)

        with self.families(*names) as families:
            anyio.run(run)

    def write_chunks(self) -> None:
        folder = self.root / ".cortex" / "chunks"
        folder.mkdir(parents=True)
        write_chunks(
            folder / "doc-chunks.json",
            make_chunk("lamps", "How a lamp is switched", tags=("docs",)),
        )
        definition = make_chunk(
            "lamp.py", "def switch_lamp", kind="definitions", metadata={"file_path": "lamp.py"}
        )
        write_chunks(folder / "code-definitions.json", definition)


@pytest.fixture
def bench(isolated, tmp_path) -> Bench:
    root = tmp_path / "shop"
    (root / ".git").mkdir(parents=True)
    (root / "lamp.py").write_text("def switch_lamp():\n    return 1\n", encoding="utf-8")
    return Bench(root, isolated.cortex)


async def listed(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def answer_to(client: Client, name: str, **arguments: object) -> dict:
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer.content
    return json.loads(answer.content[0].text)


def keep_first_record_and_memory(home: Path) -> None:
    with open_library(settings_of(home)) as library:
        create(library, Thread("Lamps burn too long", "Who switches them off?"), actor=person())
        add(library, Memory("", "Lamps are switched by hand"))


def test_a_session_that_was_open_before_the_first_record_and_memory_finds_them(bench):
    async def talk(client: Client) -> None:
        before = await listed(client)
        assert before == [*CODE, *MEMORY, *NAMES]
        assert (await client.call_tool("query_memories", {"query": "lamps"})).is_error
        assert (await answer_to(client, "cortex_get_bootstrap_pack"))["success"]
        assert (await answer_to(client, "cortex_get_inbox"))["success"]
        found = (await answer_to(client, "cortex_search", query="switch lamp"))["data"]["results"]
        assert [row["type"] for row in found] == ["code"]
        keep_first_record_and_memory(bench.home)
        found = (await answer_to(client, "cortex_search", query="lamps"))["data"]["results"]
        assert {"thread", "memories"} <= {row["type"] for row in found}
        assert len((await answer_to(client, "query_memories", query="lamps"))["results"]) == 1
        assert await listed(client) == before

    bench.converse(talk)


@pytest.mark.parametrize("with_content", [False, True])
def test_chunk_search_keeps_its_contract_in_any_home(bench, with_content):
    if with_content:
        keep_first_record_and_memory(bench.home)
    bench.write_chunks()

    async def talk(client: Client) -> None:
        assert await listed(client) == [*CODE, *MEMORY, *NAMES]
        for narrowed in ({"chunk_types": ["documentation"]}, {"tags": ["docs"]}):
            answer = await answer_to(
                client, "cortex_search", query="how is a lamp switched", limit=1_000, **narrowed
            )
            assert list(answer) == ["results", "total"] and answer["total"] == 1
            (result,) = answer["results"]
            assert list(result) == ["chunk", "combined_score"] and result["chunk"]["id"] == "lamps"
        assert (await answer_to(client, "cortex_search", query="lamp", chunk_types=["data"])) == {
            "results": [],
            "total": 0,
        }
        with pytest.raises(MCPError) as caught:
            await client.call_tool("cortex_search", {"query": " ", "tags": ["docs"]})
        assert caught.value.error.code == -32602
        everything = (
            await answer_to(client, "cortex_search", query="how is a lamp switched", chunk_types=[])
        )["data"]
        assert sorted(
            row["title"] for row in everything["results"] if row["type"] in ("code", "chunks")
        ) == ["About lamps", "switch_lamp"]
        mixed = await client.call_tool(
            "cortex_search", {"query": "lamp", "tags": ["docs"], "types": ["tasks"]}
        )
        assert mixed.is_error and "filters.tags" in mixed.content[0].text

    bench.converse(talk)


def test_server_without_the_team_keeps_the_chunk_search_contract_for_every_call(bench):
    keep_first_record_and_memory(bench.home)
    bench.write_chunks()

    async def talk(client: Client) -> None:
        assert await listed(client) == ["cortex_search"]
        assert (await answer_to(client, "cortex_search", query="how is a lamp switched"))[
            "total"
        ] == 2

    bench.converse(talk, "chunks")


def test_team_server_answers_for_chunk_files_and_says_where_there_are_none(bench):
    async def missing(client: Client) -> None:
        answer = await client.call_tool("cortex_search", {"query": "lamp", "tags": ["docs"]})
        assert answer.is_error and "cortex chunks export" in answer.content[0].text

    async def there(client: Client) -> None:
        assert await listed(client) == NAMES
        assert (await answer_to(client, "cortex_search", query="lamp", tags=["docs"]))["total"] == 1

    bench.converse(missing, "team")
    bench.write_chunks()
    bench.converse(there, "team")
