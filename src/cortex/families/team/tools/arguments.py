"""Arguments of the team tools, named as in their contract.

`max_chars`, `cursor` and the further fields of a code link are our additions. Errors are reported
for each observation, so its limits are checked where it is written and not here. Descriptions are
short on purpose, since every client pays for them in every conversation; for the same reason an
empty default is made by a function, which keeps it out of the schema.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from cortex.base.record_model import OBSERVATION_TYPES, SENSITIVITIES, Task
from cortex.base.record_spec import spec_of
from cortex.toolkit.tool import Arguments, Whole

# Most observations of one call.
OBSERVATIONS = 100


def _yes() -> bool:
    """Default that stays out of the schema."""
    return True


class Budgeted(Arguments):
    budget: Annotated[Whole | None, Field(description="tokens")] = None
    max_chars: Whole | None = None


class GetBootstrapPack(Budgeted):
    scope: Annotated[
        str | None, Field(description="global, workspace (default) or subcortex:<slug>")
    ] = None


class CodeSubject(Arguments):
    path: str = Field(default_factory=str)
    symbol: str | None = None
    repo: str | None = None
    line_start: Annotated[Whole | None, Field(ge=1)] = None
    line_end: Annotated[Whole | None, Field(ge=1)] = None


class SubjectArgument(Arguments):
    thread_id: str | None = None
    task_id: str | None = None
    subcortex_slug: str | None = None
    artifact_id: str | None = None
    code_link: CodeSubject | None = None
    ref: Annotated[
        str | None, Field(description="memories:ID, documents:ID, chunks:ID or any record's id")
    ] = None


class Include(Arguments):
    """What a context pack has; all of it unless somebody says no."""

    canon_artifacts: bool = Field(default_factory=_yes)
    recent_threads: bool = Field(default_factory=_yes)
    recent_observations: bool = Field(default_factory=_yes)
    in_progress_tasks: bool = Field(default_factory=_yes)
    contradictions: bool = Field(default_factory=_yes)


class GetContextPack(Budgeted):
    subject: Annotated[SubjectArgument, Field(description="One of these")]
    include: Include = Field(default_factory=Include, description="Default: all")
    cursor: str | None = None


class GetThread(Budgeted):
    thread_id: str
    comment_mode: Literal["top", "recent", "referenced"] = "referenced"
    cursor: str | None = None


class GetArtifact(Budgeted):
    artifact_id: str
    version: Annotated[Whole | None, Field(ge=1)] = None
    cursor: str | None = None


class GetInbox(Budgeted):
    cursor: str | None = None
    limit: Annotated[Whole, Field(ge=1, le=100)] = 10
    include: tuple[Literal["notifications", "tasks", "reviews"], ...] | None = None


# -- writes


class Keyed(Arguments):
    idempotency_key: Annotated[
        str | None, Field(description="Required: one per write, the same on a retry")
    ] = None
    commit_id: Annotated[str | None, Field(description="In its place: one write of each tool")] = (
        None
    )


class AttachmentRef(Arguments):
    name: str = Field(default_factory=str)
    ref: Annotated[str, Field(description="path or URL")]
    media_type: str = Field(default_factory=str)


class OneObservation(Arguments):
    model_config = ConfigDict(json_schema_extra={"required": ["title"]})

    title: str = Field(default_factory=str)
    summary_md: str = Field(default_factory=str)
    type: Annotated[str, Field(json_schema_extra={"enum": list(OBSERVATION_TYPES)})] = "other"
    tags: tuple[str, ...] = Field(default_factory=tuple)
    links: tuple[str, ...] = Field(
        default_factory=tuple,
        description="ids, subcortex:<slug>, path#symbol or path:1-9 of code, URLs",
        max_length=50,
    )
    sensitivity: Annotated[str, Field(json_schema_extra={"enum": list(SENSITIVITIES)})] = "normal"


class CreateObservations(Keyed):
    observations: Annotated[
        tuple[OneObservation, ...], Field(json_schema_extra={"maxItems": OBSERVATIONS})
    ]
    attachments: tuple[AttachmentRef, ...] = Field(default_factory=tuple, max_length=20)


def _ref(value: object) -> object:
    """Convert a target such as {"thread_id": …} or {"type": …, "id": …} to its text."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value
        named = [part for name, part in fields.items() if name != "type"]
        return named[0] if len(named) == 1 else value
    return value


class Metadata(Arguments):
    title: str = Field(default_factory=str)
    citations: tuple[str, ...] = Field(
        default_factory=tuple, description="ids or URLs it rests on", max_length=50
    )
    tags: tuple[str, ...] = Field(default_factory=tuple)
    reason: str = Field(default_factory=str)
    type: str = Field(
        default_factory=str, description="of the artifact (adr, runbook, …) or thread (decision, …)"
    )
    summary_md: str = Field(default_factory=str)
    links: tuple[str, ...] = Field(
        default_factory=tuple, description="path#symbol of code", max_length=50
    )
    sensitivity: Annotated[str, Field(json_schema_extra={"enum": list(SENSITIVITIES)})] = "normal"
    status: str = Field(default_factory=str, description="of a task_update")
    blocked_reason: str = Field(default_factory=str)


class CreateDraft(Keyed):
    draft_type: Literal["comment", "thread", "artifact", "task_update"]
    target_ref: Annotated[
        str | None, BeforeValidator(_ref), Field(description="thread_id, task_id or subcortex_slug")
    ] = None
    body_md: str
    metadata: Metadata = Field(default_factory=Metadata)


class PublishComment(Keyed):
    thread_id: str
    body_md: str


class UpdateTask(Keyed):
    task_id: str
    status: Annotated[str | None, Field(json_schema_extra={"enum": list(spec_of(Task).states)})] = (
        None
    )
    blocked_reason: str | None = None
    notes: str | None = None
