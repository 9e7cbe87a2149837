"""Connections that show what one viewer may see, and nothing else: `cortex.base.visibility.sees` as
SQL, in views that shadow the tables.

Whoever asks such a connection for `records`, `refs`, `versions`, `audit` or `sources` gets the view
of that name, which is temporary and so comes before the table; who the viewer is stands in
temporary tables. Without a viewer they are empty, and nothing is seen. The views are plain
conditions on one table, which SQLite takes into the question that is asked, so that it finds the
same indexes. What is not asked for through these five is not confined: texts, docs and vectors are
reached by sources. The road not taken: a condition in every question. The one that forgot it would
leak.
"""

from __future__ import annotations

import sqlite3

from cortex.base.record_model import SENSITIVE
from cortex.base.visibility import EVERYWHERE, REVIEWER, Viewer
from cortex.engine.store.partitions import RECORDS, SHELF_SCOPE, SHELF_SENSITIVE

# Without these, to know who may see a row means to read all of it, its text included. Each is a
# usual index with more at its end.
_WIDE = {
    "records_made": "kind, made, state",
    "records_state": "kind, state, made",
    "records_updated": "kind, updated, made, state",
    "records_change": "change, kind",
    "records_seen": "id, kind",
}
_LOOKED_AT = "scope, sensitivity, author"


_READING = frozenset(
    (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_PRAGMA,
    )
)


class Confined(sqlite3.Connection):
    """A connection with views in place of tables; `shows` is whose they are, and `known` whether
    that is certain.
    """

    shows: Viewer | None = None
    known = False
    changing = False  # who looks

    def permits(self, action: int, *about: str | None) -> int:
        """What SQLite asks of each new statement: here nothing is written but who looks.

        `query_only` says so, too, but to turn it off and on makes it forget every statement, and to
        read the views anew takes longer than a search.
        """
        return sqlite3.SQLITE_OK if self.changing or action in _READING else sqlite3.SQLITE_DENY


def confine(connection: sqlite3.Connection) -> None:
    """Put the views before the tables; nothing is seen yet."""
    connection.execute("PRAGMA temp_store = MEMORY")
    for statement in _STATEMENTS:
        connection.execute(statement)
    if isinstance(connection, Confined):
        connection.set_authorizer(connection.permits)


def show(connection: Confined, viewer: Viewer | None) -> None:
    """Have a connection show what this viewer may see. It must not be in a transaction."""
    if connection.known and connection.shows == viewer:
        return
    connection.known = False  # until all of it is there
    connection.changing = True
    try:
        connection.execute("BEGIN")
        _introduce(connection, viewer)
        connection.execute("COMMIT")
    finally:
        connection.changing = False
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    connection.shows, connection.known = viewer, True


