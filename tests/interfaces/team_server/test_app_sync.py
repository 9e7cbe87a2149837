"""What homes sync with over HTTP: a beginning, pages of changes, what leaves, writes in order, and
which ids are visible.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from cortex.base.record_model import Thread
from cortex.engine.store import STORE_NAME
from cortex.families.team.ids import new_id
from interfaces.team_server.conftest import Client


def change(title: str, number: str = "", **body: Any) -> dict[str, Any]:
    """A new thread, as a home tells it."""
    return {
        "id": number or new_id(Thread),
        "kind": "thread",
        "author": "person",
        "created": 1,
        "before": None,
        "after": {"title": title, **body},
    }


def action(key: str, *changes: dict[str, Any], **payload: Any) -> dict[str, Any]:
    told = {"actor": "person", "tier": 4, "at": 1, "changes": list(changes), **payload}
    return {"idempotency_key": f"{key}@home/person", "action": "create_thread", "payload": told}


def pull(
    client, cursor: str = "", view: str = "", **more: Any
) -> tuple[list[dict], list[str], str]:
    """All pages from a cursor on."""
    updates, gone = [], []
    while True:
        page = client.get("/sync/deltas", since=cursor, view=view, **more)
        updates += page["updates"]
        gone += page["invalidations"]
        cursor = page["next_cursor"]
        if not page["has_more"]:
            return updates, gone, cursor


def test_it_begins_with_who_one_is_and_what_to_know_first(ada, place):
    ada.post(
        "/subcortexes",
        {
            "slug": "queues",
            "name": "Queues",
            "glossary": [{"term": "DLQ", "meaning": "dead letters"}],
        },
    )
    artifact = ada.post("/artifacts", {"title": "Retries", "subcortex_id": "queues"})
    ada.patch("/subcortexes/queues", {"pinned_artifacts": [artifact["id"]]})
    told = ada.get("/sync/bootstrap")
    assert told == ada.post("/sync/bootstrap", key=None)
    assert told["principal"] == {"name": "ada", "tier": 4, "sensitive": True}
    assert (told["epoch"], told["sync_cursor"]) == (place.ledger.epoch(), "")
    assert [one["body"]["slug"] for one in told["subcortexes"]] == ["queues"]
    assert [one["id"] for one in told["pinned_artifacts"]] == [artifact["id"]]
    assert told["glossary"] == [{"term": "DLQ", "meaning": "dead letters", "subcortex": "queues"}]


def test_changes_come_in_pages_each_record_once_as_it_is_now(ada):
    ids = [ada.post("/threads", {"title": str(number)})["id"] for number in range(7)]
    ada.patch(f"/threads/{ids[0]}", {"title": "changed"})
    updates, gone, cursor = pull(ada, limit=3)
    assert [one["id"] for one in updates] == [*ids[1:], ids[0]] and gone == []
    assert [update["change"] for update in updates] == sorted(one["change"] for one in updates)
    assert updates[-1]["body"] == {"title": "changed"}
    assert pull(ada, cursor) == ([], [], cursor)
    new = ada.post("/threads", {"title": "new"})
    assert [one["id"] for one in pull(ada, cursor)[0]] == [new["id"]]


def test_who_sees_little_gets_that_and_not_a_word_of_the_rest(ada, place):
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    hidden = [
        ada.post("/threads", {"title": f"secret {number}", "subcortex_id": "salaries"})["id"]
        for number in range(5)
    ]
    ada.patch(f"/threads/{hidden[0]}", {"title": "still secret"})
    seen = ada.post("/threads", {"title": "open"})
    bob = place.person("bob", 3)
    response = bob.ask("GET", "/sync/deltas", params={"limit": 2})
    page = response.json()["data"]
    assert [one["id"] for one in page["updates"]] == [seen["id"]]
    assert page["invalidations"] == [] and not page["has_more"]
    assert not any(number in response.text for number in hidden)


def test_what_may_not_be_seen_any_more_is_told_by_its_id_alone(ada, place):
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    ada.post("/subcortexes", {"slug": "plans", "name": "Plans"})
    bob = place.person("bob", 2)
    moved = bob.post("/threads", {"title": "moves"})
    about = bob.post("/observations", {"title": "of it", "linked_thread_id": moved["id"]})
    task = bob.post("/tasks", {"title": "moves"})
    done = bob.post("/observations", {"title": "of the task", "linked_task_id": task["id"]})
    draft = bob.post(
        "/drafts",
        {"type": "thread", "title": "for plans", "target_id": "plans", "target_type": "subcortex"},
    )
    private = bob.post("/threads", {"title": "becomes sensitive"})
    closed = bob.post("/threads", {"title": "in what becomes private", "subcortex_id": "plans"})
    stays = bob.post("/threads", {"title": "stays"})
    updates, _, cursor = pull(bob)
    assert {update["id"] for update in updates} >= {
        moved["id"],
        about["id"],
        private["id"],
        closed["id"],
        stays["id"],
    }
    ada.patch(f"/threads/{moved['id']}", {"subcortex_id": "salaries"})
    ada.patch(f"/tasks/{task['id']}", {"subcortex_id": "salaries"})
    ada.patch(f"/threads/{private['id']}", {"sensitivity": "sensitive"})
    ada.patch("/subcortexes/plans", {"visibility": "private"})
    updates, gone, after = pull(bob, cursor)
    plans = ada.get("/subcortexes/plans")["id"]
    assert set(gone) >= {moved["id"], private["id"], closed["id"], about["id"], plans}
    assert set(gone) >= {task["id"], done["id"], draft["id"]}
    assert not {one["id"] for one in updates} & set(gone)
    ada.patch(f"/threads/{moved['id']}", {"subcortex_id": ""})
    assert moved["id"] in {one["id"] for one in pull(bob, after)[0]}


def test_another_history_and_other_rights_want_everything_anew(ada, place):
    bob = place.person("bob", 2)
    page = bob.get("/sync/deltas")
    ada.patch("/principals/bob", {"sensitive": True})
    error = bob.refused(
        410,
        "RESYNC_NEEDED",
        bob.ask("GET", "/sync/deltas", params={"since": page["next_cursor"], "view": page["view"]}),
    )
    assert error["details"] == [{"reason": "view"}]
    place.ledger.renew_epoch()
    error = bob.refused(
        410, "RESYNC_NEEDED", bob.ask("GET", "/sync/deltas", params={"since": page["next_cursor"]})
    )
    assert error["details"] == [{"reason": "epoch"}]
    assert bob.get("/sync/deltas")["epoch"] == place.ledger.epoch() != page["epoch"]


def test_a_database_that_was_put_back_by_other_means_is_noticed_even_where_more_was_written_since(
    ada, place, open_place, folder
):
    ada.post("/threads", {"title": "kept"})
    kept = pull(ada)[2]
    (folder / "back").mkdir()
    with (
        sqlite3.connect(folder / "ledger" / STORE_NAME) as now,
        sqlite3.connect(folder / "back" / STORE_NAME) as back,
    ):
        now.backup(back)
    now.close()
    back.close()
    ada.post("/threads", {"title": "lost"})
    lost = pull(ada)[2]
    old = open_place(f"sqlite:///{folder / 'back'}", folder / "back")
    again = Client(old.http, ada.token)
    for title in ("new", "newer", "newest"):
        error = again.refused(
            410, "RESYNC_NEEDED", again.ask("GET", "/sync/deltas", params={"since": lost})
        )
        assert error["details"] == [{"reason": "epoch"}]
        again.post("/threads", {"title": title})
    assert [one["body"]["title"] for one in pull(again, kept)[0]] == ["new", "newer", "newest"]
    invented = f"{old.ledger.epoch()}:9{'':0>9}"
    again.refused(
        410, "RESYNC_NEEDED", again.ask("GET", "/sync/deltas", params={"since": invented})
    )


def test_what_can_not_even_be_read_is_refused_with_the_records_as_they_are_and_may_be_seen(
    ada, place
):
    bob = place.person("bob", 2, {})
    thread = ada.post("/threads", {"title": "as it is"})["id"]
    odd = action(
        "odd",
        {"id": thread, "kind": "thread", "after": {"titel": 1}},
        {"id": "\x00"},
        {"id": 7},
        "x",
    )
    for client, there in ((ada, ["as it is"]), (bob, [])):
        [told] = client.post("/sync/flush", {"actions": [odd]}, key=None)["results"]
        assert (told["status"], told["error"]["code"]) == ("refused", "RECORD_INVALID")
        assert [one["body"]["title"] for one in told["records"]] == there
    [bare] = ada.post(
        "/sync/flush", {"actions": [{**odd, "payload": {"changes": [{"id": thread}]}}]}, key=None
    )["results"]
    assert (bare["status"], bare["records"][0]["id"]) == ("refused", thread)


def test_who_begins_at_the_start_hears_of_nothing_that_was_hidden_by_then_but_of_all_that_is_hidden_since(
    ada, place
):
    bob = place.person("bob", 2)
    threads = [ada.post("/threads", {"title": str(number)})["id"] for number in range(4)]
    ada.patch(f"/threads/{threads[1]}", {"sensitivity": "sensitive"})
    first = bob.get("/sync/deltas", limit=1)
    ada.patch(f"/threads/{threads[0]}", {"sensitivity": "sensitive"})
    updates, gone, cursor = pull(bob, first["next_cursor"], limit=1)
    assert [one["id"] for one in (*first["updates"], *updates)] == [threads[0], *threads[2:]]
    assert (first["invalidations"], gone) == ([], [threads[0]])
    ada.patch(f"/threads/{threads[2]}", {"sensitivity": "sensitive"})
    assert pull(bob, cursor)[1] == [threads[2]]


def test_writes_are_taken_in_order_once_for_each_key(ada):
    one, two = change("one"), change("two")
    results = ada.post("/sync/flush", {"actions": [action("a", one), action("b", two)]}, key=None)[
        "results"
    ]
    assert [(row["status"], row["idempotency_key"]) for row in results] == [
        ("applied", "a@home/person"),
        ("applied", "b@home/person"),
    ]
    assert [row["records"][0]["author"] for row in results] == ["ada", "ada"]
    again = ada.post("/sync/flush", {"actions": [action("b", two)]}, key=None)["results"]
    assert (again[0]["status"], again[0]["id"]) == ("replayed", two["id"])
    assert [row["title"] for row in ada.get("/threads")] == ["two", "one"]
    assert ada.post("/search", {"query": "two"})["results"][0]["id"] == two["id"]


def test_what_is_refused_is_told_with_its_reason_and_does_not_stop_the_rest(ada, place):
    bob = place.person("bob", 1)
    results = ada.post(
        "/sync/flush",
        {
            "actions": [
                action("a", change("")),
                action("b", {**change("x"), "kind": "poem"}),
                action("c", change("fine")),
            ]
        },
        key=None,
    )["results"]
    assert [row["status"] for row in results] == ["refused", "refused", "applied"]
    assert all(row["error"]["code"] == "RECORD_INVALID" for row in results[:2])
    denied = bob.post("/sync/flush", {"actions": [action("d", change("no"))]}, key=None)["results"][
        0
    ]
    assert (denied["status"], denied["error"]["code"]) == ("refused", "RIGHTS_MISSING")


def test_after_one_that_has_to_be_tried_again_nothing_is_taken(ada, monkeypatch):
    from cortex.base.errors import StoreError
    from cortex.interfaces.team_server.apply import batch
    from cortex.interfaces.team_server.apply.action import Accepted

    told = StoreError("STORE_LOCKED", "another one writes")
    monkeypatch.setattr(batch, "accept", lambda *rest: Accepted("retry", (), told))
    results = ada.post(
        "/sync/flush", {"actions": [action("a", change("a")), action("b", change("b"))]}, key=None
    )["results"]
    assert [row["status"] for row in results] == ["retry", "retry"]


def test_a_flush_that_is_none_is_a_bad_request(ada):
    for body in (
        {},
        {"actions": {}},
        {"actions": [5]},
        {"actions": [{}]},
        {"actions": [action("a", change("a"))] * 51},
    ):
        ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/sync/flush", body))
    deep: Any = []
    for _ in range(60):
        deep = [deep]
    odd = action("a", change("a"))
    odd["payload"]["changes"][0]["after"]["title"] = deep
    assert ada.post("/sync/flush", {"actions": [odd]})["results"][0]["status"] == "refused"


def test_it_is_told_which_ids_are_visible_and_which_nobody_knows(ada, place):
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    hidden = ada.post("/threads", {"title": "a", "subcortex_id": "salaries"})["id"]
    seen, unknown = ada.post("/threads", {"title": "b"})["id"], new_id(Thread)
    bob = place.person("bob", 2)
    own = bob.post("/threads", {"title": "c"})["id"]
    ada.patch(f"/threads/{own}", {"subcortex_id": "salaries"})
    told = bob.post("/sync/visible", {"ids": [hidden, own, seen, unknown, "💥"]}, key=None)
    assert told == {"visible": [seen], "unknown": [unknown, "💥"]}, (
        "a copy of what is hidden goes, of what is lost it stays"
    )
    bob.refused(400, "VALIDATION_ERROR", bob.ask("POST", "/sync/visible", {"ids": ["a"] * 1_001}))


def test_notifications_that_wait_are_counted(ada, place):
    bob = place.person("bob", 2)
    ada.post("/tasks", {"title": "a", "assignee_ids": ["bob"]})
    assert bob.get("/sync/deltas")["notifications_count"] == 1
    assert json.dumps(ada.get("/sync/deltas")["notifications_count"]) == "0"
