"""Field rules of record bodies: types, states and transitions, lengths, required fields.

Tables only.
"""

from __future__ import annotations

from collections.abc import Mapping

from cortex.base.record_model import (
    NORMAL,
    SENSITIVE,
    Artifact,
    Attachment,
    CodeLink,
    Comment,
    Draft,
    Evidence,
    Link,
    Notification,
    Observation,
    Subcortex,
    Task,
    Term,
    Thread,
)

# A sensitivity that must not be stored at all.
SECRET = "secret"
SENSITIVITIES = (NORMAL, SENSITIVE)

THREAD_TYPES = (
    "question",
    "research",
    "proposal",
    "update",
    "decision",
    "incident",
    "retrospective",
    "other",
)
OBSERVATION_TYPES = (
    "test_result", "backtest_result", "research_note", "code_change", "tool_output", "decision",
    "checkpoint", "other",
)  # fmt: skip
ARTIFACT_TYPES = ("adr", "runbook", "report", "spec", "postmortem", "glossary", "other")
DRAFT_TYPES = ("comment", "thread", "artifact", "task_update")
NOTIFICATION_TYPES = (
    "mention", "thread_update", "task_assigned", "task_update", "review_needed",
    "artifact_accepted", "draft_approved", "draft_rejected", "system_alert",
)  # fmt: skip
TYPES: Mapping[type, tuple[str, ...]] = {
    Thread: THREAD_TYPES,
    Observation: OBSERVATION_TYPES,
    Artifact: ARTIFACT_TYPES,
    Draft: DRAFT_TYPES,
    Notification: NOTIFICATION_TYPES,
}

# The states of a kind and their successors. A new record has one of the states in `FIRST`.
_OPEN_TASK = ("inbox", "assigned", "in_progress", "review", "blocked")
_TASK = (*_OPEN_TASK, "done", "cancelled")
MOVES: Mapping[type, Mapping[str, tuple[str, ...]]] = {
    Subcortex: {
        "proposed": ("active", "archived"),
        "active": ("archived",),
        "archived": ("active",),
    },
    Thread: {
        "open": ("resolved", "archived"),
        "resolved": ("open", "archived"),
        "archived": ("open",),
    },
    Comment: {"published": ()},
    Observation: {"recorded": ()},
    Artifact: {
        "draft": ("proposed", "accepted", "superseded", "deprecated"),
        "proposed": ("draft", "accepted", "superseded", "deprecated"),
        "accepted": ("superseded", "deprecated"),
        "superseded": (),
        "deprecated": ("proposed", "superseded"),
    },
    Task: {state: tuple(other for other in _TASK if other != state) for state in _OPEN_TASK}
    | dict.fromkeys(("done", "cancelled"), ("inbox", "assigned", "in_progress")),
    Draft: {
        "pending_review": ("approved", "rejected", "published", "expired"),
        "approved": ("published",),
        "expired": ("published", "rejected"),
        "rejected": (),
        "published": (),
    },
    Notification: {"new": ("seen", "done"), "seen": ("done",), "done": ()},
    Link: {
        "candidate": ("confirmed", "dismissed"),
        "confirmed": ("dismissed",),
        "dismissed": ("confirmed",),
    },
}
STATES: Mapping[type, tuple[str, ...]] = {cls: tuple(moves) for cls, moves in MOVES.items()}
OPEN_TASK_STATES = _OPEN_TASK
FIRST: Mapping[type, tuple[str, ...]] = {
    Subcortex: ("proposed", "active"),
    Thread: ("open",),
    Artifact: ("draft", "proposed", "accepted"),
    Task: _TASK,
    Draft: ("pending_review",),
    Notification: ("new",),
    Link: ("candidate", "confirmed"),
}

