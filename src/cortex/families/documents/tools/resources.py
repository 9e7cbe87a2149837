"""MCP resource for a source, and a prompt that gathers context about a topic."""

from __future__ import annotations

import json
from collections.abc import Mapping

from cortex.engine.library_session import LibrarySession
from cortex.families.documents.status import state_of
from cortex.toolkit import instructions
from cortex.toolkit.tool import Call, Prompt, PromptArgument, Resource


def read_source(context: LibrarySession, variables: Mapping[str, str], call: Call) -> str:
    """Return one source as JSON; its path on disk is left to kb_list_sources."""
    with context.open() as library:
        state = state_of(library, library.folder(variables["id"]))
    return json.dumps(state.as_json(root=False), ensure_ascii=False)


RESOURCES = (
    Resource(
        "kb://source/{id}",
        "kb-source",
        "Document source",
        "A source of documents by its ID or name: counts, last sync, and the files that could "
        "not be read",
        read_source,
    ),
)

PROMPTS = (
    Prompt(
        "kb_context",
        "Context from documents",
        "Gather what the documents say about a topic",
        (PromptArgument("topic", "What it is about", required=True),),
        lambda values: instructions.fill(instructions.text("kb-context"), values),
    ),
)
