"""Write transactions under an idempotency key, indexed when they return."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import Actor, Record, refs_of
from cortex.base.secret_scanner import find_leaks
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction, Screened, TransactionResult
from cortex.engine.store.records.outbox_rows import TIER
from cortex.families.team.ids import advance_past, fresh_key
from cortex.families.team.index_text import wording
from cortex.families.team.writes.preflight import screen_of, screened_step

_KEY = re.compile(r"[\x21-\x7e]+")
# Longest key, in characters.
MOST_OF_KEY = 200


def perform(
    library: Library,
    work: Callable[[RecordTransaction], str],
    *,
    actor: Actor,
    key: str,
    action: str,
    payload: str,
) -> TransactionResult:
    """Run `work` once for this key, and index its records now or as soon as possible.

    Raises: InputError RECORD_INVALID for an invalid key, IDEMPOTENCY_REPLAY, RECORD_CHANGED,
    SENSITIVE_BLOCKED by a plugin; ConfigError PLUGIN_UNUSABLE; every error of `work`.
    """

    def attempt(
        work: Callable[[RecordTransaction], str], screen: Screened | None
    ) -> TransactionResult:
        def begin(step: RecordTransaction) -> str:
            advance_past(step.newest())
            result = work(step)
            _check_targets_accepted(step)
            return result

        return library.store.records.perform(
            begin,
            actor=effective_actor(library, actor),
            key=key,
            action=action,
            payload=payload,
            wording=wording(library.settings),
            screen=screen,
        )

    check_key(key)
    done = screened_step(screen_of(library), work, attempt)
    # Also after a retry: the first attempt may have ended before its records were indexed.
    library.follow()
    return done


@dataclass(frozen=True, slots=True)
class Written:
    """A record that was written, now or earlier under the same key."""

    record: Record[Any]
    replayed: bool


def carry_out(
    library: Library,
    work: Callable[[RecordTransaction], str],
    *,
    actor: Actor,
    key: str,
    action: str,
    payload: str,
) -> Written:
    """Like `perform`, for work that returns the id of a record, under a fresh key if none is given.

    Raises: InputError RECORD_UNKNOWN if the author may no longer see the record.
    """
    done = perform(
        library, work, actor=actor, key=key or fresh_key(), action=action, payload=payload
    )
    return Written(written(library, done.result), done.replayed)


def _check_targets_accepted(step: RecordTransaction) -> None:
    """Reject new records that refer to a record the Core rejected: it would reject them, too.

    Raises: InputError TARGET_NOT_FOUND.
    """
    refused = step.unaccepted()
    made = [
        after
        for before, after in step.written.values()
        if before is None and after.kind != "notification"
    ]
    for target in (target for record in made if refused for _, target in refs_of(record.body)):
        if target in refused:
            raise InputError(
                "TARGET_NOT_FOUND",
                f"{target} was not accepted by the team server: {refused[target]}; nothing was "
                f"written",
                context={"id": target},
                instead=(
                    "A person sees what was refused, and what to do, with `cortex sync --refused`.",
                ),
            )


def effective_actor(library: Library, actor: Actor) -> Actor:
    """Return the actor with at most the tier that the team's Core grants to this home."""
    granted = library.store.content.get(TIER)
    return replace(actor, tier=min(actor.tier, int(granted))) if granted else actor


def written(library: Library, record_id: str) -> Record[Any]:
    """Return the current state of a record that a transaction wrote.

    Raises: InputError RECORD_UNKNOWN if its author may no longer see it.
    """
    # Records are never deleted, so None means no access.
    record = library.store.records.one(record_id)
    if record is None:
        raise InputError(
            "RECORD_UNKNOWN",
            f"{record_id} was written, and isn't to be seen any more",
            context={"id": record_id},
        )
    return record


def check_key(key: str, most: int = MOST_OF_KEY) -> None:
    """Check an idempotency key.

    Raises: InputError RECORD_INVALID, suggesting a valid key; SENSITIVE_BLOCKED for one that holds
    a secret, since keys are stored.
    """
    # A Mailgun key has the shape of a plausible idempotency key: "key-" and a UUID without hyphens.
    if leaks := [leak for leak in find_leaks(key) if leak.name != "Mailgun key"]:
        raise InputError(
            "SENSITIVE_BLOCKED",
            f"idempotency_key or commit_id holds a secret ({leaks[0].name}); nothing was written",
            context={"field": "idempotency_key"},
            suggestions=(f"Call it again with idempotency_key {fresh_key()!r}.",),
        )
    if _KEY.fullmatch(key) and len(key) <= most:
        return
    what = (
        f"a key is 1 to {most} characters without blanks"
        if key
        else "every write needs an `idempotency_key`"
    )
    raise InputError(
        "RECORD_INVALID",
        f"{what}; the same one makes a retry harmless",
        context={"field": "idempotency_key"},
        suggestions=(f"Call it again with idempotency_key {fresh_key()!r}.",),
    )
