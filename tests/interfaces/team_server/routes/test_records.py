"""Records over HTTP: every kind is written, read and changed; errors have their codes."""

from __future__ import annotations

import json

import pytest

from cortex.base.record_model import KINDS
from cortex.base.record_spec import spec_of

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
THREAD = {
    "title": "How often do we retry?",
    "body_md": "The queue retries 3 times.",
    "tags": ["queue"],
}


def test_a_subcortex_is_written_read_by_its_slug_and_changed(ada, scope):
    assert scope["slug"] == "queues" and scope["kind"] == "subcortex" and scope["version"] == 1
    assert ada.get("/subcortexes/queues") == scope == ada.get(f"/subcortexes/{scope['id']}")
    changed = ada.patch("/subcortexes/queues", {"charter_md": "All about queues", "version": 1})
    assert (changed["charter_md"], changed["version"], changed["glossary"]) == (
        "All about queues",
        2,
        scope["glossary"],
    )
    ada.refused(
        400,
        "VALIDATION_ERROR",
        ada.ask("POST", "/subcortexes", {"slug": "queues", "name": "Again"}),
    )


def test_a_thread_is_discussed_and_its_summary_follows(ada, core, scope):
    bob = core.person("bob", 2)
    thread = ada.post("/threads", {**THREAD, "subcortex_id": "queues"})
    assert thread["subcortex_id"] == scope["id"]
    first = bob.post(
        f"/threads/{thread['id']}/comments", {"body_md": "We decided on 5 retries, @ada."}
    )
    bob.post(
        f"/threads/{thread['id']}/comments",
        {"body_md": "Agreed.", "parent_comment_id": first["id"]},
    )
    assert [comment["body_md"] for comment in bob.get(f"/threads/{thread['id']}/comments")] == [
        "Agreed.",
        first["body_md"],
    ]
    assert "5 retries" in ada.get(f"/threads/{thread['id']}")["rolling_summary_md"]
    answer = ada.get("/notifications", status="new")
    assert {notice["type"] for notice in answer} == {"mention", "thread_update"}
    assert ada.get(f"/notifications/{answer[0]['id']}") == answer[0]
    bob.refused(404, "NOT_FOUND", bob.ask("GET", f"/notifications/{answer[0]['id']}"))
    done = ada.post(f"/notifications/{answer[0]['id']}/ack", key="ack-1")
    assert done["status"] == "done" and len(ada.get("/notifications", status="new")) == 1
    assert ada.post("/notifications/ack", {"ids": [answer[1]["id"]]}) == {
        "acknowledged": [answer[1]["id"]]
    }
    assert (
        ada.patch(f"/threads/{thread['id']}", {"status": "resolved", "resolution": "5"})["status"]
        == "resolved"
    )
    assert ada.patch(f"/comments/{first['id']}", {"body_md": "We decided on 6."})["version"] == 2
    assert ada.get("/comments", thread=thread["id"])[1]["id"] == first["id"]


def test_observations_are_created_singly_or_in_a_batch(ada):
    observation = ada.post(
        "/observations", {"title": "Tests pass", "type": "test_result", "source_type": "ci"}
    )
    assert ada.get(f"/observations/{observation['id']}") == observation
    response = ada.ask(
        "POST",
        "/observations/batch",
        {"observations": [{"title": "a"}, {"title": "b", "tags": ["x"] * 20}, {"title": " "}]},
    )
    rows = ada.data_of(response)
    assert [bool(row["id"]) for row in rows] == [True, True, False]
    assert rows[2]["error"]["code"] == "VALIDATION_ERROR"
    assert len(ada.get("/observations")) == 3
    assert [row["title"] for row in ada.get("/observations", tag="X")] == ["b"]
    assert (
        ada.patch(f"/observations/{observation['id']}", {"summary_md": "all of them"})["title"]
        == "Tests pass"
    )