def _introduce(connection: sqlite3.Connection, viewer: Viewer | None) -> None:
    for table in ("viewer", "readable", "hidden"):
        # What was permitted once is, as it is worded here
        connection.execute(f"DELETE FROM temp.{table} WHERE true")
    if viewer is None:
        return
    connection.execute(
        "INSERT INTO temp.viewer VALUES (?, ?, ?, ?, ?, ?)",
        (
            viewer.name,
            f"{viewer.name}/",
            f"{viewer.name}0",  # what comes after all that begins with the name and "/"
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
    """Give the indexes of a store whose readers are confined what decides who sees a record."""
    for name, columns in _WIDE.items():
        row = connection.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?", (name,)
        ).fetchone()
        if row is None or _LOOKED_AT not in row[0]:
            connection.execute(f"DROP INDEX IF EXISTS {name}")
            last = "" if columns.startswith("id") else ", id"
            connection.execute(f"CREATE INDEX {name} ON records ({columns}, {_LOOKED_AT}{last})")


def is_wide(connection: sqlite3.Connection) -> bool:
    """Whether there is nothing to widen."""
    ask = f"SELECT count(*) FROM sqlite_master WHERE type = 'index' AND sql LIKE '%{_LOOKED_AT}%'"
    return connection.execute(ask).fetchone()[0] == len(_WIDE)


# -- the rule
# ----------------------------------------------------------------------------------------------------------


def _covers(scope: str) -> str:
    """Whether the viewer may read in a scope."""
    return f"({scope} IN temp.readable OR ((SELECT everywhere FROM temp.viewer) AND {scope} NOT IN temp.hidden))"


def _discreet(sensitive: str) -> str:
    return f"(NOT ({sensitive}) OR (SELECT sensitive FROM temp.viewer))"


def _own(name: str) -> str:
    """Whether a name is the viewer's, or their agent's."""
    agents = (
        f"{name} >= (SELECT agents FROM temp.viewer) AND {name} < (SELECT after FROM temp.viewer)"
    )
    return f"({name} = (SELECT name FROM temp.viewer) OR ({agents}))"


def _seen(links: str) -> str:
    """Whether the viewer sees a row of main.records as `kept`; of a link, whatever `links` says.

    The plus keeps SQLite from an index by scope in place of the one that fits the question.
    """
    got = f"SELECT 1 FROM main.refs AS got WHERE got.record = kept.id AND got.role = 'recipient' AND {_own('got.target')}"
    special = (
        f"CASE kept.kind WHEN 'draft' THEN ((SELECT reviews FROM temp.viewer) OR {_own('kept.author')}) "
        f"WHEN 'notification' THEN ({_own('kept.author')} OR EXISTS ({got})) WHEN 'link' THEN {links} ELSE 1 END"
    )
    sensitive = f"kept.sensitivity = '{SENSITIVE}'"
    return f"{_covers('+kept.scope')} AND {_discreet(sensitive)} AND {special}"


def _end(role: str) -> str:
    """Whether the viewer sees what a link goes from, or to."""
    return (
        "EXISTS (SELECT 1 FROM main.refs AS tip CROSS JOIN temp.seen_ends AS seen ON seen.id = tip.target "
        f"WHERE tip.record = kept.id AND tip.role = '{role}')"
    )


def _said(field: str) -> str:
    return f"coalesce(json_extract(body, '$.{field}'), '')"


def _was_seen() -> str:
    """Whether the viewer could have seen an earlier version: it may have been sensitive, or filed
    elsewhere.
    """
    sensitive = f"{_said('sensitivity')} = '{SENSITIVE}'"
    # With what they are about
    filed = f"{_said('subcortex')} = '' AND kind NOT IN ('thread', 'comment', 'artifact', 'task')"
    return f"CASE WHEN json_valid(body) THEN {_discreet(sensitive)} AND ({filed} OR {_covers(_said('subcortex'))}) ELSE 0 END"


_LINKED = f"{_end('source')} AND {_end('target')}"
_OF_SEEN = "EXISTS (SELECT 1 FROM temp.seen WHERE seen.id = kept.record)"
_STATEMENTS = (
    "CREATE TEMP TABLE viewer (name TEXT NOT NULL, agents TEXT NOT NULL, after TEXT NOT NULL, reviews INTEGER NOT NULL, "
    "sensitive INTEGER NOT NULL, everywhere INTEGER NOT NULL)",
    "CREATE TEMP TABLE readable (scope TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TEMP TABLE hidden (scope TEXT PRIMARY KEY) WITHOUT ROWID",
    # Nothing links a link
    f"CREATE TEMP VIEW seen_ends AS SELECT id FROM main.records AS kept INDEXED BY records_seen WHERE {_seen('0')}",
    f"CREATE TEMP VIEW seen AS SELECT id FROM main.records AS kept INDEXED BY records_seen WHERE {_seen(_LINKED)}",
    f"CREATE TEMP VIEW records AS SELECT * FROM main.records AS kept WHERE {_seen(_LINKED)}",
    f"CREATE TEMP VIEW refs AS SELECT * FROM main.refs AS kept WHERE {_OF_SEEN}",
    f"CREATE TEMP VIEW versions AS SELECT * FROM main.versions AS kept WHERE {_OF_SEEN} AND {_was_seen()}",
    f"CREATE TEMP VIEW audit AS SELECT * FROM main.audit AS kept WHERE {_OF_SEEN}",
    f"CREATE TEMP VIEW sources AS SELECT * FROM main.sources AS kept WHERE kind = '{RECORDS}' AND instr(name, '@') "
    f"AND {_covers(SHELF_SCOPE)} AND {_discreet(SHELF_SENSITIVE)}",
)
