"""The change feed: records that became hidden are invalidated, no change is skipped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cortex.base.errors import StoreError
from cortex.base.record_model import Actor, Link
from cortex.engine.store import RecordTransaction, TransactionOptions
from cortex.families.team.ids import fresh_key, new_id
from cortex.interfaces.team_server import change_feed
from interfaces.team_server.conftest import Client, RunningCore
from interfaces.team_server.sync_requests import action, pull


@pytest.fixture
def cat(core: RunningCore) -> Client:
    """A client of a principal who sees neither private nor sensitive records."""
    return core.person("cat", 3)


def make_private(ada: Client) -> str:
    return ada.post(
        "/subcortexes", {"slug": "payroll", "name": "Payroll", "visibility": "private"}
    )["id"]


@pytest.mark.parametrize("where", ["in a private subcortex", "sensitive"])
def test_observation_attached_to_a_hidden_thread_is_invalidated(ada, cat, where):
    sent = (
        {"sensitivity": "sensitive"}
        if where == "sensitive"
        else {"subcortex_id": make_private(ada)}
    )
    thread = ada.post("/threads", {"title": "Salaries", **sent})["id"]
    seen = ada.post("/observations", {"title": "Five thousand"})["id"]
    got, _, cursor = pull(cat)
    assert seen in [update["id"] for update in got]
    ada.patch(f"/observations/{seen}", {"linked_thread_id": thread})
    assert cat.ask("GET", f"/observations/{seen}").status_code == 404
    assert pull(cat, cursor)[:2] == ([], [seen])


def test_records_attached_through_others_are_invalidated_with_their_thread(ada, cat):
    private = make_private(ada)
    thread, other = (ada.post("/threads", {"title": name})["id"] for name in ("Salaries", "Lunch"))
    seen = ada.post("/observations", {"title": "Five thousand", "linked_thread_id": thread})["id"]
    link = ada.post(
        "/links",
        {"source_id": seen, "relation": "supports", "target_id": other, "note": "Bob has less"},
    )
    got, _, cursor = pull(cat)
    assert {seen, link["id"]} <= {update["id"] for update in got}
    ada.patch(f"/threads/{thread}", {"subcortex_id": private})
    assert set(pull(cat, cursor)[1]) == {thread, seen, link["id"]}


def test_record_that_was_always_hidden_is_never_invalidated(ada, cat):
    one, two = (ada.post("/threads", {"title": name})["id"] for name in ("one", "two"))
    _, _, cursor = pull(cat)
    hidden = {"sensitivity": "sensitive"}
    ada.post("/observations", {"title": "x", "linked_thread_id": one, **hidden})
    ada.post(
        "/drafts",
        {"type": "comment", "body_md": "x", "target_type": "thread", "target_id": one, **hidden},
    )
    ada.post(f"/threads/{one}/comments", {"body_md": "x", **hidden})
    after = {"source": one, "relation": "supports", "target": two, **hidden}
    sent = {
        "id": new_id(Link),
        "kind": "link",
        "author": "person",
        "created": 1,
        "before": None,
        "after": after,
    }
    (result,) = ada.post("/sync/flush", {"actions": [action("link", sent)]}, key=None)["results"]
    assert result["status"] == "applied"
    assert pull(cat, cursor)[1] == []


def test_record_shown_again_during_a_pull_is_updated_not_invalidated(ada, cat, core, monkeypatch):
    thread, private = ada.post("/threads", {"title": "Plan"})["id"], make_private(ada)
    _, _, cursor = pull(cat)
    ada.patch(f"/threads/{thread}", {"subcortex_id": private})
    ada.post("/threads", {"title": "Other"})
    showed, moved = change_feed._Past.showed, []

    def show_again(past: Any, record: Any, *steps: int) -> bool:
        if not moved:
            moved.append(record.id)
            move(core, thread, "")
        return showed(past, record, *steps)

    monkeypatch.setattr(change_feed._Past, "showed", show_again)
    page = cat.get("/sync/deltas", since=cursor, limit=2)
    assert moved == [thread]
    assert thread in [update["id"] for update in page["updates"]] and page["invalidations"] == []


def move(core: RunningCore, thread: str, subcortex: str) -> None:
    def work(step: RecordTransaction) -> str:
        found = step.get(thread)
        assert found is not None
        return step.put(replace(found, body=replace(found.body, subcortex=subcortex))).id

    how = {"actor": Actor("ada", 4), "key": fresh_key(), "action": "edit", "payload": ""}
    core.ledger.records.perform(work, TransactionOptions(wording=lambda record, get: None, **how))


def test_deltas_of_another_history_wait_until_the_replica_follows_it(postgres_core, monkeypatch):
    ada, bob = postgres_core.person("ada", 4), postgres_core.person("bob", 4)
    titles = [ada.post("/threads", {"title": str(number)})["id"] for number in range(4)]
    with postgres_core.ledger.connections.write() as connection:  # put back to where there was one
        connection.execute("ALTER TABLE audit DISABLE TRIGGER audit_kept")
        for number in titles[1:]:
            connection.execute("DELETE FROM audit WHERE record = ?", (number,))
            connection.execute("DELETE FROM records WHERE id = ?", (number,))
        connection.execute("UPDATE counters SET value = 1 WHERE name = 'change'")
    postgres_core.ledger.renew_epoch()

    def full(*_: object, **__: object) -> int:
        raise StoreError("STORE_IO", "the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(postgres_core.replica.back.store.records, "apply", full)
        for method, path, body in (
            ("GET", "/sync/deltas", None),
            ("POST", "/sync/visible", {"ids": titles}),
        ):
            assert bob.ask(method, path, body, key=None).status_code == 503
    new = [ada.post("/threads", {"title": f"new {number}"})["id"] for number in range(5)]
    assert [update["id"] for update in pull(bob)[0]] == [titles[0], *new]
