"""Write memories: validate, deduplicate, store and supersede them in one transaction.

A memory that holds a secret is refused from every caller. A memory with the same text as an
existing one, in any scope, is not written again: when a person adds it, the existing one gets the
new state instead. Memories from hooks and importers are also refused if they only repeat a memory
that an agent was shown, or an instruction file.
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
from cortex.engine.store import SHOWN, STAGED, NewMemory, Remembered
from cortex.families.memory.databases import databases, origins_of
from cortex.families.memory.dedup import (
    ALIKE,
    fingerprint,
    is_recalled,
    likeness,
    parts_of,
    restates,
)
from cortex.families.memory.fields import LISTS, SCREENED, WRITTEN, map_texts, texts_of
from cortex.families.memory.file_import import ImportedMemory
from cortex.families.memory.index_text import text_of, word
from cortex.families.memory.states import name_of, supersessions, verdict_of
from cortex.plugins.policy import policy_of

# Most characters of the title and in total, and most facts, concepts and files each.
MAX_TITLE, MAX_TEXT, MAX_PARTS = 300, 50_000, 200
# Memories that are compared word by word.
SIMILAR_DEPTH = 10
# Characters of a memory that are used as the query for similar ones.
SIMILAR_CHARACTERS = 2_000
BATCH = 500
# Actors: the origin of a new memory.
PERSON, HOOK, IMPORT = "person", "hook", "import"
_OWN_KEY = re.compile(r"mem_[0-9a-f]{10}")


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Outcome of a write. Without `created`, `key` is that of an existing memory, or empty."""

    key: str
    created: bool
    state: MemoryState | None = None
    duplicate_of: Remembered | None = None
    similar_to: tuple[Remembered, ...] = ()
    # Reason for not keeping a memory that came from a hook or an importer.
    refused: str = ""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Outcome of an import."""

    added: tuple[str, ...]
    duplicates: int
    # Pairs of title and reason.
    refused: tuple[tuple[str, str], ...]


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
    """Store a memory and mark what it supersedes, in one transaction.

    The memory can be found as soon as this returns.

    Raises: InputError MEMORY_REFUSED for an empty or too long memory, or one that holds a secret.
    """
    memory = screened(library, checked(memory))
    new = _new(library, memory, state, scope, citations)
    verdicts = supersessions(supersedes, new.memory.key)
    replaced = {record.ref for record in supersedes}
    # Repeated only if another process has written the same memory meanwhile: then it is found.
    while True:
        for known in find_by_fingerprint(library, new.fingerprint):
            if known.ref not in replaced:
                return _update_known(library, known, state, actor, supersedes)
        similar = similar_to(library, memory)
        if actor != PERSON and (refused := _refuse_repetition(memory, similar, instructions)):
            return refused
        if library.store.memories.add([new], word, actor=actor, supersedes=verdicts).keys:
            library.follow()
            others = [record for record in similar if record not in supersedes]
            alike = [record for record in others if likeness(memory, record.memory) >= ALIKE]
            return WriteResult(new.memory.key, True, state, similar_to=tuple(alike))


def _refuse_repetition(
    memory: Memory, similar: Sequence[Remembered], instructions: str
) -> WriteResult | None:
    """Refuse an automatic memory that only repeats known text; None if it is to be kept."""
    parts = {part for record in similar for part in parts_of(record.memory)}
    if similar and is_recalled(memory, lambda fingerprints: parts & set(fingerprints)):
        return WriteResult(
            "", False, duplicate_of=similar[0], refused="it only repeats existing memories"
        )
    if instructions and restates(memory, instructions):
        return WriteResult("", False, refused="it only repeats an instruction file")
    return None


def add_all(
    library: Library,
    brought: Iterable[ImportedMemory],
    *,
    state: MemoryState = MemoryState.STAGING,
    scope: str = "",
    actor: str = IMPORT,
    dry: bool = False,
) -> ImportResult:
    """Store many memories in order and as one batch; duplicates and refused ones are counted.

    `state` and `scope` apply to memories that have none. A Cortex id is kept unless another memory
    has it. With `dry` nothing is written. The indexes are updated at the end.
    """
    added: list[str] = []
    refused: list[tuple[str, str]] = []
    count, step = 0, 0
    candidates = _new_memories(library, brought, state, scope, refused)
    while chunk := list(islice(candidates, BATCH)):
        new = [candidate for candidate in chunk if candidate is not None]
        count += len(chunk)
        keys = tuple(candidate.memory.key for candidate in new)
        if new and not dry:
            written = library.store.memories.add(new, word, actor=actor, batch=step)
            step, keys = written.batch, written.keys
        added += keys
    if step:
        library.follow()
    return ImportResult(tuple(added), count - len(added), tuple(refused))


def _new_memories(
    library: Library,
    brought: Iterable[ImportedMemory],
    state: MemoryState,
    scope: str,
    refused: list[tuple[str, str]],
) -> Iterator[NewMemory | None]:
    """Yield each memory as it would be stored, None for a known one.

    Memories that can't be kept are appended to `refused`.
    """
    seen, used = set[bytes](), set[str]()
    for imported in brought:
        try:
            memory = screened(library, checked(imported.memory))
        except InputError as error:
            refused.append((redact(imported.memory.title)[0], error.message))
            continue
        content = fingerprint(memory)
        if content in seen or find_by_fingerprint(library, content):
            yield None
            continue
        seen.add(content)
        new = _new(
            library, memory, imported.state or state, imported.scope or scope, imported.citations
        )
        new = _with_exported_key(library, new, imported, used)
        used.add(new.memory.key)
        yield new


def similar_to(library: Library, memory: Memory) -> list[Remembered]:
    """Find the memories most similar to this one by lexical search, most similar first."""
    origins = origins_of(databases(library.settings))
    sources = library.store.memories.sources(origins, (SHOWN, STAGED))
    if not sources:
        return []
    query = Query(
        text_of(memory)[:SIMILAR_CHARACTERS], mode=Mode.WORDS, limit=SIMILAR_DEPTH, snippets=(0,)
    )
    docs = list(dict.fromkeys(hit.doc for hit in library.search(query, sources=sources).hits))
    by_doc = library.store.memories.by_docs(docs)
    return sorted(
        (by_doc[doc] for doc in docs if doc in by_doc),
        key=lambda record: -likeness(memory, record.memory),
    )


def checked(memory: Memory) -> Memory:
    """Validate and normalise a memory. Raises: InputError MEMORY_REFUSED."""
    title = " ".join(memory.title.split())
    memory = replace(memory, title=title)
    if not title:
        raise refusal("a memory needs a title")
    if len(title) > MAX_TITLE:
        raise refusal(
            f"a title has at most {MAX_TITLE} characters, this one has {len(title)}; say the "
            "rest as text or facts"
        )
    if any(len(getattr(memory, name)) > MAX_PARTS for name in LISTS):
        raise refusal(f"a memory has at most {MAX_PARTS} facts, concepts and files each")
    whole = "\n".join(texts_of(memory, WRITTEN))
    if len(whole) > MAX_TEXT:
        raise refusal(
            f"a memory has at most {MAX_TEXT:,} characters, this one has {len(whole):,}; cut "
            "it, or keep it as a document"
        )
    if "\0" in whole or any("\ud800" <= character <= "\udfff" for character in whole):
        raise refusal("it has characters that aren't valid text (NUL or lone surrogates)")
    leaks = sorted({leak.name for leak in find_leaks(f"{whole}\n{memory.project}\n{memory.kind}")})
    if leaks:
        raise refusal(
            f"it holds a secret ({', '.join(leaks)}); say where the secret is kept instead"
        )
    return memory


def screened(library: Library, memory: Memory) -> Memory:
    """Apply the write policy of the plugins to a memory.

    Raises: InputError SENSITIVE_BLOCKED; ConfigError PLUGIN_UNUSABLE.
    """
    policy = policy_of(library)
    if policy is None:
        return memory

    def screen(name: str, text: str) -> str:
        return policy.screened(text, name) if text.strip() else text

    return checked(map_texts(memory, SCREENED, screen))


def refusal(why: str) -> InputError:
    """Error for a memory that can't be kept."""
    return InputError("MEMORY_REFUSED", f"this memory is not kept: {why}")


