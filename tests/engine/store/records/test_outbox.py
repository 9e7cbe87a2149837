"""The outbox: entries written with their step, and records applied from a Core once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import CortexError
from cortex.base.record_model import (
    Actor,
    Body,
    Comment,
    Draft,
    Notification,
    Observation,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.text import hash_bytes
from cortex.engine import chunkers
from cortex.engine.store import (
    IndexedText,
    OutboxEntry,
    RecordChange,
    RecordTransaction,
    Store,
    TransactionOptions,
    VersionedRecord,
)
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.outbox import FIRST
from cortex.engine.store.records.outbox_rows import NEVER_HERE
from cortex.families.team.ids import new_id

PERSON, AGENT = Actor("person", 4), Actor("agent", 1)
CORE = {"core.url": "http://localhost:8790", "core.epoch": "one"}
keys = count()


def word(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> IndexedText | None:
    """Word titles, and comments by the title of their thread."""
    if isinstance(record.body, Draft | Notification):
        return None
    above = get(record.body.thread) if isinstance(record.body, Comment) else None
    text = f"{above.body.title if above else ''} {record.body.title}\n"
    return IndexedText(hash_bytes(text.encode()), chunkers.cut(text, "a.md", "markdown"))


def do(store: Store | Ledger, work: Callable[[RecordTransaction], object], **more: Any) -> str:
    common: dict[str, Any] = {"actor": PERSON, "action": "write", "payload": "", "wording": word}
    return store.records.perform(
        lambda step: str(work(step) or ""),
        TransactionOptions(**{**common, "key": f"k{next(keys)}", **more}),
    ).result


def make(store: Store | Ledger, body: Body, **more: Any) -> str:
    number = new_id(type(body))
    do(store, lambda step: step.make(number, body), **more)
    return number


def change(store: Store | Ledger, number: str, **fields: object) -> None:
    def work(step: RecordTransaction) -> None:
        record = step.get(number)
        assert record is not None
        step.put(replace(record, body=replace(record.body, **fields)))

    do(store, work)


def apply_records(
    store: Store, *records: VersionedRecord, erased: tuple[str, ...] = (), **more: Any
) -> int:
    common: dict[str, Any] = {"wording": word, "meta": {}}
    return store.records.apply(records, erased, **{**common, **more})


def is_waiting(store: Store, number: str) -> bool:
    return any(
        changed.id == number for entry in store.outbox.waiting() for changed in entry.changes
    )


def from_core(number: str, body: Body, change: int, version: int = 1) -> VersionedRecord:
    return VersionedRecord(Record(number, body, "ada", 5, 6, version), change)


def ask(store: Store, sql: str) -> list[tuple[Any, ...]]:
    with store._connections.read() as connection:
        return connection.execute(sql).fetchall()


def docs(store: Store) -> dict[str, str]:
    """The text of each doc, by its path."""
    found = dict(ask(store, "SELECT path, blob FROM docs"))
    return {path: store.content.text(blob).strip() for path, blob in found.items()}


@pytest.fixture
def home(open_store: Callable[..., Store]) -> Store:
    """A store that is connected to a Core."""
    store = open_store()
    store.content.set(CORE)
    return store


# -- waiting entries
# --------------------------------------------------------------------------------------------------------


def test_outbox_entry_has_the_records_before_and_after_the_step(home: Store) -> None:
    known = make(home, Task("known", tags=("red",)))
    made = new_id(Thread)

    def work(step: RecordTransaction) -> None:
        thread = step.make(made, Thread("one"))
        task = step.get(known)
        assert task is not None
        step.put(replace(thread, body=Thread("two")))
        task = step.put(replace(task, body=replace(task.body, notes="first")))
        step.put(replace(task, body=replace(task.body, notes="second")))

    do(home, work, key="key-1", action="both", actor=AGENT)
    first, entry = home.outbox.waiting()
    assert [changed.after for changed in first.changes] == [
        Task("known", tags=("red",))
    ] and first.changes[0].before is None
    created = {number: record.created for number, record in home.records.get([made, known]).items()}
    assert entry == OutboxEntry(
        first.id + 1,
        f"key-1@{home.content.get('identity')}",
        "agent",
        1,
        "both",
        home.records.deeds()[0].at,
        (
            RecordChange(made, "thread", "agent", created[made], None, Thread("two")),
            RecordChange(
                known,
                "task",
                "person",
                created[known],
                Task("known", tags=("red",)),
                Task("known", tags=("red",), notes="second"),
            ),
        ),
        "waiting",
        0,
        "",
        "",
        0,
    )
    assert is_waiting(home, made) and not is_waiting(home, new_id(Task))


def test_store_without_a_core_queues_nothing(open_store: Callable[..., Store]) -> None:
    store = open_store()
    make(store, Task("alone"))
    store.content.set({"core.url": ""})
    make(store, Task("alone again"))
    assert store.outbox.waiting() == [] and store.outbox.count() == (0, 0)


def test_replayed_or_empty_step_is_not_queued(home: Store) -> None:
    number = make(home, Task("one"))
    do(home, lambda step: step.make(new_id(Task), Task("two")), key="again")
    do(home, lambda step: step.make(new_id(Task), Task("two")), key="again")
    change(home, number, title="one")
    do(home, lambda step: step.get(number))
    assert [entry.changes[0].after.title for entry in home.outbox.waiting()] == ["one", "two"]


def test_failed_step_leaves_no_outbox_entry(home: Store) -> None:
    def fail(step: RecordTransaction) -> None:
        step.make(new_id(Task), Task("one"))
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError):
        do(home, fail)
    with home._connections.write() as connection:  # nor where it is the entry that can't be written
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    with pytest.raises(CortexError):
        make(home, Task("two"))
    assert home.outbox.waiting() == [] and not home.records.has() and home.records.deeds() == []


def test_record_made_by_a_quiet_step_is_never_sent(home: Store) -> None:
    shared = make(home, Task("shared"))
    alert = new_id(Notification)

    def quiet(step: RecordTransaction) -> None:
        step.make(alert, Notification("system_alert", "person", shared, "t", "r"))

    do(home, quiet, quiet=True)

    def acknowledge(step: RecordTransaction) -> None:
        for number, fields in ((alert, {"state": "acked"}), (shared, {"notes": "seen"})):
            record = step.get(number)
            assert record is not None
            step.put(replace(record, body=replace(record.body, **fields)))

    do(home, acknowledge)
    assert [[changed.id for changed in entry.changes] for entry in home.outbox.waiting()] == [
        [shared],
        [shared],
    ]
    change(home, alert, state="new")
    assert home.outbox.count() == (2, 0) and upload(home, "one") == 0


def upload(store: Store, mark: str, meta: Mapping[str, str] | None = None) -> int:
    """Queue all that the Core doesn't have."""
    return store.outbox.upload(
        PERSON,
        mark,
        "epoch",
        meta or {},
        lambda found: [entry.record for entry in found],
        changes=True,
    )


