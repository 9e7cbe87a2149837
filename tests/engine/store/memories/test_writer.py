"""Memory steps: whole or not at all; states decide where a memory is found."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import CortexError
from cortex.base.types import Citation, Memory, MemoryState
from cortex.engine.store import (
    OWN,
    SHOWN,
    STAGED,
    MemoryFilter,
    MemoryVerdict,
    Mirror,
    NewMemory,
    Remembered,
    Store,
    schema,
)
from cortex.families.memory.dedup import fingerprint
from cortex.families.memory.index_text import word
from cortex.families.memory.states import name_of

STATES = list(MemoryState)
FOREIGN = "/elsewhere/claude-mem.db"
CITED = Citation("/work/shop", "src/cart.py", "Cart.total", b"file", b"body", "abc")


def name(state: MemoryState | None) -> str | None:
    return name_of(state, "approved")


def new(
    key: str, title: str = "", state: MemoryState | None = MemoryState.APPROVED, **more
) -> NewMemory:
    """A memory to add; other fields than its own are those of the memory."""
    own = {
        part: more.pop(part)
        for part in ("scope", "origin", "number", "other_project", "citations")
        if part in more
    }
    memory = Memory(
        key, title or f"Title of {key}", **{"project": "shop", "created": 1_000, **more}
    )
    rest = {"scope": memory.project, **own}
    return NewMemory(
        memory, name(state), state, fingerprint=fingerprint(memory), signature=b"s", **rest
    )


class MemoryStore:
    """A store with the decisions of one person."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def add(self, *ones: NewMemory, actor: str = "person", supersedes=()) -> int:
        return self.store.memories.add(ones, word, actor=actor, supersedes=supersedes).batch

    def copy(self, *ones: NewMemory, gone=()) -> None:
        self.store.memories.copy(
            Mirror(FOREIGN), [replace(memory, origin=FOREIGN) for memory in ones], gone, word, name
        )

    def judge(self, key: str, state: MemoryState | None, origin: str = OWN, **more) -> int:
        verdict = MemoryVerdict((origin, key), state, name(state), **more)
        return self.store.memories.decide(
            [verdict], word, action="judge", actor="person", reason="because"
        )

    def edit(self, key: str, memory: Memory, **more) -> int:
        remembered = self.get(key)
        return self.judge(
            key,
            remembered.state,
            memory=replace(memory, key=key),
            fingerprint=fingerprint(memory),
            **more,
        )

    def undo(self, batch: int) -> int:
        return self.store.memories.undo(batch, word, name, "person")

    def delete(self, *keys: str, origin: str = OWN) -> int:
        return self.store.memories.delete([(origin, key) for key in keys], "person")

    def get(self, key: str, origin: str = OWN) -> Remembered:
        (remembered,) = self.store.memories.by_key(key, {origin})
        return remembered

    def keys(self, **wanted) -> list[str]:
        return [
            remembered.memory.key
            for remembered in self.store.memories.select(MemoryFilter(**wanted))
        ]

    def found(self, key: str, origin: str = OWN) -> str | None:
        """The name of the source that a memory has a doc in."""
        sources = self.store.memories.sources({origin}, (SHOWN, STAGED))
        names = [
            source.name
            for source in sources
            if key in {doc.path for doc in self.store.content.docs(source.id)}
        ]
        assert len(names) <= 1
        return names[0] if names else None

    def everything(self) -> list[tuple]:
        """All rows that a step writes."""
        tables = (
            "memories",
            "docs",
            "blobs",
            "concepts",
            "citations",
            "judgements",
            "decisions",
            "forgotten",
            "gone",
            "meta",
        )
        with self.store._connections.read() as connection:
            return [
                (table, *row)
                for table in tables
                for row in connection.execute(f"SELECT * FROM {table}")
            ]


@pytest.fixture
def memory_store(open_store: Callable[..., Store]) -> MemoryStore:
    return MemoryStore(open_store())


# -- steps
# -------------------------------------------------------------------------------------------------------------