def find_by_fingerprint(library: Library, content: bytes) -> list[Remembered]:
    """Find the memories with this fingerprint, valid ones first.

    Copies from a database that no longer exists are left out.
    """
    known = library.store.memories.by_fingerprint(content)
    origins = origins_of(databases(library.settings)) if known else set()
    present = [record for record in known if record.origin in origins]
    return sorted(
        present, key=lambda record: record.state in (MemoryState.REJECTED, MemoryState.SUPERSEDED)
    )


def _update_known(
    library: Library,
    known: Remembered,
    state: MemoryState,
    actor: str,
    supersedes: Sequence[Remembered],
) -> WriteResult:
    """Apply a person's new state to an existing memory; for other actors only report it."""
    if actor != PERSON:
        return WriteResult(known.memory.key, False, known.state, duplicate_of=known)
    verdicts = [verdict_of(library, known, state)] if known.state is not state else []
    others = [replaced for replaced in supersedes if replaced.ref != known.ref]
    verdicts += supersessions(others, known.memory.key)
    if verdicts:
        library.store.memories.decide(
            verdicts, word, action="add", actor=actor, reason="added again"
        )
        library.follow()
    return WriteResult(known.memory.key, False, state, duplicate_of=known)


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


def _with_exported_key(
    library: Library, new: NewMemory, imported: ImportedMemory, used: set[str]
) -> NewMemory:
    """Keep the id from a Cortex export, so that references stay valid, unless it is taken."""
    key = imported.memory.key
    if _OWN_KEY.fullmatch(key) and key not in used and not library.store.memories.by_key(key):
        new = replace(new, memory=replace(new.memory, key=key))
    has_successor = new.state is MemoryState.SUPERSEDED and _OWN_KEY.fullmatch(imported.successor)
    return replace(new, successor=imported.successor) if has_successor else new


def _free_key(library: Library) -> str:
    while True:
        key = f"mem_{secrets.token_hex(5)}"
        if not library.store.memories.by_key(key):
            return key
