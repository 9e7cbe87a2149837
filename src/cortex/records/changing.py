"""Changing records: each change is read and written in one step, follows the states of its kind, and loses nobody else's.

A change is a function from what a record says now to what it shall say; what follows from it (summary, notifications, what belongs
to it and becomes sensitive with it) is written in the same step. Nothing is ever removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cortex.errors import InputError
from cortex.kinds import (
    NORMAL,
    SENSITIVE,
    Actor,
    Artifact,
    Comment,
    Evidence,
    Link,
    Observation,
    Record,
    Subcortex,
    Task,
    Thread,
    Wanted,
)
from cortex.library import Library
from cortex.records.checks import OPEN_TASK_STATES, check_move, checked, refusal
from cortex.records.clashing import clashes_of, write_clashes
from cortex.records.discussing import renew_summary
from cortex.records.ids import fresh_key
from cortex.records.noticing import close_notices, notice_accepted, notice_task, who
from cortex.records.rights import TIERS, need
from cortex.records.steps import perform
from cortex.records.superseding import check_supersedes, write_superseded
from cortex.records.targets import resolve_ref, resolved
from cortex.records.writing import Created, need_sensitive
from cortex.settings import Settings
from cortex.store import Step

__all__ = [
    "PATCH_FIELDS",
    "accept_artifact",
    "apply_task_patch",
    "archive",
    "deprecate_artifact",
    "judge_link",
    "pin",
    "reopen_thread",
    "resolve_ref",
    "resolve_thread",
    "revise",
    "revise_in",
    "supersede_artifact",
    "unpin",
    "update_task",
    "update_task_once",
]

Change = Callable[[Any], Any]
Patch = Mapping[str, str]

PATCH_FIELDS = ("state", "priority", "blocked_reason", "notes", "assignees")  # "status" is "state"
_PINS = {"thread": "pinned_threads", "artifact": "pinned_artifacts", "task": "pinned_tasks"}
_TELLING = ("about", "source", "target")  # in which notifications, links and drafts name what they are about
_BATCH = 500  # records that follow what they belong to, read at once


def revise(
    library: Library,
    record_id: str,
    change: Change,
    *,
    actor: Actor,
    action: str,
    key: str = "",
    version: int | None = None,
    payload: str = "",
) -> Record[Any]:
    """Change a record; `version` is the one that the change was made for, None: whichever there is.

    `action` says what is done, and so who may do it; one that has no right of its own is an edit. With a key of the caller's,
    `payload` says what the change is, which is made twice: first to look for what it contradicts; but not again for a key that is known,
    since what it takes away is gone by then. Raises: InputError RECORD_UNKNOWN, RECORD_CHANGED, RECORD_INVALID, SENSITIVE_BLOCKED,
    RIGHTS_MISSING, TARGET_NOT_FOUND, SCOPE_NOT_FOUND, IDEMPOTENCY_REPLAY.
    """
    asked = payload or repr((record_id, version))
    before = resolve_ref(library.store.recorded, record_id)
    known = key and library.store.records.known(actor, key, action, asked)
    clashes = () if known else clashes_of(library, change(before.body), before)

    def work(step: Step) -> str:
        record = revise_in(step, before.id, change, action, version=version)
        write_clashes(step, record, clashes)
        return record.id

    return _perform(library, work, actor, key, action, asked)


def revise_in(
    step: Step,
    record_id: str,
    change: Change,
    action: str,
    *,
    version: int | None = None,
    kind: str = "",
) -> Record[Any]:
    """Change a record inside a step; one that says the same as before stays as it is."""
    record = resolve_ref(step, record_id, kind)
    before = record.body
    right = action if action in TIERS else "edit"
    need(step.actor, "edit_subcortex" if isinstance(before, Subcortex) else right)
    if version is not None and version != record.version:
        raise InputError(
            "RECORD_CHANGED",
            f"{record.id} was changed meanwhile: it has version {record.version} now, not {version}",
            context={"id": record.id, "version": record.version},
        )
    after = change(before)
    if type(after) is not type(before):
        raise TypeError(f"a {type(before).__name__} stays one")
    after = resolved(step, checked(after), before)
    if after == before:
        return record
    check_move(before, after)
    _check_kept(before, after)
    need_sensitive(step, after)
    if isinstance(after, Artifact) and after.state == "accepted" != before.state:
        written = _accept(step, replace(record, body=replace(after, last_reviewed=step.now)))
    else:
        written = step.put(replace(record, body=after))
    _follow(step, before, written)
    return written


def _accept(step: Step, record: Record[Artifact]) -> Record[Artifact]:
    """Write an artifact that is accepted now; what it says that it supersedes is superseded with that."""
    need(step.actor, "accept_artifact")
    old = step.get(record.body.supersedes) if record.body.supersedes else None
    if old is not None and old.body.superseded_by != record.id:
        check_supersedes(step, old, record)
    written = step.put(record)
    if old is not None and old.body.superseded_by != record.id:
        write_superseded(step, old, written)
    notice_accepted(step, written)
    return written


def _check_kept(before: Any, after: Any) -> None:
    """What a change may not touch. Raises: InputError RECORD_INVALID."""
    match after:
        case Subcortex() if after.slug != before.slug:
            raise refusal("slug", "the slug of a subcortex stays: others name it by that")
        case Comment() if after.thread != before.thread or after.parent != before.parent:
            raise refusal("thread", "a comment stays in its thread")
        case Link() if (after.source, after.relation, after.target) != (before.source, before.relation, before.target):
            raise refusal("target", "a link stays between what it links; dismiss it, and make another one")
        case Artifact() if after.superseded_by != before.superseded_by or after.state == "superseded" != before.state:
            raise refusal("state", "an artifact is superseded by another one: say which")
        case Artifact() if before.state == "accepted" and after.supersedes != before.supersedes:
            raise refusal(
                "supersedes", "an artifact that is accepted has superseded what it does: supersede another one"
            )


def _follow(step: Step, before: Any, record: Record[Any]) -> None:
    """What follows from a change, in the same step."""
    after = record.body
    if after.sensitivity == SENSITIVE and before.sensitivity != SENSITIVE:
        _make_sensitive(step, record)
    match after:
        case Comment() if after.body != before.body or after.sensitivity != before.sensitivity:
            thread = step.get(after.thread)
            if thread is not None:
                renew_summary(step, thread, record)
        case Thread():
            _follow_thread(step, before, record)
        case Task():
            if after.state not in OPEN_TASK_STATES:
                close_notices(step, record.id, "task_assigned")
            notice_task(step, record, before, _what_changed(before, after))
        case Link() if after.state != before.state:
            close_notices(step, record.id)


def _follow_thread(step: Step, before: Thread, record: Record[Thread]) -> None:
    """Comments belong where their thread does and are found by its title, however many they are; its summary is of what it says now."""
    after, last = record.body, ""
    if (after.title, after.subcortex) != (before.title, before.subcortex):
        while some := step.select(Wanted(kinds=("comment",), refs=(("thread", record.id),), before=last), _BATCH):
            for one in some:
                if one.body.subcortex != after.subcortex:
                    step.put(replace(one, body=replace(one.body, subcortex=after.subcortex)), "move_comment")
                else:
                    step.reword(one)
            last = some[-1].id
    told = (after.title, after.body, after.sensitivity) != (before.title, before.body, before.sensitivity)
    if told and after.summary and after.summary == before.summary:
        renew_summary(step, record)


def _make_sensitive(step: Step, record: Record[Any]) -> None:
    """What belongs to a record, or tells of it, becomes sensitive with it: comments with their thread, everything with its subcortex."""
    waiting = [record]  # and no recursion: a task of a thread of a task may go on like that for long
    while waiting:
        above = waiting.pop()
        names = (above.id, *((above.body.slug,) if isinstance(above.body, Subcortex) else ()))
        for ref in [(role, name) for role in (above.kind, *_TELLING) for name in names]:
            while some := step.select(Wanted(refs=(ref,), sensitivity=NORMAL), _BATCH):
                for one in some:
                    private = replace(one, body=replace(one.body, sensitivity=SENSITIVE))
                    waiting.append(step.put(private, "make_sensitive"))


def _what_changed(before: Task, after: Task) -> str:
    parts = [f"it is {after.state.replace('_', ' ')} now"] if after.state != before.state else []
    parts += [f"priority {after.priority}"] if after.priority != before.priority else []
    if after.blocked_reason and after.blocked_reason != before.blocked_reason:
        parts.append(f"blocked: {after.blocked_reason}")
    parts += ["new notes"] if after.notes != before.notes else []
    if not parts and after != before:
        parts.append("it says something else now")
    return "; ".join(parts)


# -- artifacts ---------------------------------------------------------------------------------------------------------


def accept_artifact(
    library: Library,
    artifact: str,
    *,
    actor: Actor,
    key: str = "",
    version: int | None = None,
    evidence: Sequence[Evidence] = (),
) -> Record[Artifact]:
    """Accept an artifact, which needs evidence, its own or some more; what it says that it supersedes is superseded with that."""
    named = {one.ref: one for one in evidence}

    def work(step: Step) -> str:
        def change(body: Artifact) -> Artifact:
            known = {one.ref: one for one in body.evidence}
            return replace(body, state="accepted", evidence=tuple((known | named).values()))

        return revise_in(step, artifact, change, "accept_artifact", version=version, kind="artifact").id

    return _perform(library, work, actor, key, "accept_artifact", repr((artifact, version, *evidence)))


def supersede_artifact(
    library: Library, old: str, new: str, *, actor: Actor, key: str = "", note: str = ""
) -> Record[Artifact]:
    """Have one artifact take the place of another, told in both, and as a link; gives the old one.

    Raises: InputError RECORD_INVALID, where they would go round in a circle, or the old one is superseded already.
    """

    def supersede(step: Step) -> str:
        before = resolve_ref(step, old, "artifact")
        after = resolve_ref(step, new, "artifact")
        check_supersedes(step, before, after)
        if after.body.supersedes != before.id:
            after = step.put(replace(after, body=replace(after.body, supersedes=before.id)))
        write_superseded(step, before, after, note)
        return before.id

    return _perform(library, supersede, actor, key, "supersede_artifact", repr((old, new, note)))


def deprecate_artifact(
    library: Library, artifact: str, *, actor: Actor, key: str = "", note: str = ""
) -> Record[Artifact]:
    """Say that an artifact doesn't hold any more; why not stands above what it says, where whoever finds it reads it first."""

    def change(body: Artifact) -> Artifact:
        if body.state == "deprecated":
            return body
        why = f"**Deprecated:** {note.strip()}\n\n" if note.strip() else ""
        return replace(body, state="deprecated", body=why + body.body)

    def work(step: Step) -> str:
        return revise_in(step, artifact, change, "deprecate_artifact", kind="artifact").id

    return _perform(library, work, actor, key, "deprecate_artifact", repr((artifact, note)))