def test_a_task_is_assigned_and_moves_on(ada, core):
    bob = core.person("bob", 2)
    task = ada.post(
        "/tasks", {"title": "Raise the limit", "assignee_ids": ["bob", "me"], "priority": "high"}
    )
    assert (task["status"], task["assignee_ids"]) == ("assigned", ["bob", "ada"])
    assert [entry["type"] for entry in bob.get("/inbox", include="tasks")] == ["task"]
    assert bob.patch(f"/tasks/{task['id']}", {"status": "blocked", "blocked_reason": "no rights"})[
        "blocked_reason"
    ]
    assert bob.patch(f"/tasks/{task['id']}", {"status": "in_progress"})["blocked_reason"] == ""
    assert [row["id"] for row in bob.get("/tasks", assignee="me", status="in_progress,review")] == [
        task["id"]
    ]
    ada.refused(400, "VALIDATION_ERROR", bob.ask("PATCH", f"/tasks/{task['id']}", {}))


def test_a_link_is_made_and_judged(ada):
    left, right = (ada.post("/observations", {"title": title}) for title in ("a", "b"))
    link = ada.post(
        "/links", {"source_id": left["id"], "relation": "supports", "target_id": right["id"]}
    )
    assert ada.get(f"/links/{link['id']}") == link
    assert ada.patch(f"/links/{link['id']}", {"status": "dismissed"})["status"] == "dismissed"
    ada.refused(
        404,
        "TARGET_NOT_FOUND",
        ada.ask(
            "POST",
            "/links",
            {"source_id": left["id"], "relation": "supports", "target_id": "obs_1"},
        ),
    )


BODIES = [
    {},
    {"title": ""},
    {"title": 5},
    {"title": "a" * 301},
    {"title": "a", "color": "red"},
    {"title": "a", "type": "poem"},
    {"title": "a", "tags": "b"},
    {"title": "a", "tags": ["b"] * 11},
    {"title": "a\x00"},
    {"title": "a", "sensitivity": "secret"},
    {"title": "a", "code_links": [{"path": "../a"}]},
    {"title": "a", "code_links": [{"path": "a", "root": "/home/ada"}]},
]


def test_invalid_body_is_a_bad_request_that_names_the_field(ada):
    for body in BODIES:
        error = ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/threads", body))
        assert all(detail["field"] for detail in error["details"])
    assert ada.get("/threads") == []


def test_a_secret_is_refused_and_not_repeated(ada):
    response = ada.ask("POST", "/threads", {"title": "Token", "body_md": f"use {SECRET}"})
    ada.refused(403, "SENSITIVE_BLOCKED", response)
    assert SECRET not in response.text


def test_unknown_id_is_not_found(ada):
    for kind in (spec_of(name).plural for name in KINDS):
        for name in (
            "thread_01M7JGCCV6Z6AHT5Y577AMQVTW",
            "nothing",
            "%00",
            "💥",
            "a" * 3_000,
            "%ff",
        ):
            ada.refused(404, "NOT_FOUND", ada.ask("GET", f"/{kind}/{name}"))


def test_hidden_record_is_reported_as_a_missing_one_in_every_request(ada, core):
    private = ada.post(
        "/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"}
    )
    thread = ada.post("/threads", {"title": "Who earns what", "subcortex_id": "salaries"})
    open_one = ada.post("/threads", {"title": "Lunch"})
    bob = core.person("bob", 3)
    assert [row["id"] for row in bob.get("/threads")] == [open_one["id"]]
    missing = bob.ask("GET", "/threads/thread_01M7JGCCV6Z6AHT5Y577AMQVTW").json()["error"]
    hidden = bob.ask("GET", f"/threads/{thread['id']}").json()["error"]
    assert missing["code"] == hidden["code"] == "NOT_FOUND"
    assert (
        missing["message"].replace("thread_01M7JGCCV6Z6AHT5Y577AMQVTW", thread["id"])
        == hidden["message"]
    )
    for response in (
        bob.ask("GET", f"/subcortexes/{private['id']}"),
        bob.ask("GET", "/subcortexes/salaries"),
        bob.ask("PATCH", f"/threads/{thread['id']}", {"title": "x"}),
        bob.ask("POST", f"/threads/{thread['id']}/comments", {"body_md": "x"}),
        bob.ask("POST", "/packs/context", {"subject": {"thread_id": thread["id"]}}),
    ):
        bob.refused(404, "NOT_FOUND", response)
    bob.refused(
        404,
        "SCOPE_NOT_FOUND",
        bob.ask("POST", "/threads", {"title": "x", "subcortex_id": "salaries"}),
    )
    bob.refused(
        404, "SCOPE_NOT_FOUND", bob.ask("GET", "/threads", params={"subcortex": "salaries"})
    )
    found = bob.post("/search", {"query": "who earns what lunch"})
    assert [result["id"] for result in found["results"]] == [open_one["id"]] and found["total"] == 1
    assert "alaries" not in bob.ask("POST", "/packs/bootstrap", {}).text


