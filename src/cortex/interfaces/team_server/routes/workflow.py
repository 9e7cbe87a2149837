"""What is done with records over HTTP: drafts decided about, artifacts accepted and superseded,
notifications and the inbox; searches and packs.

Searches and packs are those of the team's tools, over the hall: the same answers, within the same
budgets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import Field

from cortex.base.record_model import Actor, Artifact, Draft, Notification, Record
from cortex.base.visibility import sees
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.engine.search.federated import SearchTarget
from cortex.families.team.inbox import InboxEntry, acknowledge, inbox
from cortex.families.team.permissions import TIERS
from cortex.families.team.references import resolve_ref
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
# ------------------------------------------------------------------------------------------------------------


class Approve(Arguments):
    target_id: Annotated[
        _Ref, Field(description="Where it goes, where it doesn't say so itself")
    ] = ""
    notes: _Note = ""


class Reject(Arguments):
    notes: _Note = ""


def approve_draft(asked: RouteContext) -> RouteResult:
    """Publish a draft."""
    done = approve(
        asked.hall,
        _named(asked, "draft").id,
        actor=asked.actor,
        key=asked.key,
        target=asked.body.target_id,
        notes=asked.body.notes,
    )
    return RouteResult(
        {"draft": record_row(done.draft, now_ms()), "published": record_row(done.record)}
    )


def reject_draft(asked: RouteContext) -> RouteResult:
    """Decide that a draft isn't published."""
    draft = _named(asked, "draft")
    done = reject(asked.hall, draft.id, actor=asked.actor, notes=asked.body.notes, key=asked.key)
    return RouteResult(record_row(done, now_ms()))


# -- artifacts
# ---------------------------------------------------------------------------------------------------------


Accept = changes_body("Accept", Artifact, ("evidence",))


class Supersede(Arguments):
    superseded_by_id: Annotated[_Ref, Field(min_length=1)]
    note: Annotated[str, Field(max_length=500)] = ""


class Deprecate(Arguments):
    note: Annotated[str, Field(max_length=2_000)] = ""


def accept(asked: RouteContext) -> RouteResult:
    """Accept an artifact."""
    evidence = sent(Artifact, asked.body).get("evidence", ())
    record = accept_artifact(
        asked.hall,
        _named(asked, "artifact").id,
        actor=asked.actor,
        key=asked.key,
        version=asked.body.version,
        evidence=evidence,
    )
    return RouteResult(record_row(record))


def supersede(asked: RouteContext) -> RouteResult:
    """Have another artifact take the place of one; gives the old one."""
    old, new = _named(asked, "artifact"), asked.body.superseded_by_id
    record = supersede_artifact(
        asked.hall, old.id, new, actor=asked.actor, key=asked.key, note=asked.body.note
    )
    return RouteResult(record_row(record))


def deprecate(asked: RouteContext) -> RouteResult:
    """Say that an artifact doesn't hold any more."""
    old = _named(asked, "artifact")
    record = deprecate_artifact(
        asked.hall, old.id, actor=asked.actor, key=asked.key, note=asked.body.note
    )
    return RouteResult(record_row(record))


def list_versions(asked: RouteContext) -> RouteResult:
    """The versions of an artifact that whoever asks may see, the newest first; they are in the
    ledger alone.
    """
    record = _named(asked, "artifact")
    question = question_of(f"/artifacts/{record.id}/versions", asked.query)
    before = number_in(question, asked.query.cursor) or record.version + 1
    found = [
        one
        for number, one in sorted(
            asked.core.ledger.recorded.versions(record.id).items(), reverse=True
        )
        if number < before and sees(asked.viewer, one, asked.hall.whole)
    ]
    shown, pagination = page_of(question, asked.query, found, lambda one: one.version)
    return RouteResult([record_row(one) for one in shown], pagination)


# -- what waits
# --------------------------------------------------------------------------------------------------------


class WaitingQuery(Paged):
    include: tuple[Literal["notifications", "tasks", "reviews"], ...] = ()


class Acknowledge(Arguments):
    ids: Annotated[tuple[_Ref, ...], Field(min_length=1, max_length=100, fail_fast=True)]


def read_inbox(asked: RouteContext) -> RouteResult:
    """What waits for whoever asks, the newest first."""
    question = question_of("/inbox", asked.query)
    include = asked.query.include or ("notifications", "tasks", "reviews")
    found = inbox(
        asked.hall,
        asked.principal.name,
        include,
        asked.query.limit + 1,
        place_in(question, asked.query.cursor),
        decides=asked.principal.tier >= TIERS["approve_draft"],
    )
    shown, pagination = page_of(question, asked.query, found.entries, lambda one: one.id)
    return RouteResult([_entry_row(one) for one in shown], pagination)


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


def acknowledge_one(asked: RouteContext) -> RouteResult:
    """Be done with a notification."""
    one = _named(asked, "notification")
    acknowledge(asked.hall, [one.id], actor=asked.actor, key=asked.key)
    return RouteResult(record_row(_named(asked, "notification")))


def acknowledge_many(asked: RouteContext) -> RouteResult:
    """Be done with notifications; gives those that were open."""
    done = acknowledge(asked.hall, asked.body.ids, actor=asked.actor, key=asked.key)
    return RouteResult({"acknowledged": list(done)})


