"""Drafts: kept with their target, published once by a person, in the name of their author."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

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
from families.team.writes.record_writes import AGENT, PERSON, make, refused


def draft(library: Library, drafted: Draft, **more: object) -> Record[Draft]:
    return create_draft(library, drafted, actor=AGENT, **more)[0]  # type: ignore[arg-type]


def notifications(library: Library, recipient: str) -> list[Notification]:
    wanted = RecordFilter(
        kinds=("notification",), states=("new",), refs=(("recipient", recipient),)
    )
    return [record.body for record in library.store.records.select(wanted)]


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(CortexError) as raised:
        call()
    return raised.value.code


# -- approval and publication
# ---------------------------------------------------------------------------------------------------------


def test_approved_draft_is_published_found_and_notified(library: Library) -> None:
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
    (notification,) = notifications(library, "agent")
    assert (notification.type, notification.about) == ("draft_approved", kept.id)
    assert comment.id in notification.reason and "well seen" in notification.reason
    assert not notifications(library, "person") and not inbox(library).entries
    deeds = library.store.records.deeds(comment.id)
    assert [(deed.actor, deed.tier, deed.action) for deed in deeds] == [
        ("person", 4, "approve_draft")
    ]


def test_unapproved_draft_is_not_found(library: Library) -> None:
    draft(library, Draft("artifact", "Queues", "The zebrafish queue is the only one that holds."))
    make(library, Thread("Something else"))
    assert found(library, "zebrafish") == []


@pytest.mark.parametrize("type", ["thread", "artifact"])
def test_published_thread_or_artifact_has_every_field_of_its_draft(
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


def test_draft_of_a_thread_or_artifact_needs_no_subcortex(library: Library) -> None:
    record, _, following = create_draft(
        library, Draft("thread", "Alone", "By itself."), actor=AGENT
    )
    assert "of no subcortex" in following
    assert approve(library, record.id, actor=PERSON).record.body.subcortex == ""


def test_approved_task_update_is_made(library: Library) -> None:
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


def test_comment_draft_on_a_task_goes_to_its_thread(library: Library) -> None:
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


def test_published_draft_gets_contradiction_candidates(library: Library) -> None:
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


# -- targets
# -----------------------------------------------------------------------------------------------------


def test_draft_without_a_target_follows_the_route(library: Library) -> None:
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
def test_draft_without_a_place_is_kept_until_a_person_names_one(
    library: Library, drafted: Draft, missing: str
) -> None:
    record, _, following = create_draft(library, drafted, actor=AGENT)
    assert missing in following and "says where it belongs" in following
    error = refused(lambda: approve(library, record.id, actor=PERSON))
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


def test_draft_for_an_archived_target_is_not_published(library: Library) -> None:
    thread, other = make(library, Thread("Old")), make(library, Thread("New"))
    record = draft(library, Draft("comment", "", "Hello.", target=thread.id))
    archive(library, thread.id, actor=PERSON)
    error = refused(lambda: approve(library, record.id, actor=PERSON))
    assert error.code == "TARGET_NOT_FOUND" and "archived" in error.message
    assert "archived" in next_step(library.store.records, record)
    assert approve(library, record.id, actor=PERSON, target=other.id).record.body.thread == other.id


def test_draft_for_a_missing_target_is_not_published(library: Library, settings: Settings) -> None:
    thread = make(library, Thread("Old"))
    record = draft(library, Draft("comment", "", "Hello.", target=thread.id))
    with closing(sqlite3.connect(settings.home / "cortex.db")) as base, base:
        base.execute("DELETE FROM records WHERE id = ?", (thread.id,))
    assert code_of(lambda: approve(library, record.id, actor=PERSON)) == "TARGET_NOT_FOUND"
    assert [draft.body.state for draft in listed(library)] == ["pending_review"]


def test_missing_evidence_is_only_cited(library: Library) -> None:
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


def test_second_decision_about_a_draft_is_refused(library: Library) -> None:
    thread = make(library, Thread("T"))
    first, second = (
        draft(library, Draft("comment", "", text, target=thread.id)) for text in ("One.", "Two.")
    )
    published = approve(library, first.id, actor=PERSON)
    again = refused(lambda: approve(library, first.id, actor=PERSON))
    assert again.code == "RECORD_CHANGED" and published.record.id in again.message
    assert code_of(lambda: reject(library, first.id, actor=PERSON)) == "RECORD_CHANGED"
    reject(library, second.id, actor=PERSON)
    assert code_of(lambda: approve(library, second.id, actor=PERSON)) == "RECORD_CHANGED"
    assert len(library.store.records.select(RecordFilter(kinds=("comment",)))) == 1


def test_same_key_approves_a_draft_once(library: Library) -> None:
    thread = make(library, Thread("T"))
    record = draft(library, Draft("comment", "", "Hello.", target=thread.id))
    first = approve(library, record.id, actor=PERSON, key="k")
    again = approve(library, record.id, actor=PERSON, key="k")
    assert again == replace(first, replayed=True)
    assert (
        code_of(lambda: approve(library, record.id, actor=PERSON, key="k", notes="x"))
        == "IDEMPOTENCY_REPLAY"
    )


def test_concurrent_approvals_publish_once(library: Library) -> None:
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

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    (comment,) = library.store.records.select(RecordFilter(kinds=("comment",)))
    assert sorted(outcomes) == ["RECORD_CHANGED"] * 3 + [comment.id]


def test_rejection_notifies_the_author_of_the_draft(library: Library) -> None:
    record = draft(library, Draft("thread", "Hello", "World"))
    rejected = reject(library, record.id, actor=PERSON, notes="we know that")
    assert (rejected.body.state, rejected.body.review_notes) == ("rejected", "we know that")
    (notification,) = notifications(library, "agent")
    assert notification.type == "draft_rejected" and "we know that" in notification.reason
    assert not notifications(library, "person")
    assert "we know that" in next_step(library.store.records, rejected)
    assert not library.store.records.select(RecordFilter(kinds=("thread",)))


def test_decision_without_permission_is_refused(library: Library) -> None:
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


def test_expired_draft_can_still_be_approved(library: Library) -> None:
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


def test_new_draft_with_a_decision_is_refused(library: Library) -> None:
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


# -- new drafts
# --------------------------------------------------------------------------------------------------------


def test_same_key_gives_the_same_draft(library: Library) -> None:
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


def test_draft_with_a_secret_is_not_kept(library: Library) -> None:
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
    error = refused(
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
def test_draft_has_risk_flags(library: Library, drafted: Draft, flags: list[str]) -> None:
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
def test_unpublishable_draft_is_refused_at_once(
    library: Library, drafted: Draft, field: str
) -> None:
    error = refused(lambda: create_draft(library, drafted, actor=AGENT))
    assert (error.code, error.context["field"]) == ("RECORD_INVALID", field)


def test_untitled_draft_takes_its_first_line_as_title(library: Library) -> None:
    assert (
        draft(library, Draft("artifact", "", "\n## How to retry\n\nThree times.")).body.title
        == "How to retry"
    )


def test_draft_of_the_person_causes_no_notification(library: Library) -> None:
    record, _, _ = create_draft(library, Draft("thread", "Hello", "World"), actor=PERSON)
    assert not notifications(library, "person")
    approve(library, record.id, actor=PERSON)
    assert not library.store.records.select(RecordFilter(kinds=("notification",)))


def test_drafts_are_listed_newest_first_page_by_page(library: Library) -> None:
    made = [draft(library, Draft("thread", f"Number {number}", "")) for number in range(5)]
    reject(library, made[2].id, actor=PERSON)
    ids = [draft.id for draft in made]
    assert [draft.id for draft in listed(library)] == [ids[4], ids[3], ids[1], ids[0]]
    assert [draft.id for draft in listed(library, limit=2)] == [ids[4], ids[3]]
    assert [draft.id for draft in listed(library, limit=2, before=ids[3])] == [ids[1], ids[0]]
    assert [draft.id for draft in listed(library, ("rejected",))] == [ids[2]]
    assert len(listed(library, ())) == 5


def test_draft_has_the_sensitivity_of_its_target(library: Library) -> None:
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


def test_sensitive_comment_draft_is_published_without_its_summary(library: Library) -> None:
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
