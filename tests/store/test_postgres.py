"""Connections to PostgreSQL that break: nothing is told as written that isn't, nothing is written twice, and all goes on by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from cortex.errors import CortexError, StoreError
from cortex.kinds import Actor, Thread
from cortex.records.ids import new_id
from cortex.store import Done, Step
from cortex.store.ledger import Ledger, open_ledger

ADA = Actor("ada", 4)


@pytest.fixture
def ledger(database: str) -> Iterator[Ledger]:
    with open_ledger(database) as opened:
        yield opened


def cut(database: str) -> None:
    """End all connections of ours, as a server does that is restarted."""
    import psycopg

    ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'cortex' AND datname = current_database()"
    with psycopg.connect(database, autocommit=True) as connection:
        ended = connection.execute(ours).fetchall()
        for pid in ended:
            connection.execute("SELECT pg_terminate_backend(%s)", pid)
        while set(ended) & set(connection.execute(ours).fetchall()):
            time.sleep(0.005)


def write(ledger: Ledger, title: str, between=lambda: None) -> Done:
    def work(step: Step) -> str:
        made = step.make(new_id(Thread), Thread(title)).id
        between()
        return made

    return ledger.records.perform(
        work, actor=ADA, key=title, action="create_thread", payload=title, wording=lambda record, get: None
    )


def titles(ledger: Ledger) -> list[str]:
    return [one.record.body.title for one in ledger.recorded.changes(0, 100)]


def test_connections_that_were_cut_while_they_rested_are_found_without_anybody_noticing(ledger, database):
    def read_at_once(count: int) -> None:
        ready = threading.Barrier(count)

        def read() -> None:
            with ledger.connections.read():
                ready.wait(10)

        threads = [threading.Thread(target=read) for _ in range(count)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    for number in range(3):
        read_at_once(6)
        cut(database)
        assert not write(ledger, f"{number}").replayed
        cut(database)
        assert len(titles(ledger)) == number + 1


def test_a_step_whose_connection_breaks_before_its_end_is_done_again_once(ledger, database):
    broken: list[int] = []

    def break_once() -> None:
        if not broken:
            broken.append(1)
            cut(database)

    assert not write(ledger, "a", break_once).replayed
    assert titles(ledger) == ["a"]


def test_a_step_whose_end_nobody_heard_of_is_asked_for_by_its_key(ledger, database, monkeypatch):
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
def test_what_is_written_together_is_never_told_as_written_where_its_end_fails(ledger, database, how):
    done: list[Done] = []
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


def test_a_writer_waits_a_few_seconds_for_another_one_and_is_told_to_come_again(ledger, database, monkeypatch):
    monkeypatch.setattr("cortex.store.postgres.LOCK_MS", 50)
    with open_ledger(database) as other, ledger.connections.write():
        with pytest.raises(StoreError) as raised:
            write(other, "a")
        assert raised.value.code == "STORE_LOCKED" and raised.value.retryable
        assert titles(other) == []
    assert not write(ledger, "a").replayed
