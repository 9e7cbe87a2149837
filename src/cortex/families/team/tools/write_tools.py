"""Write tools: contributions are drafts, unless the settings allow direct writes.

A key decides once if its write is direct: a retry gets the result of the first call, even if the
settings have changed since. Arguments are defined in `arguments`, the tool for observations in
`observations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import (
    ARTIFACT_TYPES,
    SENSITIVE,
    THREAD_TYPES,
    Comment,
    Draft,
    Record,
    Task,
)
from cortex.base.record_spec import spec_of
from cortex.base.text import one_line
from cortex.engine.library import Library
from cortex.engine.store import kind_of_id
from cortex.families.team.code_links import absent, cited
from cortex.families.team.permissions import may
from cortex.families.team.references import resolve_ref
from cortex.families.team.tools import render
from cortex.families.team.tools.arguments import CreateDraft, Keyed, PublishComment, UpdateTask
from cortex.families.team.tools.render import Row, cut, without_empty
from cortex.families.team.tools.row_views import code_link
from cortex.families.team.tools.session import TeamSession
from cortex.families.team.unknown_people import unknown_names
from cortex.families.team.validation import check_value, refusal
from cortex.families.team.writes.actions import checked_patch, update_task_once
from cortex.families.team.writes.create import create_once
from cortex.families.team.writes.drafts import create_draft, destination
from cortex.families.team.writes.placement import route
from cortex.families.team.writes.transactions import check_key, effective_actor
from cortex.plugins.policy import plugin_warnings
from cortex.toolkit.tool import Answer, Call

NO_PLACE = (
    "no thread, task or subcortex is set for this project: "
    "a person can say `cortex team context set`"
)
# Prefix of a slug, where ids are accepted as well.
SCOPE = "subcortex:"
# Allowed values of metadata.type, by type of draft.
_TYPES = {"artifact": ARTIFACT_TYPES, "thread": THREAD_TYPES}


# -- keys


def key_of(arguments: Keyed, action: str) -> str:
    """Return the key of a write; a commit id serves one write of each action.

    Raises: InputError RECORD_INVALID, suggesting a fresh key.
    """
    key = arguments.idempotency_key or (
        f"{arguments.commit_id}:{action}" if arguments.commit_id else ""
    )
    check_key(key)
    return key


def payload_of(arguments: Keyed) -> str:
    """Return the payload that identifies a write: all arguments, independent of any state."""
    return arguments.model_dump_json(exclude={"idempotency_key", "commit_id"})


def done_before(
    library: Library, context: TeamSession, key: str, payload: str, actions: Sequence[str]
) -> str:
    """Return the action that the key was used for with this payload; "" for none."""
    for action in actions:
        try:
            if library.store.records.known(context.actor, key, action, payload) is not None:
                return action
        # The key was used for something else; the write itself reports it.
        except InputError:
            continue
    return ""


# -- drafts


def create_draft_tool(context: TeamSession, arguments: CreateDraft, call: Call) -> Answer:
    """Create a draft for a person to review."""
    key, payload = key_of(arguments, "create_draft"), payload_of(arguments)
    about = arguments.metadata
    target = (arguments.target_ref or "").strip().removeprefix(SCOPE)
    of_task = arguments.draft_type == "task_update"
    if about.type and arguments.draft_type in _TYPES:
        check_value("metadata.type", about.type, _TYPES[arguments.draft_type])
    patch = without_empty(
        {
            "state": about.status,
            "blocked_reason": about.blocked_reason,
            "notes": arguments.body_md if of_task else "",
        }
    )
    draft = Draft(
        arguments.draft_type,
        about.title,
        arguments.body_md,
        target=target,
        target_kind=kind_of_id(target)
        if kind_of_id(target) in ("thread", "task", "subcortex")
        else "",
        patch=_validate_patch(patch) if of_task else (),
        artifact_type=about.type if arguments.draft_type == "artifact" else "",
        thread_type=about.type if arguments.draft_type == "thread" else "",
        citations=about.citations,
        tags=about.tags,
        reason=about.reason,
        summary=about.summary_md,
        sensitivity=about.sensitivity,
        code_links=tuple(code_link(link) for link in about.links if link.strip()),
    )
    with context.writing() as library:
        return Answer(render.whole_text(_store_draft(context, library, draft, key, payload)))


def _validate_patch(fields: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Validate the task fields that change. Raises: InputError RECORD_INVALID."""
    checked = checked_patch({name: str(value) for name, value in fields.items()})
    if "state" in checked:
        check_value("status", checked["state"], spec_of(Task).states)
    return tuple(checked.items())


def _store_draft(
    context: TeamSession, library: Library, draft: Draft, key: str, payload: str
) -> Row:
    """Store a draft and return a row with its destination."""
    draft = replace(draft, code_links=cited(library, context.root, draft.code_links))
    placement = route(library.reader.store.records, context.routes)
    with plugin_warnings() as warnings:
        record, replayed, following = create_draft(
            library, draft, actor=context.actor, key=key, payload=payload, where=placement
        )
    warnings += unknown_names(library, record.body)
    warnings += [gone] if (gone := absent(context.root, draft.code_links)) else []
    place = destination(library.reader.store.records, record.body)
    is_unplaced = place.record is None
    if is_unplaced and not draft.target:
        is_mapped = placement.subcortex or placement.thread or placement.task
        warnings += [*placement.missing, *([] if is_mapped else [NO_PLACE])]
    return without_empty(
        {
            "draft_id": record.id,
            "draft_type": record.body.type,
            "state": record.body.state,
            "posts_to": ""
            if place.record is None
            else {"id": place.record.id, "title": cut(place.record.body.title, 120)},
            "routed_by": "" if draft.target or is_unplaced else placement.why,
            "next_steps": [following],
            "risk_flags": list(record.body.risk_flags),
            "warnings": list(dict.fromkeys(warnings)),
            "replayed": replayed,
        }
    )


