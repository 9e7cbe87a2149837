"""Lists of records over HTTP: pages and filters."""

from __future__ import annotations

from cortex.base.record_model import Draft
from cortex.families.team.ids import new_id


def test_list_pages_show_each_record_once_while_others_write(ada):
    for number in range(5):
        ada.post(
            "/observations/batch",
            {"observations": [{"title": f"{number} {index}"} for index in range(60)]},
        )
    seen: list[str] = []
    cursor = None
    while True:
        response = ada.ask(
            "GET", "/observations", params={"limit": 100, **({"cursor": cursor} if cursor else {})}
        ).json()
        seen += [row["id"] for row in response["data"]]
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


def test_expired_draft_is_listed_as_expired_under_any_filter(ada):
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
        assert [row["id"] for row in ada.get("/drafts", status="expired", **narrowed)] == [number]
