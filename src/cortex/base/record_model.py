"""Data model of team records: one body class per kind; no I/O, standard library only.

A `Record` is a header that all kinds share, and a body. `refs_of` lists the references of a body in
one place, so that "which records refer to this" is one query for every kind. The meaning of states
and the permissions are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

NORMAL, SENSITIVE = "normal", "sensitive"
# Priorities that are shown first.
PRESSING = ("urgent", "high")
# Summary fields of a thread: derived from its comments, unless a person or an agent wrote them.
SUMMARY = ("summary", "summary_sources", "summary_by")


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a write: the person at the terminal, or a caller over a protocol."""

    name: str
    tier: int  # 0 reads, 1 observes and drafts, 2 writes, 3 approves, 4 all
    # How the write was made, for the audit log: a key of `actors.VIAS`, "" where unknown.
    via: str = ""


@dataclass(frozen=True, slots=True)
class CodeLink:
    """A file, or a symbol in it, that a record refers to.

    Hashes and commit describe it as it was when the link was made, where it could be read.
    """

    path: str  # relative to the repository's root, with "/"
    repo: str = ""  # its name
    symbol: str = ""
    line_start: int = 0
    line_end: int = 0
    commit: str = ""
    root: str = ""  # the repository's folder on this machine; "" where it wasn't looked up
    file_hash: str = ""  # hexadecimal
    body_hash: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A source that supports an artifact."""

    kind: str  # thread, comment, observation, artifact or url
    ref: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or page that belongs to a record: its location, never its bytes."""

    name: str
    ref: str
    media_type: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a glossary."""

    term: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Subcortex:
    """A topic that a team keeps knowledge about."""

    slug: str
    name: str
    description: str = ""
    charter: str = ""
    state: str = "active"
    visibility: str = "internal"
    sensitivity: str = NORMAL
    stewards: tuple[str, ...] = ()
    pinned_threads: tuple[str, ...] = ()
    pinned_artifacts: tuple[str, ...] = ()
    pinned_tasks: tuple[str, ...] = ()
    glossary: tuple[Term, ...] = ()
    naming: tuple[str, ...] = ()  # rules

    @property
    def title(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Thread:
    """A discussion: its subject, and a summary that follows its comments."""

    title: str
    body: str = ""
    type: str = "other"
    state: str = "open"
    subcortex: str = ""
    sensitivity: str = NORMAL
    tags: tuple[str, ...] = ()
    summary: str = ""
    summary_sources: tuple[str, ...] = ()  # ids of comments
    summary_by: str = ""  # the author; "" where it was extracted from the comments
    task: str = ""
    resolution: str = ""
    code_links: tuple[CodeLink, ...] = ()


@dataclass(frozen=True, slots=True)
class Comment:
    """A contribution to a thread."""

    thread: str
    body: str
    parent: str = ""
    subcortex: str = ""  # of its thread
    sensitivity: str = NORMAL
    citations: tuple[str, ...] = ()

    state = "published"

    @property
    def title(self) -> str:
        return " ".join(self.body[:200].split())[:80]


@dataclass(frozen=True, slots=True)
class Observation:
    """Something observed: a result, a note, a change."""

    title: str
    summary: str = ""
    type: str = "other"
    tags: tuple[str, ...] = ()
    subcortex: str = ""
    thread: str = ""
    task: str = ""
    sensitivity: str = NORMAL
    source_type: str = "manual"
    session: str = ""
    commit_id: str = ""
    attachments: tuple[Attachment, ...] = ()
    code_links: tuple[CodeLink, ...] = ()

    state = "recorded"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Knowledge with an owner: a decision, a runbook, a specification."""

    title: str
    body: str = ""
    summary: str = ""
    type: str = "other"
    state: str = "draft"
    owner: str = ""
    review_by: str = ""  # YYYY-MM-DD
    last_reviewed: int = 0  # milliseconds since 1970
    evidence: tuple[Evidence, ...] = ()
    supersedes: str = ""
    superseded_by: str = ""
    verification: str = "unverified"
    subcortex: str = ""
    sensitivity: str = NORMAL
    tags: tuple[str, ...] = ()
    code_links: tuple[CodeLink, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do."""

    title: str
    body: str = ""
    state: str = "inbox"
    priority: str = "normal"
    assignees: tuple[str, ...] = ()
    watchers: tuple[str, ...] = ()
    thread: str = ""
    subcortex: str = ""
    blocked_reason: str = ""
    notes: str = ""
    sensitivity: str = NORMAL
    tags: tuple[str, ...] = ()
    code_links: tuple[CodeLink, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A contribution that waits for a person."""

    type: str  # comment, thread, artifact or task_update
    title: str
    body: str
    state: str = "pending_review"
    target_kind: str = ""  # "", thread, task or subcortex
    target: str = ""  # an id or a slug, as it was given
    patch: tuple[tuple[str, str], ...] = ()  # of a task_update: field, value
    artifact_type: str = ""
    thread_type: str = ""
    citations: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    reason: str = ""
    summary: str = ""  # of an artifact; of a comment: the new summary of its thread
    risk_flags: tuple[str, ...] = ()
    sensitivity: str = NORMAL
    code_links: tuple[CodeLink, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    reviewed_by: str = ""
    reviewed_at: int = 0
    review_notes: str = ""
    published: str = ""  # id of the record that it became
    expires: int = 0  # milliseconds since 1970


@dataclass(frozen=True, slots=True)
class Notification:
    """Something for a recipient to know, open until they mark it as read."""

    type: str
    recipient: str
    about: str  # the id of a record
    title: str
    reason: str  # why the recipient gets it
    state: str = "new"
    sensitivity: str = NORMAL


@dataclass(frozen=True, slots=True)
class Link:
    """A relation from one record to another."""

    source: str
    relation: str  # supersedes, contradicts, supports or depends_on
    target: str
    note: str = ""
    state: str = "confirmed"  # or candidate, dismissed: for a person to judge
    sensitivity: str = NORMAL

    @property
    def title(self) -> str:
        return f"{self.source} {self.relation} {self.target}"


Body = Subcortex | Thread | Comment | Observation | Artifact | Task | Draft | Notification | Link
B = TypeVar("B", bound=Any)

# The prefix of an id is the kind; observations and notifications have a shorter one.
PREFIXES: Mapping[type, str] = {
    Subcortex: "subcortex_",
    Thread: "thread_",
    Comment: "comment_",
    Observation: "obs_",
    Artifact: "artifact_",
    Task: "task_",
    Draft: "draft_",
    Notification: "notif_",
    Link: "link_",
}
KINDS: Mapping[str, type] = {cls.__name__.lower(): cls for cls in PREFIXES}
# Kinds that a search returns.
FOUND_KINDS = ("subcortex", "thread", "comment", "observation", "artifact", "task")


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


def refs_of(body: Body) -> tuple[tuple[str, str], ...]:
    """Return the references of a body as (role, target); paths, tags and names are targets, too."""
    refs: list[tuple[str, str]] = []
    for role in ("subcortex", "thread", "task", "parent", "target", "about", "supersedes"):
        if isinstance(value := getattr(body, role, ""), str) and value:
            refs.append((role, value))
    for name, role in _LIST_FIELD_ROLES:
        refs += [(role, value) for value in getattr(body, name, ()) if value]
    refs += [("tag", tag.casefold()) for tag in getattr(body, "tags", ())]
    refs += [("evidence", evidence.ref) for evidence in getattr(body, "evidence", ())]
    refs += [("citation", attachment.ref) for attachment in getattr(body, "attachments", ())]
    for link in getattr(body, "code_links", ()):
        refs.append(("path", link.path))
        refs += [("symbol", link.symbol.casefold())] if link.symbol else []
    match body:
        case Subcortex():
            refs.append(("slug", body.slug))
        case Thread():
            refs.append(("type", body.type))
        case Artifact():
            refs.append(("type", body.type))
            refs += [("due", body.review_by)] if body.review_by else []
        case Task() if body.priority in PRESSING:
            refs.append(("priority", body.priority))
        case Notification():
            refs.append(("recipient", body.recipient))
        case Link():
            refs.append(("source", body.source))
            refs.append(("relation", body.relation))
    return tuple(dict.fromkeys(refs))


_LIST_FIELD_ROLES = (
    ("pinned_threads", "pin"),
    ("pinned_artifacts", "pin"),
    ("pinned_tasks", "pin"),
    ("stewards", "steward"),
    ("assignees", "assignee"),
    ("watchers", "watcher"),
    ("citations", "citation"),
)
