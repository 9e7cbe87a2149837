"""Row-level security: connections that show only what one viewer may see.

`cortex.base.visibility.sees` as SQL, in temporary views that shadow the tables `records`, `refs`,
`versions`, `audit` and `sources`. The viewer is stored in temporary tables; without one they are
empty and nothing is visible. The views are plain conditions on one table, which SQLite merges into
the query, so that it uses the same indexes. Other tables are not confined: texts, docs and vectors
are reached through sources.

Road not taken: a condition in every query. The one that forgets it would leak.
"""

from __future__ import annotations

import sqlite3

from cortex.base.record_model import SENSITIVE
from cortex.base.visibility import EVERYWHERE, REVIEWER, Viewer
from cortex.engine.store.connection import SqliteConnection
from cortex.engine.store.partitions import RECORDS, SHELF_SCOPE, SHELF_SENSITIVE

# Without these, deciding on the visibility of a row means reading all of it, including its text.
# Each is a regular index with more columns at its end.
_WIDE_INDEXES = {
    "records_made": "kind, made, state",
    "records_state": "kind, state, made",
    "records_updated": "kind, updated, made, state",
    "records_change": "change, kind",
    "records_seen": "id, kind",
}
_ACCESS_COLUMNS = "scope, sensitivity, author"


_READ_ACTIONS = frozenset(
    (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_PRAGMA,
    )
)


class Confined(SqliteConnection):
    """Connection with views in place of tables.

    `shows` is their viewer, and `known` whether that is certain.
    """

    shows: Viewer | None = None
    known = False
    changing = False  # True while the viewer is being set

    def permits(self, action: int, *about: str | None) -> int:
        """SQLite's authorizer for new statements: only setting the viewer may write.

        `query_only` would do the same, but toggling it drops all prepared statements, and parsing
        the views again takes longer than a search.
        """
        return (
            sqlite3.SQLITE_OK if self.changing or action in _READ_ACTIONS else sqlite3.SQLITE_DENY
        )


def confine(connection: sqlite3.Connection) -> None:
    """Shadow the tables with the views; nothing is visible yet."""
    connection.execute("PRAGMA temp_store = MEMORY")
    for statement in _STATEMENTS:
        connection.execute(statement)
    if isinstance(connection, Confined):
        connection.set_authorizer(connection.permits)


def show(connection: Confined, viewer: Viewer | None) -> None:
    """Show a connection what this viewer may see; not allowed inside a transaction."""
    if connection.known and connection.shows == viewer:
        return
    # Until everything is written.
    connection.known = False
    connection.changing = True
    try:
        connection.execute("BEGIN")
        _set_viewer(connection, viewer)
        connection.execute("COMMIT")
    finally:
        connection.changing = False
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    connection.shows, connection.known = viewer, True


def _set_viewer(connection: sqlite3.Connection, viewer: Viewer | None) -> None:
    for table in ("viewer", "readable", "hidden"):
        # Prepared statements are cached by their text, so this exact text stays permitted.
        connection.execute(f"DELETE FROM temp.{table} WHERE true")
    if viewer is None:
        return
    connection.execute(
        "INSERT INTO temp.viewer VALUES (?, ?, ?, ?, ?, ?)",
        (
            viewer.name,
            f"{viewer.name}/",
            # Sorts after everything that starts with the name and "/".
            f"{viewer.name}0",
            viewer.tier >= REVIEWER,
            viewer.sensitive,
            EVERYWHERE in viewer.reads,
        ),
    )
    connection.executemany(
        "INSERT INTO temp.readable VALUES (?)", [(scope,) for scope in viewer.reads]
    )
    connection.executemany(
        "INSERT INTO temp.hidden VALUES (?)", [(scope,) for scope in viewer.hidden]
    )


def widen(connection: sqlite3.Connection) -> None:
    """Add the columns that decide on visibility to the indexes of a store with confined readers."""
    for name, columns in _WIDE_INDEXES.items():
        row = connection.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?", (name,)
        ).fetchone()
        if row is None or _ACCESS_COLUMNS not in row[0]:
            connection.execute(f"DROP INDEX IF EXISTS {name}")
            last = "" if columns.startswith("id") else ", id"
            connection.execute(
                f"CREATE INDEX {name} ON records ({columns}, {_ACCESS_COLUMNS}{last})"
            )


def is_wide(connection: sqlite3.Connection) -> bool:
    """True if there is nothing to widen."""
    query = (
        "SELECT count(*) FROM sqlite_master WHERE type = 'index' "
        f"AND sql LIKE '%{_ACCESS_COLUMNS}%'"
    )
    return connection.execute(query).fetchone()[0] == len(_WIDE_INDEXES)


# Conditions of the views.