def _named(asked: RouteContext, kind: str) -> Record[Any]:
    return resolve_ref(asked.hall.store.recorded, asked.path["id"], kind)


# -- searches and packs
# ------------------------------------------------------------------------------------------------


class Visitor(TeamSession):
    """The team's tools for whoever visits a hall: its records, no project, no plugin, and nothing
    else to search.
    """

    def __init__(self, hall: ReadReplica, actor: Actor) -> None:
        self.settings = hall.settings
        self.root = None
        self.served = ("team",)
        self.plugins = Plugins({})
        self._hall, self._actor = hall, actor

    @property
    def actor(self) -> Actor:
        return self._actor

    @property
    def routes(self) -> Mapping[str, object]:
        return {}

    @contextmanager
    def open(self) -> Iterator[Library]:
        """The hall."""
        yield self._hall

    @contextmanager
    def others(
        self, families: Sequence[str] | None = None
    ) -> Iterator[tuple[list[SearchTarget], list[str]]]:
        """Nothing."""
        yield [], []

    @contextmanager
    def code(self) -> Iterator[list[Engine]]:
        """Nothing."""
        yield []


RecordType = Literal["threads", "comments", "artifacts", "observations", "tasks", "subcortexes"]


class SearchRecords(Budgeted):
    query: Annotated[str, Field(max_length=10_000)]
    types: tuple[RecordType, ...] | None = None
    filters: Annotated[Filters, Field(default_factory=Filters)]
    limit: Annotated[Whole, Field(ge=1, le=50)] = 10
    cursor: Annotated[str | None, Field(max_length=500)] = None


def search(asked: RouteContext) -> RouteResult:
    """Find what there is about something."""
    body: SearchRecords = asked.body
    types = tuple(body.types or RECORDS)
    fields = {name: getattr(body, name) for name in SearchRecords.model_fields}
    arguments = TeamSearch.model_construct(**{**fields, "types": types})
    told = _told(asked, search_tool.search(_visitor(asked), arguments, Call(asked.cancel)))
    cursor = told.content.get("next_cursor", "") if isinstance(told.content, dict) else ""
    return RouteResult(told.content, Pagination(str(cursor), body.limit), meta=told.meta)


def bootstrap_pack(asked: RouteContext) -> RouteResult:
    """What somebody new should know."""
    return _told(asked, packs.get_bootstrap_pack(_visitor(asked), asked.body, Call(asked.cancel)))


def context_pack(asked: RouteContext) -> RouteResult:
    """What matters about one subject."""
    return _told(asked, packs.get_context_pack(_visitor(asked), asked.body, Call(asked.cancel)))


def _visitor(asked: RouteContext) -> Visitor:
    return Visitor(asked.hall, asked.actor)


def _told(asked: RouteContext, answer: Answer) -> RouteResult:
    said = json.loads(answer.text)
    return RouteResult(said["data"], meta=said["meta"])


# -- the table
# ---------------------------------------------------------------------------------------------------------

_ENTRIES: Mapping[str, object] = {"type": "array", "items": _OBJECT}

ROUTES: tuple[Route, ...] = (
    Route("POST", "/drafts/{id}/approve", "approveDraft", "Publish a draft", approve_draft, "drafts", _OBJECT,
          body=Approve, keyed=True),
    Route("POST", "/drafts/{id}/reject", "rejectDraft", "Reject a draft", reject_draft, "drafts", schema_ref(Draft),
          body=Reject, keyed=True),
    Route("POST", "/artifacts/{id}/accept", "acceptArtifact", "Accept an artifact", accept, "artifacts", schema_ref(Artifact),
          body=Accept, keyed=True),
    Route("POST", "/artifacts/{id}/supersede", "supersedeArtifact", "Supersede an artifact by another one", supersede, "artifacts",
          schema_ref(Artifact), body=Supersede, keyed=True),
    Route("POST", "/artifacts/{id}/deprecate", "deprecateArtifact", "Say that an artifact doesn't hold any more", deprecate,
          "artifacts", schema_ref(Artifact), body=Deprecate, keyed=True),
    Route("GET", "/artifacts/{id}/versions", "listVersions", "List the versions of an artifact", list_versions, "artifacts",
          {"type": "array", "items": schema_ref(Artifact)}, query=Paged, listed=True),
    Route("GET", "/inbox", "readInbox", "Read what waits", read_inbox, "inbox", _ENTRIES, query=WaitingQuery, listed=True),
    Route("POST", "/notifications/ack", "acknowledgeNotifications", "Be done with notifications", acknowledge_many,
          "notifications", _OBJECT, body=Acknowledge, keyed=True),
    Route("POST", "/notifications/{id}/ack", "acknowledgeNotification", "Be done with a notification", acknowledge_one,
          "notifications", schema_ref(Notification), body=Arguments, keyed=True),
    Route("POST", "/search", "search", "Find what there is about something", search, "search", _OBJECT, body=SearchRecords,
          listed=True),
    Route("POST", "/packs/bootstrap", "bootstrapPack", "Read what somebody new should know", bootstrap_pack, "packs", _OBJECT,
          body=GetBootstrapPack),
    Route("POST", "/packs/context", "contextPack", "Read what matters about one subject", context_pack, "packs", _OBJECT,
          body=GetContextPack),
)  # fmt: skip
