"""The inbox: its entries, their reasons and order, each once and only while it is open."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cortex.base.actors import person
from cortex.base.errors import InputError
from cortex.base.record_model import (
    Actor,
    Artifact,
    Comment,
    Draft,
    Evidence,
    Link,
    Record,
    RecordFilter,
    Task,
    Thread,
)
from cortex.engine.library import Library
from cortex.families.team.inbox import EVERYTHING, InboxEntry, acknowledge, inbox
from cortex.families.team.writes.actions import (
    accept_artifact,
    judge_link,
    supersede_artifact,
    update_task,
)
from cortex.families.team.writes.create import create
from cortex.families.team.writes.drafts import approve, create_draft, reject
from cortex.families.team.writes.update import revise

PERSON, AGENT, WRITER = person(), Actor("agent", 1), Actor("agent", 2)
# Drafts of today are too old by then
NOW = int(datetime(2900, 1, 15, 12, tzinfo=UTC).timestamp() * 1000)
OPEN = RecordFilter(kinds=("notification",), states=("new",))


def make(library: Library, body: object, actor: Actor = PERSON) -> Record:
    return create(library, body, actor=actor)  # type: ignore[arg-type]


def draft(library: Library, title: str = "A draft") -> Record[Draft]:
    return create_draft(library, Draft("thread", title, "Something."), actor=AGENT)[0]


def types(library: Library, recipient: str | None = "person", **more: object) -> list[str]:
    return [entry.type for entry in inbox(library, recipient, **more).entries]  # type: ignore[arg-type]


def only(library: Library, **more: object) -> InboxEntry:
    (entry,) = inbox(library, **more).entries  # type: ignore[arg-type]
    return entry


def test_new_inbox_is_empty(library: Library) -> None:
    assert inbox(library).entries == () and not inbox(library).more


def test_mention_has_a_reason_and_leads_to_its_thread(library: Library) -> None:
    thread = make(library, Thread("Which queue?"), WRITER)
    comment = make(library, Comment(thread.id, "@ada what do you say?"), WRITER)
    entry = only(library)
    assert (entry.kind, entry.type, entry.about, entry.next) == (
        "notification",
        "mention",
        comment.id,
        thread.id,
    )
    assert "mentioned you" in entry.why and entry.at == comment.created
    assert only(library, recipient="Ada") == only(library, recipient="me") == entry
    assert not inbox(library, "agent").entries and inbox(library, None).entries == (entry,)


def test_own_open_tasks_and_blocked_tasks_are_in_the_inbox(library: Library) -> None:
    make(library, Task("Not mine", assignees=("agent",)))
    mine = make(library, Task("Mine", assignees=("me",), priority="high"))
    make(library, Task("Nobody's"))
    blocked = make(
        library, Task("Stuck", state="blocked", blocked_reason="no key", assignees=("agent",))
    )
    entries = inbox(library, include=("tasks",)).entries
    assert [(entry.about, entry.type) for entry in entries] == [
        (blocked.id, "blocked"),
        (mine.id, "task"),
    ]
    assert "assigned to agent" in entries[0].why and "no key" in entries[0].why
    assert "assigned to you, high priority" in entries[1].why
    assert len(inbox(library, None, include=("tasks",)).entries) == 4
    update_task(library, mine.id, {"state": "done"}, actor=PERSON)
    assert types(library, include=("tasks",)) == ["blocked"]


def test_assigned_task_is_in_the_inbox_once(library: Library) -> None:
    task = make(library, Task("Measure it", assignees=("person",)), WRITER)
    assert only(library).kind == "task"
    assert only(library, include=("notifications",)).type == "task_assigned"
    update_task(library, task.id, {"state": "done"}, actor=PERSON)
    assert not inbox(library).entries and not inbox(library, include=("notifications",)).entries


def test_open_decision_is_in_the_inbox_once_until_it_is_made(library: Library) -> None:
    drafted = draft(library)
    first, second = make(library, Thread("One")), make(library, Thread("Two"))
    link = make(
        library, Link(first.id, "contradicts", second.id, "30 against 10", state="candidate")
    )
    make(library, Link(second.id, "supports", first.id, state="candidate"))
    due = make(
        library,
        Artifact(
            "Retries", "Three.", review_by="2900-01-14", evidence=(Evidence("thread", first.id),)
        ),
    )
    make(library, Artifact("Today", "x", review_by="2900-01-15"))
    make(library, Artifact("Whenever", "x"))
    entries = inbox(library, now=NOW, include=("reviews",)).entries
    assert [(entry.type, entry.about) for entry in entries] == [
        ("review_overdue", due.id),
        ("contradiction", link.id),
    ]
    assert "2900-01-14" in entries[0].why
    assert entries[1].title == "One may contradict Two" and entries[1].why == "30 against 10"
    assert types(library, now=drafted.created) == ["contradiction", "draft"]
    assert types(library, include=("notifications",), now=drafted.created) == ["review_needed"]

    approve(library, drafted.id, actor=PERSON)
    judge_link(library, link.id, False, actor=PERSON)
    assert types(library) == []
    accept_artifact(library, due.id, actor=PERSON)
    assert types(library, now=NOW) == ["review_overdue"]  # being accepted is no review
    newer = make(
        library,
        Artifact("Retries", "Five.", supersedes=due.id, evidence=(Evidence("thread", first.id),)),
    )
    accept_artifact(library, newer.id, actor=PERSON)
    assert "review_overdue" not in types(library, now=NOW)


def test_judged_contradiction_leaves_the_inbox(library: Library) -> None:
    make(library, Artifact("Timeout of the payment gateway", "The timeout is 30 seconds."))
    make(library, Artifact("Timeout of the payment gateway", "The timeout is 10 seconds."), WRITER)
    (link,) = library.store.records.select(RecordFilter(kinds=("link",), states=("candidate",)))
    assert types(library) == ["contradiction"]
    assert types(library, include=("notifications",)) == ["review_needed"]
    judge_link(library, link.id, True, actor=PERSON)
    assert types(library) == types(library, include=("notifications",)) == []


def test_contradiction_with_a_superseded_record_is_not_in_the_inbox(library: Library) -> None:
    old = make(library, Artifact("Timeout of the payment gateway", "The timeout is 30 seconds."))
    new = make(
        library, Artifact("Timeout of the payment gateway", "The timeout is 10 seconds."), WRITER
    )
    assert types(library) == ["contradiction"]
    accept_artifact(
        library, new.id, actor=PERSON, evidence=(Evidence("url", "https://example.com/"),)
    )
    supersede_artifact(library, old.id, new.id, actor=PERSON)
    assert types(library) == types(library, include=("notifications",)) == []


def test_inbox_is_newest_first_and_its_pages_join(library: Library) -> None:
    for number in range(4):
        draft(library, f"Draft {number}")
        thread = make(library, Thread(f"Thread {number}", f"@ada look at {number}"), WRITER)
        make(library, Task(f"Task {number}", thread=thread.id, assignees=("person",)), WRITER)
    whole = inbox(library, limit=100)
    assert len(whole.entries) == 12 and not whole.more
    made = [entry.id[-26:] for entry in whole.entries]
    assert made == sorted(made, reverse=True)
    for size in (1, 5, 12):
        walked: list[InboxEntry] = []
        more = True
        while more:
            page = inbox(library, limit=size, before=walked[-1].id if walked else "")
            assert len(page.entries) <= size
            walked += page.entries
            more = page.more
        assert tuple(walked) == whole.entries


@pytest.mark.parametrize("include", [(kind,) for kind in EVERYTHING])
def test_only_included_entry_types_are_listed(library: Library, include: tuple[str, ...]) -> None:
    draft(library)
    make(library, Thread("A thread", "@ada look"), WRITER)
    make(library, Task("A task", assignees=("person",)))
    kinds = {entry.kind for entry in inbox(library, include=include).entries}
    assert (
        kinds
        == {"notifications": {"notification"}, "tasks": {"task"}, "reviews": {"draft"}}[include[0]]
    )


def test_unknown_entry_type_is_refused(library: Library) -> None:
    with pytest.raises(InputError) as raised:
        inbox(library, include=("mail",))
    assert raised.value.code == "RECORD_INVALID" and "reviews" in raised.value.message


def test_acknowledging_twice_is_harmless(library: Library) -> None:
    make(library, Thread("A thread", "@ada look"), WRITER)
    make(library, Thread("Another", "@ada look"), WRITER)
    ids = [entry.id for entry in inbox(library).entries]
    assert acknowledge(library, ids[:1], actor=PERSON, key="k") == (ids[0],)
    assert acknowledge(library, ids[:1], actor=PERSON, key="k") == (ids[0],)
    assert acknowledge(library, ids[:1], actor=PERSON) == ()
    assert [entry.id for entry in inbox(library).entries] == ids[1:]
    assert acknowledge(library, ids, actor=PERSON) == (ids[1],)
    assert not inbox(library).entries


def test_notification_of_another_is_acknowledged_by_editors_only(library: Library) -> None:
    make(library, Thread("For a person", "@ada look"), WRITER)
    make(library, Thread("For an agent", "@agent look"))
    (persons,), (agents,) = inbox(library).entries, inbox(library, "agent").entries
    for ids in ([persons.id], [agents.id, persons.id]):
        with pytest.raises(InputError) as raised:
            acknowledge(library, ids, actor=AGENT)
        assert raised.value.code == "RIGHTS_MISSING"
    assert len(library.store.records.select(OPEN)) == 2
    assert acknowledge(library, [agents.id], actor=AGENT) == (agents.id,)
    with pytest.raises(InputError) as raised:
        acknowledge(library, [persons.id, "notif_01K00000000000000000000000"], actor=PERSON)
    assert raised.value.code == "RECORD_UNKNOWN"
    assert inbox(library).entries == (persons,)


def test_draft_in_an_agents_inbox_waits_for_a_person(library: Library) -> None:
    draft(library)
    (entry,) = inbox(library, "agent").entries
    assert "waits for a person" in entry.why and "approve" not in entry.why
    assert "approve or reject" in only(library).why


def test_draft_entry_names_its_target(library: Library) -> None:
    thread = make(library, Thread("Which queue?"))
    task = make(library, Task("Measure it"))
    for type, target in (
        ("comment", thread.id),
        ("comment", ""),
        ("task_update", task.id),
        ("thread", ""),
    ):
        patch = (("state", "done"),) if type == "task_update" else ()
        create_draft(
            library, Draft(type, "A draft", "Something.", target=target, patch=patch), actor=AGENT
        )
    assert [entry.why.partition(": ")[0] for entry in reversed(inbox(library).entries)] == [
        "agent drafted a comment in Which queue?",
        "agent drafted a comment that has no place yet",
        "agent drafted a change of a task, Measure it",
        "agent drafted a thread",
    ]


def test_closing_a_record_closes_its_notifications(library: Library) -> None:
    make(library, Artifact("Timeout of the payment gateway", "The timeout is 30 seconds."))
    make(library, Artifact("Timeout of the payment gateway", "The timeout is 10 seconds."))
    (link,) = library.store.records.select(RecordFilter(kinds=("link",), states=("candidate",)))
    task = make(library, Task("Measure it", assignees=("person",)), WRITER)
    judge_link(library, link.id, False, actor=PERSON)
    update_task(library, task.id, {"state": "done"}, actor=PERSON)
    # For the author of the task.
    assert [record.body.type for record in library.store.records.select(OPEN)] == ["task_update"]


def test_sensitive_entry_is_marked_and_its_comment_not_quoted(library: Library) -> None:
    thread = make(library, Thread("Who earns what?"), PERSON)
    make(library, Comment(thread.id, "@lena Ada earns 90000.", sensitivity="sensitive"))
    make(library, Thread("Salaries", "@lena look", sensitivity="sensitive"))
    make(library, Thread("Queues", "@lena look"))
    listed = [(entry.title, entry.sensitive) for entry in inbox(library, "lena").entries]
    assert listed == [("Queues", False), ("Salaries", True), ("a sensitive comment", True)]
    make(library, Task("Raise them", assignees=("lena",), sensitivity="sensitive"))
    assert inbox(library, "lena", include=("tasks",)).entries[0].sensitive


def test_comment_that_became_sensitive_is_no_longer_quoted(library: Library) -> None:
    thread = make(library, Thread("Who earns what?"), PERSON)
    make(library, Comment(thread.id, "@lena Ada earns 90000."))
    revise(
        library,
        thread.id,
        lambda body: replace(body, sensitivity="sensitive"),
        actor=PERSON,
        action="edit_thread",
    )
    assert [(entry.title, entry.sensitive) for entry in inbox(library, "lena").entries] == [
        ("a sensitive comment", True)
    ]


def test_news_expire_after_two_weeks_for_agents_only(library: Library) -> None:
    thread = make(library, Thread("Which queue?", "Say something, @agent."))
    make(library, Comment(make(library, Thread("Of the agent"), WRITER).id, "I see."))
    for waiting, decide in ((draft(library), approve), (draft(library, "Another"), reject)):
        decide(library, waiting.id, actor=PERSON)
    make(library, Thread("Of the person"), PERSON)
    day = 86_400_000
    news = ["draft_rejected", "draft_approved", "thread_update"]
    assert types(library, "agent", now=thread.created + 13 * day) == [*news, "mention"]
    assert types(library, "agent", now=thread.created + 15 * day) == ["mention"]
    make(library, Comment(thread.id, "Kafka."), WRITER)
    assert types(library, now=thread.created + 400 * day) == ["thread_update"]
