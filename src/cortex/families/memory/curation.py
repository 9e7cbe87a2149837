"""Judging memories: approve, reject, promote, supersede, edit, delete, and taking a step back.

Every decision is one line of a log.

Rows of other products' databases are never changed: a judgement lies over them, an edited one
becomes a memory of our own that supersedes the row, a deleted one is forgotten here and not copied
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cortex.base.errors import InputError
from cortex.base.types import Citation, Memory, MemoryState
from cortex.engine.library import Library
from cortex.engine.store import OWN, Decision, MemoryVerdict, Remembered
from cortex.families.memory.dedup import fingerprint
from cortex.families.memory.index_text import word
from cortex.families.memory.states import name_of
from cortex.families.memory.writer import (
    HOOK,
    PERSON,
    WriteResult,
    add,
    checked,
    screened,
    that_say,
)

ACTIONS: Mapping[str, MemoryState] = {
    "approve": MemoryState.APPROVED,
    "reject": MemoryState.REJECTED,
    "promote": MemoryState.PROMOTED,
}
BATCH = 1_000  # in one transaction, so that a reader never waits for long


@dataclass(frozen=True, slots=True)
class Deleted:
    """What was forgotten."""

    own: int
    copies: int  # of rows that stay in their own database
    complete: bool  # also gone from every index when this was told


def judge(
    library: Library,
    chosen: Sequence[Remembered],
    action: str,
    *,
    actor: str = PERSON,
    reason: str = "",
) -> int:
    """Give memories another state; returns how many had another one before."""
    state = ACTIONS[action]
    verdicts = [
        MemoryVerdict(one.ref, state, name_of(state, library.settings.memory.uncurated))
        for one in chosen
        if one.state is not state
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
    """Have one memory take the place of another; one that nobody has judged is approved by that.

    Raises: InputError ARGUMENT_INVALID, where they would go round in a circle.
    """
    if _leads_to(library, new, old):
        raise InputError(
            "ARGUMENT_INVALID", f"{new.memory.key} is itself superseded by {old.memory.key}"
        )
    verdicts = [MemoryVerdict(old.ref, MemoryState.SUPERSEDED, None, new.memory.key)]
    if new.state not in (MemoryState.APPROVED, MemoryState.PROMOTED):
        state = MemoryState.APPROVED
        verdicts.append(
            MemoryVerdict(new.ref, state, name_of(state, library.settings.memory.uncurated))
        )
    library.store.memories.decide(verdicts, word, action="supersede", actor=actor, reason=reason)
    library.follow()


def _leads_to(library: Library, start: Remembered, end: Remembered) -> bool:
    seen, now = set[str](), start
    while now.memory.key not in seen:
        if now.ref == end.ref:
            return True
        seen.add(now.memory.key)
        after = (
            library.store.remembered.by_key(now.judgement.successor)
            if now.judgement and now.judgement.successor
            else []
        )
        now = after[0] if after else now
    return False


def edit(
    library: Library,
    one: Remembered,
    memory: Memory,
    *,
    citations: Sequence[Citation] | None = None,
    actor: str = PERSON,
) -> WriteResult:
    """Give a memory another wording; one of another product's becomes our own, and takes the place
    of the row.

    Raises: InputError MEMORY_REFUSED.
    """
    memory = screened(library, checked(memory))
    if one.origin != OWN:
        told = replace(memory, key="", provenance=f"edited from {one.origin}#{one.memory.key}")
        return add(
            library, told, scope=one.scope, actor=actor, supersedes=[one], citations=citations or ()
        )
    known = [other for other in that_say(library, fingerprint(memory)) if other.ref != one.ref]
    if known:
        raise InputError(
            "MEMORY_REFUSED", f"this memory is not kept: {known[0].memory.key} says the same"
        )
    state = one.state or MemoryState.APPROVED
    verdict = MemoryVerdict(
        one.ref,
        state,
        name_of(state, library.settings.memory.uncurated),
        one.judgement.successor if one.judgement else "",
        replace(memory, key=one.memory.key),
        fingerprint(memory),
        None if citations is None else tuple(citations),
    )
    library.store.memories.decide([verdict], word, action="edit", actor=actor, reason="")
    library.follow()
    return WriteResult(one.memory.key, True, state)


def delete(library: Library, chosen: Sequence[Remembered], *, actor: str = PERSON) -> Deleted:
    """Forget memories for good: their texts, indexes, judgements and earlier wordings."""
    library.store.memories.delete([one.ref for one in chosen], actor)
    complete = library.follow(forget=True)
    own = sum(1 for one in chosen if one.origin == OWN)
    return Deleted(own, len(chosen) - own, complete)


def last_step(library: Library) -> list[Decision]:
    """What the last step of a person decided, that an undo takes back; empty where there is nothing
    to undo.
    """
    remembered = library.store.remembered
    batch = remembered.last_batch(not_by=HOOK)
    return remembered.decisions(-1, batch=batch) if batch else []


def undo(library: Library, *, batch: int = 0, actor: str = PERSON) -> int:
    """Take a step back, the last one of a person unless `batch` names another; returns how many
    memories it was about.
    """
    batch = batch or library.store.remembered.last_batch(not_by=HOOK)
    if not batch:
        return 0
    uncurated = library.settings.memory.uncurated
    count = library.store.memories.undo(batch, word, lambda state: name_of(state, uncurated), actor)
    library.follow()
    return count