def test_entries_are_tried_refused_retried_and_dropped(home: Store) -> None:
    for title in ("one", "two", "three"):
        make(home, Task(title))
    first, second, third = (entry.id for entry in home.outbox.waiting())
    assert [entry.id for entry in home.outbox.waiting(1)] == [first]
    assert [entry.id for entry in home.outbox.waiting(after=first)] == [second, third]
    home.outbox.tried(first, "the network is away")
    apply_records(home, settle=second, refuse=("RIGHTS_MISSING", "you may not"))
    (found,) = home.outbox.waiting(1)
    assert (found.id, found.state, found.attempts, found.reason) == (
        first,
        "waiting",
        1,
        "the network is away",
    )
    assert [
        (entry.id, entry.code, entry.reason, entry.attempts) for entry in home.outbox.refused()
    ] == [(second, "RIGHTS_MISSING", "you may not", 1)]
    assert home.outbox.count() == (2, 1) and not is_waiting(
        home, home.outbox.refused()[0].changes[0].id
    )
    assert (
        home.outbox.retry([first]) == 0 and home.outbox.retry() == 1 and home.outbox.refused() == []
    )
    assert not home.outbox.drop(second)  # it is sent once more
    apply_records(home, settle=second, refuse=("RIGHTS_MISSING", "you may not"))
    assert home.outbox.drop(second) and not home.outbox.drop(second)
    assert ask(home, "SELECT entry FROM outbox_records ORDER BY entry") == [(first,), (third,)]


