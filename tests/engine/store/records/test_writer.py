"""Record writes: atomic steps, once for each key, no lost update, every version kept.

Tests of every database stand first, over the fixture `kept`; another database joins by a
parameter there.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.base.errors import CortexError
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    CodeLink,
    Comment,
    Draft,
    Evidence,
    Link,
    Notification,
    Observation,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Term,
    Thread,
    kind_of,
    refs_of,
)
from cortex.base.text import hash_bytes
from cortex.engine import chunkers
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.store import (
    EmbeddingJob,
    IndexedText,
    RecordQueries,
    Records,
    RecordTransaction,
    Store,
    TransactionOptions,
    TransactionResult,
    schema,
)
from cortex.engine.store.records import row_reader
from cortex.engine.store.records.json_codec import from_json, to_json
from cortex.engine.store.records.ledger import open_ledger
from cortex.families.team.ids import new_id

PERSON, AGENT = Actor("person", 4), Actor("agent", 1)
RETRIES, PROCESSES = 32, 4
DEADLINE = 60.0

BODIES: tuple[Body, ...] = (
    Subcortex("billing", "Billing", glossary=(Term("dunning", "asking to be paid"),), pinned_tasks=("task_1",)),
    Thread("How do we round?", "half to even", tags=("Money", "tax"), code_links=(CodeLink("src/a.py", symbol="Round"),)),
    Comment("thread_1", "like banks do", citations=("https://example.com",)),
    Observation("It rounds down", "seen on Friday", thread="thread_1"),
    Artifact("Rounding", "half to even", state="accepted", evidence=(Evidence("thread", "thread_1"),), review_by="2027-01-31"),
    Task("Fix it", assignees=("lena",), watchers=("omar",)),
    Draft("task_update", "Fix it", "", patch=(("state", "done"),)),
    Notification("mention", "lena", "thread_1", "How do we round?", "you were mentioned"),
    Link("artifact_1", "contradicts", "artifact_2", "30 here, 60 there", "candidate"),
)  # fmt: skip


def word(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> IndexedText | None:
    """Word titles; drafts, notifications and links have none."""
    if isinstance(record.body, Draft | Notification | Link):
        return None
    text = f"{record.body.title}\n"
    private = record.body.sensitivity == SENSITIVE
    return IndexedText(
        hash_bytes(text.encode(), str(private).encode()),
        chunkers.cut(text, "a.md", "markdown"),
        meaning=not private,
    )


@dataclass(frozen=True, slots=True)
class SharedRecords:
    """Records open twice: by the writer, and by a second reader."""

    records: Records
    recorded: RecordQueries
    others: Records
    place: str  # for another process
    keys: Iterator[int]

    def do(
        self,
        work: Callable[[RecordTransaction], object],
        key: str = "",
        payload: str = "",
        actor: Actor = PERSON,
    ) -> TransactionResult:
        """Perform a step, under a fresh key by default."""
        return self._on(self.records, work, key, payload, actor)

    def do_elsewhere(
        self, work: Callable[[RecordTransaction], object], key: str = ""
    ) -> TransactionResult:
        return self._on(self.others, work, key, "", PERSON)

    def _on(
        self,
        records: Records,
        work: Callable[[RecordTransaction], object],
        key: str,
        payload: str,
        actor: Actor,
    ) -> TransactionResult:
        key = key or f"k{next(self.keys)}"
        return records.perform(
            lambda step: str(work(step) or ""),
            TransactionOptions(actor=actor, key=key, action="write", payload=payload, wording=word),
        )

    def make(self, body: Body, actor: Actor = PERSON) -> Record[Any]:
        number = new_id(type(body))
        self.do(lambda step: step.make(number, body), actor=actor)
        return self.one(number)

    def change(self, number: str, **fields: object) -> Record[Any]:
        def work(step: RecordTransaction) -> None:
            record = step.get(number)
            assert record is not None
            step.put(replace(record, body=replace(record.body, **fields)))

        self.do(work)
        return self.one(number)

    def one(self, number: str) -> Record[Any]:
        found = self.records.one(number)
        assert found is not None
        return found

    def titles(self, **wanted: Any) -> list[str]:
        return [record.body.title for record in self.records.select(RecordFilter(**wanted))]


@pytest.fixture(params=["sqlite", "postgresql"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SharedRecords]:
    url = (
        f"sqlite:///{tmp_path}"
        if request.param == "sqlite"
        else request.getfixturevalue("database")
    )
    with ExitStack() as opened:
        ledger, other = (opened.enter_context(open_ledger(url)) for _ in range(2))
        yield SharedRecords(ledger.records, ledger.records, other.records, url, count())


def refused(work: Callable[[], object]) -> CortexError:
    with pytest.raises(CortexError) as caught:
        work()
    return caught.value


# -- keys
# --------------------------------------------------------------------------------------------------------------


def test_repeated_key_gives_the_first_result_and_writes_nothing(kept: SharedRecords) -> None:
    def work(step: RecordTransaction) -> str:
        return step.make(new_id(Thread), BODIES[1]).id

    first, again = kept.do(work, "key-1", "payload"), kept.do(work, "key-1", "payload")
    assert (first.replayed, again.replayed, again.result) == (False, True, first.result)
    assert kept.records.count(RecordFilter()) == 1 and len(kept.records.deeds()) == 1


def test_repeated_key_with_another_payload_is_refused(kept: SharedRecords) -> None:
    kept.do(lambda step: step.make(new_id(Thread), BODIES[1]), "key-1", "payload")
    error = refused(
        lambda: kept.do(lambda step: step.make(new_id(Task), BODIES[5]), "key-1", "another")
    )
    assert error.code == "IDEMPOTENCY_REPLAY" and error.context == {"idempotency_key": "key-1"}
    assert kept.titles() == ["How do we round?"]


def test_same_key_of_another_actor_is_another_key(kept: SharedRecords) -> None:
    for actor in (PERSON, AGENT):
        assert not kept.do(
            lambda step: step.make(new_id(Thread), BODIES[1]), "key-1", actor=actor
        ).replayed
    assert {record.author for record in kept.records.select(RecordFilter())} == {"person", "agent"}


def test_result_of_a_key_can_be_looked_up(kept: SharedRecords) -> None:
    assert kept.records.known(PERSON, "key-1", "write", "") is None
    kept.do(lambda step: "result", "key-1")
    assert kept.records.known(PERSON, "key-1", "write", "") == TransactionResult("result", True)
    assert (
        refused(lambda: kept.records.known(PERSON, "key-1", "write", "x")).code
        == "IDEMPOTENCY_REPLAY"
    )


def test_32_concurrent_retries_of_a_key_give_one_record(kept: SharedRecords) -> None:
    ready = threading.Barrier(RETRIES, timeout=DEADLINE)

    def retry(number: int) -> TransactionResult:
        def work(step: RecordTransaction) -> str:
            return step.make(new_id(Observation), Observation("Once")).id

        ready.wait()
        return (kept.do if number % 2 else kept.do_elsewhere)(work, "one-key")

    with ThreadPoolExecutor(RETRIES) as threads:
        done = list(threads.map(retry, range(RETRIES)))
    assert (
        len({result.result for result in done}) == 1
        and sum(not result.replayed for result in done) == 1
    )
    assert kept.titles() == ["Once"] and len(kept.records.deeds()) == 1


RETRY = f"""
import sys
from concurrent.futures import ThreadPoolExecutor
from cortex.base.record_model import Actor, Observation
from cortex.families.team.ids import new_id
from cortex.engine.store import TransactionOptions
from cortex.engine.store.records.ledger import open_ledger

