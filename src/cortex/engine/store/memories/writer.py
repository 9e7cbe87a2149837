"""Memories, written: our own, the copies of other products' rows, and what a person decided about
either.

A memory, its doc, its judgement and the line in the log are one transaction. Its row and its doc
are written in memoryrows.py, reading is in memorylookup.py; what a state means is not known here.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from cortex.base.types import Citation, Memory, MemoryState
from cortex.engine.store.connections import Connections
from cortex.engine.store.content.writer import forget_rest, next_seq
from cortex.engine.store.memories.queries import (
    COLUMNS,
    Judgement,
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
    is_said,
    write_memory,
)


@dataclass(frozen=True, slots=True)
class Added:
    """What was written: the number of the step, to undo it by, and the keys of those that nobody
    else had written meanwhile.
    """

    batch: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """What is decided about a memory; `memory` is its new wording, None where that stays."""

    ref: Ref
    state: MemoryState | None
    name: str | None
    successor: str = ""
    memory: Memory | None = None
    fingerprint: bytes = b""
    citations: tuple[Citation, ...] | None = None  # None where they stay
    scope: str | None = None  # None: as the project says


class Memories:
    """The memories of a store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    # -- our own
    # -------------------------------------------------------------------------------------------------------

    def add(
        self,
        new: Sequence[NewMemory],
        wording: MemoryTextExtractor,
        *,
        actor: str,
        supersedes: Sequence[MemoryVerdict] = (),
        batch: int = 0,
    ) -> Added:
        """Write memories, and in the same step what they take the place of.

        What another process has written since the caller looked is not written again, nor is
        anything superseded by it. A step that is too large for one transaction goes on with the
        number that it got: `batch`.
        """
        with self._write() as connection:
            old = {verdict.ref[1] for verdict in supersedes if verdict.ref[0] == OWN}
            new = [one for one in new if not is_said(connection, one.fingerprint, old)]
            if not new:
                return Added(batch, ())
            seq, batch = next_seq(connection), batch or _next_batch(connection)
            for one in new:
                write_memory(connection, one, wording, seq)
                ref = (one.origin, one.memory.key)
                _judge(connection, ref, _now(one.state, actor, one.successor))
                _log(connection, batch, ref, "add", {}, _after(one.state, one.successor), actor, "")
            for verdict in supersedes:
                judged = _now(verdict.state, actor, verdict.successor)
                _decide(connection, verdict, judged, wording, seq, batch, "supersede", actor, "")
            return Added(batch, tuple(one.memory.key for one in new))

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
        """Change states and wordings, all or none, and log every one; returns the number of the
        step, `batch` as above.
        """
        with self._write() as connection:
            seq, batch = next_seq(connection), batch or _next_batch(connection)
            for verdict in verdicts:
                judged = _now(verdict.state, actor, verdict.successor)
                _decide(connection, verdict, judged, wording, seq, batch, action, actor, reason)
            return batch

    def undo(self, batch: int, wording: MemoryTextExtractor, name_of: NameOf, actor: str) -> int:
        """Take a step back: every memory of it is as it was before; returns how many those are."""
        with self._write() as connection:
            seq, again = next_seq(connection), _next_batch(connection)
            rows = connection.execute(
                # What somebody decided about a memory meanwhile counts: another process may have.
                "SELECT origin, key, action, before FROM decisions AS one WHERE batch = ? AND NOT undone AND NOT EXISTS (SELECT 1 "
                "FROM decisions AS later WHERE later.origin = one.origin AND later.key = one.key AND later.batch > one.batch "
                "AND NOT later.undone) ORDER BY id DESC",
                (batch,),
            ).fetchall()
            for origin, key, action, text in rows:
                before = json.loads(text)
                if "state" in before:
                    verdict, judged = _before((origin, key), before, name_of)
                else:  # nothing that somebody wrote is lost by an undo
                    state = MemoryState.REJECTED
                    verdict, judged = (
                        MemoryVerdict((origin, key), state, name_of(state)),
                        _now(state, actor, ""),
                    )
                _decide(
                    connection,
                    verdict,
                    judged,
                    wording,
                    seq,
                    again,
                    "undo",
                    actor,
                    f"undo of {action}",
                )
            connection.execute(
                "UPDATE decisions SET undone = 1 WHERE batch IN (?, ?)", (batch, again)
            )
            return len(rows)

    def delete(self, refs: Iterable[Ref], actor: str) -> int:
        """Forget memories for good, with their texts, judgements and earlier wordings; returns how
        many there were.

        Of another product's rows the copies go, and are not made again.
        """
        with self._write() as connection:
            seq, batch, count = next_seq(connection), _next_batch(connection), 0
            for origin, key in refs:
                made = _made(connection, (origin, key))
                count += erase_memory(connection, (origin, key), seq)
                connection.execute(
                    "DELETE FROM judgements WHERE origin = ? AND key = ?", (origin, key)
                )
                connection.execute(
                    "DELETE FROM decisions WHERE origin = ? AND key = ?", (origin, key)
                )
                if origin != OWN:
                    connection.execute(
                        "INSERT OR REPLACE INTO forgotten VALUES (?, ?, ?)", (origin, key, made)
                    )
                _log(connection, batch, (origin, key), "delete", {}, {}, actor, "")
            connection.execute("UPDATE decisions SET undone = 1 WHERE batch = ?", (batch,))
            forget_rest(connection)
            return count

    # -- copies
    # --------------------------------------------------------------------------------------------------------

    def copy(
        self,
        mirror: Mirror,
        new: Sequence[NewMemory],
        gone: Sequence[str],
        wording: MemoryTextExtractor,
        name_of: NameOf,
    ) -> None:
        """Write these rows of another product's database, drop those keys, and remember how far it
        is: one step.

        What a person has decided about a row until this moment counts, and not what the row says
        itself.
        """
        with self._connections.write(erase=True) as connection:
            if new or gone:
                seq = next_seq(connection)
                for key in gone:
                    erase_memory(connection, (mirror.origin, key), seq)
                for one in new:
                    if (judged := _judged(connection, one, name_of)) is not None:
                        write_memory(connection, judged, wording, seq)
            values = astuple(mirror)
            connection.execute(
                f"INSERT OR REPLACE INTO mirrors VALUES ({', '.join('?' * len(values))})", values
            )

    def want(self, wanted: Sequence[tuple[str, str]]) -> None:
        """Say that these databases (origin and scope) are to be copied, by whoever holds the lease."""
        now = int(time.time())
        with self._connections.write() as connection:
            for origin, scope in wanted:
                connection.execute(
                    "INSERT INTO mirrors VALUES (?, ?, '', '', 0, -1, 0, 0, ?, 0, '', '') "
                    "ON CONFLICT (origin) DO UPDATE SET scope = excluded.scope, wanted_at = excluded.wanted_at",
                    (origin, scope, now),
                )

    def drop_copy(self, origin: str) -> int:
        """Forget the copy of a database; what a person decided about its rows stays.

        Returns how many rows that were.
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
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._connections.write(durable=True, erase=True) as connection:
            yield connection


# -- judgements
# --------------------------------------------------------------------------------------------------------


def _decide(
    connection: sqlite3.Connection,
    verdict: MemoryVerdict,
    judged: Judgement | None,
    wording: MemoryTextExtractor,
    seq: int,
    batch: int,
    action: str,
    actor: str,
    reason: str,
) -> None:
    row = connection.execute(
        f"SELECT {COLUMNS} WHERE memories.origin = ? AND memories.key = ?", verdict.ref
    ).fetchone()
    if row is None and verdict.ref[0] == OWN:  # it was deleted meanwhile
        return
    if row is None:  # it isn't copied yet: the judgement waits for it
        known = _judgement(connection, verdict.ref)
        before = {**_after(known.state if known else None, ""), **_as_judged(known)}
    else:
        before = _change(connection, remembered(row), verdict, wording, seq)
    _judge(connection, verdict.ref, judged)
    _log(
        connection,
        batch,
        verdict.ref,
        action,
        before,
        _after(verdict.state, verdict.successor),
        actor,
        reason,
    )


def _change(
    connection: sqlite3.Connection,
    known: Remembered,
    verdict: MemoryVerdict,
    wording: MemoryTextExtractor,
    seq: int,
) -> dict[str, object]:
    """Write what was decided about a memory; gives all that it takes to take that back."""
    before: dict[str, object] = {**_after(known.state, ""), **_as_judged(known.judgement)}
    cited = citations_of(connection, known.id)
    if verdict.memory is not None or verdict.citations is not None:
        before |= {
            "memory": asdict(known.memory),
            "fingerprint": known.fingerprint.hex(),
            "scope": known.scope,
            "citations": [
                (*astuple(one)[:3], one.file_hash.hex(), one.body_hash.hex(), one.commit)
                for one in cited
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


def _before(
    ref: Ref, before: Mapping[str, Any], name_of: NameOf
) -> tuple[MemoryVerdict, Judgement | None]:
    """What takes a memory back to how it was, and how that had been judged."""
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


def _judged(connection: sqlite3.Connection, one: NewMemory, name_of: NameOf) -> NewMemory | None:
    """A row as a person has judged it; None where they want to have it forgotten."""
    ref = (one.origin, one.memory.key)
    made = one.memory.created
    ask = "SELECT 1 FROM forgotten WHERE origin = ? AND key = ? AND made IN (0, ?)"
    if connection.execute(ask, (*ref, made)).fetchone():
        return None
    known = _judgement(connection, ref)
    return (
        one
        if known is None or known.made not in (0, made)
        else replace(one, state=known.state, name=name_of(known.state))
    )


def _judgement(connection: sqlite3.Connection, ref: Ref) -> Judgement | None:
    ask = "SELECT state, actor, at, successor, made FROM judgements WHERE origin = ? AND key = ?"
    row = connection.execute(ask, ref).fetchone()
    return Judgement(MemoryState(row[0]), *row[1:]) if row else None


def _judge(connection: sqlite3.Connection, ref: Ref, judged: Judgement | None) -> None:
    if judged is None:
        connection.execute("DELETE FROM judgements WHERE origin = ? AND key = ?", ref)
    else:
        values = (
            *ref,
            judged.state.value,
            judged.actor,
            judged.at,
            judged.successor,
            _made(connection, ref),
        )
        connection.execute("INSERT OR REPLACE INTO judgements VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def _made(connection: sqlite3.Connection, ref: Ref) -> int:
    """When a row of another product's was made; 0 where that isn't known, or it is our own, whose
    key nothing else gets.
    """
    if ref[0] == OWN:
        return 0
    row = connection.execute(
        "SELECT created FROM memories WHERE origin = ? AND key = ?", ref
    ).fetchone()
    return row[0] if row else 0


def _now(state: MemoryState | None, actor: str, successor: str) -> Judgement | None:
    return None if state is None else Judgement(state, actor, int(time.time()), successor)


def _after(state: MemoryState | None, successor: str) -> dict[str, object]:
    return {
        "state": state.value if state else "",
        **({"successor": successor} if successor else {}),
    }


def _as_judged(judged: Judgement | None) -> dict[str, object]:
    return (
        {}
        if judged is None
        else {"judged": (judged.state.value, judged.actor, judged.at, judged.successor)}
    )


def _log(
    connection: sqlite3.Connection,
    batch: int,
    ref: Ref,
    action: str,
    before: Mapping[str, object],
    after: Mapping[str, object],
    actor: str,
    reason: str,
) -> None:
    connection.execute(
        "INSERT INTO decisions (batch, at, origin, key, action, before, after, actor, reason, undone) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (
            batch,
            int(time.time()),
            *ref,
            action,
            json.dumps(before, ensure_ascii=False),
            json.dumps(after, ensure_ascii=False),
            actor,
            reason,
        ),
    )


def _next_batch(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT coalesce(max(batch), 0) + 1 FROM decisions").fetchone()[0]


def _state(text: str) -> MemoryState | None:
    return MemoryState(text) if text else None


def _memory(fields: Mapping[str, object]) -> Memory:
    lists = {name: tuple(fields[name]) for name in ("facts", "concepts", "files")}  # type: ignore[arg-type]
    return replace(Memory(**fields), **lists)  # type: ignore[arg-type]