# -- threads and subcortexes -------------------------------------------------------------------------------------------


def resolve_thread(
    library: Library, thread: str, resolution: str = "", *, actor: Actor, key: str = ""
) -> Record[Thread]:
    """Close a thread, with what came of it."""

    def change(body: Thread) -> Thread:
        return replace(body, state="resolved", resolution=resolution or body.resolution)

    def work(step: Step) -> str:
        return revise_in(step, thread, change, "resolve_thread", kind="thread").id

    return _perform(library, work, actor, key, "resolve_thread", repr((thread, resolution)))


def reopen_thread(library: Library, thread: str, *, actor: Actor, key: str = "") -> Record[Thread]:
    """Open a thread again."""
    return _set_state(library, thread, "thread", "open", actor, key, "reopen_thread")


def archive(library: Library, ref: str, *, actor: Actor, key: str = "", kind: str = "") -> Record[Any]:
    """Put a thread or a subcortex away: it stays, and nothing is added to it."""
    return _set_state(library, ref, kind, "archived", actor, key, "archive")


def pin(library: Library, subcortex: str, ref: str, *, actor: Actor, key: str = "") -> Record[Subcortex]:
    """Have a thread, an artifact or a task stand at the top of a subcortex."""
    return _pin(library, subcortex, ref, True, actor, key)


