"""Confined stores: every query shows what `visibility.sees` allows."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.base.errors import CortexError, StoreError
from cortex.base.record_model import (
    FOUND_KINDS,
    KINDS,
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    CodeLink,
    Comment,
    Draft,
    Link,
    Notification,
    Observation,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
    refs_of,
)
from cortex.base.text import hash_bytes
from cortex.base.visibility import UNFILED, Get, Viewer, scope_of, sees
from cortex.engine import chunkers
from cortex.engine.store import IndexedText, RecordTransaction, Store, TransactionOptions
from cortex.engine.store.partitions import RecordPartition, parse_partition
from cortex.families.team.ids import fresh_key, new_id

PERSON = Actor("ada", 4)
NAMES = ("ada", "ada/agent", "adam", "bob", "bob/agent")
ROLES = (
    "subcortex",
    "thread",
    "task",
    "parent",
    "target",
    "about",
    "source",
    "recipient",
    "path",
    "pin",
    "slug",
    "tag",
)


def word(record: Record[Any], get: object) -> IndexedText | None:
    if record.kind not in FOUND_KINDS:
        return None
    text = f"# {record.body.title}\n{record.id}\n"
    cut = chunkers.cut(text, "a.md", "markdown", 500, 0)
    return IndexedText(hash_bytes(text.encode()), cut, record.body.sensitivity != SENSITIVE)


def write(store: Store, work: Callable[[RecordTransaction], object]) -> None:
    def wrapped(step: RecordTransaction) -> str:
        work(step)
        return ""

    store.records.perform(
        wrapped,
        TransactionOptions(actor=PERSON, key=fresh_key(), action="test", payload="", wording=word),
    )


def make(store: Store, *bodies: Body, author: str = "ada") -> list[Record[Any]]:
    made: list[Record[Any]] = []
    write(
        store,
        lambda step: made.extend(
            step.put(Record(new_id(type(body)), body, author=author)) for body in bodies
        ),
    )
    return made


def change(store: Store, record: Record[Any], **parts: object) -> None:
    def work(step: RecordTransaction) -> None:
        kept = step.get(record.id)
        assert kept is not None
        step.put(replace(kept, body=replace(kept.body, **parts)))

    write(store, work)


def get_of(store: Store) -> Get:
    def get(ref: str) -> Record[Any] | None:
        if "_" in ref:
            return store.records.one(ref)
        return next(
            iter(store.records.select(RecordFilter(kinds=("subcortex",), refs=(("slug", ref),)))),
            None,
        )

    return get


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """A store that is written, and the same one confined to a viewer."""
    with closing(Store(tmp_path, shelved=True)) as store, closing(opened(tmp_path)) as confined:
        yield store, confined


def opened(directory: Path) -> Store:
    return Store(directory, read_only=True, confined=True)


EVERYBODY = Viewer("ada", 4, True, frozenset({"*"}))


# -- the rule
# ----------------------------------------------------------------------------------------------------------


def bodies(draw: st.DrawFn, known: Sequence[Record[Any]]) -> Body:
    """A body of any kind, with references to known records."""

    def some(*kinds: str) -> str:
        ids = [record.id for record in known if record.kind in kinds]
        return draw(st.sampled_from(["", *ids]))

    scope = some("subcortex")
    sensitivity = draw(st.sampled_from(["normal", "normal", SENSITIVE]))
    kind = draw(st.sampled_from(sorted(KINDS)))
    match kind:
        case "subcortex":
            return Subcortex(f"topic-{len(known)}", f"Topic {len(known)}", sensitivity=sensitivity)
        case "thread":
            links = (CodeLink("src/a.py"),)
            return Thread(
                f"T{len(known)}", subcortex=scope, sensitivity=sensitivity, code_links=links
            )
        case "comment":
            return Comment(
                some("thread"), f"C{len(known)}", subcortex=scope, sensitivity=sensitivity
            )
        case "observation":
            return Observation(
                f"O{len(known)}",
                "",
                subcortex=scope,
                thread=some("thread"),
                sensitivity=sensitivity,
            )
        case "artifact":
            return Artifact(f"A{len(known)}", subcortex=scope, sensitivity=sensitivity)
        case "task":
            return Task(
                f"K{len(known)}", subcortex=scope, thread=some("thread"), sensitivity=sensitivity
            )
        case "draft":
            slugs = [record.body.slug for record in known if record.kind == "subcortex"]
            target = draw(st.sampled_from(["", some("thread", "task", "subcortex"), *slugs]))
            return Draft(
                "comment", f"D{len(known)}", "said", target=target, sensitivity=sensitivity
            )
        case "notification":
            about = some("thread", "task", "artifact", "subcortex", "draft")
            return Notification(
                "mention",
                draw(st.sampled_from(NAMES)),
                about,
                f"N{len(known)}",
                "why",
                sensitivity=sensitivity,
            )
    return Link(
        some(*FOUND_KINDS),
        "supports",
        some(*FOUND_KINDS),
        f"L{len(known)}",
        sensitivity=sensitivity,
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Record[Any]], list[tuple[int, str, str]], list[Viewer]]:
    """Records, later changes of some of them, and viewers."""
    known: list[Record[Any]] = [
        Record(new_id(Subcortex), Subcortex(slug, slug.title()), author="ada")
        for slug in ("first-topic", "second-topic", "third-topic")
    ]
    for _ in range(draw(st.integers(5, 25))):
        body = bodies(draw, known)
        known.append(Record(new_id(type(body)), body, author=draw(st.sampled_from(NAMES))))
    scopes = [record.id for record in known if record.kind == "subcortex"]
    changes = draw(
        st.lists(
            st.tuples(
                st.integers(0, len(known) - 1),
                st.sampled_from(["subcortex", "sensitivity"]),
                st.sampled_from(["", *scopes]),
            ),
            max_size=8,
        )
    )
    some = st.frozensets(st.sampled_from([UNFILED, *scopes]))
    viewers = st.builds(
        Viewer,
        name=st.sampled_from(["ada", "bob", "zoe"]),
        tier=st.integers(0, 4),
        sensitive=st.booleans(),
        reads=st.one_of(some, some.map(lambda reads: reads | {"*"})),
        hidden=some,
    )
    return known, changes, draw(st.lists(viewers, min_size=2, max_size=4))


@settings(max_examples=20)
@given(world=worlds())
def test_views_show_what_the_visibility_rule_allows_after_any_moves(world, tmp_path_factory):
    known, changes, viewers = world
    directory = tmp_path_factory.mktemp("world")
    with closing(Store(directory, shelved=True)) as store:
        write(store, lambda step: [step.put(record) for record in known])
        with closing(opened(directory)) as confined:
            for viewer in viewers:
                assert_shows(store, confined, viewer)
            for place, field, value in changes:
                if field == "sensitivity":
                    kept = store.records.one(known[place].id)
                    assert kept is not None
                    change(
                        store,
                        kept,
                        sensitivity="normal" if kept.body.sensitivity == SENSITIVE else SENSITIVE,
                    )
                elif known[place].kind in ("thread", "comment", "observation", "artifact", "task"):
                    change(store, known[place], subcortex=value)
            for viewer in viewers:
                assert_shows(store, confined, viewer)


def assert_shows(store: Store, confined: Store, viewer: Viewer) -> None:
    """Check that every query gives the visible part of the whole answer."""
    get, all_of_them = get_of(store), [kept.record for kept in store.records.changes(0, 1_000)]
    seen = {record.id: record for record in all_of_them if sees(viewer, record, get)}
    docs = _docs(store)
    with confined.viewed_by(viewer):
        look = confined.records
        assert look.get(record.id for record in all_of_them) == seen
        assert {kept.record.id for kept in look.changes(0, 1_000)} == seen.keys()
        assert look.has() == bool(seen)
        assert {deed.record for deed in look.deeds(limit=1_000)} == seen.keys()
        for kind in KINDS:
            ids = {number for number, record in seen.items() if record.kind == kind}
            wanted = RecordFilter(kinds=(kind,))
            assert {record.id for record in look.select(wanted, 1_000)} == ids
            assert look.count(wanted) == len(ids)
        for role in ROLES:
            assert look.targets(role) == {
                to for record in seen.values() for at, to in refs_of(record.body) if at == role
            }
        targets = [record.id for record in all_of_them]
        pointing = {
            record.id
            for record in seen.values()
            if any(to in targets for _, to in refs_of(record.body))
        }
        assert {record.id for record in look.pointing(targets, limit=1_000)} == pointing
        assert {record.id for record in look.by_path("src")} == {
            number for number, record in seen.items() if record.kind == "thread"
        }
        assert {link.id for link in look.links(targets)} == {
            number for number, record in seen.items() if record.kind == "link"
        }
        found = {number for number, record in seen.items() if record.kind in FOUND_KINDS}
        assert {record.id for record in look.by_docs(list(docs)).values()} == found
        assert {brief.id for brief in look.briefs(list(docs), RecordFilter()).values()} == found
        sources, narrowed = look.narrow(RecordFilter(kinds=FOUND_KINDS, since=1), 1_000)
        shelves = {parse_partition(source.name) for source in look.sources(FOUND_KINDS)}
        assert narrowed == {doc for doc, path in docs.items() if path in found}
        assert {parse_partition(source.name) for source in sources} <= shelves
        for number in seen:
            assert look.versions(number) == _versions(store, viewer, number)
        for hidden in targets:
            assert hidden in seen or not look.versions(hidden)
    holding = {
        RecordPartition(
            record.kind,
            record.body.sensitivity != SENSITIVE,
            scope_of(record, get),
            record.body.sensitivity == SENSITIVE,
        )
        for record in all_of_them
        if record.kind in FOUND_KINDS
    }
    allowed = {
        partition
        for partition in holding
        if viewer.may_read(partition.scope or "") and (viewer.sensitive or not partition.sensitive)
    }
    assert shelves & holding == allowed  # those that are empty now are as those that hold something


def _docs(store: Store) -> dict[int, str]:
    with store._connections.read() as connection:
        return dict(connection.execute("SELECT id, path FROM docs"))


def _versions(store: Store, viewer: Viewer, number: str) -> dict[int, Record[Any]]:
    """A record and its earlier versions, without the more secret ones."""
    every = store.records.versions(number)
    last = max(every)

    def could_be_seen(record: Record[Any]) -> bool:
        filed = record.kind in ("thread", "comment", "artifact", "task") or getattr(
            record.body, "subcortex", ""
        )
        there = not filed or viewer.may_read(record.body.subcortex)
        return there and (viewer.sensitive or record.body.sensitivity != SENSITIVE)

    return {
        version: record
        for version, record in every.items()
        if version == last or could_be_seen(record)
    }


# -- viewers
# ---------------------------------------------------------------------------------------------------------


def test_store_without_a_viewer_shows_nothing(pair):
    store, confined = pair
    thread = make(store, Thread("Open"), Link("", "supports", ""))[0]
    look = confined.records
    assert look.one(thread.id) is None
    assert not look.has()
    assert (
        look.select(RecordFilter())
        == look.changes(0, 10)
        == look.deeds()
        == look.sources(FOUND_KINDS)
        == []
    )
    assert look.versions(thread.id) == {}
    assert look.count(RecordFilter()) == 0
    assert look.targets("type") == frozenset()
    assert look.narrow(RecordFilter(kinds=FOUND_KINDS), 100) == ([], frozenset())
    assert confined.folders.all() == []


def test_reused_connection_forgets_its_earlier_viewer(pair):
    store, confined = pair
    topic, other = make(store, Subcortex("one-topic", "One"), Subcortex("two-topic", "Two"))
    open_one, secret = make(
        store, Thread("Open", subcortex=topic.id), Thread("Secret", subcortex=other.id)
    )
    both = Viewer("ada", 4, True, frozenset({topic.id, other.id}))
    viewer = Viewer("bob", 2, False, frozenset({topic.id}))
    for _ in range(3):
        with confined.viewed_by(both):
            assert {
                record.id for record in confined.records.select(RecordFilter(kinds=("thread",)))
            } == {open_one.id, secret.id}
            assert (
                len(confined.records.narrow(RecordFilter(kinds=("thread",), since=1), 100)[0]) == 2
            )
        with confined.viewed_by(viewer):
            assert [
                record.id for record in confined.records.select(RecordFilter(kinds=("thread",)))
            ] == [open_one.id]
            assert (
                len(confined.records.narrow(RecordFilter(kinds=("thread",), since=1), 100)[0]) == 1
            )
        assert confined.records.select(RecordFilter(kinds=("thread",))) == []
    assert len(confined._connections._idle) == 1


def test_threads_with_different_viewers_see_their_own_records(pair):
    store, confined = pair
    topics = make(store, *(Subcortex(f"topic-{number}", f"Topic {number}") for number in range(4)))
    for topic in topics:
        make(
            store,
            *(Thread(f"{topic.body.name} {number}", subcortex=topic.id) for number in range(5)),
        )
    together = threading.Barrier(4, timeout=20)

    def look(place: int) -> set[str]:
        viewer = Viewer(f"name-{place}", 2, False, frozenset({topics[place].id}))
        found: set[str] = set()
        for _ in range(30):
            with confined.viewed_by(viewer), confined.reading():
                together.wait()
                found |= {
                    record.body.subcortex
                    for record in confined.records.select(RecordFilter(kinds=("thread",)))
                }
                assert confined.records.count(RecordFilter(kinds=("thread",))) == 5
            assert confined.viewer is None
        return found

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(look, range(4))) == [{topic.id} for topic in topics]


def test_second_viewer_is_refused_while_one_is_set(pair):
    store, confined = pair
    with confined.viewed_by(EVERYBODY):
        with pytest.raises(CortexError), confined.viewed_by(EVERYBODY):
            raise AssertionError
        assert confined.viewer == EVERYBODY
    with confined.reading(), pytest.raises(CortexError), confined.viewed_by(EVERYBODY):
        raise AssertionError
    with ExitStack() as left_open, pytest.raises(CortexError, match="the viewer changed"):
        with confined.viewed_by(EVERYBODY):
            left_open.enter_context(confined.reading())
        confined.records.has()
    with pytest.raises(CortexError), store.viewed_by(EVERYBODY):
        raise AssertionError
    assert store.viewer is None


def test_viewer_with_unwritten_tables_is_not_set(pair):
    store, confined = pair
    make(store, Thread("Open"))
    broken = Viewer("bob", 2, False, frozenset({object()}))  # type: ignore[arg-type]
    with confined.viewed_by(EVERYBODY):
        assert confined.records.has()
    with confined.viewed_by(broken), pytest.raises(Exception, match="bind"):
        confined.records.has()
    assert not confined.records.has()
    with confined.viewed_by(EVERYBODY):
        assert confined.records.has()


def test_only_a_read_only_store_can_be_confined(tmp_path):
    with pytest.raises(ValueError):
        Store(tmp_path, confined=True)
    with pytest.raises(ValueError):
        Store(None, read_only=True, confined=True)


def test_confined_store_refuses_writes(pair):
    store, confined = pair
    make(store, Thread("Open"))
    with confined.viewed_by(EVERYBODY):
        with pytest.raises(StoreError):
            make(confined, Thread("Another"))
        with confined._connections.read() as connection:
            for statement in (
                "DELETE FROM main.records",
                "DELETE FROM temp.hidden",
                "INSERT INTO temp.readable VALUES ('*')",
                "DROP VIEW temp.records",
                "UPDATE main.records SET scope = ''",
            ):
                with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|readonly"):
                    connection.execute(statement)
    assert store.records.count(RecordFilter()) == 1


def test_store_without_partitions_can_be_confined(tmp_path):
    with closing(Store(tmp_path)) as plain:
        (thread,) = make(plain, Thread("Open"))
    with closing(opened(tmp_path)) as confined, confined.viewed_by(EVERYBODY):
        assert confined.records.one(thread.id) == thread
        assert confined.records.sources(FOUND_KINDS) == []  # whose they are isn't known


# -- by the same indexes
# -----------------------------------------------------------------------------------------------


def test_confined_queries_use_the_same_indexes(pair):
    _, confined = pair
    questions = {
        "SELECT id FROM records WHERE kind = 'thread' ORDER BY made DESC LIMIT 10": "records_made",
        "SELECT id FROM records WHERE kind = 'thread' AND state = 'open' ORDER BY made DESC": "records_state",
        "SELECT id FROM records WHERE kind = 'task' AND updated >= 5 ORDER BY updated DESC, made DESC": "records_updated",
        "SELECT * FROM records WHERE change > 5 ORDER BY change": "records_change",
        "SELECT record FROM refs WHERE role = 'path' AND target >= 'a' AND target < 'b'": "PRIMARY KEY",
        "SELECT target FROM refs WHERE record = 'x' AND role = 'thread'": "refs_record",
        "SELECT * FROM versions WHERE record = 'x' ORDER BY version": "PRIMARY KEY",
        "SELECT * FROM audit ORDER BY id DESC LIMIT 5": "SCAN kept",
    }
    with confined.viewed_by(EVERYBODY), confined._connections.read() as connection:
        for question, index in questions.items():
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}")]
            assert index in plan[0], plan
            assert not [
                line
                for line in plan
                if "SCAN" in line and "viewer" not in line and line != "SCAN kept"
            ], plan
            assert not [
                line
                for line in plan
                if "MATERIALIZE" in line or "CO-ROUTINE" in line or "TEMP B-TREE" in line
            ]


# -- names of partitions
# --------------------------------------------------------------------------------------------------


@given(
    st.sampled_from(sorted(KINDS)),
    st.booleans(),
    st.one_of(st.none(), st.text("ab_!%@21", max_size=9)),
    st.booleans(),
)
def test_partition_name_is_parsed_back(kind, meaning, scope, sensitive):
    shelf = RecordPartition(kind, meaning, scope, sensitive and scope is not None)
    assert parse_partition(shelf.name) == shelf


@given(st.text("ab_!%@21", max_size=9), st.booleans())
def test_sql_and_python_parse_partition_names_alike(scope, sensitive):
    from cortex.engine.store.partitions import SHELF_SCOPE, SHELF_SENSITIVE

    with closing(sqlite3.connect(":memory:")) as connection:
        ask = f"SELECT {SHELF_SCOPE}, {SHELF_SENSITIVE} FROM (SELECT ? AS name)"
        name = RecordPartition("thread", False, scope, sensitive).name
        assert connection.execute(ask, (name,)).fetchone() == (scope, sensitive)


def test_partition_names_without_a_scope_are_unchanged():
    assert [RecordPartition("thread").name, RecordPartition("thread", False).name] == [
        "thread",
        "thread!",
    ]
    assert RecordPartition("thread", False, "subcortex_X", True).name == "thread!@subcortex_X!"
    assert RecordPartition("thread", True, "").name == "thread@"
