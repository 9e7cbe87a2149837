"""Create records: permissions, validation, and the effects of a new record.

Effects are the summary of its thread, notifications and candidate contradictions. Functions that
take a `step` write inside that transaction, and validate everything before they write anything.
Those that take a library run one transaction each, under an idempotency key. Changes to existing
records are in `update`.
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
from cortex.base.record_spec import fields_of, spec_of
from cortex.base.settings import Settings
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.contradictions.detect import Contradiction, clashes_of, write_clashes
from cortex.families.team.ids import new_id
from cortex.families.team.notifications import (
    notice_accepted,
    notice_comment,
    notice_mentions,
    notice_task,
    person_of,
    resolve_name,
)
from cortex.families.team.permissions import need
from cortex.families.team.references import by_slug, resolved, target_of
from cortex.families.team.validation import check_first, checked, refusal
from cortex.families.team.writes.discussion import renew_summary, supply_summary
from cortex.families.team.writes.supersession import check_supersedes, linked, write_superseded
from cortex.families.team.writes.transactions import Written, carry_out, effective_actor, perform

# Most observations of one batch.
MOST_AT_ONCE = 200
# Larger batches are not compared with existing records.
CLASHES_UP_TO = 20
# Time limit for that comparison.
CLASHES_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class CreateOutcome:
    """Result for one item of a batch: its id, or the error that prevented it."""

    index: int
    id: str
    error: CortexError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateBatch:
    """Results of a batch, in the order of its items."""

    outcomes: tuple[CreateOutcome, ...]
    replayed: bool


# -- inside a transaction


def add_subcortex(
    step: RecordTransaction, body: Subcortex, settings: Settings | None = None
) -> Record[Subcortex]:
    """Create a subcortex. Raises: InputError RECORD_INVALID if its slug is taken."""
    need(step.actor, "create_subcortex")
    body = checked(replace(body, slug=body.slug.strip().casefold()))
    check_first(body)
    if (taken := by_slug(step, body.slug)) is not None:
        raise refusal("slug", f"there is a subcortex {body.slug} already: {taken.id}")
    return step.make(new_id(Subcortex), resolved(step, _resolve_names(body, step, settings)))


def add_thread(
    step: RecordTransaction, body: Thread, settings: Settings | None = None
) -> Record[Thread]:
    """Create a thread and notify the people it mentions."""
    need(step.actor, "create_thread")
    body = _prepare(step, replace(body, summary="", summary_sources=(), summary_by=""))
    record = step.make(new_id(Thread), body)
    notice_mentions(step, record, body.body, settings)
    return record


def add_comment(
    step: RecordTransaction, body: Comment, summary: str = "", settings: Settings | None = None
) -> Record[Comment]:
    """Create a comment; its thread's summary is recomputed, or replaced by `summary`.

    Raises: InputError TARGET_NOT_FOUND for an unknown thread, RECORD_INVALID for an archived one,
    or for a summary that would disclose a sensitive comment in a thread that isn't sensitive.
    """
    need(step.actor, "comment")
    body = checked(body)
    thread = target_of(step, body.thread, ("thread",), "thread")
    if thread.body.state == "archived":
        raise refusal("thread", f"{thread.id} is archived: it takes no more comments")
    if thread.body.sensitivity == SENSITIVE:
        body = replace(body, sensitivity=SENSITIVE)
    elif body.sensitivity == SENSITIVE and summary.strip():
        raise refusal(
            "summary",
            f"{thread.id} isn't sensitive: the summary that everybody sees can't come with a "
            "sensitive comment",
        )
    body = _prepare(step, replace(body, subcortex=thread.body.subcortex))
    supplied = supply_summary(thread, summary, step.author) if summary.strip() else None
    record = step.make(new_id(Comment), body)
    authors = renew_summary(step, thread, record, supplied)
    notice_comment(step, record, thread, authors, settings)
    return record


def add_plain(step: RecordTransaction, body: Body, settings: Settings | None = None) -> Record[Any]:
    """Create a record of a kind without effects of its own, such as an observation."""
    need(step.actor, spec_of(type(body)).right)
    return step.make(new_id(type(body)), _prepare(step, body))


def add_artifact(
    step: RecordTransaction, body: Artifact, settings: Settings | None = None
) -> Record[Artifact]:
    """Create an artifact; an accepted one replaces the one that it supersedes."""
    need(step.actor, "accept_artifact" if body.state == "accepted" else "propose_artifact")
    # Proposing an artifact doesn't include the right to verify it.
    if body.verification != "unverified":
        need(step.actor, "edit")
    accepted = body.state == "accepted"
    owner = resolve_name(body.owner, settings, me=step.author) if body.owner else step.author
    if person_of(owner) not in (person_of(step.author), person_of(step.actor.name)):
        # A tier that may only propose can't make another person the owner.
        need(step.actor, "edit")
    body = _prepare(
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
    """Create a task and notify its assignees."""
    need(step.actor, "create_task")
    body = _resolve_names(body, step, settings)
    if body.assignees and body.state == "inbox":
        body = replace(body, state="assigned")
    record = step.make(new_id(Task), _prepare(step, body))
    notice_task(step, record, None)
    notice_mentions(step, record, body.body, settings, besides=body.assignees)
    return record


def add_link(step: RecordTransaction, body: Link, settings: Settings | None = None) -> Record[Link]:
    """Create a link between two records; an equal link is returned as it is.

    Raises: InputError TARGET_NOT_FOUND.
    """
    need(step.actor, "link")
    body = _prepare(step, body)
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


def _prepare(step: RecordTransaction, body: Any) -> Any:
    """Validate a new body, resolve its references and check the permission for sensitive ones."""
    body = checked(body)
    check_first(body)
    body = resolved(step, body)
    need_sensitive(step, body)
    return body


def need_sensitive(step: RecordTransaction, body: Body) -> None:
    """Require the permission to write sensitive records; without it they can only be drafted.

    Raises: InputError RIGHTS_MISSING.
    """
    if body.sensitivity == SENSITIVE:
        need(step.actor, "sensitive")


def _resolve_names(body: Any, step: RecordTransaction, settings: Settings | None) -> Any:
    """Resolve the names in the lists of a body to principals, without duplicates."""
    lists = {
        name: tuple(
            dict.fromkeys(
                resolve_name(person, settings, me=step.author) for person in getattr(body, name)
            )
        )
        for name, spec in fields_of(type(body)).items()
        if spec.principal and spec.part is not None
    }
    return replace(body, **lists)


_ADDERS: Mapping[type, Any] = {
    Subcortex: add_subcortex,
    Thread: add_thread,
    Artifact: add_artifact,
    Task: add_task,
    Link: add_link,
}


def add_body(
    step: RecordTransaction, body: Body, summary: str = "", settings: Settings | None = None
) -> Record[Any]:
    """Create a record of any kind except drafts and notifications."""
    if isinstance(body, Comment):
        return add_comment(step, body, summary, settings)
    return _ADDERS.get(type(body), add_plain)(step, body, settings)


# -- one transaction each


def create(
    library: Library,
    body: Body,
    *,
    actor: Actor,
    key: str = "",
    payload: str = "",
    summary: str = "",
) -> Record[Any]:
    """Create a record and index it; the same key returns the same record again.

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
) -> Written:
    """Like `create`, and also reports if the same key had been used before."""
    clashes = clashes_of(library, body)

    def work(step: RecordTransaction) -> str:
        record = add_body(step, body, summary, library.settings)
        write_clashes(step, record, clashes)
        return record.id

    action, payload = f"create_{kind_of(body)}", payload or f"{body!r}{summary}"
    return carry_out(library, work, actor=actor, key=key, action=action, payload=payload)


