"""A family with dots in its tool names: dotted_family.py stdio|http underscore|dotted."""

from __future__ import annotations

import sys

from cortex.interfaces.transports.http.gateway import Site
from cortex.interfaces.transports.mcp.server import Identity
from cortex.toolkit.tool import Answer, Arguments, Call, Family, Tool


class Nothing(Arguments):
    pass


def _tool(name: str) -> Tool:
    def run(context: None, arguments: Nothing, call: Call) -> Answer:
        return Answer(name)

    return Tool(
        "dots",
        name,
        name.title(),
        f"Use it for {name}.",
        Nothing,
        run,
        writes=False,
        idempotent=True,
    )


FAMILY = Family(
    "dots",
    "Dots.",
    None,
    tuple(map(_tool, ("team.search", "team.record.add", "plain_name", "team_status"))),
)


def main() -> int:
    identity = Identity(dotted=sys.argv[2] == "dotted")
    if sys.argv[1] == "stdio":
        from cortex.interfaces.transports.mcp.stdio import serve_stdio

        return serve_stdio([FAMILY], identity=identity)
    from cortex.interfaces.transports.http.mcp_site import serve_http

    ready = lambda port: print(f"ready {port}", file=sys.stderr, flush=True)  # noqa: E731
    return serve_http([FAMILY], Site("127.0.0.1", 0), ready=ready, identity=identity)


if __name__ == "__main__":
    raise SystemExit(main())
