"""Ledger: records in a store's directory or in a PostgreSQL database, behind one interface."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from cortex.base.errors import InputError
from cortex.base.text import hash_bytes
from cortex.engine.store.connection import Connected
from cortex.engine.store.records.principals import Principals
from cortex.engine.store.records.writer import Records

MISSING = "records in PostgreSQL need two more packages"
INSTALL = "pip install 'cortex-context[core]'"
SQLITE, POSTGRESQL = "sqlite", "postgresql"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Open records and the principals that may use them."""

    records: Records
    principals: Principals
    close: Callable[[], None]
    url: str = field(repr=False)  # may contain a password
    kind: str  # sqlite or postgresql
    connections: Connected = field(repr=False)

    def epoch(self) -> str:
        """Id of this history; change numbers can only be compared within one epoch."""
        with self.connections.read() as connection:
            return connection.execute("SELECT value FROM facts WHERE key = 'epoch'").fetchone()[0]

    def mark(self) -> tuple[str, int, str]:
        """Epoch, number of the last write and its witness, in one query: every request asks."""
        with self.connections.read() as connection:
            epoch, change, *line = connection.execute(_MARK).fetchone()
            return epoch, change, _witness(line)

    def remembers(self, witness: str) -> bool:
        """True if the history of a witness is still this one: a database may have been restored."""
        audit_id = witness.partition(".")[0]
        if not (audit_id.isascii() and audit_id.isdecimal()) or len(audit_id) > _DIGITS:
            return not witness
        with self.connections.read() as connection:
            line = connection.execute(
                f"SELECT {_LINE} FROM audit WHERE id = ?", (int(audit_id),)
            ).fetchone()
            return line is not None and _witness(line) == witness

    def together(self) -> AbstractContextManager[None]:
        """Commit all writes of this thread inside the block together, waiting for the disk once."""
        return self.connections.together()

    def renew_epoch(self, known: str = "") -> str:
        """Start another epoch, so that replicas compare everything again.

        Does nothing if the epoch is no longer the `known` one.
        """
        with self.connections.write(durable=True) as connection:
            now = connection.execute("SELECT value FROM facts WHERE key = 'epoch'").fetchone()[0]
            return now if known and now != known else new_epoch(connection)

    def ping(self) -> None:
        """Check that the database responds.

        Raises: StoreError if it doesn't.
        """
        with self.connections.read() as connection:
            connection.execute("SELECT 1").fetchone()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


def open_ledger(url: str, *, new: bool = True) -> Ledger:
    """Open the records at sqlite:///DIRECTORY or postgresql://…, created if `new` is true.

    Raises: FileNotFoundError if there are none and `new` is false; InputError ARGUMENT_INVALID for
    another URL or missing packages; StoreError.
    """
    if url.startswith(("postgresql://", "postgres://")):
        return _open_postgres(url, new)
    # The message leaves the URL out: it may contain a password.
    if (folder := folder_of(url)) is None:
        raise InputError(
            "ARGUMENT_INVALID",
            "that is no address of records: sqlite:///DIRECTORY or postgresql://…",
        )
    from cortex.engine.store import STORE_NAME, Store

    if not new and not (folder / STORE_NAME).is_file():
        raise FileNotFoundError(f"there is no {folder / STORE_NAME}")
    store = Store(folder, shelved=True)
    return _ledger(store.connections, store.records, store.close, url, SQLITE)


def folder_of(url: str) -> Path | None:
    """Directory of a SQLite URL, None for any other URL."""
    path = re.split("[?#]", url, maxsplit=1)[0].partition("sqlite:///")[2]
    return Path(unquote(path)) if path and url.startswith("sqlite:///") else None


def _open_postgres(url: str, new: bool) -> Ledger:
    try:
        from cortex.engine.store.records.postgres import PostgresConnections
    except ImportError as error:
        raise InputError(
            "ARGUMENT_INVALID", f"{MISSING}: {error}", suggestions=(f"Install them: {INSTALL}.",)
        ) from None
    connections = PostgresConnections(url, new=new)
    records = Records(connections, indexed=False)
    return _ledger(connections, records, connections.close, url, POSTGRESQL)


def _ledger(
    connections: Connected, records: Records, close: Callable[[], None], url: str, kind: str
) -> Ledger:
    return Ledger(records, Principals(connections), close, url, kind, connections)


# The last entry of the audit log stands for all before it: after a restore it is missing or
# different.
_LINE = "id, at, actor, key, record, version"
_MARK = (
    "SELECT facts.value, counters.value, last.* FROM facts "
    "JOIN counters ON counters.name = 'change' "
    f"LEFT JOIN (SELECT {_LINE} FROM audit ORDER BY id DESC LIMIT 1) AS last ON 1 = 1 "
    "WHERE facts.key = 'epoch'"
)
_DIGITS = 18


def _witness(line: Sequence[Any]) -> str:
    """Digest of an entry of the audit log, "" if there is none."""
    if line[0] is None:
        return ""
    return f"{line[0]}.{hash_bytes(b'witness', repr(tuple(line)).encode()).hex()[:16]}"


def new_epoch(connection: Any) -> str:
    """Start another epoch in the caller's transaction."""
    epoch = secrets.token_hex(16)
    connection.execute("UPDATE facts SET value = ? WHERE key = 'epoch'", (epoch,))
    return epoch
