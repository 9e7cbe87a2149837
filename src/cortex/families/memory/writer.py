"""Writing memories: what is refused, what is known already, and what is kept; with what it takes
the place of, in one step.

A secret is refused whoever brings it. What says the same as another memory, in whichever scope, is
not written again: a person who adds it approves that one. What nobody typed (hooks, importers) is
moreover refused where it only says again what was served before, or what an instruction file says
anyway.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from cortex.base.errors import InputError
from cortex.base.secret_scanner import find_leaks, redact
from cortex.base.text import rfc3339
from cortex.base.types import Citation, Memory, MemoryState, Mode, Query
from cortex.engine.library import Library
from cortex.engine.store import OWN, SHOWN, STAGED, MemoryVerdict, NewMemory, Remembered
from cortex.families.memory.databases import databases
from cortex.families.memory.dedup import (
    ALIKE,
    fingerprint,
    is_recalled,
    likeness,
    parts_of,
    restates,
)
from cortex.families.memory.file_import import Brought
from cortex.families.memory.index_text import text_of, word
from cortex.families.memory.states import name_of
from cortex.plugins.policy import policy_of

# Characters, characters of all, facts or concepts or files
MAX_TITLE, MAX_TEXT, MAX_PARTS = 300, 50_000, 200
SIMILAR_DEPTH = 10  # memories that are compared word by word
SIMILAR_CHARACTERS = 2_000  # of a memory that they are looked for by
BATCH = 500
PERSON, HOOK, IMPORT = "person", "hook", "import"  # who brings a memory
_OWN_KEY = re.compile(r"mem_[0-9a-f]{10}")


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of a memory: where `created` is false, it is another one, or none."""

    key: str
    created: bool
    state: MemoryState | None = None
    duplicate_of: Remembered | None = None
    similar_to: tuple[Remembered, ...] = ()
    refused: str = ""  # why it isn't kept, of what nobody typed


@dataclass(frozen=True, slots=True)
class Taken:
    """What an import brought."""

    added: tuple[str, ...]
    duplicates: int
    refused: tuple[tuple[str, str], ...]  # title, why


def add(
    library: Library,
    memory: Memory,
    *,
    state: MemoryState = MemoryState.APPROVED,
    scope: str = "",
    actor: str = PERSON,
    supersedes: Sequence[Remembered] = (),
    citations: Sequence[Citation] = (),
    instructions: str = "",
) -> WriteResult:
    """Keep a memory, found from now on; what it supersedes is so in the same step.

    Raises: InputError MEMORY_REFUSED, where it says nothing, too much, or a secret.
    """
    memory = screened(library, checked(memory))
    gone = {supersede.ref for supersede in supersedes}
    known = [one for one in that_say(library, fingerprint(memory)) if one.ref not in gone]
    if known:
        return _known_already(library, known[0], state, actor, supersedes)
    similar = similar_to(library, memory)
    if actor != PERSON and (refused := _said_anyway(memory, similar, instructions)):
        return refused
    new = _new(library, memory, state, scope, citations)
    verdicts = [
        MemoryVerdict(one.ref, MemoryState.SUPERSEDED, None, new.memory.key) for one in supersedes
    ]
    if not library.store.memories.add([new], word, actor=actor, supersedes=verdicts).keys:
        return add(  # another process wrote the same since: now it is known
            library,
            memory,
            state=state,
            scope=scope,
            actor=actor,
            supersedes=supersedes,
            citations=citations,
            instructions=instructions,
        )
    library.follow()
    alike = tuple(
        one for one in similar if likeness(memory, one.memory) >= ALIKE and one not in supersedes
    )
    return WriteResult(new.memory.key, True, state, similar_to=alike)


