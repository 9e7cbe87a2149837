"""Syncing over HTTP: bootstrap, deltas, invalidations, flushes, visible ids."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from cortex.base.record_model import Thread
from cortex.engine.store import STORE_NAME
from cortex.families.team.ids import new_id
from interfaces.team_server.conftest import Client
from interfaces.team_server.sync_requests import action, change, pull


def test_sync_bootstrap_has_the_principal_and_what_to_read_first(ada, core):
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
    answer = ada.get("/sync/bootstrap")
    assert answer == ada.post("/sync/bootstrap", key=None)
    assert answer["principal"] == {"name": "ada", "tier": 4, "sensitive": True}
    assert (answer["epoch"], answer["sync_cursor"]) == (core.ledger.epoch(), "")
    assert [scope["body"]["slug"] for scope in answer["subcortexes"]] == ["queues"]
    assert [pinned["id"] for pinned in answer["pinned_artifacts"]] == [artifact["id"]]
    assert answer["glossary"] == [{"term": "DLQ", "meaning": "dead letters", "subcortex": "queues"}]


def test_deltas_come_in_pages_with_each_record_once_in_its_present_state(ada):
    ids = [ada.post("/threads", {"title": str(number)})["id"] for number in range(7)]
    ada.patch(f"/threads/{ids[0]}", {"title": "changed"})
    updates, gone, cursor = pull(ada, limit=3)
    assert [update["id"] for update in updates] == [*ids[1:], ids[0]] and gone == []
    assert [update["change"] for update in updates] == sorted(
        update["change"] for update in updates
    )
    assert updates[-1]["body"] == {"title": "changed"}
    assert pull(ada, cursor) == ([], [], cursor)
    new = ada.post("/threads", {"title": "new"})
    assert [update["id"] for update in pull(ada, cursor)[0]] == [new["id"]]


def test_deltas_have_only_records_visible_to_their_reader(ada, core):
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    hidden = [
        ada.post("/threads", {"title": f"secret {number}", "subcortex_id": "salaries"})["id"]
        for number in range(5)
    ]
    ada.patch(f"/threads/{hidden[0]}", {"title": "still secret"})
    seen = ada.post("/threads", {"title": "open"})
    bob = core.person("bob", 3)
    response = bob.ask("GET", "/sync/deltas", params={"limit": 2})
    page = response.json()["data"]
    assert [update["id"] for update in page["updates"]] == [seen["id"]]
    assert page["invalidations"] == [] and not page["has_more"]
    assert not any(number in response.text for number in hidden)


def test_record_that_became_hidden_is_invalidated_by_its_id_alone(ada, core):
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    ada.post("/subcortexes", {"slug": "plans", "name": "Plans"})
    bob = core.person("bob", 2)
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
    assert not {update["id"] for update in updates} & set(gone)
    ada.patch(f"/threads/{moved['id']}", {"subcortex_id": ""})
    assert moved["id"] in {update["id"] for update in pull(bob, after)[0]}


def test_resync_is_required_after_another_history_or_other_rights(ada, core):
    bob = core.person("bob", 2)
    page = bob.get("/sync/deltas")
    ada.patch("/principals/bob", {"sensitive": True})
    error = bob.refused(
        410,
        "RESYNC_NEEDED",
        bob.ask("GET", "/sync/deltas", params={"since": page["next_cursor"], "view": page["view"]}),
    )
    assert error["details"] == [{"reason": "view"}]
    core.ledger.renew_epoch()
    error = bob.refused(
        410, "RESYNC_NEEDED", bob.ask("GET", "/sync/deltas", params={"since": page["next_cursor"]})
    )
    assert error["details"] == [{"reason": "epoch"}]
    assert bob.get("/sync/deltas")["epoch"] == core.ledger.epoch() != page["epoch"]


def test_restored_database_requires_a_resync_even_after_more_writes(ada, core, open_core, folder):
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
    old = open_core(f"sqlite:///{folder / 'back'}", folder / "back")
    again = Client(old.http, ada.token)
    for title in ("new", "newer", "newest"):
        error = again.refused(
            410, "RESYNC_NEEDED", again.ask("GET", "/sync/deltas", params={"since": lost})
        )
        assert error["details"] == [{"reason": "epoch"}]
        again.post("/threads", {"title": title})
    assert [update["body"]["title"] for update in pull(again, kept)[0]] == [
        "new",
        "newer",
        "newest",
    ]
    invented = f"{old.ledger.epoch()}:9{'':0>9}"
    again.refused(
        410, "RESYNC_NEEDED", again.ask("GET", "/sync/deltas", params={"since": invented})
    )


def test_unreadable_action_is_refused_with_the_visible_records_it_names(ada, core):
    bob = core.person("bob", 2, {})
    thread = ada.post("/threads", {"title": "as it is"})["id"]
    odd = action(
        "odd",
        {"id": thread, "kind": "thread", "after": {"titel": 1}},
        {"id": "\x00"},
        {"id": 7},
        "x",
    )
    for client, there in ((ada, ["as it is"]), (bob, [])):
        [answer] = client.post("/sync/flush", {"actions": [odd]}, key=None)["results"]
        assert (answer["status"], answer["error"]["code"]) == ("refused", "RECORD_INVALID")
        assert [record["body"]["title"] for record in answer["records"]] == there
    [bare] = ada.post(
        "/sync/flush", {"actions": [{**odd, "payload": {"changes": [{"id": thread}]}}]}, key=None
    )["results"]
    assert (bare["status"], bare["records"][0]["id"]) == ("refused", thread)


def test_sync_from_the_start_invalidates_only_records_hidden_since(ada, core):
    bob = core.person("bob", 2)
    threads = [ada.post("/threads", {"title": str(number)})["id"] for number in range(4)]
    ada.patch(f"/threads/{threads[1]}", {"sensitivity": "sensitive"})
    first = bob.get("/sync/deltas", limit=1)
    ada.patch(f"/threads/{threads[0]}", {"sensitivity": "sensitive"})
    updates, gone, cursor = pull(bob, first["next_cursor"], limit=1)
    assert [update["id"] for update in (*first["updates"], *updates)] == [threads[0], *threads[2:]]
    assert (first["invalidations"], gone) == ([], [threads[0]])
    ada.patch(f"/threads/{threads[2]}", {"sensitivity": "sensitive"})
    assert pull(bob, cursor)[1] == [threads[2]]


def test_flushed_actions_are_applied_in_order_and_once_for_each_key(ada):
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


def test_refused_action_has_its_reason_and_does_not_stop_the_rest(ada, core):
    bob = core.person("bob", 1)
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


def test_malformed_flush_is_a_bad_request(ada):
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


def test_sync_visible_separates_visible_hidden_and_unknown_ids(ada, core):
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    hidden = ada.post("/threads", {"title": "a", "subcortex_id": "salaries"})["id"]
    seen, unknown = ada.post("/threads", {"title": "b"})["id"], new_id(Thread)
    bob = core.person("bob", 2)
    own = bob.post("/threads", {"title": "c"})["id"]
    ada.patch(f"/threads/{own}", {"subcortex_id": "salaries"})
    answer = bob.post("/sync/visible", {"ids": [hidden, own, seen, unknown, "💥"]}, key=None)
    assert answer == {"visible": [seen], "unknown": [unknown, "💥"]}, (
        "a copy of a hidden record goes, that of a lost one stays"
    )
    bob.refused(400, "VALIDATION_ERROR", bob.ask("POST", "/sync/visible", {"ids": ["a"] * 1_001}))


def test_deltas_count_the_notifications_that_wait(ada, core):
    bob = core.person("bob", 2)
    ada.post("/tasks", {"title": "a", "assignee_ids": ["bob"]})
    assert bob.get("/sync/deltas")["notifications_count"] == 1
    assert json.dumps(ada.get("/sync/deltas")["notifications_count"]) == "0"
