"""Records in PostgreSQL: connections that accept the SQL of the records in SQLite.

So one implementation and one test suite serve both. The differences are in `translated_sql` and in
the tables. Nothing else of a store is kept there: no docs, no lexical index, no vectors.

Every write first locks the row of the counter that numbers changes: a PostgreSQL sequence isn't in
commit order, so a reader of change 12 could miss 11, committed later. So writes are serial, as in
SQLite; a commit takes a millisecond or two, and reads never wait.

Road not taken: an object-relational mapper, for thirty statements.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from cortex.base.errors import CortexError, FileError, InputError, StoreError
from cortex.engine.store.connection import SingleReads, Unbuffered, Values, WriteConflict
from cortex.engine.store.records.write_batch import WriteBatch
from cortex.engine.store.schema import SCOPES

MOST_CONNECTIONS = 20
# Wait for the database at the start.
WAIT_SECONDS = 10.0
# Wait for a connection of the pool.
BORROW_SECONDS = 3.0
# Time for which the pool reconnects by itself; then the next borrower starts again.
RECONNECT_SECONDS = 4.0
# Time for which a writer waits for another one.
LOCK_MS = 4_000
JOT_MS = 200
STATEMENT_MS = 60_000
# Longest idle time of a transaction: a client that was cut off in one would block all writers.
IDLE_MS = 60_000
# A network that drops packets is detected after 15 seconds, both while sending and while waiting
# for an answer.
_PATIENCE: dict[str, Any] = {
    "connect_timeout": int(WAIT_SECONDS),
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
ENCODING = "UTF8"
# Attempts at a server that closes each connection.
BEGINNINGS = 3
# Characters of a reference's target in an index; no id is as long.
BEGINNING = 256
_LOCK = "SELECT value FROM counters WHERE name = 'change' FOR UPDATE"

MIGRATIONS = (
    """
CREATE TABLE records (
  id TEXT COLLATE "C" PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL,\
 state TEXT NOT NULL, sensitivity TEXT NOT NULL,
  body TEXT NOT NULL, author TEXT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL,\
 made TEXT COLLATE "C" NOT NULL,
  source INTEGER, change BIGINT NOT NULL);
CREATE INDEX records_made ON records (kind, made, state);
CREATE INDEX records_state ON records (kind, state, made);
CREATE INDEX records_updated ON records (kind, updated, made, state);
CREATE INDEX records_change ON records (change);
CREATE TABLE refs (
  role TEXT COLLATE "C" NOT NULL, target TEXT COLLATE "C" NOT NULL,
  record TEXT COLLATE "C" NOT NULL REFERENCES records ON DELETE CASCADE,\
 PRIMARY KEY (role, target, record));
CREATE INDEX refs_record ON refs (record, role, target);
CREATE INDEX refs_target ON refs (target);
CREATE TABLE versions (
  record TEXT COLLATE "C" NOT NULL REFERENCES records ON DELETE CASCADE, version INTEGER NOT NULL,\
 kind TEXT NOT NULL,
  body TEXT NOT NULL, author TEXT NOT NULL, created BIGINT NOT NULL, at BIGINT NOT NULL,\
 PRIMARY KEY (record, version));
CREATE TABLE keys (
  actor TEXT NOT NULL, key TEXT NOT NULL, payload BYTEA NOT NULL, result TEXT NOT NULL,\
 at BIGINT NOT NULL, PRIMARY KEY (actor, key));
CREATE TABLE audit (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at BIGINT NOT NULL, actor TEXT NOT NULL,\
 tier INTEGER NOT NULL, key TEXT NOT NULL,
  action TEXT NOT NULL, record TEXT COLLATE "C" NOT NULL, version INTEGER NOT NULL);
CREATE INDEX audit_record ON audit (record);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$\
 BEGIN RAISE EXCEPTION 'the audit log is kept'; END $$;
CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON audit\
 EXECUTE FUNCTION refuse_change();
CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO counters VALUES ('change', 0);
CREATE TABLE principals (
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, tier INTEGER NOT NULL,\
 sensitive INTEGER NOT NULL, state TEXT NOT NULL,
  created BIGINT NOT NULL);
