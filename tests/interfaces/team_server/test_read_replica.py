"""The replica: it follows its ledger, shows nothing to nobody, refuses directories of others, and goes
on where it can't follow.
"""

from __future__ import annotations

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
            one.body.title for one in replica.store.records.select(RecordFilter(kinds=("thread",)))
        ]


def test_without_a_visitor_nothing_is_seen_and_nothing_written(place, ada):
    ada.post("/threads", {"title": "a"})
    assert place.replica.store.records.select(RecordFilter()) == []
    with pytest.raises(StoreError, match="nobody is there"):
        create(place.replica, Thread("b"), actor=person())
    assert titles(place.replica) == ["a"]


def test_damaged_words_are_built_anew_while_the_core_answers(place, ada):
    thread = ada.post("/threads", {"title": "How often do we retry?"})
    assert ada.post("/search", {"query": "retry"})["results"][0]["id"] == thread["id"]
    (words,) = place.replica.store.directory.glob("words-*")
    (words / "damaged").touch()  # as another process says that it failed there
    assert ada.post("/search", {"query": "retry"})["results"][0]["id"] == thread["id"]
    assert place.replica.back.store.check() == [] and not words.exists()


def test_two_halls_do_not_share_a_directory(place, open_place, settings, folder):
    with pytest.raises(StoreError, match="each Core needs its own"):
        ReadReplica(settings, place.ledger, folder / "ledger", embedders=Embedders(None))


def test_a_home_that_belongs_to_a_core_is_none(settings, folder):
    (folder / "home").mkdir()
    ledger = open_ledger(f"sqlite:///{folder / 'home'}")
    store = Store(folder / "home")
    store.content.set({"core.url": "https://core.example"})
    store.close()
    with pytest.raises(StoreError, match="something else"):
        ReadReplica(settings, ledger, folder / "home", embedders=Embedders(None))
    ledger.close()


@pytest.fixture
def away(open_place, database, folder):
    """A Core over a PostgreSQL."""
    return open_place(database, folder / "replica")


def test_what_is_in_a_database_is_read_and_found_in_a_replica_at_once(away):
    ada, bob = away.person("ada", 4), away.person("bob", 2)
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
    assert [one["version"] for one in ada.get(f"/artifacts/{artifact['id']}/versions")] == [2, 1]
    assert [one["action"] for one in ada.get("/audit", limit=2)] == [
        "edit_artifact",
        "create_artifact",
    ]
    told = [one["kind"] for one in bob.get("/sync/deltas")["updates"]]
    assert told == ["comment", "thread", "notification", "artifact"] and away.replica.lag() == 0
    ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/threads", {"title": "a\x00"}))
    ada.refused(404, "NOT_FOUND", ada.ask("GET", "/threads/%00"))
    assert ada.ask("GET", "/threads", params={"author": "\x00"}).status_code in (200, 400)


def test_what_another_process_writes_is_followed_and_another_history_built_anew(
    away, open_place, database, folder
):
    ada = away.person("ada", 4)
    ada.post("/threads", {"title": "before"})
    other = open_place(database, folder / "other")
    assert titles(other.replica) == ["before"]
    ada.post("/threads", {"title": "after"})
    assert titles(other.replica) == ["after", "before"]
    away.ledger.renew_epoch()
    assert titles(other.replica) == ["after", "before"]
    assert other.replica.back.store.content.get(EPOCH) == away.ledger.epoch()
    assert ada.post("/search", {"query": "after"})["results"]


def test_a_damaged_replica_is_filled_anew(away, open_place, database, folder):
    away.person("ada", 4).post("/threads", {"title": "kept"})
    open_place(database, folder / "other").replica.close()
    (folder / "other" / "cortex.db").write_bytes(b"garbage" * 1000)
    assert titles(open_place(database, folder / "other").replica) == ["kept"]


def go_back(database: str, change: int) -> None:
    """Put a database back to where it was after some change, as its own tools do: without telling
    anybody.
    """
    import psycopg

    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE audit DISABLE TRIGGER audit_kept")
        gone = "SELECT id FROM records WHERE change > %s"
        connection.execute(f"DELETE FROM audit WHERE record IN ({gone})", (change,))
        connection.execute("DELETE FROM records WHERE change > %s", (change,))
        connection.execute("UPDATE counters SET value = %s WHERE name = 'change'", (change,))
        connection.execute("ALTER TABLE audit ENABLE TRIGGER audit_kept")


def test_a_database_that_was_put_back_is_noticed_and_begins_another_history_once(
    away, open_place, database, folder
):
    other = open_place(database, folder / "other")
    ada = away.person("ada", 4)
    for title in ("one", "two", "three"):
        ada.post("/threads", {"title": title})
    assert titles(other.replica) == ["three", "two", "one"]
    epoch = away.ledger.epoch()
    go_back(database, 1)
    ada.post("/threads", {"title": "new"})
    assert titles(away.replica) == ["new", "one"] and away.replica.lag() == 0
    renewed = away.ledger.epoch()
    assert renewed != epoch and away.ledger.renew_epoch(epoch) == renewed
    assert titles(other.replica) == ["new", "one"] and other.ledger.epoch() == renewed


def test_a_database_that_was_put_back_while_nobody_followed_is_noticed_at_the_start(
    away, settings, database, folder
):
    ada = away.person("ada", 4)
    first = ReadReplica(settings, away.ledger, folder / "other", embedders=Embedders(None))
    for title in ("one", "two"):
        ada.post("/threads", {"title": title})
    assert titles(first) == ["two", "one"]
    first.close()
    epoch = away.ledger.epoch()
    go_back(database, 1)
    write_past(away.ledger, "new", "newer")  # past where both replicas were
    again = ReadReplica(settings, away.ledger, folder / "other", embedders=Embedders(None))
    try:
        assert titles(again) == ["newer", "new", "one"] and away.ledger.epoch() != epoch
    finally:
        again.close()


