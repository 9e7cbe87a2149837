"""Who may see and write what is judged when it is one's turn to write: what became private while
one waited is private.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex.base.record_model import Actor
from cortex.engine.store import RecordTransaction, TransactionOptions
from cortex.engine.store.records.ledger import open_ledger
from cortex.families.team.index_text import wording
from interfaces.team_server.conftest import Client, Place
from interfaces.team_server.test_app_sync import action, change


@pytest.fixture
def away(open_place: Callable[..., Place], database: str, folder: Path) -> Place:
    return open_place(database, folder / "replica")


class Hidden:
    """A thread in a subcortex that everybody saw, and what another Core writes there meanwhile."""

    def __init__(self, place: Place, database: str) -> None:
        self.ada, self.eve = place.person("ada", 4), place.person("eve", 2)
        self.database = database
        self.scope = self.ada.post("/subcortexes", {"slug": "payroll", "name": "Payroll"})["id"]
        self.thread = self.ada.post(
            "/threads", {"title": "Pay", "body_md": "old", "subcortex_id": self.scope}
        )["id"]
        told = {"title": "Pay", "body": "old", "subcortex": self.scope}
        self.same = {**change("Pay", self.thread), "author": "ada", "before": told, "after": told}

    def hide(self, step: RecordTransaction) -> str:
        for number, news in (
            (self.scope, {"visibility": "private"}),
            (self.thread, {"body": "salaries"}),
        ):
            found = step.get(number)
            assert found is not None
            step.put(replace(found, body=replace(found.body, **news)))
        return ""

    @contextmanager
    def hidden_meanwhile(self, sent_away: str = "") -> Iterator[Callable[..., Future[Any]]]:
        """Whoever asks inside the block waits for their turn, and has it when the block ends."""
        import psycopg

        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        asked: list[Future[Any]] = []
        with (
            ThreadPoolExecutor(4) as pool,
            psycopg.connect(self.database, autocommit=True) as watch,
        ):

            def ask(client: Client, *rest: Any, **more: Any) -> Future[Any]:
                asked.append(pool.submit(client.ask, *rest, **more))
                return asked[-1]

            with open_ledger(self.database) as other, other.together():
                other.records.perform(
                    self.hide,
                    TransactionOptions(
                        actor=Actor("ada", 4),
                        key="k",
                        action="edit",
                        payload="",
                        wording=lambda *rest: None,
                    ),
                )
                if found := other.principals.named(sent_away):
                    other.principals.change(found.id, state="revoked")
                yield ask
                deadline = time.monotonic() + 10
                while watch.execute(waiting).fetchone() != (len(asked),):
                    assert time.monotonic() < deadline
                    time.sleep(0.005)


def test_who_waited_for_their_turn_neither_sees_nor_writes_what_became_private_meanwhile(
    away: Place, database: str
):
    hidden = Hidden(away, database)
    typed = {**hidden.same, "after": {**hidden.same["after"], "title": "Mine"}}
    new = change("New", subcortex=hidden.scope)
    sent = {"actions": [action("same", hidden.same), action("typed", typed), action("new", new)]}
    with hidden.hidden_meanwhile() as ask:
        flushed = ask(hidden.eve, "POST", "/sync/flush", sent, key=None)
        patched = ask(hidden.eve, "PATCH", f"/threads/{hidden.thread}", {"title": "Mine"})
        own = ask(
            hidden.ada, "POST", "/sync/flush", {"actions": [action("own", hidden.same)]}, key=None
        )
    told = flushed.result()
    assert [one["status"] for one in told.json()["data"]["results"]] == ["refused"] * 3
    assert "salaries" not in told.text and "Pay" not in told.text
    assert patched.result().status_code == 503 and "salaries" not in patched.result().text
    assert own.result().json()["data"]["results"][0]["records"][0]["body"]["body"] == "salaries"
    kept = hidden.ada.get(f"/threads/{hidden.thread}")
    assert (kept["title"], len(hidden.ada.get("/threads"))) == ("Pay", 1)
    assert (
        hidden.eve.ask("PATCH", f"/threads/{hidden.thread}", {"title": "Mine"}).status_code == 404
    )


def test_who_is_sent_away_while_they_wait_writes_nothing(away: Place, database: str):
    hidden = Hidden(away, database)
    with hidden.hidden_meanwhile(sent_away="eve") as ask:
        flushed = ask(
            hidden.eve, "POST", "/sync/flush", {"actions": [action("new", change("New"))]}, key=None
        )
        written = ask(hidden.eve, "POST", "/threads", {"title": "New"})
    assert (flushed.result().status_code, written.result().status_code) == (401, 401)
    assert [one["title"] for one in hidden.ada.get("/threads")] == ["Pay"]


def test_who_is_sent_away_while_they_wait_lets_nobody_in(away: Place, database: str):
    hidden = Hidden(away, database)
    hidden.ada.patch("/principals/eve", {"tier": 4})
    with hidden.hidden_meanwhile(sent_away="eve") as ask:
        asked = [
            ask(hidden.eve, "POST", "/principals", {"name": "eve2", "tier": 4}),
            ask(hidden.eve, "PATCH", "/principals/eve", {"status": "active"}),
            ask(hidden.eve, "POST", "/principals/ada/tokens", {}),
        ]
    assert [one.result().status_code for one in asked] == [401] * 3
    assert [one["status"] for one in hidden.ada.get("/principals")] == ["active", "revoked"]
    assert len(hidden.ada.get("/tokens")) == 2


def test_two_who_may_do_everything_do_not_lock_each_other_out(away: Place, database: str):
    hidden = Hidden(away, database)
    hidden.ada.patch("/principals/eve", {"tier": 4})
    with hidden.hidden_meanwhile() as ask:
        asked = [
            ask(hidden.ada, "PATCH", "/principals/eve", {"tier": 3}),
            ask(hidden.eve, "PATCH", "/principals/ada", {"tier": 3}),
        ]
    assert sorted(one.result().status_code for one in asked) == [200, 403]
    assert sorted(one.tier for one in away.ledger.principals.all()) == [3, 4]


def test_what_a_directory_has_is_judged_the_same(place: Place, ada: Client):
    """Where the ledger is a directory, nothing comes between."""
    scope = ada.post("/subcortexes", {"slug": "payroll", "name": "Payroll"})["id"]
    eve = place.person("eve", 2)
    told = eve.post(
        "/sync/flush", {"actions": [action("a", change("A", subcortex=scope))]}, key=None
    )
    assert [one["status"] for one in told["results"]] == ["applied"]
    ada.patch("/subcortexes/payroll", {"visibility": "private"})
    told = eve.post(
        "/sync/flush", {"actions": [action("b", change("B", subcortex=scope))]}, key=None
    )
    assert [one["error"]["code"] for one in told["results"]] == ["SCOPE_NOT_FOUND"]


def test_what_becomes_private_while_somebody_comes_to_read_it_is_not_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    hidden, replica = Hidden(place, ""), place.replica
    come, left = replica.viewed_by, [1]

    @contextmanager
    def come_late(viewer: Any) -> Iterator[Any]:
        if left:
            left.clear()
            step = place.ledger.records.perform(
                hidden.hide,
                TransactionOptions(
                    actor=Actor("ada", 4),
                    key="hide",
                    action="hide",
                    payload="",
                    wording=wording(replica.settings),
                ),
            )
            assert step.replayed is False
            replica.keep_up()
        with come(viewer) as visit:
            yield visit

    monkeypatch.setattr(replica, "viewed_by", come_late)
    response = hidden.eve.ask("GET", f"/threads/{hidden.thread}")
    assert not left and response.status_code == 404 and "salaries" not in response.text