def test_dropped_record_is_sent_again_once_the_core_has_it(home: Store) -> None:
    thread = make(home, Thread("Mine"))
    (entry,) = home.outbox.waiting()
    apply_records(home, settle=entry.id, refuse=("RIGHTS_MISSING", "you may not"))
    assert home.outbox.drop(entry.id)
    change(home, thread, title="Changed here")
    assert home.outbox.waiting() == []
    apply_records(home, from_core(thread, Thread("From a copy of this home"), 7))
    change(home, thread, title="Changed again")
    assert [entry.changes[0].after for entry in home.outbox.waiting()] == [Thread("Changed again")]


def test_dropping_a_record_keeps_the_others_of_its_entry(home: Store) -> None:
    thread, task = make(home, Thread("Mine")), make(home, Task("Ours"))
    first, _ = home.outbox.waiting()
    for number in (first.id, first.id + 1):
        apply_records(
            home,
            settle=number,
            refuse=("RIGHTS_MISSING", "you may not") if number == first.id else None,
        )

    def both(step: RecordTransaction) -> None:
        for number in (thread, task):
            record = step.get(number)
            assert record is not None
            step.put(replace(record, body=replace(record.body, body="more")))

    do(home, both)
    assert home.outbox.drop(first.id) and not is_waiting(home, thread) and is_waiting(home, task)
    assert [[changed.id for changed in entry.changes] for entry in home.outbox.waiting()] == [
        [task]
    ]


def test_thousands_of_refused_entries_are_retried(home: Store) -> None:
    for title in ("First", "Second"):
        make(home, Thread(title))
    first, second = home.outbox.waiting()
    for entry in (first, second):
        apply_records(home, settle=entry.id, refuse=("RIGHTS_MISSING", "no"))
    others = range(second.id + 1, second.id + 300_000)
    assert home.outbox.retry([first.id, *others, second.id]) == 2 and home.outbox.count() == (2, 0)


def test_damaged_outbox_entry_is_reported(home: Store) -> None:
    make(home, Task("one"))
    with home._connections.write() as connection:
        connection.execute("UPDATE outbox SET changes = '[{}]'")
    with pytest.raises(CortexError) as caught:
        home.outbox.waiting()
    assert caught.value.code == "STORE_CORRUPT"


# -- records older than the connection
# ---------------------------------------------------------------------------------------------