def fail_at(title: str):
    def wording(memory: Memory):
        if memory.title == title:
            raise RuntimeError("in the middle")
        return word(memory)

    return wording


def test_failed_add_is_rolled_back(memory_store):
    memory_store.add(new("a"))
    before = memory_store.everything()
    gone = MemoryVerdict((OWN, "a"), MemoryState.SUPERSEDED, None, "b")
    with pytest.raises(RuntimeError):
        memory_store.store.memories.add(
            [new("b"), new("c", "bad")], fail_at("bad"), actor="person", supersedes=[gone]
        )
    assert memory_store.everything() == before


def test_failed_decision_is_rolled_back(memory_store):
    memory_store.add(
        new("a", state=MemoryState.STAGING), new("b", "bad", state=MemoryState.STAGING)
    )
    before = memory_store.everything()
    verdicts = [MemoryVerdict((OWN, key), MemoryState.APPROVED, SHOWN) for key in "ab"]
    with pytest.raises(RuntimeError):
        memory_store.store.memories.decide(
            verdicts, fail_at("bad"), action="approve", actor="person", reason=""
        )
    assert memory_store.everything() == before


def test_failed_copy_is_rolled_back_with_its_watermark(memory_store):
    memory_store.copy(new("a"))
    before = memory_store.everything(), memory_store.store.memories.mirrors()
    ones = [
        replace(new(key, title), origin=FOREIGN) for key, title in (("b", "fine"), ("c", "bad"))
    ]
    with pytest.raises(RuntimeError):
        memory_store.store.memories.copy(Mirror(FOREIGN, high=7), ones, ["a"], fail_at("bad"), name)
    assert (memory_store.everything(), memory_store.store.memories.mirrors()) == before


def test_failed_undo_is_rolled_back(memory_store):
    memory_store.add(new("a", "bad"), new("b"))
    step = memory_store.store.memories.decide(
        [MemoryVerdict((OWN, key), MemoryState.REJECTED, None) for key in "ab"],
        word,
        action="reject",
        actor="p",
        reason="",
    )
    before = memory_store.everything()
    with pytest.raises(RuntimeError):
        memory_store.store.memories.undo(step, fail_at("bad"), name, "person")
    assert memory_store.everything() == before


def test_memory_and_the_one_it_supersedes_are_one_step(memory_store):
    memory_store.add(new("a"))
    step = memory_store.add(
        new("b"), supersedes=[MemoryVerdict((OWN, "a"), MemoryState.SUPERSEDED, None, "b")]
    )
    assert (
        memory_store.get("a").state is MemoryState.SUPERSEDED
        and memory_store.get("a").judgement.successor == "b"
    )
    assert {decision.batch for decision in memory_store.store.memories.decisions(2)} == {step}
    assert memory_store.undo(step) == 2
    assert (memory_store.get("a").state, memory_store.get("b").state) == (
        MemoryState.APPROVED,
        MemoryState.REJECTED,
    )


# -- states
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("before", STATES)
def test_state_of_a_memory_decides_where_it_is_found(memory_store, before, state):
    memory_store.add(new("a", state=before))
    assert memory_store.found("a") == name(before)
    memory_store.judge("a", state)
    assert memory_store.found("a") == name(state)
    assert (
        memory_store.get("a").state,
        memory_store.get("a").judgement.state,
        memory_store.get("a").judgement.actor,
    ) == (state, state, "person")
    assert (memory_store.get("a").source is None) == (name(state) is None)


def test_memory_without_a_doc_is_not_in_the_lexical_index(memory_store):
    memory_store.add(new("a", "Zebras count coins"))
    memory_store.store.indexes.catch_up()
    assert len(memory_store.store.indexes.words()) == 1
    memory_store.judge("a", MemoryState.REJECTED)
    memory_store.store.indexes.catch_up()
    assert len(memory_store.store.indexes.words()) == 0
    assert memory_store.get("a").memory.title == "Zebras count coins"


