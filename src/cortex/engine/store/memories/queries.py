"""Queries over memories: by id, by subject, newest first; neighbours, mirrors, decisions.

Callers pass a `MemoryFilter`; all of its parts must match. Age alone never excludes a memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from cortex.base.types import Citation, Memory, MemoryState, Source
from cortex.engine.store.connection import Connection
from cortex.engine.store.connections import Connections
from cortex.engine.store.memories.filters import ORDER, MemoryFilter, ids_of
from cortex.engine.store.sql import marks, rows_in

COLUMNS = (
    "memories.id, memories.origin, memories.key, memories.number, memories.source, "
    "memories.state, title, subtitle, facts, concepts, files, "
    "memories.text, project, session, date, created, memories.kind, provenance, other_project, "
    "scope, fingerprint, signature, "
    "judgements.state, judgements.actor, judgements.at, judgements.successor, "
    "EXISTS (SELECT 1 FROM memories AS twin WHERE twin.key = memories.key "
    "AND twin.origin <> memories.origin) "
    "FROM memories LEFT JOIN judgements ON judgements.origin = memories.origin "
    "AND judgements.key = memories.key "
    "AND judgements.made IN (0, memories.created)"
)
# Kind of their sources.
MEMORIES = "memories"
# A tag with fewer memories than this is used to drive a query.
FEW = 5_000
# Answers cached while nothing changes, and docs in them: some 40 MB.
MAX_KNOWN, MAX_KNOWN_DOCS = 64, 500_000

Answer = TypeVar("Answer")

# Origin and key.
Ref = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Latest decision about a memory."""

    state: MemoryState
    actor: str
    at: int
    # Key of the memory that replaced it, or "".
    successor: str
    # Time at which the memory was made, to distinguish it from a later one with the same key; 0
    # matches any.
    made: int = 0


@dataclass(frozen=True, slots=True)
class Remembered:
    """Memory as stored."""

    id: int
    origin: str
    number: int
    # Source in which search finds it.
    source: int | None
    # None if it has not been judged.
    state: MemoryState | None
    memory: Memory
    other_project: str
    scope: str
    fingerprint: bytes
    signature: bytes
    judgement: Judgement | None
    # True if another origin has the same key.
    shared: bool = False

    @property
    def ref(self) -> Ref:
        return self.origin, self.memory.key


class MemoryRanking(NamedTuple):
    """Fields of a memory that break ties between similar scores."""

    id: int
    source: int
    created: int
    number: int
    state: str
    project: str
    other_project: str


class Neighbour(NamedTuple):
    """Doc that is `step` places after another one in its session; before it if negative."""

    of: int
    step: int
    doc: int
    first_chunk: int
    last_chunk: int


@dataclass(frozen=True, slots=True)
class ScopeCount:
    """Number of memories that a scope has from one origin."""

    scope: str
    origin: str
    count: int
    newest: int


