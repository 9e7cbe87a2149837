"""Records over HTTP: every kind written, read, listed and changed, once and again, with the errors
that belong to it.
"""

from __future__ import annotations

import json

import pytest

from cortex.base.record_model import KINDS, Draft
from cortex.base.record_spec import spec_of
from cortex.families.team.ids import new_id
from cortex.interfaces.team_server.app import ROUTES

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
THREAD = {
    "title": "How often do we retry?",
    "body_md": "The queue retries 3 times.",
    "tags": ["queue"],
}


@pytest.fixture
def scope(ada):
    return ada.post(
        "/subcortexes",
        {
            "slug": "queues",
            "name": "Queues",
            "glossary": [{"term": "DLQ", "meaning": "dead letters"}],
        },
    )


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


def test_a_thread_is_discussed_and_its_summary_follows(ada, place, scope):
    bob = place.person("bob", 2)
    thread = ada.post("/threads", {**THREAD, "subcortex_id": "queues"})
    assert thread["subcortex_id"] == scope["id"]
    first = bob.post(
        f"/threads/{thread['id']}/comments", {"body_md": "We decided on 5 retries, @ada."}
    )
    bob.post(
        f"/threads/{thread['id']}/comments",
        {"body_md": "Agreed.", "parent_comment_id": first["id"]},
    )
    assert [one["body_md"] for one in bob.get(f"/threads/{thread['id']}/comments")] == [
        "Agreed.",
        first["body_md"],
    ]
    assert "5 retries" in ada.get(f"/threads/{thread['id']}")["rolling_summary_md"]
    told = ada.get("/notifications", status="new")
    assert {one["type"] for one in told} == {"mention", "thread_update"}
    assert ada.get(f"/notifications/{told[0]['id']}") == told[0]
    bob.refused(404, "NOT_FOUND", bob.ask("GET", f"/notifications/{told[0]['id']}"))
    done = ada.post(f"/notifications/{told[0]['id']}/ack", key="ack-1")
    assert done["status"] == "done" and len(ada.get("/notifications", status="new")) == 1
    assert ada.post("/notifications/ack", {"ids": [told[1]["id"]]}) == {
        "acknowledged": [told[1]["id"]]
    }
    assert (
        ada.patch(f"/threads/{thread['id']}", {"status": "resolved", "resolution": "5"})["status"]
        == "resolved"
    )
    assert ada.patch(f"/comments/{first['id']}", {"body_md": "We decided on 6."})["version"] == 2
    assert ada.get("/comments", thread=thread["id"])[1]["id"] == first["id"]


def test_observations_come_one_by_one_or_several_at_once(ada):
    one = ada.post(
        "/observations", {"title": "Tests pass", "type": "test_result", "source_type": "ci"}
    )
    assert ada.get(f"/observations/{one['id']}") == one
    response = ada.ask(
        "POST",
        "/observations/batch",
        {"observations": [{"title": "a"}, {"title": "b", "tags": ["x"] * 20}, {"title": " "}]},
    )
    rows = ada.told(response)
    assert [bool(row["id"]) for row in rows] == [True, True, False]
    assert rows[2]["error"]["code"] == "VALIDATION_ERROR"
    assert len(ada.get("/observations")) == 3
    assert [row["title"] for row in ada.get("/observations", tag="X")] == ["b"]
    assert (
        ada.patch(f"/observations/{one['id']}", {"summary_md": "all of them"})["title"]
        == "Tests pass"
    )


def test_a_draft_is_published_by_who_may_and_another_one_rejected(ada, place):
    bob = place.person("bob", 1)
    thread = ada.post("/threads", THREAD)
    ada.refused(403, "PERMISSION_DENIED", bob.ask("POST", "/threads", THREAD))
    draft = bob.post(
        "/drafts", {"type": "comment", "target_id": thread["id"], "body_md": "Five, I think."}
    )
    assert draft["status"] == "pending_review" and thread["id"] in draft["next_step"]
    bob.refused(403, "PERMISSION_DENIED", bob.ask("POST", f"/drafts/{draft['id']}/approve", {}))
    done = ada.post(f"/drafts/{draft['id']}/approve", {"notes": "fine"}, key="approve-1")
    assert (done["draft"]["status"], done["published"]["author_id"]) == ("published", "bob")
    again = ada.ask("POST", f"/drafts/{draft['id']}/approve", {"notes": "fine"}, key="approve-1")
    assert again.headers["X-Idempotency-Replayed"] == "true" and ada.told(again) == done
    ada.refused(409, "CONFLICT", ada.ask("POST", f"/drafts/{draft['id']}/approve", {}))
    other = bob.post("/drafts", {"type": "thread", "title": "Why?", "body_md": "?"})
    assert ada.post(f"/drafts/{other['id']}/reject", {"notes": "no"})["status"] == "rejected"
    assert [one["status"] for one in ada.get("/drafts")] == ["rejected", "published"]
    assert [one["id"] for one in ada.get("/drafts", status="published")] == [draft["id"]]
    assert {one["type"] for one in bob.get("/inbox")} == {"draft_approved", "draft_rejected"}


