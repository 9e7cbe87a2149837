"""Broken PostgreSQL connections: no write is lost, doubled or falsely confirmed."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from cortex.base.errors import CortexError, InputError, StoreError
from cortex.base.record_model import (
    Actor,
    Artifact,
    Attachment,
    Body,
    Observation,
    RecordFilter,
    Subcortex,
    Thread,
)
from cortex.engine.store import RecordTransaction, TransactionOptions, TransactionResult
from cortex.engine.store.records import postgres
from cortex.engine.store.records.ledger import Ledger, open_ledger
from cortex.families.team.ids import new_id

ADA = Actor("ada", 4)


@pytest.fixture
def ledger(database: str) -> Iterator[Ledger]:
    with open_ledger(database) as opened:
        yield opened


def cut(database: str) -> None:
    """End all connections of this test, as a restarted server does."""
    import psycopg

    ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'cortex' AND datname = current_database()"
    with psycopg.connect(database, autocommit=True) as connection:
        ended = connection.execute(ours).fetchall()
        for pid in ended:
            connection.execute("SELECT pg_terminate_backend(%s)", pid)
        while set(ended) & set(connection.execute(ours).fetchall()):
            time.sleep(0.005)


def write(ledger: Ledger, title: str, between=lambda: None) -> TransactionResult:
    def work(step: RecordTransaction) -> str:
        made = step.make(new_id(Thread), Thread(title)).id
        between()
        return made

    return ledger.records.perform(
        work,
        TransactionOptions(
            actor=ADA,
            key=title,
            action="create_thread",
            payload=title,
            wording=lambda record, get: None,
        ),
    )


def titles(ledger: Ledger) -> list[str]:
    return [change.record.body.title for change in ledger.records.changes(0, 100)]


def test_idle_connections_that_were_cut_are_replaced_unnoticed(ledger, database):
    def read_at_once(count: int) -> None:
        ready = threading.Barrier(count)

        def read() -> None:
            with ledger.connections.read():
                ready.wait(10)

        threads = [threading.Thread(target=read) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for number in range(3):
        read_at_once(6)
        cut(database)
        assert not write(ledger, f"{number}").replayed
        cut(database)
        assert len(titles(ledger)) == number + 1


def test_connection_cut_while_opening_the_ledger_is_opened_again(ledger, database, until):
    import psycopg

    opened: list[Ledger] = []
    waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
    with (
        psycopg.connect(database, autocommit=True) as watching,
        psycopg.connect(database) as holding,
    ):
        holding.execute("SELECT pg_advisory_xact_lock(hashtext('cortex schema'))")
        beginning = threading.Thread(target=lambda: opened.append(open_ledger(database)))
        beginning.start()
        for _ in range(2):
            until(lambda: watching.execute(waiting).fetchone() is not None)
            found = watching.execute(waiting).fetchone()
            watching.execute("SELECT pg_terminate_backend(%s)", found)
            until(lambda found=found: watching.execute(waiting).fetchone() != found)
        holding.rollback()
        beginning.join()
    assert titles(opened[0]) == []
    opened[0].close()


def test_step_with_a_broken_connection_is_repeated_once(ledger, database):
    broken: list[int] = []

    def break_once() -> None:
        if not broken:
            broken.append(1)
            cut(database)

    assert not write(ledger, "a", break_once).replayed
    assert titles(ledger) == ["a"]


def test_step_with_an_unknown_outcome_is_looked_up_by_its_key(ledger, database, monkeypatch):
    import psycopg

    real, broken = psycopg.Connection.execute, []

    def execute(self, statement, *rest, **more):
        done = real(self, statement, *rest, **more)
        if statement == "COMMIT" and not broken:
            broken.append(1)
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return done

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    assert write(ledger, "a").replayed and broken
    assert titles(ledger) == ["a"]


@pytest.mark.parametrize("how", ["cut", "failed"])
def test_write_batch_with_a_failed_commit_is_never_reported_as_written(ledger, database, how):
    done: list[TransactionResult] = []
    with pytest.raises(CortexError) as raised, ledger.together():
        done.append(write(ledger, "a"))
        if how == "cut":
            cut(database)
        else:
            with pytest.raises(CortexError), ledger.connections.read() as connection:
                connection.execute("SELECT 1 / 0")
        with pytest.raises(CortexError):
            write(ledger, "b")
    assert raised.value.retryable and done and titles(ledger) == []
    assert not write(ledger, "a").replayed


def test_writer_waits_for_another_writer_then_fails_as_locked(ledger, database, monkeypatch):
    monkeypatch.setattr("cortex.engine.store.records.postgres.LOCK_MS", 50)
    with open_ledger(database) as other, ledger.connections.write():
        with pytest.raises(StoreError) as raised:
            write(other, "a")
        assert raised.value.code == "STORE_LOCKED" and raised.value.retryable
        assert titles(other) == []
    assert not write(ledger, "a").replayed


def test_query_past_its_timeout_is_not_blamed_on_a_writer(database, monkeypatch):
    monkeypatch.setattr("cortex.engine.store.records.postgres.STATEMENT_MS", 50)
    with open_ledger(database) as ledger:
        with pytest.raises(StoreError) as raised, ledger.connections.read() as connection:
            connection.execute("SELECT pg_sleep(10)")
        assert raised.value.code == "STORE_LOCKED" and "writer" not in raised.value.message
        assert not write(ledger, "a").replayed


def letters(count: int) -> str:
    """Text that can't be compressed."""
    return "".join(Random(1).choices([chr(code) for code in range(0x4E00, 0x9FFF)], k=count))


