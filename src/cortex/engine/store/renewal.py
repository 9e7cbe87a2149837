"""Renewal of a reassembled home database: a new identity, and docs for search.

Its ids may have stood for other rows in the indexes of the previous database, so those must not be
used for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from cortex.base.record_model import refs_of
from cortex.engine.store.connection import Connected, Connection
from cortex.engine.store.memories.queries import COLUMNS, remembered
from cortex.engine.store.memories.rows import OWN, reword_memory
from cortex.engine.store.memories.rows import MemoryTextExtractor as MemoryWording
from cortex.engine.store.memories.rows import NameOf as MemoryNameOf
from cortex.engine.store.records.row_reader import get_records
from cortex.engine.store.records.rows import RecordRows
from cortex.engine.store.records.rows import RecordTextExtractor as RecordWording
from cortex.engine.store.snapshots import KEPT

PAGE = 500
_DERIVED = ("docs", "blobs", "gone", "skips", "left_out", "requests", "mirrors")


def renew(
    connections: Connected,
    name_of: MemoryNameOf,
    word_memory: MemoryWording,
    word_record: RecordWording,
    take: Callable[[Connection], None] = lambda connection: None,
) -> None:
    """Renew a database in one transaction; `take` runs first, inside it."""
    with connections.write(durable=True) as connection:
        take(connection)
        for table in _DERIVED:
            connection.execute(f"DELETE FROM {table}")
        connection.execute(f"DELETE FROM meta WHERE NOT ({KEPT['meta']})")
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('seq', '0')")
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES ('identity', ?)", (secrets.token_hex(6),)
        )
        connection.execute(
            "UPDATE counters SET value = max(value, "
            "(SELECT coalesce(max(change), 0) FROM records)) WHERE name = 'change'"
        )
        own = connection.execute(f"SELECT {COLUMNS} WHERE memories.origin = ?", (OWN,)).fetchall()
        for memory in map(remembered, own):
            reword_memory(connection, memory.id, memory.memory, name_of(memory.state), word_memory)
        rows = RecordRows(connection, word_record)
        ids = [row[0] for row in connection.execute("SELECT id FROM records ORDER BY made, id")]
        for start in range(0, len(ids), PAGE):
            for record in get_records(connection, ids[start : start + PAGE]).values():
                rows.reword(record)
                connection.executemany(
                    "INSERT OR IGNORE INTO refs VALUES (?, ?, ?)",
                    [(role, target, record.id) for role, target in refs_of(record.body)],
                )
