"""Records in PostgreSQL: connections that speak the SQL of the records as they are in SQLite, so
that one code, and one suite of tests, is for both.

What differs is spelled out in `translated_sql` and in the tables; nothing else of a store is kept
there: no docs, no words, no vectors. Every write first locks the row of the counter that numbers
changes: a sequence of PostgreSQL's isn't in the order of commits, so that somebody who had read
change 12 would never see 11 that was committed later. So writes are one after the other, as in
SQLite; a commit takes a millisecond or two, and reading never waits. Road not taken: an
object-relational mapper, for thirty statements.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from cortex.base.errors import CortexError, FileError, InputError, StoreError
from cortex.engine.store.connections import WriteConflict
from cortex.engine.store.records.write_batch import WriteBatch
from cortex.engine.store.schema import SCOPES

MOST_CONNECTIONS = 20
WAIT_SECONDS = 10.0  # for the database, at the start
BORROW_SECONDS = 3.0  # for a connection of the pool
RECONNECT_SECONDS = 4.0  # that the pool tries by itself; then whoever needs one begins anew
LOCK_MS = 4_000  # that a writer waits for another one
JOT_MS = 200
STATEMENT_MS = 60_000
# That a transaction may do nothing: whoever was cut off in it would keep all others from writing
IDLE_MS = 60_000
# A network that swallows what is sent is noticed after a quarter of a minute, whether an answer is
# waited for or something is sent.
_PATIENCE: dict[str, Any] = {
    "connect_timeout": int(WAIT_SECONDS),
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
ENCODING = "UTF8"
BEGINNINGS = 3  # before a server that ends each connection is given up
BEGINNING = 256  # characters of what is pointed to that an index has; no id is as long
_LOCK = "SELECT value FROM counters WHERE name = 'change' FOR UPDATE"

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
    # A row of an index has 2,700 bytes at most, and what is pointed to may be longer, as an address
    # of 2,000 Chinese letters.
    f"""
