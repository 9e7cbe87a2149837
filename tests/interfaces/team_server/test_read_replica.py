"""The read replica: it follows its ledger, confines reads, refuses foreign directories."""

from __future__ import annotations

import random
import string
from concurrent.futures import ThreadPoolExecutor

import pytest

from cortex.base.actors import person
from cortex.base.errors import FileError, StoreError
from cortex.base.record_model import CodeLink, RecordFilter, Thread
from cortex.base.visibility import Viewer
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.store import Store, TransactionOptions
from cortex.engine.store.records.ledger import Ledger, open_ledger
from cortex.families.team.ids import new_id
from cortex.families.team.writes.create import create
from cortex.interfaces.team_server.app import WRITERS
from cortex.interfaces.team_server.read_replica import EPOCH, ReadReplica

ALL = Viewer("ada", 4, True, frozenset({"*"}), frozenset({"*"}))


def titles(replica: ReadReplica) -> list[str]:
    replica.refresh()
    with replica.viewed_by(ALL):
        return [
            record.body.title
            for record in replica.store.records.select(RecordFilter(kinds=("thread",)))
        ]


def test_replica_without_a_viewer_shows_and_writes_nothing(core, ada):
    ada.post("/threads", {"title": "a"})
    assert core.replica.store.records.select(RecordFilter()) == []
    with pytest.raises(StoreError, match="there is no writer"):
        create(core.replica, Thread("b"), actor=person())
    assert titles(core.replica) == ["a"]


def test_damaged_word_index_is_rebuilt_while_the_core_answers(core, ada):
    thread = ada.post("/threads", {"title": "How often do we retry?"})
    assert ada.post("/search", {"query": "retry"})["results"][0]["id"] == thread["id"]
    (words,) = core.replica.store.directory.glob("words-*")
    (words / "damaged").touch()  # as another process says that it failed there
    assert ada.post("/search", {"query": "retry"})["results"][0]["id"] == thread["id"]
    assert core.replica.back.store.check() == [] and not words.exists()


def test_second_replica_in_one_directory_is_refused(core, open_core, settings, folder):
    with pytest.raises(StoreError, match="each Core needs its own"):
        ReadReplica(settings, core.ledger, folder / "ledger", embedders=Embedders(None))


def test_home_connected_to_a_core_is_refused_as_a_replica(settings, folder):
    (folder / "home").mkdir()
    ledger = open_ledger(f"sqlite:///{folder / 'home'}")
    store = Store(folder / "home")
    store.content.set({"core.url": "https://core.example"})
    store.close()
    with pytest.raises(StoreError, match="something else"):
        ReadReplica(settings, ledger, folder / "home", embedders=Embedders(None))
    ledger.close()


def test_postgresql_records_are_read_and_found_in_a_replica_at_once(postgres_core):
    ada, bob = postgres_core.person("ada", 4), postgres_core.person("bob", 2)
    thread = ada.post("/threads", {"title": "How often do we retry?"}, key="one")
    assert bob.post("/search", {"query": "retry"})["results"][0]["id"] == thread["id"]
    comment = bob.post(f"/threads/{thread['id']}/comments", {"body_md": "Five times."})
    assert (
        comment["author_id"] == "bob"
        and "Five" in ada.get(f"/threads/{thread['id']}")["rolling_summary_md"]
    )
    again = ada.ask("POST", "/threads", {"title": "How often do we retry?"}, key="one")
    assert again.headers["X-Idempotency-Replayed"] == "true"
    artifact = ada.post("/artifacts", {"title": "Retries"})
    ada.patch(f"/artifacts/{artifact['id']}", {"title": "Retries, all of them"})
    assert [version["version"] for version in ada.get(f"/artifacts/{artifact['id']}/versions")] == [
        2,
        1,
    ]
    assert [entry["action"] for entry in ada.get("/audit", limit=2)] == [
        "edit_artifact",
        "create_artifact",
    ]
    listed = [update["kind"] for update in bob.get("/sync/deltas")["updates"]]
    assert (
        listed == ["comment", "thread", "notification", "artifact"]
        and postgres_core.replica.lag() == 0
    )
    ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/threads", {"title": "a\x00"}))
    ada.refused(404, "NOT_FOUND", ada.ask("GET", "/threads/%00"))
    assert ada.ask("GET", "/threads", params={"author": "\x00"}).status_code in (200, 400)


