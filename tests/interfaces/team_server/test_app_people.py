"""Principals, tokens and the audit log over HTTP: for whoever may do everything, and for nobody
else.
"""

from __future__ import annotations

from cortex.interfaces.team_server.routes.principals import ROUTES


def test_only_who_may_do_everything_gets_to_them(place, ada):
    bob = place.person("bob", 3)
    for route in ROUTES:
        if route.tier:
            response = bob.ask(route.method, route.path.replace("{id}", "ada"), {})
            bob.refused(403, "PERMISSION_DENIED", response)
    assert {name: bob.get("/me")[name] for name in ("name", "tier", "sensitive", "grants")} == {
        "name": "bob",
        "tier": 3,
        "sensitive": False,
        "grants": {"*": True},
    }


def test_somebody_is_made_known_gets_a_token_and_loses_it(place, ada):
    scope = ada.post("/subcortexes", {"slug": "queues", "name": "Queues"})
    bob = ada.post("/principals", {"name": "bob", "tier": 2, "grants": {"queues": True}}, key="bob")
    assert bob["grants"] == {scope["id"]: True}
    again = ada.ask(
        "POST", "/principals", {"name": "bob", "tier": 2, "grants": {"queues": True}}, key="bob"
    )
    assert ada.told(again) == bob and again.headers["X-Idempotency-Replayed"] == "true"
    ada.refused(400, "VALIDATION_ERROR", ada.ask("POST", "/principals", {"name": "bob", "tier": 2}))
    for name in ("person", "a b", "ä" * 3):
        ada.refused(
            400, "VALIDATION_ERROR", ada.ask("POST", "/principals", {"name": name, "tier": 2})
        )
    made = ada.post(
        "/principals/bob/tokens", {"label": "laptop", "expires_at": "2099-01-01"}, key="token"
    )
    assert made["token"].startswith("ctx_") and made["expires_at"] == "2099-01-01T00:00:00.000Z"
    retried = ada.post(
        "/principals/bob/tokens", {"label": "laptop", "expires_at": "2099-01-01"}, key="token"
    )
    assert retried == {**made, "token": None, "used_at": retried["used_at"]}
    assert len(ada.get("/tokens")) == 2 and made["token"] not in ada.ask("GET", "/tokens").text
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert place.http.get("/api/v2/me", headers=headers).json()["data"]["name"] == "bob"
    ada.post(f"/tokens/{made['id']}/revoke")
    assert place.http.get("/api/v2/me", headers=headers).status_code == 401
    for moment in ("soon", "2001-01-01"):
        ada.refused(
            400,
            "VALIDATION_ERROR",
            ada.ask("POST", "/principals/bob/tokens", {"expires_at": moment}),
        )
    ada.refused(
        400, "VALIDATION_ERROR", ada.ask("POST", "/principals/bob/tokens", {"label": "a\x00"})
    )
    ada.refused(404, "NOT_FOUND", ada.ask("POST", "/principals/eve/tokens", {}))
    ada.refused(404, "NOT_FOUND", ada.ask("POST", "/tokens/none/revoke"))


def test_rights_count_from_the_next_request_on_and_the_last_administrator_stays(place, ada):
    bob = place.person("bob", 1)
    bob.refused(403, "PERMISSION_DENIED", bob.ask("POST", "/threads", {"title": "a"}))
    changed = ada.patch("/principals/bob", {"tier": 2, "grants": {"*": False}})
    assert (changed["tier"], changed["grants"]) == (2, {"*": False})
    bob.refused(403, "PERMISSION_DENIED", bob.ask("POST", "/threads", {"title": "a"}))
    ada.patch("/principals/bob", {"grants": {"*": True}})
    assert bob.post("/threads", {"title": "a"})["author_id"] == "bob"
    ada.refused(400, "VALIDATION_ERROR", ada.ask("PATCH", "/principals/ada", {"tier": 3}))
    ada.refused(
        404, "SCOPE_NOT_FOUND", ada.ask("PATCH", "/principals/bob", {"grants": {"nowhere": True}})
    )
    ada.refused(400, "VALIDATION_ERROR", ada.ask("PATCH", "/principals/bob", {}))
    assert [one["name"] for one in ada.get("/principals")] == ["ada", "bob"]


def test_the_audit_log_tells_of_what_whoever_reads_it_may_see(place, ada):
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    hidden = ada.post("/threads", {"title": "Who earns what", "subcortex_id": "salaries"})
    eve = place.person("eve", 4, {"": True})
    seen = [ada.post("/threads", {"title": str(number)})["id"] for number in range(5)]
    assert hidden["id"] in {one["record_id"] for one in ada.get("/audit")}
    lines = [one for one in eve.get("/audit") if one["version"]]
    assert [one["action"] for one in eve.get("/audit") if not one["version"]].count(
        "add_principal"
    ) == 2
    assert [line["record_id"] for line in lines] == seen[::-1]
    assert (lines[0]["actor_id"], lines[0]["action"], lines[0]["version"]) == (
        "ada",
        "create_thread",
        1,
    )
    first = eve.ask("GET", "/audit", params={"limit": 3}).json()
    rest = eve.ask(
        "GET", "/audit", params={"limit": 2, "cursor": first["pagination"]["cursor"]}
    ).json()
    assert [one["record_id"] for one in first["data"] + rest["data"]] == seen[::-1]
    assert eve.get("/audit", record=hidden["id"]) == [] != ada.get("/audit", record=hidden["id"])
