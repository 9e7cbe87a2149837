"""Named changes to existing artifacts, threads, subcortexes, tasks and links.

The general mechanism of a change, and its effects, are in `update`; new records are in `create`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cortex.base.record_model import (
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
)
from cortex.base.record_spec import fields_of
from cortex.base.settings import Settings
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.notifications import resolve_name
from cortex.families.team.references import resolve_ref
from cortex.families.team.validation import refusal
from cortex.families.team.writes.supersession import check_supersedes, write_superseded
from cortex.families.team.writes.transactions import Written, carry_out
from cortex.families.team.writes.update import Change, revise_in

Patch = Mapping[str, str]

# A patch may also say "status" for "state".
PATCH_FIELDS = ("state", "priority", "blocked_reason", "notes", "assignees")
_PINS = {spec.kind: name for name, spec in fields_of(Subcortex).items() if spec.role == "pin"}


# -- artifacts


def accept_artifact(
    library: Library,
    artifact: str,
    *,
    actor: Actor,
    key: str = "",
    version: int | None = None,
    evidence: Sequence[Evidence] = (),
) -> Record[Artifact]:
    """Accept an artifact, adding `evidence` to its own; it needs some.

    If it names an artifact that it supersedes, that one becomes superseded in the same transaction.
    """
    named = {item.ref: item for item in evidence}

    def change(body: Artifact) -> Artifact:
        known = {item.ref: item for item in body.evidence}
        return replace(body, state="accepted", evidence=tuple((known | named).values()))

    payload = repr((artifact, version, *evidence))
    return _change(library, artifact, change, "accept_artifact", actor, key, payload, version)


def supersede_artifact(
    library: Library, old: str, new: str, *, actor: Actor, key: str = "", note: str = ""
) -> Record[Artifact]:
    """Replace one artifact by another; returns the old one.

    Both artifacts record it, and a link joins them.

    Raises: InputError RECORD_INVALID for a cycle, or if the old one is superseded already.
    """

    def supersede(step: RecordTransaction) -> str:
        before = resolve_ref(step, old, "artifact")
        after = resolve_ref(step, new, "artifact")
        check_supersedes(step, before, after)
        if after.body.supersedes != before.id:
            after = step.put(replace(after, body=replace(after.body, supersedes=before.id)))
        write_superseded(step, before, after, note)
        return before.id

    payload = repr((old, new, note))
    return carry_out(
        library, supersede, actor=actor, key=key, action="supersede_artifact", payload=payload
    ).record


def deprecate_artifact(
    library: Library, artifact: str, *, actor: Actor, key: str = "", note: str = ""
) -> Record[Artifact]:
    """Mark an artifact as no longer valid; the reason is put at the top of its body."""

    def change(body: Artifact) -> Artifact:
        if body.state == "deprecated":
            return body
        why = f"**Deprecated:** {note.strip()}\n\n" if note.strip() else ""
        return replace(body, state="deprecated", body=why + body.body)

    payload = repr((artifact, note))
    return _change(library, artifact, change, "deprecate_artifact", actor, key, payload)


# -- threads and subcortexes


def resolve_thread(
    library: Library, thread: str, resolution: str = "", *, actor: Actor, key: str = ""
) -> Record[Thread]:
    """Close a thread, with its outcome."""

    def change(body: Thread) -> Thread:
        return replace(body, state="resolved", resolution=resolution or body.resolution)

    payload = repr((thread, resolution))
    return _change(library, thread, change, "resolve_thread", actor, key, payload)


def reopen_thread(library: Library, thread: str, *, actor: Actor, key: str = "") -> Record[Thread]:
    """Open a thread again."""
    return _set_state(library, thread, "thread", "open", actor, key, "reopen_thread")


def archive(
    library: Library, ref: str, *, actor: Actor, key: str = "", kind: str = ""
) -> Record[Any]:
    """Archive a thread or a subcortex: it is kept, but nothing can be added to it."""
    return _set_state(library, ref, kind, "archived", actor, key, "archive")


def pin(
    library: Library, subcortex: str, ref: str, *, actor: Actor, key: str = ""
) -> Record[Subcortex]:
    """Pin a thread, an artifact or a task to the top of a subcortex."""
    return _pin(library, subcortex, ref, True, actor, key)


def unpin(
    library: Library, subcortex: str, ref: str, *, actor: Actor, key: str = ""
) -> Record[Subcortex]:
    """Remove a pinned record from the top of a subcortex."""
    return _pin(library, subcortex, ref, False, actor, key)


def _pin(
    library: Library, subcortex: str, ref: str, pinned: bool, actor: Actor, key: str
) -> Record[Subcortex]:
    def work(step: RecordTransaction) -> str:
        record = resolve_ref(step, ref)
        field = _PINS.get(record.kind)
        if field is None:
            raise refusal(
                "ref",
                f"{record.id} can't be pinned: threads, artifacts and tasks can",
                tuple(_PINS),
            )

        def change(body: Subcortex) -> Subcortex:
            others = tuple(
                record_id for record_id in getattr(body, field) if record_id != record.id
            )
            return replace(body, **{field: (*others, record.id) if pinned else others})

        return revise_in(step, subcortex, change, "edit_subcortex", kind="subcortex").id

    action, payload = "pin" if pinned else "unpin", repr((subcortex, ref))
    return carry_out(library, work, actor=actor, key=key, action=action, payload=payload).record


# -- tasks and links


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
    """Change fields of a task; the allowed ones are in PATCH_FIELDS.

    `patch` may be a function of the task as it is at the time of the change. With such a function
    and a key, `payload` is required.

    Raises: InputError RECORD_UNKNOWN, RECORD_INVALID, RECORD_CHANGED.
    """
    return update_task_once(
        library, task, patch, actor=actor, key=key, payload=payload, version=version
    ).record


def update_task_once(
    library: Library,
    task: str,
    patch: Patch | Callable[[Task], Patch],
    *,
    actor: Actor,
    key: str = "",
    payload: str = "",
    version: int | None = None,
) -> Written:
    """Like `update_task`, and also reports if the same key had been used before."""

    def work(step: RecordTransaction) -> str:
        fields = patch(resolve_ref(step, task, "task").body) if callable(patch) else patch
        return apply_task_patch(step, task, fields, library.settings, version=version).id

    request = payload or repr((task, version, "" if callable(patch) else sorted(patch.items())))
    return carry_out(library, work, actor=actor, key=key, action="update_task", payload=request)


def apply_task_patch(
    step: RecordTransaction,
    task: str,
    patch: Mapping[str, str],
    settings: Settings | None = None,
    *,
    version: int | None = None,
) -> Record[Task]:
    """Change fields of a task inside a transaction; assignees are names separated by commas."""
    fields = checked_patch(patch)

    def change(body: Task) -> Task:
        after = body
        for field, value in fields.items():
            if field == "assignees":
                names = (
                    resolve_name(name, settings, me=step.author)
                    for name in value.split(",")
                    if name.strip()
                )
                after = replace(after, assignees=tuple(dict.fromkeys(names)))
            else:
                after = replace(after, **{field: value})
        if after.state != "blocked" and body.state == "blocked" and "blocked_reason" not in fields:
            after = replace(after, blocked_reason="")
        if after.assignees and after.state == "inbox" and "state" not in fields:
            after = replace(after, state="assigned")
        return after

    return revise_in(step, task, change, "update_task", version=version, kind="task")


def checked_patch(patch: Mapping[str, str]) -> dict[str, str]:
    """Return the task fields that a patch changes. Raises: InputError RECORD_INVALID."""
    fields = {"state" if name == "status" else name: value for name, value in patch.items()}
    if unknown := [name for name in fields if name not in PATCH_FIELDS]:
        raise refusal(
            f"patch.{unknown[0]}",
            f"a task has no {unknown[0]!r} to change; allowed: {', '.join(PATCH_FIELDS)}",
            PATCH_FIELDS,
        )
    if not fields:
        raise refusal(
            "patch", f"the patch changes nothing; allowed: {', '.join(PATCH_FIELDS)}", PATCH_FIELDS
        )
    return fields


def judge_link(
    library: Library, link: str, confirmed: bool, *, actor: Actor, key: str = ""
) -> Record[Link]:
    """Confirm or dismiss a link."""
    state = "confirmed" if confirmed else "dismissed"
    return _set_state(library, link, "link", state, actor, key, "judge_link")


# -- shared


def _change(
    library: Library,
    ref: str,
    change: Change,
    action: str,
    actor: Actor,
    key: str,
    payload: str,
    version: int | None = None,
) -> Record[Any]:
    """Change an artifact or a thread by an action that is named after its kind."""
    kind = action.rpartition("_")[2]

    def work(step: RecordTransaction) -> str:
        return revise_in(step, ref, change, action, version=version, kind=kind).id

    return carry_out(library, work, actor=actor, key=key, action=action, payload=payload).record


def _set_state(
    library: Library, ref: str, kind: str, state: str, actor: Actor, key: str, action: str
) -> Record[Any]:
    def work(step: RecordTransaction) -> str:
        record = resolve_ref(step, ref, kind)
        # Comments and observations have a single state.
        if isinstance(record.body, Comment | Observation):
            raise refusal("state", f"the state of {record.id} can't be changed")
        return revise_in(step, record.id, lambda body: replace(body, state=state), action).id

    return carry_out(
        library, work, actor=actor, key=key, action=action, payload=repr((ref, state))
    ).record
