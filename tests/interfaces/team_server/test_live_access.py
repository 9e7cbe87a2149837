"""Access is checked when a waiting write gets its turn, not when the request came."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from cortex.base.record_model import Actor
from cortex.engine.store import RecordTransaction, TransactionOptions
from cortex.engine.store.records.ledger import open_ledger
from cortex.families.team.index_text import wording
from interfaces.team_server.conftest import Client, RunningCore
from interfaces.team_server.sync_requests import action, change


class Hidden:
    """A thread in a visible subcortex that another Core makes private meanwhile."""

    def __init__(self, core: RunningCore, database: str) -> None:
        self.ada, self.eve = core.person("ada", 4), core.person("eve", 2)
        self.database = database
        self.scope = self.ada.post("/subcortexes", {"slug": "payroll", "name": "Payroll"})["id"]
        self.thread = self.ada.post(
            "/threads", {"title": "Pay", "body_md": "old", "subcortex_id": self.scope}
        )["id"]
        sent = {"title": "Pay", "body": "old", "subcortex": self.scope}
        self.same = {**change("Pay", self.thread), "author": "ada", "before": sent, "after": sent}

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
        """Queue requests inside the block; they get their turn when the block ends."""
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


def test_waiting_write_neither_reads_nor_changes_what_became_private_meanwhile(
    postgres_core: RunningCore, database: str
):
    hidden = Hidden(postgres_core, database)
    typed = {**hidden.same, "after": {**hidden.same["after"], "title": "Mine"}}
    new = change("New", subcortex=hidden.scope)
    sent = {"actions": [action("same", hidden.same), action("typed", typed), action("new", new)]}
    with hidden.hidden_meanwhile() as ask:
        flushed = ask(hidden.eve, "POST", "/sync/flush", sent, key=None)
        patched = ask(hidden.eve, "PATCH", f"/threads/{hidden.thread}", {"title": "Mine"})
        own = ask(
            hidden.ada, "POST", "/sync/flush", {"actions": [action("own", hidden.same)]}, key=None
        )
    answer = flushed.result()
    assert [result["status"] for result in answer.json()["data"]["results"]] == ["refused"] * 3
    assert "salaries" not in answer.text and "Pay" not in answer.text
    assert patched.result().status_code == 503 and "salaries" not in patched.result().text
    assert own.result().json()["data"]["results"][0]["records"][0]["body"]["body"] == "salaries"
    kept = hidden.ada.get(f"/threads/{hidden.thread}")
    assert (kept["title"], len(hidden.ada.get("/threads"))) == ("Pay", 1)
    assert (
        hidden.eve.ask("PATCH", f"/threads/{hidden.thread}", {"title": "Mine"}).status_code == 404
    )


def test_principal_revoked_while_waiting_writes_nothing(postgres_core: RunningCore, database: str):
    hidden = Hidden(postgres_core, database)
    with hidden.hidden_meanwhile(sent_away="eve") as ask:
        flushed = ask(
            hidden.eve, "POST", "/sync/flush", {"actions": [action("new", change("New"))]}, key=None
        )
        written = ask(hidden.eve, "POST", "/threads", {"title": "New"})
    assert (flushed.result().status_code, written.result().status_code) == (401, 401)
    assert [row["title"] for row in hidden.ada.get("/threads")] == ["Pay"]


def test_principal_revoked_while_waiting_adds_no_principal_or_token(
    postgres_core: RunningCore, database: str
):
    hidden = Hidden(postgres_core, database)
    hidden.ada.patch("/principals/eve", {"tier": 4})
    with hidden.hidden_meanwhile(sent_away="eve") as ask:
        asked = [
            ask(hidden.eve, "POST", "/principals", {"name": "eve2", "tier": 4}),
            ask(hidden.eve, "PATCH", "/principals/eve", {"status": "active"}),
            ask(hidden.eve, "POST", "/principals/ada/tokens", {}),
        ]
    assert [response.result().status_code for response in asked] == [401] * 3
    assert [row["status"] for row in hidden.ada.get("/principals")] == ["active", "revoked"]
    assert len(hidden.ada.get("/tokens")) == 2


def test_two_admins_demoting_each_other_at_once_leave_one_admin(
    postgres_core: RunningCore, database: str
):
    hidden = Hidden(postgres_core, database)
    hidden.ada.patch("/principals/eve", {"tier": 4})
    with hidden.hidden_meanwhile() as ask:
        asked = [
            ask(hidden.ada, "PATCH", "/principals/eve", {"tier": 3}),
            ask(hidden.eve, "PATCH", "/principals/ada", {"tier": 3}),
        ]
    assert sorted(response.result().status_code for response in asked) == [200, 403]
    assert sorted(row.tier for row in postgres_core.ledger.principals.all()) == [3, 4]


def test_flush_to_a_sqlite_ledger_respects_a_visibility_change(core: RunningCore, ada: Client):
    scope = ada.post("/subcortexes", {"slug": "payroll", "name": "Payroll"})["id"]
    eve = core.person("eve", 2)
    answer = eve.post(
        "/sync/flush", {"actions": [action("a", change("A", subcortex=scope))]}, key=None
    )
    assert [result["status"] for result in answer["results"]] == ["applied"]
    ada.patch("/subcortexes/payroll", {"visibility": "private"})
    answer = eve.post(
        "/sync/flush", {"actions": [action("b", change("B", subcortex=scope))]}, key=None
    )
    assert [result["error"]["code"] for result in answer["results"]] == ["SCOPE_NOT_FOUND"]


def test_record_made_private_while_a_read_begins_is_not_shown(
    core: RunningCore, monkeypatch: pytest.MonkeyPatch
):
    hidden, replica = Hidden(core, ""), core.replica
    come, left = replica.viewed_by, [1]

    @contextmanager
    def come_late(viewer: Any) -> Iterator[Any]:
        if left:
            left.clear()
            step = core.ledger.records.perform(
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
