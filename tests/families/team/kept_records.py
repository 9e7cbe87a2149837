"""Records written in one step, without the checks of a command or tool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cortex.base.actors import person
from cortex.base.record_model import Body, Record
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.writes.transactions import perform


def keep(library: Library, *bodies: Body, at: int | None = None) -> list[Record[Any]]:
    """Write records in one step, at that time."""
    made: list[Record[Any]] = []

    def work(step: RecordTransaction) -> str:
        step.now = step.now if at is None else at
        made.extend(step.make(new_id(type(body)), body) for body in bodies)
        return ""

    perform(library, work, actor=person(), key=fresh_key(), action="test", payload="")
    return made


def change(library: Library, record: Record[Any], **fields: object) -> None:
    """Change fields of the stored version of a record."""

    def work(step: RecordTransaction) -> str:
        kept = step.get(record.id)
        assert kept is not None
        return step.put(replace(kept, body=replace(kept.body, **fields))).id

    perform(library, work, actor=person(), key=fresh_key(), action="test", payload="")