ALTER TABLE refs DROP CONSTRAINT refs_pkey;
DROP INDEX refs_record;
DROP INDEX refs_target;
CREATE UNIQUE INDEX refs_once ON refs (record, role, hashtextextended(target, 0));
CREATE INDEX refs_beginning ON refs (role, left(target, {BEGINNING}), record);
""",
    "ALTER TABLE audit ADD COLUMN via TEXT NOT NULL DEFAULT ''",
)


class PostgresConnections:
    """The connections of this process to one database."""

    def __init__(self, url: str, *, new: bool = True) -> None:
        """Raises: InputError ARGUMENT_INVALID for what is no address of a database; StoreError,
        where it doesn't answer.

        FileNotFoundError, where there are no tables and none shall be made.
        """
        self._local = threading.local()
        try:
            told = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:  # without the address: it may hold a password
            raise InputError(
                "ARGUMENT_INVALID", f"that is no address of a database: {error}".strip()
            ) from None
        settings = {name: value for name, value in _PATIENCE.items() if name not in told}
        # Whatever is usual there: a writer waits for the one before it instead of failing because
        # of it.
        settings["options"] = (
            f"{told.get('options') or ''} "  # as in which schema the tables are
            f"-c statement_timeout={STATEMENT_MS} -c lock_timeout={LOCK_MS} -c idle_in_transaction_session_timeout={IDLE_MS} "
            "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3 "
            r"-c default_transaction_isolation=read\ committed"
        )
        settings["client_encoding"] = ENCODING
        with translated():
            # What a pool can't connect to, it only says that it takes too long
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
                "cursor_factory": psycopg.RawCursor,  # what is long isn't taken apart each time
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
        """One transaction, committed when the block ends; writers come one after the other."""
        if (outer := getattr(self._local, "batch", None)) is not None:
            with translated(), outer.part():
                yield outer
            return
        with translated(), self._begun("BEGIN") as one:
            if (last := one.execute(_LOCK).fetchone()) is None:
                raise StoreError(
                    "STORE_CORRUPT", "the database has lost the counter that numbers changes"
                )
            batch = WriteBatch(_Spoken(one), *last)
            with self._speaking(batch):
                yield batch
            batch.write()
            # A transaction that an error ended is rolled back by this, without another one.
            if one.execute("COMMIT").statusmessage != "COMMIT":
                raise StoreError(
                    "STORE_IO", "what was written with something that failed could not be kept"
                )

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that this thread writes inside the block as one transaction: others see it when the
        block ends, this thread at once.
        """
        with self.write() as batch:
            self._local.batch = batch
            try:
                yield
            finally:
                self._local.batch = None

    @contextmanager
    def read(self) -> Iterator[Any]:
        """One consistent view: every statement in the block sees the same state."""
        outer = getattr(self._local, "spoken", None)
        if outer is not None:
            with translated():
                yield outer
            return
        began = self._begun("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with translated(), began as connection, self._speaking(_Spoken(connection)) as spoken:
            yield spoken

    @contextmanager
    def _speaking(self, spoken: Any) -> Iterator[Any]:
        """Have what this thread asks inside the block asked there: another connection might be
        waited for.
        """
        outer = getattr(self._local, "spoken", None)
        self._local.spoken = spoken
        try:
            yield spoken
        finally:
            self._local.spoken = outer

    def jot(self, statement: str, values: Sequence[object]) -> None:
        """Write something that is in no order with anything else, and not worth waiting for."""
        with translated(), self._begun("BEGIN", f"SET LOCAL lock_timeout = {JOT_MS}") as connection:
            _Spoken(connection).execute(statement, values)
            connection.execute("COMMIT")

    @contextmanager
    def _begun(self, *statements: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A connection that has begun a transaction, which is rolled back where the block doesn't
        commit it.

        Where the connection breaks before that, nothing was written; where it breaks meanwhile,
        nobody knows, but whoever does the same again waits for the row of the counter until the
        database does, and sees it. Raises: WritersMet for both.
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
                with suppress(psycopg.Error):  # then it is closed, and another one takes its place
                    connection.execute("ROLLBACK")
            self._pool.putconn(connection)

    def _borrow(self, statements: Sequence[str]) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection on which these were done; one that was cut while it rested is found by that,
        and another one is taken.
        """
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
        """Close all."""
        self._pool.close()


def _prepare(url: str, settings: Mapping[str, Any], new: bool) -> None:
    """Have the tables there and up to date; begun again where the server ends the connection
    meanwhile, as one does that is restarted.
    """
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
    """Bring the tables up to date in a transaction of the caller's, one process at a time.

    Raises: InputError ARGUMENT_INVALID for a database that can't hold every letter; StoreError
    STORE_NEWER.
    """
    if (encoding := connection.info.parameter_status("server_encoding")) != ENCODING:
        raise InputError(
            "ARGUMENT_INVALID",
            f"the database keeps text as {encoding}, which doesn't have every letter; nothing was made there",
            instead=(
                f"Make another one: createdb --encoding {ENCODING} --template template0 NAME.",
            ),
        )
    # A table may be large
    connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('cortex schema'))")
    # Not everybody may make any
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
    for number in range(version, len(MIGRATIONS)):
        connection.execute(MIGRATIONS[number])  # type: ignore[arg-type]
        connection.execute("INSERT INTO schema_version VALUES (%s)", (number + 1,))


class _Spoken:
    """A connection that takes the statements of the records."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.connection = connection

    def execute(
        self, statement: str, values: Sequence[object] = ()
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.connection.execute(translated_sql(statement), tuple(values))  # type: ignore[arg-type]

    def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(translated_sql(statement), rows)  # type: ignore[arg-type]


@lru_cache(maxsize=1_000)
def translated_sql(statement: str) -> str:
    """A statement as PostgreSQL takes it: marks by its own sign, joins in an order of its own, no
    plus before a column, and what is pointed to by its beginning, too, which an index has.
    """
    text = statement.replace("CROSS JOIN records ON", "JOIN records ON")
    text = text.replace("substr(record, -26)", "right(record, 26)")
    text = text.replace("records.id = refs.target", f"records.id = left(refs.target, {BEGINNING})")
    text = re.sub(r"\+(records|refs)\.", r"\1.", text)
    first, *rest = text.split("?")
    return _TARGET.sub(
        _by_beginning, first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    )


_TARGET = re.compile(r"((?:\w+\.)?\btarget) (=|<) (\$\d+)")


def _by_beginning(found: re.Match[str]) -> str:
    column, sign, value = found.groups()
    either = "=" if sign == "=" else "<="
    return f"(left({column}, {BEGINNING}) {either} left({value}, {BEGINNING}) AND {found[0]})"


# What is wrong with what was given, and not with the database; some of it is said as if it couldn't
# be reached.
_GIVEN = (
    psycopg.DataError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.TooManyColumns,
    psycopg.errors.TooManyArguments,
)


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
    except psycopg.errors.LockNotAvailable as error:
        raise StoreError("STORE_LOCKED", f"another writer holds the database: {error}") from error
    except psycopg.errors.QueryCanceled as error:
        raise StoreError("STORE_LOCKED", f"the database takes too long: {error}") from error
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
        raise WriteConflict("STORE_LOCKED", f"two writers met: {error}") from error
    except (*_GIVEN, UnicodeEncodeError) as error:
        raise InputError(
            "RECORD_INVALID", f"the database can't hold that: {error}".strip()
        ) from error
    except psycopg.errors.IdleInTransactionSessionTimeout as error:
        raise WriteConflict(
            "STORE_IO", f"the database waited too long for what was written: {error}"
        ) from error
    except psycopg.OperationalError as error:
        hint = "Check the database's address and that it runs, then try again; nothing that was stored is lost."
        raise StoreError(
            "STORE_IO", f"the database can't be reached: {error}".strip(), instead=(hint,)
        ) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        hint = "Name the database that is written to, and not a copy of it; or wait until it takes writes again."
        raise StoreError(
            "STORE_READ_ONLY", "the database only reads now", instead=(hint,)
        ) from error
    except (
        psycopg.IntegrityError,
        psycopg.errors.InFailedSqlTransaction,
    ) as error:  # of what was given, or done before
        raise CortexError("INTERNAL_ERROR", f"the database: {error}".strip()) from error
    # A table that isn't there, a right that was taken away: no fault of what was given
    except psycopg.Error as error:
        hint = "Check what its user may do there, and that no tables of another program have these names: a Core wants a database of its own."
        raise StoreError("STORE_IO", f"the database: {error}".strip(), instead=(hint,)) from error
