"""Memory filters: by any index the same memories as a full scan, newest first."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from cortex.base.types import Memory, MemoryState
from cortex.engine.store import MemoryFilter, Mirror, NewMemory, Remembered, Store
from cortex.engine.store.memories import filters as wants
from cortex.engine.store.memories import queries as lookups
from cortex.families.memory.index_text import word
from cortex.families.memory.states import name_of

OTHER = "/other/claude-mem.db"
PROJECTS = ("shop", "Shop", "site", "")
TAGS = ("gotcha", "Auth", "auth", "rare")
KINDS = ("decision", "Decision", "bugfix")
STATES = (*MemoryState, None)


def name(state: MemoryState | None) -> str | None:
    return name_of(state, "approved")


@pytest.fixture(scope="module")
def store():
    """A hundred similar memories of two origins."""
    draw, made = random.Random(7), Store(None)

    def new(number: int, origin: str) -> NewMemory:
        memory = Memory(
            f"{(origin and 'obs') or 'mem'}_{number}",
            f"Title {number}",
            concepts=tuple(tag for tag in TAGS if draw.random() < (0.1 if tag == "rare" else 0.4)),
            project=draw.choice(PROJECTS),
            created=draw.randrange(20),
            kind=draw.choice(KINDS),
        )
        state = draw.choice(STATES)
        return NewMemory(
            memory,
            name(state),
            state,
            scope=draw.choice(("shop", "dev", memory.project)),
            fingerprint=memory.key.encode(),
            origin=origin,
            number=number,
            other_project=draw.choice(("", "", "Site")),
        )

    made.memories.add([new(number, "") for number in range(50)], word, actor="person")
    made.memories.copy(
        Mirror(OTHER), [new(number, OTHER) for number in range(50, 0, -1)], [], word, name
    )
    yield made
    made.close()


def fits(remembered: Remembered, wanted: MemoryFilter) -> bool:
    """The filter as a plain condition."""
    memory, promoted = (
        remembered.memory,
        wanted.promoted and remembered.state is MemoryState.PROMOTED,
    )
    names = {memory.project.lower(), remembered.other_project.lower()}
    return all(
        (
            wanted.sources is None or remembered.source in wanted.sources,
            wanted.origins is None or remembered.origin in wanted.origins,
            not wanted.states
            or (remembered.state.value if remembered.state else "") in wanted.states,
            not wanted.projects or promoted or _is_of(remembered, wanted.projects),
            not wanted.scope
            or promoted
            or wanted.scope.lower() in (remembered.scope.lower(), memory.project.lower()),
            {tag.lower() for tag in wanted.tags}
            <= {concept.lower() for concept in memory.concepts},
            not wanted.kind or wanted.kind.lower() == memory.kind.lower(),
            not names & {name.lower() for name in wanted.not_projects},
            not wanted.before or memory.created < wanted.before,
        )
    )


def _is_of(remembered: Remembered, projects: tuple[str, ...]) -> bool:
    known = {name.lower() for name in projects}
    return remembered.memory.project.lower() in known or (
        bool(remembered.other_project) and remembered.other_project.lower() in known
    )


def several(*values: str) -> some.SearchStrategy[tuple[str, ...]]:
    return some.lists(some.sampled_from(values), max_size=2, unique=True).map(tuple)


wishes = some.builds(
    MemoryFilter,
    sources=some.none() | some.lists(some.integers(1, 5), max_size=4, unique=True).map(tuple),
    origins=some.none() | several("", OTHER, "/nowhere"),
    states=several("approved", "promoted", "staging", ""),
    projects=several("SHOP", "site", "nothing"),
    scope=some.sampled_from(("", "", "Dev", "shop")),
    tags=several("GOTCHA", "auth", "rare", "unknown"),
    kind=some.sampled_from(("", "", "decision")),
    not_projects=several("shop", "SITE", "nothing"),
    promoted=some.booleans(),
    before=some.sampled_from((0, 0, 10)),
)


@pytest.mark.parametrize(("few", "ways"), [(5_000, 200), (5, 200), (5, 2)])
def test_indexed_memory_filter_equals_a_full_scan(store, few, ways, monkeypatch):
    monkeypatch.setattr(lookups, "FEW", few)
    monkeypatch.setattr(wants, "MAX_WAYS", ways)
    every = store.memories.select(MemoryFilter())
    assert len(every) == 100
    docs = {
        remembered.ref: doc for doc, remembered in store.memories.by_docs(range(1, 500)).items()
    }

    @settings(max_examples=150, deadline=None)
    @given(wishes, some.integers(0, 12), some.integers(0, 12))
    def agree(wanted: MemoryFilter, limit: int, offset: int) -> None:
        expected = [remembered.ref for remembered in every if fits(remembered, wanted)]
        assert [remembered.ref for remembered in store.memories.select(wanted)] == expected
        assert [
            remembered.ref for remembered in store.memories.select(wanted, limit, offset)
        ] == expected[offset : offset + limit]
        assert store.memories.count(wanted) == len(expected)
        assert store.memories.docs(wanted) == {docs[ref] for ref in expected if ref in docs}

    agree()


def test_hundreds_of_memory_sources_are_filtered_together(store):
    """As with a database for each of hundreds of scopes."""
    every = store.memories.select(MemoryFilter())
    wanted = MemoryFilter(sources=tuple(range(1, 500)), projects=("shop", "site", "nothing"))
    assert [remembered.ref for remembered in store.memories.select(wanted, 1000)] == [
        remembered.ref for remembered in every if fits(remembered, wanted)
    ]


def test_memories_of_one_moment_are_ordered_by_row_number(store):
    every = store.memories.select(MemoryFilter(origins=(OTHER,)))
    assert [(remembered.memory.created, remembered.number) for remembered in every] == sorted(
        ((remembered.memory.created, remembered.number) for remembered in every), reverse=True
    )


def test_memory_scopes_are_counted_over_all_sources_of_an_origin(store):
    sources = [source.id for source in store.memories.sources(("", OTHER), ("shown", "staging"))]
    counted = {
        (scope.scope.lower(), scope.origin): scope.count for scope in store.memories.scopes(sources)
    }
    expected: dict[tuple[str, str], int] = {}
    for remembered in store.memories.select(MemoryFilter(sources=tuple(sources))):
        key = (remembered.scope.lower(), remembered.origin)
        expected[key] = expected.get(key, 0) + 1
    assert counted == expected


def test_cached_memory_filter_answer_is_dropped_after_a_write(store):
    before = store.memories.count(MemoryFilter())
    memory = Memory("mem_new", "Something new", project="shop", created=1)
    new = NewMemory(memory, "shown", MemoryState.APPROVED, scope="shop", fingerprint=b"new")
    store.memories.add([new], word, actor="person")
    assert store.memories.count(MemoryFilter()) == before + 1
    store.memories.delete([("", "mem_new")], "person")
    assert store.memories.count(MemoryFilter()) == before
