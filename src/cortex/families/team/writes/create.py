"""Writing new records: who may, what is refused, and what follows from one: the summary of its
thread, who hears of it, what it clashes with.

The functions that take a step write inside of it, and look at everything before they write
anything. Those that take a library are one step each, under a key. Changing what is there is
another module.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cortex.base.errors import CortexError, InputError, error_of
from cortex.base.record_model import (
    FOUND_KINDS,
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    Comment,
    Link,
    Observation,
    Record,
    Subcortex,
    Task,
    Thread,
    kind_of,
)
from cortex.base.settings import Settings
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.contradictions.detect import Contradiction, clashes_of, write_clashes
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.notifications import (
    notice_accepted,
    notice_comment,
    notice_mentions,
    notice_task,
    person_of,
    who,
)
from cortex.families.team.permissions import need
from cortex.families.team.references import by_slug, resolved, target_of
from cortex.families.team.validation import check_first, checked, refusal
from cortex.families.team.writes.discussion import renew_summary, supply_summary
from cortex.families.team.writes.supersession import check_supersedes, linked, write_superseded
from cortex.families.team.writes.transactions import acting, perform, written

MOST_AT_ONCE = 200  # observations of one batch
CLASHES_UP_TO = 20  # observations of a batch that is compared with what there is
CLASHES_SECONDS = 1.0  # that it takes at most


@dataclass(frozen=True, slots=True)
class Created:
    """A record that was written, or was under the same key before."""

    record: Record[Any]
    replayed: bool


@dataclass(frozen=True, slots=True)
class CreateOutcome:
    """What became of one of several: its id, or why it wasn't written."""

    index: int
    id: str
    error: CortexError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateBatch:
    """What became of several."""

    outcomes: tuple[CreateOutcome, ...]
    replayed: bool


# -- inside a step
# -----------------------------------------------------------------------------------------------------


def add_subcortex(
    step: RecordTransaction, body: Subcortex, settings: Settings | None = None
) -> Record[Subcortex]:
    """Write a new subcortex. Raises: InputError RECORD_INVALID, where its slug is taken."""
    need(step.actor, "create_subcortex")
    body = checked(replace(body, slug=body.slug.strip().casefold()))
    check_first(body)
    if (taken := by_slug(step, body.slug)) is not None:
        raise refusal("slug", f"there is a subcortex {body.slug} already: {taken.id}")
    return step.make(new_id(Subcortex), resolved(step, _named(body, "stewards", step, settings)))


def add_thread(
    step: RecordTransaction, body: Thread, settings: Settings | None = None
) -> Record[Thread]:
    """Write a new thread, and tell whom it mentions."""
    need(step.actor, "create_thread")
    body = _new(step, replace(body, summary="", summary_sources=(), summary_by=""))
    record = step.make(new_id(Thread), body)
    notice_mentions(step, record, body.body, settings)
    return record


def add_comment(
    step: RecordTransaction, body: Comment, summary: str = "", settings: Settings | None = None
) -> Record[Comment]:
    """Write a comment; the summary of its thread is renewed, or is the one that came with it.

    Raises: InputError TARGET_NOT_FOUND for an unknown thread, RECORD_INVALID for an archived one,
    or for a summary that would tell in an open thread what a sensitive comment says.
    """
    need(step.actor, "comment")
    body = checked(body)
    thread = target_of(step, body.thread, ("thread",), "thread")
    if thread.body.state == "archived":
        raise refusal("thread", f"{thread.id} is archived: nobody comments there any more")
    if thread.body.sensitivity == SENSITIVE:
        body = replace(body, sensitivity=SENSITIVE)
    elif body.sensitivity == SENSITIVE and summary.strip():
        raise refusal(
            "summary",
            f"{thread.id} isn't sensitive: the summary that all see can't come with a sensitive comment",
        )
    body = _new(step, replace(body, subcortex=thread.body.subcortex))
    supplied = supply_summary(thread, summary, step.author) if summary.strip() else None
    record = step.make(new_id(Comment), body)
    authors = renew_summary(step, thread, record, supplied)
    notice_comment(step, record, thread, authors, settings)
    return record


