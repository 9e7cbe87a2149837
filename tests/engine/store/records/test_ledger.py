"""The change feed of both databases, and steps of a writer with limited visibility."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    Comment,
    Draft,
    Link,
    Notification,
    Observation,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.visibility import Viewer, scope_of, sees
from cortex.engine.store import RecordTransaction, Store, TransactionOptions, schema
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.writer import ATTEMPTS
from cortex.families.team.ids import new_id
from cortex.families.team.writes.update import follow

PERSON = Actor("person", 4)
DEADLINE = 30.0
keys = count()


def do(ledger: Ledger | Store, work: Callable[[RecordTransaction], object], **more: Any) -> str:
    common: dict[str, Any] = {
        "actor": PERSON,
        "action": "write",
        "payload": "",
        "wording": lambda record, get: None,
    }
    return ledger.records.perform(
        lambda step: str(work(step) or ""),
        TransactionOptions(**{**common, "key": f"k{next(keys)}", **more}),
    ).result


def make(ledger: Ledger | Store, body: Body, **more: Any) -> Record[Any]:
    number = new_id(type(body))
    do(ledger, lambda step: step.make(number, body), **more)
    return read_record(ledger, number)


def change(ledger: Ledger | Store, number: str, **fields: object) -> Record[Any]:
    def work(step: RecordTransaction) -> None:
        record = step.get(number)
        assert record is not None
        step.put(replace(record, body=replace(record.body, **fields)))

    do(ledger, work)
    return read_record(ledger, number)


def read_record(ledger: Ledger | Store, number: str) -> Record[Any]:
    found = ledger.records.one(number)
    assert found is not None
    return found


def rows(ledger: Ledger, ask: str) -> list[tuple[Any, ...]]:
    with ledger.connections.read() as connection:
        return connection.execute(ask).fetchall()


def scopes(ledger: Ledger) -> dict[str, str]:
    return dict(rows(ledger, "SELECT id, scope FROM records"))


def numbers(ledger: Ledger) -> dict[str, int]:
    return {kept.record.id: kept.change for kept in ledger.records.changes(0, 1_000)}


def refused(work: Callable[[], object]) -> CortexError:
    with pytest.raises(CortexError) as caught:
        work()
    return caught.value


# -- the feed
# ----------------------------------------------------------------------------------------------------------


def test_change_feed_has_every_record_once_by_its_last_change(ledger: Ledger) -> None:
    assert (ledger.records.changes(0, 10), ledger.records.last_change()) == ([], 0)
    first, second, third = (make(ledger, Task(title)) for title in ("one", "two", "three"))
    change(ledger, first.id, title="one again")
    found = ledger.records.changes(0, 10)
    assert [(kept.record.body.title, kept.change) for kept in found] == [
        ("two", 2),
        ("three", 3),
        ("one again", 4),
    ]
    assert [kept.record for kept in found] == [second, third, read_record(ledger, first.id)]
    assert ledger.records.changes(4, 10) == [] and ledger.records.last_change() == 4


def test_change_feed_skips_damaged_records(ledger: Ledger) -> None:
    made = [make(ledger, Task(f"{number}")) for number in range(7)]
    with ledger.connections.write() as connection:
        connection.execute("UPDATE records SET body = '{' WHERE change IN (2, 3, 4, 7)")
    first = ledger.records.changes(0, 2)
    assert [kept.record.id for kept in first] == [made[0].id, made[4].id]
    assert [kept.record.id for kept in ledger.records.changes(first[-1].change, 2)] == [made[5].id]


def test_slow_writer_delays_later_changes_and_none_is_missed(
    ledger: Ledger, ledger_url: str, open_one: Callable[[str], Ledger]
) -> None:
    other = open_one(ledger_url)
    wrote, go_on = threading.Event(), threading.Event()

    def slow(step: RecordTransaction) -> None:
        step.make(new_id(Task), Task("slow"))
        wrote.set()
        assert go_on.wait(DEADLINE)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(do, ledger, slow)
        assert wrote.wait(DEADLINE)
        second = threads.submit(make, other, Task("fast"))
        ask = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while ledger.kind == "postgresql" and not second.done() and not rows(ledger, ask):
            pass  # until the second one waits for the first
        assert ledger.records.changes(0, 10) == [] and not second.done()
        go_on.set()
        for future in (first, second):
            future.result(DEADLINE)
    assert [(kept.record.body.title, kept.change) for kept in other.records.changes(0, 10)] == [
        ("slow", 1),
        ("fast", 2),
    ]


def test_change_feed_during_writes_has_every_record_with_rising_numbers(
    ledger: Ledger, ledger_url: str, open_one: Callable[[str], Ledger]
) -> None:
    places = (ledger, open_one(ledger_url))
    each, writers = 8, 4

    def write(number: int) -> None:
        for turn in range(each):
            record = make(places[number % 2], Task(f"{number}.{turn}"))
            change(places[turn % 2], record.id, notes="seen")

    with ThreadPoolExecutor(writers) as threads:
        written = [threads.submit(write, number) for number in range(writers)]
        cursor, seen = 0, dict[str, str]()
        while len(seen) < each * writers or set(seen.values()) != {"seen"}:
            page = places[1].records.changes(cursor, 3)
            assert [kept.change for kept in page] == sorted({kept.change for kept in page})
            assert all(kept.change > cursor for kept in page)
            cursor = page[-1].change if page else cursor
            seen |= {kept.record.id: kept.record.body.notes for kept in page}
            for writer in written:
                if writer.done():
                    writer.result()
        for writer in written:
            writer.result(DEADLINE)
    assert cursor == ledger.records.last_change() == 2 * each * writers


# -- scopes
# ------------------------------------------------------------------------------------------------------------


def test_scopes_of_records_follow_every_move(ledger: Ledger) -> None:
    chance = random.Random(7)
    topics = [make(ledger, Subcortex(slug, slug)).id for slug in ("billing", "search")]
    places = ("", *topics)
    threads = [
        make(ledger, Thread(f"t{number}", subcortex=chance.choice(places))).id
        for number in range(3)
    ]
    task = make(ledger, Task("task", subcortex=topics[0])).id
    ends = [*threads, task]
    for number in range(4):
        make(
            ledger,
            Draft("comment", "d", "b", target=chance.choice([*ends, "billing", "", "nothing"])),
        )
        make(ledger, Notification("mention", "lena", chance.choice(ends), "t", "r"))
        make(ledger, Link(chance.choice(ends), "supports", chance.choice(ends)))
        make(
            ledger,
            Observation(
                f"o{number}",
                thread=chance.choice(threads),
                task=task,
                subcortex=chance.choice(places),
            ),
        )
        make(ledger, Observation(f"p{number}", task=task))

    def get(ref: str) -> Record[Any] | None:
        by_slug = ledger.records.select(RecordFilter(kinds=("subcortex",), refs=(("slug", ref),)))
        return ledger.records.one(ref) or (by_slug[0] if by_slug else None)

    for _ in range(8):
        before, versions = (
            scopes(ledger),
            {k.record.id: k.record.version for k in ledger.records.changes(0, 1_000)},
        )
        last = ledger.records.last_change()
        moved = chance.choice(ends)
        change(ledger, moved, subcortex=chance.choice(places))
        found = ledger.records.changes(0, 1_000)
        after = scopes(ledger)
        assert after == {kept.record.id: scope_of(kept.record, get) for kept in found}
        assert {number for number in after if after[number] != before[number]} <= {
            kept.record.id for kept in found if kept.change > last
        }
        assert all(
            kept.record.version == versions[kept.record.id]
            for kept in found
            if kept.record.id != moved
        )


def test_records_in_a_reference_cycle_have_no_scope_and_no_reader(ledger: Ledger) -> None:
    first, second = new_id(Link), new_id(Link)

    def work(step: RecordTransaction) -> None:
        step.make(first, Link(second, "supports", first))
        step.make(second, Link(first, "supports", second))

    do(ledger, work)
    change(ledger, first, sensitivity=SENSITIVE)
    change(ledger, first, sensitivity="normal")
    assert scopes(ledger) == {first: "", second: ""}
    assert not sees(
        Viewer("ada", 4, True, frozenset({"*"})), read_record(ledger, first), ledger.records.one
    )


def test_link_is_in_the_change_feed_when_an_end_moves_or_becomes_sensitive(ledger: Ledger) -> None:
    source, target, other = (make(ledger, Thread(title)) for title in ("source", "target", "other"))
    link = make(ledger, Link(source.id, "supports", target.id))
    make(ledger, Link(source.id, "supports", other.id))
    topic = make(ledger, Subcortex("billing", "Billing"))
    for fields in ({"subcortex": topic.id}, {"sensitivity": SENSITIVE}):
        last = ledger.records.last_change()
        change(ledger, target.id, **fields)
        assert [kept.record.id for kept in ledger.records.changes(last, 10)] == [target.id, link.id]
    last = ledger.records.last_change()
    change(ledger, target.id, title="the same place")
    assert [kept.record.id for kept in ledger.records.changes(last, 10)] == [target.id]
    assert read_record(ledger, link.id) == link


def test_records_of_a_topic_are_in_the_change_feed_when_its_visibility_changes(
    ledger: Ledger,
) -> None:
    topic, other = make(ledger, Subcortex("billing", "Billing")), make(ledger, Thread("elsewhere"))
    inside = make(ledger, Thread("inside", subcortex=topic.id))
    draft = make(ledger, Draft("comment", "d", "b", target=inside.id))
    link = make(ledger, Link(other.id, "supports", inside.id))
    last = ledger.records.last_change()
    change(ledger, topic.id, visibility="private")
    news = ledger.records.changes(last, 10)
    assert {kept.record.id for kept in news} == {topic.id, inside.id, draft.id, link.id}
    assert len({kept.change for kept in news}) == 4


# -- confined steps
# ----------------------------------------------------------------------------------------------------


def is_public(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> bool:
    return record.body.sensitivity != SENSITIVE


def test_step_reads_on_until_a_page_of_visible_records_is_full(ledger: Ledger) -> None:
    def fill(step: RecordTransaction) -> None:
        for number in range(90):
            hidden = SENSITIVE if number % 45 else "normal"
            step.make(new_id(Task), Task(f"{number}", sensitivity=hidden))

    do(ledger, fill)
    hidden = ledger.records.select(RecordFilter(sensitivity=SENSITIVE), 1)[0]
    told = make(ledger, Notification("mention", "lena", hidden.id, "t", "r", sensitivity=SENSITIVE))

    def work(step: RecordTransaction) -> None:
        assert step.get(hidden.id) is None and step.get(told.id) is None
        with step.unconfined():
            assert step.get(told.id) == told
        assert [record.body.title for record in step.select(RecordFilter(kinds=("task",)), 2)] == [
            "45",
            "0",
        ]
        assert [record.body.title for record in step.select(RecordFilter(kinds=("task",)), 1)] == [
            "45"
        ]
        assert [record.body.title for record in step.starting("task_", 5)] == ["0", "45"]
        assert step.select(RecordFilter(kinds=("task",), sensitivity=SENSITIVE)) == []

    do(ledger, work, sees=is_public)


def test_guard_runs_before_each_write_and_sees_every_record(ledger: Ledger) -> None:
    topic = make(ledger, Subcortex("billing", "Billing", sensitivity=SENSITIVE))
    asked: list[tuple[str, str]] = []

    def guard(
        before: Record[Any] | None, after: Record[Any], get: Callable[[str], Record[Any] | None]
    ) -> None:
        asked.append((before.body.title if before else "", after.body.title))
        assert get(topic.id) == get("billing") == topic and get("nothing") is None
        if after.body.title == "three":
            raise InputError("RIGHTS_MISSING", "no")

    def work(step: RecordTransaction) -> None:
        made = step.make(new_id(Task), Task("one"))
        made = step.put(replace(made, body=Task("two")))
        step.put(replace(made, body=Task("three")))

    error = refused(lambda: do(ledger, work, sees=is_public, guard=guard))
    assert error.code == "RIGHTS_MISSING" and asked == [
        ("", "one"),
        ("one", "two"),
        ("two", "three"),
    ]
    assert ledger.records.count(RecordFilter(kinds=("task",))) == 0


def test_consequences_of_a_write_reach_records_hidden_from_its_writer(ledger: Ledger) -> None:
    topic = make(ledger, Subcortex("billing", "Billing"))
    thread = make(ledger, Thread("thread"))
    hidden = make(ledger, Comment(thread.id, "hidden", sensitivity=SENSITIVE))
    draft = make(ledger, Draft("comment", "d", "b", target_kind="thread", target=thread.id))

    def is_seen(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> bool:
        return record.id not in (hidden.id, draft.id)

    def guard(
        before: Record[Any] | None, after: Record[Any], get: Callable[[str], Record[Any] | None]
    ) -> None:
        assert is_seen(after, get)

    def work(step: RecordTransaction) -> None:
        assert step.get(hidden.id) is None
        body = replace(thread.body, subcortex=topic.id, sensitivity=SENSITIVE)
        follow(step, thread.body, step.put(replace(thread, body=body)))
        assert step.get(hidden.id) is None

    do(ledger, work, sees=is_seen, guard=guard)
    assert (
        read_record(ledger, hidden.id).body.subcortex == topic.id
        and read_record(ledger, draft.id).body.sensitivity == SENSITIVE
    )
    assert set(scopes(ledger).values()) == {topic.id}


def test_slug_of_a_hidden_topic_cannot_be_taken(ledger: Ledger) -> None:
    hidden = make(ledger, Subcortex("billing", "Billing", sensitivity=SENSITIVE))
    error = refused(lambda: make(ledger, Subcortex("billing", "Mine"), sees=is_public))
    assert error.code == "RECORD_INVALID" and hidden.id not in f"{error.message}{error.context}"
    assert change(ledger, hidden.id, name="Still billing").version == 2


# -- two writers that meet, in PostgreSQL
# ------------------------------------------------------------------------------

TROUBLE = """
CREATE SEQUENCE trouble;
CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF nextval('trouble') <= {times} THEN RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'serialization_failure'; END IF;
  RETURN NEW; END $$;
