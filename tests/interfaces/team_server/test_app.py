"""The ASGI application of a Core: tokens, hosts and origins, request ids, health, errors."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from cortex.base.runtime.home import VERSION
from cortex.interfaces.team_server.app import PING_SECONDS
from interfaces.team_server.conftest import error_of


def test_request_without_a_valid_token_is_rejected(core, ada):
    for headers in (
        {},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer ctx_1_2"},
    ):
        response = core.http.get("/api/v2/threads", headers=headers)
        error_of(response, 401, "AUTH_REQUIRED")
        assert response.headers["WWW-Authenticate"] == "Bearer"
    error_of(core.http.get("/metrics"), 401, "AUTH_REQUIRED")
    error_of(core.http.get("/nothing"), 401, "AUTH_REQUIRED")
    assert (
        core.http.get(
            "/api/v2/threads", headers={"Authorization": f"bearer  {ada.token} "}
        ).status_code
        == 200
    )


def test_expired_or_revoked_token_is_reported_as_such_unlike_a_wrong_secret(core, ada):
    own = core.ledger.principals.named("ada")
    _, old = core.ledger.principals.make_token(own.id, expires=int(time.time() * 1000) - 1)
    issued, revoked = core.ledger.principals.make_token(own.id)
    core.ledger.principals.revoke(issued.id)
    for token in (old, revoked):
        error_of(
            core.http.get("/api/v2/me", headers={"Authorization": f"Bearer {token}"}),
            401,
            "AUTH_EXPIRED",
        )
    wrong = core.http.get("/api/v2/me", headers={"Authorization": f"Bearer {revoked[:-2]}xx"})
    error_of(wrong, 401, "AUTH_REQUIRED")
    core.ledger.principals.change(own.id, state="revoked")
    error_of(ada.ask("GET", "/me"), 401, "AUTH_EXPIRED")


def test_foreign_host_or_origin_is_refused(core, ada):
    error_of(ada.ask("GET", "/me", headers={"Host": "evil.example"}), 421, "VALIDATION_ERROR")
    error_of(
        ada.ask("GET", "/me", headers={"Origin": "https://evil.example"}), 403, "PERMISSION_DENIED"
    )
    error_of(core.http.get("/health", headers={"Host": "evil.example"}), 421, "VALIDATION_ERROR")
    assert ada.ask("GET", "/me", headers={"Origin": "http://localhost:3000"}).status_code == 200


def test_health_reports_whether_the_database_answers(core, monkeypatch):
    assert core.http.get("/health").json() == {"status": "ok", "version": VERSION}
    monkeypatch.setattr("cortex.interfaces.team_server.app.HEALTH_SECONDS", 0.0)
    core.ledger.close()
    response = core.http.get("/health")
    assert (response.status_code, response.json()["status"]) == (503, "unavailable")


def test_concurrent_health_requests_share_one_bounded_database_ping(core, monkeypatch, until):
    assert PING_SECONDS <= 1.0
    asked, back = [], threading.Event()

    def hang(self) -> None:
        asked.append(threading.current_thread())
        assert back.wait(30)

    monkeypatch.setattr("cortex.interfaces.team_server.app.HEALTH_SECONDS", 0.0)
    monkeypatch.setattr("cortex.interfaces.team_server.app.PING_SECONDS", 0.05)
    monkeypatch.setattr("cortex.engine.store.records.ledger.Ledger.ping", hang)
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: core.http.get("/health").status_code, range(16)))
    assert statuses == [503] * 16 and len(asked) == 1
    back.set()
    until(lambda: core.http.get("/health").status_code == 200)
    assert len(set(asked)) == 1
