"""The example programs: MCP servers with our tools in them, asked with the official SDK."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import cortex
from cortex.base.errors import InputError
from cortex.interfaces.cli import run

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SECONDS = 60


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, strangers_environment: object) -> Path:
    """A project whose chunk files were written by `cortex chunks export`."""
    root = tmp_path_factory.mktemp("example") / "shop"
    (root / "docs").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "lamp.py").write_text(
        'WATTS = 40\n\n\ndef switch_lamp(on: bool) -> bool:\n    """Turn the lamp on or off."""\n    return not on\n',
        encoding="utf-8",
    )
    (root / "docs" / "lamp.md").write_text(
        "---\ntags: [light]\n---\n# Lamps\n\nHow a lamp is switched.\n", encoding="utf-8"
    )
    assert run(["chunks", "export", "--workspace", str(root)]) == 0
    return root


def ask(example: str, argument: Path, work: Callable[[ClientSession], Awaitable[None]]) -> None:
    async def go() -> None:
        server = StdioServerParameters(
            command=sys.executable,
            args=[str(EXAMPLES / example), str(argument)],
            env=dict(os.environ),
        )
        with anyio.fail_after(SECONDS):
            async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                await work(session)

    anyio.run(go)


def texts(result: Any) -> list[str]:
    return [part.text for part in result.content]


def test_example_server_searches_chunks_with_its_own_tool(project: Path) -> None:
    async def work(session: ClientSession) -> None:
        assert {tool.name for tool in (await session.list_tools()).tools} == {
            "today",
            "cortex_search",
        }
        answer = json.loads(
            texts(await session.call_tool("cortex_search", {"query": "switch a lamp"}))[0]
        )
        found = {result["chunk"]["id"] for result in answer["results"]}
        assert {"code-definitions-lamp.py", "doc-docs/lamp.md-s1"} <= found
        arguments = {
            "query": "lamp",
            "tags": ["light"],
            "chunk_types": ["documentation", "data"],
            "limit": 1,
        }
        answer = json.loads(texts(await session.call_tool("cortex_search", arguments))[0])
        assert answer["total"] == 1
        assert answer["results"][0]["chunk"]["tags"][:2] == ["documentation", "markdown"]
        wrong = await session.call_tool("cortex_search", {"query": " "})
        assert wrong.is_error and "query is empty" in texts(wrong)[0]

    ask("combined_server.py", project / ".cortex" / "chunks", work)


def test_example_low_level_server_offers_whole_families(project: Path) -> None:
    async def work(session: ClientSession) -> None:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert {"today", "cortex_search", "search_code", "get_file_context"} <= set(tools)
        assert "reindex_workspace" not in tools
        assert len(texts(await session.call_tool("today", {}))[0]) == 10
        answer = json.loads(
            texts(await session.call_tool("cortex_search", {"query": "lamp", "limit": 2}))[0]
        )
        assert answer["total"] == 2
        answer = json.loads(
            texts(await session.call_tool("search_code", {"query": "switch_lamp"}))[0]
        )
        assert answer["results"][0]["file"] == "lamp.py"
        wrong = await session.call_tool("cortex_search", {"query": " "})
        assert wrong.is_error and "query" in texts(wrong)[0]
        wrong = await session.call_tool("search_code", {})
        assert wrong.is_error and "required" in texts(wrong)[0]

    ask("lowlevel_server.py", project, work)


def test_python_search_has_the_results_of_the_tool(project: Path) -> None:
    query = "switch the lamp"
    options: list[dict[str, Any]] = [
        {},
        {"limit": 1},
        {"tags": ["code", "python"]},
        {"chunk_types": ["symbols", "definitions"]},
    ]
    with cortex.open_tools("chunks", root=project) as tools:
        texts = [tools.call("cortex_search", {"query": query, **option}).text for option in options]
    with cortex.open_chunks(project / ".cortex" / "chunks", watch=False) as chunks:
        assert [chunks.answer(query, **option) for option in options] == texts
        everything = chunks.search(query)
        scores = [result.combined_score for result in everything]
        assert scores == sorted(scores, reverse=True)
        middle = scores[len(scores) // 2]
        assert chunks.search(query, min_score=middle) == [
            result for result in everything if result.combined_score >= middle
        ]
        assert len(chunks.search(query, limit=0)) == 1
        with pytest.raises(InputError):
            chunks.search("  ")


def test_chunk_folder_that_cannot_be_opened_is_an_error_with_its_reason(
    project: Path, tmp_path: Path
) -> None:
    with pytest.raises(cortex.CortexError):
        cortex.open_chunks(tmp_path / "none")
    with pytest.raises(cortex.CortexError, match="known: code, chunks, kb"):
        cortex.open_tools("nonsense", root=project)
    with pytest.raises(cortex.CortexError):
        cortex.open_tools("code", "chunks", root=tmp_path)
    with (
        cortex.open_tools("code", root=project) as tools,
        pytest.raises(InputError, match="unknown tool"),
    ):
        tools.call("nonsense")