def _said_anyway(
    memory: Memory, similar: Sequence[Remembered], instructions: str
) -> WriteResult | None:
    """Why what nobody typed isn't kept, None where it is."""
    parts = {part for one in similar for part in parts_of(one.memory)}
    if similar and is_recalled(memory, lambda asked: parts & set(asked)):
        return WriteResult(
            "", False, duplicate_of=similar[0], refused="it says again what is remembered already"
        )
    if instructions and restates(memory, instructions):
        return WriteResult("", False, refused="it only says what an instruction file says")
    return None


def add_all(
    library: Library,
    brought: Iterable[Brought],
    *,
    state: MemoryState = MemoryState.STAGING,
    scope: str = "",
    actor: str = IMPORT,
    dry: bool = False,
) -> Taken:
    """Keep many, in their order and in one step; what can't be kept, or is known, is counted and
    told.

    `state` and `scope` are for those that say none; an id of ours is kept where no other memory has
    it. With `dry` nothing is written. The indexes follow at the end.
    """
    added: list[str] = []
    refused: list[tuple[str, str]] = []
    count, step = 0, 0
    found = _worth_keeping(library, brought, state, scope, refused)
    while some := list(islice(found, BATCH)):
        new = [one for one in some if one is not None]
        count += len(some)
        keys = tuple(one.memory.key for one in new)
        if new and not dry:
            written = library.store.memories.add(new, word, actor=actor, batch=step)
            step, keys = written.batch, written.keys
        added += keys
    if step:
        library.follow()
    return Taken(tuple(added), count - len(added), tuple(refused))


def _worth_keeping(
    library: Library,
    brought: Iterable[Brought],
    state: MemoryState,
    scope: str,
    refused: list[tuple[str, str]],
) -> Iterator[NewMemory | None]:
    """Each memory as it would be kept, None for one that is known; what can't be kept is added to
    `refused`.
    """
    seen, used = set[bytes](), set[str]()
    for one in brought:
        try:
            memory = screened(library, checked(one.memory))
        except InputError as error:
            refused.append((redact(one.memory.title)[0], error.message))
            continue
        said = fingerprint(memory)
        if said in seen or that_say(library, said):
            yield None
            continue
        seen.add(said)
        new = _new(library, memory, one.state or state, one.scope or scope, one.citations)
        new = _as_before(library, new, one, used)
        used.add(new.memory.key)
        yield new


def similar_to(library: Library, memory: Memory) -> list[Remembered]:
    """The memories that are most like this one by words, wherever they are, the likest first."""
    origins = {OWN, *(database.origin for database in databases(library.settings))}
    sources = library.store.remembered.sources(origins, (SHOWN, STAGED))
    if not sources:
        return []
    asked = Query(
        text_of(memory)[:SIMILAR_CHARACTERS], mode=Mode.WORDS, limit=SIMILAR_DEPTH, snippets=(0,)
    )
    docs = list(dict.fromkeys(hit.doc for hit in library.search(asked, sources=sources).hits))
    found = library.store.remembered.by_docs(docs)
    return sorted(
        (found[doc] for doc in docs if doc in found), key=lambda one: -likeness(memory, one.memory)
    )


def checked(memory: Memory) -> Memory:
    """The memory as it can be kept. Raises: InputError MEMORY_REFUSED."""
    title = " ".join(memory.title.split())
    memory = replace(memory, title=title)
    if not title:
        raise _refusal("a memory needs a title")
    if len(title) > MAX_TITLE:
        raise _refusal(
            f"a title has at most {MAX_TITLE} characters, this one has {len(title)}; say the rest as text or facts"
        )
    if max(len(memory.facts), len(memory.concepts), len(memory.files)) > MAX_PARTS:
        raise _refusal(f"a memory has at most {MAX_PARTS} facts, concepts and files each")
    whole = "\n".join(
        (title, memory.subtitle, *memory.facts, *memory.concepts, *memory.files, memory.text)
    )
    if len(whole) > MAX_TEXT:
        raise _refusal(
            f"a memory has at most {MAX_TEXT:,} characters, this one has {len(whole):,}; cut it, or keep it as a document"
        )
    if "\0" in whole or any("\ud800" <= character <= "\udfff" for character in whole):
        raise _refusal("a memory is text: this one holds characters that aren't")
    leaks = sorted({leak.name for leak in find_leaks(f"{whole}\n{memory.project}\n{memory.kind}")})
    if leaks:
        raise _refusal(
            f"it holds a secret ({', '.join(leaks)}); say where the secret is kept instead"
        )
    return memory


