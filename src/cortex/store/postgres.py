"""Records in PostgreSQL: connections that speak the SQL of the records as they are in SQLite, so that one code, and one suite of tests,
is for both.

What differs is spelled out in `translated_sql` and in the tables; nothing else of a store is kept there: no docs, no words, no vectors.
Every write first locks the row of the counter that numbers changes: a sequence of PostgreSQL's isn't in the order of commits, so that
somebody who had read change 12 would never see 11 that was committed later. So writes are one after the other, as in SQLite; a
commit takes a millisecond or two, and reading never waits. Road not taken: an object-relational mapper, for thirty statements.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from cortex.errors import CortexError, FileError, InputError, StoreError
from cortex.store.connect import WritersMet
from cortex.store.schema import SCOPES

MOST_CONNECTIONS = 16
WAIT_SECONDS = 10.0  # for a connection, and for the lock of another writer
STATEMENT_MS = 60_000
RESTED_SECONDS = 1.0  # after which a connection may have been cut

MIGRATIONS = (
    """
CREATE TABLE records (
  id TEXT COLLATE "C" PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, state TEXT NOT NULL, sensitivity TEXT NOT NULL,
  body TEXT NOT NULL, author TEXT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL, made TEXT COLLATE "C" NOT NULL,
  source INTEGER, change BIGINT NOT NULL);
CREATE INDEX records_made ON records (kind, made, state);
CREATE INDEX records_state ON records (kind, state, made);
CREATE INDEX records_updated ON records (kind, updated, made, state);
CREATE INDEX records_change ON records (change);
CREATE TABLE refs (
  role TEXT COLLATE "C" NOT NULL, target TEXT COLLATE "C" NOT NULL,
  record TEXT COLLATE "C" NOT NULL REFERENCES records ON DELETE CASCADE, PRIMARY KEY (role, target, record));
CREATE INDEX refs_record ON refs (record, role, target);
CREATE INDEX refs_target ON refs (target);
CREATE TABLE versions (
  record TEXT COLLATE "C" NOT NULL REFERENCES records ON DELETE CASCADE, version INTEGER NOT NULL, kind TEXT NOT NULL,
  body TEXT NOT NULL, author TEXT NOT NULL, created BIGINT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (record, version));
CREATE TABLE keys (
  actor TEXT NOT NULL, key TEXT NOT NULL, payload BYTEA NOT NULL, result TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (actor, key));
CREATE TABLE audit (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at BIGINT NOT NULL, actor TEXT NOT NULL, tier INTEGER NOT NULL, key TEXT NOT NULL,
  action TEXT NOT NULL, record TEXT COLLATE "C" NOT NULL, version INTEGER NOT NULL);
CREATE INDEX audit_record ON audit (record);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the audit log is kept'; END $$;
CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON audit EXECUTE FUNCTION refuse_change();
CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO counters VALUES ('change', 0);
CREATE TABLE principals (
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, tier INTEGER NOT NULL, sensitive INTEGER NOT NULL, state TEXT NOT NULL,
  created BIGINT NOT NULL);
CREATE TABLE grants (
  principal TEXT NOT NULL REFERENCES principals ON DELETE CASCADE, subcortex TEXT NOT NULL, writes INTEGER NOT NULL,
  PRIMARY KEY (principal, subcortex));
CREATE TABLE tokens (
  id TEXT PRIMARY KEY, principal TEXT NOT NULL REFERENCES principals ON DELETE CASCADE, hash BYTEA NOT NULL, label TEXT NOT NULL,
  created BIGINT NOT NULL, expires BIGINT NOT NULL, used BIGINT NOT NULL, revoked BIGINT NOT NULL);
""",
    f"""