def create_observations(
    library: Library,
    observations: Sequence[Observation],
    *,
    actor: Actor,
    key: str,
    payload: str = "",
    refused: Mapping[int, CortexError] | None = None,
) -> CreateBatch:
    """Create several observations in one transaction; each failure is reported on its own.

    `refused` maps the index of an item to the error with which the caller rejected it. The same key
    returns the same outcomes again; if no item could be written, the key stays unused.

    Raises: InputError RIGHTS_MISSING, RECORD_INVALID for too many or none, IDEMPOTENCY_REPLAY.
    """
    need(effective_actor(library, actor), "observe")
    clashes = _clashes_of_batch(library, observations)

    def work(step: RecordTransaction) -> str:
        outcomes = [
            CreateOutcome(index, "", refused[index])
            if refused and index in refused
            else _add_to_batch(step, index, body, clashes[index])
            for index, body in enumerate(observations)
        ]
        if not any(outcome.id for outcome in outcomes):
            raise _NothingWritten(outcomes)
        return json.dumps([_encode_outcome(outcome) for outcome in outcomes], default=str)

    try:
        done = perform(
            library,
            work,
            actor=actor,
            key=key,
            action="create_observations",
            payload=payload or repr(observations),
        )
    except _NothingWritten as error:
        return CreateBatch(error.outcomes, False)
    return CreateBatch(
        tuple(_decode_outcome(entry) for entry in json.loads(done.result)), done.replayed
    )


def _clashes_of_batch(
    library: Library, observations: Sequence[Observation]
) -> list[tuple[Contradiction, ...]]:
    """Find what each item of a batch contradicts, up to a time limit.

    Raises: InputError RECORD_INVALID for too many items or none.
    """
    count = len(observations)
    if not 0 < count <= MOST_AT_ONCE:
        raise refusal(
            "observations", f"a batch has 1 to {MOST_AT_ONCE} observations, this one has {count}"
        )
    if count > CLASHES_UP_TO:
        return [()] * count
    deadline = time.monotonic() + CLASHES_SECONDS
    return [clashes_of(library, body, until=deadline) for body in observations]


class _NothingWritten(Exception):
    """No item of a batch could be written: rolls the transaction back, so its key stays unused."""

    def __init__(self, outcomes: Sequence[CreateOutcome]) -> None:
        super().__init__()
        self.outcomes = tuple(outcomes)


def _add_to_batch(
    step: RecordTransaction, index: int, body: Observation, clashes: Sequence[Contradiction]
) -> CreateOutcome:
    try:
        record = add_plain(step, body)
    # `add_plain` validates before it writes, so there is nothing to undo.
    except InputError as error:
        return CreateOutcome(index, "", error)
    return CreateOutcome(index, record.id, None, tuple(write_clashes(step, record, clashes)))


def _encode_outcome(outcome: CreateOutcome) -> dict[str, object]:
    """Encode the result of one item for the stored answer of its key."""
    error = outcome.error and {
        "code": outcome.error.code,
        "message": outcome.error.message,
        "context": outcome.error.context,
    }
    return {"index": outcome.index, "id": outcome.id, "error": error, "warnings": outcome.warnings}


def _decode_outcome(entry: Mapping[str, Any]) -> CreateOutcome:
    """Decode the result of one item from the stored answer of its key."""
    error = entry["error"] and error_of(
        entry["error"]["code"], entry["error"]["message"], entry["error"]["context"]
    )
    return CreateOutcome(entry["index"], entry["id"], error, tuple(entry["warnings"]))
