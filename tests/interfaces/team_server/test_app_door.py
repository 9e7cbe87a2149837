"""Who comes in at a Core: tokens, rates, hosts and origins, methods, bodies; and what is told of
it: health, figures, logs.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cortex.base.errors import StoreError
from cortex.base.runtime.home import VERSION
from cortex.base.settings import load
from cortex.engine.store.records.principals import Principals
from cortex.interfaces.team_server.access_log import JsonLines
from cortex.interfaces.team_server.app import PING_SECONDS, make_app
from cortex.interfaces.team_server.rate_limits import GOOD_SECONDS
from interfaces.team_server.straight import StraightClient

LIMITED = {"CORTEX_CORE_RATES": "2,3,4,5,6"}


def error_of(response, status: int, code: str) -> dict:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == code
    assert set(error) == {
        "code",
        "message",
        "details",
        "request_id",
        "timestamp",
        "retry_after",
        "help_url",
    }
    assert response.headers["X-Request-Id"] == error["request_id"]
    return error


def test_nobody_comes_in_without_a_token_that_counts(place, ada):
    for headers in (
        {},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer ctx_1_2"},
    ):
        response = place.http.get("/api/v2/threads", headers=headers)
        error_of(response, 401, "AUTH_REQUIRED")
        assert response.headers["WWW-Authenticate"] == "Bearer"
    error_of(place.http.get("/metrics"), 401, "AUTH_REQUIRED")
    error_of(place.http.get("/nothing"), 401, "AUTH_REQUIRED")
    assert (
        place.http.get(
            "/api/v2/threads", headers={"Authorization": f"bearer  {ada.token} "}
        ).status_code
        == 200
    )


def test_a_token_that_is_over_or_revoked_is_told_so_and_a_wrong_secret_is_not(place, ada):
    own = place.ledger.principals.named("ada")
    _, old = place.ledger.principals.make_token(own.id, expires=int(time.time() * 1000) - 1)
    one, revoked = place.ledger.principals.make_token(own.id)
    place.ledger.principals.revoke(one.id)
    for token in (old, revoked):
        error_of(
            place.http.get("/api/v2/me", headers={"Authorization": f"Bearer {token}"}),
            401,
            "AUTH_EXPIRED",
        )
    wrong = place.http.get("/api/v2/me", headers={"Authorization": f"Bearer {revoked[:-2]}xx"})
    error_of(wrong, 401, "AUTH_REQUIRED")
    place.ledger.principals.change(own.id, state="revoked")
    error_of(ada.ask("GET", "/me"), 401, "AUTH_EXPIRED")


def test_each_may_ask_as_often_as_their_tier_says(open_place, folder, clock):
    settings = load(
        None, environment={"CORTEX_HOME": str(folder / "home"), **LIMITED}, user_home=folder
    )
    place = open_place(settings=settings)
    ada, bob = place.person("ada", 4), place.person("bob", 0)
    assert [bob.ask("GET", "/me").status_code for _ in range(3)] == [200, 200, 429]
    error = error_of(response := bob.ask("GET", "/me"), 429, "RATE_LIMITED")
    assert response.headers["Retry-After"] == "30" and error["retry_after"] == 30
    assert [ada.ask("GET", "/me").status_code for _ in range(7)] == [200] * 6 + [429]
    assert [place.http.get("/api/v2/me").status_code for _ in range(3)] == [401, 401, 429]
    assert [place.http.get("/health").status_code for _ in range(5)] == [200] * 5
    assert place.http.get("/api/v2/openapi.json").status_code == 429  # 133 KB for whoever asks
    clock.now += 30
    assert place.http.get("/api/v2/openapi.json").json()["info"]["version"] == VERSION
    assert [bob.ask("GET", "/me").status_code for _ in range(2)] == [200, 429]


def test_strangers_are_counted_before_anybody_is_asked_and_shut_nobody_out_who_is_known(
    open_place, folder, clock
):
    settings = load(
        None, environment={"CORTEX_HOME": str(folder / "home"), **LIMITED}, user_home=folder
    )
    place = open_place(settings=settings)
    ada, bob, low = (
        place.person(name, tier) for name, tier in (("ada", 4), ("bob", 4), ("low", 0))
    )
    guess = {"Authorization": "Bearer ctx_abc_def"}
    assert [one.ask("GET", "/me").status_code for one in (ada, bob, low, ada)] == [
        200
    ] * 4  # who is known counts as no stranger
    assert [place.http.get("/api/v2/me", headers=guess).status_code for _ in range(3)] == [
        401,
        401,
        429,
    ]
    assert [one.ask("GET", "/me").status_code for one in (ada, bob)] == [200] * 2
    clock.now += 60
    place.ledger.principals.change(place.ledger.principals.named("bob").id, state="revoked")
    assert [bob.ask("GET", "/me").status_code for _ in range(3)] == [401, 401, 429]
    clock.now += 60
    place.ledger.close()
    assert (
        place.http.get("/api/v2/me", headers={"Authorization": "Bearer nonsense"}).status_code
        == 401
    )
    assert [place.http.get("/api/v2/me", headers=guess).status_code for _ in range(2)] == [503, 429]


def test_strangers_shut_nobody_out_who_has_a_token_whether_or_not_it_was_seen_before(
    open_place, folder, clock
):
    settings = load(
        None, environment={"CORTEX_HOME": str(folder / "home"), **LIMITED}, user_home=folder
    )
    place = open_place(settings=settings)
    ada = place.person("ada", 4)
    guess = {"Authorization": "Bearer ctx_abc_def"}
    # As after a start: nobody was here yet
    app = make_app(place.replica, place.ledger, settings, clock=clock)
    with StraightClient(app) as http:
        for headers in ({}, {}, {}, guess):
            http.get("/api/v2/me", headers=headers)
        assert http.get("/api/v2/me", headers=guess).status_code == 429
        bob, gone = place.person("bob", 4), place.person("gone", 4)  # whose tokens were made since
        ada.http = bob.http = gone.http = http
        place.ledger.principals.change(place.ledger.principals.named("gone").id, state="revoked")
        assert [one.ask("GET", "/me").status_code for one in (ada, bob, gone)] == [200, 429, 429]
        clock.now += GOOD_SECONDS
        assert http.get("/api/v2/me", headers=guess).status_code == 429
        assert [one.ask("GET", "/me").status_code for one in (ada, bob, gone)] == [200, 200, 429]


def test_guesses_ask_the_database_as_often_as_strangers_may(open_place, folder, clock, monkeypatch):
    settings = load(
        None, environment={"CORTEX_HOME": str(folder / "home"), **LIMITED}, user_home=folder
    )
    place = open_place(settings=settings)
    asked: list[str] = []
    for name in ("by_token", "good"):
        real = getattr(Principals, name)
        monkeypatch.setattr(
            Principals,
            name,
            lambda self, *told, name=name, real=real: (asked.append(name), real(self, *told))[1],
        )
    clock.now += GOOD_SECONDS
    for number in range(20):
        place.http.get("/api/v2/me", headers={"Authorization": f"Bearer ctx_abc_{number}"})
    assert sorted(asked) == ["by_token", "by_token", "good"]


def test_requests_for_another_machine_or_from_another_site_are_refused(place, ada):
    error_of(ada.ask("GET", "/me", headers={"Host": "evil.example"}), 421, "VALIDATION_ERROR")
    error_of(
        ada.ask("GET", "/me", headers={"Origin": "https://evil.example"}), 403, "PERMISSION_DENIED"
    )
    error_of(place.http.get("/health", headers={"Host": "evil.example"}), 421, "VALIDATION_ERROR")
    assert ada.ask("GET", "/me", headers={"Origin": "http://localhost:3000"}).status_code == 200


def test_every_path_has_its_methods(place, ada):
    for method, path, allowed in (
        ("PUT", "/threads", "GET, POST, HEAD, OPTIONS"),
        ("DELETE", "/threads/thread_1", "GET, PATCH, HEAD, OPTIONS"),
        ("GET", "/search", "POST, OPTIONS"),
        ("GET", "/observations/batch", "POST, OPTIONS"),
    ):
        response = ada.ask(method, path)
        error_of(response, 405, "VALIDATION_ERROR")
        assert response.headers["Allow"] == allowed
    options = ada.ask("OPTIONS", "/threads")
    assert (options.status_code, options.headers["Allow"], options.content) == (
        204,
        "GET, POST, HEAD, OPTIONS",
        b"",
    )
    head = ada.ask("HEAD", "/threads")
    assert (head.status_code, head.content) == (200, b"") and int(
        head.headers["Content-Length"]
    ) > 0
    for path in (
        "/api/v2",
        "/api/v2/",
        "/api/v2/nothing",
        "/api/v2/threads/",
        "/api/v1/threads",
        "/",
        "/api/v2/threads/a/b",
    ):
        error_of(
            place.http.get(path, headers={"Authorization": f"Bearer {ada.token}"}), 404, "NOT_FOUND"
        )
    assert place.http.post("/health").status_code == 405


BODIES = (
    *(
        b"{",
        b"",
        b"  ",
        b"[]",
        b"5",
        b"null",
        b'"{}"',
        b"\xff",
        b'{"title": NaN}',
        b"[" * 10_000,
        b"title=hi",
    ),
    *(
        b'{"title": ' * 200 + b"1" + b"}" * 200,
        b'{"title": ' + b"9" * 5000 + b"}",
        b'{"title": "a"} x',
    ),
)


def test_a_body_that_is_no_decent_object_is_a_bad_request(place, ada):
    headers = {
        "Authorization": f"Bearer {ada.token}",
        "Idempotency-Key": "k",
        "Content-Type": "application/json",
    }
    for body in BODIES:
        error_of(
            place.http.post("/api/v2/threads", content=body, headers=headers),
            400,
            "VALIDATION_ERROR",
        )
    plain = place.http.post(
        "/api/v2/threads", content=b"{}", headers={**headers, "Content-Type": "text/plain"}
    )
    error_of(plain, 415, "VALIDATION_ERROR")
    surrogate = place.http.post(
        "/api/v2/threads", content=rb'{"title": "cut \ud83e"}', headers=headers
    )
    error_of(surrogate, 400, "VALIDATION_ERROR")


def test_a_body_has_its_limit_and_that_of_a_flush_is_larger(place, ada):
    headers = {
        "Authorization": f"Bearer {ada.token}",
        "Idempotency-Key": "k",
        "Content-Type": "application/json",
    }
    large = b" " * (4 * 1024 * 1024 + 1)
    error_of(
        place.http.post("/api/v2/threads", content=large, headers=headers), 413, "VALIDATION_ERROR"
    )
    flushed = place.http.post(
        "/api/v2/sync/flush", content=b'{"actions": []}' + large, headers=headers
    )
    assert flushed.json()["data"] == {"results": []}


def test_a_request_is_called_as_its_sender_does_where_that_is_a_name(place, ada):
    assert (
        ada.ask("GET", "/me", headers={"X-Request-Id": "my-1.2_3"}).json()["meta"]["request_id"]
        == "my-1.2_3"
    )
    assert (
        ada.ask("GET", "/me", headers={"X-Request-Id": "a b"})
        .headers["X-Request-Id"]
        .startswith("req_")
    )


def test_health_says_whether_the_database_answers(place, monkeypatch):
    assert place.http.get("/health").json() == {"status": "ok", "version": VERSION}

    def away(self) -> None:
        raise StoreError("STORE_IO", "the database is away")

    monkeypatch.setattr("cortex.interfaces.team_server.app.HEALTH_SECONDS", 0.0)
    monkeypatch.setattr("cortex.engine.store.records.ledger.Ledger.ping", away)
    response = place.http.get("/health")
    assert (response.status_code, response.json()["status"]) == (503, "unavailable")


def test_health_waits_for_no_database_and_asks_it_once_however_many_want_to_know(
    place, monkeypatch, until
):
    assert PING_SECONDS <= 1.0
    asked, back = [], threading.Event()

    def hang(self) -> None:
        asked.append(threading.current_thread())
        assert back.wait(30)

    monkeypatch.setattr("cortex.interfaces.team_server.app.HEALTH_SECONDS", 0.0)
    monkeypatch.setattr("cortex.interfaces.team_server.app.PING_SECONDS", 0.05)
    monkeypatch.setattr("cortex.engine.store.records.ledger.Ledger.ping", hang)
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: place.http.get("/health").status_code, range(16)))
    assert told == [503] * 16 and len(asked) == 1
    back.set()
    until(lambda: place.http.get("/health").status_code == 200)
    assert len(set(asked)) == 1


def test_figures_tell_of_requests_and_not_of_records(place, ada):
    ada.post("/threads", {"title": "a"})
    ada.ask("GET", "/threads/nothing")
    text = place.http.get("/metrics", headers={"Authorization": f"Bearer {ada.token}"})
    assert text.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = text.text.splitlines()
    assert 'cortex_requests_total{method="POST",route="/api/v2/threads",status="201"} 1' in lines
    assert (
        'cortex_requests_total{method="GET",route="/api/v2/threads/{id}",status="404"} 1' in lines
    )
    assert 'cortex_request_seconds_bucket{route="/api/v2/threads",le="+Inf"} 1' in lines
    assert "cortex_feed_lag_changes 0" in lines
    assert not any("records" in line for line in lines)
    for line in lines:
        assert line.startswith("# ") or float(line.rpartition(" ")[2]) >= 0


def test_figures_do_not_grow_with_what_somebody_makes_up(place, ada):
    for number in range(20):
        place.http.request(f"MADE{number}", "/health")
    text = place.http.get("/metrics", headers={"Authorization": f"Bearer {ada.token}"}).text
    assert (
        'cortex_requests_total{method="other",route="/health",status="405"} 20' in text.splitlines()
    )


def test_a_line_of_the_log_tells_who_asked_for_what_and_never_what_they_wrote(place, ada, caplog):
    with caplog.at_level(logging.INFO, "cortex.core.requests"):
        ada.ask("POST", "/threads?x=hush-query", {"title": "hush-title"})
        ada.ask("POST", "/threads", {"title": "hush-title"}, headers={"X-Request-Id": "r-1"})
        place.http.get("/hush-path")
    # The client of the tests logs its own requests.
    lines = [
        JsonLines().format(record)
        for record in caplog.records
        if not record.name.startswith("httpx2")
    ]
    assert "hush" not in "\n".join(lines) and ada.token not in "\n".join(lines)
    told = json.loads(lines[1])
    assert {
        name: told[name]
        for name in ("level", "request_id", "principal", "method", "route", "status")
    } == {
        "level": "info",
        "request_id": "r-1",
        "principal": "ada",
        "method": "POST",
        "route": "/api/v2/threads",
        "status": 201,
    }
    assert told["ms"] > 0 and "time" in told
    assert json.loads(lines[2])["route"] == "unknown"


@pytest.mark.parametrize(
    "error", [RuntimeError("private"), StoreError("STORE_LOCKED", "another one writes")]
)
def test_what_goes_wrong_here_is_told_without_what_it_was(place, ada, monkeypatch, error):
    def fail(self) -> None:
        raise error

    monkeypatch.setattr("cortex.interfaces.team_server.read_replica.ReadReplica.refresh", fail)
    response = ada.ask("GET", "/threads")
    told = error_of(response, 500 if isinstance(error, RuntimeError) else 503, "SERVER_ERROR")
    assert "private" not in response.text
    assert told["retry_after"] == (None if response.status_code == 500 else 1)