@dataclass(frozen=True, slots=True)
class Mirror:
    """Progress of the mirror of another product's database."""

    origin: str
    # Scope of all its rows; "": the project of each.
    scope: str = ""
    # State of its files when everything was copied.
    seen: str = ""
    # State of its files when the descending comparison began.
    begun: str = ""
    # Every row above `cursor` and up to this one is copied.
    high: int = 0
    # Position of the descending comparison: 0 is done, -1 not begun, -2 has to wait.
    cursor: int = -1
    # Number of rows in the database.
    total: int = 0
    compared_at: int = 0
    # Time at which it was last configured by a user.
    wanted_at: int = 0
    tried_at: int = 0
    # State that its unjudged rows were treated as.
    shown_as: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Entry of the decision log."""

    id: int
    batch: int
    at: int
    origin: str
    key: str
    action: str
    # State before; "" if unjudged or missing.
    before: str
    after: str
    actor: str
    reason: str
    undone: bool


class MemoryQueries:
    """Read access to the memories of a store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._known: tuple[str, dict[tuple[str, Hashable], object]] = ("", {})

    def sources(self, origins: Collection[str], names: Collection[str]) -> list[Source]:
        """Sources of these origins with these names."""
        rows = self._connections.rows(
            "SELECT id, kind, name, root FROM sources WHERE kind = ? ORDER BY id", (MEMORIES,)
        )
        return [
            source
            for source in (Source(*row) for row in rows)
            if source.root in origins and source.name in names
        ]

    def by_key(self, key: str, origins: Collection[str] | None = None) -> list[Remembered]:
        """All memories with this key, of these or any origins."""
        rows = self._connections.rows(
            f"SELECT {COLUMNS} WHERE memories.key = ? ORDER BY memories.origin", (key,)
        )
        return [
            memory
            for memory in map(remembered, rows)
            if origins is None or memory.origin in origins
        ]

    def by_beginning(self, origin: str, beginning: str, limit: int) -> list[Remembered]:
        """Memories of an origin with keys that start with `beginning`."""
        rows = self._connections.rows(
            f"SELECT {COLUMNS} WHERE memories.key >= ? AND memories.key < ? "
            "AND memories.origin = ? ORDER BY memories.key LIMIT ?",
            (beginning, beginning + "\U0010ffff", origin, limit),
        )
        return [remembered(row) for row in rows]

    def by_docs(self, docs: Sequence[int]) -> dict[int, Remembered]:
        """Memories behind these docs, by doc."""
        query = (
            f"SELECT docs.id, {COLUMNS} JOIN docs ON docs.source = memories.source "
            "AND docs.path = memories.key WHERE docs.id IN (?*)"
        )
        with self._connections.read() as connection:
            return {row[0]: remembered(row[1:]) for row in rows_in(connection, query, docs)}

    def standings(self, docs: Sequence[int]) -> dict[int, MemoryRanking]:
        """Ranking fields of the memories behind these docs: a twentieth of the full rows."""
        query = (
            "SELECT docs.id, memories.id, memories.source, created, number, state, "
            "project, other_project FROM docs CROSS JOIN memories "
            "ON memories.source = docs.source AND memories.key = docs.path "
            "WHERE docs.id IN (?*)"
        )
        with self._connections.read() as connection:
            return {row[0]: MemoryRanking(*row[1:]) for row in rows_in(connection, query, docs)}

    def by_fingerprint(self, fingerprint: bytes) -> list[Remembered]:
        """Memories with this fingerprint, that is the same content, oldest first."""
        rows = self._connections.rows(
            f"SELECT {COLUMNS} WHERE fingerprint = ? ORDER BY memories.id", (fingerprint,)
        )
        return [remembered(row) for row in rows]

    def has(self, origin: str) -> bool:
        """True if an origin has any memory here."""
        return bool(
            self._connections.row("SELECT 1 FROM memories WHERE origin = ? LIMIT 1", (origin,))
        )

    def select(
        self,
        wanted: MemoryFilter,
        limit: int = -1,
        offset: int = 0,
        *,
        keep: Callable[[Remembered], bool] = lambda memory: True,
    ) -> list[Remembered]:
        """Memories that match a filter and `keep`, newest first.

        `keep` is applied row by row, so that the others are never in memory together.
        """
        with self._connections.read() as connection:
            ids, values = ids_of(
                wanted, _rare_tag(connection, wanted), limit + offset if limit >= 0 else -1
            )
            rows = connection.execute(
                f"SELECT {COLUMNS} WHERE memories.id IN "
                f"(SELECT id FROM ({ids}) ORDER BY {ORDER} LIMIT ? OFFSET ?) "
                "ORDER BY created DESC, number DESC, memories.id DESC",
                (*values, limit, offset),
            )
            return [memory for memory in map(remembered, rows) if keep(memory)]

    def count(self, wanted: MemoryFilter) -> int:
        """Number of memories that match a filter."""

        def ask(connection: Connection) -> int:
            ids, values = ids_of(wanted, _rare_tag(connection, wanted))
            return connection.execute(f"SELECT count(*) FROM ({ids})", values).fetchone()[0]

        return self._cached("count", wanted, ask)

    def docs(self, wanted: MemoryFilter) -> frozenset[int]:
        """Docs of the memories that match a filter."""

        def ask(connection: Connection) -> frozenset[int]:
            ids, values = ids_of(wanted, _rare_tag(connection, wanted))
            rows = connection.execute(
                f"SELECT docs.id FROM ({ids}) AS chosen "
                "CROSS JOIN memories ON memories.id = chosen.id "
                "CROSS JOIN docs ON docs.source = memories.source AND docs.path = memories.key",
                values,
            )
            return frozenset(row[0] for row in rows)

        return self._cached("docs", wanted, ask)

    def scopes(self, sources: Sequence[int]) -> list[ScopeCount]:
        """All scopes in these sources, with the number of memories from each origin."""

        def ask(connection: Connection) -> list[ScopeCount]:
            counts: dict[tuple[str, str], ScopeCount] = {}
            # Counted source by source, each along an index.
            for source in sources:
                rows = connection.execute(
                    "SELECT scope, (SELECT root FROM sources "
                    "WHERE id = ?1), count(*), max(created) FROM memories "
                    "WHERE source = ?1 GROUP BY scope",
                    (source,),
                )
                for row_count in (ScopeCount(*row) for row in rows):
                    key = (row_count.scope.casefold(), row_count.origin)
                    known = counts.get(key, row_count)
                    count = row_count.count + (known.count if key in counts else 0)
                    counts[key] = ScopeCount(
                        known.scope, row_count.origin, count, max(row_count.newest, known.newest)
                    )
            return [counts[key] for key in sorted(counts)]

        return self._cached("scopes", tuple(sources), ask)

    def _cached(self, query: str, key: Hashable, ask: Callable[[Connection], Answer]) -> Answer:
        """Answer a query once for each state of the store."""
        with self._connections.read() as connection:
            state = connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()[0]
            # Keep a reference: another thread may replace the cache meanwhile.
            known = self._known
            if known[0] != state or len(known[1]) >= MAX_KNOWN or _size(known[1]) > MAX_KNOWN_DOCS:
                known = self._known = (state, {})
            if (query, key) not in known[1]:
                known[1][query, key] = ask(connection)
            return cast("Answer", known[1][query, key])

    def neighbours(
        self, docs: Sequence[int], sources: Sequence[int], reach: int
    ) -> list[Neighbour]:
        """Docs up to `reach` places before or after these in the same session and origin.

        Only neighbours in these sources are considered.
        """
        if not docs:
            return []
        nearby = " UNION ALL ".join(
            f"SELECT asked.doc, {step}, (SELECT beside.id FROM memories AS beside "
            "WHERE beside.origin = asked.origin "
            "AND beside.session = asked.session "
            f"AND (beside.number, beside.id) {sign} (asked.number, asked.id) "
            f"AND beside.source IN ({marks(sources)}) "
            f"ORDER BY beside.number {order}, beside.id {order} LIMIT 1 OFFSET {abs(step) - 1}) "
            "AS other "
            "FROM asked"
            for sign, order, steps in (
                ("<", "DESC", range(-1, -reach - 1, -1)),
                (">", "ASC", range(1, reach + 1)),
            )
            for step in steps
        )
        query = (
            "WITH asked AS MATERIALIZED (SELECT docs.id AS doc, origin, session, number, "
            "memories.id AS id FROM docs JOIN memories "
            "ON memories.source = docs.source AND memories.key = docs.path "
            f"WHERE docs.id IN ({marks(docs)}) AND session <> ''), "
            f"nearby (doc, step, other) AS MATERIALIZED ({nearby}) "
            "SELECT nearby.doc, step, docs.id, first_chunk, last_chunk FROM nearby "
            "JOIN memories ON memories.id = other "
            "JOIN docs ON docs.source = memories.source AND docs.path = memories.key "
            "JOIN blobs ON blobs.id = docs.blob"
        )
        rows = self._connections.rows(query, (*docs, *(list(sources) * 2 * reach)))
        return [Neighbour(*row) for row in rows]

    def citations(self, memory: int) -> tuple[Citation, ...]:
        """Citations of a memory."""
        with self._connections.read() as connection:
            return citations_of(connection, memory)

    # Judgements and mirrors.

    def judgements(self, origin: str, keys: Sequence[str]) -> dict[str, Judgement]:
        """Decisions about these keys of an origin, even for rows that are not copied now."""
        query = (
            "SELECT key, state, actor, at, successor, made FROM judgements "
            "WHERE origin = ? AND key IN (?*)"
        )
        with self._connections.read() as connection:
            rows = rows_in(connection, query, keys, before=(origin,))
            return {key: Judgement(MemoryState(state), *rest) for key, state, *rest in rows}

    def forgotten(self, origin: str) -> Mapping[str, int]:
        """Keys of an origin that must not be copied again, with the time each was made; 0: any."""
        return dict(
            self._connections.rows("SELECT key, made FROM forgotten WHERE origin = ?", (origin,))
        )

    def signatures(self, origin: str, above: int, up_to: int) -> dict[int, tuple[str, bytes]]:
        """Copied rows with a number in that range, as number to (key, signature)."""
        rows = self._connections.rows(
            "SELECT number, key, signature FROM memories WHERE origin = ? AND number > ? "
            "AND number <= ?",
            (origin, above, up_to),
        )
        return {number: (key, signature) for number, key, signature in rows}

    def mirrors(self) -> list[Mirror]:
        """Progress of all mirrors."""
        return [
            Mirror(*row) for row in self._connections.rows("SELECT * FROM mirrors ORDER BY origin")
        ]

    def decisions(self, limit: int, ref: Ref | None = None, batch: int = 0) -> list[Decision]:
        """Decision log, newest first: all of it, of one memory, or of one batch.

        A limit of -1 means no limit.
        """
        where, values = (
            ("origin = ? AND key = ?", ref)
            if ref
            else ("batch = ?", (batch,))
            if batch
            else ("1", ())
        )
        rows = self._connections.rows(
            "SELECT id, batch, at, origin, key, action, before, after, actor, reason, undone "
            f"FROM decisions WHERE {where} ORDER BY id DESC LIMIT ?",
            (*values, limit),
        )
        return [_decision(*row) for row in rows]

    def last_batch(self, not_by: str) -> int:
        """Latest batch that can be undone, 0 if there is none; batches by `not_by` don't count."""
        query = "SELECT coalesce(max(batch), 0) FROM decisions WHERE NOT undone AND actor <> ?"
        return self._connections.value(query, (not_by,))


