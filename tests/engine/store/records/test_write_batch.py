"""Writes in one transaction: they leave the same as one by one, whatever they read, change or fail
at in between, and others see all of them at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import Actor, Observation, RecordFilter, Thread
from cortex.engine.store import RecordTransaction, TransactionOptions, TransactionResult
from cortex.engine.store.records.ledger import Ledger, open_ledger
from cortex.engine.store.records.write_batch import WriteBatch
from cortex.families.team.ids import fresh_key, new_id

ADA = Actor("ada", 4)
KEYS = count()
NAMES = ("a", "b", "c")  # what a deed is about
DEEDS = ("make", "change", "get", "select", "newest")
STEPS = st.lists(
    st.tuples(
        st.integers(0, 5),  # its key
        st.lists(st.tuples(st.sampled_from(DEEDS), st.sampled_from(NAMES)), max_size=4),
        st.booleans(),  # whether it is refused at its end
    ),
    max_size=8,
)


class PlayedSteps:
    """Steps on one ledger, beside those of earlier examples."""

    def __init__(self, ledger: Ledger, ids: dict[str, str], mark: str) -> None:
        self._ledger, self._ids, self._mark = ledger, ids, mark
        self._names = {number: name for name, number in ids.items()}
        self._since = ledger.records.last_change()
        self.answers: list[object] = []  # to each step

    def play(self, steps: Any, *, together: bool = False, ahead: bool = False) -> None:
        with self._ledger.together() if together else nullcontext():
            if ahead:
                keys = [f"{self._mark}{number}" for number in range(6)]
                self._ledger.records.look_ahead(self._ids.values(), [ADA.name], keys)
            for number, (key, deeds, refused) in enumerate(steps):
                try:
                    done = perform(
                        self._ledger,
                        self._work(number, deeds, refused),
                        f"{self._mark}{key}",
                        str(deeds),
                    )
                except InputError as error:
                    self.answers.append(error.code)
                else:
                    self.answers.append((done.result, done.replayed))

    def left(self) -> object:
        """Everything that the steps left in the ledger."""
        lookup = self._ledger.records
        records = [
            (change.record.id, change.record.body, change.record.version)
            for change in lookup.changes(self._since, 100)
        ]
        changes = [change.change - self._since for change in lookup.changes(self._since, 100)]
        deeds = [
            [(deed.version, deed.key) for deed in lookup.deeds(number)] for number in self._names
        ]
        versions = [
            [version.body for version in lookup.versions(number).values()] for number in self._names
        ]
        return records, changes, deeds, versions, lookup.last_change() - self._since

    def _work(
        self, number: int, deeds: list[tuple[str, str]], refused: bool
    ) -> Callable[[RecordTransaction], str]:
        def work(step: RecordTransaction) -> str:
            for deed, name in deeds:
                self._do(step, number, deed, name)
            if refused:
                raise InputError("RECORD_INVALID", "it isn't taken")
            return str(number)

        return work

    def _do(self, step: RecordTransaction, number: int, deed: str, name: str) -> None:
        found = step.get(self._ids[name])
        match deed:
            case "make" if found is None:
                step.make(self._ids[name], Thread(f"{name}{number}"))
            case "change" if found is not None:
                step.put(
                    replace(found, body=replace(found.body, title=f"{found.body.title}+{number}"))
                )
            case "get":
                self.answers.append(None if found is None else (found.body.title, found.version))
            case "select":
                several = step.select(RecordFilter(kinds=("thread",)))
                self.answers.append(
                    sorted(record.body.title for record in several if record.id in self._names)
                )
            case "newest":
                ends = {number[-26:]: name for number, name in self._names.items()}
                self.answers.append(ends.get(step.newest()))


def perform(
    ledger: Ledger, work: Callable[[RecordTransaction], str], key: str, payload: str
) -> TransactionResult:
    return ledger.records.perform(
        work,
        TransactionOptions(
            actor=ADA, key=key, action="play", payload=payload, wording=lambda record, get: None
        ),
    )


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, ahead=st.booleans())
def test_write_batch_equals_the_same_writes_one_by_one(
    alone_ledger: Ledger, kept: Ledger, steps: Any, ahead: bool
):
    ids, mark = {name: new_id(Thread) for name in NAMES}, fresh_key()
    alone, together = PlayedSteps(alone_ledger, ids, mark), PlayedSteps(kept, ids, mark)
    alone.play(steps)
    together.play(steps, together=True, ahead=ahead)
    assert alone.answers == together.answers and alone.left() == together.left()


@pytest.fixture
def alone_ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(f"sqlite:///{tmp_path}") as ledger:
        yield ledger


@pytest.fixture
def kept(database: str) -> Iterator[Ledger]:
    with open_ledger(database) as ledger:
        yield ledger


class CountingConnection:
    """A connection that counts its statements."""

    def __init__(self) -> None:
        self.asked = 0

    def execute(self, statement: str, values: object = ()) -> None:
        self.asked += 1


def test_batch_of_new_records_needs_few_statements():
    counting = CountingConnection()
    batch = WriteBatch(counting, 7)
    for number in range(50):
        with batch.part():
            batch.insert(
                "INSERT INTO refs (role, target, record)", [("tag", "x", f"thread_{number}")]
            )
            assert batch.next_change() == 8 + number
    batch.write()
    assert counting.asked == 4  # 32 + 16 + 2 rows, and the counter
    batch.write()
    assert counting.asked == 4


def test_record_the_database_cannot_hold_rolls_back_the_batch(ledger: Ledger):
    def work(step: RecordTransaction) -> str:
        return step.make(new_id(Observation), Observation("a", tags=("\0",))).id

    with pytest.raises(CortexError), ledger.together():
        for key in ("k", "l"):
            ledger.records.perform(
                work,
                TransactionOptions(
                    actor=ADA, key=key, action="a", payload="p", wording=lambda record, get: None
                ),
            )
        raise CortexError("INTERNAL_ERROR", "SQLite takes it")
    assert ledger.records.last_change() == 0


def write(ledger: Ledger, title: str, *, fail: bool = False) -> str:
    def work(step: RecordTransaction) -> str:
        made = step.make(new_id(Observation), Observation(title))
        if fail:
            raise InputError("RECORD_INVALID", "it isn't taken")
        return made.id

    key = f"k{next(KEYS)}"
    return perform(ledger, work, key, key).result


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
