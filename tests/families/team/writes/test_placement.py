"""The target of contributions: named records, then the defaults of the project."""

from __future__ import annotations

import pytest

from cortex.base.record_model import Subcortex, Task, Thread
from cortex.engine.library import Library
from cortex.families.team.writes.actions import archive, update_task
from cortex.families.team.writes.placement import Placement, route
from families.team.writes.record_writes import PERSON, make

NOWHERE = "thread_01K00000000000000000000000"


def way(library: Library, families: dict[str, object] | None = None, **placed: str) -> Placement:
    return route(library.store.records, families or {}, **placed)


# -- routes
# ------------------------------------------------------------------------------------------------------------


def test_empty_route_allows_drafts_only(library: Library) -> None:
    assert way(library) == Placement()
    assert "drafts only" in way(library).why


def test_route_prefers_named_then_thread_then_task_then_subcortex(library: Library) -> None:
    payments, other = (
        make(library, Subcortex("payments", "Payments")),
        make(library, Subcortex("other", "Other")),
    )
    named, projects, tasks = (
        make(library, Thread(title, subcortex=scope))
        for title, scope in (("Named", "other"), ("Project's", "payments"), ("Task's", "payments"))
    )
    task = make(library, Task("Measure", thread=tasks.id))
    said: dict[str, object] = {
        "default_thread_id": projects.id,
        "default_task_id": task.id,
        "default_subcortex_slug": "payments",
    }
    placed = way(library, said, thread=named.id)
    assert (placed.thread, placed.task, placed.subcortex) == (
        named.id,
        "",
        other.id,
    ) and "named" in placed.why
    first = way(library, said)
    assert (first.thread, first.task, first.subcortex) == (projects.id, task.id, payments.id)
    assert "default_thread_id" in first.why
    del said["default_thread_id"]
    second = way(library, said)
    assert (second.thread, second.task) == (tasks.id, task.id) and "default_task_id" in second.why
    del said["default_task_id"]
    third = way(library, said)
    assert (third.thread, third.task, third.subcortex) == ("", "", payments.id)
    assert "default_subcortex_slug" in third.why


def test_missing_named_target_is_not_replaced(library: Library) -> None:
    thread = make(library, Thread("Project's"))
    task = make(library, Task("Measure", thread=thread.id))
    said: dict[str, object] = {"default_thread_id": thread.id}
    for placed in (
        way(library, said, thread=NOWHERE),
        way(library, said, thread=NOWHERE, task=task.id),
    ):
        assert placed.thread == "" and NOWHERE in placed.missing[0]
    assert way(library, said, subcortex="nowhere").missing
    assert way(library, said, subcortex="nowhere") == Placement(
        missing=way(library, said, subcortex="nowhere").missing
    )


def test_named_task_leads_to_its_thread_even_when_done(library: Library) -> None:
    thread = make(library, Thread("Project's"))
    task = make(library, Task("Measure", thread=thread.id))
    update_task(library, task.id, {"state": "done"}, actor=PERSON)
    placed = way(library, task=task.id)
    assert (placed.thread, placed.task, placed.missing) == (thread.id, task.id, ())


def test_missing_project_default_is_reported_and_ignored(library: Library) -> None:
    thread = make(library, Thread("Old"))
    task = make(library, Task("Measure", thread=thread.id))
    scope = make(library, Subcortex("payments", "Payments"))
    archive(library, thread.id, actor=PERSON)
    update_task(library, task.id, {"state": "cancelled"}, actor=PERSON)
    said: dict[str, object] = {
        "default_thread_id": thread.id,
        "default_task_id": task.id,
        "default_subcortex_slug": "payments",
    }
    placed = way(library, said)
    assert (placed.thread, placed.task, placed.subcortex) == ("", "", scope.id)
    assert "archived" in placed.missing[0] and "cancelled" in placed.missing[1]
    archive(library, "payments", actor=PERSON, kind="subcortex")
    assert way(library, said).subcortex == "" and len(way(library, said).missing) == 3


@pytest.mark.parametrize("value", [5, ["x"], {"a": 1}, True, "   ", "\x00", "x" * 10_000])
def test_arbitrary_project_file_breaks_no_route(library: Library, value: object) -> None:
    placed = way(library, {"default_thread_id": value, "default_subcortex_slug": value})
    assert (placed.thread, placed.subcortex) == ("", "")
    assert len(placed.missing) == 2 and all(len(note) < 500 for note in placed.missing)


def test_default_task_with_an_archived_thread_is_reported(library: Library) -> None:
    thread = make(library, Thread("Old"))
    task = make(library, Task("Measure", thread=thread.id))
    archive(library, thread.id, actor=PERSON)
    placed = way(library, {"default_task_id": task.id})
    assert (placed.thread, placed.task) == ("", task.id)
    assert "archived" in placed.missing[0] and "default_task_id" in placed.why