def test_replica_follows_other_processes_and_rebuilds_for_another_history(
    postgres_core, open_core, database, folder
):
    ada = postgres_core.person("ada", 4)
    ada.post("/threads", {"title": "before"})
    other = open_core(database, folder / "other")
    assert titles(other.replica) == ["before"]
    ada.post("/threads", {"title": "after"})
    assert titles(other.replica) == ["after", "before"]
    postgres_core.ledger.renew_epoch()
    assert titles(other.replica) == ["after", "before"]
    assert other.replica.back.store.content.get(EPOCH) == postgres_core.ledger.epoch()
    assert ada.post("/search", {"query": "after"})["results"]


def test_damaged_replica_is_refilled(postgres_core, open_core, database, folder):
    postgres_core.person("ada", 4).post("/threads", {"title": "kept"})
    open_core(database, folder / "other").replica.close()
    (folder / "other" / "cortex.db").write_bytes(b"garbage" * 1000)
    assert titles(open_core(database, folder / "other").replica) == ["kept"]


def go_back(database: str, change: int) -> None:
    """Restore a database to the state after some change, as its own tools do: silently."""
    import psycopg

    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE audit DISABLE TRIGGER audit_kept")
        gone = "SELECT id FROM records WHERE change > %s"
        connection.execute(f"DELETE FROM audit WHERE record IN ({gone})", (change,))
        connection.execute("DELETE FROM records WHERE change > %s", (change,))
        connection.execute("UPDATE counters SET value = %s WHERE name = 'change'", (change,))
        connection.execute("ALTER TABLE audit ENABLE TRIGGER audit_kept")


def test_restored_database_begins_another_history_exactly_once(
    postgres_core, open_core, database, folder
):
    other = open_core(database, folder / "other")
    ada = postgres_core.person("ada", 4)
    for title in ("one", "two", "three"):
        ada.post("/threads", {"title": title})
    assert titles(other.replica) == ["three", "two", "one"]
    epoch = postgres_core.ledger.epoch()
    go_back(database, 1)
    ada.post("/threads", {"title": "new"})
    assert titles(postgres_core.replica) == ["new", "one"] and postgres_core.replica.lag() == 0
    renewed = postgres_core.ledger.epoch()
    assert renewed != epoch and postgres_core.ledger.renew_epoch(epoch) == renewed
    assert titles(other.replica) == ["new", "one"] and other.ledger.epoch() == renewed


def test_database_restored_while_no_replica_ran_is_noticed_at_the_start(
    postgres_core, settings, database, folder
):
    ada = postgres_core.person("ada", 4)
    first = ReadReplica(settings, postgres_core.ledger, folder / "other", embedders=Embedders(None))
    for title in ("one", "two"):
        ada.post("/threads", {"title": title})
    assert titles(first) == ["two", "one"]
    first.close()
    epoch = postgres_core.ledger.epoch()
    go_back(database, 1)
    write_past(postgres_core.ledger, "new", "newer")  # past where both replicas were
    again = ReadReplica(settings, postgres_core.ledger, folder / "other", embedders=Embedders(None))
    try:
        assert titles(again) == ["newer", "new", "one"] and postgres_core.ledger.epoch() != epoch
    finally:
        again.close()


@pytest.mark.parametrize("written", [1, 2, 3])
def test_restored_database_that_another_core_wrote_past_is_noticed(
    postgres_core, open_core, database, folder, written
):
    other = open_core(database, folder / "other")
    write_past(postgres_core.ledger, "one", "lost", "lost, too")
    assert titles(postgres_core.replica) == titles(other.replica) == ["lost, too", "lost", "one"]
    go_back(database, 1)
    new = [f"new {number}" for number in range(written)]
    write_past(other.ledger, *new)  # before any of the two has looked
    assert titles(postgres_core.replica) == titles(other.replica) == [*new[::-1], "one"]
    assert postgres_core.replica.lag() == other.replica.lag() == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_idle_ledger_is_not_asked_for_its_witness(open_core, database, folder, monkeypatch, kind):
    core = open_core(*(() if kind == "sqlite" else (database, folder / "replica")))
    write_past(core.ledger, "one")
    asked: list[str] = []
    monkeypatch.setattr(Ledger, "remembers", lambda self, witness: asked.append(witness) or True)
    for number in range(3):  # of what is no record, too
        core.replica.take_over()
        asked.clear()
        core.replica.take_over()
        core.replica.keep_up()
        assert not asked
        core.person(f"p{number}", 1)


def write_past(ledger: Ledger, *titles: str) -> None:
    """Write threads without any replica following."""
    for title in titles:
        ledger.records.perform(
            lambda step, title=title: step.make(new_id(Thread), Thread(title)).id,
            TransactionOptions(
                actor=person(),
                key=title,
                action="create_thread",
                payload="",
                wording=lambda record, get: None,
            ),
        )