store = open_ledger(sys.argv[1])
options = TransactionOptions(
    actor=Actor("agent", 1), key="one-key", action="write", payload="", wording=lambda record, get: None)
print("ready", flush=True)
sys.stdin.readline()

def retry(_):
    work = lambda step: step.make(new_id(Observation), Observation("Once")).id
    done = store.records.perform(work, options)
    return done.result, done.replayed

with ThreadPoolExecutor({RETRIES // PROCESSES}) as threads:
    for result, replayed in threads.map(retry, range({RETRIES // PROCESSES})):
        print(result, replayed, flush=True)
store.close()
"""


def test_retries_of_a_key_from_several_processes_give_one_record(kept: SharedRecords) -> None:
    command = [sys.executable, "-c", RETRY, kept.place]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    told = [
        process.communicate("go\n", timeout=DEADLINE)[0].split("\n")[:-1] for process in started
    ]
    lines = [line.split() for output in told for line in output]
    assert len(lines) == RETRIES and all(process.returncode == 0 for process in started)
    assert len({line[0] for line in lines}) == 1 and sum(line[1] == "False" for line in lines) == 1
    assert kept.titles() == ["Once"]


# -- steps
# -------------------------------------------------------------------------------------------------------------


def test_failed_step_is_rolled_back_and_its_key_stays_free(kept: SharedRecords) -> None:
    def fail(step: RecordTransaction) -> str:
        step.make(new_id(Thread), BODIES[1])
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError):
        kept.do(fail, "key-1")
    assert (
        kept.records.count(RecordFilter()) == 0
        and kept.records.deeds() == []
        and not kept.records.has()
    )
    assert not kept.do(lambda step: step.make(new_id(Thread), BODIES[1]), "key-1").replayed


def test_step_reads_its_own_writes(kept: SharedRecords) -> None:
    def work(step: RecordTransaction) -> str:
        made = step.make(new_id(Thread), Thread("One"))
        after = step.put(replace(made, body=Thread("Two", tags=("x",))))
        assert step.get(made.id) == after and after.version == 2
        assert (
            step.select(RecordFilter(refs=(("tag", "x"),)))
            == [after]
            == step.starting(made.id[:20])
        )
        return made.id

    assert kept.one(kept.do(work).result).body.title == "Two"


@pytest.mark.parametrize("body", BODIES, ids=kind_of)
def test_record_of_every_kind_is_read_back_unchanged(kept: SharedRecords, body: Body) -> None:
    record = kept.make(body, AGENT)
    assert (record.body, record.kind, record.author, record.version) == (
        body,
        kind_of(body),
        "agent",
        1,
    )
    assert record.created == record.updated > 0
    for role, target in refs_of(body):
        assert kept.records.select(RecordFilter(kinds=(record.kind,), refs=((role, target),))) == [
            record
        ], role


def test_stale_version_of_a_record_is_refused(kept: SharedRecords) -> None:
    record = kept.make(Task("One"))
    seen = kept.one(record.id)
    kept.do_elsewhere(lambda step: step.put(replace(seen, body=Task("Two"))))
    error = refused(lambda: kept.do(lambda step: step.put(replace(seen, body=Task("Three")))))
    assert (error.code, error.retryable, error.context) == (
        "RECORD_CHANGED",
        True,
        {"id": record.id, "version": 2},
    )
    assert (
        refused(lambda: kept.do(lambda step: step.make(record.id, Task("Four")))).code
        == "RECORD_CHANGED"
    )
    assert kept.one(record.id).body.title == "Two"


def test_author_and_creation_time_never_change(kept: SharedRecords) -> None:
    record = kept.make(Task("One"), AGENT)
    kept.do(lambda step: step.put(replace(record, body=Task("Two"), author="somebody", created=1)))
    after = kept.one(record.id)
    assert (after.author, after.created) == (
        "agent",
        record.created,
    ) and after.updated >= record.updated


def test_write_for_another_author_is_logged_with_its_actor(kept: SharedRecords) -> None:
    def work(step: RecordTransaction) -> str:
        step.author = "agent"
        return step.make(new_id(Thread), Thread("Approved")).id

    number = kept.do(work).result
    assert kept.one(number).author == "agent"
    assert [(deed.actor, deed.tier) for deed in kept.records.deeds(number)] == [("person", 4)]


def test_every_earlier_version_is_kept(kept: SharedRecords) -> None:
    number = kept.make(Artifact("One")).id
    kept.change(number, title="Two")
    kept.change(number, state="proposed")
    versions = kept.records.versions(number)
    assert [
        (version, record.body.title, record.body.state) for version, record in versions.items()
    ] == [(1, "One", "draft"), (2, "Two", "draft"), (3, "Two", "proposed")]
    assert versions[3] == kept.one(number) and kept.records.versions("artifact_none") == {}


def test_audit_log_has_actor_action_and_key(kept: SharedRecords) -> None:
    number = kept.make(Task("One"), AGENT).id

    def work(step: RecordTransaction) -> None:
        record = step.get(number)
        assert record is not None
        step.put(replace(record, body=Task("Two")), "rename")

    kept.do(work, "key-9")
    newest, first = kept.records.deeds(number)
    assert (newest.actor, newest.key, newest.action, newest.version) == (
        "person",
        "key-9",
        "rename",
        2,
    )
    assert (first.actor, first.tier, first.action, first.version) == ("agent", 1, "write", 1)
    assert newest.at >= first.at and newest.id > first.id


# -- filters
# ------------------------------------------------------------------------------------------------------------


def test_references_follow_the_last_version_of_a_record(kept: SharedRecords) -> None:
    number = kept.make(Task("One", thread="thread_1", assignees=("lena",))).id
    kept.change(number, thread="thread_2", assignees=())
    assert (
        kept.titles(refs=(("thread", "thread_1"),))
        == []
        == kept.titles(refs=(("assignee", "lena"),))
    )
    assert kept.titles(refs=(("thread", "thread_2"),)) == ["One"]
    assert [record.id for record in kept.records.pointing(["thread_1", "thread_2"])] == [number]
    assert kept.records.pointing(["thread_2"], ["about"]) == [] == kept.records.pointing([])


def test_record_filter_combines_every_condition(kept: SharedRecords) -> None:
    kept.make(Task("A", state="blocked", tags=("red",)), AGENT)
    kept.make(Task("B", tags=("red",), sensitivity=SENSITIVE))
    kept.make(Thread("C", tags=("red",)))
    assert kept.titles() == ["C", "B", "A"]
    assert kept.titles(kinds=("task",), refs=(("tag", "red"),)) == ["B", "A"]
    assert kept.titles(kinds=("task",), states=("blocked",), authors=("agent",)) == ["A"]
    assert (
        kept.titles(sensitivity=SENSITIVE) == ["B"]
        and kept.records.count(RecordFilter(refs=(("tag", "red"),))) == 3
    )
    assert kept.titles(refs=(("tag", "red"), ("tag", "blue"))) == []


def test_pages_follow_one_another_without_gap_or_repetition(kept: SharedRecords) -> None:
    made = [kept.make(Task(f"{number}")).id for number in range(7)]
    seen: list[str] = []
    while page := kept.records.select(
        RecordFilter(kinds=("task",), before=seen[-1] if seen else ""), 3
    ):
        seen += [record.id for record in page]
    assert seen == made[::-1]
    assert [record.id for record in kept.records.select(RecordFilter(), 2, 2)] == made[4:2:-1]


def test_filter_by_update_orders_last_changed_first(kept: SharedRecords) -> None:
    first = kept.make(Task("first"))
    kept.make(Task("second"))

    def touch() -> int:
        return kept.change(first.id, notes=f"{next(kept.keys)}").updated

    while touch() == kept.records.select(RecordFilter(refs=(), kinds=("task",)))[0].updated:
        pass  # the clock has milliseconds
    assert kept.titles(by_change=True) == ["first", "second"] and kept.titles() == [
        "second",
        "first",
    ]
    changed = kept.one(first.id).updated
    assert kept.titles(since=changed) == ["first"] and kept.titles(until=changed) == ["second"]


def test_code_is_found_by_its_file_and_by_the_folder_above(kept: SharedRecords) -> None:
    kept.make(Thread("deep", code_links=(CodeLink("src/a/b.py"),)))
    kept.make(Thread("beside", code_links=(CodeLink("src/a-b.py"),)))
    for path, titles in (
        ("src/a/b.py", ["deep"]),
        ("src/a", ["deep"]),
        ("src", ["beside", "deep"]),
        ("sr", []),
    ):
        assert [record.body.title for record in kept.records.by_path(path)] == titles


@pytest.mark.parametrize(
    ("few", "walked"), [(3_000, 200), (4, 200), (4, 1)], ids=["sorted", "walked", "too many"]
)
def test_newest_referring_records_are_the_same_for_few_and_many(
    kept: SharedRecords, monkeypatch, few, walked
) -> None:
    monkeypatch.setattr(row_reader, "FEW", few)
    monkeypatch.setattr(row_reader, "MOST_WALKED", walked)
    chance, files = random.Random(3), ("src/a.py", "src/b/c.py", "src/b/d.py", "src-other/e.py")

    def fill(step: RecordTransaction) -> None:
        for number in range(60):
            links = tuple(
                CodeLink(path, symbol="Lamp") for path in chance.sample(files, chance.randrange(4))
            )
            make = chance.choice((Thread, Observation, Task, Artifact))
            body = make(
                f"{number}", code_links=links, tags=("lamp",) if chance.random() < 0.5 else ()
            )
            step.make(new_id(make), body)

    kept.do(fill)
    every = kept.records.select(RecordFilter(), 1_000)
    for limit in (1, 5, 200):
        for path in ("src/a.py", "src", "src/b", "nowhere"):
            below = [
                record
                for record in every
                if any(f"{link.path}/".startswith(f"{path}/") for link in record.body.code_links)
            ]
            assert kept.records.by_path(path, limit) == below[:limit]
        for roles in ((), ("tag",), ("symbol", "path"), ("about",)):
            for targets in (["lamp"], ["lamp", "src/a.py"], ["nowhere"]):
                asked = {
                    (role, target)
                    for role in roles or ("tag", "symbol", "path")
                    for target in targets
                }
                pointing = [record for record in every if asked & set(refs_of(record.body))]
                assert kept.records.pointing(targets, roles, limit) == pointing[:limit]


def test_records_due_for_review_are_found(kept: SharedRecords) -> None:
    kept.make(Artifact("late", review_by="2026-01-01"))
    kept.make(Artifact("later", review_by="2027-01-01"))
    kept.make(Artifact("never"))
    assert kept.titles(due="2026-06-01") == ["late"]


def test_record_is_found_by_the_start_of_its_id(kept: SharedRecords) -> None:
    task, thread = kept.make(Task("task")), kept.make(Thread("thread"))
    assert kept.records.starting(task.id[:-4]) == [task] and kept.records.starting("thread_") == [
        thread
    ]
    assert kept.records.starting("task_Z") == []


# -- invariants
# --------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=12))
@settings(max_examples=25)
def test_key_writes_once_under_any_sequence_of_requests(asked: list[tuple[str, str]]) -> None:
    with closing(Store(None)) as store:
        first: dict[str, tuple[str, str]] = {}
        for key, payload in asked:

            def work(step: RecordTransaction) -> str:
                return step.make(new_id(Task), Task("T")).id

            def perform(key: str = key, payload: str = payload) -> TransactionResult:
                return store.records.perform(
                    work,
                    TransactionOptions(
                        actor=AGENT,
                        key=key,
                        action="a",
                        payload=payload,
                        wording=lambda record, get: None,
                    ),
                )

            known = first.get(key)
            if known is None:
                first[key] = (payload, perform().result)
            elif known[0] == payload:
                assert perform() == TransactionResult(known[1], True)
            else:
                assert refused(perform).code == "IDEMPOTENCY_REPLAY"
        assert store.records.count(RecordFilter()) == len(first)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.booleans()), max_size=20))
@settings(max_examples=25)
def test_no_update_is_lost_in_any_order_of_writers(turns: list[tuple[int, bool]]) -> None:
    """Each of three reads, or writes its last reading with its mark added."""
    with closing(Store(None)) as store:
        perform = store.records.perform
        common: dict[str, Any] = {
            "actor": AGENT,
            "action": "a",
            "payload": "",
            "wording": lambda record, get: None,
        }
        number = perform(
            lambda step: step.make(new_id(Task), Task("T")).id,
            TransactionOptions(key="first", **common),
        ).result
        seen: dict[int, Record[Task]] = {}
        written: list[str] = []
        for turn, (who, reads) in enumerate(turns):
            if reads or who not in seen:
                found = store.records.one(number)
                assert found is not None
                seen[who] = found
                continue
            mine = seen[who]
            mark = f"m{turn}"
            body = replace(mine.body, tags=(*mine.body.tags, mark))
            try:
                options = TransactionOptions(key=mark, **common)
                perform(lambda step: step.put(replace(mine, body=body)).id, options)  # noqa: B023
                written.append(mark)
            except CortexError as error:
                assert error.code == "RECORD_CHANGED"
        last = store.records.one(number)
        assert (
            last is not None
            and list(last.body.tags) == written
            and last.version == len(written) + 1
        )
        assert list(store.records.versions(number)) == list(range(1, len(written) + 2))


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
links = st.builds(CodeLink, path=texts, symbol=texts, line_start=st.integers(0, 9))
bodies = st.one_of(
    st.builds(Thread, title=texts, body=texts, tags=st.lists(texts, max_size=3).map(tuple), code_links=st.tuples(links)),
    st.builds(Draft, type=texts, title=texts, body=texts, patch=st.tuples(st.tuples(texts, texts))),
    st.builds(Subcortex, slug=texts, name=texts, glossary=st.tuples(st.builds(Term, term=texts, meaning=texts))),
    st.builds(Artifact, title=texts, evidence=st.tuples(st.builds(Evidence, kind=texts, ref=texts)), last_reviewed=st.integers(0)),
)  # fmt: skip


@given(bodies)
def test_record_body_is_read_back_from_json_unchanged(body: Body) -> None:
    assert from_json(kind_of(body), to_json(body)) == body


def test_unknown_fields_of_a_newer_cortex_are_left_out() -> None:
    assert from_json("task", '{"title": "T", "mood": "good", "tags": ["a"]}') == Task(
        "T", tags=("a",)
    )


# -- SQLite: search, and the audit log
# -----------------------------------------------------------------


@pytest.fixture
def searchable(open_store: Callable[..., Store], tmp_path: Path) -> tuple[Store, SharedRecords]:
    store = open_store()
    return store, SharedRecords(store.records, store.records, store.records, str(tmp_path), count())


def ask(store: Store, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with store._connections.read() as connection:
        return connection.execute(sql, values).fetchall()


def docs(store: Store) -> set[tuple[str, str]]:
    """The name of its source and the path of every doc."""
    return set(
        ask(
            store,
            "SELECT sources.name, docs.path FROM docs JOIN sources ON sources.id = docs.source",
        )
    )


def test_record_is_found_only_in_the_source_of_its_kind(
    searchable: tuple[Store, SharedRecords],
) -> None:
    store, kept = searchable
    thread, task = kept.make(Thread("Lamps")), kept.make(Task("Doors"))
    for body in BODIES[-3:]:
        kept.make(body)
    assert docs(store) == {("thread", thread.id), ("task", task.id)}
    sources = store.records.sources(["thread", "task", "draft"])
    assert [source.name for source in sources] == ["thread", "task"] and {
        source.kind for source in sources
    } == {"records"}
    found = store.records.docs(RecordFilter(kinds=("thread",)), [source.id for source in sources])
    assert found is not None
    assert store.records.by_docs(list(found)) == {next(iter(found)): thread}


def test_changed_record_is_found_by_its_new_text_only(
    searchable: tuple[Store, SharedRecords],
) -> None:
    store, kept = searchable
    number = kept.make(Thread("Lamps")).id
    before = ask(store, "SELECT id FROM docs")
    kept.change(number, title="Doors")
    assert docs(store) == {("thread", number)} and ask(store, "SELECT id FROM docs") != before
    assert len(ask(store, "SELECT doc FROM gone")) == 1
    after = ask(store, "SELECT id FROM docs")
    kept.change(number, state="resolved")  # it says the same
    assert ask(store, "SELECT id FROM docs") == after


def test_sensitive_record_moves_to_a_source_without_vectors(
    searchable: tuple[Store, SharedRecords],
) -> None:
    store, kept = searchable
    number = kept.make(Thread("Salaries")).id
    kept.change(number, sensitivity=SENSITIVE)
    assert docs(store) == {("thread!", number)}
    assert ask(store, "SELECT private FROM blobs JOIN docs ON docs.blob = blobs.id") == [(1,)]
    kept.change(number, sensitivity="normal")
    assert docs(store) == {("thread", number)}


def test_vectors_are_made_for_every_record_but_private_ones(
    searchable: tuple[Store, SharedRecords],
) -> None:
    store, kept = searchable
    number = kept.make(Thread("Lamps")).id
    kept.make(Thread("Lamps", sensitivity=SENSITIVE))  # the same text is another one
    assert sorted(ask(store, "SELECT private FROM blobs")) == [(0,), (1,)]
    embedder, embedded = HashingEmbedder(32), list[str]()

    def embed(texts: list[str]) -> np.ndarray:
        embedded.extend(texts)
        return embedder.embed(texts, "passage")

    store.indexes.catch_up([EmbeddingJob(embedder.stamp, embed)])
    public = ask(
        store, "SELECT chunks.id FROM chunks JOIN blobs ON blobs.id = chunks.blob WHERE NOT private"
    )
    assert (
        len(embedded) == 1
        and [(number,) for number in store.indexes.vectors(embedder.stamp).ids().tolist()] == public
    )
    kept.change(number, sensitivity=SENSITIVE)
    store.indexes.catch_up([EmbeddingJob(embedder.stamp, embed)])
    assert len(embedded) == 1 and len(store.indexes.vectors(embedder.stamp).ids()) == 0
    assert store.paid.plan(store.paid.model(embedder.stamp)) == []


def test_record_with_a_changed_context_is_reworded_without_a_new_version(
    searchable: tuple[Store, SharedRecords],
) -> None:
    store, kept = searchable
    record = kept.make(Thread("Lamps"))
    before = ask(store, "SELECT id FROM docs")

    def reword(step: RecordTransaction) -> None:
        step.reword(replace(record, body=Thread("Lamps of the replica")))

    kept.do(reword)
    assert ask(store, "SELECT id FROM docs") != before and docs(store) == {("thread", record.id)}
    assert kept.one(record.id) == record and len(kept.records.deeds()) == 1


@pytest.mark.parametrize("sql", ["DELETE FROM audit", "UPDATE audit SET actor = 'nobody'"])
def test_sqlite_audit_log_cannot_be_changed(
    searchable: tuple[Store, SharedRecords], tmp_path: Path, sql: str
) -> None:
    _, kept = searchable
    kept.make(Task("One"))
    with (
        closing(sqlite3.connect(tmp_path / "cortex.db")) as raw,
        pytest.raises(sqlite3.IntegrityError, match="kept"),
    ):
        raw.execute(sql)
    assert [deed.actor for deed in kept.records.deeds()] == ["person"]


def test_store_older_than_records_is_migrated_and_keeps_everything(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "cortex.db")) as raw:
        for number, migrate in enumerate(schema.MIGRATIONS[:4]):
            migrate(raw)
            raw.execute(f"PRAGMA user_version = {number + 1}")
        raw.execute("INSERT INTO sources (kind, name, root) VALUES ('files', 'shop', '/shop')")
        raw.execute(
            "INSERT INTO blobs (hash, language, characters, lines, first_chunk, last_chunk, text) VALUES (x'01', 'python', 1, 1, 1, 1, x'00')"
        )
        raw.execute(
            "INSERT INTO docs (source, path, blob, size, mtime_ns, role, seq, checked_at) VALUES (1, 'a.py', 1, 1, 1, '', 1, 1)"
        )
        raw.execute("INSERT INTO meta VALUES ('left', 'alone')")
        raw.commit()
        before = {
            table: raw.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("sources", "docs", "meta")
        }
    with closing(Store(tmp_path)) as store:
        after = {table: ask(store, f"SELECT * FROM {table}") for table in before}
        assert [row for row in after["meta"] if row in before["meta"]] == before["meta"]
        assert (after["sources"], after["docs"]) == (before["sources"], before["docs"])
        assert ask(store, "SELECT hash, private FROM blobs") == [(b"\x01", 0)]
        assert ask(store, "PRAGMA user_version") == [(len(schema.MIGRATIONS),)]
        kept = SharedRecords(store.records, store.records, store.records, "", count())
        assert kept.make(Task("One")).version == 1