def unpin(library: Library, subcortex: str, ref: str, *, actor: Actor, key: str = "") -> Record[Subcortex]:
    """Take something from the top of a subcortex."""
    return _pin(library, subcortex, ref, False, actor, key)


def _pin(library: Library, subcortex: str, ref: str, there: bool, actor: Actor, key: str) -> Record[Subcortex]:
    def work(step: Step) -> str:
        chosen = resolve_ref(step, ref)
        field = _PINS.get(chosen.kind)
        if field is None:
            raise refusal("ref", f"{chosen.id} can't be pinned: threads, artifacts and tasks can", tuple(_PINS))

        def change(body: Subcortex) -> Subcortex:
            others = tuple(one for one in getattr(body, field) if one != chosen.id)
            return replace(body, **{field: (*others, chosen.id) if there else others})

        return revise_in(step, subcortex, change, "edit_subcortex", kind="subcortex").id

    return _perform(library, work, actor, key, "pin" if there else "unpin", repr((subcortex, ref)))


# -- tasks and links ---------------------------------------------------------------------------------------------------


def update_task(
    library: Library,
    task: str,
    patch: Patch | Callable[[Task], Patch],
    *,
    actor: Actor,
    key: str = "",
    payload: str = "",
    version: int | None = None,
) -> Record[Task]:
    """Change the fields of a task that PATCH_FIELDS names; `patch` may be made of what the task says when it is changed.

    Raises: InputError RECORD_UNKNOWN, RECORD_INVALID, RECORD_CHANGED; with a `patch` that is made, and a key, `payload` is needed.
    """
    return update_task_once(library, task, patch, actor=actor, key=key, payload=payload, version=version).record


