"""The documents as a place of a search over several stores."""

from __future__ import annotations

from dataclasses import replace

from cortex.errors import InputError
from cortex.everywhere import Place
from cortex.families.kb.asking import tuned
from cortex.library import Library
from cortex.types import Cancel, Mode, Page, Query

FAMILY = "kb"


def place_of(library: Library) -> Place:
    """All folders of a library, asked as their settings say."""
    folders = library.folders()

    def ask(query: Query, cancel: Cancel) -> Page:
        if query.mode in (Mode.EXACT, Mode.FULL):
            raise InputError(
                "ARGUMENT_INVALID", f"documents can't be searched in mode {query.mode.value}: ask code alone"
            )
        if not folders:
            return Page((), 0, query.mode, ("there are no sources yet: add one with `cortex kb add PATH`",))
        asked = replace(
            tuned(library.settings, query), threshold=max(query.threshold, library.settings.kb.rag.min_score)
        )
        return library.search(asked, cancel=cancel, sources=[folder.source for folder in folders])

    return Place(FAMILY, "documents", ask, {folder.source.id: folder.name for folder in folders})
