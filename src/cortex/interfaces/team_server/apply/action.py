"""Apply one client action to the ledger: all of it or nothing, once per idempotency key.

The actor is the principal of the token, or that principal's agent, regardless of the name the
client sends. `changes` validates and writes each change. A rejected action stores nothing, not even
its key: the client still has the input and may try again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cortex.base.actors import AGENT, BY_AGENT, MOST_OF_AGENTS, SERVER
from cortex.base.errors import CortexError, FileError, StoreError
from cortex.base.record_model import Actor
from cortex.base.settings import Settings
from cortex.base.visibility import Viewer
from cortex.engine.store import (
    RecordChange,
    RecordTransaction,
    Screened,
    TransactionOptions,
    TransactionResult,
    VersionedRecord,
)
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.outbox import UPLOAD
from cortex.engine.store.records.principals import Principal
from cortex.families.team.ids import advance_past
from cortex.families.team.index_text import wording
from cortex.families.team.wire.codec import (
    APPLIED,
    MOST_KEY,
    REFUSED,
    REPLAYED,
    RETRY,
    Action,
    canonical,
)
from cortex.families.team.wire.identity import agent_of, outward, renamed_changed
from cortex.families.team.wire.local_paths import without_roots
from cortex.families.team.writes.preflight import Screen, Work, screened_step
from cortex.families.team.writes.transactions import check_key
from cortex.interfaces.team_server.apply.action_context import ActionContext
from cortex.interfaces.team_server.apply.changes import ActionApplier
from cortex.interfaces.team_server.apply.visible_records import VisibleRecords


@dataclass(frozen=True, slots=True)
class Accepted:
    """Outcome of an action.

    `records` are the touched records in their current state, as far as the viewer may see them;
    `error` is the reason for a rejection.
    """

    status: str
    records: tuple[VersionedRecord, ...] = ()
    error: CortexError | None = None


def accept(
    ledger: Ledger,
    principal: Principal,
    viewer: Viewer,
    action: Action,
    settings: Settings,
    screen: Screen | None = None,
) -> Accepted:
    """Apply a client action once per key; failures are returned, not raised.

    `screen` holds the verdicts of this server's plugins: text they reject is rejected, text they
    redact is written redacted.

    The status "retry" means that the ledger can't be written at the moment. Every other failure is
    "refused", because it would repeat on each attempt and block the actions behind it.
    """
    changes = tuple(_outward(change, principal) for change in action.changes)
    options = TransactionOptions(
        actor=actor_of(principal, action),
        key=action.key,
        action=action.action,
        payload=canonical(changes),
        wording=wording(settings),
    )
    created: tuple[VersionedRecord, ...] | None = None

    def work(step: RecordTransaction) -> str:
        nonlocal created
        advance_past(step.newest())
        context = ActionContext(step, viewer, known, again=action.again)
        ids = ActionApplier(context).apply(changes)
        created = _created_records(step, viewer, ids)
        return json.dumps(ids)

    def attempt(work: Work, screened: Screened | None) -> TransactionResult:
        return ledger.records.perform(work, replace(options, screen=screened))

    try:
        known = _principal_names(ledger) if action.action == UPLOAD else None
        check_key(action.key, MOST_KEY)
        done = screened_step(screen, work, attempt)
        if done.replayed or created is None:
            created = shown(ledger, viewer, json.loads(done.result))
    except CortexError as error:
        if is_passing(error):
            return Accepted(RETRY, (), error)
        return Accepted(REFUSED, shown(ledger, viewer, [change.id for change in changes]), error)
    return Accepted(REPLAYED if done.replayed else APPLIED, created)


def _principal_names(ledger: Ledger) -> frozenset[str]:
    return frozenset(principal.name for principal in ledger.principals.all())


def is_passing(error: CortexError) -> bool:
    """True for an error that would affect any input at the moment, but not later."""
    return isinstance(error, (StoreError, FileError)) or error.code == "PLUGIN_UNUSABLE"


def _created_records(
    step: RecordTransaction, viewer: Viewer, ids: Sequence[str]
) -> tuple[VersionedRecord, ...] | None:
    """Visible records of an action that only created records; None for any other action.

    In that case the caller reads the records from the ledger.
    """
    if any(before is not None for before, _ in step.written.values()) or any(
        record_id not in step.written for record_id in ids
    ):
        return None
    visible = VisibleRecords(step, viewer)
    kept = [
        VersionedRecord(step.written[record_id][1], step.changes[record_id]) for record_id in ids
    ]
    return tuple(versioned for versioned in kept if visible.shows(versioned.record))


def _outward(change: RecordChange, principal: Principal) -> RecordChange:
    """Return a change with this server's names, and without paths on the client's machine.

    A correct client has done this already.
    """
    change = renamed_changed(change, outward(principal.name))
    return replace(change, before=without_roots(change.before), after=without_roots(change.after))


def actor_of(principal: Principal, action: Action) -> Actor:
    """Return the actor of an action: the principal, or its agent limited to agent permissions."""
    tier = min(principal.tier, action.tier)
    if action.actor == AGENT:
        return Actor(agent_of(principal.name), min(tier, MOST_OF_AGENTS), BY_AGENT)
    return Actor(principal.name, tier, SERVER)


def shown(ledger: Ledger, viewer: Viewer, ids: Sequence[str]) -> tuple[VersionedRecord, ...]:
    """The records of these ids that a viewer may see, as they are now."""
    visible = VisibleRecords(ledger.records, viewer)
    return tuple(
        versioned for versioned in ledger.records.kept(ids) if visible.shows(versioned.record)
    )
