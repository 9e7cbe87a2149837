"""Arguments of the document tools, field by field as in their contract.

`budget` and `cursor` are our own additions and optional.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field, create_model
from pydantic.config import JsonDict

from cortex.base.settings import Settings
from cortex.base.settings.groups import KbSearch
from cortex.toolkit import tool
from cortex.toolkit.tool import Arguments, Cursor, Whole

# The contract's type for whole numbers.
INTEGER: JsonDict = {"type": "integer"}

ModeName = Literal["hybrid", "semantic", "fts5"]
Budget = Annotated[tool.Budget, Field(json_schema_extra=INTEGER)]

Model = TypeVar("Model", bound=Arguments)

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
    if (search.max_limit, search.default_limit, search.default_mode) == (50, 10, "hybrid"):
        return KbSearchArguments, SearchWithContext
    return (
        _configured(KbSearchArguments, "number of results", search.default_limit, search),
        _configured(SearchWithContext, "documents to return", DOCUMENTS, search),
    )


def _configured(model: type[Model], items: str, default: int, search: KbSearch) -> type[Model]:
    limit, most = min(default, search.max_limit), search.max_limit
    text = f"Maximum {items} (default: {limit}, max: {most})"
    mode = model.model_fields["mode"].description
    return create_model(
        "Configured",
        __base__=model,
        limit=(
            Whole,
            Field(default=limit, description=text, ge=1, le=most, json_schema_extra=INTEGER),
        ),
        mode=(ModeName, Field(default=search.default_mode, description=mode)),
    )
