"""Record filters: by any query plan the same records in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import Any

import pytest

from cortex.base.record_model import (
    Actor,
    Artifact,
    Body,
    CodeLink,
    Comment,
    Link,
    Observation,
    Record,
    RecordFilter,
    Task,
    Thread,
    refs_of,
)
from cortex.base.text import hash_bytes
from cortex.engine import chunkers
from cortex.engine.store import IndexedText, RecordTransaction, Store, TransactionOptions
from cortex.engine.store.records import filters, queries, row_reader
from cortex.families.team.ids import new_id

PERSON = Actor("person", 4)
SCOPE = "subcortex_X"


def word(record: Record[Any], get: object) -> IndexedText | None:
    if isinstance(record.body, Link):
        return None
    text = f"# {record.body.title}\n{record.id}\n"
    return IndexedText(
        hash_bytes(text.encode()),
        chunkers.cut(text, "a.md", "markdown", 500, 0),
        record.body.sensitivity == "normal",
    )


def bodies() -> Iterator[Body]:
    states = ("open", "resolved", "archived")
    for number in range(48):
        scope = SCOPE if number % 3 else ""
        tags = ("perf", "Bug")[: number % 3]
        hidden = "sensitive" if number % 7 == 0 else "normal"
        yield Thread(
            f"Thread {number}",
            state=states[number % 3],
            subcortex=scope,
            tags=tags,
            sensitivity=hidden,
        )
        yield Comment("thread_Y", f"Comment {number}", subcortex=scope)
        yield Observation(
            f"Observation {number}",
            tags=tags,
            thread="thread_Y",
            code_links=(CodeLink(f"src/{number}.py"),),
        )
        yield Artifact(
            f"Artifact {number}",
            state="accepted" if number % 2 else "draft",
            review_by=f"2026-0{1 + number % 9}-01",
        )
        yield Task(
            f"Task {number}", state="blocked" if number % 5 == 0 else "done", subcortex=scope
        )
        yield Link("a", "supports", "b", state="confirmed")


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[Store]:
    with closing(Store(tmp_path_factory.mktemp("wanted"))) as opened:
        made: list[Record[Any]] = []

        def work(step: RecordTransaction) -> str:
            for number, body in enumerate(bodies()):
                step.now = 1_000 + number // 2
                made.append(step.make(new_id(type(body)), body))
            for at, record in enumerate(made[::5]):
                step.now = 500 + 7 * at
                step.put(record)
            return ""

        opened.records.perform(
            work, TransactionOptions(actor=PERSON, key="k", action="test", payload="", wording=word)
        )
        yield opened


QUESTIONS = [
    RecordFilter(kinds, states, refs, (), sensitivity, since, until, "", due, by_change)
    for kinds, states, refs, sensitivity, (since, until), due, by_change in product(
        ((), ("task",), ("thread", "observation", "artifact")),
        ((), ("open",), ("open", "blocked", "accepted")),
        (
            (),
            (("subcortex", SCOPE),),
            (("tag", "bug"), ("subcortex", SCOPE)),
            (("thread", "thread_Y"),),
        ),
        ("", "sensitive"),
        ((0, 0), (1_050, 0), (0, 900), (900, 1_060)),
        ("", "2026-04-01"),
        (False, True),
    )
]


def is_wanted(record: Record[Any], wanted: RecordFilter) -> bool:
    refs = refs_of(record.body)
    return (
        (not wanted.kinds or record.kind in wanted.kinds)
        and (not wanted.states or record.body.state in wanted.states)
        and all(ref in refs for ref in wanted.refs)
        and wanted.sensitivity in ("", record.body.sensitivity)
        and record.updated >= wanted.since
        and (not wanted.until or record.updated < wanted.until)
        and (not wanted.due or any(role == "due" and target < wanted.due for role, target in refs))
    )


@pytest.mark.parametrize(("few", "first"), [(1, 0), (20, 4), (3_000, 8)])
def test_every_query_plan_gives_the_same_records_in_order(store, monkeypatch, few, first):
    for module in (filters, queries, row_reader):
        monkeypatch.setattr(module, "FEW", few)
    lookup = store.records
    everything = lookup.select(RecordFilter(), 1_000)
    assert len(everything) == 288
    sources = [
        source.id
        for source in lookup.sources(("thread", "comment", "observation", "artifact", "task"))
    ]
    known = lookup.by_docs(sorted(lookup.docs(RecordFilter(), sources)))
    assert len(known) == 240
    for wanted in QUESTIONS[first::11]:
        expected = [record.id for record in everything if is_wanted(record, wanted)]
        if wanted.by_change:
            times = {record.id: record.updated for record in everything}
            # Keeps the order of those of one moment
            expected.sort(key=lambda number: -times[number])
        assert [record.id for record in lookup.select(wanted, 12, 2)] == expected[2:14], wanted
        assert lookup.count(wanted) == len(expected)
        found = {number for number in expected if not number.startswith("link_")}
        assert {known[doc].id for doc in lookup.docs(wanted, sources)} == found
        assert {brief.id for brief in lookup.briefs(list(known), wanted).values()} == found
        some, docs = lookup.narrow(wanted, 3_000)
        assert docs is None or {known[doc].id for doc in docs} == found
        assert {source.name.rstrip("!") for source in some} >= {
            known[doc].kind for doc in known if known[doc].id in found
        }


def test_page_before_a_record_keeps_every_other_filter(store):
    lookup = store.records
    (middle,) = lookup.select(RecordFilter(kinds=("thread",)), 1, 20)
    for refs in ((), (("subcortex", SCOPE),)):
        whole = lookup.select(RecordFilter(kinds=("thread", "task"), refs=refs), 1_000)
        older = [record.id for record in whole if record.id[-26:] < middle.id[-26:]]
        asked = RecordFilter(kinds=("thread", "task"), refs=refs, before=middle.id)
        assert [record.id for record in lookup.select(asked, 1_000)] == older


def test_links_are_found_from_both_ends_and_pins_by_their_role(store):
    lookup = store.records
    assert (
        len(lookup.links(["a"], 10)) == 10
        and len(lookup.links(["b", "a"])) == 48
        and lookup.links(["c"]) == []
    )
    assert lookup.targets("subcortex") == {SCOPE} and lookup.targets("pin") == frozenset()