def update_task_once(
    library: Library,
    task: str,
    patch: Patch | Callable[[Task], Patch],
    *,
    actor: Actor,
    key: str = "",
    payload: str = "",
    version: int | None = None,
) -> Created:
    """As `update_task`, and whether that had been done before under the same key."""

    def work(step: Step) -> str:
        fields = patch(resolve_ref(step, task, "task").body) if callable(patch) else patch
        return apply_task_patch(step, task, fields, library.settings, version=version).id

    asked = payload or repr((task, version, "" if callable(patch) else sorted(patch.items())))
    return _perform_once(library, work, actor, key, "update_task", asked)


def apply_task_patch(
    step: Step, task: str, patch: Mapping[str, str], settings: Settings | None = None, *, version: int | None = None
) -> Record[Task]:
    """Change fields of a task inside a step; assignees are names with commas between."""
    fields = checked_patch(patch)

    def change(body: Task) -> Task:
        after = body
        for name, value in fields.items():
            if name == "assignees":
                names = (who(one, settings, me=step.author) for one in value.split(",") if one.strip())
                after = replace(after, assignees=tuple(dict.fromkeys(names)))
            else:
                after = replace(after, **{name: value})
        if after.state != "blocked" and body.state == "blocked" and "blocked_reason" not in fields:
            after = replace(after, blocked_reason="")
        if after.assignees and after.state == "inbox" and "state" not in fields:
            after = replace(after, state="assigned")
        return after

    return revise_in(step, task, change, "update_task", version=version, kind="task")


def checked_patch(patch: Mapping[str, str]) -> dict[str, str]:
    """The fields of a task that a patch changes. Raises: InputError RECORD_INVALID."""
    fields = {"state" if name == "status" else name: value for name, value in patch.items()}
    if unknown := [name for name in fields if name not in PATCH_FIELDS]:
        raise refusal(
            f"patch.{unknown[0]}",
            f"a task has no {unknown[0]!r} to change; allowed: {', '.join(PATCH_FIELDS)}",
            PATCH_FIELDS,
        )
    if not fields:
        raise refusal("patch", f"the patch changes nothing; allowed: {', '.join(PATCH_FIELDS)}", PATCH_FIELDS)
    return fields


def judge_link(library: Library, link: str, confirmed: bool, *, actor: Actor, key: str = "") -> Record[Link]:
    """Say that a link holds, or that it doesn't."""
    state = "confirmed" if confirmed else "dismissed"
    return _set_state(library, link, "link", state, actor, key, "judge_link")


# -- in common ---------------------------------------------------------------------------------------------------------


def _set_state(library: Library, ref: str, kind: str, state: str, actor: Actor, key: str, action: str) -> Record[Any]:
    def work(step: Step) -> str:
        record = resolve_ref(step, ref, kind)
        if isinstance(record.body, Comment | Observation):  # each has one state for ever
            raise refusal("state", f"the state of {record.id} can't be changed")
        return revise_in(step, record.id, lambda body: replace(body, state=state), action).id

    return _perform(library, work, actor, key, action, repr((ref, state)))


def _perform(
    library: Library, work: Callable[[Step], str], actor: Actor, key: str, action: str, payload: str
) -> Record[Any]:
    return _perform_once(library, work, actor, key, action, payload).record


def _perform_once(
    library: Library, work: Callable[[Step], str], actor: Actor, key: str, action: str, payload: str
) -> Created:
    done = perform(library, work, actor=actor, key=key or fresh_key(), action=action, payload=payload)
    record = library.store.recorded.one(done.result)
    assert record is not None  # nothing is ever removed
    return Created(record, done.replayed)
