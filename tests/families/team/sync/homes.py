"""Writes, syncs and reads in the library of one home."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cortex.base.actors import person
from cortex.base.record_model import Actor
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction, TransactionOptions
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.inbox import inbox
from cortex.families.team.index_text import wording
from cortex.families.team.sync.client import Remote
from cortex.families.team.sync.cycle import SyncOutcome, sync
from families.team.sync.fake_core import TOKEN


def make(library: Library, body: Any, actor: Any = None) -> str:
    number = new_id(type(body))

    def work(step: RecordTransaction) -> str:
        return step.make(number, body).id

    return do(library, work, actor or person())


def edit(library: Library, number: str, **changes: object) -> None:
    def work(step: RecordTransaction) -> str:
        record = step.get(number)
        assert record is not None
        return step.put(replace(record, body=replace(record.body, **changes))).id

    do(library, work, person())


def do(
    library: Library, work: Callable[[RecordTransaction], str], actor: Actor, key: str = ""
) -> str:
    """Write without indexing, which would take longer than all the rest."""
    return library.store.records.perform(
        work,
        TransactionOptions(
            actor=actor,
            key=key or fresh_key(),
            action="write",
            payload="",
            wording=wording(library.settings),
        ),
    ).result


def once(library: Library, core: Any, token: str = TOKEN, **more: Any) -> SyncOutcome:
    remote = Remote(core.url, getattr(core, "token", token))
    try:
        return sync(library, remote, **more)
    finally:
        remote.close()


def here(library: Library) -> dict[str, Any]:
    """What a home has of the Core, by id."""
    found = library.store.records.get(list(library.store.outbox.known()))
    return {number: record.body for number, record in found.items()}


def alerts(library: Library) -> list[str]:
    return [entry.why for entry in inbox(library).entries if entry.type == "system_alert"]
