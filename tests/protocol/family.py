"""A small family of real tools, for the tests of every surface; run as a program it serves itself.

python family.py stdio            python family.py http PORT [HOST] [TOKEN] [RATE]
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex.base.errors import FileError, InputError
from cortex.toolkit.tool import (
    Answer,
    Arguments,
    Call,
    Family,
    Prompt,
    PromptArgument,
    Resource,
    Tool,
    Whole,
)


class Box:
    """The state shared by the tools: cancellations, and whether a tool has begun."""

    def __init__(self, closed: Path | None = None) -> None:
        self.cancelled = threading.Event()
        self.entered = threading.Event()
        self.closed = closed

    def close(self) -> None:
        if self.closed is not None:
            self.closed.write_text("closed", encoding="utf-8")


class Echo(Arguments):
    model_config = ConfigDict(alias_generator=to_camel)

    text: str = Field(description="What to say", max_length=20_000_000)
    how_often: Whole = Field(1, ge=1, le=5, description="Repetitions")
    voice: Literal["plain", "loud"] = "plain"


class Nothing(Arguments):
    pass


class Count(Arguments):
    to: Whole = Field(ge=1, le=1_000_000)


class Fail(Arguments):
    how: Literal["known", "unknown", "surrogate"]


def echo(box: Box, arguments: Echo, call: Call) -> Answer:
    text = " ".join([arguments.text] * arguments.how_often)
    return Answer(text.upper() if arguments.voice == "loud" else text)


def count(box: Box, arguments: Count, call: Call) -> Answer:
    for number in range(1, arguments.to + 1):
        call.progress(number, arguments.to, f"at {number}")
    return Answer(str(arguments.to), structured={"count": arguments.to})


def wait(box: Box, arguments: Nothing, call: Call) -> Answer:
    box.entered.set()
    call.progress(1, None, "waiting")
    while not call.cancel:
        threading.Event().wait(0.01)
    box.cancelled.set()
    return Answer("cancelled")


def stubborn(box: Box, arguments: Nothing, call: Call) -> Answer:
    call.progress(1, None, "deaf")
    threading.Event().wait(3600)
    return Answer("never")


def was_cancelled(box: Box, arguments: Nothing, call: Call) -> Answer:
    return Answer(str(box.cancelled.wait(5)))


def fail(box: Box, arguments: Fail, call: Call) -> Answer:
    if arguments.how == "known":
        raise FileError("FILE_NOT_FOUND", "no file 'a.py'", context={"path": "a.py"})
    if arguments.how == "surrogate":
        return Answer("odd \udcff name")
    raise ZeroDivisionError("private detail")


def chatter(box: Box, arguments: Nothing, call: Call) -> Answer:
    print("a stray print")
    sys.stdout.flush()
    return Answer("said")


def read_path(box: Box, variables: Mapping[str, str], call: Call) -> str:
    path = variables["path"]
    if ".." in path.split("/"):
        raise FileError("PATH_OUTSIDE", f"{path!r} is outside")
    if path == "missing.py":
        raise FileError("FILE_NOT_FOUND", f"no file {path!r}")
    if path == "broken.py":
        raise ZeroDivisionError("private detail")
    return path


def read_query(box: Box, variables: Mapping[str, str], call: Call) -> str:
    if not variables["query"].strip():
        raise InputError("QUERY_EMPTY", "empty query")
    return repr(dict(sorted(variables.items())))


def _tool(run, arguments, writes: bool = False) -> Tool:
    name = run.__name__
    return Tool(
        "test",
        name,
        name.title(),
        f"Use it to {name}.",
        arguments,
        run,
        writes=writes,
        idempotent=not writes,
    )


def make_family(closed: Path | None = None) -> Family:
    box = Box(closed)
    tools = [
        (echo, Echo),
        (count, Count),
        (wait, Nothing),
        (stubborn, Nothing),
        (was_cancelled, Nothing),
    ]
    return Family(
        name="test",
        instructions="Use echo to hear yourself.",
        context=box,
        tools=(
            *(_tool(*tool) for tool in tools),
            _tool(fail, Fail),
            _tool(chatter, Nothing, writes=True),
        ),
        resources=(
            Resource(
                "box://status{?part}",
                "status",
                "Status",
                "How it is.",
                lambda box, variables, call: repr(variables),
            ),
            Resource("box://file/{+path}/text", "file", "File", "A file.", read_path, "text/plain"),
            Resource(
                "box://search/{query}{?limit,mode}", "search", "Search", "A search.", read_query
            ),
        ),
        prompts=(
            Prompt(
                "greet",
                "Greet",
                "A greeting",
                (
                    PromptArgument("who", "Whom", required=True),
                    PromptArgument("how", "In which way"),
                ),
                lambda values: f"Greet {values['who']} {values.get('how', '')}".strip(),
            ),
        ),
        close=box.close,
    )


def main() -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    closed = Path(sys.argv[-1]) if sys.argv[-1].endswith(".closed") else None
    if sys.argv[1] == "stdio":
        from cortex.interfaces.transports.mcp.stdio import serve_stdio

        return serve_stdio([make_family(closed)])
    from cortex.interfaces.transports.http.gateway import Site
    from cortex.interfaces.transports.http.mcp_site import serve_http

    host = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
    token = sys.argv[4] if len(sys.argv) > 4 and not sys.argv[4].endswith(".closed") else ""
    rate = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    ready = lambda port: print(f"ready {port}", file=sys.stderr, flush=True)  # noqa: E731
    return serve_http([make_family(closed)], Site(host, int(sys.argv[2]), token, rate), ready=ready)


if __name__ == "__main__":
    raise SystemExit(main())
