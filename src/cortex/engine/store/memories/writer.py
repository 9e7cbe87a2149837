"""Writes of memories: our own, mirrored rows of other products, and decisions about both.

A memory, its doc, its judgement and the log entry are one transaction. The row and its doc are
written in `rows.py`, queries are in `queries.py`. Doesn't know what a state means.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from cortex.base.types import Citation, Memory, MemoryState
from cortex.engine.store.connection import Connection
from cortex.engine.store.content.writer import forget_rest, next_seq
from cortex.engine.store.memories.queries import (
    COLUMNS,
    Judgement,
    MemoryQueries,
    Mirror,
    Ref,
    Remembered,
    citations_of,
    remembered,
)
from cortex.engine.store.memories.rows import (
    OWN,
    MemoryTextExtractor,
    NameOf,
    NewMemory,
    erase_memory,
    has_fingerprint,
    write_memory,
)


@dataclass(frozen=True, slots=True)
class Added:
    """Result of a write: the batch to undo it by, and the keys that were written.

    Keys that another process had written meanwhile are not included.
    """

    batch: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """Decision about a memory; `memory` is its new text, None if that stays."""

    ref: Ref
    state: MemoryState | None
    name: str | None
    successor: str = ""
    memory: Memory | None = None
    fingerprint: bytes = b""
    # None if they stay.
    citations: tuple[Citation, ...] | None = None
    # None: derived from the project.
    scope: str | None = None


class Memories(MemoryQueries):
    """Memories of a store, to read and to write."""

    # Our own memories.

    def add(
        self,
        new: Sequence[NewMemory],
        wording: MemoryTextExtractor,
        *,
        actor: str,
        supersedes: Sequence[MemoryVerdict] = (),
        batch: int = 0,
    ) -> Added:
        """Write memories and, in the same batch, supersede those that they replace.

        A memory that another process has written since the caller looked is not written again, and
        supersedes nothing. If a batch is too large for one transaction, pass the returned `batch`
        to continue it.
        """
        with self._write() as connection:
            old = {verdict.ref[1] for verdict in supersedes if verdict.ref[0] == OWN}
            new = [
                new_memory
                for new_memory in new
                if not has_fingerprint(connection, new_memory.fingerprint, old)
            ]
            if not new:
                return Added(batch, ())
            decisions = _Decisions(connection, actor, batch)
            for memory in new:
                write_memory(connection, memory, wording, decisions.seq)
                ref = (memory.origin, memory.memory.key)
                decisions.judge(ref, _judgement_now(memory.state, actor, memory.successor))
                after = _encode_state(memory.state, memory.successor)
                decisions.log(ref, "add", after=after)
            for verdict in supersedes:
                decisions.make(verdict, wording, "supersede")
            return Added(decisions.batch, tuple(memory.memory.key for memory in new))

    def decide(
        self,
        verdicts: Sequence[MemoryVerdict],
        wording: MemoryTextExtractor,
        *,
        action: str,
        actor: str,
        reason: str,
        batch: int = 0,
    ) -> int:
        """Change states and texts atomically and log each change; returns the batch.

        `batch` continues an earlier one, as in `add`.
        """
        with self._write() as connection:
            decisions = _Decisions(connection, actor, batch)
            for verdict in verdicts:
                decisions.make(verdict, wording, action, reason)
            return decisions.batch

    def undo(self, batch: int, wording: MemoryTextExtractor, name_of: NameOf, actor: str) -> int:
        """Undo a batch: restore each of its memories; returns their number."""
        with self._write() as connection:
            decisions = _Decisions(connection, actor)
            rows = connection.execute(
                # A later decision about a memory wins: another process may have made one.
                "SELECT origin, key, action, before FROM decisions AS one WHERE batch = ? "
                "AND NOT undone AND NOT EXISTS (SELECT 1 "
                "FROM decisions AS later WHERE later.origin = one.origin AND later.key = one.key "
                "AND later.batch > one.batch "
                "AND NOT later.undone) ORDER BY id DESC",
                (batch,),
            ).fetchall()
            for origin, key, action, text in rows:
                before, reason = json.loads(text), f"undo of {action}"
                if "state" in before:
                    verdict, judged = _restoring_verdict((origin, key), before, name_of)
                    decisions.apply(verdict, judged, wording, "undo", reason)
                else:
                    # Undoing an addition rejects the memory instead of deleting it.
                    state = MemoryState.REJECTED
                    verdict = MemoryVerdict((origin, key), state, name_of(state))
                    decisions.make(verdict, wording, "undo", reason)
            connection.execute(
                "UPDATE decisions SET undone = 1 WHERE batch IN (?, ?)", (batch, decisions.batch)
            )
            return len(rows)

    def delete(self, refs: Iterable[Ref], actor: str) -> int:
        """Delete memories for good, with texts, judgements and earlier texts; returns their number.

        Of mirrored rows the copies are deleted and not made again.
        """
        with self._write() as connection:
            decisions, count = _Decisions(connection, actor), 0
            for ref in refs:
                made = _creation_time(connection, ref)
                count += erase_memory(connection, ref, decisions.seq)
                for table in ("judgements", "decisions"):
                    connection.execute(f"DELETE FROM {table} WHERE origin = ? AND key = ?", ref)
                if ref[0] != OWN:
                    connection.execute(
                        "INSERT OR REPLACE INTO forgotten VALUES (?, ?, ?)", (*ref, made)
                    )
                decisions.log(ref, "delete")
            connection.execute(
                "UPDATE decisions SET undone = 1 WHERE batch = ?", (decisions.batch,)
            )
            forget_rest(connection)
            return count

    # Mirrors of other products' databases.

    def copy(
        self,
        mirror: Mirror,
        new: Sequence[NewMemory],
        gone: Sequence[str],
        wording: MemoryTextExtractor,
        name_of: NameOf,
    ) -> None:
        """Write mirrored rows, drop those keys and store the progress in one transaction.

        A decision by the user takes precedence over the state in the row itself.
        """
        with self._connections.write(erase=True) as connection:
            if new or gone:
                seq = next_seq(connection)
                for key in gone:
                    erase_memory(connection, (mirror.origin, key), seq)
                for row in new:
                    if (judged := _apply_judgement(connection, row, name_of)) is not None:
                        write_memory(connection, judged, wording, seq)
            values = astuple(mirror)
            connection.execute(
                f"INSERT OR REPLACE INTO mirrors VALUES ({', '.join('?' * len(values))})", values
            )

    def want(self, wanted: Sequence[tuple[str, str]]) -> None:
        """Request that the lease holder mirrors these databases (origin and scope)."""
        now = int(time.time())
        with self._connections.write() as connection:
            for origin, scope in wanted:
                connection.execute(
                    "INSERT INTO mirrors VALUES (?, ?, '', '', 0, -1, 0, 0, ?, 0, '', '') "
                    "ON CONFLICT (origin) DO UPDATE SET scope = excluded.scope, "
                    "wanted_at = excluded.wanted_at",
                    (origin, scope, now),
                )

    def drop_copy(self, origin: str) -> int:
        """Delete the mirror of a database; decisions about its rows stay.

        Returns the number of rows deleted.
        """
        with self._connections.write(erase=True) as connection:
            seq = next_seq(connection)
            keys = [
                row[0]
                for row in connection.execute(
                    "SELECT key FROM memories WHERE origin = ?", (origin,)
                )
            ]
            for key in keys:
                erase_memory(connection, (origin, key), seq)
            connection.execute("DELETE FROM mirrors WHERE origin = ?", (origin,))
            return len(keys)

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._connections.write(durable=True, erase=True) as connection:
            yield connection


class _Decisions:
    """Decisions of one actor in one transaction: a batch of the decision log."""

    def __init__(self, connection: Connection, actor: str, batch: int = 0) -> None:
        """Begin a batch, or continue an earlier one."""
        self.seq = next_seq(connection)
        self.batch = batch or _next_batch(connection)
        self._connection = connection
        self._actor = actor

    def make(
        self, verdict: MemoryVerdict, wording: MemoryTextExtractor, action: str, reason: str = ""
    ) -> None:
        """Apply a verdict as a judgement of the actor, now."""
        judged = _judgement_now(verdict.state, self._actor, verdict.successor)
        self.apply(verdict, judged, wording, action, reason)

    def apply(
        self,
        verdict: MemoryVerdict,
        judged: Judgement | None,
        wording: MemoryTextExtractor,
        action: str,
        reason: str,
    ) -> None:
        """Change a memory, store its judgement and log both."""
        connection = self._connection
        row = connection.execute(
            f"SELECT {COLUMNS} WHERE memories.origin = ? AND memories.key = ?", verdict.ref
        ).fetchone()
        # It was deleted meanwhile.
        if row is None and verdict.ref[0] == OWN:
            return
        if row is None:
            # It isn't mirrored yet; the judgement is stored for when it is.
            known = _judgement(connection, verdict.ref)
            before = {
                **_encode_state(known.state if known else None, ""),
                **_encode_judgement(known),
            }
        else:
            before = _apply_verdict(connection, remembered(row), verdict, wording, self.seq)
        self.judge(verdict.ref, judged)
        after = _encode_state(verdict.state, verdict.successor)
        self.log(verdict.ref, action, before, after, reason)

    def judge(self, ref: Ref, judged: Judgement | None) -> None:
        """Store the judgement of a memory, or remove it."""
        if judged is None:
            delete = "DELETE FROM judgements WHERE origin = ? AND key = ?"
            self._connection.execute(delete, ref)
            return
        made = _creation_time(self._connection, ref)
        self._connection.execute(
            "INSERT OR REPLACE INTO judgements VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*ref, judged.state.value, judged.actor, judged.at, judged.successor, made),
        )

    def log(
        self,
        ref: Ref,
        action: str,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
        reason: str = "",
    ) -> None:
        """Write an entry of the decision log."""
        states = (json.dumps(state or {}, ensure_ascii=False) for state in (before, after))
        self._connection.execute(
            "INSERT INTO decisions (batch, at, origin, key, action, before, after, actor, reason, "
            "undone) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (self.batch, int(time.time()), *ref, action, *states, self._actor, reason),
        )


def _apply_verdict(
    connection: Connection,
    known: Remembered,
    verdict: MemoryVerdict,
    wording: MemoryTextExtractor,
    seq: int,
) -> dict[str, object]:
    """Write a decision about a memory; returns everything needed to undo it."""
    before: dict[str, object] = {
        **_encode_state(known.state, ""),
        **_encode_judgement(known.judgement),
    }
    cited = citations_of(connection, known.id)
    if verdict.memory is not None or verdict.citations is not None:
        before |= {
            "memory": asdict(known.memory),
            "fingerprint": known.fingerprint.hex(),
            "scope": known.scope,
            "citations": [
                (
                    *astuple(citation)[:3],
                    citation.file_hash.hex(),
                    citation.body_hash.hex(),
                    citation.commit,
                )
                for citation in cited
            ],
        }
    memory = verdict.memory or known.memory
    new = NewMemory(
        memory,
        verdict.name,
        verdict.state,
        scope=verdict.scope
        or (known.scope if known.scope != known.memory.project else memory.project),
        fingerprint=verdict.fingerprint or known.fingerprint,
        origin=known.origin,
        number=known.number,
        other_project=known.other_project,
        signature=known.signature,
        citations=cited if verdict.citations is None else verdict.citations,
    )
    write_memory(connection, new, wording, seq)
    return before


def _restoring_verdict(
    ref: Ref, before: Mapping[str, Any], name_of: NameOf
) -> tuple[MemoryVerdict, Judgement | None]:
    """Verdict that restores a memory, and the judgement that it had."""
    state = _state(before["state"])
    judged = (
        Judgement(MemoryState(before["judged"][0]), *before["judged"][1:])
        if "judged" in before
        else None
    )
    verdict = MemoryVerdict(ref, state, name_of(state), judged.successor if judged else "")
    if "memory" in before:
        cited = (
            Citation(root, path, symbol, bytes.fromhex(file), bytes.fromhex(body), commit)
            for root, path, symbol, file, body, commit in before["citations"]
        )
        verdict = replace(
            verdict,
            memory=_memory(before["memory"]),
            fingerprint=bytes.fromhex(before["fingerprint"]),
            scope=before["scope"],
            citations=tuple(cited),
        )
    return verdict, judged


def _apply_judgement(connection: Connection, row: NewMemory, name_of: NameOf) -> NewMemory | None:
    """Row with the user's judgement applied; None if it must not be copied."""
    ref = (row.origin, row.memory.key)
    made = row.memory.created
    query = "SELECT 1 FROM forgotten WHERE origin = ? AND key = ? AND made IN (0, ?)"
    if connection.execute(query, (*ref, made)).fetchone():
        return None
    known = _judgement(connection, ref)
    return (
        row
        if known is None or known.made not in (0, made)
        else replace(row, state=known.state, name=name_of(known.state))
    )


