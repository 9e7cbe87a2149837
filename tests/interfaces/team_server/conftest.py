"""A Core in this process: a ledger, a replica, principals with tokens, and their clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import inmemory
from cortex.base.settings import Settings, load
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.store.records.ledger import Ledger, open_ledger
from cortex.families.team.ids import fresh_key
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.app import App, make_app
from cortex.interfaces.team_server.read_replica import ReadReplica
from interfaces.team_server.direct_client import DirectClient

EVERYWHERE = {"*": True}


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Client:
    """A client of a Core, with the token of one principal."""

    def __init__(self, http: TestClient, token: str) -> None:
        self.http = http
        self.token = token

    def ask(
        self, method: str, path: str, body: Any = None, *, key: str | None = "", **more: Any
    ) -> Any:
        """The response; a write has a fresh key unless one is given, or None for none."""
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        if method in ("POST", "PATCH") and key is not None:
            headers["Idempotency-Key"] = key or fresh_key()
        return self.http.request(method, f"/api/v2{path}", json=body, headers=headers, **more)

    def get(self, path: str, **params: Any) -> Any:
        """The data of the answer."""
        return self.data_of(self.ask("GET", path, params=params))

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        """The data of the answer."""
        return self.data_of(self.ask("POST", path, {} if body is None else body, **more))

    def patch(self, path: str, body: Any, **more: Any) -> Any:
        """The data of the answer."""
        return self.data_of(self.ask("PATCH", path, body, **more))

    def data_of(self, response: Any) -> Any:
        """The data of a response that must be a success."""
        assert response.status_code in (200, 201), response.text
        return response.json()["data"]

    def refused(self, status: int, code: str, response: Any) -> dict[str, Any]:
        """The error of a response that must have this status and code."""
        assert response.status_code == status, response.text
        error = response.json()["error"]
        assert error["code"] == code, error
        return error


class RunningCore:
    """A Core and its parts."""

    def __init__(
        self, settings: Settings, ledger: Ledger, replica: ReadReplica, clock: Clock
    ) -> None:
        self.settings, self.ledger, self.replica, self.clock = settings, ledger, replica, clock
        self.app: App = make_app(replica, ledger, settings, clock=clock)
        self.http = DirectClient(self.app)

    def person(
        self,
        name: str,
        tier: int,
        grants: dict[str, bool] | None = None,
        *,
        sensitive: bool = False,
    ) -> Client:
        """A client for a new principal."""
        principal = principals.add(
            self.ledger, name, tier, sensitive, EVERYWHERE if grants is None else grants
        )
        return Client(self.http, self.ledger.principals.make_token(principal.id)[1])


def error_of(response: Any, status: int, code: str) -> dict[str, Any]:
    """Return the error of a response that must have this status and code, and no other field."""
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


@pytest.fixture(scope="module")
def world() -> Iterator[Any]:
    """A team with records hidden from some."""
    from interfaces.team_server.guarded_world import open_world  # which needs what is above

    with inmemory.folder() as folder, open_world(folder) as opened:
        yield opened


@pytest.fixture
def folder(memory: Path) -> Path:
    """A folder in memory: every write of a Core is durable."""
    return memory


@pytest.fixture
def settings(folder: Path) -> Settings:
    environment = {"CORTEX_HOME": str(folder / "home"), "CORTEX_CORE_RATES": "0,0,0,0,0"}
    return load(None, environment=environment, flags={"indexing.workers": 1}, user_home=folder)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_core(
    settings: Settings, clock: Clock, folder: Path
) -> Iterator[Callable[..., RunningCore]]:
    """A function that opens Cores; they are closed when the test ends."""
    opened: list[RunningCore] = []

    def open_one(
        url: str = "", directory: Path | None = None, settings: Settings = settings
    ) -> RunningCore:
        (folder / "ledger").mkdir(exist_ok=True)
        ledger = open_ledger(url or f"sqlite:///{folder / 'ledger'}")
        try:
            replica = ReadReplica(
                settings, ledger, directory or folder / "ledger", embedders=Embedders(None)
            )
        except BaseException:
            ledger.close()
            raise
        core = RunningCore(settings, ledger, replica, clock)
        core.http.__enter__()
        opened.append(core)
        return core

    yield open_one
    for core in reversed(opened):
        core.http.__exit__(None, None, None)
        core.replica.close()
        core.ledger.close()


@pytest.fixture
def core(open_core: Callable[..., RunningCore]) -> RunningCore:
    """A Core over a directory."""
    return open_core()


@pytest.fixture
def postgres_core(
    open_core: Callable[..., RunningCore], database: str, folder: Path
) -> RunningCore:
    """A Core whose records are in PostgreSQL."""
    return open_core(database, folder / "replica")


@pytest.fixture
def ada(core: RunningCore) -> Client:
    """A client of a principal with all rights."""
    return core.person("ada", 4, sensitive=True)