def test_earlier_records_are_queued_once_in_the_order_of_creation(
    open_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex.engine.store.records.outbox.MOST_UPLOADED", 3)
    store = open_store()
    made = [
        make(store, body)
        for body in (Thread("a"), Task("b"), Thread("c"), Draft("comment", "d", "b"), Task("e"))
    ]
    apply_records(store, from_core(new_id(Task), Task("the Core's"), 7))
    assert upload(store, "one", CORE) == 5 and store.content.get("core.url") == CORE["core.url"]
    entries = store.outbox.waiting()
    assert [[changed.id for changed in entry.changes] for entry in entries] == [made[:3], made[3:]]
    assert {(changed.before, changed.author) for entry in entries for changed in entry.changes} == {
        (None, "person")
    }
    assert {(entry.action, entry.actor) for entry in entries} == {("upload", "person")} and entries[
        0
    ].key != entries[1].key
    for entry in entries:
        apply_records(store, settle=entry.id, refuse=("RIGHTS_MISSING", "you may not"))
        store.outbox.drop(entry.id)
    assert upload(store, "another") == 5  # given up, and chosen once more
    store.outbox.forget()
    assert upload(store, "another") == 6  # the one that came from there, too


def test_records_lost_by_a_core_are_queued_before_those_that_refer_to_them(home: Store) -> None:
    first, second, waiting = (new_id(Task) for _ in range(3))
    apply_records(
        home,
        *(
            from_core(number, Task("old"), place + 1)
            for place, number in enumerate((first, second, waiting))
        ),
    )
    change(home, waiting, title="new")
    make(home, Task("later"))
    assert home.outbox.queue([waiting, second, first], PERSON, "two") == 3
    again, *rest = home.outbox.waiting()
    assert again.id >= FIRST and [
        (changed.id, changed.before, changed.after) for changed in again.changes
    ] == [(number, None, Task("old")) for number in (first, second, waiting)]
    assert [entry.changes[0].after.title for entry in rest] == ["new", "later"]
    assert home.outbox.known() == {}


def test_outbox_entry_is_split_by_record(open_store: Callable[..., Store]) -> None:
    store = open_store()
    made = [make(store, Task(title)) for title in "abc"]
    upload(store, "one", CORE)
    make(store, Task("later"))
    whole = store.outbox.waiting()[0]
    store.outbox.split(whole.id)
    parts = store.outbox.waiting()
    assert [entry.changes[0].id for entry in parts[:3]] == made and [
        len(entry.changes) for entry in parts
    ] == [1] * 4
    assert len({entry.key for entry in parts}) == 4 and whole.id not in [
        entry.id for entry in parts
    ]


def test_leaving_a_core_keeps_the_records_and_nothing_else(home: Store) -> None:
    make(home, Task("mine"))
    apply_records(home, from_core(new_id(Task), Task("the Core's"), 7))
    home.outbox.forget()
    assert (
        home.outbox.count() == (0, 0)
        and home.outbox.known() == {}
        and home.content.get("core.url") == ""
    )
    assert (
        ask(home, "SELECT * FROM outbox_records") == [] and home.records.count(RecordFilter()) == 2
    )
    make(home, Task("alone"))
    assert home.outbox.count() == (0, 0)


# -- records from the Core
# ------------------------------------------------------------------------------------------------


def test_applying_core_records_twice_equals_once(home: Store) -> None:
    task, thread = (
        from_core(new_id(Task), Task("task", tags=("red",)), 12, 4),
        from_core(new_id(Thread), Thread("thread"), 14),
    )
    for _ in range(2):
        assert apply_records(home, task, thread, meta={"core.cursor": "one:14"}) == 2
        assert [home.records.one(foreign.record.id) for foreign in (task, thread)] == [
            task.record,
            thread.record,
        ]
        assert (
            home.records.changes(0, 10) == [task, thread]
            and home.content.get("core.cursor") == "one:14"
        )
        assert home.outbox.known() == {task.record.id: (4, 12), thread.record.id: (1, 14)}
        assert docs(home) == {task.record.id: "task", thread.record.id: "thread"}
    assert home.outbox.known([task.record.id, "task_none"]) == {task.record.id: (4, 12)}
    assert home.outbox.count() == (0, 0) and home.records.deeds() == []
    assert [record.id for record in home.records.select(RecordFilter(refs=(("tag", "red"),)))] == [
        task.record.id
    ]
    change(home, task.record.id, title="here")
    # What is written next comes after all that came
    assert home.records.changes(14, 10)[0].record.body.title == "here"


def test_a_record_never_goes_back_to_an_older_change_but_in_another_epoch(home: Store) -> None:
    number = new_id(Task)
    new, old = from_core(number, Task("new"), 20, 5), from_core(number, Task("old"), 10, 3)

    def title() -> str:
        record = home.records.one(number)
        assert record is not None
        return record.body.title

    apply_records(home, from_core(number, Task("first"), 5, 2), meta={"core.epoch": "one"})
    apply_records(home, new)
    assert apply_records(home, old, meta={"core.epoch": "one"}) == 0 and title() == "new"
    assert list(home.records.versions(number)) == [2, 5]
    assert apply_records(home, old, meta={"core.epoch": "two"}) == 1 and title() == "old"
    assert (
        apply_records(home, new) == 1
        and apply_records(home, old, meta={"core.resync": "1"}) == 1
        and title() == "old"
    )
    assert list(home.records.versions(number)) == [2, 3]


def test_waiting_record_is_not_overwritten_until_it_was_sent(home: Store) -> None:
    number, other = make(home, Task("mine")), new_id(Task)
    entry = home.outbox.waiting()[0]
    page = (from_core(number, Task("theirs"), 10, 3), from_core(other, Task("other"), 11))
    assert apply_records(home, *page, skip_waiting=True) == 1
    found = home.records.one(number)
    assert (
        found is not None
        and found.body.title == "mine"
        and home.outbox.known([number]) == {number: (3, NEVER_HERE)}
    )
    change(home, number, notes="later")
    assert (
        apply_records(home, page[0], settle=entry.id, skip_waiting=True) == 0
    )  # another entry still waits
    assert [entry.changes[0].after for entry in home.outbox.waiting()] == [
        Task("mine", notes="later")
    ]
    assert apply_records(home, page[0], settle=home.outbox.waiting()[0].id, skip_waiting=True) == 1
    assert home.records.one(number) == page[0].record and home.outbox.count() == (0, 0)


def test_refused_entry_stays_and_its_record_follows_the_core(home: Store) -> None:
    number = make(home, Task("mine"))
    entry = home.outbox.waiting()[0]
    answer = from_core(number, Task("theirs"), 10, 3)
    apply_records(
        home,
        answer,
        settle=entry.id,
        refuse=("RECORD_CHANGED", "changed on both sides"),
        skip_waiting=True,
    )
    (kept,) = home.outbox.refused()
    assert (kept.code, kept.reason, kept.changes) == (
        "RECORD_CHANGED",
        "changed on both sides",
        entry.changes,
    )
    assert home.records.one(number) == answer.record


def test_erased_record_is_gone_with_its_text(home: Store, tmp_path: Path) -> None:
    number, other = new_id(Task), new_id(Task)
    apply_records(
        home,
        from_core(number, Task("Xylophonsecret", tags=("red",)), 1),
        from_core(other, Task("other"), 2),
    )
    apply_records(home, from_core(number, Task("Zitherhidden"), 3, 2))
    home.indexes.catch_up()
    assert apply_records(home, erased=(number, "task_none")) == 0
    assert (
        home.records.one(number) is None
        and home.records.versions(number) == {}
        and list(docs(home)) == [other]
    )
    assert (
        home.outbox.known() == {other: (1, 2)}
        and ask(home, f"SELECT * FROM refs WHERE record = '{number}'") == []
    )
    assert home.content.keeps_deleted_words
    home.indexes.catch_up()
    home.checkpoint()
    raw = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()).lower()
    assert b"zither" not in raw and b"xylophon" not in raw


