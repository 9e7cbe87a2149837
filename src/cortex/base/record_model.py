"""Data model of team records: one body class per kind; no I/O, standard library only.

A `Record` is a header that all kinds share, and a body. Each field of a body has its row beside it
and each kind above it: a new field is one row, a new kind one class. What derives from the rows,
and how to read them, is in `record_spec`. The permissions are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Generic, TypeVar

from cortex.base.record_parts import (
    CODE_LINKS,
    EVIDENCE,
    NORMAL,
    SENSITIVITY,
    SUBCORTEX,
    Attachment,
    Citations,
    CodeLink,
    CodeLinks,
    Evidence,
    Sensitivity,
    SubcortexRef,
    Term,
    Title,
    body_row,
    tags_row,
    task_row,
    thread_row,
    type_row,
)

# Public names of this module, too.
from cortex.base.record_parts import EVIDENCE_KINDS as EVIDENCE_KINDS
from cortex.base.record_parts import SENSITIVE as SENSITIVE
from cortex.base.record_parts import SENSITIVITIES as SENSITIVITIES
from cortex.base.record_spec import KINDS as KINDS
from cortex.base.record_spec import PREFIXES as PREFIXES
from cortex.base.record_spec import FieldSpec, KindSpec, Option, record_kind, spec_of
from cortex.base.record_spec import refs_of as refs_of

# Priorities that are shown first.
PRESSING = ("urgent", "high")
# Summary fields of a thread: derived from its comments, unless a person or an agent wrote them.
SUMMARY = ("summary", "summary_sources", "summary_by")
# Most characters of a thread's rolling summary.
SUMMARY_CHARACTERS = 1_200

THREAD_TYPES = (
    "question", "research", "proposal", "update", "decision", "incident", "retrospective", "other",
)  # fmt: skip
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
VISIBILITIES = ("private", "internal")
PRIORITIES = ("low", "normal", "high", "urgent")
VERIFICATIONS = ("unverified", "verified", "incorrect")
RELATIONS = ("supersedes", "contradicts", "supports", "depends_on")
SOURCE_TYPES = ("manual", "stop_hook", "periodic_sync", "ci", "webhook", "api")
TARGET_KINDS = ("", "thread", "task", "subcortex")
OPEN_TASK_STATES = ("inbox", "assigned", "in_progress", "review", "blocked")
_TASK_STATES = (*OPEN_TASK_STATES, "done", "cancelled")


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a write: the person at the terminal, or a caller over a protocol."""

    name: str
    tier: int  # 0 reads, 1 observes and drafts, 2 writes, 3 approves, 4 all
    # How the write was made, for the audit log: a key of `actors.VIAS`, "" where unknown.
    via: str = ""