def _size(known: Mapping[tuple[str, Hashable], object]) -> int:
    return sum(len(answer) for answer in list(known.values()) if isinstance(answer, frozenset))


def _decision(*row: Any) -> Decision:
    decision_id, batch, at, origin, key, action, before, after, actor, reason, undone = row
    state_before, state_after = (json.loads(text).get("state", "") for text in (before, after))
    return Decision(
        decision_id,
        batch,
        at,
        origin,
        key,
        action,
        state_before,
        state_after,
        actor,
        reason,
        bool(undone),
    )


def remembered(row: Sequence[Any]) -> Remembered:
    """Build a memory from a row of COLUMNS."""
    memory_id, origin, key, number, source, state, title, subtitle = row[:8]
    facts, concepts, files = (tuple(json.loads(items)) for items in row[8:11])
    (
        text,
        project,
        session,
        date,
        created,
        kind,
        provenance,
        other,
        scope,
        fingerprint,
        signature,
    ) = row[11:22]
    judged, shared = row[22:26], bool(row[26])
    memory = Memory(
        key,
        title,
        subtitle,
        facts,
        concepts,
        files,
        text,
        project,
        session,
        date,
        created,
        kind,
        provenance,
    )
    judgement = None if judged[0] is None else Judgement(MemoryState(judged[0]), *judged[1:])
    known = MemoryState(state) if state else None
    return Remembered(
        memory_id,
        origin,
        number,
        source,
        known,
        memory,
        other,
        scope,
        fingerprint,
        signature,
        judgement,
        shared,
    )


def citations_of(connection: Connection, memory: int) -> tuple[Citation, ...]:
    """Citations of a memory, in the order in which they were written."""
    query = (
        "SELECT root, path, symbol, file_hash, body_hash, revision FROM citations "
        "WHERE memory = ? ORDER BY rowid"
    )
    return tuple(Citation(*row) for row in connection.execute(query, (memory,)))


def _rare_tag(connection: Connection, wanted: MemoryFilter) -> str:
    """Tag of the filter with the fewest memories, "" if even those are many."""
    query = f"SELECT count(*) FROM (SELECT 1 FROM concepts WHERE concept = ? LIMIT {FEW})"
    counts = {tag: connection.execute(query, (tag.strip(),)).fetchone()[0] for tag in wanted.tags}
    rarest = min(counts, key=lambda tag: counts[tag], default="")
    return rarest.strip() if rarest and counts[rarest] < FEW else ""