def test_edit_changes_the_wording_and_the_search_hits(memory_store):
    memory_store.add(new("a", "Old words", concepts=("old",), citations=(CITED,)))
    memory_store.edit(
        "a", Memory("", "New words", concepts=("new",), project="site", created=1_000)
    )
    remembered = memory_store.get("a")
    assert (
        remembered.memory.title,
        remembered.scope,
        memory_store.keys(tags=("old",)),
        memory_store.keys(tags=("NEW",)),
    ) == ("New words", "site", [], ["a"])
    assert memory_store.store.memories.citations(remembered.id) == (CITED,)
    (doc,) = memory_store.store.content.docs(remembered.source)
    assert memory_store.store.content.text(doc.blob).startswith("# New words")


def test_log_has_every_decision_with_actor_and_reason(memory_store):
    memory_store.add(new("a", state=MemoryState.STAGING), actor="import")
    memory_store.judge("a", MemoryState.APPROVED)
    told = [
        (decision.action, decision.before, decision.after, decision.actor, decision.reason)
        for decision in memory_store.store.memories.decisions(9, (OWN, "a"))
    ]
    assert told == [
        ("judge", "staging", "approved", "person", "because"),
        ("add", "", "staging", "import", ""),
    ]


# -- undo
# -------------------------------------------------------------------------------------------------------


def exact(memory_store: MemoryStore, key: str, origin: str = OWN) -> tuple:
    """The whole state of a memory but its place in the store."""
    remembered = memory_store.get(key, origin)
    return (
        replace(remembered, source=None),
        memory_store.found(key, origin),
        memory_store.store.memories.citations(remembered.id),
    )


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("before", STATES)
def test_undone_judgement_restores_the_exact_earlier_state(memory_store, before, state):
    memory_store.add(new("a", state=before, citations=(CITED,)), actor="import")
    known = exact(memory_store, "a")
    assert memory_store.undo(memory_store.judge("a", state, successor="b")) == 1
    assert exact(memory_store, "a") == known


def test_undone_edit_restores_the_earlier_wording_and_citations(memory_store):
    memory_store.add(
        new(
            "a",
            "Old",
            facts=("one", "two"),
            concepts=("c",),
            files=("f",),
            scope="dev",
            citations=(CITED,),
        )
    )
    known = exact(memory_store, "a")
    step = memory_store.edit(
        "a",
        Memory("", "New", project="dev", created=2),
        citations=(replace(CITED, path="other.py"),),
    )
    assert exact(memory_store, "a") != known
    memory_store.undo(step)
    assert exact(memory_store, "a") == known


def test_undone_add_is_rejected_and_not_lost(memory_store):
    memory_store.undo(memory_store.add(new("a")))
    assert (memory_store.get("a").state, memory_store.found("a")) == (MemoryState.REJECTED, None)


def test_undone_second_add_restores_the_first(memory_store):
    memory_store.add(new("a", state=MemoryState.STAGING), actor="import")
    known = exact(memory_store, "a")
    verdict = MemoryVerdict((OWN, "a"), MemoryState.APPROVED, SHOWN)
    step = memory_store.store.memories.decide(
        [verdict], word, action="add", actor="person", reason="added again"
    )
    memory_store.undo(step)
    assert exact(memory_store, "a") == known


@pytest.mark.parametrize("own", [None, MemoryState.APPROVED, MemoryState.STAGING])
def test_undone_first_judgement_leaves_a_foreign_row_unjudged(memory_store, own):
    memory_store.copy(new("obs_1", state=own))
    known = exact(memory_store, "obs_1", FOREIGN)
    memory_store.undo(memory_store.judge("obs_1", MemoryState.REJECTED, FOREIGN))
    assert exact(memory_store, "obs_1", FOREIGN) == known
    assert memory_store.get("obs_1", FOREIGN).judgement is None


def test_second_undo_takes_back_the_step_before(memory_store):
    first = memory_store.add(new("a"))
    second = memory_store.judge("a", MemoryState.PROMOTED)
    assert memory_store.store.memories.last_batch(not_by="hook") == second
    assert (memory_store.undo(second), memory_store.undo(second)) == (1, 0)
    assert memory_store.store.memories.last_batch(not_by="hook") == first
    assert memory_store.undo(first) == 1
    assert memory_store.store.memories.last_batch(not_by="hook") == 0


