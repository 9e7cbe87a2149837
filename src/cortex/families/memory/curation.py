"""Curate memories: approve, reject, promote, supersede, edit, delete, undo.

Every decision is an entry in the audit log. Rows of other products' databases are never changed: a
judgement is stored beside them, an edited row becomes a memory of our own that supersedes it, and a
deleted one is forgotten here and not copied again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cortex.base.errors import InputError
from cortex.base.types import Citation, Memory, MemoryState
from cortex.engine.library import Library
from cortex.engine.store import OWN, Decision, Remembered
from cortex.families.memory.dedup import fingerprint
from cortex.families.memory.index_text import word
from cortex.families.memory.states import name_of, supersessions, verdict_of
from cortex.families.memory.writer import (
    HOOK,
    PERSON,
    WriteResult,
    add,
    checked,
    find_by_fingerprint,
    refusal,
    screened,
)

ACTIONS: Mapping[str, MemoryState] = {
    "approve": MemoryState.APPROVED,
    "reject": MemoryState.REJECTED,
    "promote": MemoryState.PROMOTED,
}
# Decisions per transaction, so that a reader never waits for long.
BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Deleted:
    """Outcome of a deletion."""

    own: int
    # Copies of rows that stay in their own database.
    copies: int
    # True if they are gone from every index, too.
    complete: bool


def judge(
    library: Library,
    chosen: Sequence[Remembered],
    action: str,
    *,
    actor: str = PERSON,
    reason: str = "",
) -> int:
    """Apply a decision to memories; return the number that had another state before."""
    state = ACTIONS[action]
    verdicts = [
        verdict_of(library, record, state) for record in chosen if record.state is not state
    ]
    step = 0
    for start in range(0, len(verdicts), BATCH):
        part = verdicts[start : start + BATCH]
        step = library.store.memories.decide(
            part, word, action=action, actor=actor, reason=reason, batch=step
        )
    if verdicts:
        library.follow()
    return len(verdicts)


def supersede(
    library: Library, old: Remembered, new: Remembered, *, actor: str = PERSON, reason: str = ""
) -> None:
    """Mark one memory as superseded by another.

    The successor is approved unless it was approved or promoted before.

    Raises: InputError ARGUMENT_INVALID, if that would make a cycle.
    """
    if _leads_to(library, new, old):
        raise InputError(
            "ARGUMENT_INVALID", f"{new.memory.key} is itself superseded by {old.memory.key}"
        )
    verdicts = supersessions([old], new.memory.key)
    if new.state not in (MemoryState.APPROVED, MemoryState.PROMOTED):
        verdicts.append(verdict_of(library, new, MemoryState.APPROVED))
    library.store.memories.decide(verdicts, word, action="supersede", actor=actor, reason=reason)
    library.follow()


def _leads_to(library: Library, start: Remembered, end: Remembered) -> bool:
    seen, current = set[str](), start
    while current.memory.key not in seen:
        if current.ref == end.ref:
            return True
        seen.add(current.memory.key)
        successors = (
            library.store.memories.by_key(current.judgement.successor)
            if current.judgement and current.judgement.successor
            else []
        )
        current = successors[0] if successors else current
    return False


def edit(
    library: Library,
    record: Remembered,
    memory: Memory,
    *,
    citations: Sequence[Citation] | None = None,
    actor: str = PERSON,
) -> WriteResult:
    """Replace the content of a memory.

    A row of another product becomes a memory of our own that supersedes the row.

    Raises: InputError MEMORY_REFUSED.
    """
    memory = screened(library, checked(memory))
    if record.origin != OWN:
        origin = f"edited from {record.origin}#{record.memory.key}"
        return add(
            library,
            replace(memory, key="", provenance=origin),
            scope=record.scope,
            actor=actor,
            supersedes=[record],
            citations=citations or (),
        )
    content = fingerprint(memory)
    for known in find_by_fingerprint(library, content):
        if known.ref != record.ref:
            raise refusal(f"{known.memory.key} says the same")
    state = record.state or MemoryState.APPROVED
    verdict = replace(
        verdict_of(library, record, state),
        successor=record.judgement.successor if record.judgement else "",
        memory=replace(memory, key=record.memory.key),
        fingerprint=content,
        citations=None if citations is None else tuple(citations),
    )
    library.store.memories.decide([verdict], word, action="edit", actor=actor, reason="")
    library.follow()
    return WriteResult(record.memory.key, True, state)


def delete(library: Library, chosen: Sequence[Remembered], *, actor: str = PERSON) -> Deleted:
    """Delete memories for good: texts, index entries, judgements and earlier versions."""
    library.store.memories.delete([record.ref for record in chosen], actor)
    complete = library.follow(forget=True)
    own = sum(1 for record in chosen if record.origin == OWN)
    return Deleted(own, len(chosen) - own, complete)


def last_step(library: Library) -> list[Decision]:
    """Decisions of the last step by a person, which an undo reverts; empty if there is none."""
    remembered = library.store.memories
    batch = remembered.last_batch(not_by=HOOK)
    return remembered.decisions(-1, batch=batch) if batch else []


def undo(library: Library, *, batch: int = 0, actor: str = PERSON) -> int:
    """Revert a step, by default the last one of a person; return the number of memories."""
    batch = batch or library.store.memories.last_batch(not_by=HOOK)
    if not batch:
        return 0
    uncurated = library.settings.memory.uncurated
    count = library.store.memories.undo(batch, word, lambda state: name_of(state, uncurated), actor)
    library.follow()
    return count