def test_write_in_a_read_only_subcortex_is_denied(ada, core):
    scope = ada.post("/subcortexes", {"slug": "queues", "name": "Queues"})
    bob = core.person("bob", 2, {scope["id"]: False})
    thread = ada.post("/threads", {**THREAD, "subcortex_id": "queues"})
    assert bob.get(f"/threads/{thread['id']}")["title"] == THREAD["title"]
    bob.refused(
        403,
        "PERMISSION_DENIED",
        bob.ask("POST", f"/threads/{thread['id']}/comments", {"body_md": "x"}),
    )


def test_sensitive_record_is_hidden_from_readers_without_the_right(ada, core):
    bob = core.person("bob", 3)
    secret = ada.post("/threads", {**THREAD, "sensitivity": "sensitive"})
    bob.refused(404, "NOT_FOUND", bob.ask("GET", f"/threads/{secret['id']}"))
    bob.refused(
        403,
        "PERMISSION_DENIED",
        bob.ask("POST", "/threads", {**THREAD, "sensitivity": "sensitive"}),
    )
    bob.refused(
        403,
        "PERMISSION_DENIED",
        bob.ask("POST", "/drafts", {"type": "thread", "title": "a", "sensitivity": "sensitive"}),
    )
    assert bob.get("/threads") == [] == bob.post("/search", {"query": "retry"}).get("results", [])


def test_contradiction_with_a_record_hidden_since_reveals_nothing_of_it(ada, core):
    hush = ada.post("/subcortexes", {"slug": "hush", "name": "Hush", "visibility": "private"})["id"]
    eve = core.person("eve", 3, {"*": True, hush: True})
    sent = {
        "title": "Login timeout",
        "body_md": "The login timeout is 30 seconds.",
        "subcortex_id": hush,
    }
    ada.post("/artifacts", sent)
    eve.post(
        "/artifacts", {"title": "The login timeout", "body_md": "The login timeout is 60 seconds."}
    )
    [link] = eve.get("/links")
    assert "30 seconds" in link["note"] and [
        row["about_id"] for row in eve.get("/notifications")
    ] == [link["id"]]
    ada.patch("/principals/eve", {"grants": {"*": True}})
    assert eve.get("/links") == []
    for path in ("/notifications", "/inbox"):
        assert "30 seconds" not in json.dumps(eve.get(path))


@pytest.mark.parametrize("way", ["the comment becomes sensitive", "the thread is no longer"])
def test_summary_that_came_with_a_hidden_comment_is_hidden_with_it(core, ada, way):
    freed = way == "the thread is no longer"
    thread = ada.post(
        "/threads", {"title": "Plan", "sensitivity": "sensitive" if freed else "normal"}
    )["id"]
    said = {"body_md": "the falcon lands", "rolling_summary_md": "A falcon is about to land."}
    comment = ada.post(f"/threads/{thread}/comments", said)["id"]
    if freed:
        ada.patch(f"/threads/{thread}", {"sensitivity": "normal"})
    else:
        ada.patch(f"/comments/{comment}", {"sensitivity": "sensitive"})
    bob = core.person("bob", 2)
    assert bob.get(f"/threads/{thread}/comments") == []
    assert "falcon" not in str(bob.get(f"/threads/{thread}"))