def test_undo_of_a_person_skips_memories_added_by_a_hook(memory_store):
    mine = memory_store.add(new("a"))
    memory_store.add(new("b", state=MemoryState.STAGING), actor="hook")
    assert memory_store.store.memories.last_batch(not_by="hook") == mine


def test_judgement_waits_for_a_row_not_copied_yet(memory_store):
    first = memory_store.judge("obs_9", MemoryState.PROMOTED, FOREIGN)
    second = memory_store.judge("obs_9", MemoryState.REJECTED, FOREIGN)
    assert (
        memory_store.store.memories.judgements(FOREIGN, ["obs_9"])["obs_9"].state
        is MemoryState.REJECTED
    )
    memory_store.undo(second)
    assert (
        memory_store.store.memories.judgements(FOREIGN, ["obs_9"])["obs_9"].state
        is MemoryState.PROMOTED
    )
    memory_store.undo(first)
    assert memory_store.store.memories.judgements(FOREIGN, ["obs_9"]) == {}


def test_deleted_memory_of_this_store_takes_no_decision(memory_store):
    step = memory_store.add(new("a"))
    memory_store.delete("a")
    before = memory_store.everything()[:-2]
    memory_store.judge("a", MemoryState.PROMOTED)
    memory_store.undo(step)
    assert memory_store.keys() == [] and memory_store.store.memories.judgements(OWN, ["a"]) == {}
    assert [row for row in memory_store.everything() if row[0] == "decisions"] == [
        row for row in before if row[0] == "decisions"
    ]


# -- deleting
# ----------------------------------------------------------------------------------------------------------


def bytes_below(folder: Path) -> bytes:
    return b"".join(
        file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "lease"
    )


def forget(memory_store: MemoryStore, *keys: str, origin: str = OWN) -> None:
    memory_store.delete(*keys, origin=origin)
    memory_store.store.indexes.catch_up()
    memory_store.store.indexes.tidy()
    memory_store.store.checkpoint()


def test_deleted_memory_leaves_no_trace_on_the_disk(memory_store, tmp_path):
    long = " ".join(f"quagga{number}" for number in range(3_000))  # several pages
    memory_store.add(new("keep", "Something else"))
    cited = replace(CITED, path="src/quagga.py", root="/quagga")
    parts = {
        "subtitle": "a quagga",
        "facts": ("quaggafact",),
        "concepts": ("quaggatag",),
        "files": ("quagga.py",),
        "text": long,
    }
    memory_store.add(new("a", "The quagga is striped", **parts, citations=(cited,)))
    memory_store.judge("a", MemoryState.STAGING)
    memory_store.store.indexes.catch_up()
    assert b"quagga" in bytes_below(tmp_path)
    forget(memory_store, "a")
    assert b"quagga" not in bytes_below(tmp_path).lower()
    assert memory_store.keys() == ["keep"] and memory_store.found("keep") == SHOWN


def test_deleted_earlier_wordings_and_reasons_leave_no_trace(memory_store, tmp_path):
    memory_store.add(
        *(new(f"other{number}", f"Filling {number} " + "x" * 300) for number in range(30))
    )
    memory_store.add(
        new(
            "a",
            "The quagga is striped",
            text="quagga " * 2_000,
            concepts=("quaggatag",),
            citations=(CITED,),
        )
    )
    memory_store.store.indexes.catch_up()
    for number in range(5):  # each wording is longer or shorter than the last, and lies elsewhere
        text = f"quagga{number} " * (5 + 600 * (number % 3))
        memory_store.edit(
            "a",
            Memory("", f"Quagga number {number}", text=text, project="shop", created=5),
            citations=(),
        )
        memory_store.store.indexes.catch_up()
    memory_store.store.memories.decide(
        [MemoryVerdict((OWN, "a"), MemoryState.REJECTED, None)],
        word,
        action="reject",
        actor="person",
        reason="no quagga at all",
    )
    memory_store.store.content.sweep(2**40)
    forget(memory_store, "a")
    assert b"quagga" not in bytes_below(tmp_path).lower()
    assert len(memory_store.keys()) == 30