@record_kind(
    KindSpec(
        "subcortex_",
        moves={
            "proposed": ("active", "archived"),
            "active": ("archived",),
            "archived": ("active",),
        },
        first=("proposed", "active"),
        usual=("proposed", "active"),
        right="create_subcortex",
        claim=("description", "charter"),
        row=("id", "slug", "title", "state", "stewards", "warnings", "naming", "glossary", "text"),
        help="Topics that a team keeps knowledge about.",
    )
)
@dataclass(frozen=True, slots=True)
class Subcortex:
    """A topic that a team keeps knowledge about."""

    slug: Annotated[
        str,
        FieldSpec(
            needed=True, role="slug", sent="new", indexed=5, row=None,
            option=Option("SLUG", "SLUG", "Its short name: small letters, digits and dashes."),
        ),
    ]  # fmt: skip
    name: Annotated[
        str,
        FieldSpec(
            100, needed=True, prose=True,
            option=Option("--name", "NAME", "What it is called.", edit_help="Another name."),
        ),
    ]  # fmt: skip
    description: Annotated[
        str,
        FieldSpec(
            2_000, long=True, http="description_md", indexed=1, row="text",
            option=Option(
                "--description", "TEXT", "What it is about.", edit_help="Another description."
            ),
        ),
    ] = ""  # fmt: skip
    charter: Annotated[
        str,
        FieldSpec(
            10_000, long=True, http="charter_md", indexed=2, row="text",
            option=Option(
                "--charter", "TEXT", "What it is for and what holds there; -: from stdin."
            ),
        ),
    ] = ""  # fmt: skip
    state: Annotated[
        str,
        FieldSpec(
            http="status", row=None, quiet=True,
            option=Option(
                "--state", "STATE", "", edit_help="Another state: an archived one comes back as "
                "active.",
            ),
        ),
    ] = "active"  # fmt: skip
    visibility: Annotated[
        str,
        FieldSpec(
            choices=VISIBILITIES, option=Option("--visibility", "WHO", "internal or private.")
        ),
    ] = "internal"
    sensitivity: Sensitivity = NORMAL
    stewards: Annotated[
        tuple[str, ...],
        FieldSpec(
            50, element=100, role="steward", principal=True, http="steward_ids", row=None,
            option=Option(
                "--steward", "NAME", "Who looks after it; may be repeated.",
                remove="--remove-steward", remove_help="Who no longer looks after it.",
            ),
        ),
    ] = ()  # fmt: skip
    pinned_threads: Annotated[tuple[str, ...], FieldSpec(50, role="pin", kind="thread")] = ()
    pinned_artifacts: Annotated[tuple[str, ...], FieldSpec(50, role="pin", kind="artifact")] = ()
    pinned_tasks: Annotated[tuple[str, ...], FieldSpec(50, role="pin", kind="task")] = ()
    glossary: Annotated[
        tuple[Term, ...],
        FieldSpec(
            200, indexed=3, row=None, label="Words",
            option=Option(
                "--term", "WORD: MEANING", "A word and what it means there; may be repeated.",
                remove="--remove-term", remove_help="A word to leave out; may be repeated.",
            ),
        ),
    ] = ()  # fmt: skip
    # Rules.
    naming: Annotated[
        tuple[str, ...],
        FieldSpec(
            100, prose=True, indexed=4, row=None,
            option=Option(
                "--naming", "RULE", "A rule for how things are named; may be repeated.",
                remove="--remove-naming", remove_help="A rule to leave out; may be repeated.",
            ),
        ),
    ] = ()  # fmt: skip

    @property
    def title(self) -> str:
        return self.name