def screened(library: Library, memory: Memory) -> Memory:
    """The memory as plugins let it be written.

    Raises: InputError SENSITIVE_BLOCKED; ConfigError PLUGIN_UNUSABLE.
    """
    policy = policy_of(library)
    if policy is None:
        return memory

    def of(name: str, text: str) -> str:
        return policy.screened(text, name) if text.strip() else text

    texts = {name: of(name, getattr(memory, name)) for name in ("title", "subtitle", "text")}
    lists = {
        name: tuple(of(name, text) for text in getattr(memory, name))
        for name in ("facts", "concepts")
    }
    return checked(replace(memory, **texts, **lists))


def _refusal(why: str) -> InputError:
    return InputError("MEMORY_REFUSED", f"this memory is not kept: {why}")


def that_say(library: Library, asked: bytes) -> list[Remembered]:
    """Those with this fingerprint, what is still believed first; not the copies of a database that
    is gone.
    """
    known = library.store.remembered.by_fingerprint(asked)
    origins = (
        {OWN, *(database.origin for database in databases(library.settings))} if known else set()
    )
    there = [one for one in known if one.origin in origins]
    return sorted(
        there, key=lambda one: one.state in (MemoryState.REJECTED, MemoryState.SUPERSEDED)
    )


def _known_already(
    library: Library,
    known: Remembered,
    state: MemoryState,
    actor: str,
    supersedes: Sequence[Remembered],
) -> WriteResult:
    """What a person says again counts as they say it; of whatever else it is only told that it is
    there.
    """
    uncurated = library.settings.memory.uncurated
    if actor == PERSON and (known.state is not state or supersedes):
        verdicts = (
            [MemoryVerdict(known.ref, state, name_of(state, uncurated))]
            if known.state is not state
            else []
        )
        others = [supersede for supersede in supersedes if supersede.ref != known.ref]
        verdicts += [
            MemoryVerdict(other.ref, MemoryState.SUPERSEDED, None, known.memory.key)
            for other in others
        ]
        if verdicts:
            library.store.memories.decide(
                verdicts, word, action="add", actor=actor, reason="added again"
            )
            library.follow()
        return WriteResult(known.memory.key, False, state, duplicate_of=known)
    return WriteResult(known.memory.key, False, known.state, duplicate_of=known)


def _new(
    library: Library, memory: Memory, state: MemoryState, scope: str, citations: Sequence[Citation]
) -> NewMemory:
    created = memory.created or int(time.time() * 1000)
    kept = replace(
        memory,
        key=_free_key(library),
        created=created,
        date=memory.date or rfc3339(created / 1000)[:10],
    )
    return NewMemory(
        kept,
        name_of(state, library.settings.memory.uncurated),
        state,
        scope=scope or kept.project,
        fingerprint=fingerprint(memory),
        citations=tuple(citations),
    )


def _as_before(library: Library, new: NewMemory, one: Brought, used: set[str]) -> NewMemory:
    """The memory under the id that an export of ours gave it, so that what names it still does,
    unless another one has it.
    """
    key = one.memory.key
    if _OWN_KEY.fullmatch(key) and key not in used and not library.store.remembered.by_key(key):
        new = replace(new, memory=replace(new.memory, key=key))
    names = new.state is MemoryState.SUPERSEDED and _OWN_KEY.fullmatch(one.successor)
    return replace(new, successor=one.successor) if names else new


def _free_key(library: Library) -> str:
    while True:
        key = f"mem_{secrets.token_hex(5)}"
        if not library.store.remembered.by_key(key):
            return key