def test_deleted_copy_of_a_changed_row_leaves_no_trace(memory_store, tmp_path):
    memory_store.copy(
        *(
            new(f"obs_{number}", f"Filling {number} " + "x" * 300, None, number=number)
            for number in range(2, 30)
        )
    )
    memory_store.copy(new("obs_1", "The quagga is striped", None, number=1, text="quagga " * 2_000))
    memory_store.copy(new("obs_1", "Stripes of a quagga", None, number=1))
    memory_store.copy(new("obs_1", "Nothing to see", None, number=1))
    forget(memory_store, "obs_1", origin=FOREIGN)
    assert b"quagga" not in bytes_below(tmp_path).lower()
    assert set(memory_store.store.memories.forgotten(FOREIGN)) == {"obs_1"}


def test_log_of_a_deleted_memory_says_only_that_it_was_deleted(memory_store):
    memory_store.add(new("a"))
    memory_store.judge("a", MemoryState.PROMOTED)
    memory_store.delete("a")
    assert [
        (decision.action, decision.key, decision.undone)
        for decision in memory_store.store.memories.decisions(9)
    ] == [("delete", "a", True)]
    assert memory_store.store.memories.last_batch(not_by="hook") == 0


def test_deleting_a_memory_keeps_the_same_text_of_another(memory_store):
    same = {"title": "The same", "facts": ("fact",), "created": 3}
    memory_store.add(new("a", **same), new("b", **same))
    memory_store.delete("a")
    (doc,) = memory_store.store.content.docs(memory_store.get("b").source)
    assert "The same" in memory_store.store.content.text(doc.blob)


# -- copies
# ------------------------------------------------------------------------------------------------------------


def test_judgement_outlives_the_foreign_copy(memory_store):
    memory_store.copy(new("obs_1", state=None), new("obs_2", state=None))
    memory_store.judge("obs_1", MemoryState.PROMOTED, FOREIGN)
    assert memory_store.store.memories.drop_copy(FOREIGN) == 2
    assert memory_store.keys() == [] and memory_store.store.memories.mirrors() == []
    assert (
        memory_store.store.memories.judgements(FOREIGN, ["obs_1", "obs_2"])["obs_1"].state
        is MemoryState.PROMOTED
    )
    memory_store.copy(new("obs_1", state=MemoryState.PROMOTED))
    assert memory_store.get("obs_1", FOREIGN).judgement.actor == "person"


def test_foreign_copy_replaces_rows_and_drops_missing_ones(memory_store):
    memory_store.copy(new("obs_1", number=1, concepts=("a",)), new("obs_2", number=2))
    memory_store.copy(new("obs_1", "Changed", number=1, concepts=("b",)), gone=["obs_2"])
    assert (
        memory_store.keys() == ["obs_1"]
        and memory_store.get("obs_1", FOREIGN).memory.title == "Changed"
    )
    assert (memory_store.keys(tags=("a",)), memory_store.found("obs_2", FOREIGN)) == ([], None)
    assert memory_store.store.memories.signatures(FOREIGN, 0, 9) == {1: ("obs_1", b"s")}


# -- filters
# ----------------------------------------------------------------------------------------------------