def test_directory_of_a_sqlite_ledger_is_refused_as_a_replica(postgres_core, settings, folder):
    store = Store(folder / "mine") if (folder / "mine").mkdir() is None else None
    assert store is not None
    store.close()
    ledger = open_ledger(f"sqlite:///{folder / 'mine'}")
    replica = ReadReplica(settings, ledger, folder / "mine", embedders=Embedders(None))
    with replica.viewed_by(ALL):
        create(replica, Thread("mine"), actor=person())
    replica.close()
    ledger.close()
    with pytest.raises(StoreError, match="something else"):
        ReadReplica(settings, postgres_core.ledger, folder / "mine", embedders=Embedders(None))


def test_replica_on_a_full_disk_still_reads_and_its_write_is_replayed(postgres_core):
    ada = postgres_core.person("ada", 4)
    ada.post("/threads", {"title": "before"})
    connections = postgres_core.replica.back.store._connections
    with connections.write() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    text = "".join(random.Random(1).choices(string.ascii_letters, k=45_000))
    sent = {"title": "after", "body_md": text}
    response = ada.ask("POST", "/threads", sent, key="one")
    assert response.status_code == 503 and response.headers["Retry-After"] == "1"
    assert [row["title"] for row in ada.get("/threads")] == ["before"]
    with connections.write() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    again = ada.ask("POST", "/threads", sent, key="one")
    assert again.headers["X-Idempotency-Replayed"] == "true"
    assert [row["title"] for row in ada.get("/threads")] == ["after", "before"]


def test_record_is_readable_while_its_indexing_fails(core, ada, monkeypatch):
    def fail(*rest, **more):
        raise FileError("DISK_FULL", "the disk is full")

    monkeypatch.setattr(core.replica.back.embedding, "catch_up", fail)
    thread = ada.post("/threads", {"title": "late"})
    assert ada.get(f"/threads/{thread['id']}")["title"] == "late"
    assert ada.post("/search", {"query": "nothing says this"}).get("results", []) == []
    monkeypatch.undo()
    assert ada.post("/search", {"query": "late"})["results"][0]["id"] == thread["id"]


def test_code_link_is_not_resolved_on_the_server(core, folder):
    (folder / "secret.txt").write_text("anything", encoding="utf-8")
    link = CodeLink("secret.txt", root=str(folder), file_hash="00" * 16)
    with core.replica.viewed_by(ALL):
        create(core.replica, Thread("Files", code_links=(link,)), actor=person())
    ada = core.person("ada", 4)
    assert ada.post("/search", {"query": "files"})["results"][0].get("warnings") is None
    row = ada.get("/threads")[0]
    assert "root" not in row["code_links"][0] and str(folder) not in str(row)


def test_visibility_change_applies_at_once_while_indexing_fails(core, ada, monkeypatch):
    def fail(*rest, **more):
        raise FileError("DISK_FULL", "the disk is full")

    bob = core.person("bob", 2)
    ada.post("/subcortexes", {"slug": "plans", "name": "Plans"})
    ada.post("/threads", {"title": "a", "subcortex_id": "plans"})
    assert len(bob.get("/threads")) == 1
    monkeypatch.setattr(core.replica.back.embedding, "catch_up", fail)
    ada.patch("/subcortexes/plans", {"visibility": "private"})
    assert bob.get("/threads") == [] == bob.get("/subcortexes")


def test_reads_and_health_do_not_wait_for_blocked_writes(postgres_core, database, until):
    import psycopg

    ada = postgres_core.person("ada", 4)
    ada.post("/threads", {"title": "before"})
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with ThreadPoolExecutor(24) as pool, psycopg.connect(database, autocommit=True) as watch:
        with psycopg.connect(database) as holder:
            holder.execute("SELECT value FROM counters WHERE name = 'change' FOR UPDATE")
            writes = [
                pool.submit(ada.ask, "POST", "/threads", {"title": str(number)})
                for number in range(24)
            ]
            until(lambda: watch.execute(waiting).fetchone() == (WRITERS,))
            assert [row["title"] for row in ada.get("/threads")] == ["before"]
            until(lambda: postgres_core.http.get("/health").status_code == 200)
            assert not any(write.done() for write in writes)
        assert {write.result().status_code for write in writes} == {201}
    assert len(ada.get("/threads")) == 25


def test_warming_the_replica_shows_no_records(core, ada):
    core.replica.warm()  # there is nothing yet
    ada.post("/threads", {"title": "Anything at all", "body_md": "Anything."})
    core.replica.warm()
    assert not core.replica.store.records.has()
    assert len(ada.post("/search", {"query": "anything"})["results"]) == 1