def _allows_scope(scope: str) -> str:
    """SQL: the viewer may read in a scope."""
    return (
        f"({scope} IN temp.readable OR ((SELECT everywhere FROM temp.viewer) "
        f"AND {scope} NOT IN temp.hidden))"
    )


def _allows_sensitivity(sensitive: str) -> str:
    return f"(NOT ({sensitive}) OR (SELECT sensitive FROM temp.viewer))"


def _is_own_name(name: str) -> str:
    """SQL: a name is the viewer's, or that of one of its agents."""
    agents = (
        f"{name} >= (SELECT agents FROM temp.viewer) AND {name} < (SELECT after FROM temp.viewer)"
    )
    return f"({name} = (SELECT name FROM temp.viewer) OR ({agents}))"


def _seen(links: str) -> str:
    """SQL: the viewer may see a row of main.records as `kept`; a link depends on `links`.

    The unary plus keeps SQLite from using an index by scope instead of the one that fits the query.
    """
    got = (
        "SELECT 1 FROM main.refs AS got WHERE got.record = kept.id AND got.role = 'recipient' "
        f"AND {_is_own_name('got.target')}"
    )
    special = (
        "CASE kept.kind WHEN 'draft' THEN ((SELECT reviews "
        f"FROM temp.viewer) OR {_is_own_name('kept.author')}) "
        f"WHEN 'notification' THEN ({_is_own_name('kept.author')} OR EXISTS ({got})) "
        f"WHEN 'link' THEN {links} ELSE 1 END"
    )
    sensitive = f"kept.sensitivity = '{SENSITIVE}'"
    return f"{_allows_scope('+kept.scope')} AND {_allows_sensitivity(sensitive)} AND {special}"


def _is_end_visible(role: str) -> str:
    """SQL: the viewer may see the source or target of a link."""
    return (
        "EXISTS (SELECT 1 FROM main.refs AS tip "
        "CROSS JOIN temp.seen_ends AS seen ON seen.id = tip.target "
        f"WHERE tip.record = kept.id AND tip.role = '{role}')"
    )


def _said(field: str) -> str:
    return f"coalesce(json_extract(body, '$.{field}'), '')"


def _was_visible() -> str:
    """SQL: the viewer could have seen an earlier version.

    It may have been sensitive, or in another scope.
    """
    sensitive = f"{_said('sensitivity')} = '{SENSITIVE}'"
    # Other kinds have the scope of their subject.
    filed = f"{_said('subcortex')} = '' AND kind NOT IN ('thread', 'comment', 'artifact', 'task')"
    return (
        f"CASE WHEN json_valid(body) THEN {_allows_sensitivity(sensitive)} "
        f"AND ({filed} OR {_allows_scope(_said('subcortex'))}) ELSE 0 END"
    )


_BOTH_ENDS_VISIBLE = f"{_is_end_visible('source')} AND {_is_end_visible('target')}"
_RECORD_IS_VISIBLE = "EXISTS (SELECT 1 FROM temp.seen WHERE seen.id = kept.record)"
_STATEMENTS = (
    "CREATE TEMP TABLE viewer (name TEXT NOT NULL, agents TEXT NOT NULL, after TEXT NOT NULL, "
    "reviews INTEGER NOT NULL, "
    "sensitive INTEGER NOT NULL, everywhere INTEGER NOT NULL)",
    "CREATE TEMP TABLE readable (scope TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TEMP TABLE hidden (scope TEXT PRIMARY KEY) WITHOUT ROWID",
    # No link has a link as its end.
    "CREATE TEMP VIEW seen_ends AS SELECT id FROM main.records AS kept INDEXED BY records_seen "
    f"WHERE {_seen('0')}",
    "CREATE TEMP VIEW seen AS SELECT id FROM main.records AS kept INDEXED BY records_seen "
    f"WHERE {_seen(_BOTH_ENDS_VISIBLE)}",
    "CREATE TEMP VIEW records AS SELECT * FROM main.records AS kept "
    f"WHERE {_seen(_BOTH_ENDS_VISIBLE)}",
    f"CREATE TEMP VIEW refs AS SELECT * FROM main.refs AS kept WHERE {_RECORD_IS_VISIBLE}",
    f"CREATE TEMP VIEW versions AS SELECT * FROM main.versions AS kept WHERE {_RECORD_IS_VISIBLE} "
    f"AND {_was_visible()}",
    f"CREATE TEMP VIEW audit AS SELECT * FROM main.audit AS kept WHERE {_RECORD_IS_VISIBLE}",
    f"CREATE TEMP VIEW sources AS SELECT * FROM main.sources AS kept WHERE kind = '{RECORDS}' "
    "AND instr(name, '@') "
    f"AND {_allows_scope(SHELF_SCOPE)} AND {_allows_sensitivity(SHELF_SENSITIVE)}",
)