ALTER TABLE records ADD COLUMN scope TEXT COLLATE "C" NOT NULL DEFAULT '';
{SCOPES}
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO facts VALUES ('epoch', replace(gen_random_uuid()::text, '-', ''));
INSERT INTO counters VALUES ('applied', 0);
""",
)


class PostgresConnections:
    """The connections of this process to one database."""

    def __init__(self, url: str) -> None:
        """Raises: InputError ARGUMENT_INVALID for what is no address of a database; StoreError, where it doesn't answer."""
        self._local = threading.local()
        # Whatever is usual there: a writer waits for the one before it instead of failing because of it.
        options = (
            f"-c statement_timeout={STATEMENT_MS} -c lock_timeout={int(WAIT_SECONDS * 1000)} "
            r"-c default_transaction_isolation=read\ committed"
        )
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:  # without the address: it may hold a password
            raise InputError("ARGUMENT_INVALID", f"that is no address of a database: {error}".strip()) from None
        with translated(), psycopg.connect(url, connect_timeout=int(WAIT_SECONDS), options=options) as connection:
            _migrate(connection)  # what a pool can't connect to, it only says that it takes too long
        self._pool: ConnectionPool[_Connection] = ConnectionPool(
            url,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            timeout=WAIT_SECONDS,
            connection_class=_Connection,
            kwargs={"autocommit": True, "options": options, "application_name": "cortex"},
            check=_check,
            reset=_note,
            open=False,
        )
        try:
            with translated():
                self._pool.open(wait=True, timeout=WAIT_SECONDS)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def write(self, *, durable: bool = False, erase: bool = False) -> Iterator[Any]:
        """One transaction, committed when the block ends; writers come one after the other."""
        if (outer := getattr(self._local, "writing", None)) is not None:
            with translated(), outer.transaction():
                yield _Spoken(outer)
            return
        with translated(), self._pool.connection() as connection, connection.transaction():
            connection.execute("SELECT value FROM counters WHERE name = 'change' FOR UPDATE")
            yield _Spoken(connection)

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that this thread writes inside the block as one transaction: others see it when the block ends, this thread at once."""
        with self.write() as spoken:
            self._local.writing, self._local.spoken = spoken.connection, spoken
            try:
                yield
            finally:
                self._local.writing = self._local.spoken = None

    @contextmanager
    def read(self) -> Iterator[Any]:
        """One consistent view: every statement in the block sees the same state."""
        outer = getattr(self._local, "spoken", None)
        if outer is not None:
            yield outer
            return
        with translated(), self._pool.connection() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._local.spoken = _Spoken(connection)
            try:
                yield self._local.spoken
            finally:
                self._local.spoken = None
                connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close all."""
        self._pool.close()


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that knows when it was used last."""

    used = 0.0


def _check(connection: _Connection) -> None:
    """Find out whether a connection that has rested is still one; of one in use that would be a round trip for every question."""
    if time.monotonic() - connection.used > RESTED_SECONDS:
        ConnectionPool.check_connection(connection)


def _note(connection: _Connection) -> None:
    connection.used = time.monotonic()


def _migrate(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Bring the tables up to date in a transaction of the caller's, one process at a time. Raises: StoreError STORE_NEWER."""
    connection.execute("SET LOCAL statement_timeout = 0")  # a table may be large
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('cortex schema'))")
    connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    row = connection.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchone()
    version: int = row[0] if row else 0
    if version > len(MIGRATIONS):
        raise StoreError(
            "STORE_NEWER",
            f"this database has schema {version}, this Cortex knows {len(MIGRATIONS)}",
            context={"schema": version, "known": len(MIGRATIONS)},
        )
    for number in range(version, len(MIGRATIONS)):
        connection.execute(MIGRATIONS[number])  # type: ignore[arg-type]
        connection.execute("INSERT INTO schema_version VALUES (%s)", (number + 1,))


class _Spoken:
    """A connection that takes the statements of the records."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Sequence[object] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.connection.execute(translated_sql(statement), tuple(values))  # type: ignore[arg-type]

    def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(translated_sql(statement), rows)  # type: ignore[arg-type]


@lru_cache(maxsize=1_000)
def translated_sql(statement: str) -> str:
    """A statement as PostgreSQL takes it: marks by its own sign, joins in an order of its own, no plus before a column."""
    text = statement.replace("%", "%%")
    text = text.replace("CROSS JOIN records ON", "JOIN records ON").replace("substr(record, -26)", "right(record, 26)")
    text = re.sub(r"\+(records|refs)\.", r"\1.", text)
    return text.replace("?", "%s")


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the database and the network say into errors that a person can act on."""
    try:
        yield
    except CortexError:
        raise
    except PoolTimeout as error:
        raise StoreError("STORE_LOCKED", f"the database doesn't answer: {error}") from error
    except psycopg.errors.DiskFull as error:
        raise FileError("DISK_FULL", f"the database's disk is full: {error}") from error
    except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled) as error:
        raise StoreError("STORE_LOCKED", f"another writer holds the database: {error}") from error
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
        raise WritersMet("STORE_LOCKED", f"two writers met: {error}") from error
    except psycopg.OperationalError as error:
        raise StoreError("STORE_IO", f"the database can't be reached: {error}".strip()) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise StoreError("STORE_READ_ONLY", "the database only reads now") from error
    except psycopg.Error as error:
        raise CortexError("INTERNAL_ERROR", f"the database: {error}".strip()) from error
