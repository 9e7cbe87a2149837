"""Texts of the document tools."""

from __future__ import annotations

from datetime import UTC, datetime

from cortex.base.types import Source
from cortex.engine.library import FolderState
from cortex.engine.store import Counts, Folder
from cortex.families.documents.status import SourceState
from cortex.families.documents.tools import render


def test_control_characters_of_a_document_are_removed():
    assert render.fenced("a\x1b[2Jb\u202ec\td\n\x9be") == "```text\na[2Jbc\td\ne\n```"


def test_sources_are_listed_in_the_form_of_the_contract():
    def state(name: str, key: str, documents: int, chunks: int, last_sync: str) -> SourceState:
        source = Source(1, "folder", name, f"/Users/name/{name}")
        folder = Folder(source, key, (), (), watch=True, added_at=0)
        figures = FolderState(folder, Counts(documents, chunks, 0), 1, last_sync, (), True)
        return SourceState(folder, figures, (), {})

    now = datetime(2026, 1, 3, 12, tzinfo=UTC)
    listed = render.sources_text(
        [
            state("anthropic-docs", "abc123", 15, 342, "2026-01-03T10:00:00Z"),
            state("project-notes", "def456", 87, 1204, "2026-01-02T10:00:00Z"),
            state("new", "f", 0, 0, ""),
        ],
        now,
    )
    assert listed == (
        "Knowledge Base Sources\n\n"
        "• anthropic-docs (ID: abc123)\n  Path: /Users/name/anthropic-docs\n"
        "  Documents: 15 | Chunks: 342 | Last sync: 2 hours ago\n\n"
        "• project-notes (ID: def456)\n  Path: /Users/name/project-notes\n"
        "  Documents: 87 | Chunks: 1,204 | Last sync: 1 day ago\n\n"
        "• new (ID: f)\n  Path: /Users/name/new\n  Documents: 0 | Chunks: 0 | Last sync: never"
    )
