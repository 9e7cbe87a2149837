"""An MCP server on the SDK's low-level interface: tools of Cortex, and one of its own.

python lowlevel_server.py path/to/project
"""

import sys
import time
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

import cortex

TODAY = {
    "name": "today",
    "description": "Tell today's date.",
    "inputSchema": {"type": "object", "properties": {}},
}


def make_server(tools: cortex.Tools) -> Server[Any]:
    async def list_tools(
        context: ServerRequestContext[Any, Any], params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult.model_validate({"tools": [TODAY, *tools.definitions()]})

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        if params.name == "today":
            return text_result(time.strftime("%Y-%m-%d"))
        try:
            answer = await anyio.to_thread.run_sync(
                partial(tools.call, params.name, params.arguments)
            )
        except cortex.CortexError as error:
            return text_result(error.message, is_error=True)
        return text_result(answer.text, *answer.notes, is_error=answer.is_error)

    return Server("combined", on_list_tools=list_tools, on_call_tool=call_tool)


def text_result(*texts: str, is_error: bool = False) -> mcp_types.CallToolResult:
    content: list[mcp_types.ContentBlock] = [
        mcp_types.TextContent(type="text", text=text) for text in texts
    ]
    return mcp_types.CallToolResult(content=content, is_error=is_error)


async def serve(project: str) -> None:
    with cortex.open_tools("chunks", "code", root=project) as tools:
        server = make_server(tools)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1])
