"""Memories, read: by id, by what they are about, newest first; who stands beside whom; how far each
copy is; what was decided.

What a caller asks for is a `MemoryFilter`; of several parts all must hold. Nothing is ever left out
because of its age.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from cortex.base.types import Citation, Memory, MemoryState, Source
from cortex.engine.store.connections import Connections
from cortex.engine.store.memories.filters import ORDER, MemoryFilter, ids_of
from cortex.engine.store.sql import marks, parts

COLUMNS = (
    "memories.id, memories.origin, memories.key, memories.number, memories.source, memories.state, title, subtitle, facts, concepts, files, "
    "memories.text, project, session, date, created, memories.kind, provenance, other_project, scope, fingerprint, signature, "
    "judgements.state, judgements.actor, judgements.at, judgements.successor, "
    "EXISTS (SELECT 1 FROM memories AS twin WHERE twin.key = memories.key AND twin.origin <> memories.origin) "
    "FROM memories LEFT JOIN judgements ON judgements.origin = memories.origin AND judgements.key = memories.key "
    "AND judgements.made IN (0, memories.created)"
)
MEMORIES = "memories"  # the kind of their sources
PARTS = 500  # of a list in one question
FEW = 5_000  # memories with a tag, up to which they are all looked at
# Answers that are kept while nothing changes, and docs in them: some 40 MB
MAX_KNOWN, MAX_KNOWN_DOCS = 64, 500_000

Answer = TypeVar("Answer")

Ref = tuple[str, str]  # origin and key


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was decided about a memory last."""

    state: MemoryState
    actor: str
    at: int
    successor: str  # what took its place, or ""
    # When the memory was, which tells it from another one that has its key by now; 0: whichever
    made: int = 0


@dataclass(frozen=True, slots=True)
class Remembered:
    """A memory as the store has it."""

    id: int
    origin: str
    number: int
    source: int | None  # that it is found in
    state: MemoryState | None  # None: nobody has judged it
    memory: Memory
    other_project: str
    scope: str
    fingerprint: bytes
    signature: bytes
    judgement: Judgement | None
    shared: bool = False  # another origin has the same key

    @property
    def ref(self) -> Ref:
        return self.origin, self.memory.key


class MemoryRanking(NamedTuple):
    """What of a memory decides between those that answer nearly as well."""

    id: int
    source: int
    created: int
    number: int
    state: str
    project: str
    other_project: str


class Neighbour(NamedTuple):
    """A doc that stands `step` places after another one in its session; before it where that is
    negative.
    """

    of: int
    step: int
    doc: int
    first_chunk: int
    last_chunk: int


@dataclass(frozen=True, slots=True)
class ScopeCount:
    """What a scope has from one origin."""

    scope: str
    origin: str
    count: int
    newest: int


