"""Every action at home, sent to the Core: it needs the same tier and has the same result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cortex.base.actors import AGENT, MOST_OF_AGENTS, PERSON
from cortex.base.errors import InputError
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    Comment,
    Draft,
    Evidence,
    Link,
    Notification,
    Observation,
    RecordFilter,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.engine.library import Library
from cortex.families.team.required_permissions import changed_fields
from cortex.families.team.wire.codec import APPLIED, REFUSED
from cortex.families.team.writes import actions, drafts
from cortex.families.team.writes.create import create, create_observations
from cortex.families.team.writes.update import revise
from interfaces.team_server.team import Home, library_of, open_team

URL = (Evidence("url", "https://example.com/"),)
PATCH = {"state": "in_progress", "assignees": "bob"}


@dataclass
class Place:
    """A library, and the ids of its records by name."""

    library: Library
    ids: dict[str, str]

    def kind(self, kind: str, recipient: str) -> list[str]:
        wanted = RecordFilter(kinds=(kind,), refs=(("recipient", recipient),), states=("new",))
        return [record.id for record in self.library.store.records.select(wanted)]


Deed = Callable[[Place, Actor], Any]


def new(name: str, body: Callable[[Place], Any], summary: str = "") -> tuple[str, Deed]:
    def deed(place: Place, actor: Actor) -> None:
        place.ids[name] = create(place.library, body(place), actor=actor, summary=summary).id

    return f"create {name}", deed


def draft(name: str, body: Callable[[Place], Draft]) -> tuple[str, Deed]:
    def deed(place: Place, actor: Actor) -> None:
        place.ids[name] = drafts.create_draft(place.library, body(place), actor=actor)[0].id

    return f"draft {name}", deed


def edit(name: str, **changes: Any) -> tuple[str, Deed]:
    def deed(place: Place, actor: Actor) -> None:
        values = {
            field: value(place) if callable(value) else value for field, value in changes.items()
        }
        revise(
            place.library,
            place.ids[name],
            lambda body: replace(body, **values),
            actor=actor,
            action="edit",
        )

    return f"edit {name} {' '.join(changes)}", deed


def do(what: str, deed: Deed) -> tuple[str, Deed]:
    return what, deed


BY_PERSON: list[tuple[str, Deed]] = [
    new("scope", lambda at: Subcortex("api", "API", stewards=("person",))),
    new("other", lambda at: Subcortex("web", "Web")),
    new("thread", lambda at: Thread("Timeouts", "@bob: how long do we wait?", subcortex="api", tags=("a",))),
    new("comment", lambda at: Comment(at.ids["thread"], "We wait 30 seconds because the gateway does.")),
    new("reply", lambda at: Comment(at.ids["thread"], "Then 20 would do.", parent=at.ids["comment"])),
    new("summed", lambda at: Comment(at.ids["thread"], "Decided."), summary="Twenty seconds are enough."),
    new("later", lambda at: Comment(at.ids["thread"], "The load balancer waits 60 seconds, though.")),
    new("seen", lambda at: Observation("Timeouts are 30 seconds", "Seen in the log", thread=at.ids["thread"])),
    do("observe several", lambda at, actor: create_observations(
        at.library, [Observation("one"), Observation("two", subcortex="web")], actor=actor, key=f"several{actor.tier}")),
    new("proposed", lambda at: Artifact("Waiting", "We wait.", state="proposed", evidence=URL, subcortex="api")),
    new("judged", lambda at: Artifact("Waiting, judged", "We wait.", state="proposed", verification="verified")),
    new("accepted", lambda at: Artifact("Waiting, first", "We waited.", state="accepted", evidence=URL)),
    new("next", lambda at: Artifact("Waiting, next", "x", evidence=(Evidence("thread", at.ids["thread"]),), supersedes=at.ids["accepted"])),
    new("third", lambda at: Artifact("Waiting, third", "y", state="accepted", evidence=URL)),
    new("fourth", lambda at: Artifact("Waiting, fourth", "z", state="accepted", evidence=URL)),
    new("task", lambda at: Task("Lower it", assignees=("bob",), thread=at.ids["thread"], watchers=("person",))),
    new("link", lambda at: Link(at.ids["seen"], "supports", at.ids["proposed"])),
    do("accept", lambda at, actor: actions.accept_artifact(at.library, at.ids["proposed"], actor=actor)),
    do("accept what supersedes", lambda at, actor: actions.accept_artifact(at.library, at.ids["next"], actor=actor)),
    do("supersede", lambda at, actor: actions.supersede_artifact(at.library, at.ids["next"], at.ids["third"], actor=actor)),
    new("superseding link", lambda at: Link(at.ids["fourth"], "supersedes", at.ids["third"])),
    do("deprecate", lambda at, actor: actions.deprecate_artifact(at.library, at.ids["proposed"], actor=actor, note="old")),
    do("update the task", lambda at, actor: actions.update_task(at.library, at.ids["task"], PATCH, actor=actor)),
    edit("task", title="Lower it now"),
    edit("task", watchers=("bob", "carol")),
    do("finish the task", lambda at, actor: actions.update_task(at.library, at.ids["task"], {"state": "done"}, actor=actor)),
    do("pin", lambda at, actor: actions.pin(at.library, "api", at.ids["thread"], actor=actor)),
    do("unpin", lambda at, actor: actions.unpin(at.library, "api", at.ids["thread"], actor=actor)),
    edit("scope", glossary=(Term("wait", "to do nothing"),), stewards=("person", "bob")),
    edit("thread", title="Timeouts of the gateway"),
    edit("thread", subcortex=lambda at: at.ids["other"]),
    edit("comment", body="We wait 30 seconds since the gateway does."),
    edit("seen", tags=("log",)),
    do("judge a link", lambda at, actor: actions.judge_link(at.library, at.ids["link"], False, actor=actor)),
    do("resolve", lambda at, actor: actions.resolve_thread(at.library, at.ids["thread"], "20 seconds", actor=actor)),
    do("reopen", lambda at, actor: actions.reopen_thread(at.library, at.ids["thread"], actor=actor)),
    draft("a comment", lambda at: Draft("comment", "", "I agree.", target=at.ids["thread"], target_kind="thread")),
    draft("a thread", lambda at: Draft("thread", "Retries", "How often?", target="web", target_kind="subcortex")),
    draft("an artifact", lambda at: Draft("artifact", "Retrying", "Twice.", citations=(at.ids["thread"], "RFC 1"))),
    draft("a change", lambda at: Draft("task_update", "", "again", patch=(("status", "in_progress"), ("assignees", "me")), target=at.ids["task"])),
    draft("nothing", lambda at: Draft("thread", "Nothing", "Really.")),
    draft("nowhere", lambda at: Draft("comment", "", "Where?", target="thread_nowhere")),
    *[do(f"approve {name}", lambda at, actor, name=name: drafts.approve(at.library, at.ids[name], actor=actor, notes="fine"))
      for name in ("a comment", "a thread", "an artifact", "a change")],
    do("approve elsewhere", lambda at, actor: drafts.approve(at.library, at.ids["nowhere"], actor=actor, target=at.ids["thread"])),
    do("reject", lambda at, actor: drafts.reject(at.library, at.ids["nothing"], actor=actor, notes="no")),
    new("hushed", lambda at: Thread("Keys", "Where are they?", sensitivity=SENSITIVE)),
    new("whispered", lambda at: Comment(at.ids["hushed"], "In the vault.")),
    edit("thread", sensitivity=SENSITIVE),
    do("archive a thread", lambda at, actor: actions.archive(at.library, at.ids["thread"], actor=actor)),
    do("archive a subcortex", lambda at, actor: actions.archive(at.library, "api", actor=actor)),
]  # fmt: skip
BY_AGENT: list[tuple[str, Deed]] = [
    new("thread", lambda at: Thread("Timeouts", "@person: how long do we wait?")),
    new("comment", lambda at: Comment(at.ids["thread"], "We wait 30 seconds.")),
    new("summed", lambda at: Comment(at.ids["thread"], "Decided."), summary="Thirty seconds."),
    new("seen", lambda at: Observation("Timeouts are 30 seconds", "The timeout is 30 seconds.")),
    new("seen again", lambda at: Observation("Timeouts are 30 seconds", "The timeout is 90 seconds.")),
    new("proposed", lambda at: Artifact("Waiting", "We wait.", state="proposed", evidence=URL)),
    new("task", lambda at: Task("Lower it", assignees=("person",))),
    new("link", lambda at: Link(at.ids["seen"], "supports", at.ids["proposed"])),
    do("update the task", lambda at, actor: actions.update_task(at.library, at.ids["task"], PATCH, actor=actor)),
    draft("a comment", lambda at: Draft("comment", "", "I agree.", target=at.ids["thread"])),
    draft("hushed", lambda at: Draft("thread", "Keys", "In the vault.", sensitivity=SENSITIVE)),
]  # fmt: skip


def first_tier(deed: Deed, place: Place, name: str, most: int) -> int:
    """The lowest tier that may do something; it is done then."""
    for tier in range(most + 1):
        try:
            deed(place, Actor(name, tier))
        except InputError as error:
            assert error.code == "RIGHTS_MISSING", error.message
        else:
            return tier
    raise AssertionError("no tier may do that")


def upload(home: Home) -> int:
    """Queue all records of a home."""
    everything = (
        Actor(PERSON, 4),
        "once",
        "epoch",
        {},
        lambda found: [row.record for row in found],
    )
    return home.library.store.outbox.upload(*everything, changes=True)


@pytest.mark.parametrize(
    ("name", "deeds", "most"), [(PERSON, BY_PERSON, 4), (AGENT, BY_AGENT, MOST_OF_AGENTS)]
)
def test_every_action_needs_the_same_tier_and_has_the_same_result_at_the_core(
    tmp_path: Path, name, deeds, most
):
    indexed = name == AGENT  # its observations contradict each other
    with (
        open_team(tmp_path, indexed=indexed) as team,
        library_of(tmp_path / "alone", indexed=indexed) as alone,
    ):
        ada = team.home("ada")
        here, there = Place(alone, {}), Place(ada.library, {})
        for what, deed in deeds:
            needed = first_tier(deed, here, name, most)
            deed(there, Actor(name, most))
            sent = ada.actions()
            assert len(sent) == 1, what
            [(entry, action)] = sent
            for tier in range(needed):
                refused = ada.send(entry, action, replace(ada.principal, tier=tier))
                assert refused.status == REFUSED, (what, tier)
                assert refused.error is not None and refused.error.code == "RIGHTS_MISSING", (
                    what,
                    refused.error,
                )
            accepted = ada.send(entry, action, replace(ada.principal, tier=needed))
            assert accepted.status == APPLIED, (what, accepted.error and accepted.error.message)
            at_core = {number: record.body for number, record in team.records().items()}
            if "nowhere" not in there.ids:
                assert at_core == ada.bodies(), what
        made = {
            number: record
            for number, record in team.records().items()
            if record.kind != "notification"
        }
        assert {record.author for record in made.values()} == {
            "ada" if name == PERSON else "ada/agent"
        }
        ada.pull()
        assert {number: record.body for number, record in team.records().items()} == ada.bodies()
        assert not indexed or Link in {
            type(record.body) for record in made.values() if record.body.state == "candidate"
        }
        team.check()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_history_before_the_core_is_uploaded_once_with_the_same_result(tmp_path, kind, request):
    url = request.getfixturevalue("database") if kind == "postgresql" else ""
    with open_team(tmp_path, url) as team:
        ada = team.home("ada")
        ada.library.store.content.set({"core.url": ""})
        place = Place(ada.library, {})
        for _, deed in BY_PERSON:
            deed(place, Actor(PERSON, 4))
        ada.library.store.content.set({"core.url": "https://core.example"})
        assert ada.actions() == [] and upload(ada) > 0
        before = without_others(ada.bodies())
        assert [outcome.error and outcome.error.message for outcome in ada.flush()] == [None]
        at_core = {number: record.body for number, record in team.records().items()}
        differences = {
            number: changed_fields(body, at_core[number])
            for number, body in before.items()
            if at_core[number] != body
        }
        assert differences == {place.ids["a thread"]: {"target"}}, "a slug is an id there"
        assert at_core == without_others(ada.bodies())
        ada.pull()
        assert at_core == without_others(ada.bodies()) and upload(ada) == 0
        team.check()


def without_others(bodies: dict[str, Body]) -> dict[str, Body]:
    """Bodies without notifications of others, which an upload doesn't repeat."""
    return {
        number: body
        for number, body in bodies.items()
        if not isinstance(body, Notification) or body.recipient.partition("/")[0] == "ada"
    }