@pytest.mark.parametrize("written", [1, 2, 3])
def test_a_database_that_lost_what_another_core_wrote_past_since_is_noticed(
    away, open_place, database, folder, written
):
    other = open_place(database, folder / "other")
    write_past(away.ledger, "one", "lost", "lost, too")
    assert titles(away.replica) == titles(other.replica) == ["lost, too", "lost", "one"]
    go_back(database, 1)
    new = [f"new {number}" for number in range(written)]
    write_past(other.ledger, *new)  # before any of the two has looked
    assert titles(away.replica) == titles(other.replica) == [*new[::-1], "one"]
    assert away.replica.lag() == other.replica.lag() == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_ledger_where_nothing_happens_is_asked_for_one_number_only(
    open_place, database, folder, monkeypatch, kind
):
    place = open_place(*(() if kind == "sqlite" else (database, folder / "replica")))
    write_past(place.ledger, "one")
    asked: list[str] = []
    monkeypatch.setattr(Ledger, "remembers", lambda self, witness: asked.append(witness) or True)
    for number in range(3):  # of what is no record, too
        place.replica.take_over()
        asked.clear()
        place.replica.take_over()
        place.replica.keep_up()
        assert not asked
        place.person(f"p{number}", 1)


def write_past(ledger: Ledger, *titles: str) -> None:
    """Write threads, and have no replica hear of it."""
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


def test_a_replica_is_not_made_of_what_is_something_else(away, settings, folder):
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
        ReadReplica(settings, away.ledger, folder / "mine", embedders=Embedders(None))


def test_where_the_replica_can_not_follow_reading_goes_on_and_a_write_is_tried_again(
    away, monkeypatch
):
    ada = away.person("ada", 4)
    ada.post("/threads", {"title": "before"})
    full = FileError("DISK_FULL", "the disk is full")

    def fail(*rest, **more):
        raise full

    records = away.replica.back.store.records
    monkeypatch.setattr(records, "apply", fail)
    response = ada.ask("POST", "/threads", {"title": "after"}, key="one")
    assert response.status_code == 503 and response.headers["Retry-After"] == "1"
    assert [one["title"] for one in ada.get("/threads")] == ["before"]
    monkeypatch.undo()
    again = ada.ask("POST", "/threads", {"title": "after"}, key="one")
    assert again.headers["X-Idempotency-Replayed"] == "true"
    assert [one["title"] for one in ada.get("/threads")] == ["after", "before"]


def test_where_the_words_can_not_follow_what_was_written_is_read(place, ada, monkeypatch):
    def fail(*rest, **more):
        raise FileError("DISK_FULL", "the disk is full")

    monkeypatch.setattr(place.replica.back.embedding, "catch_up", fail)
    thread = ada.post("/threads", {"title": "late"})
    assert ada.get(f"/threads/{thread['id']}")["title"] == "late"
    assert ada.post("/search", {"query": "nothing says this"}).get("results", []) == []
    monkeypatch.undo()
    assert ada.post("/search", {"query": "late"})["results"][0]["id"] == thread["id"]


def test_what_a_link_to_code_names_is_not_looked_for_on_the_server(place, folder):
    (folder / "secret.txt").write_text("anything", encoding="utf-8")
    link = CodeLink("secret.txt", root=str(folder), file_hash="00" * 16)
    with place.replica.viewed_by(ALL):
        create(place.replica, Thread("Files", code_links=(link,)), actor=person())
    ada = place.person("ada", 4)
    assert ada.post("/search", {"query": "files"})["results"][0].get("warnings") is None
    row = ada.get("/threads")[0]
    assert "root" not in row["code_links"][0] and str(folder) not in str(row)


def test_who_may_see_what_follows_at_once_where_the_words_can_not(place, ada, monkeypatch):
    def fail(*rest, **more):
        raise FileError("DISK_FULL", "the disk is full")

    bob = place.person("bob", 2)
    ada.post("/subcortexes", {"slug": "plans", "name": "Plans"})
    ada.post("/threads", {"title": "a", "subcortex_id": "plans"})
    assert len(bob.get("/threads")) == 1
    monkeypatch.setattr(place.replica.back.embedding, "catch_up", fail)
    ada.patch("/subcortexes/plans", {"visibility": "private"})
    assert bob.get("/threads") == [] == bob.get("/subcortexes")


def test_whoever_reads_and_asks_how_it_is_does_not_wait_for_those_who_write(away, database, until):
    import psycopg

    ada = away.person("ada", 4)
    ada.post("/threads", {"title": "before"})
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with ThreadPoolExecutor(24) as pool, psycopg.connect(database, autocommit=True) as watch:
        with psycopg.connect(database) as holder:
            holder.execute("SELECT value FROM counters WHERE name = 'change' FOR UPDATE")
            writes = [
                pool.submit(ada.ask, "POST", "/threads", {"title": str(one)}) for one in range(24)
            ]
            until(lambda: watch.execute(waiting).fetchone() == (WRITERS,))
            assert [one["title"] for one in ada.get("/threads")] == ["before"]
            until(lambda: away.http.get("/health").status_code == 200)
            assert not any(one.done() for one in writes)
        assert {write.result().status_code for write in writes} == {201}
    assert len(ada.get("/threads")) == 25


def test_what_every_search_needs_is_fetched_before_anybody_asks_and_shown_to_nobody(place, ada):
    place.replica.warm()  # there is nothing yet
    ada.post("/threads", {"title": "Anything at all", "body_md": "Anything."})
    place.replica.warm()
    assert not place.replica.store.records.has()
    assert len(ada.post("/search", {"query": "anything"})["results"]) == 1
