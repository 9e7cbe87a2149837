"""An MCP server with tools of its own and the chunk search of Cortex beside them.

python combined_server.py path/to/project/.cortex/chunks
"""

import sys
import time

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

import cortex

server = MCPServer("combined")
chunks: cortex.Chunks


@server.tool()
def today() -> str:
    """Tell today's date."""
    return time.strftime("%Y-%m-%d")


@server.tool()
async def cortex_search(
    query: str, limit: int = 15, tags: list[str] | None = None, chunk_types: list[str] | None = None
) -> str:
    """Search for relevant context in the project codebase and documentation."""

    def search() -> str:
        return chunks.answer(
            query, limit=limit, min_score=0.2, tags=tags or (), chunk_types=chunk_types or ()
        )

    try:
        return await anyio.to_thread.run_sync(
            search
        )  # a search takes its time, and the server has other things to do
    except cortex.CortexError as error:
        raise ToolError(
            error.message
        ) from error  # anything else would hide from the agent what is wrong


if __name__ == "__main__":
    with cortex.open_chunks(sys.argv[1]) as chunks:
        server.run()
