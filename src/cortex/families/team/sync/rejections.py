"""What a Core didn't take, whole: what somebody typed, field by field, why it wasn't taken, and
what can be done.

Nothing that was typed is lost by a refusal: it stays in the entry until the Core takes it or the
person gives it up, and then in a file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from cortex.base.record_model import SUMMARY, refs_of
from cortex.engine.library import Library
from cortex.engine.store import OutboxEntry, RecordChange
from cortex.engine.store.records.outbox import UPLOAD
from cortex.families.team.sync import saved_files
from cortex.families.team.wire.codec import Told, changed_to

FOLDER = "refused"  # in the home: what was given up
STAYS = "It stays on this machine"
REPLACED = "It reads here as at the Core now"
CREATES = "create_"  # how the names of actions begin that make something
CONFLICT = "RECORD_CHANGED"  # sent again, it would be refused again
DECIDES = frozenset(("approve_draft", "reject_draft"))  # which is done once
TOGETHER = frozenset(("state", "blocked_reason"))  # of a task: one says why the other is so
MACHINE_MADE = frozenset(
    ("reviewed_at", "reviewed_by", "last_reviewed", "expires", "file_hash", "body_hash", "size")
)


def makes(entry: OutboxEntry) -> bool:
    """Whether a write is about what it made, and not about a change that something was made for."""
    if entry.action == UPLOAD or entry.action.startswith(CREATES):
        return True
    return all(change.before is None for change in entry.changes if change.kind != "notification")


def is_divisible(entry: OutboxEntry) -> bool:
    """Whether a write can be sent in parts: what was there before the Core, and not what was done
    in one step.
    """
    return entry.action == UPLOAD and len(entry.changes) > 1


def is_told_together(entry: OutboxEntry) -> bool:
    """Whether a refusal is told with others in one alert: of what was there before the Core, or was
    sent again, there may be many.
    """
    return entry.action == UPLOAD or bool(entry.taken)


def main_of(entry: OutboxEntry) -> RecordChange:
    """What a write is about: not what only follows from it, as the summary of a thread in which
    somebody spoke.
    """
    told = [change for change in entry.changes if change.kind != "notification"] or list(
        entry.changes
    )
    about = [one for one in told if makes(entry) or one.before is not None] or told
    return next((one for one in about if typed(one)), about[0])


def is_edit(entry: OutboxEntry) -> bool:
    """Whether a write only changes what was there, so that it can be put on top of that now."""
    edits = [change for change in entry.changes if change.kind != "notification"]
    return (
        bool(edits)
        and entry.action not in DECIDES
        and all(change.before is not None for change in edits)
    )


def clashing_fields(entry: OutboxEntry, clashes: Sequence[tuple[str, str]]) -> frozenset[str]:
    """The fields of an edit that a person decides about while the rest is sent; none for all of it.

    Fields that only mean something together are not parted.
    """
    edits = [change for change in entry.changes if change.kind != "notification"]
    if len(edits) != 1 or not is_edit(entry):
        return frozenset()
    changed = frozenset(typed(edits[0]))
    clash = changed.intersection(field for number, field in clashes if number == edits[0].id)
    # Accepted, resolved: what comes with such a state is the reason for it.
    if "state" in clash and edits[0].kind != "task":
        return frozenset()
    if clash & TOGETHER:
        clash |= changed & TOGETHER
    return clash if clash and clash != changed else frozenset()


def named(entry: OutboxEntry) -> set[str]:
    """The ids that a write is about, or points to."""
    return {
        ref
        for change in entry.changes
        for ref in (change.id, *(target for _, target in refs_of(change.after)))
    }


def typed(one: RecordChange) -> Told:
    """What somebody changed of a record, field by field; None for what was taken away. What
    machines make isn't told beside that.
    """
    told = changed_to(one)
    after, before = told["after"], told["before"] or {}
    assert isinstance(after, dict) and isinstance(before, dict)
    changed: Told = {name: value for name, value in after.items() if before.get(name) != value}
    changed |= {name: None for name in before if name not in after}
    # Of what others say
    made = SUMMARY if one.kind == "thread" and "summary_by" not in after else ()
    changed = {name: value for name, value in changed.items() if name not in made}
    return {name: value for name, value in changed.items() if name not in MACHINE_MADE} or changed


def became(library: Library, entry: OutboxEntry) -> str:
    """How what was refused reads here now."""
    main = main_of(entry)
    here = library.store.recorded.one(main.id)
    if here is None:
        return "It is not here any more"
    return STAYS if not library.store.outbox.known([main.id]) else REPLACED


def is_outdone(entry: OutboxEntry, code: str, reason: str) -> bool:
    """Whether somebody else has decided before about a draft, which is done once: nothing is left
    to do but to give it up.

    An approval may be refused for something else that it changes, too; then it can be done again.
    """
    drafts = [change.id for change in entry.changes if change.kind == "draft"]
    return (
        code == CONFLICT and entry.action in DECIDES and any(number in reason for number in drafts)
    )


def told(library: Library, entry: OutboxEntry) -> Told:
    """A refused write, whole."""
    main = main_of(entry)
    return {
        "action": entry.action,
        "record": main.id,
        "title": title_of(entry),
        "by": entry.actor,
        "at": entry.at,
        "code": entry.code,
        "reason": entry.reason,
        "became": became(library, entry),
        "typed": [
            {
                "record": change.id,
                "kind": change.kind,
                "new": change.before is None,
                "fields": typed(change),
            }
            for change in entry.changes
            if change.kind != "notification"
        ],
        "changes": [changed_to(one) for one in entry.changes],
    }


def title_of(entry: OutboxEntry) -> str:
    """What a refused write is about, in a line."""
    return str(getattr(main_of(entry).after, "title", "")) or entry.action


def save(library: Library, entries: Sequence[OutboxEntry]) -> Path:
    """Write refused writes to a file that only the person can read. Raises: FileError."""
    text = (
        json.dumps([told(library, entry) for entry in entries], ensure_ascii=False, indent=2) + "\n"
    )
    return saved_files.write_new(library.settings.home / FOLDER, ".json", text)
