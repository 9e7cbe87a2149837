"""Rate limits of a Core: by tier for its principals, by network for unknown tokens."""

from __future__ import annotations

from cortex.base.runtime.home import VERSION
from cortex.base.settings import load
from cortex.engine.store.records.principals import Principals
from cortex.interfaces.team_server.app import make_app
from cortex.interfaces.team_server.rate_limits import GOOD_SECONDS
from interfaces.team_server.conftest import error_of
from interfaces.team_server.direct_client import DirectClient

LIMITED = {"CORTEX_CORE_RATES": "2,3,4,5,6"}


def test_rate_limit_depends_on_the_tier(open_core, folder, clock):
    settings = load(
        None, environment={"CORTEX_HOME": str(folder / "home"), **LIMITED}, user_home=folder
    )
    core = open_core(settings=settings)
    ada, bob = core.person("ada", 4), core.person("bob", 0)
    assert [bob.ask("GET", "/me").status_code for _ in range(3)] == [200, 200, 429]
    error = error_of(response := bob.ask("GET", "/me"), 429, "RATE_LIMITED")
    assert response.headers["Retry-After"] == "30" and error["retry_after"] == 30
    assert [ada.ask("GET", "/me").status_code for _ in range(7)] == [200] * 6 + [429]
    assert [core.http.get("/api/v2/me").status_code for _ in range(3)] == [401, 401, 429]
    assert [core.http.get("/health").status_code for _ in range(5)] == [200] * 5
    assert core.http.get("/api/v2/openapi.json").status_code == 429  # 133 KB for each request
    clock.now += 30
    assert core.http.get("/api/v2/openapi.json").json()["info"]["version"] == VERSION
    assert [bob.ask("GET", "/me").status_code for _ in range(2)] == [200, 429]


def test_unknown_tokens_are_limited_without_locking_out_known_principals(open_core, folder, clock):
    settings = load(
        None, environment={"CORTEX_HOME": str(folder / "home"), **LIMITED}, user_home=folder
    )
    core = open_core(settings=settings)
    ada, bob, low = (core.person(name, tier) for name, tier in (("ada", 4), ("bob", 4), ("low", 0)))
    guess = {"Authorization": "Bearer ctx_abc_def"}
    assert [client.ask("GET", "/me").status_code for client in (ada, bob, low, ada)] == [
        200
    ] * 4  # who is known counts as no stranger
    assert [core.http.get("/api/v2/me", headers=guess).status_code for _ in range(3)] == [
        401,
        401,
        429,
    ]
    assert [client.ask("GET", "/me").status_code for client in (ada, bob)] == [200] * 2
    clock.now += 60
    core.ledger.principals.change(core.ledger.principals.named("bob").id, state="revoked")
    assert [bob.ask("GET", "/me").status_code for _ in range(3)] == [401, 401, 429]
    clock.now += 60
    core.ledger.close()
    assert (
        core.http.get("/api/v2/me", headers={"Authorization": "Bearer nonsense"}).status_code == 401
    )
    assert [core.http.get("/api/v2/me", headers=guess).status_code for _ in range(2)] == [503, 429]


def test_unknown_tokens_do_not_lock_out_a_token_created_since_the_start(open_core, folder, clock):
    settings = load(
        None, environment={"CORTEX_HOME": str(folder / "home"), **LIMITED}, user_home=folder
    )
    core = open_core(settings=settings)
    ada = core.person("ada", 4)
    guess = {"Authorization": "Bearer ctx_abc_def"}
    # As after a start: no token was seen yet
    app = make_app(core.replica, core.ledger, settings, clock=clock)
    with DirectClient(app) as http:
        for headers in ({}, {}, {}, guess):
            http.get("/api/v2/me", headers=headers)
        assert http.get("/api/v2/me", headers=guess).status_code == 429
        # Their tokens were made since.
        bob, gone = core.person("bob", 4), core.person("gone", 4)
        ada.http = bob.http = gone.http = http
        core.ledger.principals.change(core.ledger.principals.named("gone").id, state="revoked")
        assert [client.ask("GET", "/me").status_code for client in (ada, bob, gone)] == [
            200,
            429,
            429,
        ]
        clock.now += GOOD_SECONDS
        assert http.get("/api/v2/me", headers=guess).status_code == 429
        assert [client.ask("GET", "/me").status_code for client in (ada, bob, gone)] == [
            200,
            200,
            429,
        ]


def test_guessed_tokens_reach_the_database_no_more_often_than_their_limit(
    open_core, folder, clock, monkeypatch
):
    settings = load(
        None, environment={"CORTEX_HOME": str(folder / "home"), **LIMITED}, user_home=folder
    )
    core = open_core(settings=settings)
    asked: list[str] = []
    for name in ("by_token", "good"):
        real = getattr(Principals, name)
        monkeypatch.setattr(
            Principals,
            name,
            lambda self, *given, name=name, real=real: (asked.append(name), real(self, *given))[1],
        )
    clock.now += GOOD_SECONDS
    for number in range(20):
        core.http.get("/api/v2/me", headers={"Authorization": f"Bearer ctx_abc_{number}"})
    assert sorted(asked) == ["by_token", "by_token", "good"]
