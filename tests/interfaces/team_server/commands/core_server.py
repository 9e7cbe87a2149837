"""A Core in this process, over real HTTP on a loopback port, with its records in SQLite."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cortex.base.settings import load
from cortex.base.visibility import EVERYWHERE
from cortex.engine.store.records.ledger import Ledger, open_ledger
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.app import make_app
from cortex.interfaces.team_server.read_replica import ReadReplica
from cortex.interfaces.transports.http.uvicorn_server import Guest, config, listen_on


class CoreServer:
    """A served Core, and tokens for it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        environment = {"CORTEX_HOME": str(directory), "CORTEX_CORE_RATES": "0,0,0,0,0"}
        flags = {"indexing.embeddingProvider": "none"}
        self.settings = load(None, environment=environment, flags=flags, user_home=directory)
        self.ledger: Ledger = open_ledger(f"sqlite:///{directory}")
        self._hall = ReadReplica(self.settings, self.ledger, directory)
        self._port = 0
        self._server: Guest | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Serve, at the same address as before."""
        listener = listen_on("127.0.0.1", self._port)
        self._port = listener.getsockname()[1]
        self._server = Guest(config(make_app(self._hall, self.ledger, self.settings)))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, daemon=True
        )
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join(10)
            self._server = None

    def let_in(self, name: str, tier: int = 4, *, sensitive: bool = True) -> str:
        """A token of a principal with this name, who is added where needed."""
        known = self.ledger.principals.named(name)
        made = known or principals.add(self.ledger, name, tier, sensitive, {EVERYWHERE: True})
        return self.ledger.principals.make_token(made.id)[1]

    def titles(self) -> set[str]:
        """The titles of all records."""
        return {str(change.record.body.title) for change in self.ledger.records.changes(0, 1000)}

    def close(self) -> None:
        self.stop()
        self._hall.close()
        self.ledger.close()


@contextmanager
def core_at(directory: Path) -> Iterator[CoreServer]:
    served = CoreServer(directory)
    try:
        yield served
    finally:
        served.close()