def test_filtered_search_follows_applied_core_records(home: Store) -> None:
    number = new_id(Task)
    apply_records(home, from_core(number, Task("one", state="blocked"), 1))
    wanted = RecordFilter(kinds=("task",), states=("blocked",))
    assert len(home.records.narrow(wanted, 100)[1] or ()) == 1
    apply_records(
        home, from_core(number, Task("one", state="done"), 2, 2)
    )  # it is found by the same words
    assert home.records.narrow(wanted, 100)[1] == frozenset()


def test_comments_are_found_by_the_latest_title_of_a_later_thread(home: Store) -> None:
    thread, early, late = new_id(Thread), new_id(Comment), new_id(Comment)
    apply_records(home, from_core(early, Comment(thread, "early"), 2))
    apply_records(
        home, from_core(late, Comment(thread, "late"), 3), from_core(thread, Thread("Lamps"), 4, 2)
    )
    assert docs(home) == {thread: "Lamps", early: "Lamps early", late: "Lamps late"}
    apply_records(home, from_core(thread, Thread("Doors"), 5, 3))
    assert docs(home) == {thread: "Doors", early: "Doors early", late: "Doors late"}


def test_scopes_and_partitions_follow_records_applied_in_any_order(tmp_path: Path) -> None:
    topic, thread, seen, draft = (new_id(kind) for kind in (Subcortex, Thread, Observation, Draft))
    page = [
        from_core(seen, Observation("seen", thread=thread), 2),
        from_core(draft, Draft("comment", "d", "b", target="billing"), 3),
        from_core(thread, Thread("thread", subcortex=topic), 4),
        from_core(topic, Subcortex("billing", "Billing"), 5),
    ]
    with closing(Store(tmp_path, shelved=True)) as store:
        for foreign in page:
            apply_records(store, foreign)
        assert set(ask(store, "SELECT id, scope FROM records")) == {
            (number, topic) for number in (topic, thread, seen, draft)
        }
        shelf = "SELECT sources.name FROM docs JOIN sources ON sources.id = docs.source WHERE path = '{}'"
        assert ask(store, shelf.format(seen)) == [(f"observation@{topic}",)]
        apply_records(store, from_core(thread, Thread("thread"), 6, 2))
        assert ask(store, shelf.format(seen)) == [("observation@",)]
        assert {kept.record.id: kept.change for kept in store.records.changes(0, 9)}[seen] == 2