def test_an_artifact_is_accepted_with_evidence_superseded_and_keeps_its_versions(ada):
    old = ada.post("/artifacts", {"title": "Retries", "type": "adr", "body_md": "3"})
    ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", f"/artifacts/{old['id']}/accept"))
    evidence = [{"type": "url", "ref": "https://example.com/a"}]
    accepted = ada.post(
        f"/artifacts/{old['id']}/accept", {"evidence_links": evidence, "version": 1}
    )
    assert (accepted["status"], accepted["evidence_links"]) == (
        "accepted",
        [{**evidence[0], "note": ""}],
    )
    ada.refused(409, "CONFLICT", ada.ask("POST", f"/artifacts/{old['id']}/accept", {"version": 1}))
    more = {"status": "accepted", "evidence_links": evidence}
    new = ada.post("/artifacts", {"title": "Retries, again", "type": "adr", "body_md": "5", **more})
    gone = ada.post(
        f"/artifacts/{old['id']}/supersede", {"superseded_by_id": new["id"], "note": "five"}
    )
    assert (gone["status"], gone["superseded_by_id"]) == ("superseded", new["id"])
    assert [one["version"] for one in ada.get(f"/artifacts/{old['id']}/versions")] == [3, 2, 1]
    first = ada.ask("GET", f"/artifacts/{old['id']}/versions", params={"limit": 2}).json()[
        "pagination"
    ]
    assert [
        one["version"]
        for one in ada.get(f"/artifacts/{old['id']}/versions", cursor=first["cursor"])
    ] == [1]
    assert ada.post(f"/artifacts/{new['id']}/deprecate", {"note": "gone"})["status"] == "deprecated"
    assert [one["relation"] for one in ada.get("/links", source=new["id"])] == ["supersedes"]


