"""Arguments of the document tools, field by field as in their contract.

`budget` and `cursor` are our own additions and optional.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.config import JsonDict

from cortex.base.settings import Settings
from cortex.toolkit.tool import Arguments, Whole

# The contract's type for whole numbers.
INTEGER: JsonDict = {"type": "integer"}

ModeName = Literal["hybrid", "semantic", "fts5"]
Budget = Annotated[
    Whole | None,
    Field(
        description="Most tokens that the answer may cost (characters / 4)",
        ge=1,
        le=100_000,
        json_schema_extra=INTEGER,
    ),
]
Cursor = Annotated[
    str | None, Field(description="Where to go on, from the end of an earlier answer")
]

# Default number of documents in an answer with passages.
DOCUMENTS = 5


class KbSearchArguments(Arguments):
    query: str = Field(
        description="The search query. Use short keyword phrases for best results (e.g., "
        "'authentication JWT' rather than "
        "'how does authentication work with JWT tokens')."
    )
    source_id: str | None = Field(
        default=None,
        description="Filter results to a specific knowledge base source, by its ID or its name. "
        "Use kb_list_sources to see available "
        "source IDs.",
    )
    limit: Whole = Field(
        default=10,
        description="Maximum number of results (default: 10, max: 50)",
        ge=1,
        le=50,
        json_schema_extra=INTEGER,
    )
    mode: ModeName = Field(
        default="hybrid",
        description="Search mode. 'hybrid' (default) combines keyword and semantic search. "
        "'semantic' uses vector similarity only. "
        "'fts5' uses keyword matching only.",
    )
    budget: Budget = None
    cursor: Cursor = None


class SearchWithContext(Arguments):
    query: str = Field(description="The search query for finding relevant context.")
    source_id: str | None = Field(
        default=None, description="Filter to a specific source ID; its name will do, too."
    )
    limit: Whole = Field(
        default=DOCUMENTS,
        description=f"Maximum documents to return (default: {DOCUMENTS})",
        ge=1,
        le=50,
        json_schema_extra=INTEGER,
    )
    mode: ModeName = "hybrid"
    budget: Budget = None


class ListSources(Arguments):
    pass


class GetDocument(Arguments):
    document_id: str = Field(description="The document ID from search results.")
    budget: Budget = None
    cursor: Cursor = None


class Stats(Arguments):
    source_id: str | None = Field(
        default=None,
        description="Get stats for a specific source. If omitted, returns aggregate stats.",
    )


def searching(settings: Settings) -> tuple[type[KbSearchArguments], type[SearchWithContext]]:
    """Argument models of both searches, with the limits and defaults of the settings."""
    search = settings.mcp.kb.search
    most, limit = search.max_limit, min(search.default_limit, search.max_limit)
    if (most, limit, search.default_mode) == (50, 10, "hybrid"):
        return KbSearchArguments, SearchWithContext

    class Configured(KbSearchArguments):
        limit: Whole = Field(
            default=min(search.default_limit, most),
            description="Maximum number of results (default: "
            f"{min(search.default_limit, most)}, max: {most})",
            ge=1,
            le=most,
            json_schema_extra=INTEGER,
        )
        mode: ModeName = Field(
            default=search.default_mode,
            description=str(KbSearchArguments.model_fields["mode"].description),
        )

    class ConfiguredWithContext(SearchWithContext):
        limit: Whole = Field(
            default=min(DOCUMENTS, most),
            description=f"Maximum documents to return (default: {min(DOCUMENTS, most)}, max: "
            f"{most})",
            ge=1,
            le=most,
            json_schema_extra=INTEGER,
        )
        mode: ModeName = search.default_mode

    return Configured, ConfiguredWithContext
