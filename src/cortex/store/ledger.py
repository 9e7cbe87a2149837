"""Where records are: a directory with a store, or a PostgreSQL database; to its user both are one thing to write to and one to read."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

from cortex.errors import InputError
from cortex.store.connect import Connected
from cortex.store.principals import Principals
from cortex.store.recordlookup import RecordLookup
from cortex.store.records import Records

MISSING = "records in PostgreSQL need two more packages"
INSTALL = "pip install 'cortex-context[core]'"
SQLITE, POSTGRESQL = "sqlite", "postgresql"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Open records, and who may use them."""

    records: Records
    recorded: RecordLookup
    principals: Principals
    close: Callable[[], None]
    url: str = field(repr=False)  # may hold a password
    kind: str  # sqlite or postgresql
    connections: Connected = field(repr=False)

    def epoch(self) -> str:
        """Which history this is: the numbers of changes can be compared within one epoch only."""
        with self.connections.read() as connection:
            return connection.execute("SELECT value FROM facts WHERE key = 'epoch'").fetchone()[0]

    def mark(self) -> tuple[str, int]:
        """The epoch, and the number of the last write; in one question, for it is asked at every request."""
        ask = "SELECT facts.value, counters.value FROM facts, counters WHERE facts.key = 'epoch' AND counters.name = 'change'"
        with self.connections.read() as connection:
            return tuple(connection.execute(ask).fetchone())

    def renew_epoch(self) -> str:
        """Begin another history: whoever follows compares everything anew."""
        with self.connections.write(durable=True) as connection:
            return new_epoch(connection)

    def ping(self) -> None:
        """Raises: StoreError, where the database doesn't answer."""
        with self.connections.read() as connection:
            connection.execute("SELECT 1").fetchone()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def open_ledger(url: str) -> Ledger:
    """The records at sqlite:///DIRECTORY or postgresql://…, made where there are none.

    Raises: InputError ARGUMENT_INVALID for another address, or where packages are missing; StoreError.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "sqlite":
            from cortex.store import Store

            store = Store(Path(unquote(parts.path[1:])), shelved=True)
            return _ledger(store.connections, store.records, store.recorded, store.close, url, SQLITE)
        case "postgresql" | "postgres":
            return _open_postgres(url)
    raise InputError("ARGUMENT_INVALID", f"{url!r} is no address of records: sqlite:///DIRECTORY or postgresql://…")


def _open_postgres(url: str) -> Ledger:
    try:
        from cortex.store.postgres import PostgresConnections
    except ImportError as error:
        raise InputError(
            "ARGUMENT_INVALID", f"{MISSING}: {error}", suggestions=(f"Install them: {INSTALL}.",)
        ) from None
    connections = PostgresConnections(url)
    records = Records(connections, indexed=False)
    return _ledger(connections, records, RecordLookup(connections), connections.close, url, POSTGRESQL)


def _ledger(
    connections: Connected, records: Records, recorded: RecordLookup, close: Callable[[], None], url: str, kind: str
) -> Ledger:
    return Ledger(records, recorded, Principals(connections), close, url, kind, connections)


def new_epoch(connection: Any) -> str:
    """Begin another history, in the caller's transaction."""
    epoch = secrets.token_hex(16)
    connection.execute("UPDATE facts SET value = ? WHERE key = 'epoch'", (epoch,))
    return epoch
