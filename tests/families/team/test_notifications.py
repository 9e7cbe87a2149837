"""Who hears of what: those it concerns, never who did it, and of each thing once."""

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


def told(library: Library, recipient: str, state: str = "new") -> list[tuple[str, str]]:
    """The type and the record of every notification, the oldest first."""
    wanted = RecordFilter(
        kinds=("notification",), states=(state,), refs=(("recipient", recipient),)
    )
    return [
        (one.body.type, one.body.about) for one in reversed(library.store.records.select(wanted))
    ]


# -- names
# -------------------------------------------------------------------------------------------------------------


def test_a_name_of_the_person_means_the_person(settings: Settings) -> None:
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


def test_a_text_mentions_a_few_at_most() -> None:
    assert len(mentioned(" ".join(f"@n{number}" for number in range(100)))) == MOST_MENTIONS


# -- what is told
# ------------------------------------------------------------------------------------------------------


def test_who_is_mentioned_hears_of_it_and_nobody_hears_of_themselves(library: Library) -> None:
    thread = make(library, Thread("T", "@lena, what do you think? @me @Ada"))
    task = make(library, Task("T", "@lena knows", assignees=("omar",)))
    artifact = make(library, Artifact("T", "by @lena"))
    assert told(library, "lena") == [
        ("mention", thread.id),
        ("mention", task.id),
        ("mention", artifact.id),
    ]
    assert told(library, "person") == [] and told(library, "omar") == [("task_assigned", task.id)]


def test_a_comment_is_told_to_who_opened_the_thread_and_who_spoke_there(library: Library) -> None:
    thread = make(library, Thread("T"))
    make(library, Comment(thread.id, "first"), OMAR)
    assert told(library, "person") == [("thread_update", thread.id)] and told(library, "omar") == []
    comment = make(library, Comment(thread.id, "second, @Ada"), WRITER)
    assert told(library, "person") == [("thread_update", thread.id), ("mention", comment.id)]
    assert told(library, "omar") == [("thread_update", thread.id)] and told(library, "agent") == []


def test_of_each_thing_one_notification_is_open(library: Library) -> None:
    thread = make(library, Thread("T"))
    for number in range(3):
        make(library, Comment(thread.id, f"number {number}"), WRITER)
    assert told(library, "person") == [("thread_update", thread.id)]
    assert told(library, "person", "done") == [("thread_update", thread.id)] * 2


def test_a_task_is_told_to_who_has_it_who_follows_it_and_who_made_it(library: Library) -> None:
    task = make(library, Task("T", assignees=("lena", "me"), watchers=("omar",)))
    assert told(library, "lena") == [("task_assigned", task.id)] and told(library, "person") == []
    update_task(library, task.id, {"state": "in_progress", "assignees": "lena, zoe"}, actor=WRITER)
    assert told(library, "zoe") == [("task_assigned", task.id)]
    assert told(library, "lena") == [("task_assigned", task.id), ("task_update", task.id)]
    assert (
        told(library, "omar") == told(library, "person") == [("task_update", task.id)]
        and told(library, "agent") == []
    )
    wanted = RecordFilter(kinds=("notification",), refs=(("recipient", "omar"),))
    assert library.store.records.select(wanted)[0].body.reason.startswith(
        "a task that you follow: now in progress"
    )


def test_a_notification_says_why_and_is_as_private_as_what_it_is_about(library: Library) -> None:
    make(library, Thread("Raises", "@lena", sensitivity=SENSITIVE))
    (one,) = library.store.records.select(RecordFilter(kinds=("notification",)))
    assert (
        one.body.sensitivity == SENSITIVE and one.body.reason == "person mentioned you in a thread"
    )


def test_long_titles_and_line_breaks_fit(library: Library) -> None:
    def work(step: Any) -> str:
        about = Record("thread_1", Thread("x" * 500))
        return notice(step, "person", about, REJECTED(name="ada", notes="a\nb" * 400)).id

    number = perform(library, work, actor=PERSON, key="s:1", action="test", payload="").result
    body: Notification = library.store.records.get([number])[number].body
    assert len(body.title) == 300 and len(body.reason) <= 500 and "\n" not in body.reason
