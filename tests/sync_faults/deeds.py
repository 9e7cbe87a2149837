"""What members of a team do, each deed with a mark that nothing else says; run in a member's
process.

A deed is told as JSON: its name, its mark, its key, who does it, and the records that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cortex.base.actors import agent, person
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Comment,
    Draft,
    Evidence,
    Link,
    Observation,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.engine.library import Library
from cortex.families.team.inbox import acknowledge, inbox
from cortex.families.team.writes.actions import (
    accept_artifact,
    pin,
    reopen_thread,
    resolve_thread,
    supersede_artifact,
    update_task,
)
from cortex.families.team.writes.create import create, create_observations
from cortex.families.team.writes.drafts import approve, create_draft, reject
from cortex.families.team.writes.update import revise

Told = Mapping[str, Any]


def do(library: Library, told: Told) -> str:
    """Do it; gives the id of what came of it, or what was changed."""
    actor = agent(library.settings) if told["by"] == "agent" else person()
    return _DEEDS[told["deed"]](library, told, actor)


def _create(make: Callable[[Told], Any]) -> Callable[[Library, Told, Actor], str]:
    return lambda library, told, actor: create(library, make(told), actor=actor, key=told["key"]).id


def _revise(change: Callable[[Any, str], Any]) -> Callable[[Library, Told, Actor], str]:
    def deed(library: Library, told: Told, actor: Actor) -> str:
        mark = told["mark"]
        asked = f"{told['deed']} {told['about']} {mark}"
        return revise(
            library,
            told["about"],
            lambda body: change(body, mark),
            actor=actor,
            action="edit",
            key=told["key"],
            payload=asked,
        ).id

    return deed


def _patch(make: Callable[[str], dict[str, str]]) -> Callable[[Library, Told, Actor], str]:
    return lambda library, told, actor: (
        update_task(library, told["about"], make(told["mark"]), actor=actor, key=told["key"]).id
    )


def _draft(make: Callable[[Told], Draft]) -> Callable[[Library, Told, Actor], str]:
    return lambda library, told, actor: (
        create_draft(library, make(told), actor=actor, key=told["key"])[0].id
    )


def _batch(library: Library, told: Told, actor: Actor) -> str:
    some = [
        Observation(f"Cold {told['mark']}", thread=told["about"]),
        Observation(f"Warm {told['mark']}"),
    ]
    done = create_observations(library, some, actor=actor, key=told["key"])
    return " ".join(outcome.id for outcome in done.outcomes)


def _done_with(library: Library, told: Told, actor: Actor) -> str:
    ids = [
        entry.id
        for entry in inbox(library, limit=5).entries
        if entry.kind == "notification" and entry.type != "system_alert"
    ]
    return " ".join(acknowledge(library, ids, actor=actor, key=told["key"]))


_DEEDS: dict[str, Callable[[Library, Told, Actor], str]] = {
    "subcortex": _create(lambda told: Subcortex(told["slug"], f"Lamps {told['mark']}")),
    "thread": _create(
        lambda told: Thread(
            f"Why {told['mark']}?",
            f"@{told['other']}, look.",
            subcortex=told["scope"],
            tags=(told["mark"],),
        )
    ),
    "secret thread": _create(
        lambda told: Thread(f"Who pays {told['mark']}?", sensitivity=SENSITIVE)
    ),
    "comment": _create(
        lambda told: Comment(
            told["about"], f"It was {told['mark']}. We decided to keep {told['mark']}."
        )
    ),
    "observation": _create(
        lambda told: Observation(
            f"Limit of {told['mark']}",
            f"The limit is {told['number']} ampere.",
            thread=told["about"],
            tags=("fuse",),
        )
    ),
    "batch": _batch,
    "draft": _draft(
        lambda told: Draft(
            "comment", "", f"Say {told['mark']}.", target=told["about"], target_kind="thread"
        )
    ),
    "drafted change": _draft(
        lambda told: Draft(
            "task_update",
            "",
            "",
            patch=(("notes", told["mark"]),),
            target=told["about"],
            target_kind="task",
        )
    ),
    "approve": lambda library, told, actor: (
        approve(library, told["about"], actor=actor, key=told["key"], notes=told["mark"]).draft.id
    ),
    "reject": lambda library, told, actor: (
        reject(library, told["about"], actor=actor, key=told["key"], notes=told["mark"]).id
    ),
    "task": _create(
        lambda told: Task(
            f"Mend {told['mark']}", assignees=(told["other"], "me"), thread=told["about"]
        )
    ),
    "note": _patch(lambda mark: {"notes": mark}),
    "block": _patch(lambda mark: {"state": "blocked", "blocked_reason": mark}),
    "tag": _revise(lambda body, mark: replace(body, tags=(*body.tags, mark))),
    "watch": _revise(lambda body, mark: replace(body, watchers=(*body.watchers, mark))),
    "retitle": _revise(lambda body, mark: replace(body, title=f"About {mark}")),
    "rewrite": _revise(lambda body, mark: replace(body, body=f"Now {mark}.")),
    "artifact": _create(
        lambda told: Artifact(
            f"Rule {told['mark']}",
            "Solder.",
            state="proposed",
            evidence=(Evidence("thread", told["about"]),),
        )
    ),
    "accept": lambda library, told, actor: (
        accept_artifact(
            library,
            told["about"],
            actor=actor,
            key=told["key"],
            evidence=(Evidence("url", f"https://example.com/{told['mark']}"),),
        ).id
    ),
    "supersede": lambda library, told, actor: (
        supersede_artifact(
            library, told["about"], told["and"], actor=actor, key=told["key"], note=told["mark"]
        ).id
    ),
    "link": _create(lambda told: Link(told["about"], "supports", told["and"], note=told["mark"])),
    "describe": _revise(lambda body, mark: replace(body, description=mark)),
    "term": _revise(
        lambda body, mark: replace(body, glossary=(*body.glossary, Term(mark, "a lamp")))
    ),
    "pin": lambda library, told, actor: (
        pin(library, told["scope"], told["about"], actor=actor, key=told["key"]).id
    ),
    "resolve": lambda library, told, actor: (
        resolve_thread(library, told["about"], told["mark"], actor=actor, key=told["key"]).id
    ),
    "reopen": lambda library, told, actor: (
        reopen_thread(library, told["about"], actor=actor, key=told["key"]).id
    ),
    "done with": _done_with,
}