def test_a_task_is_assigned_and_moves_on(ada, place):
    bob = place.person("bob", 2)
    task = ada.post(
        "/tasks", {"title": "Raise the limit", "assignee_ids": ["bob", "me"], "priority": "high"}
    )
    assert (task["status"], task["assignee_ids"]) == ("assigned", ["bob", "ada"])
    assert [one["type"] for one in bob.get("/inbox", include="tasks")] == ["task"]
    assert bob.patch(f"/tasks/{task['id']}", {"status": "blocked", "blocked_reason": "no rights"})[
        "blocked_reason"
    ]
    assert bob.patch(f"/tasks/{task['id']}", {"status": "in_progress"})["blocked_reason"] == ""
    assert [one["id"] for one in bob.get("/tasks", assignee="me", status="in_progress,review")] == [
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


def test_what_is_written_is_found_and_in_packs_at_once(ada, scope):
    thread = ada.post("/threads", {**THREAD, "subcortex_id": "queues"})
    response = ada.ask(
        "POST",
        "/search",
        {"query": "how often retry", "types": ["threads"], "filters": {"subcortex": "queues"}},
        key=None,
    )
    assert ada.told(response)["results"][0]["id"] == thread["id"]
    assert response.json()["pagination"] == {"cursor": None, "has_more": False, "limit": 10}
    assert response.json()["meta"]["budget_used"] > 0
    pack = ada.post("/packs/bootstrap", {"scope": "subcortex:queues"}, key=None)
    assert pack["subcortexes"][0]["slug"] == "queues" and pack["glossary"] == ["DLQ: dead letters"]
    about = ada.post("/packs/context", {"subject": {"thread_id": thread["id"]}}, key=None)
    assert about["id"] == thread["id"]
    ada.refused(
        400, "BUDGET_TOO_SMALL", ada.ask("POST", "/search", {"query": "retry", "budget": 10})
    )
    ada.refused(400, "QUERY_TOO_SHORT", ada.ask("POST", "/search", {"query": " "}))
    ada.refused(
        400,
        "INVALID_FILTER",
        ada.ask("POST", "/search", {"query": "a", "filters": {"since": "soon"}}),
    )
    ada.refused(
        404,
        "SCOPE_NOT_FOUND",
        ada.ask("POST", "/search", {"query": "a", "filters": {"subcortex": "nowhere"}}),
    )


def test_the_same_key_writes_once_and_another_write_under_it_is_a_conflict(ada):
    first = ada.ask("POST", "/threads", THREAD, key="one")
    again = ada.ask("POST", "/threads", THREAD, key="one")
    assert ada.told(first) == ada.told(again)
    assert ("X-Idempotency-Replayed" in first.headers, again.headers["X-Idempotency-Replayed"]) == (
        False,
        "true",
    )
    error = ada.refused(
        409, "IDEMPOTENCY_CONFLICT", ada.ask("POST", "/threads", {"title": "another"}, key="one")
    )
    assert error["details"][0]["code"] == "IDEMPOTENCY_REPLAY"
    thread = first.json()["data"]["id"]
    changed = ada.patch(f"/threads/{thread}", {"title": "x"}, key="two")
    ada.patch(f"/threads/{thread}", {"title": "y"})
    assert (
        ada.patch(f"/threads/{thread}", {"title": "x"}, key="two")["title"]
        == "y"
        != changed["title"]
    )
    assert len(ada.get("/threads")) == 1


def test_a_write_without_a_key_is_told_one_that_could_be_used(ada):
    error = ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/threads", THREAD, key=None))
    assert (
        error["details"][0]["field"] == "Idempotency-Key"
        and "key_" in error["details"][0]["suggestion"]
    )
    ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/threads", THREAD, key="a" * 201))
    ada.refused(403, "SENSITIVE_BLOCKED", ada.ask("POST", "/threads", THREAD, key=SECRET))
    assert ada.get("/threads") == []


def test_a_change_for_another_version_is_a_conflict_that_names_the_version(ada):
    thread = ada.post("/threads", THREAD)
    ada.patch(f"/threads/{thread['id']}", {"title": "b", "version": 1})
    error = ada.refused(
        409, "CONFLICT", ada.ask("PATCH", f"/threads/{thread['id']}", {"title": "c", "version": 1})
    )
    assert error["details"][0] == {"id": thread["id"], "version": 2, "code": "RECORD_CHANGED"}


def test_pages_show_everything_once_while_others_write(ada, place):
    for number in range(5):
        ada.post(
            "/observations/batch",
            {"observations": [{"title": f"{number} {place}"} for place in range(60)]},
        )
    seen: list[str] = []
    cursor = None
    while True:
        response = ada.ask(
            "GET", "/observations", params={"limit": 100, **({"cursor": cursor} if cursor else {})}
        ).json()
        seen += [one["id"] for one in response["data"]]
        cursor = response["pagination"]["cursor"]
        assert (
            response["pagination"]["has_more"] == bool(cursor)
            and response["pagination"]["limit"] == 100
        )
        if not cursor:
            break
        ada.post("/observations", {"title": "meanwhile"})
    assert len(seen) == len(set(seen)) == 300 and seen == sorted(seen, reverse=True)
    assert len(ada.get("/observations")) == 25


def test_a_cursor_of_another_list_is_refused(ada):
    for title in "abc":
        ada.post("/threads", {"title": title})
    other = ada.ask("GET", "/threads", params={"limit": 1, "status": "open"}).json()["pagination"][
        "cursor"
    ]
    for cursor in ("x", "💥", "a" * 600, "eDp5", "dGhyZWFkXzE6MA==", other):
        ada.refused(400, "VALIDATION_ERROR", ada.ask("GET", "/threads", params={"cursor": cursor}))
    assert len(ada.get("/threads", cursor="")) == 3


QUERIES = [
    ("/threads", "limit=0"),
    ("/threads", "limit=101"),
    ("/threads", "limit=ten"),
    ("/threads", "limit=1&limit=2"),
    ("/threads", "color=red"),
    ("/threads", "status=lost"),
    ("/threads", "since=soon"),
    ("/threads", "a=1&" * 101),
    ("/threads", "tag=" + "x" * 9_000),
    ("/inbox", "include=everything"),
    ("/sync/deltas", "since=5"),
]


def test_a_query_that_does_not_fit_is_a_bad_request(ada):
    for path, query in QUERIES:
        response = ada.ask("GET", f"{path}?{query}")
        assert response.status_code == 400, query
        assert response.json()["error"]["code"] in ("VALIDATION_ERROR", "INVALID_FILTER")


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


def test_a_body_that_does_not_fit_is_a_bad_request_that_names_the_field(ada):
    for body in BODIES:
        error = ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/threads", body))
        assert all(one["field"] for one in error["details"])
    assert ada.get("/threads") == []


def test_a_secret_is_refused_and_not_repeated(ada):
    response = ada.ask("POST", "/threads", {"title": "Token", "body_md": f"use {SECRET}"})
    ada.refused(403, "SENSITIVE_BLOCKED", response)
    assert SECRET not in response.text


def test_what_is_not_there_is_not_found(ada):
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


def test_what_somebody_may_not_see_is_not_there(ada, place):
    private = ada.post(
        "/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"}
    )
    thread = ada.post("/threads", {"title": "Who earns what", "subcortex_id": "salaries"})
    open_one = ada.post("/threads", {"title": "Lunch"})
    bob = place.person("bob", 3)
    assert [one["id"] for one in bob.get("/threads")] == [open_one["id"]]
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
    assert [one["id"] for one in found["results"]] == [open_one["id"]] and found["total"] == 1
    assert "alaries" not in bob.ask("POST", "/packs/bootstrap", {}).text


