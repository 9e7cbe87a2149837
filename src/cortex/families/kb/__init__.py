"""The kb family: the person's documents, searched and read, as tools, a resource and a prompt. Nothing in it can write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from cortex import guide
from cortex.borrowing import Borrowed
from cortex.engines import Engines
from cortex.everywhere import Place
from cortex.families.kb.places import place_of
from cortex.families.kb.resources import PROMPTS, RESOURCES
from cortex.families.kb.tools import TOOLS, fault_of, tools_for
from cortex.settings import Settings
from cortex.tools import Family

__all__ = ["PROMPTS", "RESOURCES", "TOOLS", "Borrowed", "open_family"]


def open_family(settings: Settings, engines: Engines) -> Family:
    """The family over the documents of the person whose settings these are, opened in the background."""
    context = Borrowed(settings, engines)
    context.start()
    return Family(
        name="kb",
        instructions=guide.text("kb"),
        context=context,
        tools=tools_for(settings),
        resources=RESOURCES,
        prompts=PROMPTS,
        fault=fault_of,
        close=context.close,
        places=partial(_places, context),
    )


@contextmanager
def _places(context: Borrowed) -> Iterator[list[Place]]:
    with context.open() as library:
        yield [place_of(library)] if library.folders() else []
