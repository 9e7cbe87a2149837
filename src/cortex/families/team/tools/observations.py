"""The tool for observations, which are stored at once, without a draft.

Each belongs to the place that it names, or to the project's default. Errors are reported by index,
and the other observations are stored. Arguments are defined in `arguments`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import Attachment, CodeLink, Observation
from cortex.engine.library import Library
from cortex.engine.store import kind_of_id
from cortex.families.team.code_links import absent, cited
from cortex.families.team.references import resolve_ref
from cortex.families.team.tools import render
from cortex.families.team.tools.arguments import OBSERVATIONS, CreateObservations, OneObservation
from cortex.families.team.tools.read_tools import slug_of
from cortex.families.team.tools.render import Row, code_of, cut, without_empty
from cortex.families.team.tools.row_views import code_link
from cortex.families.team.tools.session import TeamSession
from cortex.families.team.tools.write_tools import NO_PLACE, SCOPE, key_of, payload_of
from cortex.families.team.validation import refusal
from cortex.families.team.writes.create import CreateBatch, create_observations
from cortex.families.team.writes.placement import Placement, route
from cortex.plugins.policy import plugin_warnings
from cortex.toolkit.tool import Answer, Call

MESSAGE_CHARACTERS = 300
_URL = re.compile(r"https?://\S+", re.IGNORECASE)


def create_observations_tool(
    context: TeamSession, arguments: CreateObservations, call: Call
) -> Answer:
    """Store observations; failures are reported by index."""
    key, payload = key_of(arguments, "create_observations"), payload_of(arguments)
    if not 0 < len(arguments.observations) <= OBSERVATIONS:
        raise refusal(
            "observations", f"1 to {OBSERVATIONS} at once, these are {len(arguments.observations)}"
        )
    with context.writing() as library:
        placement = route(library.reader.store.records, context.routes)
        bodies: list[Observation] = []
        refused: dict[int, CortexError] = {}
        missing: dict[int, str] = {}
        for index, sent in enumerate(arguments.observations):
            body = _observation(sent, arguments)
            try:
                body = replace(
                    _with_default_place(body, placement),
                    code_links=_cite_code(context, library, body),
                )
                missing[index] = absent(context.root, body.code_links)
            except CortexError as error:
                refused[index] = error
            bodies.append(body)
        with plugin_warnings() as warnings:
            done = create_observations(
                library, bodies, actor=context.actor, key=key, payload=payload, refused=refused
            )
        where = _describe_places(library, done, arguments.observations)
        is_unplaced = not any((placement.thread, placement.task, placement.subcortex)) and not all(
            body.thread or body.task or body.subcortex for body in bodies
        )
    warnings += [*placement.missing, *([NO_PLACE] if is_unplaced else ())]
    return _batch_answer(done, where, missing, warnings)


def _batch_answer(
    done: CreateBatch, where: Row, missing: Mapping[int, str], warnings: Sequence[str]
) -> Answer:
    """Render the result of a batch; it is an error if nothing was stored."""
    failed = [
        {
            "index": outcome.index,
            "code": code_of(outcome.error),
            "message": cut(outcome.error.message, MESSAGE_CHARACTERS),
        }
        for outcome in done.outcomes
        if outcome.error is not None
    ]
    if len(failed) == len(done.outcomes):
        first = next(outcome.error for outcome in done.outcomes if outcome.error is not None)
        context = {**first.context, "failed": failed}
        why = (
            first.message
            if len(failed) == 1
            else f"none of the {len(failed)} was written; the first: {first.message}"
        )
        error = type(first)(first.code, why, context=context, suggestions=first.suggestions[:-1])
        return Answer(render.error_text(error), failed=True, error=error)
    body: Row = {
        "ids": [outcome.id or None for outcome in done.outcomes],
        "failed": failed,
        "warnings": [
            *(
                {"index": outcome.index, "warning": cut(warning, MESSAGE_CHARACTERS)}
                for outcome in done.outcomes
                for warning in (*outcome.warnings, missing.get(outcome.index, ""))
                if outcome.id and warning
            ),
            *dict.fromkeys(warnings),
        ],
        **where,
        "replayed": done.replayed,
    }
    return Answer(render.whole_text(without_empty(body)))


def _observation(sent: OneObservation, arguments: CreateObservations) -> Observation:
    """Convert an observation, with its links sorted into places, attachments and code."""
    places: dict[str, str] = {}
    code: list[CodeLink] = []
    attached = [
        Attachment(attachment.name or attachment.ref[:300], attachment.ref, attachment.media_type)
        for attachment in arguments.attachments
    ]
    for link in sent.links:
        place, kind = _place_kind(link), kind_of_id(link)
        if place and place not in places:
            places[place] = link.removeprefix(SCOPE)
        elif kind or place or _URL.fullmatch(link):
            attached.append(Attachment(kind or place or link[:300], link))
        elif link.strip():
            code.append(code_link(link))
    return Observation(
        sent.title,
        sent.summary_md,
        sent.type,
        sent.tags,
        **places,
        sensitivity=sent.sensitivity,
        source_type="api",
        commit_id=arguments.commit_id or "",
        attachments=tuple(attached),
        code_links=tuple(code),
    )


def _cite_code(context: TeamSession, library: Library, body: Observation) -> tuple[CodeLink, ...]:
    """Return the code links of an observation with their hashes.

    Raises: InputError RECORD_INVALID with all errors of its links.
    """
    try:
        return cited(library, context.root, body.code_links)
    except InputError as error:
        messages = [error.message]
        for kind in ("thread", "task", "subcortex"):
            try:
                if ref := getattr(body, kind):
                    resolve_ref(library.reader.store.records, ref, kind)
            except InputError as other:
                messages.append(other.message)
        raise InputError(
            error.code, "; ".join(messages), context=error.context, suggestions=error.suggestions
        ) from None


def _describe_places(library: Library, done: CreateBatch, sent: Sequence[OneObservation]) -> Row:
    """Describe the common place of observations, and by index the places of others."""
    kept = library.reader.store.records.get(outcome.id for outcome in done.outcomes if outcome.id)
    slug = slug_of(library)
    groups: dict[tuple[str, str, str], list[int]] = {}
    usual: tuple[str, str, str] | None = None
    for outcome in done.outcomes:
        if outcome.id in kept:
            body: Observation = kept[outcome.id].body
            place = (body.thread, body.task, body.subcortex)
            groups.setdefault(place, []).append(outcome.index)
            is_named = any(_place_kind(link) for link in sent[outcome.index].links)
            usual = usual if is_named else place
    if len(groups) == 1:
        usual = next(iter(groups))

    def row(place: tuple[str, str, str]) -> Row:
        """Format a place without empty fields."""
        return without_empty({"thread": place[0], "task": place[1], "subcortex": slug(place[2])})

    others = [
        {"indexes": indexes, **row(place)} for place, indexes in groups.items() if place != usual
    ]
    return {"where": row(usual) if usual else "", "elsewhere": others}


def _place_kind(link: str) -> str:
    """Return the kind of place that a link names, "" if none."""
    kind = "subcortex" if link.startswith(SCOPE) else kind_of_id(link)
    return kind if kind in ("thread", "task", "subcortex") else ""


def _with_default_place(body: Observation, placement: Placement) -> Observation:
    """Put an observation without a place into the project's default place."""
    if body.thread or body.task or body.subcortex:
        return body
    return replace(
        body, thread=placement.thread, task=placement.task, subcortex=placement.subcortex
    )
