"""Where records are: a directory with a store, or a PostgreSQL database; to its user both are one thing to write to and one to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit

from cortex.errors import InputError
from cortex.store.recordlookup import RecordLookup
from cortex.store.records import Records

MISSING = "records in PostgreSQL need two more packages"
INSTALL = "pip install 'cortex-context[core]'"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Open records."""

    records: Records
    recorded: RecordLookup
    close: Callable[[], None]

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

            store = Store(Path(unquote(parts.path[1:])))
            return Ledger(store.records, store.recorded, store.close)
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
    return Ledger(Records(connections, indexed=False), RecordLookup(connections), connections.close)
