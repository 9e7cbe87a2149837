"""What a home wrote, taken into the ledger of its Core: all of an action or nothing, once for its
key.

Who does it is the principal of the token or their agent, whatever the home says. How each change is
taken is in `taking`. A refusal is told with its reason and keeps nothing, the key neither: the home
has what was typed, and may try again.
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
    TransactionResult,
    VersionedRecord,
)
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.outbox import UPLOAD
from cortex.engine.store.records.principals import Principal
from cortex.families.team.ids import go_on_from
from cortex.families.team.index_text import wording
from cortex.families.team.wire.codec import MOST_KEY, Action, canonical
from cortex.families.team.wire.identity import agent_of, outward, renamed_changed
from cortex.families.team.wire.local_paths import unplaced
from cortex.families.team.writes.preflight import Screen, Work, screened_step
from cortex.families.team.writes.transactions import check_key
from cortex.interfaces.team_server.apply.changes import ActionApplier
from cortex.interfaces.team_server.apply.visible_records import VisibleRecords

APPLIED, REPLAYED, REFUSED, RETRY = "applied", "replayed", "refused", "retry"


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an action: the records that it touched as they are now, as far as they may be
    seen, or why it wasn't taken.
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
    """Take what a home wrote, once for each key; what can't be taken is told and not raised.

    `screen` has the verdicts of this Core's plugins: what they refuse is refused, what they redact
    is written so.

    "refused" is for good, as things are; "retry" is for a moment in which the ledger can't be
    written. What fails for another reason would do so each time, and nothing behind it would ever
    be taken: it is refused, too, so that somebody sees it.
    """
    rename = outward(principal.name)
    changes = tuple(_unplaced(renamed_changed(change, rename)) for change in action.changes)
    made: tuple[VersionedRecord, ...] | None = None

    def work(step: RecordTransaction) -> str:
        nonlocal made
        go_on_from(step.newest())
        ids = ActionApplier(step, viewer, known, again=action.again).take(changes)
        made = _made(step, viewer, ids)
        return json.dumps(ids)

    def attempt(work: Work, screened: Screened | None) -> TransactionResult:
        return ledger.records.perform(
            work,
            actor=actor_of(principal, action),
            key=action.key,
            action=action.action,
            payload=canonical(changes),
            wording=wording(settings),
            screen=screened,
        )

    try:
        known = (
            frozenset(one.name for one in ledger.principals.all())
            if action.action == UPLOAD
            else None
        )
        check_key(action.key, MOST_KEY)
        done = screened_step(screen, work, attempt)
        told = None if done.replayed else made
        records = shown(ledger, viewer, json.loads(done.result)) if told is None else told
    except CortexError as error:
        if is_passing(error):
            return Accepted(RETRY, (), error)
        return Accepted(REFUSED, shown(ledger, viewer, [one.id for one in changes]), error)
    return Accepted(REPLAYED if done.replayed else APPLIED, records)


def is_passing(error: CortexError) -> bool:
    """Whether nothing can be written just now, whatever was sent."""
    return isinstance(error, (StoreError, FileError)) or error.code == "PLUGIN_UNUSABLE"


def _made(
    step: RecordTransaction, viewer: Viewer, ids: Sequence[str]
) -> tuple[VersionedRecord, ...] | None:
    """What a step made and a viewer may see, None where it changed or left alone something, too:
    that has to be asked for.
    """
    if any(before is not None for before, _ in step.written.values()) or any(
        one not in step.written for one in ids
    ):
        return None
    sight = VisibleRecords(step, viewer)
    kept = [VersionedRecord(step.written[id_][1], step.changes[id_]) for id_ in ids]
    return tuple(one for one in kept if sight.shows(one.record))


def _unplaced(one: RecordChange) -> RecordChange:
    """A change without where on somebody's machine its code lies, whatever a home sends."""
    return replace(one, before=unplaced(one.before), after=unplaced(one.after))


def actor_of(principal: Principal, action: Action) -> Actor:
    """Who does what a home tells: the principal, or their agent, who never may do more than agents."""
    tier = min(principal.tier, action.tier)
    if action.actor == AGENT:
        return Actor(agent_of(principal.name), min(tier, MOST_OF_AGENTS), BY_AGENT)
    return Actor(principal.name, tier, SERVER)


def shown(ledger: Ledger, viewer: Viewer, ids: Sequence[str]) -> tuple[VersionedRecord, ...]:
    """The records of these ids that a viewer may see, as they are now."""
    sight = VisibleRecords(ledger.recorded, viewer)
    return tuple(one for one in ledger.recorded.kept(ids) if sight.shows(one.record))