@pytest.fixture
def filled_store(memory_store) -> MemoryStore:
    memory_store.add(
        new("a", project="Shop", concepts=("Deploy", "railway"), created=1, kind="decision"),
        new("b", project="site", concepts=("deploy",), created=3, other_project="shop"),
        new("c", project="lamps", scope="dev", created=2, state=MemoryState.PROMOTED),
        new("d", project="lamps", created=4, state=MemoryState.STAGING),
    )
    memory_store.copy(new("obs_1", project="shop", created=5, state=None, scope="dev"))
    return memory_store


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({}, ["obs_1", "d", "b", "c", "a"]),
        ({"tags": ("deploy",)}, ["b", "a"]),
        ({"tags": ("DEPLOY", " railway ")}, ["a"]),
        ({"tags": ("deploy", "missing")}, []),
        ({"projects": ("SHOP",)}, ["obs_1", "b", "c", "a"]),
        ({"projects": ("shop",), "promoted": False}, ["obs_1", "b", "a"]),
        ({"projects": ("site", "lamps"), "promoted": False}, ["d", "b", "c"]),
        ({"scope": "DEV", "promoted": False}, ["obs_1", "c"]),
        ({"scope": "lamps"}, ["d", "c"]),
        ({"not_projects": ("shop",)}, ["d", "c"]),
        ({"states": ("",)}, ["obs_1"]),
        ({"states": ("promoted", "staging")}, ["d", "c"]),
        ({"kind": "Decision"}, ["a"]),
        ({"origins": (OWN,), "before": 3}, ["c", "a"]),
        ({"origins": ()}, []),
        ({"sources": ()}, []),
    ],
)
def test_memory_filter_requires_every_condition_newest_first(filled_store, wanted, keys):
    assert filled_store.keys(**wanted) == keys
    assert filled_store.store.memories.count(MemoryFilter(**wanted)) == len(keys)
    assert len(filled_store.store.memories.docs(MemoryFilter(**wanted))) == len(keys)


def test_memory_filter_takes_a_limit_and_an_offset(filled_store):
    lookup = filled_store.store.memories
    assert [remembered.memory.key for remembered in lookup.select(MemoryFilter(), 2, 1)] == [
        "d",
        "b",
    ]


def test_memory_scopes_are_counted_for_each_origin(filled_store):
    lookup = filled_store.store.memories
    sources = [source.id for source in lookup.sources({OWN, FOREIGN}, (SHOWN,))]
    found = {
        (scope.scope.lower(), scope.origin): (scope.count, scope.newest)
        for scope in lookup.scopes(sources)
    }
    assert found == {
        ("shop", OWN): (1, 1),
        ("site", OWN): (1, 3),
        ("dev", OWN): (1, 2),
        ("dev", FOREIGN): (1, 5),
    }


def test_neighbours_are_the_memories_around_in_the_same_session(memory_store):
    memory_store.copy(
        *(
            new(f"obs_{n}", state=None, number=n, session="s" if n != 3 else "t")
            for n in range(1, 7)
        )
    )
    memory_store.judge("obs_5", MemoryState.REJECTED, FOREIGN)
    (source,) = memory_store.store.memories.sources({FOREIGN}, (SHOWN,))
    docs = {doc.path: doc.id for doc in memory_store.store.content.docs(source.id)}
    found = memory_store.store.memories.neighbours([docs["obs_4"], docs["obs_3"]], [source.id], 2)
    steps = {(neighbour.of, neighbour.step): neighbour.doc for neighbour in found}
    assert steps == {
        (docs["obs_4"], -1): docs["obs_2"],
        (docs["obs_4"], -2): docs["obs_1"],
        (docs["obs_4"], 1): docs["obs_6"],
    }


# -- invariants
# --------------------------------------------------------------------------------------------------

KEYS = ("a", "b", "obs_1", "obs_2")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("judge"), st.sampled_from(KEYS), st.sampled_from([*STATES, None])),
        st.tuples(st.just("edit"), st.sampled_from(KEYS[:2]), st.text(min_size=1, max_size=5)),
        st.tuples(st.just("add"), st.sampled_from(KEYS), st.sampled_from(STATES)),
        st.tuples(st.just("delete"), st.sampled_from(KEYS), st.none()),
        st.tuples(st.just("drop"), st.none(), st.none()),
        st.tuples(st.just("undo"), st.none(), st.none()),
    ),
    max_size=12,
)


@given(STEPS)
def test_docs_states_and_judgements_agree_after_any_decisions(steps):
    store = Store(None)
    try:
        memory_store = MemoryStore(store)
        for action, key, what in steps:
            do(memory_store, action, key, what)
            check(memory_store)
    finally:
        store.close()