CREATE TRIGGER meeting BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION meet();
"""


@pytest.mark.parametrize("times", [ATTEMPTS - 1, ATTEMPTS])
def test_conflicting_step_is_repeated_up_to_the_limit(
    database: str, open_one: Callable[[str], Ledger], times: int
) -> None:
    import psycopg

    ledger = open_one(database)
    with psycopg.connect(database) as raw:
        raw.execute(TROUBLE.format(times=times))  # type: ignore[arg-type]
    runs: list[int] = []

    def work(step: RecordTransaction) -> None:
        runs.append(1)
        step.make(new_id(Task), Task("once"))

    if times < ATTEMPTS:
        do(ledger, work)
    else:
        error = refused(lambda: do(ledger, work))
        assert error.code == "STORE_LOCKED" and error.retryable
    assert len(runs) == ATTEMPTS
    assert [record.body.title for record in ledger.records.select(RecordFilter())] == (
        ["once"] if times < ATTEMPTS else []
    )
    assert ledger.records.last_change() == (times < ATTEMPTS) == len(ledger.records.deeds())


def test_step_ended_by_a_deadlock_is_repeated(
    database: str, open_one: Callable[[str], Ledger]
) -> None:
    import psycopg

    with psycopg.connect(database, autocommit=True) as raw:
        raw.execute(f"ALTER DATABASE {raw.info.dbname} SET deadlock_timeout = '20ms'")  # type: ignore[arg-type]
    ledger = open_one(database)
    crossed = threading.Event()

    with psycopg.connect(database) as raw, ThreadPoolExecutor(1) as threads:
        raw.execute("SET deadlock_timeout = '1min'")  # so that it is the step that gives in
        raw.execute("LOCK TABLE audit IN EXCLUSIVE MODE")

        def cross() -> None:
            raw.execute("UPDATE counters SET value = value WHERE name = 'change'")
            raw.rollback()

        waiting = []

        def work(step: RecordTransaction) -> None:
            if not crossed.is_set():  # the counter's row is ours by now
                crossed.set()
                waiting.append(threads.submit(cross))
                ask = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE counters%'"
                while not step._connection.execute(ask).fetchone():
                    step._connection.execute("SELECT pg_stat_clear_snapshot()")
            step.make(new_id(Task), Task("once"))

        do(ledger, work)
        waiting[0].result(DEADLINE)
    assert [record.body.title for record in ledger.records.select(RecordFilter())] == ["once"]


def test_stricter_default_isolation_fails_no_writer(
    database: str, open_one: Callable[[str], Ledger]
) -> None:
    import psycopg

    with psycopg.connect(database, autocommit=True) as raw:
        raw.execute(
            f"ALTER DATABASE {raw.info.dbname} SET default_transaction_isolation = 'serializable'"
        )  # type: ignore[arg-type]
    ledger = open_one(database)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: make(ledger, Task(f"{number}")), range(24)))
    assert ledger.records.last_change() == 24


def test_malformed_ledger_url_is_refused_without_being_repeated(
    open_one: Callable[[str], Ledger],
) -> None:
    error = refused(lambda: open_one("postgresql://ada:secret@localhost/x?nothing=1"))
    assert error.code == "ARGUMENT_INVALID" and "secret" not in error.message


def test_unreachable_database_is_reported_at_once(
    database: str, open_one: Callable[[str], Ledger]
) -> None:
    error = refused(lambda: open_one(database.replace("/test_", "/other_")))
    assert error.code == "STORE_IO" and "does not exist" in error.message


# -- ledgers
# -----------------------------------------------------------------------------------------------------------


def test_epoch_of_a_ledger_stays_until_it_is_renewed(
    ledger: Ledger, ledger_url: str, open_one: Callable[[str], Ledger]
) -> None:
    ledger.ping()
    epoch = ledger.epoch()
    assert len(epoch) == 32 and open_one(ledger_url).epoch() == epoch
    assert (renewed := ledger.renew_epoch()) != epoch and open_one(
        ledger_url
    ).epoch() == renewed == ledger.epoch()
    assert (ledger.url, ledger.kind) == (
        ledger_url,
        ledger_url.partition(":")[0],
    ) and ledger_url not in repr(ledger)


# -- migrations
# --------------------------------------------------------------------------------------------------------


def _fill(ledger: Ledger) -> None:
    topic = make(ledger, Subcortex("billing", "Billing"))
    thread, loose = make(ledger, Thread("in", subcortex=topic.id)), make(ledger, Thread("out"))
    task = make(ledger, Task("task", subcortex=topic.id, thread=loose.id))
    make(ledger, Artifact("artifact", subcortex=topic.id))
    for target in (thread.id, "billing", topic.id, "", "nothing"):
        make(ledger, Draft("comment", "d", "b", target=target))
    make(ledger, Notification("mention", "lena", thread.id, "t", "r"))
    link = make(ledger, Link(thread.id, "supports", loose.id))
    make(ledger, Notification("mention", "lena", link.id, "t", "r"))
    make(
        ledger,
        Notification(
            "mention",
            "lena",
            make(ledger, Draft("comment", "d", "b", target=thread.id)).id,
            "t",
            "r",
        ),
    )
    make(ledger, Link(loose.id, "supports", thread.id))
    make(ledger, Observation("o", thread=loose.id, task=task.id))
    make(ledger, Observation("p", task=task.id))
    make(ledger, Observation("q", thread=loose.id, subcortex=topic.id))


_OLD = "id, kind, version, state, sensitivity, body, author, created, updated, made"


def test_ledger_of_the_previous_version_is_migrated_and_keeps_its_rows(
    database: str,
    open_one: Callable[[str], Ledger],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    import psycopg

    from cortex.engine.store.records import postgres

    model = open_one(f"sqlite:///{tmp_path}/model")
    _fill(model)
    with monkeypatch.context() as patched:
        patched.setattr(postgres, "MIGRATIONS", postgres.MIGRATIONS[:1])
        postgres.PostgresConnections(database).close()
    with psycopg.connect(database) as raw:
        marks = ", ".join(["%s"] * 11)
        raw.cursor().executemany(
            f"INSERT INTO records ({_OLD}, change) VALUES ({marks})",  # type: ignore[arg-type]
            rows(model, f"SELECT {_OLD}, change FROM records"),
        )
        raw.cursor().executemany(
            "INSERT INTO refs VALUES (%s, %s, %s)", rows(model, "SELECT * FROM refs")
        )
        raw.execute("UPDATE counters SET value = 50 WHERE name = 'change'")
    ledger = open_one(database)
    assert rows(ledger, "SELECT version FROM schema_version ORDER BY version") == [
        (1,),
        (2,),
        (3,),
        (4,),
    ]
    assert scopes(ledger) == scopes(model) and numbers(ledger) == numbers(model)
    assert len(ledger.epoch()) == 32 and make(ledger, Task("new")).version == 1
    assert ledger.records.last_change() == 51


def test_store_of_the_previous_version_is_migrated_and_keeps_its_rows(
    tmp_path: Path, open_one: Callable[[str], Ledger]
) -> None:
    model = open_one(f"sqlite:///{tmp_path}/model")
    _fill(model)
    (tmp_path / "old").mkdir()
    with closing(sqlite3.connect(tmp_path / "old" / "cortex.db")) as raw:
        for number, migrate in enumerate(schema.MIGRATIONS[:5]):
            migrate(raw)
            raw.execute(f"PRAGMA user_version = {number + 1}")
        marks = ", ".join("?" * 10)
        # Another order than the one in which they were made
        found = rows(model, f"SELECT {_OLD} FROM records ORDER BY id")
        raw.executemany(f"INSERT INTO records ({_OLD}) VALUES ({marks})", found)
        raw.executemany("INSERT INTO refs VALUES (?, ?, ?)", rows(model, "SELECT * FROM refs"))
        raw.commit()
    ledger = open_one(f"sqlite:///{tmp_path}/old")
    assert scopes(ledger) == scopes(model) and numbers(ledger) == numbers(model)
    assert ledger.records.last_change() == len(found) and len(ledger.epoch()) == 32
    make(ledger, Task("new"))
    assert ledger.records.last_change() == len(found) + 1
