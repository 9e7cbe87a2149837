"""Definitions of the team tools.

Descriptions are short, since every client pays for them in every conversation.
"""

from __future__ import annotations

from collections.abc import Callable

from cortex.families.team.tools.arguments import (
    CreateDraft,
    CreateObservations,
    GetArtifact,
    GetBootstrapPack,
    GetContextPack,
    GetInbox,
    GetThread,
    PublishComment,
    UpdateTask,
)
from cortex.families.team.tools.observations import create_observations_tool
from cortex.families.team.tools.packs import get_bootstrap_pack, get_context_pack
from cortex.families.team.tools.read_tools import get_artifact, get_inbox, get_thread
from cortex.families.team.tools.search_tool import TeamSearch, search
from cortex.families.team.tools.write_tools import (
    create_draft_tool,
    publish_comment_tool,
    update_task_tool,
)
from cortex.toolkit.tool import Answer, Tool


def _read_tool(
    name: str, title: str, description: str, arguments: type, run: Callable[..., Answer]
) -> Tool:
    """Define a tool that only reads."""
    return Tool(
        "team", f"cortex.{name}", title, description, arguments, run, writes=False, idempotent=True
    )


def _write_tool(
    name: str, title: str, description: str, arguments: type, run: Callable[..., Answer]
) -> Tool:
    """Define a tool that writes under an idempotency key."""
    return Tool(
        "team",
        f"cortex.{name}",
        title,
        description,
        arguments,
        run,
        writes=True,
        idempotent=True,
        keyed=True,
    )


TOOLS = (
    _read_tool(
        "get_bootstrap_pack",
        "Get bootstrap pack",
        "Start here: rules, topics (subcortexes), pinned artifacts, glossary, priorities.",
        GetBootstrapPack,
        get_bootstrap_pack,
    ),
    _read_tool(
        "search",
        "Search everything",
        "Find prior art in threads, artifacts, observations, tasks, code, documents and memories.",
        TeamSearch,
        search,
    ),
    _read_tool(
        "get_context_pack",
        "Get context pack",
        "What matters for one subject: decisions, discussion, observations, tasks, "
        "contradictions; for code also its definition, callers, commits and who mentions it.",
        GetContextPack,
        get_context_pack,
    ),
    _read_tool(
        "get_thread", "Get thread", "A thread: summary and comments.", GetThread, get_thread
    ),
    _read_tool(
        "get_artifact",
        "Get artifact",
        "An artifact with body and evidence.",
        GetArtifact,
        get_artifact,
    ),
    _read_tool("get_inbox", "Get inbox", "What waits for you or for review.", GetInbox, get_inbox),
    _write_tool(
        "create_observations",
        "Create observations",
        "Keep what you found out: results, changes, decisions. Failures are reported per "
        "observation.",
        CreateObservations,
        create_observations_tool,
    ),
    _write_tool(
        "create_draft",
        "Create draft",
        "Propose a comment, thread, artifact or task update; a person approves it. Says where it "
        "will post.",
        CreateDraft,
        create_draft_tool,
    ),
    _write_tool(
        "publish_comment",
        "Publish comment",
        "Comment in a thread, only when the user asks for it; a draft unless agents may publish.",
        PublishComment,
        publish_comment_tool,
    ),
    _write_tool(
        "update_task",
        "Update task",
        "Change a task's status or notes; a draft unless agents may.",
        UpdateTask,
        update_task_tool,
    ),
)