def put(ledger: Ledger, body: Body) -> str:
    number = new_id(type(body))
    return ledger.records.perform(
        lambda step: step.make(number, body).id,
        TransactionOptions(
            actor=ADA, key=number, action="write", payload="", wording=lambda record, get: None
        ),
    ).result


def test_reference_longer_than_an_index_row_is_found(ledger):
    far = "https://wiki.example/" + letters(1_900)
    made = [
        put(
            ledger, Observation("a", attachments=(Attachment("x", far + end), Attachment("y", far)))
        )
        for end in "12"
    ]
    found = ledger.records.select(RecordFilter(refs=(("citation", far + "2"),)))
    assert [record.id for record in found] == made[1:]
    assert len(ledger.records.select(RecordFilter(refs=(("citation", far),)))) == 2
    dated = put(ledger, Artifact("old", review_by="2026-01-01"))
    assert [record.id for record in ledger.records.select(RecordFilter(due="2026-01-02"))] == [
        dated
    ]
    assert ledger.records.select(RecordFilter(due="2026-01-01")) == []


def test_reference_queries_use_an_index(ledger):
    asked = (
        "SELECT record FROM refs WHERE role = ? AND target = ? AND record > ? ORDER BY record DESC",
        "SELECT 1 FROM refs WHERE role = 'due' AND refs.target < ?",
        "SELECT refs.record FROM refs JOIN records ON records.id = refs.target WHERE refs.role = 'target' AND records.id = ?",
        "SELECT role FROM refs WHERE (record, role, target) > (?, ?, ?) ORDER BY record, role, target LIMIT 9",
    )
    with ledger.connections.read() as connection:
        connection.execute("SET LOCAL enable_seqscan = off")
        connection.execute("SET LOCAL enable_bitmapscan = off")
        for statement in asked:
            plan = connection.execute(
                f"EXPLAIN {statement}", ["x"] * statement.count("?")
            ).fetchall()
            text = "\n".join(row[0] for row in plan)
            conditions = [row[0] for row in plan if "Index Cond" in row[0]]
            assert "using refs_" in text and any(
                "left" in row or "ROW" in row for row in conditions
            ), text


@pytest.mark.parametrize("strange", ["a\0b", "a\ud800b"])
def test_filter_postgresql_cannot_encode_is_an_input_error(ledger, strange):
    with pytest.raises(InputError) as raised:
        ledger.records.select(RecordFilter(refs=(("tag", strange),)))
    assert raised.value.code == "RECORD_INVALID"


def test_record_postgresql_cannot_hold_is_an_input_error(ledger):
    with pytest.raises(InputError) as raised:
        put(ledger, Thread("a", state=letters(3_000)))
    assert raised.value.code == "RECORD_INVALID" and titles(ledger) == []
    with pytest.raises(InputError), ledger.connections.read() as connection:
        connection.execute(
            "SELECT value FROM counters WHERE value = ?", (10**30 * 10**30,)
        ).fetchone()
        connection.execute("SELECT CAST(? AS bigint)", (str(2**64),))
    assert put(ledger, Thread("b")) and titles(ledger) == ["b"]


def test_silent_network_is_noticed_in_seconds_unless_the_url_says_otherwise(ledger, database):
    import psycopg

    def known(opened: Ledger) -> dict[str, str]:
        with opened.connections.read() as connection:
            assert isinstance(connection.connection, psycopg.Connection)
            return connection.connection.info.get_parameters()

    told = known(ledger)
    quiet = sum(int(told[f"keepalives_{name}"]) for name in ("idle", "interval")) + 2 * int(
        told["keepalives_interval"]
    )
    assert told["keepalives"] == "1" and quiet < 20 and 0 < int(told["tcp_user_timeout"]) < 20_000
    assert int(told["connect_timeout"]) <= 10
    with open_ledger(f"{database}{'&' if '?' in database else '?'}tcp_user_timeout=60000") as other:
        assert known(other)["tcp_user_timeout"] == "60000" and known(other)["keepalives"] == "1"


