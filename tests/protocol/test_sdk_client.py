"""The official SDK's own client, as many agents embed it, against our server."""

import sys

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from protocol.client import FAMILY


def test_the_official_client_lists_calls_reads_and_prompts():
    async def converse() -> None:
        server = StdioServerParameters(command=sys.executable, args=[str(FAMILY), "stdio"])
        seen: list[float] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append(progress)

        with anyio.fail_after(20):
            async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
                hello = await session.initialize()
                assert hello.server_info.name == "cortex"
                tools = await session.list_tools()
                assert tools.tools[0].name == "echo"
                result = await session.call_tool("count", {"to": 5}, progress_callback=on_progress)
                assert result.content[0].text == "5"
                contents = await session.read_resource("box://file/a/b.py/text")
                assert contents.contents[0].text == "a/b.py"
                prompt = await session.get_prompt("greet", {"who": "Ada"})
                assert prompt.messages[0].content.text == "Greet Ada"
        assert seen[0] == 1
        assert seen[-1] == 5

    anyio.run(converse)
