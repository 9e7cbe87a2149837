"""Unreadable record rows: left out and logged, while all others are found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cortex.base.record_model import Actor, Observation, RecordFilter, Thread
from cortex.engine.store import Store, TransactionOptions
from cortex.families.team.ids import new_id

DAMAGES = (
    "{not JSON",
    "null",
    "[1, 2]",
    "{}",
    '{"title": 7}',
    '{"title": "x", "tags": 5}',
    '{"title": "x", "tags": [5]}',
    '{"title": "x", "code_links": [5]}',
    "[" * 100_000,
)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda text: text[:30])
def test_unreadable_record_is_left_out_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
):
    with closing(Store(tmp_path)) as store:
        ids = [new_id(Thread) for _ in range(4)]

        def work(step):
            for number in ids:
                step.make(number, Thread(f"Thread {number}", tags=("red",)))
            return ""

        store.records.perform(
            work,
            TransactionOptions(
                actor=Actor("person", 4), key="k", action="x", payload="", wording=lambda *_: None
            ),
        )
    with closing(sqlite3.connect(tmp_path / "cortex.db")) as connection, connection:
        connection.execute("UPDATE records SET body = ? WHERE id = ?", (damage, ids[2]))
    with closing(Store(tmp_path)) as store:
        lookup = store.records
        wanted = RecordFilter(kinds=("thread",), refs=(("tag", "red"),))
        assert [record.id for record in lookup.select(wanted)] == [ids[3], ids[1], ids[0]]
        # As many as were asked for
        assert [record.id for record in lookup.select(wanted, 2)] == [ids[3], ids[1]]
        assert lookup.one(ids[2]) is None and lookup.get(ids).keys() == {ids[0], ids[1], ids[3]}
        assert len(lookup.starting("thread_")) == 3 and len(lookup.pointing(["red"])) == 3
    assert ids[2] in caplog.text


def test_record_of_an_unknown_kind_is_left_out(tmp_path: Path):
    with closing(Store(tmp_path)) as store:
        number = new_id(Observation)
        store.records.perform(
            lambda step: step.make(number, Observation("It holds")).id,
            TransactionOptions(
                actor=Actor("person", 4), key="k", action="x", payload="", wording=lambda *_: None
            ),
        )
    with closing(sqlite3.connect(tmp_path / "cortex.db")) as connection, connection:
        connection.execute("UPDATE records SET kind = 'wizard'")
    with closing(Store(tmp_path)) as store:
        assert store.records.one(number) is None and store.records.select(RecordFilter()) == []