def test_writer_cut_off_in_a_transaction_blocks_others_briefly(ledger, database, monkeypatch):
    monkeypatch.setattr("cortex.engine.store.records.postgres.IDLE_MS", 50)
    with (
        open_ledger(database) as other,
        pytest.raises(StoreError),
        other.connections.write() as connection,
    ):
        assert not write(ledger, "a").replayed
        connection.execute("SELECT 1")
    assert titles(ledger) == ["a"]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_database_of_a_narrow_encoding_is_refused_before_tables_are_made(make_database, encoding):
    import psycopg

    url = make_database(f"ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(InputError) as raised:
        open_ledger(url)
    assert raised.value.code == "ARGUMENT_INVALID" and encoding in raised.value.message
    with psycopg.connect(url) as connection:
        assert (
            connection.execute("SELECT 1 FROM pg_tables WHERE tablename = 'records'").fetchone()
            is None
        )


def test_every_character_is_kept_under_any_client_encoding(database, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with open_ledger(database) as ledger:
        write(ledger, "日本語 🐈")
        assert titles(ledger) == ["日本語 🐈"]


def test_url_chooses_the_schema_of_the_tables(database):
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA team")
        with open_ledger(f"{database}&options=-csearch_path%3Dteam") as ledger:
            write(ledger, "a")
        found = connection.execute(
            "SELECT schemaname FROM pg_tables WHERE tablename IN ('records', 'schema_version')"
        )
        assert found.fetchall() == [("team",), ("team",)]


def test_postgresql_database_of_a_newer_cortex_is_refused(ledger, database):
    with ledger.connections.write() as connection:
        connection.execute("INSERT INTO schema_version VALUES (99)")
    with pytest.raises(StoreError) as raised:
        open_ledger(database)
    assert raised.value.code == "STORE_NEWER"


def test_failed_postgresql_migration_is_rolled_back(ledger, database, monkeypatch):
    write(ledger, "a")
    strange = "ALTER TABLE records DROP COLUMN body; SELECT 1 / 0"
    monkeypatch.setattr(
        "cortex.engine.store.records.postgres.MIGRATIONS", (*postgres.MIGRATIONS, strange)
    )
    with pytest.raises(CortexError):
        open_ledger(database)
    assert titles(ledger) == ["a"]


def test_tables_of_another_program_are_reported_and_left_alone(database):
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE tokens (theirs TEXT)")
        with pytest.raises(StoreError) as raised:
            open_ledger(database)
        assert "tokens" in raised.value.message and "another program" in raised.value.suggestions[0]
        left = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        assert left == [("tokens",)]


def test_user_without_create_permission_uses_existing_tables(ledger, database):
    import psycopg

    role = f"poor_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")  # type: ignore[arg-type]
        try:
            connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
            connection.execute(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"
            )  # type: ignore[arg-type]
            with open_ledger(database.replace("://postgres:@", f"://{role}:@")) as other:
                write(other, "a")
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")  # type: ignore[arg-type]
    assert titles(ledger) == ["a"]


def test_write_without_its_sequence_counter_fails(ledger):
    with ledger.connections.write() as connection:
        connection.execute("DELETE FROM counters")
    with pytest.raises(StoreError) as raised:
        write(ledger, "a")
    assert raised.value.code == "STORE_CORRUPT" and titles(ledger) == []


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET actor = 'eve'", "DELETE FROM audit", "TRUNCATE audit"]
)
def test_postgresql_audit_log_cannot_be_changed(ledger, statement):
    write(ledger, "a")
    with (
        pytest.raises(CortexError, match="the audit log is kept"),
        ledger.connections.write() as connection,
    ):
        connection.execute(statement)
    assert [deed.actor for deed in ledger.records.deeds()] == ["ada"]


def test_read_only_database_is_reported(ledger, database):
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            f"ALTER DATABASE {connection.info.dbname} SET default_transaction_read_only = on"
        )  # type: ignore[arg-type]
    with open_ledger(database) as other, pytest.raises(StoreError) as raised:
        write(other, "a")
    assert raised.value.code == "STORE_READ_ONLY" and "cortex kb" not in str(
        raised.value.suggestions
    )
    assert titles(ledger) == []


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """The statements that the database gets."""
    import psycopg

    real, statements = psycopg.Connection.execute, list[str]()

    def execute(self, statement, *rest, **more):
        statements.append(statement)
        return real(self, statement, *rest, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    return statements


def test_hiding_a_topic_updates_its_records_with_few_statements(ledger, asked):
    topic = put(ledger, Subcortex("billing", "Billing"))
    with ledger.together():
        for number in range(100):
            put(ledger, Thread(f"{number}", subcortex=topic))

    def hide(step: RecordTransaction) -> str:
        found = step.get(topic)
        assert found is not None
        return step.put(replace(found, body=replace(found.body, visibility="private"))).id

    asked.clear()
    ledger.records.perform(
        hide,
        TransactionOptions(
            actor=ADA, key="k", action="w", payload="", wording=lambda record, get: None
        ),
    )
    assert 0 < len(asked) < 30
    assert len({change.change for change in ledger.records.changes(101, 200)}) == 101


def test_all_principals_are_read_with_few_statements(ledger, asked):
    for number in range(20):
        ledger.principals.add(
            f"principal_{number}", f"name{number}", 2, False, {"*": True, f"scope_{number}": False}
        )
    asked.clear()
    found = ledger.principals.all()
    assert 0 < len(asked) < 6
    assert {principal.id: principal.grants for principal in found} == {
        f"principal_{number}": {"*": True, f"scope_{number}": False} for number in range(20)
    }
