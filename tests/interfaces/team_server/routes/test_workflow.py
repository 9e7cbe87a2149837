"""Drafts, artifacts, notifications, searches and packs over HTTP."""

from __future__ import annotations

THREAD = {"title": "How often do we retry?", "body_md": "The queue retries 3 times."}


def test_draft_is_published_or_rejected_only_by_a_reviewer(ada, core):
    bob = core.person("bob", 1)
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
    assert again.headers["X-Idempotency-Replayed"] == "true" and ada.data_of(again) == done
    ada.refused(409, "CONFLICT", ada.ask("POST", f"/drafts/{draft['id']}/approve", {}))
    other = bob.post("/drafts", {"type": "thread", "title": "Why?", "body_md": "?"})
    assert ada.post(f"/drafts/{other['id']}/reject", {"notes": "no"})["status"] == "rejected"
    assert [row["status"] for row in ada.get("/drafts")] == ["rejected", "published"]
    assert [row["id"] for row in ada.get("/drafts", status="published")] == [draft["id"]]
    assert {entry["type"] for entry in bob.get("/inbox")} == {"draft_approved", "draft_rejected"}


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
    assert [version["version"] for version in ada.get(f"/artifacts/{old['id']}/versions")] == [
        3,
        2,
        1,
    ]
    first = ada.ask("GET", f"/artifacts/{old['id']}/versions", params={"limit": 2}).json()[
        "pagination"
    ]
    assert [
        version["version"]
        for version in ada.get(f"/artifacts/{old['id']}/versions", cursor=first["cursor"])
    ] == [1]
    assert ada.post(f"/artifacts/{new['id']}/deprecate", {"note": "gone"})["status"] == "deprecated"
    assert [row["relation"] for row in ada.get("/links", source=new["id"])] == ["supersedes"]


def test_written_record_is_in_search_and_packs_at_once(ada, scope):
    thread = ada.post("/threads", {**THREAD, "subcortex_id": "queues"})
    response = ada.ask(
        "POST",
        "/search",
        {"query": "how often retry", "types": ["threads"], "filters": {"subcortex": "queues"}},
        key=None,
    )
    assert ada.data_of(response)["results"][0]["id"] == thread["id"]
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
