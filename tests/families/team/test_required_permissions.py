"""The permissions that a change needs, by the record before and after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cortex.base.record_model import (
    Artifact,
    Body,
    Comment,
    Draft,
    Link,
    Notification,
    Observation,
    Subcortex,
    Task,
    Thread,
)
from cortex.families.team.required_permissions import changed_fields, rights_of

THREAD = Thread("Cache or not")
COMMENT = Comment("thread_1", "Yes")
OBSERVATION = Observation("It is slow")
ARTIFACT = Artifact("Use a cache")
TASK = Task("Build it")
DRAFT = Draft("comment", "x", "y")
LINK = Link("a", "supports", "b")
NOTIFICATION = Notification("mention", "ada", "thread_1", "t", "r")
SUBCORTEX = Subcortex("api", "API")
SUMMED_UP = {"summary": "Yes", "summary_sources": ("comment_1",), "summary_by": "ada"}


@pytest.mark.parametrize(
    ("body", "rights"),
    [
        (SUBCORTEX, ("create_subcortex",)),
        (THREAD, ("create_thread",)),
        (replace(THREAD, state="resolved"), ("create_thread", "resolve_thread")),
        (replace(THREAD, state="archived"), ("create_thread", "edit")),
        (COMMENT, ("comment",)),
        (OBSERVATION, ("observe",)),
        (ARTIFACT, ("propose_artifact",)),
        (replace(ARTIFACT, state="proposed"), ("propose_artifact",)),
        (replace(ARTIFACT, verification="verified"), ("propose_artifact", "edit")),
        (replace(ARTIFACT, state="proposed", last_reviewed=5), ("propose_artifact", "edit")),
        (replace(ARTIFACT, state="accepted", last_reviewed=5), ("accept_artifact",)),
        (replace(ARTIFACT, state="accepted", verification="verified"), ("accept_artifact",)),
        (replace(ARTIFACT, state="superseded"), ("supersede_artifact",)),
        (replace(ARTIFACT, state="deprecated"), ("edit",)),
        (TASK, ("create_task",)),
        (DRAFT, ("draft",)),
        (replace(DRAFT, state="expired"), ("draft",)),
        (replace(DRAFT, state="approved"), ("draft", "approve_draft")),
        (replace(DRAFT, state="published"), ("draft", "approve_draft")),
        (replace(DRAFT, state="rejected"), ("draft", "reject_draft")),
        (LINK, ("link",)),
        (replace(LINK, state="candidate"), ("observe",)),
        (replace(LINK, state="dismissed"), ("judge_link",)),
        (NOTIFICATION, ()),
    ],
)
def test_permissions_that_a_new_record_needs(body: Body, rights: tuple[str, ...]):
    assert rights_of(None, body) == rights


def test_candidate_contradiction_alone_needs_the_permission_of_a_link():
    candidate = replace(LINK, state="candidate")
    assert rights_of(None, candidate, alone=True) == ("link",)
    assert rights_of(None, LINK, alone=True) == ("link",)


@pytest.mark.parametrize(
    ("before", "changes", "rights"),
    [
        (SUBCORTEX, {"description": "x"}, ("edit_subcortex",)),
        (THREAD, {"title": "x"}, ("edit",)),
        (THREAD, {"summary": "x"}, ("comment",)),
        (THREAD, SUMMED_UP, ("comment",)),
        (THREAD, {**SUMMED_UP, "tags": ("t",)}, ("edit",)),
        (THREAD, {"state": "resolved"}, ("resolve_thread",)),
        (THREAD, {"state": "resolved", "resolution": "yes", **SUMMED_UP}, ("resolve_thread",)),
        (THREAD, {"state": "resolved", "title": "x"}, ("edit",)),
        (THREAD, {"state": "archived"}, ("edit",)),
        (THREAD, {"resolution": "yes"}, ("edit",)),
        (COMMENT, {"body": "No"}, ("edit",)),
        (OBSERVATION, {"title": "x"}, ("edit",)),
        (TASK, {"state": "done"}, ("update_task",)),
        (
            TASK,
            {
                "state": "blocked",
                "priority": "high",
                "blocked_reason": "x",
                "notes": "n",
                "assignees": ("ada",),
            },
            ("update_task",),
        ),
        (TASK, {"state": "done", "title": "x"}, ("edit",)),
        (TASK, {"watchers": ("ada",)}, ("edit",)),
        (ARTIFACT, {"title": "x"}, ("edit",)),
        (ARTIFACT, {"state": "accepted"}, ("accept_artifact",)),
        (ARTIFACT, {"state": "accepted", "title": "x"}, ("accept_artifact",)),
        (replace(ARTIFACT, state="accepted"), {"title": "x"}, ("edit",)),
        (replace(ARTIFACT, state="accepted"), {"supersedes": "a"}, ("supersede_artifact",)),
        (ARTIFACT, {"state": "superseded", "superseded_by": "a"}, ("supersede_artifact",)),
        (
            ARTIFACT,
            {"state": "superseded", "superseded_by": "a", "supersedes": "b"},
            ("supersede_artifact",),
        ),
        (ARTIFACT, {"state": "superseded", "title": "x"}, ("edit",)),
        (ARTIFACT, {"state": "deprecated"}, ("edit",)),
        (ARTIFACT, {"state": "proposed", "title": "x"}, ("edit",)),
        (DRAFT, {"state": "rejected", "review_notes": "no"}, ("reject_draft",)),
        (DRAFT, {"state": "approved"}, ("approve_draft",)),
        (DRAFT, {"state": "published", "published": "comment_1"}, ("approve_draft",)),
        (DRAFT, {"state": "expired"}, ("edit",)),
        (DRAFT, {"title": "other"}, ("edit",)),
        (replace(DRAFT, state="rejected"), {"review_notes": "no"}, ("edit",)),
        (LINK, {"state": "dismissed"}, ("judge_link",)),
        (LINK, {"note": "x"}, ("edit",)),
        (NOTIFICATION, {"state": "done"}, ()),
    ],
)
def test_permissions_that_a_change_needs(
    before: Body, changes: dict[str, object], rights: tuple[str, ...]
):
    assert rights_of(before, replace(before, **changes)) == rights


@pytest.mark.parametrize("body", [THREAD, COMMENT, OBSERVATION, ARTIFACT, TASK])
def test_sensitive_record_needs_one_more_permission(body: Body):
    assert rights_of(None, replace(body, sensitivity="sensitive"))[-1] == "sensitive"
    assert rights_of(body, replace(body, sensitivity="sensitive")) == ("edit", "sensitive")
    assert rights_of(replace(body, sensitivity="sensitive"), body) == ("edit",)


@pytest.mark.parametrize("body", [DRAFT, LINK, NOTIFICATION])
def test_inherited_sensitivity_needs_no_permission(body: Body):
    assert "sensitive" not in rights_of(None, replace(body, sensitivity="sensitive"))


def test_summary_of_a_sensitive_thread_is_no_sensitive_write():
    before = replace(THREAD, sensitivity="sensitive")
    assert rights_of(before, replace(before, **SUMMED_UP)) == ("comment",)
    assert rights_of(before, replace(before, summary="x")) == ("comment",)
    resolved = replace(before, state="resolved", resolution="yes")
    assert rights_of(before, resolved) == ("resolve_thread", "sensitive")


@pytest.mark.parametrize(
    "body", [THREAD, TASK, NOTIFICATION, replace(TASK, sensitivity="sensitive")]
)
def test_unchanged_record_needs_no_permission(body: Body):
    assert rights_of(body, replace(body)) == ()


def test_changed_fields_are_those_that_differ():
    assert changed_fields(TASK, replace(TASK, title="x", tags=("t",))) == {"title", "tags"}
    assert changed_fields(TASK, replace(TASK)) == frozenset()
