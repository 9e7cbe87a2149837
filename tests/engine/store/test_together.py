"""Several writes as one transaction, on both databases: whoever writes sees each at once, everybody
else all of them at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from cortex.base.errors import InputError
from cortex.base.record_model import Actor, Observation, RecordFilter
from cortex.engine.store import RecordTransaction, TransactionOptions
from cortex.engine.store.records.ledger import Ledger
from cortex.families.team.ids import new_id

KEYS = count()


def write(ledger: Ledger, title: str, *, fail: bool = False) -> str:
    def work(step: RecordTransaction) -> str:
        made = step.make(new_id(Observation), Observation(title))
        if fail:
            raise InputError("RECORD_INVALID", "it isn't taken")
        return made.id

    key = f"k{next(KEYS)}"
    return ledger.records.perform(
        work,
        TransactionOptions(
            actor=Actor("ada", 4),
            key=key,
            action="write",
            payload=key,
            wording=lambda record, get: None,
        ),
    ).result


def titles(ledger: Ledger) -> list[str]:
    return sorted(
        record.body.title for record in ledger.records.select(RecordFilter(kinds=("observation",)))
    )


def test_write_batch_is_visible_to_others_only_when_complete(
    ledger_url: str, open_one: Callable[[str], Ledger]
):
    ledger, other = open_one(ledger_url), open_one(ledger_url)
    with ledger.together():
        write(ledger, "first")
        assert (titles(ledger), titles(other)) == (["first"], [])
        write(ledger, "second")
        assert (ledger.mark()[1], other.mark()[1]) == (2, 0)
    assert titles(other) == ["first", "second"] and other.mark() == ledger.mark()


def test_failed_write_of_a_batch_is_rolled_back_alone(ledger: Ledger):
    with ledger.together():
        write(ledger, "first")
        with pytest.raises(InputError):
            write(ledger, "refused", fail=True)
        write(ledger, "second")
    assert titles(ledger) == ["first", "second"] and ledger.mark()[1] == 2


def test_failed_write_batch_is_rolled_back(ledger: Ledger):
    with pytest.raises(InputError), ledger.together():
        write(ledger, "first")
        raise InputError("RECORD_INVALID", "it isn't taken")
    assert titles(ledger) == [] and write(ledger, "later") and titles(ledger) == ["later"]
