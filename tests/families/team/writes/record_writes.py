"""Writes, changes and refusals of records by actors of each tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.errors import CortexError
from cortex.base.record_model import Actor, Body, Record, RecordFilter
from cortex.base.types import Mode, Query
from cortex.engine.library import Library
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise

PERSON, AGENT, WRITER = person(), Actor("agent", 1), Actor("agent", 2)
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"


def make(library: Library, body: Body, actor: Actor = PERSON, **options: Any) -> Record[Any]:
    return create(library, body, actor=actor, **options)


def edit(
    library: Library,
    record: Record[Any],
    actor: Actor = PERSON,
    version: int | None = None,
    **fields: object,
) -> Record[Any]:
    return revise(
        library,
        record.id,
        lambda body: replace(body, **fields),
        actor=actor,
        action="edit",
        version=version,
    )


def now(library: Library, record: Record[Any]) -> Record[Any]:
    """The stored version of a record."""
    found = library.store.records.one(record.id)
    assert found is not None
    return found


def refused(call: Callable[[], object]) -> CortexError:
    """The error of a call that is refused."""
    with pytest.raises(CortexError) as raised:
        call()
    return raised.value


def count(library: Library, *kinds: str) -> int:
    return library.store.records.count(RecordFilter(kinds=kinds))


def found_by(library: Library, text: str) -> list[str]:
    """The ids of the records that are found by words."""
    sources = library.store.records.sources(
        ("subcortex", "thread", "comment", "observation", "artifact", "task")
    )
    return [hit.path for hit in library.search(Query(text, mode=Mode.WORDS), sources=sources).hits]
