"""The arguments of the team's tools, named as their contract has them; `max_chars`, `cursor` and what a code link says besides are ours.

What is wrong with one observation of many is told of that one, so its limits are checked where it is written and not here. The
descriptions are short on purpose: every client pays for them in every conversation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from cortex.records import checks
from cortex.tools import Arguments, Whole

OBSERVATIONS = 100  # of one call
MAX_ID = 300  # characters

Text = Annotated[str, Field(max_length=MAX_ID)]


class Budgeted(Arguments):
    budget: Annotated[Whole | None, Field(description="Most tokens of the answer")] = None
    max_chars: Whole | None = None


class GetBootstrapPack(Budgeted):
    scope: Annotated[Text | None, Field(description="global, workspace (default) or subcortex:<slug>")] = None


class CodeSubject(Arguments):
    path: Annotated[str, Field(max_length=4_096, min_length=1)]
    symbol: Text | None = None
    repo: Text | None = None
    line_start: Annotated[Whole | None, Field(ge=1)] = None
    line_end: Annotated[Whole | None, Field(ge=1)] = None


class Subject(Arguments):
    thread_id: Text | None = None
    task_id: Text | None = None
    subcortex_slug: Text | None = None
    artifact_id: Text | None = None
    code_link: CodeSubject | None = None
    ref: Annotated[Text | None, Field(description="memories:ID, documents:ID or chunks:ID, as cortex_search gives it")] = None


class Include(Arguments):
    """What a context pack has; all of it unless somebody says no."""

    canon_artifacts: bool = True
    recent_threads: bool = True
    recent_observations: bool = True
    in_progress_tasks: bool = True
    contradictions: bool = True


class GetContextPack(Budgeted):
    subject: Annotated[Subject, Field(description="One of these")]
    include: Annotated[Include, Field(default_factory=Include)]
    cursor: Text | None = None


class GetThread(Budgeted):
    thread_id: Text
    comment_mode: Literal["top", "recent", "referenced"] = "referenced"
    cursor: Text | None = None


class GetArtifact(Budgeted):
    artifact_id: Text
    version: Annotated[Whole | None, Field(ge=1)] = None
    cursor: Text | None = None


class GetInbox(Budgeted):
    cursor: Text | None = None
    limit: Annotated[Whole, Field(ge=1, le=100)] = 10
    include: tuple[Literal["notifications", "tasks", "reviews"], ...] | None = None


# -- writes ------------------------------------------------------------------------------------------------------------


class Keyed(Arguments):
    idempotency_key: Annotated[
        str | None, Field(description="Required, or commit_id: your own, <session>:<action>:<n>; a retry repeats it")
    ] = None
    commit_id: str | None = None


class AttachmentRef(Arguments):
    name: Text = ""
    ref: Annotated[str, Field(description="path or URL")]
    media_type: Text = ""


Attachments = Annotated[tuple[AttachmentRef, ...], Field(max_length=20)]


class OneObservation(Arguments):
    title: str = ""
    summary_md: str = ""
    type: Annotated[str, Field(json_schema_extra={"enum": list(checks.TYPES["observation"])})] = "other"
    tags: tuple[str, ...] = ()
    links: Annotated[
        tuple[str, ...], Field(description="ids, subcortex:<slug>, path#symbol or path:1-9 of code, URLs", max_length=50)
    ] = ()
    sensitivity: Annotated[str, Field(json_schema_extra={"enum": ["normal", "sensitive"]})] = "normal"


class CreateObservations(Keyed):
    observations: Annotated[tuple[OneObservation, ...], Field(json_schema_extra={"maxItems": OBSERVATIONS})]
    attachments: Annotated[Attachments, Field(description="Of all of them, by reference")] = ()


def _ref(value: object) -> object:
    """A target as one text, though it may be told as {"thread_id": …} or {"type": …, "id": …}."""
    if isinstance(value, dict):
        told: dict[str, Any] = value
        named = [part for name, part in told.items() if name != "type"]
        return named[0] if len(named) == 1 else value
    return value


class Metadata(Arguments):
    title: str = ""
    citations: Annotated[tuple[str, ...], Field(description="ids or URLs it rests on", max_length=50)] = ()
    tags: tuple[str, ...] = ()
    reason: str = ""
    type: Annotated[str, Field(description="of the artifact (adr, runbook, …) or thread (decision, …)")] = ""
    summary_md: str = ""
    links: Annotated[tuple[str, ...], Field(description="path#symbol of code", max_length=50)] = ()
    sensitivity: Literal["normal", "sensitive"] = "normal"
    status: Annotated[str, Field(description="of a task_update")] = ""
    blocked_reason: str = ""


class CreateDraft(Keyed):
    draft_type: Literal["comment", "thread", "artifact", "task_update"]
    target_ref: Annotated[
        str | None, BeforeValidator(_ref), Field(description="thread_id, task_id or subcortex_slug")
    ] = None
    body_md: str
    metadata: Annotated[Metadata, Field(default_factory=Metadata)]


class PublishComment(Keyed):
    thread_id: Text
    body_md: str


class UpdateTask(Keyed):
    task_id: Text
    status: Annotated[str | None, Field(json_schema_extra={"enum": list(checks.STATES["task"])})] = None
    blocked_reason: str | None = None
    notes: str | None = None
