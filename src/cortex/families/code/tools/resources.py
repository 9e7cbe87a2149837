"""Resources and prompts of the code family.

Resources give the answers of the tools under an address; prompts are two texts to start from.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from cortex.base.errors import InputError
from cortex.base.redaction import note_of
from cortex.base.text import TOKEN_CHARACTERS
from cortex.engine.search.federated import federated_search
from cortex.families.code.tools import render
from cortex.families.code.tools.definitions import MODES, make_query, stats, status, view_file
from cortex.families.code.tools.session import Workspaces, places_of
from cortex.toolkit import instructions
from cortex.toolkit.pagination import dump
from cortex.toolkit.tool import Call, Prompt, PromptArgument, Resource


def read_status(context: Workspaces, variables: Mapping[str, str], call: Call) -> str:
    """Index progress and the files that were left out."""
    return dump(status(context, variables.get("workspace"), _cursor(variables, "status")))


def _cursor(variables: Mapping[str, str], what: str) -> int | None:
    """Parse the cursor of an address.

    Raises: InputError CURSOR_INVALID.
    """
    cursor = variables.get("cursor")
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise InputError("CURSOR_INVALID", f"{cursor[:80]!r} is no cursor of a {what}")
    return int(cursor)


def read_stats(context: Workspaces, variables: Mapping[str, str], call: Call) -> str:
    """Contents of the index in numbers."""
    return dump(stats(context, variables.get("workspace")))


def read_search(context: Workspaces, variables: Mapping[str, str], call: Call) -> str:
    """Search by address."""
    strategy = variables.get("strategy", "auto")
    if strategy not in MODES:
        raise InputError(
            "ARGUMENT_INVALID", f"unknown strategy {strategy!r}; known: {', '.join(MODES)}"
        )
    search = context.settings.search
    limit = _number(variables, "maxResults", search.default_max_results, 1, 200, whole=True)
    threshold = _number(variables, "threshold", search.relevance_threshold, 0, 1)
    query = make_query(
        variables["query"], strategy=strategy, limit=int(limit), threshold=threshold, file_types=[]
    )
    started = time.perf_counter()
    # Hits beyond the budget come without text.
    budgeted_query = replace(query, characters=search.budget * TOKEN_CHARACTERS)
    with context.open(variables.get("workspace")) as engines:
        located, page = federated_search(places_of(engines), budgeted_query, call.cancel)
        milliseconds = 1000 * (time.perf_counter() - started)
        states = [engine.freshness() for _, engine in engines]
    metadata = render.search_metadata(page, milliseconds, states)
    several = len(context.names) > 1
    return dump(
        render.resource_answer(variables["query"], located, page, metadata, several=several)
    )


def _number(
    variables: Mapping[str, str],
    name: str,
    default: float,
    least: float,
    most: float,
    *,
    whole: bool = False,
) -> float:
    """Parse a number of an address and check its range.

    Raises: InputError ARGUMENT_INVALID.
    """
    given = variables.get(name)
    if given is None:
        return default
    try:
        value = float(given)
    except ValueError:
        value = most + 1
    if not least <= value <= most or (whole and not value.is_integer()):
        kind = "whole number" if whole else "number"
        raise InputError(
            "ARGUMENT_INVALID",
            f"{name} must be a {kind} from {least:g} to {most:g}, not {given[:80]!r}",
        )
    return value


def read_chunks(context: Workspaces, variables: Mapping[str, str], call: Call) -> str:
    """Read a file's chunks with their text, from the cursor on, as many as the budget allows."""
    start = _cursor(variables, "file's chunks") or 0
    file = view_file(context, variables.get("workspace"), variables["path"])
    budget = context.settings.search.budget
    notes = note_of((file.view.path, leak) for leak in file.view.redacted)
    return dump(render.chunks_answer(file.view, file.embedding, start, budget, notes))


RESOURCES = (
    Resource(
        "codeindex://workspace/status{?workspace,cursor}",
        "workspace-status",
        "Workspace status",
        "Current workspace indexing status and statistics",
        read_status,
    ),
    Resource(
        "codeindex://workspace/stats{?workspace}",
        "workspace-stats",
        "Workspace statistics",
        "Comprehensive workspace statistics and analytics",
        read_stats,
    ),
    Resource(
        "codeindex://search/{query}{?maxResults,strategy,threshold,workspace}",
        "search",
        "Search results",
        "Search results for natural language query",
        read_search,
    ),
    Resource(
        "codeindex://file/{+path}/chunks{?workspace,cursor}",
        "file-chunks",
        "File chunks",
        "Individual file chunks with metadata",
        read_chunks,
    ),
)

PROMPTS = (
    Prompt(
        "code-search",
        "Code search",
        "Template for effective semantic code search",
        (
            PromptArgument("intent", "What you're trying to accomplish", required=True),
            PromptArgument("context", "Additional context about the codebase"),
            PromptArgument("language", "Preferred programming language"),
        ),
        lambda values: instructions.fill(instructions.text("code-search"), values),
    ),
    Prompt(
        "workspace-overview",
        "Workspace overview",
        "Generate comprehensive workspace analysis",
        (PromptArgument("focus", "Specific area to focus on (architecture, patterns, etc.)"),),
        lambda values: instructions.fill(instructions.text("workspace-overview"), values),
    ),
)
