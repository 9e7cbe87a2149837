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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from cortex.errors import CortexError, FileError, InputError, StoreError
from cortex.store.connect import WritersMet
from cortex.store.schema import SCOPES

MOST_CONNECTIONS = 20
WAIT_SECONDS = 10.0  # for the database, at the start
BORROW_SECONDS = 3.0  # for a connection of the pool
RECONNECT_SECONDS = 4.0  # that the pool tries by itself; then whoever needs one begins anew
LOCK_MS = 4_000  # that a writer waits for another one
JOT_MS = 200
STATEMENT_MS = 60_000

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
            f"-c statement_timeout={STATEMENT_MS} -c lock_timeout={LOCK_MS} "
            r"-c default_transaction_isolation=read\ committed"
        )
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:  # without the address: it may hold a password
            raise InputError("ARGUMENT_INVALID", f"that is no address of a database: {error}".strip()) from None
        with translated(), psycopg.connect(url, connect_timeout=int(WAIT_SECONDS), options=options) as connection:
            _migrate(connection)  # what a pool can't connect to, it only says that it takes too long
        self._pool: ConnectionPool[psycopg.Connection[tuple[Any, ...]]] = ConnectionPool(
            url,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            timeout=BORROW_SECONDS,
            reconnect_timeout=RECONNECT_SECONDS,
            kwargs={"autocommit": True, "options": options, "application_name": "cortex"},
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
        with translated(), self._begun("BEGIN", "SELECT value FROM counters WHERE name = 'change' FOR UPDATE") as one:
            yield _Spoken(one)
            # A transaction that an error ended is rolled back by this, without another one.
            if one.execute("COMMIT").statusmessage != "COMMIT":
                raise StoreError("STORE_IO", "what was written with something that failed could not be kept")

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
            with translated():
                yield outer
            return
        with translated(), self._begun("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            self._local.spoken = _Spoken(connection)
            try:
                yield self._local.spoken
            finally:
                self._local.spoken = None

    def jot(self, statement: str, values: Sequence[object]) -> None:
        """Write something that is in no order with anything else, and not worth waiting for."""
        with translated(), self._begun("BEGIN", f"SET LOCAL lock_timeout = {JOT_MS}") as connection:
            _Spoken(connection).execute(statement, values)
            connection.execute("COMMIT")

    @contextmanager
    def _begun(self, *statements: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A connection that has begun a transaction, which is rolled back where the block doesn't commit it.

        Where the connection breaks before that, nothing was written; where it breaks meanwhile, nobody knows, but whoever does the
        same again waits for the row of the counter until the database does, and sees it. Raises: WritersMet for both.
        """
        connection = self._borrow(statements)
        try:
            yield connection
        except psycopg.OperationalError as error:
            if connection.closed:
                raise WritersMet("STORE_IO", f"the connection to the database broke: {error}".strip()) from error
            raise
        finally:
            if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
                with suppress(psycopg.Error):  # then it is closed, and another one takes its place
                    connection.execute("ROLLBACK")
            self._pool.putconn(connection)

    def _borrow(self, statements: Sequence[str]) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection on which these were done; one that was cut while it rested is found by that, and another one is taken."""
        for left in reversed(range(MOST_CONNECTIONS + 1)):
            connection = self._pool.getconn()
            try:
                for one in statements:
                    connection.execute(one)  # type: ignore[arg-type]
                return connection
            except BaseException as error:
                cut = connection.closed and isinstance(error, psycopg.OperationalError)
                if not connection.closed:
                    with suppress(psycopg.Error):
                        connection.execute("ROLLBACK")
                self._pool.putconn(connection)
                if not (cut and left):
                    raise
        raise AssertionError("the last one is returned, or raised")

    def close(self) -> None:
        """Close all."""
        self._pool.close()


def _migrate(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Bring the tables up to date in a transaction of the caller's, one process at a time. Raises: StoreError STORE_NEWER."""
    connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")  # a table may be large
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
        hint = "Check the database's address and that it runs, then try again; nothing that was stored is lost."
        raise StoreError("STORE_IO", f"the database can't be reached: {error}".strip(), instead=(hint,)) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise StoreError("STORE_READ_ONLY", "the database only reads now") from error
    except psycopg.Error as error:
        raise CortexError("INTERNAL_ERROR", f"the database: {error}".strip()) from error
