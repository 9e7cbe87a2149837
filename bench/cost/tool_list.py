"""Tokens before an agent's first question: the tool list and the server's instructions."""

from __future__ import annotations

import json

from bench.common.figures import Section, Setup
from bench.common.mcp_client import Session

INSTRUCTION_BYTES = 2_048


def measure(setup: Setup) -> Section:
    """Tokens (characters / 4) of each tool's definition, as the server sends it."""
    section = Section("tools", "Cost of the tool list")
    folder = setup.work / "empty"
    folder.mkdir(exist_ok=True)
    with Session(
        [*setup.cortex, "mcp", "code", "--workspace", str(folder)], setup.environment()
    ) as session:
        tools = session.request("tools/list")["tools"]
        instructions = session.greeting.get("instructions", "")
    section.text = "The code family; a token is counted as four characters of compact JSON."
    section.add(f"tools/list, {len(tools)} tools", "tokens", sum(_tokens(tool) for tool in tools))
    for tool in sorted(tools, key=_tokens, reverse=True):
        section.add(f"`{tool['name']}`", "tokens", _tokens(tool))
    section.add("server instructions", "tokens", len(instructions) / 4)
    section.add(
        "server instructions", "bytes", len(instructions.encode("utf-8")), INSTRUCTION_BYTES
    )
    return section


def _tokens(value: object) -> float:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) / 4