CREATE TABLE grants (
  principal TEXT NOT NULL REFERENCES principals ON DELETE CASCADE, subcortex TEXT NOT NULL,\
 writes INTEGER NOT NULL,
  PRIMARY KEY (principal, subcortex));
CREATE TABLE tokens (
  id TEXT PRIMARY KEY, principal TEXT NOT NULL REFERENCES principals ON DELETE CASCADE,\
 hash BYTEA NOT NULL, label TEXT NOT NULL,
  created BIGINT NOT NULL, expires BIGINT NOT NULL, used BIGINT NOT NULL, revoked BIGINT NOT NULL);
""",
    f"""
ALTER TABLE records ADD COLUMN scope TEXT COLLATE "C" NOT NULL DEFAULT '';
{SCOPES}
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO facts VALUES ('epoch', replace(gen_random_uuid()::text, '-', ''));
INSERT INTO counters VALUES ('applied', 0);
""",
    # A row of an index has 2,700 bytes at most, and a target may be longer, such as a URL of 2,000
    # Chinese characters.
    f"""
ALTER TABLE refs DROP CONSTRAINT refs_pkey;
DROP INDEX refs_record;
DROP INDEX refs_target;
CREATE UNIQUE INDEX refs_once ON refs (record, role, hashtextextended(target, 0));
CREATE INDEX refs_beginning ON refs (role, left(target, {BEGINNING}), record);
""",
    "ALTER TABLE audit ADD COLUMN via TEXT NOT NULL DEFAULT ''",
)


class PostgresConnections(SingleReads):
    """Connections of this process to one database."""

    def __init__(self, url: str, *, new: bool = True) -> None:
        """Connect, and create or migrate the tables.

        Raises: InputError ARGUMENT_INVALID for an invalid database URL; StoreError if the database
        doesn't respond; FileNotFoundError if there are no tables and `new` is false.
        """
        self._local = threading.local()
        try:
            parameters = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            # The URL is left out: it may contain a password.
            raise InputError(
                "ARGUMENT_INVALID", f"that is no address of a database: {error}".strip()
            ) from None
        settings = {name: value for name, value in _PATIENCE.items() if name not in parameters}
        # Regardless of the server's defaults, a writer waits for the previous one instead of
        # failing.
        settings["options"] = (
            f"{parameters.get('options') or ''} "  # such as the schema of the tables
            f"-c statement_timeout={STATEMENT_MS} -c lock_timeout={LOCK_MS} "
            f"-c idle_in_transaction_session_timeout={IDLE_MS} "
            "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3 "
            r"-c default_transaction_isolation=read\ committed"
        )
        settings["client_encoding"] = ENCODING
        with translated():
            # Connect without the pool first, since a pool only reports a timeout.
            _prepare(url, settings, new)
        self._pool: ConnectionPool[psycopg.Connection[tuple[Any, ...]]] = ConnectionPool(
            url,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            timeout=BORROW_SECONDS,
            reconnect_timeout=RECONNECT_SECONDS,
            kwargs={
                "autocommit": True,
                "application_name": "cortex",
                # Long statements aren't parsed by the client every time.
                "cursor_factory": psycopg.RawCursor,
                **settings,
            },
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
        """Open a write transaction, committed when the block ends; writers are serial."""
        if (outer := getattr(self._local, "batch", None)) is not None:
            with translated(), outer.part():
                yield outer
            return
        with translated(), self._transaction("BEGIN") as connection:
            if (last := connection.execute(_LOCK).fetchone()) is None:
                raise StoreError(
                    "STORE_CORRUPT", "the database has lost the counter that numbers changes"
                )
            batch = WriteBatch(_Spoken(connection), *last)
            with self._use(batch):
                yield batch
            batch.write()
            # PostgreSQL answers COMMIT of a failed transaction with a rollback and no error.
            if connection.execute("COMMIT").statusmessage != "COMMIT":
                raise StoreError("STORE_IO", "an earlier write of the same transaction failed")

    @contextmanager
    def together(self) -> Iterator[None]:
        """Combine all writes of this thread inside the block into one transaction.

        Other threads see them when the block ends, this thread at once.
        """
        with self.write() as batch:
            self._local.batch = batch
            try:
                yield
            finally:
                self._local.batch = None

    @contextmanager
    def read(self) -> Iterator[Any]:
        """Open a read transaction: every statement in the block sees the same state."""
        outer = getattr(self._local, "spoken", None)
        if outer is not None:
            with translated():
                yield outer
            return
        began = self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with translated(), began as connection, self._use(_Spoken(connection)) as spoken:
            yield spoken

    @contextmanager
    def _use(self, spoken: Any) -> Iterator[Any]:
        """Use this connection for nested reads of this thread: another one might block."""
        outer = getattr(self._local, "spoken", None)
        self._local.spoken = spoken
        try:
            yield spoken
        finally:
            self._local.spoken = outer

    def jot(self, statement: str, values: Sequence[object]) -> None:
        """Write a row that needs no order and isn't worth waiting for."""
        with (
            translated(),
            self._transaction("BEGIN", f"SET LOCAL lock_timeout = {JOT_MS}") as connection,
        ):
            _Spoken(connection).execute(statement, values)
            connection.execute("COMMIT")

    @contextmanager
    def _transaction(self, *statements: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Borrow a connection with an open transaction; rolled back unless the block commits.

        If the connection breaks before the commit, nothing was written. If it breaks during the
        commit, the outcome is unknown; a retry waits for the counter row until the database has
        decided, and sees the result.

        Raises: WriteConflict in both cases.
        """
        connection = self._borrow(statements)
        try:
            yield connection
        except psycopg.Error as error:
            if connection.closed:
                raise WriteConflict(
                    "STORE_IO", f"the connection to the database broke: {error}".strip()
                ) from error
            raise
        finally:
            if (
                not connection.closed
                and connection.info.transaction_status != TransactionStatus.IDLE
            ):
                # If this fails, the connection is closed and the pool replaces it.
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
            self._pool.putconn(connection)

    def _borrow(self, statements: Sequence[str]) -> psycopg.Connection[tuple[Any, ...]]:
        """Borrow a connection and run these statements; replaces connections cut while idle."""
        for left in reversed(range(MOST_CONNECTIONS + 1)):
            connection = self._pool.getconn()
            try:
                for statement in statements:
                    connection.execute(statement)  # type: ignore[arg-type]
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
        """Close all connections."""
        self._pool.close()


def _prepare(url: str, settings: Mapping[str, Any], new: bool) -> None:
    """Create or migrate the tables; retried if the server closes the connection meanwhile."""
    for tries_left in reversed(range(BEGINNINGS)):
        with psycopg.connect(url, **settings) as connection:
            try:
                _migrate(connection, new)
                connection.commit()
                return
            except psycopg.OperationalError:
                if not tries_left or not connection.broken:
                    raise


def _migrate(connection: psycopg.Connection[tuple[Any, ...]], new: bool) -> None:
    """Migrate the tables in a transaction of the caller, one process at a time.

    Raises: InputError ARGUMENT_INVALID for a database without Unicode; StoreError STORE_NEWER;
    FileNotFoundError if there are no tables and `new` is false.
    """
    if (encoding := connection.info.parameter_status("server_encoding")) != ENCODING:
        raise InputError(
            "ARGUMENT_INVALID",
            f"the database keeps text as {encoding}, which doesn't have every letter; nothing was "
            "made there",
            instead=(
                f"Make another one: createdb --encoding {ENCODING} --template template0 NAME.",
            ),
        )
    # A table may be large.
    connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('cortex schema'))")
    # Checked first, since the database user may lack the right to create tables.
    if connection.execute("SELECT to_regclass('schema_version')").fetchone() == (None,):
        if not new:
            raise FileNotFoundError("there are no tables")
        connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    row = connection.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchone()
    version: int = row[0] if row else 0
    if version > len(MIGRATIONS):
        raise StoreError(
            "STORE_NEWER",
            f"this database has schema {version}, this Cortex knows {len(MIGRATIONS)}",
            context={"schema": version, "known": len(MIGRATIONS)},
        )
    for index in range(version, len(MIGRATIONS)):
        connection.execute(MIGRATIONS[index])  # type: ignore[arg-type]
        connection.execute("INSERT INTO schema_version VALUES (%s)", (index + 1,))


class _Spoken(Unbuffered):
    """Connection that accepts the records' SQL in SQLite's dialect."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Values = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.connection.execute(translated_sql(statement), tuple(values))  # type: ignore[arg-type]

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(translated_sql(statement), rows)  # type: ignore[arg-type]


@lru_cache(maxsize=1_000)
def translated_sql(statement: str) -> str:
    """Translate a statement from SQLite's dialect.

    Placeholders get numbers, joins no fixed order, columns no unary plus, and a target is also
    compared by its indexed beginning.
    """
    text = statement.replace("CROSS JOIN records ON", "JOIN records ON")
    text = text.replace("substr(record, -26)", "right(record, 26)")
    text = text.replace("records.id = refs.target", f"records.id = left(refs.target, {BEGINNING})")
    text = re.sub(r"\+(records|refs)\.", r"\1.", text)
    first, *rest = text.split("?")
    return _TARGET.sub(
        _by_beginning, first + "".join(f"${index}{part}" for index, part in enumerate(rest, 1))
    )


_TARGET = re.compile(r"((?:\w+\.)?\btarget) (=|<) (\$\d+)")


def _by_beginning(match: re.Match[str]) -> str:
    column, sign, value = match.groups()
    either = "=" if sign == "=" else "<="
    return f"(left({column}, {BEGINNING}) {either} left({value}, {BEGINNING}) AND {match[0]})"


# Errors caused by the input, not by the database; some of them are operational errors.
_INPUT_ERRORS = (
    psycopg.DataError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.TooManyColumns,
    psycopg.errors.TooManyArguments,
)


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of the database and the network into actionable ones."""
    try:
        yield
    except CortexError:
        raise
    except PoolTimeout as error:
        raise StoreError("STORE_LOCKED", f"the database doesn't answer: {error}") from error
    except psycopg.errors.DiskFull as error:
        raise FileError("DISK_FULL", f"the database's disk is full: {error}") from error
    except psycopg.errors.LockNotAvailable as error:
        raise StoreError("STORE_LOCKED", f"another writer holds the database: {error}") from error
    except psycopg.errors.QueryCanceled as error:
        raise StoreError("STORE_LOCKED", f"the database takes too long: {error}") from error
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
        raise WriteConflict("STORE_LOCKED", f"two writers met: {error}") from error
    except (*_INPUT_ERRORS, UnicodeEncodeError) as error:
        raise InputError(
            "RECORD_INVALID", f"the database can't hold that: {error}".strip()
        ) from error
    except psycopg.errors.IdleInTransactionSessionTimeout as error:
        raise WriteConflict(
            "STORE_IO", f"the database waited too long for what was written: {error}"
        ) from error
    except psycopg.OperationalError as error:
        hint = (
            "Check the database's address and that it runs, then try again; nothing that was "
            "stored is lost."
        )
        raise StoreError(
            "STORE_IO", f"the database can't be reached: {error}".strip(), instead=(hint,)
        ) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        hint = (
            "Name the database that is written to, and not a copy of it; or wait until it takes "
            "writes again."
        )
        raise StoreError(
            "STORE_READ_ONLY", "the database only reads now", instead=(hint,)
        ) from error
    except (psycopg.IntegrityError, psycopg.errors.InFailedSqlTransaction) as error:
        # Caused by the input, or by an earlier failure.
        raise CortexError("INTERNAL_ERROR", f"the database: {error}".strip()) from error
    # A missing table or a revoked right: not caused by the input.
    except psycopg.Error as error:
        hint = (
            "Check what its user may do there, and that no tables of another program have these "
            "names: a Core wants a database of its own."
        )
        raise StoreError("STORE_IO", f"the database: {error}".strip(), instead=(hint,)) from error
