"""Connected homes at a real Core, over a network that can be made to fail."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cortex.base.actors import agent, person
from cortex.base.record_model import RecordFilter
from cortex.engine.library import Library
from cortex.engine.store.records.backup import load
from cortex.engine.store.records.ledger import open_ledger
from cortex.families.team.index_text import wording
from cortex.families.team.sync import state
from cortex.families.team.sync.client import ActionResult, Offline, Remote
from cortex.families.team.sync.connection import connect
from cortex.families.team.sync.cycle import SyncOutcome, sync
from cortex.families.team.wire import identity
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from interfaces.team_server.commands.core_server import CoreServer


class Shaky(Remote):
    """A Core over a network that loses requests and answers, and delivers some twice or late."""

    chance = random.Random(1)
    trouble = 0.0

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token)
        self._late: list[Sequence[Mapping[str, object]]] = []
        self.flushes = 0

    def flush(self, actions: Sequence[Mapping[str, object]]) -> list[ActionResult]:
        self._shake()
        self.flushes += 1
        results = super().flush(actions)
        if self.chance.random() < self.trouble:
            super().flush(actions)  # a copy of it arrives, too
        self._late.append(actions)
        if self.chance.random() < self.trouble:
            super().flush(self.chance.choice(self._late))  # or one of something older
        self._shake()
        return results

    def deltas(self, since: str, view: str, limit: int) -> Any:
        self._shake()
        page = super().deltas(since, view, limit)
        self._shake()
        return page

    def _shake(self) -> None:
        if self.chance.random() < self.trouble:
            raise Offline("the network is away")


class Member:
    """A person with a connected home."""

    def __init__(self, core: CoreServer, name: str, library: Library, tier: int = 4) -> None:
        self.core, self.name, self.library = core, name, library
        self.token = core.let_in(name, tier)
        self.remote = Shaky(core.url, self.token)
        connect(library, core.url, self.token)

    def sync(self) -> SyncOutcome:
        return sync(self.library, self.remote)

    def write(self, body: Any, by: str = "person") -> str:
        actor = person() if by == "person" else agent(self.library.settings)
        return create(self.library, body, actor=actor).id

    def change(self, number: str, **changes: object) -> None:
        revise(
            self.library,
            number,
            lambda body: replace(body, **changes),
            actor=person(),
            action="edit",
        )

    def sync_at(self, core: CoreServer) -> SyncOutcome:
        """Sync with a Core that stands where the other one was."""
        self.library.store.content.set({state.URL: core.url})
        remote = Remote(core.url, self.token)
        try:
            return sync(self.library, remote)
        finally:
            remote.close()

    def forget_tier(self) -> None:
        """Forget the tier, as in a home connected by an older version."""
        self.library.store.content.set({state.TIER: ""})

    def all_of(self, kind: str) -> list[str]:
        return sorted(
            record.id
            for record in self.library.store.records.select(RecordFilter(kinds=(kind,)), 1_000)
        )

    def get(self, number: str) -> Any:
        return self.library.store.records.one(number)

    def has(self) -> dict[str, object]:
        """Records of the Core in this home, under the Core's names."""
        outward = identity.outward(self.name)
        found = self.library.store.records.get(list(self.library.store.outbox.known()))
        return {
            number: _said(identity.renamed(record, outward)) for number, record in found.items()
        }


def _said(record: Any) -> object:
    return record.author, record.version, record.created, record.updated, record.body


def at_core(core: CoreServer) -> dict[str, Any]:
    return {
        change.record.id: _said(change.record) for change in core.ledger.records.changes(0, 10_000)
    }


def put_back(core: CoreServer, backup: Path, folder: Path) -> Path:
    """The folder of a ledger that a backup was loaded into."""
    folder.mkdir()
    with open_ledger(f"sqlite:///{folder}") as ledger:
        load(ledger, backup, wording=wording(core.settings))
    return folder
