"""Argument schemas of the code tools, field by field as in their contract.

`workspace`, `budget` and `cursor` are additions to the contract and optional.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cortex.toolkit.tool import Arguments, Budget, Whole

Workspace = Annotated[
    str | None,
    Field(description="Name or path of one workspace; without it all are used", default=None),
]
Cursor = Annotated[
    str | None, Field(description="Where to go on, from the metadata of an earlier answer")
]


class SearchCode(Arguments):
    query: str = Field(
        description="Natural language search query, a name, or a piece of code; "
        'in double quotes the exact text ("text"), between slashes a regular expression (/text/)'
    )
    maxResults: Whole = Field(default=50, description="Maximum number of results", ge=1, le=200)
    strategy: Literal["auto", "embeddings", "tfidf", "fullworkspace"] = Field(
        default="auto", description="Search strategy preference"
    )
    threshold: float = Field(
        default=0.65, description="Relevance threshold (0.0-1.0)", ge=0.0, le=1.0
    )
    fileTypes: list[str] | None = Field(
        default=None,
        description="Filter by file extensions",
        examples=[["ts", "js"], ["py"], ["*"]],
    )
    workspace: Workspace = None
    budget: Budget = None
    cursor: Cursor = None


class ReindexWorkspace(Arguments):
    force: bool = Field(
        default=False, description="Force full reindex even if files haven't changed"
    )
    path: str | None = Field(
        default=None,
        description="Specific path to reindex (relative to workspace root)",
        json_schema_extra={"default": None},
    )
    strategy: Literal["embeddings", "tfidf", "both"] = Field(
        default="both", description="Which indexing strategies to rebuild"
    )
    workspace: Workspace = None


class ConfigChanges(Arguments):
    chunkSize: Whole | None = Field(default=None, ge=50, le=1000)
    embeddingProvider: Literal["openai", "ollama", "local"] | None = None
    maxFiles: Whole | None = Field(default=None, ge=100, le=100_000)
    cacheSize: str | None = Field(default=None, pattern=r"^\d+[KMGT]B$")


class UpdateConfig(Arguments):
    settings: ConfigChanges = Field(description="Configuration settings to update")
    restart: bool = Field(
        default=False, description="Whether to restart indexing after config change"
    )
    workspace: Workspace = None


class LineRange(Arguments):
    start: Whole | None = Field(default=None, ge=1)
    end: Whole | None = Field(default=None, ge=1)


class GetFileContext(Arguments):
    path: str = Field(description="File path relative to workspace root")
    lineRange: LineRange | None = Field(default=None, description="Specific line range to focus on")
    contextLines: Whole = Field(
        default=10, description="Number of lines to include before/after range", ge=0, le=100
    )
    workspace: Workspace = None
    budget: Budget = None


class FindSimilarCode(Arguments):
    code: str = Field(description="Code snippet to find similar patterns for")
    language: str | None = Field(
        default=None,
        description="Programming language of the snippet",
        examples=["typescript", "python", "javascript", "go"],
    )
    maxResults: Whole = Field(
        default=20, description="Maximum number of similar code snippets to return", ge=1, le=100
    )
    workspace: Workspace = None
    budget: Budget = None
    cursor: Cursor = None
