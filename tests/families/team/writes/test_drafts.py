"""Drafts: kept wherever they belong, published once, by a person, in the name of who drafted them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from cortex.base.actors import person
from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import (
    FOUND_KINDS,
    SENSITIVE,
    Actor,
    Artifact,
    Draft,
    Evidence,
    Notification,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.settings import Settings
from cortex.base.types import Query
from cortex.engine.library import Library
from cortex.families.team.inbox import inbox
from cortex.families.team.writes.actions import archive
from cortex.families.team.writes.create import create
from cortex.families.team.writes.drafts import (
    EXPIRES_MS,
    approve,
    create_draft,
    is_expired,
    listed,
    next_step,
    reject,
    state_of,
)
from cortex.families.team.writes.placement import Placement
from cortex.families.team.writes.update import revise

PERSON, AGENT = person(), Actor("agent", 1)


def make(library: Library, body: object) -> Record:
    return create(library, body, actor=PERSON)  # type: ignore[arg-type]


def draft(library: Library, drafted: Draft, **more: object) -> Record[Draft]:
    return create_draft(library, drafted, actor=AGENT, **more)[0]  # type: ignore[arg-type]


def notifications(library: Library, recipient: str) -> list[Notification]:
    wanted = RecordFilter(
        kinds=("notification",), states=("new",), refs=(("recipient", recipient),)
    )
    return [one.body for one in library.store.records.select(wanted)]


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(CortexError) as raised:
        call()
    return raised.value.code


def refusal(call: Callable[[], object]) -> CortexError:
    with pytest.raises(CortexError) as raised:
        call()
    return raised.value


# -- the chain
# ---------------------------------------------------------------------------------------------------------


def test_a_draft_is_approved_published_found_and_told(library: Library) -> None:
    thread = make(library, Thread("Which queue do we use?"))
    kept, replayed, following = create_draft(
        library,
        Draft("comment", "", "RabbitMQ drops messages above 4 MB.", target=thread.id),
        actor=AGENT,
        key="s1:draft:1",
    )
    assert (kept.body.state, kept.author, replayed) == ("pending_review", "agent", False)
    assert "a person decides" in following and thread.id in following
    assert "cortex team drafts" not in following  # an agent reads it, and may have a shell
    (waiting,) = inbox(library).entries
    assert (waiting.kind, waiting.about) == ("draft", kept.id)
    assert not library.store.records.select(RecordFilter(kinds=("comment",)))

    published = approve(library, kept.id, actor=PERSON, notes="well seen")

    comment = published.record
    assert (comment.kind, comment.author, comment.body.thread) == ("comment", "agent", thread.id)
    assert (
        published.draft.body.state == "published" and published.draft.body.published == comment.id
    )
    assert (published.draft.body.reviewed_by, published.draft.body.review_notes) == (
        "person",
        "well seen",
    )
    assert "4 MB" in library.store.records.get([thread.id])[thread.id].body.summary
    assert comment.id in found(library, "RabbitMQ drops")
    (told,) = notifications(library, "agent")
    assert (told.type, told.about) == ("draft_approved", kept.id)
    assert comment.id in told.reason and "well seen" in told.reason
    assert not notifications(library, "person") and not inbox(library).entries
    deeds = library.store.records.deeds(comment.id)
    assert [(deed.actor, deed.tier, deed.action) for deed in deeds] == [
        ("person", 4, "approve_draft")
    ]


def test_what_nobody_approved_is_not_found(library: Library) -> None:
    draft(library, Draft("artifact", "Queues", "The zebrafish queue is the only one that holds."))
    make(library, Thread("Something else"))
    assert found(library, "zebrafish") == []


@pytest.mark.parametrize("type", ["thread", "artifact"])
def test_an_approved_thread_or_artifact_has_all_that_its_draft_said(
    library: Library, type: str
) -> None:
    scope = make(library, Subcortex("payments", "Payments"))
    seen = make(library, Thread("An older thread"))
    drafted = Draft(
        type,
        "Retries",
        "Retry three times.",
        target_kind="subcortex",
        target="payments",
        citations=(seen.id, "src/retry.py:12"),
        tags=("queues",),
        thread_type="decision",
        artifact_type="runbook",
        summary="How often to retry." if type == "artifact" else "",
    )
    record = approve(library, draft(library, drafted).id, actor=PERSON).record
    assert (record.kind, record.author, record.body.subcortex) == (type, "agent", scope.id)
    assert record.body.tags == ("queues",)
    assert record.body.type == ("decision" if type == "thread" else "runbook")
    assert "src/retry.py:12" in record.body.body
    if isinstance(record.body, Artifact):
        assert (record.body.state, record.body.summary) == ("proposed", "How often to retry.")
        assert record.body.evidence == (Evidence("thread", seen.id),)
    else:
        assert seen.id in record.body.body


def test_a_thread_or_artifact_may_belong_to_no_subcortex(library: Library) -> None:
    record, _, following = create_draft(
        library, Draft("thread", "Alone", "By itself."), actor=AGENT
    )
    assert "of no subcortex" in following
    assert approve(library, record.id, actor=PERSON).record.body.subcortex == ""


def test_an_approved_change_of_a_task_is_made(library: Library) -> None:
    task = make(library, Task("Measure it"))
    drafted = draft(
        library,
        Draft("task_update", "", "Done on Monday.", target=task.id, patch=(("status", "done"),)),
    )
    assert drafted.body.title == "status: done"
    published = approve(library, drafted.id, actor=PERSON)
    assert (published.record.id, published.record.version) == (task.id, 2)
    assert (published.record.body.state, published.record.body.notes) == ("done", "Done on Monday.")
    assert published.record.author == "person"  # whose task it is stays


def test_a_comment_on_a_task_goes_to_its_thread(library: Library) -> None:
    thread = make(library, Thread("How to measure"))
    task = make(library, Task("Measure it", thread=thread.id))
    drafted = draft(library, Draft("comment", "", "With a clock.", target=task.id))
    assert approve(library, drafted.id, actor=PERSON).record.body.thread == thread.id
    lone = make(library, Task("Another one"))
    drafted, _, following = create_draft(
        library, Draft("comment", "", "Hm.", target=lone.id), actor=AGENT
    )
    assert "has no thread" in following
    assert code_of(lambda: approve(library, drafted.id, actor=PERSON)) == "TARGET_NOT_FOUND"


def test_a_possible_contradiction_of_what_is_published_waits_for_a_person(library: Library) -> None:
    make(
        library,
        Artifact("Timeout of the payment gateway", "The timeout is 30 seconds.", type="adr"),
    )
    drafted = draft(
        library, Draft("artifact", "Timeout of the payment gateway", "The timeout is 10 seconds.")
    )
    record = approve(library, drafted.id, actor=PERSON).record
    (link,) = library.store.records.select(RecordFilter(kinds=("link",), states=("candidate",)))
    assert link.body.source == record.id
    assert [entry.type for entry in inbox(library).entries] == ["contradiction"]


def found(library: Library, query: str) -> list[str]:
    lookup = library.store.records
    hits = library.search(Query(query), sources=lookup.sources(FOUND_KINDS)).hits
    return [doc.id for doc in lookup.by_docs([hit.doc for hit in hits]).values()]


# -- where it goes
# -----------------------------------------------------------------------------------------------------


def test_a_draft_without_a_target_goes_where_the_route_says(library: Library) -> None:
    scope = make(library, Subcortex("payments", "Payments"))
    thread = make(library, Thread("How to measure", subcortex="payments"))
    task = make(library, Task("Measure it"))
    where = Placement(thread.id, task.id, scope.id)
    comment = draft(library, Draft("comment", "", "With a clock."), where=where)
    assert (comment.body.target_kind, comment.body.target) == ("thread", thread.id)
    assert draft(library, Draft("artifact", "A", "B"), where=where).body.target == scope.id
    assert draft(library, Draft("task_update", "", "Noted."), where=where).body.target == task.id
    named = draft(
        library, Draft("comment", "", "With a clock.", target="thread_nowhere"), where=where
    )
    assert named.body.target == "thread_nowhere"


@pytest.mark.parametrize(
    ("drafted", "missing"),
    [
        (Draft("comment", "", "Hello."), "names no thread"),
        (Draft("comment", "", "Hello.", target="thread_01K00000000000000000000000"), "no thread"),
        (
            Draft("comment", "", "Hello.", target_kind="subcortex", target="payments"),
            "belongs to a thread or a task",
        ),
        (Draft("thread", "Hello", "", target="payments"), "no subcortex 'payments'"),
        (Draft("task_update", "", "", patch=(("priority", "high"),)), "names no task"),
    ],
)
def test_a_draft_that_belongs_nowhere_is_kept_until_a_person_says_where(
    library: Library, drafted: Draft, missing: str
) -> None:
    record, _, following = create_draft(library, drafted, actor=AGENT)
    assert missing in following and "says where it belongs" in following
    error = refusal(lambda: approve(library, record.id, actor=PERSON))
    assert (
        error.code == "TARGET_NOT_FOUND"
        and missing in error.message
        and "--target" in error.suggestions[0]
    )
    assert listed(library) == [record]

    thread, scope, task = Thread("T"), Subcortex("elsewhere", "Elsewhere"), Task("T")
    places = {"comment": thread, "thread": scope, "task_update": task}
    place = make(library, places[drafted.type])
    published = approve(library, record.id, actor=PERSON, target=place.id)
    assert published.draft.body.target == place.id and published.draft.body.state == "published"


def test_nothing_is_published_where_the_target_was_archived_since(library: Library) -> None:
    thread, other = make(library, Thread("Old")), make(library, Thread("New"))
    record = draft(library, Draft("comment", "", "Hello.", target=thread.id))
    archive(library, thread.id, actor=PERSON)
    error = refusal(lambda: approve(library, record.id, actor=PERSON))
    assert error.code == "TARGET_NOT_FOUND" and "archived" in error.message
    assert "archived" in next_step(library.store.records, record)
    assert approve(library, record.id, actor=PERSON, target=other.id).record.body.thread == other.id


def test_nothing_is_published_where_the_target_is_gone(
    library: Library, settings: Settings
) -> None:
    thread = make(library, Thread("Old"))
    record = draft(library, Draft("comment", "", "Hello.", target=thread.id))
    with closing(sqlite3.connect(settings.home / "cortex.db")) as base, base:
        base.execute("DELETE FROM records WHERE id = ?", (thread.id,))
    assert code_of(lambda: approve(library, record.id, actor=PERSON)) == "TARGET_NOT_FOUND"
    assert [one.body.state for one in listed(library)] == ["pending_review"]


def test_evidence_that_is_not_there_is_only_cited(library: Library) -> None:
    gone = "obs_01K00000000000000000000000"
    drafted = Draft(
        "artifact",
        "A",
        "B",
        evidence=(Evidence("observation", gone),),
        citations=("https://a.example/b",),
    )
    record = approve(library, draft(library, drafted).id, actor=PERSON).record
    assert record.body.evidence == (Evidence("url", "https://a.example/b"),)
    assert gone in record.body.body


# -- deciding
# ----------------------------------------------------------------------------------------------------------


def test_a_draft_is_decided_about_once(library: Library) -> None:
    thread = make(library, Thread("T"))
    first, second = (
        draft(library, Draft("comment", "", text, target=thread.id)) for text in ("One.", "Two.")
    )
    published = approve(library, first.id, actor=PERSON)
    again = refusal(lambda: approve(library, first.id, actor=PERSON))
    assert again.code == "RECORD_CHANGED" and published.record.id in again.message
    assert code_of(lambda: reject(library, first.id, actor=PERSON)) == "RECORD_CHANGED"
    reject(library, second.id, actor=PERSON)
    assert code_of(lambda: approve(library, second.id, actor=PERSON)) == "RECORD_CHANGED"
    assert len(library.store.records.select(RecordFilter(kinds=("comment",)))) == 1


def test_the_same_key_approves_the_same_again(library: Library) -> None:
    thread = make(library, Thread("T"))
    record = draft(library, Draft("comment", "", "Hello.", target=thread.id))
    first = approve(library, record.id, actor=PERSON, key="k")
    again = approve(library, record.id, actor=PERSON, key="k")
    assert again == replace(first, replayed=True)
    assert (
        code_of(lambda: approve(library, record.id, actor=PERSON, key="k", notes="x"))
        == "IDEMPOTENCY_REPLAY"
    )


def test_approvals_at_once_publish_once(library: Library) -> None:
    thread = make(library, Thread("T"))
    record = draft(library, Draft("comment", "", "Hello.", target=thread.id))
    outcomes: list[str] = []
    gate = threading.Barrier(4)

    def run() -> None:
        gate.wait(10)
        try:
            outcomes.append(approve(library, record.id, actor=PERSON).record.id)
        except InputError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    (comment,) = library.store.records.select(RecordFilter(kinds=("comment",)))
    assert sorted(outcomes) == ["RECORD_CHANGED"] * 3 + [comment.id]


def test_a_rejected_draft_is_told_to_who_drafted_it(library: Library) -> None:
    record = draft(library, Draft("thread", "Hello", "World"))
    rejected = reject(library, record.id, actor=PERSON, notes="we know that")
    assert (rejected.body.state, rejected.body.review_notes) == ("rejected", "we know that")
    (told,) = notifications(library, "agent")
    assert told.type == "draft_rejected" and "we know that" in told.reason
    assert not notifications(library, "person")
    assert "we know that" in next_step(library.store.records, rejected)
    assert not library.store.records.select(RecordFilter(kinds=("thread",)))


def test_only_who_may_decides(library: Library) -> None:
    record = draft(library, Draft("thread", "Hello", "World"))
    for tier in (1, 2):
        actor = Actor("agent", tier)
        assert (
            code_of(lambda actor=actor: approve(library, record.id, actor=actor))
            == "RIGHTS_MISSING"
        )
        assert (
            code_of(lambda actor=actor: reject(library, record.id, actor=actor)) == "RIGHTS_MISSING"
        )
    assert (
        code_of(lambda: create_draft(library, Draft("thread", "a", "b"), actor=Actor("reader", 0)))
        == "RIGHTS_MISSING"
    )


def test_a_draft_that_became_too_old_is_expired_by_the_clock_and_may_still_be_approved(
    library: Library,
) -> None:
    record = draft(library, Draft("thread", "Hello", "World"))
    assert record.body.expires == record.created + EXPIRES_MS
    early, late = record.body.expires - 1, record.body.expires
    assert not is_expired(record.body, early) and is_expired(record.body, late)
    assert [state_of(record.body, now) for now in (early, late)] == ["pending_review", "expired"]
    assert listed(library, now=early) == [record] and listed(library, now=late) == []
    assert (
        listed(library, ("expired",), now=late) == [record]
        and listed(library, ("expired",), now=early) == []
    )
    assert inbox(library, now=early).entries and not inbox(library, now=late).entries
    approve(library, record.id, actor=PERSON)
    assert not listed(library, ("expired",), now=late)


def test_nobody_hands_in_a_draft_that_is_decided_about(library: Library) -> None:
    drafted = Draft(
        "thread",
        "a",
        "b",
        state="published",
        reviewed_by="person",
        reviewed_at=5,
        published="thread_x",
    )
    body = draft(library, drafted).body
    assert (body.state, body.reviewed_by, body.reviewed_at, body.published) == (
        "pending_review",
        "",
        0,
        "",
    )


# -- making one
# --------------------------------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_draft_again(library: Library) -> None:
    drafted = Draft("thread", "Hello", "World")
    first, was, _ = create_draft(library, drafted, actor=AGENT, key="s:draft:1")
    again, replayed, _ = create_draft(library, drafted, actor=AGENT, key="s:draft:1")
    assert (again, was, replayed) == (first, False, True)
    other = replace(drafted, body="Another")
    assert (
        code_of(lambda: create_draft(library, other, actor=AGENT, key="s:draft:1"))
        == "IDEMPOTENCY_REPLAY"
    )
    reject(library, first.id, actor=PERSON)
    _, _, following = create_draft(library, drafted, actor=AGENT, key="s:draft:1")
    assert following == "It was rejected."


def test_a_secret_is_refused_and_nothing_is_kept(library: Library) -> None:
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
    error = refusal(
        lambda: create_draft(library, Draft("thread", "Token", f"line\n{secret}"), actor=AGENT)
    )
    assert error.code == "SENSITIVE_BLOCKED" and secret not in error.message
    assert not library.store.records.select(RecordFilter(kinds=("draft",)))
    sensitive = draft(
        library, Draft("thread", "Salaries", "Who earns what", sensitivity="sensitive")
    )
    assert approve(library, sensitive.id, actor=PERSON).record.body.sensitivity == "sensitive"


@pytest.mark.parametrize(
    ("drafted", "flags"),
    [
        (Draft("artifact", "A", "B"), ["missing_evidence"]),
        (
            Draft("artifact", "A", "B", evidence=(Evidence("url", "https://a.example"),)),
            ["external_link"],
        ),
        (
            Draft("artifact", "A", "B", citations=("obs_01K00000000000000000000000",)),
            ["missing_evidence"],
        ),
        (Draft("comment", "", "See https://a.example."), ["external_link"]),
        (Draft("comment", "", "See http://localhost:8080."), []),
        (Draft("comment", "", "x" * 10_001), ["large_content"]),
        (Draft("comment", "", "Ask ada@example.com about it."), ["sensitive_content"]),
        (Draft("comment", "", "Clone git@example.com:a/b and install left-pad@1.2.3, @ada."), []),
        (Draft("thread", "A", "B", sensitivity="sensitive"), ["sensitive_content"]),
    ],
)
def test_what_to_look_at_twice_is_told(library: Library, drafted: Draft, flags: list[str]) -> None:
    assert list(draft(library, drafted).body.risk_flags) == flags


@pytest.mark.parametrize(
    ("drafted", "field"),
    [
        (Draft("comment", "", "x" * 50_001), "body"),
        (Draft("comment", "", "x", summary="x" * 1_201), "summary"),
        (Draft("thread", "A", "B", tags=tuple(f"t{number}" for number in range(11))), "tags"),
        (Draft("task_update", "", "", patch=(("state", "perhaps"),)), "state"),
        (Draft("task_update", "", "", patch=(("owner", "me"),)), "patch.owner"),
        (Draft("task_update", "", ""), "patch"),
        (Draft("poem", "A", "B"), "type"),
    ],
)
def test_what_could_not_be_published_is_refused_when_it_is_drafted(
    library: Library, drafted: Draft, field: str
) -> None:
    error = refusal(lambda: create_draft(library, drafted, actor=AGENT))
    assert (error.code, error.context["field"]) == ("RECORD_INVALID", field)


def test_a_draft_without_a_title_takes_its_first_line(library: Library) -> None:
    assert (
        draft(library, Draft("artifact", "", "\n## How to retry\n\nThree times.")).body.title
        == "How to retry"
    )


def test_a_draft_of_the_person_needs_no_reminder(library: Library) -> None:
    record, _, _ = create_draft(library, Draft("thread", "Hello", "World"), actor=PERSON)
    assert not notifications(library, "person")
    approve(library, record.id, actor=PERSON)
    assert not library.store.records.select(RecordFilter(kinds=("notification",)))


def test_drafts_are_listed_the_newest_first_and_page_by_page(library: Library) -> None:
    made = [draft(library, Draft("thread", f"Number {number}", "")) for number in range(5)]
    reject(library, made[2].id, actor=PERSON)
    ids = [one.id for one in made]
    assert [one.id for one in listed(library)] == [ids[4], ids[3], ids[1], ids[0]]
    assert [one.id for one in listed(library, limit=2)] == [ids[4], ids[3]]
    assert [one.id for one in listed(library, limit=2, before=ids[3])] == [ids[1], ids[0]]
    assert [one.id for one in listed(library, ("rejected",))] == [ids[2]]
    assert len(listed(library, ())) == 5


def test_a_draft_for_something_sensitive_is_so_from_the_start_and_becomes_so_with_it(
    library: Library,
) -> None:
    private = make(library, Thread("Salaries", sensitivity=SENSITIVE))
    kept = draft(
        library, Draft("comment", "", "Lena earns 90,000.", target=private.id, target_kind="thread")
    )
    assert kept.body.sensitivity == SENSITIVE and "sensitive_content" in kept.body.risk_flags
    assert [notification.sensitivity for notification in notifications(library, "person")] == [
        SENSITIVE
    ]
    topic = make(library, Subcortex("pay", "Pay"))
    later = draft(library, Draft("thread", "Lena earns 90,000", "x", target="pay"))
    hide = lambda body: replace(body, sensitivity=SENSITIVE)  # noqa: E731
    revise(library, topic.id, hide, actor=PERSON, action="edit_subcortex")
    found = library.store.records.one(later.id)
    assert found is not None and found.body.sensitivity == SENSITIVE


def test_a_sensitive_comment_is_published_without_the_summary_that_all_would_see(
    library: Library,
) -> None:
    thread = make(library, Thread("Salaries"))
    private = Draft(
        "comment",
        "",
        "Lena earns 90,000.",
        target=thread.id,
        summary="Lena!",
        sensitivity=SENSITIVE,
    )
    done = approve(library, draft(library, private).id, actor=PERSON)
    after = library.store.records.one(thread.id)
    assert (
        done.record.body.sensitivity == SENSITIVE
        and after is not None
        and "Lena" not in after.body.summary
    )