@dataclass(frozen=True, slots=True)
class Mirror:
    """How far the copy of another product's database is."""

    origin: str
    scope: str = ""  # of all its rows; "": the project of each
    seen: str = ""  # what its files looked like when all was copied
    begun: str = ""  # and when the comparison going down began
    high: int = 0  # every row above `cursor` and up to here is copied
    # Where the comparison going down is; 0 is done, -1 is not begun, -2 has to wait
    cursor: int = -1
    total: int = 0  # rows that it has
    compared_at: int = 0
    wanted_at: int = 0  # when somebody last had it among theirs
    tried_at: int = 0
    shown_as: str = ""  # what its unjudged rows counted as
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A line of the log."""

    id: int
    batch: int
    at: int
    origin: str
    key: str
    action: str
    before: str  # the state; "" is unjudged, or not there
    after: str
    actor: str
    reason: str
    undone: bool


class MemoryLookup:
    """The reading half of a store's memories."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._known: tuple[str, dict[tuple[str, Hashable], object]] = ("", {})

    def sources(self, origins: Collection[str], names: Collection[str]) -> list[Source]:
        """The sources of these names that these origins have."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT id, kind, name, root FROM sources WHERE kind = ? ORDER BY id", (MEMORIES,)
            )
            return [
                one
                for one in (Source(*row) for row in rows)
                if one.root in origins and one.name in names
            ]

    def by_key(self, key: str, origins: Collection[str] | None = None) -> list[Remembered]:
        """Every memory with this key, of whatever origin."""
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} WHERE memories.key = ? ORDER BY memories.origin", (key,)
            ).fetchall()
        return [one for one in map(remembered, rows) if origins is None or one.origin in origins]

    def by_beginning(self, origin: str, beginning: str, limit: int) -> list[Remembered]:
        """The memories of an origin whose keys begin so."""
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} WHERE memories.key >= ? AND memories.key < ? AND memories.origin = ? ORDER BY memories.key LIMIT ?",
                (beginning, beginning + "\U0010ffff", origin, limit),
            )
            return [remembered(row) for row in rows]

    def by_docs(self, docs: Sequence[int]) -> dict[int, Remembered]:
        """The memories that these docs are of, by doc."""
        found: dict[int, Remembered] = {}
        with self._connections.read() as connection:
            for part in parts(docs, PARTS):
                rows = connection.execute(
                    f"SELECT docs.id, {COLUMNS} JOIN docs ON docs.source = memories.source AND docs.path = memories.key "
                    f"WHERE docs.id IN ({marks(part)})",
                    part,
                )
                found.update((row[0], remembered(row[1:])) for row in rows)
        return found

    def standings(self, docs: Sequence[int]) -> dict[int, MemoryRanking]:
        """How the memories that these docs are of stand, by doc: a twentieth of all that is known
        of them.
        """
        found: dict[int, MemoryRanking] = {}
        with self._connections.read() as connection:
            for part in parts(docs, PARTS):
                rows = connection.execute(
                    "SELECT docs.id, memories.id, memories.source, created, number, state, project, other_project FROM docs CROSS JOIN memories "
                    f"ON memories.source = docs.source AND memories.key = docs.path WHERE docs.id IN ({marks(part)})",
                    part,
                )
                found.update((row[0], MemoryRanking(*row[1:])) for row in rows)
        return found

    def by_fingerprint(self, fingerprint: bytes) -> list[Remembered]:
        """Those that say the same, the oldest first."""
        with self._connections.read() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} WHERE fingerprint = ? ORDER BY memories.id", (fingerprint,)
            )
            return [remembered(row) for row in rows]

    def has(self, origin: str) -> bool:
        """Whether an origin has any memory here."""
        with self._connections.read() as connection:
            return bool(
                connection.execute(
                    "SELECT 1 FROM memories WHERE origin = ? LIMIT 1", (origin,)
                ).fetchone()
            )

    def select(
        self,
        wanted: MemoryFilter,
        limit: int = -1,
        offset: int = 0,
        *,
        keep: Callable[[Remembered], bool] = lambda one: True,
    ) -> list[Remembered]:
        """Those that are wanted, newest first; of these the ones to keep, so that the others are
        never held together.
        """
        with self._connections.read() as connection:
            ids, values = ids_of(
                wanted, _rare_tag(connection, wanted), limit + offset if limit >= 0 else -1
            )
            rows = connection.execute(
                f"SELECT {COLUMNS} WHERE memories.id IN (SELECT id FROM ({ids}) ORDER BY {ORDER} LIMIT ? OFFSET ?) "
                "ORDER BY created DESC, number DESC, memories.id DESC",
                (*values, limit, offset),
            )
            return [one for one in map(remembered, rows) if keep(one)]

    def count(self, wanted: MemoryFilter) -> int:
        """How many are wanted."""

        def ask(connection: sqlite3.Connection) -> int:
            ids, values = ids_of(wanted, _rare_tag(connection, wanted))
            return connection.execute(f"SELECT count(*) FROM ({ids})", values).fetchone()[0]

        return self._once("count", wanted, ask)

    def docs(self, wanted: MemoryFilter) -> frozenset[int]:
        """The docs of those that are wanted."""

        def ask(connection: sqlite3.Connection) -> frozenset[int]:
            ids, values = ids_of(wanted, _rare_tag(connection, wanted))
            rows = connection.execute(
                f"SELECT docs.id FROM ({ids}) AS chosen CROSS JOIN memories ON memories.id = chosen.id "
                "CROSS JOIN docs ON docs.source = memories.source AND docs.path = memories.key",
                values,
            )
            return frozenset(row[0] for row in rows)

        return self._once("docs", wanted, ask)

    def scopes(self, sources: Sequence[int]) -> list[ScopeCount]:
        """Every scope with what each origin has of it in these sources."""

        def ask(connection: sqlite3.Connection) -> list[ScopeCount]:
            found: dict[tuple[str, str], ScopeCount] = {}
            for source in sources:  # each by itself is counted along an index
                rows = connection.execute(
                    "SELECT scope, (SELECT root FROM sources WHERE id = ?1), count(*), max(created) FROM memories "
                    "WHERE source = ?1 GROUP BY scope",
                    (source,),
                )
                for one in (ScopeCount(*row) for row in rows):
                    key = (one.scope.casefold(), one.origin)
                    known = found.get(key, one)
                    count = one.count + (known.count if key in found else 0)
                    found[key] = ScopeCount(
                        known.scope, one.origin, count, max(one.newest, known.newest)
                    )
            return [found[key] for key in sorted(found)]

        return self._once("scopes", tuple(sources), ask)

    def _once(
        self, what: str, asked: Hashable, ask: Callable[[sqlite3.Connection], Answer]
    ) -> Answer:
        """An answer that is worked out once for each state of the store."""
        with self._connections.read() as connection:
            state = connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()[0]
            # Of this state, whatever another thread puts in its place meanwhile
            known = self._known
            if known[0] != state or len(known[1]) >= MAX_KNOWN or _size(known[1]) > MAX_KNOWN_DOCS:
                known = self._known = (state, {})
            if (what, asked) not in known[1]:
                known[1][what, asked] = ask(connection)
            return cast("Answer", known[1][what, asked])

    def neighbours(
        self, docs: Sequence[int], sources: Sequence[int], reach: int
    ) -> list[Neighbour]:
        """Who stands up to `reach` places before or after these docs in the same session of the
        same origin, among these sources.
        """
        if not docs:
            return []
        nearby = " UNION ALL ".join(
            f"SELECT asked.doc, {step}, (SELECT beside.id FROM memories AS beside WHERE beside.origin = asked.origin "
            f"AND beside.session = asked.session AND (beside.number, beside.id) {sign} (asked.number, asked.id) "
            f"AND beside.source IN ({marks(sources)}) ORDER BY beside.number {order}, beside.id {order} LIMIT 1 OFFSET {abs(step) - 1}) AS other "
            "FROM asked"
            for sign, order, steps in (
                ("<", "DESC", range(-1, -reach - 1, -1)),
                (">", "ASC", range(1, reach + 1)),
            )
            for step in steps
        )
        ask = (
            "WITH asked AS MATERIALIZED (SELECT docs.id AS doc, origin, session, number, memories.id AS id FROM docs JOIN memories "
            f"ON memories.source = docs.source AND memories.key = docs.path WHERE docs.id IN ({marks(docs)}) AND session <> ''), "
            f"nearby (doc, step, other) AS MATERIALIZED ({nearby}) "
            "SELECT nearby.doc, step, docs.id, first_chunk, last_chunk FROM nearby JOIN memories ON memories.id = other "
            "JOIN docs ON docs.source = memories.source AND docs.path = memories.key JOIN blobs ON blobs.id = docs.blob"
        )
        with self._connections.read() as connection:
            rows = connection.execute(ask, (*docs, *(list(sources) * 2 * reach)))
            return [Neighbour(*row) for row in rows]

    def citations(self, memory: int) -> tuple[Citation, ...]:
        """What a memory cites."""
        with self._connections.read() as connection:
            return citations_of(connection, memory)

    # -- judgements and copies
    # -----------------------------------------------------------------------------------------

    def judgements(self, origin: str, keys: Sequence[str]) -> dict[str, Judgement]:
        """What was decided about these keys of an origin, also where it has no copy now."""
        found: dict[str, Judgement] = {}
        with self._connections.read() as connection:
            for part in parts(keys, PARTS):
                rows = connection.execute(
                    f"SELECT key, state, actor, at, successor, made FROM judgements WHERE origin = ? AND key IN ({marks(part)})",
                    (origin, *part),
                )
                found.update(
                    (key, Judgement(MemoryState(state), *rest)) for key, state, *rest in rows
                )
        return found

    def forgotten(self, origin: str) -> Mapping[str, int]:
        """The keys of an origin that are not to be copied again, with when each was made; 0:
        whichever.
        """
        with self._connections.read() as connection:
            return dict(
                connection.execute("SELECT key, made FROM forgotten WHERE origin = ?", (origin,))
            )

    def signatures(self, origin: str, above: int, up_to: int) -> dict[int, tuple[str, bytes]]:
        """The copied rows with a number in that range: number -> key and signature."""
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT number, key, signature FROM memories WHERE origin = ? AND number > ? AND number <= ?",
                (origin, above, up_to),
            )
            return {number: (key, signature) for number, key, signature in rows}

    def mirrors(self) -> list[Mirror]:
        """How far each copy is."""
        with self._connections.read() as connection:
            return [
                Mirror(*row) for row in connection.execute("SELECT * FROM mirrors ORDER BY origin")
            ]

    def decisions(self, limit: int, ref: Ref | None = None, batch: int = 0) -> list[Decision]:
        """The log, newest first; all of it, or of one memory, or of one step.

        A limit of -1 is none.
        """
        where, values = (
            ("origin = ? AND key = ?", ref)
            if ref
            else ("batch = ?", (batch,))
            if batch
            else ("1", ())
        )
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT id, batch, at, origin, key, action, before, after, actor, reason, undone "
                f"FROM decisions WHERE {where} ORDER BY id DESC LIMIT ?",
                (*values, limit),
            )
            return [_decision(*row) for row in rows]

    def last_batch(self, not_by: str) -> int:
        """The last step that can be undone, 0 where there is none; the steps of one actor don't
        count.
        """
        ask = "SELECT coalesce(max(batch), 0) FROM decisions WHERE NOT undone AND actor <> ?"
        with self._connections.read() as connection:
            return connection.execute(ask, (not_by,)).fetchone()[0]


def _size(known: Mapping[tuple[str, Hashable], object]) -> int:
    return sum(len(one) for one in list(known.values()) if isinstance(one, frozenset))


def _decision(*row: Any) -> Decision:
    number, batch, at, origin, key, action, before, after, actor, reason, undone = row
    was, became = (json.loads(text).get("state", "") for text in (before, after))
    return Decision(
        number, batch, at, origin, key, action, was, became, actor, reason, bool(undone)
    )


def remembered(row: Sequence[Any]) -> Remembered:
    """A memory from a row of COLUMNS."""
    number, origin, key, place, source, state, title, subtitle = row[:8]
    facts, concepts, files = (tuple(json.loads(one)) for one in row[8:11])
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
        number,
        origin,
        place,
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


def citations_of(connection: sqlite3.Connection, memory: int) -> tuple[Citation, ...]:
    """What a memory cites, in the order in which it was written."""
    ask = "SELECT root, path, symbol, file_hash, body_hash, revision FROM citations WHERE memory = ? ORDER BY rowid"
    return tuple(Citation(*row) for row in connection.execute(ask, (memory,)))


def _rare_tag(connection: sqlite3.Connection, wanted: MemoryFilter) -> str:
    """The tag that fewest memories have, where those are few."""
    ask = f"SELECT count(*) FROM (SELECT 1 FROM concepts WHERE concept = ? LIMIT {FEW})"
    counts = {tag: connection.execute(ask, (tag.strip(),)).fetchone()[0] for tag in wanted.tags}
    rarest = min(counts, key=lambda tag: counts[tag], default="")
    return rarest.strip() if rarest and counts[rarest] < FEW else ""
