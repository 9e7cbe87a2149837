"""Writes that the Core refused: changed fields, reason, and ways to resolve them.

A refusal loses no input: it stays in the outbox entry until the Core accepts it or the person gives
it up, and then in a file.
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
from cortex.families.team.wire.codec import JsonObject, changed_to

# Folder in the home for writes that were given up.
FOLDER = "refused"
STAYS = "It stays on this machine"
REPLACED = "It reads here as at the Core now"
CREATES = "create_"  # prefix of actions that create a record
# Code of an edit conflict. Sent again unchanged, the entry would be refused again.
CONFLICT = "RECORD_CHANGED"
# Actions that can be done only once.
DECIDES = frozenset(("approve_draft", "reject_draft"))
# Fields of a task that belong together: the second gives the reason for the first.
TOGETHER = frozenset(("state", "blocked_reason"))
# Fields that no person types.
MACHINE_MADE = frozenset(
    ("reviewed_at", "reviewed_by", "last_reviewed", "expires", "file_hash", "body_hash", "size")
)


def makes(entry: OutboxEntry) -> bool:
    """True if the records that a write creates are its subject, not a by-product."""
    if entry.action == UPLOAD or entry.action.startswith(CREATES):
        return True
    return all(change.before is None for change in entry.changes if change.kind != "notification")


def is_divisible(entry: OutboxEntry) -> bool:
    """True for an upload of several records, which may be sent in parts."""
    return entry.action == UPLOAD and len(entry.changes) > 1


def shares_alert(entry: OutboxEntry) -> bool:
    """True for uploads and resent writes: they may be many, so they share one alert."""
    return entry.action == UPLOAD or bool(entry.taken)


def main_of(entry: OutboxEntry) -> RecordChange:
    """Return the main change of a write, not a consequence such as a new thread summary."""
    changes = [change for change in entry.changes if change.kind != "notification"] or list(
        entry.changes
    )
    subjects = [
        change for change in changes if makes(entry) or change.before is not None
    ] or changes
    return next((change for change in subjects if typed(change)), subjects[0])


def is_edit(entry: OutboxEntry) -> bool:
    """True if a write only changes existing records, so that it can be rebased."""
    edits = [change for change in entry.changes if change.kind != "notification"]
    return (
        bool(edits)
        and entry.action not in DECIDES
        and all(change.before is not None for change in edits)
    )


def clashing_fields(entry: OutboxEntry, clashes: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return the conflicting fields of an edit; empty if the edit can't be split.

    A person decides about these while the rest is sent. Fields that belong together aren't split.
    """
    edits = [change for change in entry.changes if change.kind != "notification"]
    if len(edits) != 1 or not is_edit(entry):
        return frozenset()
    changed = frozenset(typed(edits[0]))
    clash = changed.intersection(field for record_id, field in clashes if record_id == edits[0].id)
    # The other fields of such an edit give the reason for the state (accepted, resolved).
    if "state" in clash and edits[0].kind != "task":
        return frozenset()
    if clash & TOGETHER:
        clash |= changed & TOGETHER
    return clash if clash and clash != changed else frozenset()


def named(entry: OutboxEntry) -> set[str]:
    """Ids of the records that a write changes or refers to."""
    return {
        ref
        for change in entry.changes
        for ref in (change.id, *(target for _, target in refs_of(change.after)))
    }


def typed(change: RecordChange) -> JsonObject:
    """Return the changed fields of a record with their new values, None for a removed field.

    Machine-made fields are left out, unless nothing else changed.
    """
    encoded = changed_to(change)
    after, before = encoded["after"], encoded["before"] or {}
    assert isinstance(after, dict) and isinstance(before, dict)
    changed: JsonObject = {
        name: value for name, value in after.items() if before.get(name) != value
    }
    changed |= {name: None for name in before if name not in after}
    # A summary without an author is generated from the comments.
    generated = SUMMARY if change.kind == "thread" and "summary_by" not in after else ()
    changed = {name: value for name, value in changed.items() if name not in generated}
    return {name: value for name, value in changed.items() if name not in MACHINE_MADE} or changed


def became(library: Library, entry: OutboxEntry) -> str:
    """Describe the local state of a refused record."""
    main = main_of(entry)
    record = library.store.records.one(main.id)
    if record is None:
        return "It is not here any more"
    return STAYS if not library.store.outbox.known([main.id]) else REPLACED


def is_outdone(entry: OutboxEntry, code: str, reason: str) -> bool:
    """True if another person decided about the draft first, so this write can only be given up.

    An approval may also be refused for another record that it changes; that can be done again.
    """
    drafts = [change.id for change in entry.changes if change.kind == "draft"]
    return (
        code == CONFLICT
        and entry.action in DECIDES
        and any(draft_id in reason for draft_id in drafts)
    )


def encode_rejection(library: Library, entry: OutboxEntry) -> JsonObject:
    """Encode a refused write completely."""
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
        "changes": [changed_to(change) for change in entry.changes],
    }


def title_of(entry: OutboxEntry) -> str:
    """Title of the main record of a refused write."""
    return str(getattr(main_of(entry).after, "title", "")) or entry.action


def save(library: Library, entries: Sequence[OutboxEntry]) -> Path:
    """Write refused writes to a file that only the person can read. Raises: FileError."""
    text = (
        json.dumps(
            [encode_rejection(library, entry) for entry in entries], ensure_ascii=False, indent=2
        )
        + "\n"
    )
    return saved_files.write_new(library.settings.home / FOLDER, ".json", text)
