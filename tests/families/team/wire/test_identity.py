"""Names of people on the wire, outbound and inbound."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.actors import AGENT, PERSON, person
from cortex.base.record_model import (
    KINDS,
    Actor,
    Artifact,
    Comment,
    Draft,
    Evidence,
    Notification,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.record_spec import fields_of
from cortex.families.team.notification_texts import ROLES, TEMPLATES
from cortex.families.team.validation import checked
from cortex.families.team.wire.identity import inward, outward, renamed, renamed_body
from cortex.families.team.writes.actions import accept_artifact, update_task
from cortex.families.team.writes.create import create
from cortex.families.team.writes.drafts import approve, create_draft, reject

OUT, IN = outward("ada"), inward("ada")
AGENTS = Actor(AGENT, 2)

others = st.sampled_from(["bob", "bob/agent", "adam", "ada.b", "carol_x", "ada/agents", "personal"])
at_home = others | st.sampled_from([PERSON, AGENT])
at_core = others | st.sampled_from(["ada", "ada/agent"])
free = st.text("person agent ada/;: mentioned you in a", max_size=40)


@st.composite
def bodies(draw: st.DrawFn, names: st.SearchStrategy[str]):
    several = st.lists(names, max_size=4, unique=True).map(tuple)
    kind = draw(st.sampled_from([Subcortex, Thread, Artifact, Task, Draft, Notification]))
    match kind.__name__:
        case "Subcortex":
            return Subcortex("api", draw(free), stewards=draw(several))
        case "Thread":
            return Thread(draw(free), summary=draw(free), summary_by=draw(names | st.just("")))
        case "Artifact":
            return Artifact(draw(free), draw(free), owner=draw(names))
        case "Task":
            return Task(
                draw(free), assignees=draw(several), watchers=draw(several), notes=draw(free)
            )
        case "Draft":
            listed = draw(
                st.lists(
                    st.tuples(
                        st.sampled_from(["", " ", "@", " @"]), names, st.sampled_from(["", " "])
                    )
                )
            )
            patch = (
                ("assignees", ",".join("".join(letters) for letters in listed)),
                ("notes", draw(free)),
            )
            return Draft(
                "task_update", "x", draw(free), patch=patch, reviewed_by=draw(names | st.just(""))
            )
    template = draw(st.sampled_from(TEMPLATES))
    reason = template(name=draw(names), what="a comment", role=ROLES[0], changes="done")
    type = draw(st.sampled_from([template.type, "system_alert"]))
    return Notification(type, draw(names), "thread_x", draw(free), reason.text + draw(free))


@given(bodies(at_home), at_home)
def test_outbound_then_inbound_names_are_unchanged(body, author):
    record = Record("thread_x", body, author)
    there = renamed(record, OUT)
    assert renamed(there, IN) == record
    assert renamed(there, OUT) == there, "who is out already stays"


@given(bodies(at_core), at_core)
def test_inbound_then_outbound_names_are_unchanged(body, author):
    record = Record("thread_x", body, author)
    assert renamed(renamed(record, IN), OUT) == record


@given(bodies(at_core))
def test_other_home_keeps_all_names_but_its_own(body):
    assert renamed_body(body, inward("zoe")) == body


def test_names_in_texts_are_not_translated():
    said = "agent and person: the agent mentioned you in a comment; person commented"
    for body in (Comment("thread_x", said), Thread(said, said), Task(said, said, notes=said)):
        assert renamed_body(body, OUT) == body
    notifications = Notification(
        "draft_rejected", "bob", "draft_x", said, f"you drafted this; person rejected it: {said}"
    )
    assert renamed_body(notifications, OUT).reason == f"you drafted this; ada rejected it: {said}"
    contradiction = "a possible contradiction waits for your judgement: agent drafted it"
    body = Notification("review_needed", PERSON, "link_x", "agent", contradiction)
    assert renamed_body(body, OUT) == replace(body, recipient="ada")


def test_longest_translated_reason_fits_the_core(library):
    draft, *_ = create_draft(library, Draft("thread", "A thread", "x"), actor=AGENTS)
    reject(library, draft.id, actor=person(), notes="because " * 200)
    (notification,) = library.store.records.select(
        RecordFilter(kinds=("notification",), refs=(("recipient", AGENT),))
    )
    assert len(notification.body.reason) == 500
    name = "a" * 50
    there = renamed(notification, outward(name))
    assert (
        checked(there.body) == there.body
        and len(there.body.reason) <= fields_of(Notification)["reason"].limit
    )
    assert renamed(there, inward(name)) == notification


def test_every_reason_that_names_a_person_is_translated(library):
    """All actions that notify, with real sentences."""
    thread = create(library, Thread("A thread", "@agent look"), actor=person())
    create(library, Comment(thread.id, "said"), actor=AGENTS)
    create(library, Comment(thread.id, "and more, @bob"), actor=person())
    create(library, Comment(thread.id, "once more"), actor=AGENTS)
    task = create(library, Task("A task", assignees=("agent",)), actor=person())
    update_task(library, task.id, {"state": "done"}, actor=AGENTS)
    artifact = create(
        library, Artifact("It", evidence=(Evidence("url", "https://example.com/"),)), actor=AGENTS
    )
    accept_artifact(library, artifact.id, actor=person())
    for decide in (approve, reject):
        draft, *_ = create_draft(library, Draft("thread", "Another", "x"), actor=AGENTS)
        decide(library, draft.id, actor=person(), notes="agent, person")
    notifications = library.store.records.select(RecordFilter(kinds=("notification",)))
    naming = {template.type for template in TEMPLATES if "{name}" in template.text}
    assert {notification.body.type for notification in notifications} >= naming
    for notification in notifications:
        there = renamed_body(notification.body, OUT)
        head = there.reason.partition(":")[0].split()
        assert not {PERSON, AGENT} & set(head), there.reason
        if notification.body.type in naming:
            assert {"ada", "ada/agent"} & set(head), there.reason


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_field_with_names_is_translated(kind):
    """A new field with names has to be added to `names`."""
    holding = {
        "recipient",
        "owner",
        "stewards",
        "assignees",
        "watchers",
        "reviewed_by",
        "summary_by",
    }
    texts = {name for name, spec in fields_of(kind).items() if spec.hint is str}
    body = kind(**dict.fromkeys(texts, PERSON))
    after = renamed_body(body, OUT)
    changed = {
        field.name
        for field in fields(kind)
        if getattr(after, field.name) != getattr(body, field.name)
    }
    assert changed == holding & texts