def test_somebody_who_only_reads_in_a_subcortex_is_told_so(ada, place):
    scope = ada.post("/subcortexes", {"slug": "queues", "name": "Queues"})
    bob = place.person("bob", 2, {scope["id"]: False})
    thread = ada.post("/threads", {**THREAD, "subcortex_id": "queues"})
    assert bob.get(f"/threads/{thread['id']}")["title"] == THREAD["title"]
    bob.refused(
        403,
        "PERMISSION_DENIED",
        bob.ask("POST", f"/threads/{thread['id']}/comments", {"body_md": "x"}),
    )


def test_what_is_sensitive_is_for_those_who_may_see_it(ada, place):
    bob = place.person("bob", 3)
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


def test_a_retry_of_what_was_hidden_since_does_not_show_it(ada, place):
    bob = place.person("bob", 2)
    thread = bob.post("/threads", THREAD, key="mine")
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    ada.patch(f"/threads/{thread['id']}", {"subcortex_id": "salaries"})
    bob.refused(404, "NOT_FOUND", bob.ask("POST", "/threads", THREAD, key="mine"))


def test_every_operation_has_a_name_of_its_own():
    assert len({route.name for route in ROUTES}) == len(ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_what_was_compared_with_something_hidden_since_tells_nothing_of_it(ada, place):
    hush = ada.post("/subcortexes", {"slug": "hush", "name": "Hush", "visibility": "private"})["id"]
    eve = place.person("eve", 3, {"*": True, hush: True})
    told = {
        "title": "Login timeout",
        "body_md": "The login timeout is 30 seconds.",
        "subcortex_id": hush,
    }
    ada.post("/artifacts", told)
    eve.post(
        "/artifacts", {"title": "The login timeout", "body_md": "The login timeout is 60 seconds."}
    )
    [link] = eve.get("/links")
    assert "30 seconds" in link["note"] and [
        one["about_id"] for one in eve.get("/notifications")
    ] == [link["id"]]
    ada.patch("/principals/eve", {"grants": {"*": True}})
    assert eve.get("/links") == []
    for path in ("/notifications", "/inbox"):
        assert "30 seconds" not in json.dumps(eve.get(path))


def test_a_draft_that_is_over_is_listed_as_that_whatever_else_is_asked(ada):
    after = {"type": "thread", "title": "a", "body": "b", "expires": 1, "tags": ["late"]}
    number = new_id(Draft)
    made = {
        "id": number,
        "kind": "draft",
        "author": "person",
        "created": 1,
        "before": None,
        "after": after,
    }
    payload = {"actor": "person", "tier": 4, "at": 1, "changes": [made]}
    sent = {"idempotency_key": "a", "action": "create_draft", "payload": payload}
    assert (
        ada.post("/sync/flush", {"actions": [sent]}, key=None)["results"][0]["status"] == "applied"
    )
    for narrowed in ({}, {"author": "ada"}, {"tag": "late"}):
        assert ada.get("/drafts", status="pending_review", **narrowed) == []
        assert [one["id"] for one in ada.get("/drafts", status="expired", **narrowed)] == [number]


@pytest.mark.parametrize("way", ["the comment becomes sensitive", "the thread is no longer"])
def test_a_summary_that_came_with_what_is_hidden_now_is_read_by_nobody_else(place, ada, way):
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
    bob = place.person("bob", 2)
    assert bob.get(f"/threads/{thread}/comments") == []
    assert "falcon" not in str(bob.get(f"/threads/{thread}"))