def test_damaged_record_is_repaired_from_the_core(home: Store) -> None:
    number = new_id(Task)
    apply_records(home, from_core(number, Task("one"), 1))
    with home._connections.write() as connection:
        connection.execute("UPDATE records SET body = '{'")
    apply_records(home, from_core(number, Task("two"), 2, 2))
    assert home.records.get([number])[number].body.title == "two"


def test_failed_page_of_core_records_is_rolled_back(home: Store) -> None:
    mine, page = (
        make(home, Task("mine")),
        [from_core(new_id(Task), Task(f"{place}"), place + 1) for place in range(5)],
    )
    entry = home.outbox.waiting()[0]

    def fail(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> IndexedText | None:
        if record.body.title == "3":
            raise RuntimeError("halfway")
        return word(record, get)

    with pytest.raises(RuntimeError):
        apply_records(
            home,
            *page,
            erased=(mine,),
            wording=fail,
            meta={"core.cursor": "one:5"},
            settle=entry.id,
        )
    assert [record.id for record in home.records.select(RecordFilter())] == [
        mine
    ] and home.outbox.known() == {}
    assert home.content.get("core.cursor") == "" and home.outbox.waiting() == [entry]
    assert apply_records(home, *page, meta={"core.cursor": "one:5"}, settle=entry.id) == 5


KILLED = """
import os, sys
from pathlib import Path
from cortex.base.record_model import Record, Task
from cortex.engine.store import Store, VersionedRecord

def die(record, get):
    if record.body.title == "3":
        os._exit(9)

page = [VersionedRecord(Record(f"task_{number:026}", Task(f"{number}"), "ada", 1, 1, 1), number) for number in range(1, 6)]
Store(Path(sys.argv[1])).records.apply(page, (), wording=die, meta={"core.cursor": "one:5"})
"""


def test_page_of_core_records_is_rolled_back_when_the_process_dies(
    home: Store, tmp_path: Path
) -> None:
    make(home, Task("mine"))
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60)
    assert died.returncode == 9
    assert [record.body.title for record in home.records.select(RecordFilter())] == ["mine"]
    assert home.content.get("core.cursor") == "" and home.outbox.count() == (1, 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30), st.booleans()), max_size=12))
def test_pages_in_any_order_and_number_leave_the_newest_of_each_record(
    delivered_pages: list[tuple[str, int, bool]],
) -> None:
    """The mark of a record never goes back, and the record is that of its mark."""
    with closing(Store(None)) as store:
        newest: dict[str, int] = {}
        for name, number, again in delivered_pages:
            foreign = from_core(f"task_{name:0>26}", Task(f"{name}{number}"), number, number)
            for _ in range(1 + again):
                apply_records(store, foreign)
            newest[foreign.record.id] = max(newest.get(foreign.record.id, 0), number)
        assert {number: mark[1] for number, mark in store.outbox.known().items()} == newest
        found = store.records.get(newest)
        assert {number: found[number].body.title for number in newest} == {
            number: f"{number[-1]}{last}" for number, last in newest.items()
        }
        assert store.records.last_change() == max(newest.values(), default=0)


def test_change_feed_of_a_ledger_reproduces_it_in_another_store(
    ledger: Ledger, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = make(ledger, Subcortex("billing", "Billing"))
    thread = make(ledger, Thread("thread", subcortex=topic))
    comment = make(ledger, Comment(thread, "said", subcortex=topic))
    make(ledger, Observation("seen", thread=thread))
    with closing(Store(tmp_path_factory.mktemp("replica"), shelved=True)) as store:

        def follow() -> None:
            while page := ledger.records.changes(int(store.content.get("at", "0")), 2):
                store.records.apply(page, (), wording=word, meta={"at": str(page[-1].change)})

        follow()
        change(ledger, thread, title="moved", subcortex="")
        change(ledger, comment, subcortex="")
        follow()
        assert store.records.changes(0, 99) == ledger.records.changes(0, 99)
        with ledger.connections.read() as connection:
            expected = connection.execute("SELECT id, scope FROM records ORDER BY id").fetchall()
        assert ask(store, "SELECT id, scope FROM records ORDER BY id") == expected
        assert docs(store)[comment] == "moved said"