@record_kind(
    KindSpec(
        "thread_",
        moves={
            "open": ("resolved", "archived"),
            "resolved": ("open", "archived"),
            "archived": ("open",),
        },
        first=("open",),
        usual=("open",),
        right="create_thread",
        claim=("resolution", "summary", "body"),
        row=(
            "id", "link", "title", "type", "state", "subcortex", "by", "age", "tags", "task",
            "warnings", "resolution", "summary", "summary_by", "body", "code", "text",
        ),
        help="Discussions, with a summary that follows them.",
    )
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class Thread:
    """A discussion: its subject, and a summary that follows its comments."""

    title: Title
    body: Annotated[str, body_row(50_000, indexed=1, row=None)] = ""
    type: Annotated[str, type_row(THREAD_TYPES, role="type", filtered=True)] = "other"
    state: Annotated[str, FieldSpec(http="status", row=None, sent="change")] = "open"
    subcortex: SubcortexRef = ""
    sensitivity: Sensitivity = NORMAL
    tags: Annotated[tuple[str, ...], tags_row(10)] = ()
    summary: Annotated[
        str,
        FieldSpec(
            SUMMARY_CHARACTERS, long=True, http="rolling_summary_md", sent="never",
            merge="derived", row=None,
        ),
    ] = ""  # fmt: skip
    # Ids of comments.
    summary_sources: Annotated[
        tuple[str, ...], FieldSpec(http="rolling_summary_sources", sent="never", merge="derived")
    ] = ()
    # The author; "" where it was extracted from the comments.
    summary_by: Annotated[
        str,
        FieldSpec(
            principal=True, http="rolling_summary_by_id", sent="never", merge="derived", row=None
        ),
    ] = ""
    task: Annotated[str, task_row("The task that it is about.")] = ""
    resolution: Annotated[str, FieldSpec(2_000, long=True, sent="change", indexed=2, row=None)] = ""
    code_links: CodeLinks = ()


@record_kind(KindSpec("comment_", moves={"published": ()}, right="comment", claim=("body",)))
@dataclass(frozen=True, slots=True)
class Comment:
    """A contribution to a thread."""

    thread: Annotated[str, replace(thread_row(http="thread_id"), needed=True, sent="never")]
    body: Annotated[str, body_row(50_000, needed=True, indexed=1, row="text")]
    parent: Annotated[
        str,
        FieldSpec(
            role="parent", kind="comment", belongs=True, http="parent_comment_id", sent="new",
            row=None, option=Option("--reply-to", "ID", "The comment that it answers."),
        ),
    ] = ""  # fmt: skip
    # Of its thread.
    subcortex: Annotated[str, replace(SUBCORTEX, sent="never")] = ""
    sensitivity: Sensitivity = NORMAL
    citations: Citations = ()

    state = "published"

    @property
    def title(self) -> str:
        return " ".join(self.body[:200].split())[:80]


@record_kind(
    KindSpec(
        "obs_",
        moves={"recorded": ()},
        right="observe",
        claim=("summary",),
        help="What agents saw and kept.",
    )
)
@dataclass(frozen=True, slots=True)
class Observation:
    """Something observed: a result, a note, a change."""

    title: Title
    summary: Annotated[
        str, FieldSpec(10_000, long=True, http="summary_md", indexed=1, row="text")
    ] = ""
    type: Annotated[str, type_row(OBSERVATION_TYPES)] = "other"
    tags: Annotated[tuple[str, ...], tags_row(20)] = ()
    subcortex: Annotated[str, replace(SUBCORTEX, http="linked_subcortex_id")] = ""
    thread: Annotated[str, thread_row()] = ""
    task: Annotated[str, task_row()] = ""
    sensitivity: Sensitivity = NORMAL
    source_type: Annotated[str, FieldSpec(choices=SOURCE_TYPES)] = "manual"
    session: Annotated[str, FieldSpec(200, http="session_id")] = ""
    commit_id: Annotated[str, FieldSpec(200)] = ""
    attachments: Annotated[
        tuple[Attachment, ...], FieldSpec(20, row=None, label="Attachments")
    ] = ()
    code_links: Annotated[tuple[CodeLink, ...], replace(CODE_LINKS, filtered=True)] = ()

    state = "recorded"


@record_kind(
    KindSpec(
        "artifact_",
        moves={
            "draft": ("proposed", "accepted", "superseded", "deprecated"),
            "proposed": ("draft", "accepted", "superseded", "deprecated"),
            "accepted": ("superseded", "deprecated"),
            "superseded": (),
            "deprecated": ("proposed", "superseded"),
        },
        first=("draft", "proposed", "accepted"),
        usual=("draft", "proposed", "accepted"),
        right="propose_artifact",
        claim=("summary", "body"),
        row=(
            "id", "link", "title", "type", "state", "version", "owner", "review_by", "reviewed",
            "verification", "subcortex", "age", "tags", "supersedes", "superseded_by", "warnings",
            "summary", "evidence", "code", "text",
        ),
        help="Knowledge with an owner: decisions, runbooks, specifications.",
    )
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class Artifact:
    """Knowledge with an owner: a decision, a runbook, a specification."""

    title: Title
    body: Annotated[str, body_row(100_000, indexed=2, row="text")] = ""
    summary: Annotated[
        str,
        FieldSpec(
            2_000, long=True, http="summary_md", indexed=1, row=None, label="In short",
            option=Option("--summary", "TEXT", "What it says, in short."),
        ),
    ] = ""  # fmt: skip
    type: Annotated[str, type_row(ARTIFACT_TYPES, role="type", filtered=True)] = "other"
    state: Annotated[
        str,
        FieldSpec(
            http="status", row=None,
            option=Option(
                "--state", "STATE", "draft, proposed, or accepted, which needs evidence.",
                edit_help="draft, proposed or deprecated; see accept, supersede.",
            ),
        ),
    ] = "draft"  # fmt: skip
    owner: Annotated[
        str,
        FieldSpec(
            100, principal=True, http="owner_id", row=None,
            option=Option("--owner", "NAME", "Who stands for it; me: you."),
        ),
    ] = ""  # fmt: skip
    # YYYY-MM-DD
    review_by: Annotated[
        str,
        FieldSpec(
            role="due", http="review_by_date", row=None,
            option=Option("--review-by", "DATE", "When to look at it again, as 2027-01-31."),
        ),
    ] = ""  # fmt: skip
    last_reviewed: Annotated[
        int,
        FieldSpec(
            moment=True, http="last_reviewed_at", sent="never", merge="larger", row="reviewed",
            label="Reviewed",
        ),
    ] = 0  # fmt: skip
    evidence: Annotated[tuple[Evidence, ...], replace(EVIDENCE, row=None)] = ()
    supersedes: Annotated[
        str,
        FieldSpec(
            role="supersedes", kind="artifact", http="supersedes_id", row=None,
            option=Option(
                "--supersedes", "ID", "What it takes the place of once it is accepted."
            ),
        ),
    ] = ""  # fmt: skip
    superseded_by: Annotated[
        str, FieldSpec(http="superseded_by_id", sent="never", row=None, label="Replaced by")
    ] = ""
    verification: Annotated[
        str,
        FieldSpec(
            choices=VERIFICATIONS, row=None, quiet=True, label="Verified",
            option=Option("--verification", "WORD", f"One of {', '.join(VERIFICATIONS)}."),
        ),
    ] = "unverified"  # fmt: skip
    subcortex: SubcortexRef = ""
    sensitivity: Sensitivity = NORMAL
    tags: Annotated[tuple[str, ...], tags_row(20)] = ()
    code_links: CodeLinks = ()


@record_kind(
    KindSpec(
        "task_",
        moves={
            state: tuple(other for other in _TASK_STATES if other != state)
            for state in OPEN_TASK_STATES
        }
        | dict.fromkeys(("done", "cancelled"), ("inbox", "assigned", "in_progress")),
        first=_TASK_STATES,
        usual=OPEN_TASK_STATES,
        right="create_task",
        claim=("blocked_reason", "notes", "body"),
        help="What is to be done.",
    )
)
@dataclass(frozen=True, slots=True)
class Task:
    """Something to do."""

    title: Title
    body: Annotated[str, body_row(50_000, indexed=1, row="text")] = ""
    state: Annotated[
        str,
        FieldSpec(
            http="status", row=None,
            option=Option("--state", "STATE", f"One of {', '.join(_TASK_STATES)}."),
        ),
    ] = "inbox"  # fmt: skip
    priority: Annotated[
        str,
        FieldSpec(
            choices=PRIORITIES, role="priority", referring=PRESSING, row=None,
            option=Option("--priority", "PRIORITY", f"One of {', '.join(PRIORITIES)}."),
        ),
    ] = "normal"  # fmt: skip
    assignees: Annotated[
        tuple[str, ...],
        FieldSpec(
            20, element=100, role="assignee", principal=True, filtered=True, http="assignee_ids",
            row="for", label="Assigned",
            option=Option(
                "--assign", "NAME", "Who is to do it; me: you; may be repeated.",
                remove="--unassign", remove_help="Who no longer does it; may be repeated.",
            ),
        ),
    ] = ()  # fmt: skip
    watchers: Annotated[
        tuple[str, ...],
        FieldSpec(
            50, element=100, role="watcher", principal=True, http="watcher_ids",
            label="Followed by",
            option=Option("--watcher", "NAME", "Who hears of changes; may be repeated."),
        ),
    ] = ()  # fmt: skip
    thread: Annotated[str, thread_row("The thread where it is discussed.")] = ""
    subcortex: SubcortexRef = ""
    blocked_reason: Annotated[
        str,
        FieldSpec(
            500, long=True, indexed=2, row=None, label="Blocked",
            option=Option("--blocked", "REASON", "What stands in the way: it is blocked."),
        ),
    ] = ""  # fmt: skip
    notes: Annotated[
        str,
        FieldSpec(
            10_000, long=True, http="notes_md", indexed=3, row=None,
            option=Option("--note", "TEXT", "What to add to its notes."),
        ),
    ] = ""  # fmt: skip
    sensitivity: Sensitivity = NORMAL
    tags: Annotated[tuple[str, ...], tags_row(20)] = ()
    code_links: CodeLinks = ()


@record_kind(
    KindSpec(
        "draft_",
        moves={
            "pending_review": ("approved", "rejected", "published", "expired"),
            "approved": ("published",),
            "expired": ("published", "rejected"),
            "rejected": (),
            "published": (),
        },
        first=("pending_review",),
        usual=("pending_review",),
        found=False,
        right="draft",
    )
)
@dataclass(frozen=True, slots=True)
class Draft:
    """A contribution that waits for a person."""

    type: Annotated[str, replace(type_row(DRAFT_TYPES), needed=True)]
    title: Annotated[str, FieldSpec(300, prose=True)]
    body: Annotated[str, body_row(100_000, row="text")]
    state: Annotated[str, FieldSpec(http="status", row=None, sent="never")] = "pending_review"
    target_kind: Annotated[str, FieldSpec(choices=TARGET_KINDS, http="target_type")] = ""
    # An id or a slug, as it was given.
    target: Annotated[
        str, FieldSpec(200, role="target", filtered=True, http="target_id", row=None)
    ] = ""
    # Of a task_update: field, value.
    patch: Annotated[
        tuple[tuple[str, str], ...], FieldSpec(20, element=10_000, prose=True, row="changes")
    ] = ()
    artifact_type: Annotated[str, FieldSpec(choices=("", *ARTIFACT_TYPES))] = ""
    thread_type: Annotated[str, FieldSpec(choices=("", *THREAD_TYPES))] = ""
    citations: Citations = ()
    tags: Annotated[tuple[str, ...], tags_row(20)] = ()
    reason: Annotated[str, FieldSpec(2_000, long=True)] = ""
    # Of an artifact; of a comment: the new summary of its thread.
    summary: Annotated[str, FieldSpec(2_000, long=True, http="summary_md")] = ""
    risk_flags: Annotated[tuple[str, ...], FieldSpec(10, sent="never")] = ()
    sensitivity: Sensitivity = NORMAL
    code_links: CodeLinks = ()
    evidence: Annotated[tuple[Evidence, ...], EVIDENCE] = ()
    reviewed_by: Annotated[str, FieldSpec(principal=True, http="reviewed_by_id", sent="never")] = ""
    reviewed_at: Annotated[int, FieldSpec(moment=True, sent="never")] = 0
    review_notes: Annotated[str, FieldSpec(2_000, long=True, sent="never", row=None)] = ""
    # Id of the record that it became.
    published: Annotated[str, FieldSpec(http="published_entity_id", sent="never", row=None)] = ""
    expires: Annotated[int, FieldSpec(moment=True, http="expires_at", sent="never")] = 0


@record_kind(
    KindSpec(
        "notif_",
        moves={"new": ("seen", "done"), "seen": ("done",), "done": ()},
        first=("new",),
        found=False,
    )
)
@dataclass(frozen=True, slots=True)
class Notification:
    """Something for a recipient to know, open until they mark it as read."""

    type: Annotated[str, FieldSpec(choices=NOTIFICATION_TYPES, row=None)]
    recipient: Annotated[
        str, FieldSpec(100, needed=True, role="recipient", principal=True, http="recipient_id")
    ]
    # The id of a record.
    about: Annotated[str, FieldSpec(needed=True, role="about", filtered=True, http="about_id")]
    title: Annotated[str, FieldSpec(300, needed=True)]
    # Why the recipient gets it.
    reason: Annotated[str, FieldSpec(600, needed=True, long=True)]
    state: Annotated[str, FieldSpec(http="status", merge="later")] = "new"
    sensitivity: Sensitivity = NORMAL


@record_kind(
    KindSpec(
        "link_",
        moves={
            "candidate": ("confirmed", "dismissed"),
            "confirmed": ("dismissed",),
            "dismissed": ("confirmed",),
        },
        first=("candidate", "confirmed"),
        usual=("candidate", "confirmed"),
        found=False,
        right="link",
        claim=("note",),
        help="How records stand to one another.",
    )
)
@dataclass(frozen=True, slots=True)
class Link:
    """A relation from one record to another."""

    source: Annotated[
        str,
        FieldSpec(
            needed=True, role="source", filtered=True, http="source_id", sent="new",
            option=Option("FROM", "FROM", "The id of the record that says more."),
        ),
    ]  # fmt: skip
    relation: Annotated[
        str,
        FieldSpec(
            choices=RELATIONS, needed=True, role="relation", filtered=True, sent="new",
            option=Option("RELATION", "RELATION", f"One of {', '.join(RELATIONS)}."),
        ),
    ]  # fmt: skip
    target: Annotated[
        str,
        FieldSpec(
            needed=True, role="target", filtered=True, http="target_id", sent="new",
            option=Option("TO", "TO", "The id of the record that it stands to."),
        ),
    ]  # fmt: skip
    note: Annotated[
        str, FieldSpec(500, long=True, row="text", option=Option("--note", "TEXT", "In which way."))
    ] = ""
    # A candidate is for a person to judge.
    state: Annotated[str, FieldSpec(http="status", row=None)] = "confirmed"
    sensitivity: Annotated[str, replace(SENSITIVITY, sent="never")] = NORMAL

    @property
    def title(self) -> str:
        return f"{self.source} {self.relation} {self.target}"


Body = Subcortex | Thread | Comment | Observation | Artifact | Task | Draft | Notification | Link
B = TypeVar("B", bound=Any)

# Kinds that a search returns.
FOUND_KINDS = tuple(name for name in KINDS if spec_of(name).found)


@dataclass(frozen=True, slots=True)
class Record(Generic[B]):
    """A team record. `version` counts its writes; 0 is a record that was never written."""

    id: str
    body: B
    author: str = ""
    created: int = 0  # milliseconds since 1970
    updated: int = 0
    version: int = 0

    @property
    def kind(self) -> str:
        return kind_of(self.body)


def kind_of(body: Body) -> str:
    """Return the kind of a body: "thread", "observation", ..."""
    return type(body).__name__.lower()


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions on records; a record matches where every given condition holds."""

    kinds: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    refs: tuple[tuple[str, str], ...] = ()  # role and target, as `refs_of` returns them
    authors: tuple[str, ...] = ()
    sensitivity: str = ""
    since: int = 0  # changed at or after, in milliseconds
    until: int = 0  # changed before; 0 is no limit
    before: str = ""  # made before the record of this id
    due: str = ""  # to be reviewed before this day, YYYY-MM-DD
    by_change: bool = field(default=False)  # order: last changed first, else last created first