def do(memory_store: MemoryStore, action: str, key: str, what) -> None:
    origin = FOREIGN if key and key.startswith("obs") else OWN
    there = bool(key and memory_store.store.memories.by_key(key))
    if action == "undo":
        batch = memory_store.store.memories.last_batch(not_by="hook")
        if batch:
            memory_store.undo(batch)
    elif action == "drop":
        memory_store.store.memories.drop_copy(FOREIGN)
    elif action == "judge" and (origin == FOREIGN or what is not None):
        memory_store.judge(key, what, origin)
    elif action == "edit" and there:
        memory_store.edit(key, Memory("", what, project="site", created=9))
    elif action == "delete" and there:
        memory_store.delete(key, origin=origin)
    elif action == "add" and not there:
        if origin == OWN:
            memory_store.add(new(key, state=what))
        elif key not in memory_store.store.memories.forgotten(FOREIGN):
            judged = memory_store.store.memories.judgements(FOREIGN, [key]).get(key)
            memory_store.copy(new(key, state=judged.state if judged else None, number=int(key[4:])))


def check(memory_store: MemoryStore) -> None:
    memories = memory_store.store.memories.select(MemoryFilter())
    sources = {
        source.id: source
        for source in memory_store.store.memories.sources({OWN, FOREIGN}, (SHOWN, STAGED))
    }
    docs = {
        (source.root, doc.path, source.id)
        for source in sources.values()
        for doc in memory_store.store.content.docs(source.id)
    }
    assert docs == {
        (*remembered.ref, remembered.source)
        for remembered in memories
        if remembered.source is not None
    }
    for memory in memories:
        assert (sources[memory.source].name if memory.source else None) == name(memory.state)
        assert (memory.judgement.state if memory.judgement else None) is memory.state
    log = memory_store.store.memories.decisions(1_000)
    for remembered in memories:  # the log and the states agree
        last = next((line for line in log if (line.origin, line.key) == remembered.ref), None)
        assert (last.after if last else "") == (remembered.state.value if remembered.state else "")


def test_read_only_store_refuses_every_memory_step(memory_store, tmp_path):
    memory_store.add(new("a"))
    reader = Store(tmp_path, read_only=True)
    try:
        other = MemoryStore(reader)
        for step in (
            lambda: other.add(new("b")),
            lambda: other.judge("a", None),
            lambda: other.delete("a"),
            lambda: other.copy(),
            lambda: other.undo(1),
        ):
            with pytest.raises(CortexError) as refused:
                step()
            assert refused.value.code == "STORE_READ_ONLY"
    finally:
        reader.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_store_older_than_memories_is_migrated(tmp_path, read_only):
    raw = sqlite3.connect(tmp_path / "cortex.db")
    for number, migration in enumerate(schema.MIGRATIONS[:3], 1):
        migration(raw)
        raw.execute(f"PRAGMA user_version = {number}")
    raw.execute("INSERT INTO sources (kind, name, root) VALUES ('documents', 'notes', '/notes')")
    raw.commit()
    raw.close()
    store = Store(tmp_path, read_only=read_only)
    assert store.memories.select(MemoryFilter()) == [] and not store.memories.has(OWN)
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "cortex.db")) as raw:
        assert raw.execute("PRAGMA user_version").fetchone()[0] == len(schema.MIGRATIONS)
        assert raw.execute("SELECT name FROM sources").fetchall() == [("notes",)]


def test_undo_keeps_later_decisions_of_another_process(memory_store):
    memory_store.add(new("a"), new("b"))
    verdicts = [MemoryVerdict((OWN, key), MemoryState.REJECTED, None) for key in ("a", "b")]
    first = memory_store.store.memories.decide(
        verdicts, word, action="reject", actor="person", reason=""
    )
    later = memory_store.judge("a", MemoryState.PROMOTED)
    assert memory_store.undo(first) == 1
    assert (memory_store.get("a").state, memory_store.get("b").state) == (
        MemoryState.PROMOTED,
        MemoryState.APPROVED,
    )
    assert memory_store.undo(later) == 1
    assert memory_store.get("a").state is MemoryState.REJECTED
