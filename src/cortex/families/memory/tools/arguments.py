"""Arguments of the memory tools, field by field as in their contract.

`budget` and `cursor` are our own additions and optional.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cortex.toolkit.tool import Arguments, Budget, Cursor, Whole


class QueryMemories(Arguments):
    query: str | None = Field(
        default=None, description="Free text search across title, subtitle, facts"
    )
    tags: tuple[str, ...] | None = Field(
        default=None,
        description="Filter by concept tags (e.g., ['deployment', 'railway'])",
        max_length=50,
    )
    project: str | None = Field(
        default=None, description="Filter by project name. Omit to search all projects."
    )
    scope: str | None = Field(
        default=None, description="Memory scope: 'dev', 'personal', or project name"
    )
    status: Literal["staging", "approved", "all"] = Field(
        default="approved", description="Filter by curation status (default: approved)"
    )
    limit: Whole = Field(default=10, description="Max results (default: 10, max: 50)", ge=1, le=50)
    budget: Budget = None
    cursor: Cursor = None


class GetMemory(Arguments):
    id: str = Field(description="Memory ID (e.g., 'ack_abc123_2026-01-04_001')", max_length=1_000)
    scope: str | None = Field(default=None, description="Memory scope if known")
    budget: Budget = None


class ListScopes(Arguments):
    pass


class GetContext(Arguments):
    project_path: str | None = Field(
        default=None,
        description="Repository path. Defaults to current working directory.",
        max_length=4_096,
    )
    include_cross_project: bool = Field(
        default=True, description="Include cross-project learnings (default: true)"
    )
    max_memories: Whole = Field(
        default=5, description="Max memories to include (default: 5)", ge=0, le=50
    )
    budget: Budget = None
