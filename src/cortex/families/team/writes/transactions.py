"""One write to the records: a step of the store, under a key, found when this returns."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import Actor, Record, refs_of
from cortex.base.secret_scanner import find_leaks
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction, Screened, TransactionResult
from cortex.engine.store.records.outbox_rows import TIER
from cortex.families.team.ids import fresh_key, go_on_from
from cortex.families.team.index_text import wording
from cortex.families.team.writes.preflight import screen_of, screened_step

_KEY = re.compile(r"[\x21-\x7e]+")
MOST_OF_KEY = 200  # characters


def perform(
    library: Library,
    work: Callable[[RecordTransaction], str],
    *,
    actor: Actor,
    key: str,
    action: str,
    payload: str,
) -> TransactionResult:
    """Do `work` once for this key, and have what it wrote found, now or as soon as the indexes can.

    Raises: InputError RECORD_INVALID for a key that is none, IDEMPOTENCY_REPLAY, RECORD_CHANGED,
    SENSITIVE_BLOCKED by a plugin; ConfigError PLUGIN_UNUSABLE; whatever `work` raises.
    """

    def attempt(
        work: Callable[[RecordTransaction], str], screen: Screened | None
    ) -> TransactionResult:
        def begin(step: RecordTransaction) -> str:
            go_on_from(step.newest())
            result = work(step)
            _check_accepted(step)
            return result

        return library.store.records.perform(
            begin,
            actor=acting(library, actor),
            key=key,
            action=action,
            payload=payload,
            wording=wording(library.settings),
            screen=screen,
        )

    check_key(key)
    done = screened_step(screen_of(library), work, attempt)
    library.follow()  # a retry, too: who tried first may have ended before it was found
    return done


def _check_accepted(step: RecordTransaction) -> None:
    """Refuse what is new and names a record that the Core refused: it would be refused, too.

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
                f"{target} was not accepted by the team server: {refused[target]}; nothing was written",
                context={"id": target},
                instead=(
                    "A person sees what was refused, and what to do, with `cortex sync --refused`.",
                ),
            )


def acting(library: Library, actor: Actor) -> Actor:
    """The actor with at most the tier that the team's Core gives this home."""
    told = library.store.truth.get(TIER)
    return replace(actor, tier=min(actor.tier, int(told))) if told else actor


def written(library: Library, number: str) -> Record[Any]:
    """The record that a step wrote, as it is now.

    Raises: InputError RECORD_UNKNOWN, where whoever wrote it may not see it any more.
    """
    record = library.store.recorded.one(number)  # nothing is ever removed
    if record is None:
        raise InputError(
            "RECORD_UNKNOWN",
            f"{number} was written, and isn't to be seen any more",
            context={"id": number},
        )
    return record


def check_key(key: str, most: int = MOST_OF_KEY) -> None:
    """Raises: InputError RECORD_INVALID with a key that could be used, SENSITIVE_BLOCKED for one
    that holds a secret: keys are kept.
    """
    # Mailgun's keys begin as a key of ours may that somebody makes up: "key-" and a UUID without
    # hyphens.
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
