"""Writes over HTTP: once for each idempotency key, and only to the version they were meant for."""

from __future__ import annotations

THREAD = {"title": "How often do we retry?", "body_md": "The queue retries 3 times."}


def test_idempotency_key_writes_once_and_another_write_under_it_is_a_conflict(ada):
    first = ada.ask("POST", "/threads", THREAD, key="one")
    again = ada.ask("POST", "/threads", THREAD, key="one")
    assert ada.data_of(first) == ada.data_of(again)
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


def test_retry_of_a_write_hidden_since_does_not_show_it(ada, core):
    bob = core.person("bob", 2)
    thread = bob.post("/threads", THREAD, key="mine")
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    ada.patch(f"/threads/{thread['id']}", {"subcortex_id": "salaries"})
    bob.refused(404, "NOT_FOUND", bob.ask("POST", "/threads", THREAD, key="mine"))


def test_a_change_for_another_version_is_a_conflict_that_names_the_version(ada):
    thread = ada.post("/threads", THREAD)
    ada.patch(f"/threads/{thread['id']}", {"title": "b", "version": 1})
    error = ada.refused(
        409, "CONFLICT", ada.ask("PATCH", f"/threads/{thread['id']}", {"title": "c", "version": 1})
    )
    assert error["details"][0] == {"id": thread["id"], "version": 2, "code": "RECORD_CHANGED"}
