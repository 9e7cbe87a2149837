"""Notifications: their recipients, never the author, and one for each event."""

from __future__ import annotations

from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    Comment,
    Notification,
    Record,
    RecordFilter,
    Task,
    Thread,
)
from cortex.base.settings import Settings
from cortex.engine.library import Library
from cortex.families.team.notification_texts import REJECTED
from cortex.families.team.notifications import MOST_MENTIONS, login, mentioned, notice, resolve_name
from cortex.families.team.writes.actions import update_task
from cortex.families.team.writes.create import create
from cortex.families.team.writes.transactions import perform

PERSON, WRITER = person(), Actor("agent", 2)
OMAR = Actor("omar", 2)


def make(library: Library, body: Body, actor: Actor = PERSON) -> Record[Any]:
    return create(library, body, actor=actor)


def received(library: Library, recipient: str, state: str = "new") -> list[tuple[str, str]]:
    """The type and the record of every notification, the oldest first."""
    wanted = RecordFilter(
        kinds=("notification",), states=(state,), refs=(("recipient", recipient),)
    )
    return [
        (record.body.type, record.body.about)
        for record in reversed(library.store.records.select(wanted))
    ]


# -- names
# -------------------------------------------------------------------------------------------------------------


def test_name_of_the_person_means_the_person(settings: Settings) -> None:
    for name in ("me", "person", "Ada", "@ada", " ADA ", login()):
        assert resolve_name(name, settings) == "person", name
    assert (
        resolve_name("me", settings, me="agent") == "agent"
        and resolve_name("Agent", settings) == "agent"
    )
    assert (resolve_name("@lena", settings), resolve_name("Lena"), resolve_name("ada")) == (
        "lena",
        "Lena",
        "ada",
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@lena and @omar, look", ["lena", "omar"]),
        ("(@lena) @lena.\n@o.brien!", ["lena", "o.brien"]),
        ("@Ada, @me: see @agent's note", ["person", "agent"]),
        ("mail lena@example.com or https://example.com/@lena", []),
        ("`@property` and\n```python\n@cache\ndef f(): ...\n```\n@omar", ["omar"]),
        ("~~~\n@cache", []),
        ("npm i @scope/package @@twice", []),
        ("nobody @ all", []),
    ],
)
def test_mentions_are_names_in_prose(settings: Settings, text: str, names: list[str]) -> None:
    assert mentioned(text, settings) == names


def test_mentions_of_one_text_are_limited() -> None:
    assert len(mentioned(" ".join(f"@n{number}" for number in range(100)))) == MOST_MENTIONS


# -- recipients
# ------------------------------------------------------------------------------------------------------


def test_mention_notifies_all_but_its_author(library: Library) -> None:
    thread = make(library, Thread("T", "@lena, what do you think? @me @Ada"))
    task = make(library, Task("T", "@lena knows", assignees=("omar",)))
    artifact = make(library, Artifact("T", "by @lena"))
    assert received(library, "lena") == [
        ("mention", thread.id),
        ("mention", task.id),
        ("mention", artifact.id),
    ]
    assert received(library, "person") == [] and received(library, "omar") == [
        ("task_assigned", task.id)
    ]


def test_comment_notifies_the_author_and_commenters_of_its_thread(library: Library) -> None:
    thread = make(library, Thread("T"))
    make(library, Comment(thread.id, "first"), OMAR)
    assert (
        received(library, "person") == [("thread_update", thread.id)]
        and received(library, "omar") == []
    )
    comment = make(library, Comment(thread.id, "second, @Ada"), WRITER)
    assert received(library, "person") == [("thread_update", thread.id), ("mention", comment.id)]
    assert (
        received(library, "omar") == [("thread_update", thread.id)]
        and received(library, "agent") == []
    )


def test_one_notification_is_open_for_each_event(library: Library) -> None:
    thread = make(library, Thread("T"))
    for number in range(3):
        make(library, Comment(thread.id, f"number {number}"), WRITER)
    assert received(library, "person") == [("thread_update", thread.id)]
    assert received(library, "person", "done") == [("thread_update", thread.id)] * 2


def test_task_change_notifies_assignees_watchers_and_author(library: Library) -> None:
    task = make(library, Task("T", assignees=("lena", "me"), watchers=("omar",)))
    assert (
        received(library, "lena") == [("task_assigned", task.id)]
        and received(library, "person") == []
    )
    update_task(library, task.id, {"state": "in_progress", "assignees": "lena, zoe"}, actor=WRITER)
    assert received(library, "zoe") == [("task_assigned", task.id)]
    assert received(library, "lena") == [("task_assigned", task.id), ("task_update", task.id)]
    assert (
        received(library, "omar") == received(library, "person") == [("task_update", task.id)]
        and received(library, "agent") == []
    )
    wanted = RecordFilter(kinds=("notification",), refs=(("recipient", "omar"),))
    assert library.store.records.select(wanted)[0].body.reason.startswith(
        "a task that you follow: now in progress"
    )


def test_notification_has_a_reason_and_the_sensitivity_of_its_record(library: Library) -> None:
    make(library, Thread("Raises", "@lena", sensitivity=SENSITIVE))
    (one,) = library.store.records.select(RecordFilter(kinds=("notification",)))
    assert (
        one.body.sensitivity == SENSITIVE and one.body.reason == "person mentioned you in a thread"
    )


def test_long_titles_and_line_breaks_fit_in_a_notification(library: Library) -> None:
    def work(step: Any) -> str:
        about = Record("thread_1", Thread("x" * 500))
        return notice(step, "person", about, REJECTED(name="ada", notes="a\nb" * 400)).id

    number = perform(library, work, actor=PERSON, key="s:1", action="test", payload="").result
    body: Notification = library.store.records.get([number])[number].body
    assert len(body.title) == 300 and len(body.reason) <= 500 and "\n" not in body.reason
