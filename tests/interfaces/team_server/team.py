"""A team in one process: a ledger, principals, and homes that send actions to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cortex.base.record_model import Body, Record, RecordFilter
from cortex.base.settings import Settings
from cortex.base.visibility import Viewer, sees
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.engine.store import OutboxEntry, RecordChange, VersionedRecord
from cortex.engine.store.records.ledger import Ledger, open_ledger
from cortex.engine.store.records.principals import Principal
from cortex.families.team.index_text import wording
from cortex.families.team.references import by_slug
from cortex.families.team.wire.codec import (
    APPLIED,
    REPLAYED,
    Action,
    action_from,
    action_to,
    record_from,
    record_to,
)
from cortex.families.team.wire.identity import inward, outward, renamed, renamed_changed
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.access_policy import viewer_of
from cortex.interfaces.team_server.apply.action import Accepted, accept
from families.memory.libraries import settings_of
from families.team.invariants import check_ledger


class Unindexed(Library):
    """A library that doesn't index its writes: tests that search nothing needn't wait for that."""

    def follow(self, *, forget: bool = False) -> bool:
        return False


def library_of(home: Path, *, indexed: bool = False) -> Library:
    """The library of a person, to be closed."""
    return (Library if indexed else Unindexed)(settings_of(home), embedders=Embedders(None))


@dataclass
class Team:
    """A Core's ledger, and the homes of its principals."""

    ledger: Ledger
    settings: Settings
    home_of: Callable[[str], Library]
    homes: dict[str, Home] = field(default_factory=dict)

    def home(
        self,
        name: str,
        tier: int = 4,
        sensitive: bool = True,
        grants: dict[str, bool] | None = None,
    ) -> Home:
        """The home of a new principal; all is granted unless something else is given."""
        principals.add(
            self.ledger, name, tier, sensitive, {"*": True} if grants is None else grants
        )
        library = self.home_of(name)
        library.store.content.set({"core.url": "https://core.example"})
        self.homes[name] = Home(self, name, library)
        return self.homes[name]

    def principal(self, name: str) -> Principal:
        return principals.find(self.ledger, name)

    def viewer(self, principal: Principal) -> Viewer:
        return viewer_of(
            principal, self.ledger.records.select(RecordFilter(kinds=("subcortex",)), 1_000)
        )

    def accept(self, principal: Principal, action: Action) -> Accepted:
        return accept(self.ledger, principal, self.viewer(principal), action, self.settings)

    def check(self) -> None:
        """Check the invariants of the ledger."""
        with self.ledger.connections.read() as connection:
            check_ledger(connection)

    def records(self) -> dict[str, Record[Any]]:
        return {
            change.record.id: change.record for change in self.ledger.records.changes(0, 100_000)
        }

    def sees(self, viewer: Viewer, record: Record[Any]) -> bool:
        lookup = self.ledger.records
        return sees(viewer, record, lambda ref: lookup.one(ref) or by_slug(lookup, ref))


@dataclass
class Home:
    """The home of a principal."""

    team: Team
    name: str
    library: Library
    cursor: int = 0

    @property
    def principal(self) -> Principal:
        return self.team.principal(self.name)

    def actions(self) -> list[tuple[OutboxEntry, Action]]:
        """The waiting outbox entries, each with its action as it is sent to the Core."""
        return [(entry, self.action(entry)) for entry in self.library.store.outbox.waiting(10_000)]

    def action(self, entry: OutboxEntry) -> Action:
        changes = [renamed_changed(change, outward(self.name)) for change in entry.changes]
        sent = action_to(entry, f"{entry.key}@{self.name}/{entry.actor}", changes)
        return action_from(json.loads(json.dumps(sent)))

    def flush(self) -> list[Accepted]:
        """Send all waiting actions and keep the answers."""
        return [self.send(entry, action, self.principal) for entry, action in self.actions()]

    def send(self, entry: OutboxEntry, action: Action, principal: Principal) -> Accepted:
        accepted = self.team.accept(principal, action)
        if accepted.status in (APPLIED, REPLAYED):
            self._apply(accepted.records, settle=entry.id)
        return accepted

    def pull(self) -> None:
        """Take all new changes."""
        viewer = self.team.viewer(self.principal)
        news = self.team.ledger.records.changes(self.cursor, 100_000)
        self._apply([change for change in news if self.team.sees(viewer, change.record)])
        self.cursor = max((change.change for change in news), default=self.cursor)

    def sync(self) -> list[Accepted]:
        done = self.flush()
        self.pull()
        return done

    def bodies(self) -> dict[str, Body]:
        """All records of this home, as they are named at the Core."""
        changes = self.library.store.records.changes(0, 100_000)
        return {
            change.record.id: renamed(change.record, outward(self.name)).body for change in changes
        }

    def _apply(self, records: Any, settle: int | None = None) -> None:
        received = [record_from(json.loads(json.dumps(record_to(record)))) for record in records]
        here = [
            VersionedRecord(renamed(versioned.record, inward(self.name)), versioned.change)
            for versioned in received
        ]
        self.library.store.records.apply(
            here,
            (),
            wording=wording(self.library.settings),
            meta={},
            settle=settle,
            skip_waiting=True,
        )


@contextmanager
def open_team(folder: Path, url: str = "", *, indexed: bool = False) -> Iterator[Team]:
    """A Core without principals, in a folder or at an address."""
    with ExitStack() as stack:
        (folder / "core").mkdir(parents=True)
        ledger = stack.enter_context(open_ledger(url or f"sqlite:///{folder / 'core'}"))
        settings = settings_of(folder / "core-home")

        def home_of(name: str) -> Library:
            return stack.enter_context(library_of(folder / name, indexed=indexed))

        yield Team(ledger, settings, home_of)


def record_change(
    id: str, after: Body, before: Body | None = None, author: str = "ada", created: int = 1
) -> RecordChange:
    """A made-up change of a record."""
    return RecordChange(id, type(after).__name__.lower(), author, created, before, after)


def acting(
    *changes: RecordChange,
    key: str = "made-up",
    action: str = "edit",
    actor: str = "person",
    tier: int = 4,
) -> Action:
    return Action(key, action, actor, tier, 1, changes)