def add_observation(
    step: RecordTransaction, body: Observation, settings: Settings | None = None
) -> Record[Observation]:
    """Write an observation."""
    need(step.actor, "observe")
    return step.make(new_id(Observation), _new(step, body))


def add_artifact(
    step: RecordTransaction, body: Artifact, settings: Settings | None = None
) -> Record[Artifact]:
    """Write an artifact; one that is accepted takes the place of the one that it supersedes."""
    need(step.actor, "accept_artifact" if body.state == "accepted" else "propose_artifact")
    if body.verification != "unverified":  # whoever proposes something doesn't judge it
        need(step.actor, "edit")
    accepted = body.state == "accepted"
    owner = who(body.owner, settings, me=step.author) if body.owner else step.author
    if person_of(owner) not in (person_of(step.author), person_of(step.actor.name)):
        need(step.actor, "edit")  # nobody is made to stand for something by who may only propose it
    body = _new(
        step,
        replace(body, owner=owner, superseded_by="", last_reviewed=step.now if accepted else 0),
    )
    old = target_of(step, body.supersedes, ("artifact",), "supersedes") if body.supersedes else None
    if old is not None and accepted:
        check_supersedes(step, old)
    record = step.make(new_id(Artifact), body)
    notice_mentions(step, record, body.body, settings)
    if accepted:
        notice_accepted(step, record)
        if old is not None:
            write_superseded(step, old, record)
    return record


def add_task(step: RecordTransaction, body: Task, settings: Settings | None = None) -> Record[Task]:
    """Write a task, and tell those who are to do it."""
    need(step.actor, "create_task")
    body = _named(_named(body, "assignees", step, settings), "watchers", step, settings)
    if body.assignees and body.state == "inbox":
        body = replace(body, state="assigned")
    record = step.make(new_id(Task), _new(step, body))
    notice_task(step, record, None)
    notice_mentions(step, record, body.body, settings, besides=body.assignees)
    return record


def add_link(step: RecordTransaction, body: Link, settings: Settings | None = None) -> Record[Link]:
    """Write how one record stands to another; what is linked like that already stays as it is.

    Raises: InputError TARGET_NOT_FOUND.
    """
    need(step.actor, "link")
    body = _new(step, body)
    source = target_of(step, body.source, FOUND_KINDS, "source")
    target = target_of(step, body.target, FOUND_KINDS, "target")
    if SENSITIVE in (source.body.sensitivity, target.body.sensitivity):
        body = replace(body, sensitivity=SENSITIVE)
    if (known := linked(step, body.source, body.relation, body.target)) is not None:
        return known
    if (
        body.relation == "supersedes"
        and isinstance(source.body, Artifact)
        and isinstance(target.body, Artifact)
    ):
        check_supersedes(step, target, source)
        source = step.put(replace(source, body=replace(source.body, supersedes=target.id)))
        return write_superseded(step, target, source, body.note)
    return step.make(new_id(Link), body)


def _new(step: RecordTransaction, body: Any) -> Any:
    """A new body as it is written: in order, in its place, and by somebody who may."""
    body = checked(body)
    check_first(body)
    body = resolved(step, body)
    need_sensitive(step, body)
    return body


def need_sensitive(step: RecordTransaction, body: Body) -> None:
    """What is sensitive is a draft for whoever may not write it.

    Raises: InputError RIGHTS_MISSING.
    """
    if body.sensitivity == SENSITIVE:
        need(step.actor, "sensitive")


def _named(body: Any, field: str, step: RecordTransaction, settings: Settings | None) -> Any:
    names = dict.fromkeys(who(name, settings, me=step.author) for name in getattr(body, field))
    return replace(body, **{field: tuple(names)})


_ADDERS: Mapping[type, Any] = {
    Subcortex: add_subcortex,
    Thread: add_thread,
    Observation: add_observation,
    Artifact: add_artifact,
    Task: add_task,
    Link: add_link,
}


def add_body(
    step: RecordTransaction, body: Body, summary: str = "", settings: Settings | None = None
) -> Record[Any]:
    """Write a new record of whichever kind; drafts and notifications have ways of their own."""
    if isinstance(body, Comment):
        return add_comment(step, body, summary, settings)
    return _ADDERS[type(body)](step, body, settings)