# -- comments and tasks


def publish_comment_tool(context: TeamSession, arguments: PublishComment, call: Call) -> Answer:
    """Publish a comment, or draft it."""
    key, payload = key_of(arguments, "publish_comment"), payload_of(arguments)
    with context.writing() as library:
        before = done_before(library, context, key, payload, ("create_comment", "create_draft"))
        direct, thread = before == "create_comment", arguments.thread_id
        why = (
            "agents don't publish comments here (team.agentTier 2 and team.publishComments let "
            "them)"
        )
        if (
            not before
            and may(effective_actor(library, context.actor), "comment")
            and context.settings.team.publish_comments
        ):
            record = _resolve_thread(library, thread)
            direct, thread = (
                record.body.sensitivity != SENSITIVE or may(context.actor, "sensitive"),
                record.id,
            )
            why = "the thread is sensitive: what is said there is drafted first"
        if direct:
            with plugin_warnings() as warnings:
                comment = Comment(thread, arguments.body_md)
                done = create_once(library, comment, actor=context.actor, key=key, payload=payload)
            warnings += unknown_names(library, done.record.body)
            row: Row = {
                "published": True,
                "comment_id": done.record.id,
                "thread_id": done.record.body.thread,
                **without_empty({"warnings": warnings, "replayed": done.replayed}),
            }
            return Answer(
                render.whole_text(
                    row, render.call_text("get_thread", thread_id=done.record.body.thread)
                )
            )
        draft = Draft(
            "comment", "", arguments.body_md, target=arguments.thread_id, target_kind="thread"
        )
        row = _store_draft(context, library, draft, key, payload)
    return Answer(render.whole_text({"published": False, "why": why, **row}))


def _resolve_thread(library: Library, thread_id: str) -> Record[Any]:
    """Return the thread that is written to. Raises: InputError TARGET_NOT_FOUND."""
    try:
        return resolve_ref(library.reader.store.records, thread_id, "thread")
    except InputError as error:
        raise InputError("TARGET_NOT_FOUND", error.message, context=error.context) from None


def update_task_tool(context: TeamSession, arguments: UpdateTask, call: Call) -> Answer:
    """Update a task, or draft the update."""
    key, payload = key_of(arguments, "update_task"), payload_of(arguments)
    fields = {
        "state": arguments.status,
        "blocked_reason": arguments.blocked_reason,
        "notes": arguments.notes,
    }
    if not any(value is not None for value in fields.values()):
        raise refusal("status", "nothing would change: say a status, a blocked_reason or notes")
    patch = _validate_patch({name: value for name, value in fields.items() if value is not None})
    with context.writing() as library:
        before = done_before(library, context, key, payload, ("update_task", "create_draft"))
        if before == "update_task" or (
            may(effective_actor(library, context.actor), "update_task") and before != "create_draft"
        ):
            return Answer(
                render.whole_text(
                    _apply_update(context, library, arguments.task_id, patch, key, payload)
                )
            )
        title = _draft_title(library, arguments.task_id, patch)
        draft = Draft(
            "task_update", title, "", target=arguments.task_id, target_kind="task", patch=patch
        )
        row = _store_draft(context, library, draft, key, payload)
    return Answer(render.whole_text({"updated": False, **row}))


def _draft_title(library: Library, task_id: str, patch: Sequence[tuple[str, str]]) -> str:
    """Return the title of a drafted task update: the task, if it exists, and the change."""
    words = {"state": "state", "blocked_reason": "blocked by", "notes": "notes"}
    values = [
        (name, value.replace("_", " ") if name == "state" else value) for name, value in patch
    ]
    change = ", ".join(f"{words.get(name, name)} {one_line(value, 60)}" for name, value in values)
    try:
        task = resolve_ref(library.reader.store.records, task_id, "task")
    except InputError:
        return change
    return f"{one_line(task.body.title, 150)}: {change}"


def _apply_update(
    context: TeamSession,
    library: Library,
    task_id: str,
    patch: Sequence[tuple[str, str]],
    key: str,
    payload: str,
) -> Row:
    """Update a task and return its row. Raises: InputError TARGET_NOT_FOUND."""
    try:
        with plugin_warnings() as warnings:
            done = update_task_once(
                library, task_id, dict(patch), actor=context.actor, key=key, payload=payload
            )
    except InputError as error:
        if error.code != "RECORD_UNKNOWN":
            raise
        raise InputError("TARGET_NOT_FOUND", error.message, context=error.context) from None
    record = done.record
    return without_empty(
        {
            "updated": True,
            "task_id": record.id,
            "title": cut(record.body.title, 120),
            "status": record.body.state,
            "blocked_reason": record.body.blocked_reason,
            "version": record.version,
            "warnings": warnings,
            "replayed": done.replayed,
        }
    )
