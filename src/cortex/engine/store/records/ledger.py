"""Where records are: a directory with a store, or a PostgreSQL database; to its user both are one
thing to write to and one to read.
"""

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
from cortex.engine.store.connections import Connected
from cortex.engine.store.records.principals import Principals
from cortex.engine.store.records.queries import RecordLookup
from cortex.engine.store.records.writer import Records

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

    def mark(self) -> tuple[str, int, str]:
        """The epoch, the number of the last write, and its witness; in one question, for it is
        asked at every request.
        """
        with self.connections.read() as connection:
            epoch, change, *line = connection.execute(_MARK).fetchone()
            return epoch, change, _witness(line)

    def remembers(self, witness: str) -> bool:
        """Whether this is still the history that a witness was told of: a database may be put back
        behind everybody's back.
        """
        number = witness.partition(".")[0]
        if not (number.isascii() and number.isdecimal()) or len(number) > _DIGITS:
            return not witness
        with self.connections.read() as connection:
            line = connection.execute(
                f"SELECT {_LINE} FROM audit WHERE id = ?", (int(number),)
            ).fetchone()
            return line is not None and _witness(line) == witness

    def together(self) -> AbstractContextManager[None]:
        """Have all that this thread writes inside the block on the disk, and seen by others, at
        once when it ends: it waits for the disk once.
        """
        return self.connections.together()

    def renew_epoch(self, known: str = "") -> str:
        """Begin another history: whoever follows compares everything anew.

        Where the epoch isn't the `known` one, that was done.
        """
        with self.connections.write(durable=True) as connection:
            now = connection.execute("SELECT value FROM facts WHERE key = 'epoch'").fetchone()[0]
            return now if known and now != known else new_epoch(connection)

    def ping(self) -> None:
        """Raises: StoreError, where the database doesn't answer."""
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
    """The records at sqlite:///DIRECTORY or postgresql://…, made where there are none and `new`
    ones may be.

    Raises: FileNotFoundError, where they may not; InputError ARGUMENT_INVALID for another address,
    or where packages are missing; StoreError.
    """
    if url.startswith(("postgresql://", "postgres://")):
        return _open_postgres(url, new)
    if (folder := folder_of(url)) is None:  # without the address: it may hold a password
        raise InputError(
            "ARGUMENT_INVALID",
            "that is no address of records: sqlite:///DIRECTORY or postgresql://…",
        )
    from cortex.engine.store import STORE_NAME, Store

    if not new and not (folder / STORE_NAME).is_file():
        raise FileNotFoundError(f"there is no {folder / STORE_NAME}")
    store = Store(folder, shelved=True)
    return _ledger(store.connections, store.records, store.recorded, store.close, url, SQLITE)


def folder_of(url: str) -> Path | None:
    """The directory of records in SQLite, None for what is another address."""
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
    return _ledger(
        connections, records, RecordLookup(connections), connections.close, url, POSTGRESQL
    )


def _ledger(
    connections: Connected,
    records: Records,
    recorded: RecordLookup,
    close: Callable[[], None],
    url: str,
    kind: str,
) -> Ledger:
    return Ledger(records, recorded, Principals(connections), close, url, kind, connections)


# The last line of the audit log stands for all before it: after a rollback it is missing, or says
# something else.
_LINE = "id, at, actor, key, record, version"
_MARK = (
    f"SELECT facts.value, counters.value, last.* FROM facts JOIN counters ON counters.name = 'change' "
    f"LEFT JOIN (SELECT {_LINE} FROM audit ORDER BY id DESC LIMIT 1) AS last ON 1 = 1 WHERE facts.key = 'epoch'"
)
_DIGITS = 18


def _witness(line: Sequence[Any]) -> str:
    """What is remembered of a line of the audit log, "" where there is none."""
    if line[0] is None:
        return ""
    return f"{line[0]}.{hash_bytes(b'witness', repr(tuple(line)).encode()).hex()[:16]}"


def new_epoch(connection: Any) -> str:
    """Begin another history, in the caller's transaction."""
    epoch = secrets.token_hex(16)
    connection.execute("UPDATE facts SET value = ? WHERE key = 'epoch'", (epoch,))
    return epoch
