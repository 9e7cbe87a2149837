"""JSON answers of `cortex memory`."""

import json
from collections.abc import Callable
from typing import Any

Command = Callable[..., tuple[int, str, str]]


def answer(cortex: Command, *arguments: object) -> dict[str, Any]:
    """The JSON of a command that goes well."""
    code, out, err = cortex("memory", *arguments, "--json")
    assert code == 0, out + err
    return json.loads(out)


def titles(cortex: Command, *arguments: object) -> list[str]:
    """The titles in a list, in the order of the alphabet."""
    return sorted(memory["title"] for memory in answer(cortex, "list", *arguments)["memories"])