VISIBILITIES = ("private", "internal")
PRIORITIES = ("low", "normal", "high", "urgent")
VERIFICATIONS = ("unverified", "verified", "incorrect")
EVIDENCE_KINDS = ("thread", "comment", "observation", "artifact", "url")
RELATIONS = ("supersedes", "contradicts", "supports", "depends_on")
SOURCE_TYPES = ("manual", "stop_hook", "periodic_sync", "ci", "webhook", "api")
TARGET_KINDS = ("", "thread", "task", "subcortex")
# Other fields with enumerated values, by class and field.
ALLOWED: Mapping[tuple[type, str], tuple[str, ...]] = {
    (Subcortex, "visibility"): VISIBILITIES,
    (Task, "priority"): PRIORITIES,
    (Artifact, "verification"): VERIFICATIONS,
    (Evidence, "kind"): EVIDENCE_KINDS,
    (Link, "relation"): RELATIONS,
    (Observation, "source_type"): SOURCE_TYPES,
    (Draft, "target_kind"): TARGET_KINDS,
    (Draft, "artifact_type"): ("", *ARTIFACT_TYPES),
    (Draft, "thread_type"): ("", *THREAD_TYPES),
}

# Most characters of a thread's rolling summary.
SUMMARY = 1_200
# Most characters of a text, or most elements of a list; ELEMENTS limits each element.
LIMITS: Mapping[type, Mapping[str, int]] = {
    Subcortex: {
        "name": 100, "description": 2_000, "charter": 10_000, "stewards": 50, "pinned_threads": 50,
        "pinned_artifacts": 50, "pinned_tasks": 50, "glossary": 200, "naming": 100,
    },
    Thread: {
        "title": 300, "body": 50_000, "tags": 10, "summary": SUMMARY, "resolution": 2_000,
        "code_links": 50,
    },
    Comment: {"body": 50_000, "citations": 50},
    Observation: {
        "title": 300, "summary": 10_000, "tags": 20, "session": 200, "commit_id": 200,
        "attachments": 20, "code_links": 50,
    },
    Artifact: {
        "title": 300, "body": 100_000, "summary": 2_000, "owner": 100, "evidence": 100, "tags": 20,
        "code_links": 50,
    },
    Task: {
        "title": 300, "body": 50_000, "assignees": 20, "watchers": 50, "blocked_reason": 500,
        "notes": 10_000, "tags": 20, "code_links": 50,
    },
    Draft: {
        "title": 300, "body": 100_000, "target": 200, "patch": 20, "citations": 50, "tags": 20,
        "reason": 2_000, "summary": 2_000, "risk_flags": 10, "code_links": 50, "evidence": 100,
        "review_notes": 2_000,
    },
    Notification: {"recipient": 100, "title": 300, "reason": 600},
    Link: {"note": 500},
    CodeLink: {"path": 1_000, "repo": 200, "symbol": 300, "commit": 64, "root": 4_000},
    Evidence: {"ref": 2_000, "note": 200},
    Attachment: {"name": 300, "ref": 2_000, "media_type": 100},
    Term: {"term": 100, "meaning": 1_000},
}  # fmt: skip
ELEMENTS: Mapping[str, int] = {
    "tags": 50,
    "stewards": 100,
    "assignees": 100,
    "watchers": 100,
    "naming": 500,
    "patch": 10_000,
}
# Most characters of an element of any other list.
ELEMENT = 500
# Most characters of a text that isn't listed above: ids, names.
LINE = 200

# Fields that must not be empty.
NEEDED: Mapping[type, tuple[str, ...]] = {
    Subcortex: ("slug", "name"),
    Thread: ("title",),
    Comment: ("thread", "body"),
    Observation: ("title",),
    Artifact: ("title",),
    Task: ("title",),
    Notification: ("recipient", "about", "title", "reason"),
    Link: ("source", "relation", "target"),
    CodeLink: ("path",),
    Evidence: ("kind", "ref"),
    Attachment: ("name", "ref"),
    Term: ("term", "meaning"),
}
NEEDED_OF_DRAFT: Mapping[str, tuple[str, ...]] = {
    "comment": ("body",),
    "thread": ("title",),
    "artifact": ("title", "body"),
    "task_update": ("patch",),
}
# Fields of several lines; all others are one line, with white space folded.
LONG = frozenset(
    {
        "description",
        "charter",
        "body",
        "summary",
        "resolution",
        "notes",
        "reason",
        "review_notes",
        "meaning",
        "blocked_reason",
        "note",
    }
)
# Random by nature, so not scanned for secrets.
MACHINE_MADE = frozenset({"commit", "file_hash", "body_hash", "root"})
