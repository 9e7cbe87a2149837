"""Writes of team members, each with a unique mark; run in a member's process.

A request is JSON: the action, its mark and key, person or agent, and the records that it is about.
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

Request = Mapping[str, Any]


def apply(library: Library, request: Request) -> str:
    """Apply a write and return the ids of the records that it made or changed."""
    actor = agent(library.settings) if request["by"] == "agent" else person()
    return _ACTIONS[request["action"]](library, request, actor)


def _create(make: Callable[[Request], Any]) -> Callable[[Library, Request, Actor], str]:
    return lambda library, request, actor: (
        create(library, make(request), actor=actor, key=request["key"]).id
    )


def _revise(change: Callable[[Any, str], Any]) -> Callable[[Library, Request, Actor], str]:
    def action(library: Library, request: Request, actor: Actor) -> str:
        mark = request["mark"]
        payload = f"{request['action']} {request['about']} {mark}"
        return revise(
            library,
            request["about"],
            lambda body: change(body, mark),
            actor=actor,
            action="edit",
            key=request["key"],
            payload=payload,
        ).id

    return action


def _patch(make: Callable[[str], dict[str, str]]) -> Callable[[Library, Request, Actor], str]:
    return lambda library, request, actor: (
        update_task(
            library, request["about"], make(request["mark"]), actor=actor, key=request["key"]
        ).id
    )


def _draft(make: Callable[[Request], Draft]) -> Callable[[Library, Request, Actor], str]:
    return lambda library, request, actor: (
        create_draft(library, make(request), actor=actor, key=request["key"])[0].id
    )


def _batch(library: Library, request: Request, actor: Actor) -> str:
    observations = [
        Observation(f"Cold {request['mark']}", thread=request["about"]),
        Observation(f"Warm {request['mark']}"),
    ]
    done = create_observations(library, observations, actor=actor, key=request["key"])
    return " ".join(outcome.id for outcome in done.outcomes)


def _acknowledge_inbox(library: Library, request: Request, actor: Actor) -> str:
    ids = [
        entry.id
        for entry in inbox(library, limit=5).entries
        if entry.kind == "notification" and entry.type != "system_alert"
    ]
    return " ".join(acknowledge(library, ids, actor=actor, key=request["key"]))


_ACTIONS: dict[str, Callable[[Library, Request, Actor], str]] = {
    "subcortex": _create(lambda request: Subcortex(request["slug"], f"Lamps {request['mark']}")),
    "thread": _create(
        lambda request: Thread(
            f"Why {request['mark']}?",
            f"@{request['other']}, look.",
            subcortex=request["scope"],
            tags=(request["mark"],),
        )
    ),
    "secret thread": _create(
        lambda request: Thread(f"Who pays {request['mark']}?", sensitivity=SENSITIVE)
    ),
    "comment": _create(
        lambda request: Comment(
            request["about"], f"It was {request['mark']}. We decided to keep {request['mark']}."
        )
    ),
    "observation": _create(
        lambda request: Observation(
            f"Limit of {request['mark']}",
            f"The limit is {request['number']} ampere.",
            thread=request["about"],
            tags=("fuse",),
        )
    ),
    "batch": _batch,
    "draft": _draft(
        lambda request: Draft(
            "comment", "", f"Say {request['mark']}.", target=request["about"], target_kind="thread"
        )
    ),
    "drafted change": _draft(
        lambda request: Draft(
            "task_update",
            "",
            "",
            patch=(("notes", request["mark"]),),
            target=request["about"],
            target_kind="task",
        )
    ),
    "approve": lambda library, request, actor: (
        approve(
            library, request["about"], actor=actor, key=request["key"], notes=request["mark"]
        ).draft.id
    ),
    "reject": lambda library, request, actor: (
        reject(library, request["about"], actor=actor, key=request["key"], notes=request["mark"]).id
    ),
    "task": _create(
        lambda request: Task(
            f"Mend {request['mark']}", assignees=(request["other"], "me"), thread=request["about"]
        )
    ),
    "note": _patch(lambda mark: {"notes": mark}),
    "block": _patch(lambda mark: {"state": "blocked", "blocked_reason": mark}),
    "tag": _revise(lambda body, mark: replace(body, tags=(*body.tags, mark))),
    "watch": _revise(lambda body, mark: replace(body, watchers=(*body.watchers, mark))),
    "retitle": _revise(lambda body, mark: replace(body, title=f"About {mark}")),
    "rewrite": _revise(lambda body, mark: replace(body, body=f"Now {mark}.")),
    "artifact": _create(
        lambda request: Artifact(
            f"Rule {request['mark']}",
            "Solder.",
            state="proposed",
            evidence=(Evidence("thread", request["about"]),),
        )
    ),
    "accept": lambda library, request, actor: (
        accept_artifact(
            library,
            request["about"],
            actor=actor,
            key=request["key"],
            evidence=(Evidence("url", f"https://example.com/{request['mark']}"),),
        ).id
    ),
    "supersede": lambda library, request, actor: (
        supersede_artifact(
            library,
            request["about"],
            request["and"],
            actor=actor,
            key=request["key"],
            note=request["mark"],
        ).id
    ),
    "link": _create(
        lambda request: Link(request["about"], "supports", request["and"], note=request["mark"])
    ),
    "describe": _revise(lambda body, mark: replace(body, description=mark)),
    "term": _revise(
        lambda body, mark: replace(body, glossary=(*body.glossary, Term(mark, "a lamp")))
    ),
    "pin": lambda library, request, actor: (
        pin(library, request["scope"], request["about"], actor=actor, key=request["key"]).id
    ),
    "resolve": lambda library, request, actor: (
        resolve_thread(
            library, request["about"], request["mark"], actor=actor, key=request["key"]
        ).id
    ),
    "reopen": lambda library, request, actor: (
        reopen_thread(library, request["about"], actor=actor, key=request["key"]).id
    ),
    "done with": _acknowledge_inbox,
}