def _judgement(connection: Connection, ref: Ref) -> Judgement | None:
    query = "SELECT state, actor, at, successor, made FROM judgements WHERE origin = ? AND key = ?"
    row = connection.execute(query, ref).fetchone()
    return Judgement(MemoryState(row[0]), *row[1:]) if row else None


def _creation_time(connection: Connection, ref: Ref) -> int:
    """Time at which a mirrored row was made.

    Returns 0 if it isn't known, or for our own memories, which never reuse a key.
    """
    if ref[0] == OWN:
        return 0
    row = connection.execute(
        "SELECT created FROM memories WHERE origin = ? AND key = ?", ref
    ).fetchone()
    return row[0] if row else 0


def _judgement_now(state: MemoryState | None, actor: str, successor: str) -> Judgement | None:
    return None if state is None else Judgement(state, actor, int(time.time()), successor)


def _encode_state(state: MemoryState | None, successor: str) -> dict[str, object]:
    return {
        "state": state.value if state else "",
        **({"successor": successor} if successor else {}),
    }


def _encode_judgement(judged: Judgement | None) -> dict[str, object]:
    return (
        {}
        if judged is None
        else {"judged": (judged.state.value, judged.actor, judged.at, judged.successor)}
    )


def _next_batch(connection: Connection) -> int:
    return connection.execute("SELECT coalesce(max(batch), 0) + 1 FROM decisions").fetchone()[0]


def _state(text: str) -> MemoryState | None:
    return MemoryState(text) if text else None


def _memory(fields: Mapping[str, object]) -> Memory:
    lists = {name: tuple(fields[name]) for name in ("facts", "concepts", "files")}  # type: ignore[arg-type]
    return replace(Memory(**fields), **lists)  # type: ignore[arg-type]
