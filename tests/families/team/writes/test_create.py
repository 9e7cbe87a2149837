"""New records: keys, places, permissions, indexing, and the consequences of each kind."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cortex.base.errors import CortexError
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    Comment,
    Evidence,
    Link,
    Observation,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
    kind_of,
)
from cortex.base.types import Mode
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.engine.store import TransactionOptions
from cortex.families.team.ids import new_id
from cortex.families.team.index_text import wording
from cortex.families.team.permissions import TIERS
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.writes.actions import archive
from cortex.families.team.writes.create import (
    MOST_AT_ONCE,
    add_comment,
    create,
    create_observations,
    create_once,
)
from cortex.families.team.writes.transactions import perform
from families.team.writes.record_writes import (
    AGENT,
    PERSON,
    TOKEN,
    WRITER,
    count,
    found_by,
    make,
    now,
    refused,
)

# -- kinds
# -------------------------------------------------------------------------------------------------------


def bodies(library: Library) -> list[Body]:
    thread, other = make(library, Thread("First thread")), make(library, Thread("Second thread"))
    return [
        Subcortex("billing", "Quarzite billing"),
        Thread("Quarzite rounding"),
        Comment(thread.id, "quarzite is right"),
        Observation("Quarzite was seen"),
        Artifact("Quarzite decision", "half to even"),
        Task("Quarzite to fix"),
        Link(thread.id, "supports", other.id),
    ]


def test_new_record_of_every_kind_is_found_at_once(library: Library) -> None:
    for body in bodies(library):
        record = make(library, body)
        assert (record.kind, record.author, record.version) == (kind_of(body), "person", 1)
        assert now(library, record) == record
        if not isinstance(body, Link):
            assert record.id in found_by(library, "quarzite")


@pytest.mark.parametrize("number", range(7))
def test_write_without_permission_is_refused(library: Library, number: int) -> None:
    body = bodies(library)[number]
    action = {"subcortex": "create_subcortex", "comment": "comment", "observation": "observe", "artifact": "propose_artifact", "link": "link"}.get(kind_of(body), f"create_{kind_of(body)}")  # fmt: skip
    before = library.store.records.count(RecordFilter())
    for tier in range(5):
        actor = Actor(f"tier-{tier}", tier)
        if tier < TIERS[action]:
            error = refused(lambda actor=actor: make(library, body, actor))
            assert error.code == "RIGHTS_MISSING" and error.context["needed"] == TIERS[action]
            assert library.store.records.count(RecordFilter()) == before
        else:
            make(library, body, actor)
            break


def test_sensitive_write_needs_permission(library: Library) -> None:
    for body in (Observation("T", sensitivity=SENSITIVE), Thread("T", sensitivity=SENSITIVE)):
        assert refused(lambda body=body: make(library, body, WRITER)).code == "RIGHTS_MISSING"
        assert make(library, body).body.sensitivity == SENSITIVE


def test_record_within_a_sensitive_one_is_sensitive(library: Library) -> None:
    make(library, Subcortex("salaries", "Salaries", sensitivity=SENSITIVE))
    thread = make(library, Thread("Raises", subcortex="salaries"))
    comment = make(library, Comment(thread.id, "They are due in March."))
    assert thread.body.sensitivity == comment.body.sensitivity == SENSITIVE
    assert comment.body.subcortex == thread.body.subcortex
    for body in (Comment(thread.id, "no"), Observation("Seen", subcortex="salaries")):
        assert refused(lambda body=body: make(library, body, WRITER)).code == "RIGHTS_MISSING"
    link = make(library, Link(thread.id, "supports", make(library, Thread("Open")).id, "because"))
    assert link.body.sensitivity == SENSITIVE


# -- places
# ------------------------------------------------------------------------------------------------------------


def test_subcortex_is_named_by_its_slug_or_id(library: Library) -> None:
    scope = make(library, Subcortex("Billing", "Billing"))
    assert scope.body.slug == "billing"
    for ref in ("billing", "BILLING", scope.id):
        assert make(library, Thread("T", subcortex=ref)).body.subcortex == scope.id


def test_slug_is_unique(library: Library) -> None:
    first = make(library, Subcortex("billing", "Billing"))
    error = refused(lambda: make(library, Subcortex("billing", "Another")))
    assert (
        error.code == "RECORD_INVALID"
        and first.id in error.message
        and count(library, "subcortex") == 1
    )


def test_unknown_subcortex_is_refused_with_near_ones(library: Library) -> None:
    make(library, Subcortex("billing", "Billing"))
    error = refused(lambda: make(library, Thread("T", subcortex="biling")))
    assert (
        error.code == "SCOPE_NOT_FOUND"
        and error.context["near"] == ["billing"]
        and count(library, "thread") == 0
    )


def test_archived_record_takes_no_new_records(library: Library) -> None:
    make(library, Subcortex("billing", "Billing"))
    thread = make(library, Thread("T", subcortex="billing"))
    archive(library, thread.id, actor=PERSON)
    assert refused(lambda: make(library, Comment(thread.id, "late"))).code == "RECORD_INVALID"
    archive(library, "billing", actor=PERSON)
    assert refused(lambda: make(library, Thread("U", subcortex="billing"))).code == "RECORD_INVALID"


def test_reference_to_nothing_is_refused(library: Library) -> None:
    thread, other = make(library, Thread("T")), make(library, Thread("U"))
    comment = make(library, Comment(thread.id, "B"))
    for body in (
        Comment(new_id(Thread), "B"),
        Comment(comment.id, "B"),  # no thread
        Comment(thread.id, "B", parent=new_id(Comment)),
        Comment(other.id, "B", parent=comment.id),  # of another thread
        Thread("T", task=new_id(Task)),
        Observation("T", thread=new_id(Thread)),
        Task("T", thread=comment.id),
        Artifact("T", supersedes=new_id(Artifact)),
        Artifact("T", evidence=(Evidence("thread", new_id(Thread)),)),
        Artifact("T", evidence=(Evidence("artifact", thread.id),)),
        Link(thread.id, "supports", new_id(Thread)),
        Link("nobody", "supports", thread.id),
        Subcortex("billing", "B", pinned_threads=(comment.id,)),
    ):
        assert refused(lambda body=body: make(library, body)).code == "TARGET_NOT_FOUND", body
    assert make(library, Comment(thread.id, "B", parent=comment.id)).body.parent == comment.id


# -- artifacts, tasks, links
# -------------------------------------------------------------------------------------------


def test_accepted_artifact_needs_evidence(library: Library) -> None:
    thread = make(library, Thread("T"))
    assert (
        refused(lambda: make(library, Artifact("A", state="accepted"))).context["field"]
        == "evidence"
    )
    evidence = (Evidence("thread", thread.id),)
    assert (
        refused(
            lambda: make(library, Artifact("A", state="accepted", evidence=evidence), WRITER)
        ).code
        == "RIGHTS_MISSING"
    )
    record = make(library, Artifact("A", state="accepted", evidence=evidence))
    assert record.body.owner == "person" and record.body.last_reviewed == record.created


def test_new_accepted_artifact_supersedes_another(library: Library) -> None:
    evidence = (Evidence("url", "https://example.com/"),)
    old = make(library, Artifact("Old", state="accepted", evidence=evidence))
    proposed = make(library, Artifact("Maybe", state="proposed", supersedes=old.id))
    assert now(library, old).body.state == "accepted" and proposed.body.supersedes == old.id
    new = make(library, Artifact("New", state="accepted", evidence=evidence, supersedes=old.id))
    assert (now(library, old).body.state, now(library, old).body.superseded_by) == (
        "superseded",
        new.id,
    )
    (link,) = library.store.records.select(RecordFilter(kinds=("link",)))
    assert (link.body.source, link.body.relation, link.body.target) == (
        new.id,
        "supersedes",
        old.id,
    )
    third = Artifact("Third", state="accepted", evidence=evidence, supersedes=old.id)
    assert refused(lambda: make(library, third)).code == "RECORD_INVALID"


def test_task_with_an_assignee_is_assigned(library: Library) -> None:
    assert make(library, Task("T")).body.state == "inbox"
    mine = make(library, Task("T", assignees=("me", "Ada", "lena", "@lena")))
    assert (mine.body.state, mine.body.assignees) == ("assigned", ("person", "lena"))
    assert make(library, Task("T", assignees=("me",)), WRITER).body.assignees == ("agent",)


def test_same_link_is_kept_once(library: Library) -> None:
    one, two = make(library, Thread("One")), make(library, Thread("Two"))
    first = make(library, Link(one.id, "supports", two.id))
    assert make(library, Link(one.id, "supports", two.id)).id == first.id
    assert make(library, Link(two.id, "supports", one.id)).id != first.id


def test_supersedes_link_is_in_both_artifacts(library: Library) -> None:
    evidence = (Evidence("url", "https://example.com/"),)
    old, new = (
        make(library, Artifact("Old")),
        make(library, Artifact("New", state="accepted", evidence=evidence)),
    )
    make(library, Link(new.id, "supersedes", old.id))
    assert (
        now(library, new).body.supersedes == old.id
        and now(library, old).body.superseded_by == new.id
    )
    assert (
        refused(lambda: make(library, Link(old.id, "supersedes", new.id))).code == "RECORD_INVALID"
    )


# -- keys
# --------------------------------------------------------------------------------------------------------------


def test_same_key_gives_one_record_and_refuses_another_payload(library: Library) -> None:
    first = create_once(library, Thread("T"), actor=PERSON, key="s:1")
    again = create_once(library, Thread("T"), actor=PERSON, key="s:1")
    assert (first.replayed, again.replayed, again.record) == (False, True, first.record)
    assert refused(lambda: make(library, Thread("U"), key="s:1")).code == "IDEMPOTENCY_REPLAY"
    assert (
        refused(lambda: make(library, Task("T"), key="s:1", payload=repr(Thread("T")))).code
        == "IDEMPOTENCY_REPLAY"
    )
    assert count(library) == 1


def test_32_concurrent_retries_give_one_record(library: Library) -> None:
    ready = threading.Barrier(32, timeout=60)

    def retry(_: int) -> str:
        ready.wait()
        return make(library, Observation("Once"), AGENT, key="s:1").id

    with ThreadPoolExecutor(32) as threads:
        ids = set(threads.map(retry, range(32)))
    assert len(ids) == 1 and count(library) == 1


@pytest.mark.parametrize("key", ["with blank", "x" * 201, "\n", "é"])
def test_invalid_key_is_refused_with_a_valid_one(library: Library, key: str) -> None:
    error = refused(lambda: make(library, Thread("T"), key=key))
    assert error.code == "RECORD_INVALID" and "key_" in error.suggestions[0] and count(library) == 0


def test_failed_step_writes_nothing(library: Library) -> None:
    thread = make(library, Thread("T"))

    def work(step: Any) -> str:
        add_comment(step, Comment(thread.id, "@lena look"))
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError):
        perform(library, work, actor=PERSON, key="s:1", action="test", payload="")
    assert now(library, thread).version == 1 and count(library, "comment", "notification") == 0


# -- observations, several at once
# -------------------------------------------------------------------------------------


def test_valid_observations_are_written_and_invalid_ones_reported(library: Library) -> None:
    several = [
        Observation("Good"),
        Observation(""),
        Observation("Keys", f"use {TOKEN}"),
        Observation("Lost", subcortex="nowhere"),
        Observation("Private", sensitivity=SENSITIVE),
        Observation("Fine", "too"),
    ]
    batch = create_observations(library, several, actor=AGENT, key="s:1")
    codes = [outcome.error.code if outcome.error else "" for outcome in batch.outcomes]
    assert codes == [
        "",
        "RECORD_INVALID",
        "SENSITIVE_BLOCKED",
        "SCOPE_NOT_FOUND",
        "RIGHTS_MISSING",
        "",
    ]
    assert [outcome.index for outcome in batch.outcomes] == list(range(6)) and not batch.replayed
    assert [bool(outcome.id) for outcome in batch.outcomes] == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]
    assert count(library, "observation") == 2 and batch.outcomes[0].id in found_by(library, "good")

    again = create_observations(library, several, actor=AGENT, key="s:1")
    assert again.replayed and [outcome.id for outcome in again.outcomes] == [
        outcome.id for outcome in batch.outcomes
    ]
    for first, second in zip(batch.outcomes, again.outcomes, strict=True):
        assert (first.error is None) is (second.error is None)
        if first.error and second.error:
            assert (first.error.code, first.error.message) == (
                second.error.code,
                second.error.message,
            )
            assert type(first.error) is type(second.error)
    assert count(library, "observation") == 2


def test_batch_without_a_valid_record_frees_its_key(library: Library) -> None:
    several = [Observation("Lost", subcortex="billing")]
    batch = create_observations(library, several, actor=AGENT, key="s:1")
    assert [outcome.id for outcome in batch.outcomes] == [""] and not batch.replayed
    make(library, Subcortex("billing", "Billing"))
    again = create_observations(library, several, actor=AGENT, key="s:1")
    assert again.outcomes[0].id and not again.replayed


def test_refusal_by_a_check_is_reported_at_its_index(library: Library) -> None:
    no = CortexError(
        "SENSITIVE_BLOCKED", "a plugin says no", context={"field": "title", "why": Mode.WORDS}
    )
    several = [Observation("Good"), Observation("Bad")]
    for replayed in (False, True):
        batch = create_observations(library, several, actor=AGENT, key="s:1", refused={1: no})
        assert [outcome.error and outcome.error.code for outcome in batch.outcomes] == [
            None,
            "SENSITIVE_BLOCKED",
        ]
        assert batch.replayed is replayed and count(library, "observation") == 1


def test_batch_size_is_between_one_and_its_limit(library: Library) -> None:
    for number in (0, MOST_AT_ONCE + 1):
        several = [Observation("T")] * number
        assert (
            refused(
                lambda several=several: create_observations(
                    library, several, actor=AGENT, key="s:1"
                )
            ).code
            == "RECORD_INVALID"
        )
    assert (
        refused(
            lambda: create_observations(
                library, [Observation("T")], actor=Actor("guest", 0), key="s:1"
            )
        ).code
        == "RIGHTS_MISSING"
    )


# -- killed processes
# ---------------------------------------------------------------------------------------


def test_record_of_a_killed_process_is_indexed_by_the_next(library, settings):
    def written(text, key):
        body = Thread("Who sings", text)
        return library.store.records.perform(
            lambda step: step.make(new_id(Thread), body).id,
            TransactionOptions(
                actor=PERSON,
                key=key,
                action="create_thread",
                payload=f"{body!r}",
                wording=wording(settings),
            ),
        ).result

    first = written("the walrus", "once")
    # A retry
    assert create(library, Thread("Who sings", "the walrus"), actor=PERSON, key="once").id == first
    assert [hit.record.id for hit in find(library, RecordQuery("walrus")).hits] == [first]
    second = written("the narwhal", "twice")
    assert find(library, RecordQuery("narwhal")).hits == ()
    library.catch_up()
    assert [hit.record.id for hit in find(library, RecordQuery("narwhal")).hits] == [second]


def test_records_are_found_after_their_indexes_were_deleted(library, settings, tmp_path):
    number = create(library, Thread("Walrus singing"), actor=PERSON).id
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    library.store.checkpoint()
    shutil.copy(settings.home / "cortex.db", copy)
    with Library(settings.model_copy(update={"home": copy}), embedders=Embedders(None)) as other:
        other.catch_up()
        assert [hit.record.id for hit in find(other.reader, RecordQuery("walrus")).hits] == [number]
