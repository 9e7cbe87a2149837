"""Workflow over HTTP: drafts, artifacts, notifications, the inbox, searches and packs.

Searches and packs are the team tools over the replica: the same answers within the same budgets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal

from pydantic import Field

from cortex.base.record_model import Actor, Artifact, Draft, Notification
from cortex.base.visibility import sees
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.engine.search.federated import SearchTarget
from cortex.families.team.inbox import InboxEntry, acknowledge, inbox
from cortex.families.team.permissions import TIERS
from cortex.families.team.tools import packs, search_tool
from cortex.families.team.tools.arguments import Budgeted, GetBootstrapPack, GetContextPack
from cortex.families.team.tools.search_tool import RECORDS, Filters, TeamSearch
from cortex.families.team.tools.session import TeamSession
from cortex.families.team.writes.actions import (
    accept_artifact,
    deprecate_artifact,
    supersede_artifact,
)
from cortex.families.team.writes.drafts import approve, now_ms, reject
from cortex.interfaces.team_server.cursors import Paged, number_in, page_of, place_in, question_of
from cortex.interfaces.team_server.read_replica import ReadReplica
from cortex.interfaces.team_server.responses import Pagination, RouteResult
from cortex.interfaces.team_server.router import Route, RouteContext
from cortex.interfaces.team_server.routes.records import schema_ref
from cortex.interfaces.team_server.schemas import Row, changes_body, moment, record_row, sent
from cortex.plugins import Plugins
from cortex.toolkit.tool import Answer, Arguments, Call, Whole

_Ref = Annotated[str, Field(max_length=200)]
_Note = Annotated[str, Field(max_length=2_000)]
_OBJECT: Mapping[str, object] = {"type": "object"}


# -- drafts


class Approve(Arguments):
    target_id: Annotated[
        _Ref, Field(description="Where it goes, where it doesn't say so itself")
    ] = ""
    notes: _Note = ""


class Reject(Arguments):
    notes: _Note = ""


def approve_draft(context: RouteContext) -> RouteResult:
    """Publish a draft."""
    done = approve(
        context.replica,
        context.record("draft").id,
        actor=context.actor,
        key=context.key,
        target=context.body.target_id,
        notes=context.body.notes,
    )
    return RouteResult(
        {"draft": record_row(done.draft, now_ms()), "published": record_row(done.record)}
    )


def reject_draft(context: RouteContext) -> RouteResult:
    """Reject a draft."""
    draft = context.record("draft")
    done = reject(
        context.replica, draft.id, actor=context.actor, notes=context.body.notes, key=context.key
    )
    return RouteResult(record_row(done, now_ms()))


# -- artifacts


Accept = changes_body("Accept", Artifact, ("evidence",))


class Supersede(Arguments):
    superseded_by_id: Annotated[_Ref, Field(min_length=1)]
    note: Annotated[str, Field(max_length=500)] = ""


class Deprecate(Arguments):
    note: Annotated[str, Field(max_length=2_000)] = ""


def accept(context: RouteContext) -> RouteResult:
    """Accept an artifact."""
    evidence = sent(Artifact, context.body).get("evidence", ())
    record = accept_artifact(
        context.replica,
        context.record("artifact").id,
        actor=context.actor,
        key=context.key,
        version=context.body.version,
        evidence=evidence,
    )
    return RouteResult(record_row(record))


def supersede(context: RouteContext) -> RouteResult:
    """Mark an artifact as superseded by another one, and return it."""
    old, new = context.record("artifact"), context.body.superseded_by_id
    record = supersede_artifact(
        context.replica, old.id, new, actor=context.actor, key=context.key, note=context.body.note
    )
    return RouteResult(record_row(record))


def deprecate(context: RouteContext) -> RouteResult:
    """Mark an artifact as no longer valid."""
    old = context.record("artifact")
    record = deprecate_artifact(
        context.replica, old.id, actor=context.actor, key=context.key, note=context.body.note
    )
    return RouteResult(record_row(record))


def list_versions(context: RouteContext) -> RouteResult:
    """List the visible versions of an artifact, newest first; only the ledger has them."""
    record = context.record("artifact")
    question = question_of(f"/artifacts/{record.id}/versions", context.query)
    before = number_in(question, context.query.cursor) or record.version + 1
    versions = [
        version
        for version_number, version in sorted(
            context.ledger.records.versions(record.id).items(), reverse=True
        )
        if version_number < before and sees(context.viewer, version, context.replica.whole)
    ]
    shown, pagination = page_of(question, context.query, versions, lambda version: version.version)
    return RouteResult([record_row(version) for version in shown], pagination)


# -- inbox


class WaitingQuery(Paged):
    include: tuple[Literal["notifications", "tasks", "reviews"], ...] = ()


class Acknowledge(Arguments):
    ids: Annotated[tuple[_Ref, ...], Field(min_length=1, max_length=100, fail_fast=True)]


def read_inbox(context: RouteContext) -> RouteResult:
    """Read the inbox of the principal, newest first."""
    question = question_of("/inbox", context.query)
    include = context.query.include or ("notifications", "tasks", "reviews")
    waiting = inbox(
        context.replica,
        context.principal.name,
        include,
        context.query.limit + 1,
        place_in(question, context.query.cursor),
        decides=context.principal.tier >= TIERS["approve_draft"],
    )
    shown, pagination = page_of(question, context.query, waiting.entries, lambda entry: entry.id)
    return RouteResult([_entry_row(entry) for entry in shown], pagination)


def _entry_row(entry: InboxEntry) -> Row:
    return {
        "id": entry.id,
        "kind": entry.kind,
        "type": entry.type,
        "about_id": entry.about,
        "title": entry.title,
        "why": entry.why,
        "at": moment(entry.at),
        "next_id": entry.next,
        "sensitive": entry.sensitive,
    }


def acknowledge_one(context: RouteContext) -> RouteResult:
    """Mark a notification as done."""
    notification = context.record("notification")
    acknowledge(context.replica, [notification.id], actor=context.actor, key=context.key)
    return RouteResult(record_row(context.record("notification")))


def acknowledge_many(context: RouteContext) -> RouteResult:
    """Mark notifications as done, and return those that were open."""
    done = acknowledge(context.replica, context.body.ids, actor=context.actor, key=context.key)
    return RouteResult({"acknowledged": list(done)})


# -- searches and packs


class Visitor(TeamSession):
    """Session of the team tools over the replica: records only.

    It has no project, no plugins and no other search targets.
    """

    def __init__(self, replica: ReadReplica, actor: Actor) -> None:
        self.settings = replica.settings
        self.root = None
        self.served = ("team",)
        self.plugins = Plugins({})
        self._replica, self._actor = replica, actor

    @property
    def actor(self) -> Actor:
        return self._actor

    @property
    def routes(self) -> Mapping[str, object]:
        return {}

    @contextmanager
    def open(self) -> Iterator[Library]:
        """Yield the replica."""
        yield self._replica

    @contextmanager
    def others(
        self, families: Sequence[str] | None = None
    ) -> Iterator[tuple[list[SearchTarget], list[str]]]:
        """Yield no other search targets."""
        yield [], []

    @contextmanager
    def code(self) -> Iterator[list[Engine]]:
        """Yield no code engines."""
        yield []


RecordType = Literal["threads", "comments", "artifacts", "observations", "tasks", "subcortexes"]


class SearchRecords(Budgeted):
    query: Annotated[str, Field(max_length=10_000)]
    types: tuple[RecordType, ...] | None = None
    filters: Annotated[Filters, Field(default_factory=Filters)]
    limit: Annotated[Whole, Field(ge=1, le=50)] = 10
    cursor: Annotated[str | None, Field(max_length=500)] = None


def search(context: RouteContext) -> RouteResult:
    """Search the records."""
    body: SearchRecords = context.body
    types = tuple(body.types or RECORDS)
    fields = {name: getattr(body, name) for name in SearchRecords.model_fields}
    arguments = TeamSearch.model_construct(**{**fields, "types": types})
    result = _result_of(
        context, search_tool.search(_session_of(context), arguments, Call(context.cancel))
    )
    cursor = result.content.get("next_cursor", "") if isinstance(result.content, dict) else ""
    return RouteResult(result.content, Pagination(str(cursor), body.limit), meta=result.meta)


def bootstrap_pack(context: RouteContext) -> RouteResult:
    """Build the bootstrap pack."""
    return _result_of(
        context, packs.get_bootstrap_pack(_session_of(context), context.body, Call(context.cancel))
    )


def context_pack(context: RouteContext) -> RouteResult:
    """Build the context pack of a subject."""
    return _result_of(
        context, packs.get_context_pack(_session_of(context), context.body, Call(context.cancel))
    )


def _session_of(context: RouteContext) -> Visitor:
    return Visitor(context.replica, context.actor)


def _result_of(context: RouteContext, answer: Answer) -> RouteResult:
    envelope = json.loads(answer.text)
    return RouteResult(envelope["data"], meta=envelope["meta"])


# -- the table

_ENTRIES: Mapping[str, object] = {"type": "array", "items": _OBJECT}

ROUTES: tuple[Route, ...] = (
    Route("POST", "/drafts/{id}/approve", "approveDraft", "Publish a draft", approve_draft,
          "drafts", _OBJECT, body=Approve, keyed=True),
    Route("POST", "/drafts/{id}/reject", "rejectDraft", "Reject a draft", reject_draft, "drafts",
          schema_ref(Draft), body=Reject, keyed=True),
    Route("POST", "/artifacts/{id}/accept", "acceptArtifact", "Accept an artifact", accept,
          "artifacts", schema_ref(Artifact), body=Accept, keyed=True),
    Route("POST", "/artifacts/{id}/supersede", "supersedeArtifact",
          "Supersede an artifact by another one", supersede, "artifacts", schema_ref(Artifact),
          body=Supersede, keyed=True),
    Route("POST", "/artifacts/{id}/deprecate", "deprecateArtifact",
          "Say that an artifact doesn't hold any more", deprecate, "artifacts",
          schema_ref(Artifact), body=Deprecate, keyed=True),
    Route("GET", "/artifacts/{id}/versions", "listVersions", "List the versions of an artifact",
          list_versions, "artifacts", {"type": "array", "items": schema_ref(Artifact)}, query=Paged,
          listed=True),
    Route("GET", "/inbox", "readInbox", "Read what waits", read_inbox, "inbox", _ENTRIES,
          query=WaitingQuery, listed=True),
    Route("POST", "/notifications/ack", "acknowledgeNotifications", "Be done with notifications",
          acknowledge_many, "notifications", _OBJECT, body=Acknowledge, keyed=True),
    Route("POST", "/notifications/{id}/ack", "acknowledgeNotification",
          "Be done with a notification", acknowledge_one, "notifications", schema_ref(Notification),
          body=Arguments, keyed=True),
    Route("POST", "/search", "search", "Find what there is about something", search, "search",
          _OBJECT, body=SearchRecords, listed=True),
    Route("POST", "/packs/bootstrap", "bootstrapPack", "Read what a newcomer should know",
          bootstrap_pack, "packs", _OBJECT, body=GetBootstrapPack),
    Route("POST", "/packs/context", "contextPack", "Read what matters about one subject",
          context_pack, "packs", _OBJECT, body=GetContextPack),
)  # fmt: skip
