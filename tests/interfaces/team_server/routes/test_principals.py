"""Principals, tokens and the audit log over HTTP: for administrators only."""

from __future__ import annotations

from cortex.interfaces.team_server.routes.principals import ROUTES


def test_principal_routes_are_refused_below_tier_4(core, ada):
    bob = core.person("bob", 3)
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


def test_principal_is_added_and_its_token_works_until_it_is_revoked(core, ada):
    scope = ada.post("/subcortexes", {"slug": "queues", "name": "Queues"})
    bob = ada.post("/principals", {"name": "bob", "tier": 2, "grants": {"queues": True}}, key="bob")
    assert bob["grants"] == {scope["id"]: True}
    again = ada.ask(
        "POST", "/principals", {"name": "bob", "tier": 2, "grants": {"queues": True}}, key="bob"
    )
    assert ada.data_of(again) == bob and again.headers["X-Idempotency-Replayed"] == "true"
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
    assert core.http.get("/api/v2/me", headers=headers).json()["data"]["name"] == "bob"
    ada.post(f"/tokens/{made['id']}/revoke")
    assert core.http.get("/api/v2/me", headers=headers).status_code == 401
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


def test_changed_rights_apply_to_the_next_request_and_the_last_admin_stays(core, ada):
    bob = core.person("bob", 1)
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
    assert [row["name"] for row in ada.get("/principals")] == ["ada", "bob"]


def test_audit_log_shows_only_records_visible_to_its_reader(core, ada):
    ada.post("/subcortexes", {"slug": "salaries", "name": "Salaries", "visibility": "private"})
    hidden = ada.post("/threads", {"title": "Who earns what", "subcortex_id": "salaries"})
    eve = core.person("eve", 4, {"": True})
    seen = [ada.post("/threads", {"title": str(number)})["id"] for number in range(5)]
    assert hidden["id"] in {entry["record_id"] for entry in ada.get("/audit")}
    lines = [entry for entry in eve.get("/audit") if entry["version"]]
    assert [entry["action"] for entry in eve.get("/audit") if not entry["version"]].count(
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
    assert [entry["record_id"] for entry in first["data"] + rest["data"]] == seen[::-1]
    assert eve.get("/audit", record=hidden["id"]) == [] != ada.get("/audit", record=hidden["id"])