# -- one step each
# -----------------------------------------------------------------------------------------------------


def create(
    library: Library,
    body: Body,
    *,
    actor: Actor,
    key: str = "",
    payload: str = "",
    summary: str = "",
) -> Record[Any]:
    """Write a new record, found from now on; the same key gives the same record again.

    Raises: InputError RECORD_INVALID, SENSITIVE_BLOCKED, RIGHTS_MISSING, TARGET_NOT_FOUND,
    SCOPE_NOT_FOUND, IDEMPOTENCY_REPLAY.
    """
    return create_once(library, body, actor=actor, key=key, payload=payload, summary=summary).record


def create_once(
    library: Library,
    body: Body,
    *,
    actor: Actor,
    key: str = "",
    payload: str = "",
    summary: str = "",
) -> Created:
    """As `create`, and whether it was there before."""
    clashes = clashes_of(library, body)

    def work(step: RecordTransaction) -> str:
        record = add_body(step, body, summary, library.settings)
        write_clashes(step, record, clashes)
        return record.id

    done = perform(
        library,
        work,
        actor=actor,
        key=key or fresh_key(),
        action=f"create_{kind_of(body)}",
        payload=payload or f"{body!r}{summary}",
    )
    return Created(written(library, done.result), done.replayed)


def create_observations(
    library: Library,
    observations: Sequence[Observation],
    *,
    actor: Actor,
    key: str,
    payload: str = "",
    refused: Mapping[int, CortexError] | None = None,
) -> CreateBatch:
    """Write several observations in one step; what can't be written is told, each by itself, and
    the others are.

    `refused` are those that somebody else decided against, by their place. The same key gives the
    same outcomes again; where none could be written the key stays free. Raises: InputError
    RIGHTS_MISSING, RECORD_INVALID for too many or none, IDEMPOTENCY_REPLAY.
    """
    need(acting(library, actor), "observe")
    if not 0 < len(observations) <= MOST_AT_ONCE:
        raise refusal(
            "observations",
            f"1 to {MOST_AT_ONCE} observations at once, these are {len(observations)}",
        )
    compared = len(observations) <= CLASHES_UP_TO
    until = time.monotonic() + CLASHES_SECONDS
    clashes = [clashes_of(library, body, until=until) if compared else () for body in observations]
    no = refused or {}

    def work(step: RecordTransaction) -> str:
        outcomes = [
            CreateOutcome(index, "", no[index])
            if index in no
            else _add_one(step, index, body, clashes[index])
            for index, body in enumerate(observations)
        ]
        if not any(one.id for one in outcomes):
            raise _NothingWritten(outcomes)
        return json.dumps([_told(outcome) for outcome in outcomes], default=str)

    try:
        done = perform(
            library,
            work,
            actor=actor,
            key=key,
            action="create_observations",
            payload=payload or repr(observations),
        )
    except _NothingWritten as nothing:
        return CreateBatch(nothing.outcomes, False)
    return CreateBatch(tuple(_outcome(told) for told in json.loads(done.result)), done.replayed)


class _NothingWritten(Exception):
    """None of several could be written: the step is undone, and its key is free."""

    def __init__(self, outcomes: Sequence[CreateOutcome]) -> None:
        super().__init__()
        self.outcomes = tuple(outcomes)


def _add_one(
    step: RecordTransaction, index: int, body: Observation, clashes: Sequence[Contradiction]
) -> CreateOutcome:
    try:
        record = add_observation(step, body)
    except InputError as error:  # nothing of it is written yet
        return CreateOutcome(index, "", error)
    return CreateOutcome(index, record.id, None, tuple(write_clashes(step, record, clashes)))


def _told(one: CreateOutcome) -> dict[str, object]:
    error = one.error and {
        "code": one.error.code,
        "message": one.error.message,
        "context": one.error.context,
    }
    return {"index": one.index, "id": one.id, "error": error, "warnings": one.warnings}


def _outcome(told: Mapping[str, Any]) -> CreateOutcome:
    error = told["error"] and error_of(
        told["error"]["code"], told["error"]["message"], told["error"]["context"]
    )
    return CreateOutcome(told["index"], told["id"], error, tuple(told["warnings"]))
