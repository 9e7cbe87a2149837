"""Observations that an agent sends: kept at once, in the place that each names or the project says,
each for itself.

What can't be kept is told by its place in the list, and the others are kept. Shapes of the
arguments are in arguments.py.
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
from cortex.families.team.tools.render import Row, code_of, cut, told
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
    """Keep observations; what can't be kept is told by its place in the list."""
    key, payload = key_of(arguments, "create_observations"), payload_of(arguments)
    if not 0 < len(arguments.observations) <= OBSERVATIONS:
        raise refusal(
            "observations", f"1 to {OBSERVATIONS} at once, these are {len(arguments.observations)}"
        )
    with context.writing() as library:
        way = route(library.reader.store.recorded, context.routes)
        bodies: list[Observation] = []
        refused: dict[int, CortexError] = {}
        missing: dict[int, str] = {}
        for index, one in enumerate(arguments.observations):
            body = _observation(one, arguments)
            try:
                body = replace(_placed(body, way), code_links=_linked(context, library, body))
                missing[index] = absent(context.root, body.code_links)
            except CortexError as error:
                refused[index] = error
            bodies.append(body)
        with plugin_warnings() as warnings:
            done = create_observations(
                library, bodies, actor=context.actor, key=key, payload=payload, refused=refused
            )
        where = _where(library, done, arguments.observations)
        homeless = not any((way.thread, way.task, way.subcortex)) and not all(
            body.thread or body.task or body.subcortex for body in bodies
        )
    warnings += [*way.missing, *([NO_PLACE] if homeless else ())]
    return _batch_answer(done, where, missing, warnings)


def _batch_answer(
    done: CreateBatch, where: Row, missing: Mapping[int, str], warnings: Sequence[str]
) -> Answer:
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
        first = next(one.error for one in done.outcomes if one.error is not None)
        context = {**first.context, "failed": failed}
        why = (
            first.message
            if len(failed) == 1
            else f"none of the {len(failed)} was written; the first: {first.message}"
        )
        error = type(first)(first.code, why, context=context, suggestions=first.suggestions[:-1])
        return Answer(render.error_text(error), failed=True, error=error)
    body: Row = {
        "ids": [one.id or None for one in done.outcomes],
        "failed": failed,
        "warnings": [
            *(
                {"index": one.index, "warning": cut(said, MESSAGE_CHARACTERS)}
                for one in done.outcomes
                for said in (*one.warnings, missing.get(one.index, ""))
                if one.id and said
            ),
            *dict.fromkeys(warnings),
        ],
        **where,
        "replayed": done.replayed,
    }
    return Answer(render.whole_text(told(body)))


def _observation(one: OneObservation, arguments: CreateObservations) -> Observation:
    """An observation as it was sent, what it links to in its places."""
    places: dict[str, str] = {}
    code: list[CodeLink] = []
    attached = [
        Attachment(each.name or each.ref[:300], each.ref, each.media_type)
        for each in arguments.attachments
    ]
    for link in one.links:
        place, kind = _place_kind(link), kind_of_id(link)
        if place and place not in places:
            places[place] = link.removeprefix(SCOPE)
        elif kind or place or _URL.fullmatch(link):
            attached.append(Attachment(kind or place or link[:300], link))
        elif link.strip():
            code.append(code_link(link))
    return Observation(
        one.title,
        one.summary_md,
        one.type,
        one.tags,
        **places,
        sensitivity=one.sensitivity,
        source_type="api",
        commit_id=arguments.commit_id or "",
        attachments=tuple(attached),
        code_links=tuple(code),
    )


def _linked(context: TeamSession, library: Library, body: Observation) -> tuple[CodeLink, ...]:
    """The code that an observation links to.

    Raises: InputError RECORD_INVALID with all that is wrong with its links.
    """
    try:
        return cited(library, context.root, body.code_links)
    except InputError as error:
        said = [error.message]
        for kind in ("thread", "task", "subcortex"):
            try:
                if ref := getattr(body, kind):
                    resolve_ref(library.reader.store.recorded, ref, kind)
            except InputError as other:
                said.append(other.message)
        raise InputError(
            error.code, "; ".join(said), context=error.context, suggestions=error.suggestions
        ) from None


def _where(library: Library, done: CreateBatch, asked: Sequence[OneObservation]) -> Row:
    """Where observations are: of all of them, or of those that named no place; the others by their
    places in the list.
    """
    kept = library.reader.store.recorded.get(one.id for one in done.outcomes if one.id)
    slug = slug_of(library)
    groups: dict[tuple[str, str, str], list[int]] = {}
    usual: tuple[str, str, str] | None = None
    for outcome in done.outcomes:
        if outcome.id in kept:
            body: Observation = kept[outcome.id].body
            place = (body.thread, body.task, body.subcortex)
            groups.setdefault(place, []).append(outcome.index)
            named = any(_place_kind(link) for link in asked[outcome.index].links)
            usual = usual if named else place
    if len(groups) == 1:
        usual = next(iter(groups))

    def row(place: tuple[str, str, str]) -> Row:
        return told({"thread": place[0], "task": place[1], "subcortex": slug(place[2])})

    others = [{"indexes": many, **row(place)} for place, many in groups.items() if place != usual]
    return {"where": row(usual) if usual else "", "elsewhere": others}


def _place_kind(link: str) -> str:
    """The kind of place that a link names, "" where it names none."""
    kind = "subcortex" if link.startswith(SCOPE) else kind_of_id(link)
    return kind if kind in ("thread", "task", "subcortex") else ""


def _placed(body: Observation, way: Placement) -> Observation:
    """An observation that says nothing of where it belongs goes where the project says."""
    if body.thread or body.task or body.subcortex:
        return body
    return replace(body, thread=way.thread, task=way.task, subcortex=way.subcortex)
