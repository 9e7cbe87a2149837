"""What leaves a home because it may no longer be seen, whatever it hung on; and that no change is
ever passed by.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cortex.base.errors import StoreError
from cortex.base.record_model import Actor, Link
from cortex.engine.store import RecordTransaction, TransactionOptions
from cortex.families.team.ids import fresh_key, new_id
from cortex.interfaces.team_server import change_feed
from interfaces.team_server.conftest import Client, Place
from interfaces.team_server.test_app_sync import action, pull


@pytest.fixture
def cat(place: Place) -> Client:
    """Sees what is neither private nor sensitive."""
    return place.person("cat", 3)


def make_private(ada: Client) -> str:
    return ada.post(
        "/subcortexes", {"slug": "payroll", "name": "Payroll", "visibility": "private"}
    )["id"]


@pytest.mark.parametrize("where", ["in a private subcortex", "sensitive"])
def test_an_observation_that_is_attached_to_what_is_hidden_leaves(ada, cat, where):
    told = (
        {"sensitivity": "sensitive"}
        if where == "sensitive"
        else {"subcortex_id": make_private(ada)}
    )
    thread = ada.post("/threads", {"title": "Salaries", **told})["id"]
    seen = ada.post("/observations", {"title": "Five thousand"})["id"]
    got, _, cursor = pull(cat)
    assert seen in [one["id"] for one in got]
    ada.patch(f"/observations/{seen}", {"linked_thread_id": thread})
    assert cat.ask("GET", f"/observations/{seen}").status_code == 404
    assert pull(cat, cursor)[:2] == ([], [seen])


def test_what_hangs_on_what_hangs_on_a_thread_leaves_with_it(ada, cat):
    private = make_private(ada)
    thread, other = (ada.post("/threads", {"title": name})["id"] for name in ("Salaries", "Lunch"))
    seen = ada.post("/observations", {"title": "Five thousand", "linked_thread_id": thread})["id"]
    link = ada.post(
        "/links",
        {"source_id": seen, "relation": "supports", "target_id": other, "note": "Bob has less"},
    )
    got, _, cursor = pull(cat)
    assert {seen, link["id"]} <= {one["id"] for one in got}
    ada.patch(f"/threads/{thread}", {"subcortex_id": private})
    assert set(pull(cat, cursor)[1]) == {thread, seen, link["id"]}


def test_of_what_was_never_to_be_seen_not_even_the_id_is_told(ada, cat):
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
    told = {
        "id": new_id(Link),
        "kind": "link",
        "author": "person",
        "created": 1,
        "before": None,
        "after": after,
    }
    (result,) = ada.post("/sync/flush", {"actions": [action("link", told)]}, key=None)["results"]
    assert result["status"] == "applied"
    assert pull(cat, cursor)[1] == []


def test_what_is_shown_again_while_it_is_told_as_hidden_stays(ada, cat, place, monkeypatch):
    thread, private = ada.post("/threads", {"title": "Plan"})["id"], make_private(ada)
    _, _, cursor = pull(cat)
    ada.patch(f"/threads/{thread}", {"subcortex_id": private})
    ada.post("/threads", {"title": "Other"})
    showed, moved = change_feed._Past.showed, []

    def show_again(past: Any, record: Any, *steps: int) -> bool:
        if not moved:
            moved.append(record.id)
            move(place, thread, "")
        return showed(past, record, *steps)

    monkeypatch.setattr(change_feed._Past, "showed", show_again)
    page = cat.get("/sync/deltas", since=cursor, limit=2)
    assert moved == [thread]
    assert thread in [one["id"] for one in page["updates"]] and page["invalidations"] == []


def move(place: Place, thread: str, subcortex: str) -> None:
    def work(step: RecordTransaction) -> str:
        found = step.get(thread)
        assert found is not None
        return step.put(replace(found, body=replace(found.body, subcortex=subcortex))).id

    how = {"actor": Actor("ada", 4), "key": fresh_key(), "action": "edit", "payload": ""}
    place.ledger.records.perform(work, TransactionOptions(wording=lambda record, get: None, **how))


def test_of_another_history_nothing_is_told_before_it_is_followed(in_postgres, monkeypatch):
    ada, bob = in_postgres.person("ada", 4), in_postgres.person("bob", 4)
    titles = [ada.post("/threads", {"title": str(number)})["id"] for number in range(4)]
    with in_postgres.ledger.connections.write() as connection:  # put back to where there was one
        connection.execute("ALTER TABLE audit DISABLE TRIGGER audit_kept")
        for number in titles[1:]:
            connection.execute("DELETE FROM audit WHERE record = ?", (number,))
            connection.execute("DELETE FROM records WHERE id = ?", (number,))
        connection.execute("UPDATE counters SET value = 1 WHERE name = 'change'")
    in_postgres.ledger.renew_epoch()

    def full(*_: object, **__: object) -> int:
        raise StoreError("STORE_IO", "the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(in_postgres.replica.back.store.records, "apply", full)
        for method, path, body in (
            ("GET", "/sync/deltas", None),
            ("POST", "/sync/visible", {"ids": titles}),
        ):
            assert bob.ask(method, path, body, key=None).status_code == 503
    new = [ada.post("/threads", {"title": f"new {number}"})["id"] for number in range(5)]
    assert [one["id"] for one in pull(bob)[0]] == [titles[0], *new]
