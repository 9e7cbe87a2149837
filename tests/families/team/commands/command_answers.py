"""Answers of commands and tools about a team's records, for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cortex.base.actors import agent
from cortex.base.errors import CortexError
from cortex.base.record_model import Draft
from cortex.base.settings import environment, load
from cortex.engine.library import Library
from cortex.families.team import tools
from cortex.families.team.writes.drafts import create_draft
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Call, bind, find_tool, perform
from protocol.code_server import check_envelope

Run = Callable[..., tuple[int, str, str]]
SECRET = "ghp_" + "aZ3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zB3"


def answer(cortex: Run, *arguments: object) -> dict[str, Any]:
    """The JSON of a command that succeeds."""
    code, out, err = cortex(*arguments, "--json")
    assert code == 0, out + err
    return json.loads(out)


def refusal(cortex: Run, *arguments: object) -> dict[str, Any]:
    """The error of a command that is refused, with the same code in the text for people."""
    code, out, _ = cortex(*arguments, "--json")
    assert code in (1, 2), out
    error = check_envelope(json.loads(out))
    again, _, err = cortex(*arguments)
    assert again == code
    assert f"[{error['code']}]" in err
    return error


def exits(cortex: Run, *arguments: object) -> tuple[int, dict[str, Any], str]:
    """The exit code, the JSON and stderr of a command that may fail."""
    code, out, err = cortex(*arguments, "--json")
    return code, json.loads(out), err


@contextmanager
def opened() -> Iterator[Library]:
    """The library that the commands use."""
    library = Library(load(None, environment=environment()))
    try:
        yield library
    finally:
        library.close()


def drafted(*drafts: Draft) -> list[str]:
    """Ids of drafts made by an agent."""
    with opened() as library:
        actor = agent(library.settings)
        return [create_draft(library, draft, actor=actor)[0].id for draft in drafts]


def comment_draft(
    target: str = "", body: str = "It happened on Monday, too.", **more: Any
) -> Draft:
    return Draft("comment", "", body, target=target, **more)


def run_tool(name: str, **arguments: object) -> dict[str, Any]:
    """What a tool answers to an agent."""
    engines = engine_pool(keep=False)
    family = tools.open_family(load(None, environment=environment()), engines, ())
    try:
        opened_family, tool = find_tool([family], name)
        try:
            result = json.loads(perform(opened_family, tool, bind(tool, arguments), Call()).text)
        except CortexError as error:
            return {"message": error.message}
        return result.get("data", result)
    finally:
        family.close()
        engines.close()
