"""The tools that write: observations at once, everything else as a draft unless the settings let an agent do it.

Whether a write is direct is decided once for a key: a retry gets what the first call got, though the settings have changed since. What
a plugin has to say is asked before anything is written. Shapes of the arguments are in arguments.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cortex.errors import CortexError, InputError
from cortex.families.team import answers
from cortex.families.team.answers import Row, code_of, cut, told
from cortex.families.team.arguments import (
    OBSERVATIONS,
    CreateDraft,
    CreateObservations,
    Keyed,
    OneObservation,
    PublishComment,
    UpdateTask,
)
from cortex.families.team.context import Team
from cortex.families.team.reading import slug_of
from cortex.families.team.rows import code_link
from cortex.kinds import SENSITIVE, Attachment, CodeLink, Comment, Draft, Observation, Record, Task
from cortex.library import Library
from cortex.records.changing import checked_patch, update_task_once
from cortex.records.checks import ARTIFACT_TYPES, STATES, THREAD_TYPES, check_value, refusal
from cortex.records.codelinks import absent, cited
from cortex.records.drafts import create_draft, destination
from cortex.records.rights import may
from cortex.records.routing import Route, route
from cortex.records.steps import check_key
from cortex.records.targets import resolve_ref
from cortex.records.writing import Batch, create_observations, create_once
from cortex.store import kind_of_id
from cortex.text import one_line
from cortex.tools import Answer, Call

MESSAGE_CHARACTERS = 300
NO_PLACE = "no thread, task or subcortex is set for this project: a person can say `cortex context set`"
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_SCOPE = "subcortex:"
_TYPES = {"artifact": ARTIFACT_TYPES, "thread": THREAD_TYPES}  # what metadata.type may say of a draft


# -- keys --------------------------------------------------------------------------------------------------------------


def key_of(arguments: Keyed, action: str) -> str:
    """The key of a write; one commit may be behind several, each of another kind. Raises: InputError RECORD_INVALID with a fresh one."""
    key = arguments.idempotency_key or (f"{arguments.commit_id}:{action}" if arguments.commit_id else "")
    check_key(key)
    return key


def payload_of(arguments: Keyed) -> str:
    """What makes two writes of one key the same: all that was asked, and nothing of how things stand."""
    return arguments.model_dump_json(exclude={"idempotency_key", "commit_id"})


def done_before(library: Library, context: Team, key: str, payload: str, actions: Sequence[str]) -> str:
    """Which of these actions the key was used for, with the same payload; "" for none."""
    for action in actions:
        try:
            if library.store.records.known(context.actor, key, action, payload) is not None:
                return action
        except InputError:  # for something else; whoever writes is told
            continue
    return ""


def screened(context: Team, texts: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The texts as the plugins let them be written, and what they warn of. Raises: InputError SENSITIVE_BLOCKED."""
    kept: dict[str, str] = {}
    warnings: list[str] = []
    for name, text in texts.items():
        if not text:
            kept[name] = text
            continue
        found = context.plugins.preflight(text)
        if not found.allowed:
            raise InputError("SENSITIVE_BLOCKED", f"{name}: {found.reason}", context={"field": name})
        kept[name] = found.text
        warnings += found.warnings
    return kept, list(dict.fromkeys(warnings))


# -- observations ------------------------------------------------------------------------------------------------------


def create_observations_tool(context: Team, arguments: CreateObservations, call: Call) -> Answer:
    """Keep observations; what can't be kept is told by its place in the list."""
    key, payload = key_of(arguments, "create_observations"), payload_of(arguments)
    if not 0 < len(arguments.observations) <= OBSERVATIONS:
        raise refusal("observations", f"1 to {OBSERVATIONS} at once, these are {len(arguments.observations)}")
    with context.writing() as library:
        way = route(library.reader.store.recorded, context.routes)
        bodies: list[Observation] = []
        refused: dict[int, CortexError] = {}
        missing: dict[int, str] = {}
        warnings: list[str] = []
        for index, one in enumerate(arguments.observations):
            body = _observation(one, arguments)
            try:
                texts, said = screened(context, {"title": body.title, "summary": body.summary})
                body = replace(_placed(body, way), code_links=_linked(context, library, body), **texts)
                warnings += said
                missing[index] = absent(context.root, body.code_links)
            except CortexError as error:
                refused[index] = error
            bodies.append(body)
        done = create_observations(library, bodies, actor=context.actor, key=key, payload=payload, refused=refused)
        where = _where(library, done, arguments.observations)
        homeless = not any((way.thread, way.task, way.subcortex)) and not all(
            body.thread or body.task or body.subcortex for body in bodies
        )
    warnings += [*way.missing, *([NO_PLACE] if homeless else ())]
    return _batch_answer(done, where, missing, warnings)


def _batch_answer(done: Batch, where: Row, missing: Mapping[int, str], warnings: Sequence[str]) -> Answer:
    failed = [
        {"index": one.index, "code": code_of(one.error), "message": cut(one.error.message, MESSAGE_CHARACTERS)}
        for one in done.outcomes
        if one.error is not None
    ]
    if len(failed) == len(done.outcomes):
        first = next(one.error for one in done.outcomes if one.error is not None)
        context = {**first.context, "failed": failed}
        why = (
            first.message if len(failed) == 1 else f"none of the {len(failed)} was written; the first: {first.message}"
        )
        error = type(first)(first.code, why, context=context, suggestions=first.suggestions[:-1])
        return Answer(answers.error_text(error), failed=True, error=error)
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
    return Answer(answers.whole_text(told(body)))


def _observation(one: OneObservation, arguments: CreateObservations) -> Observation:
    """An observation as it was sent, what it links to in its places."""
    places: dict[str, str] = {}
    code: list[CodeLink] = []
    attached = [Attachment(each.name or each.ref[:300], each.ref, each.media_type) for each in arguments.attachments]
    for link in one.links:
        place, kind = _place_kind(link), kind_of_id(link)
        if place and place not in places:
            places[place] = link.removeprefix(_SCOPE)
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


def _linked(context: Team, library: Library, body: Observation) -> tuple[CodeLink, ...]:
    """The code that an observation links to. Raises: InputError RECORD_INVALID with all that is wrong with its links."""
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
        raise InputError(error.code, "; ".join(said), context=error.context, suggestions=error.suggestions) from None


def _where(library: Library, done: Batch, asked: Sequence[OneObservation]) -> Row:
    """Where observations are: of all of them, or of those that named no place; the others by their places in the list."""
    kept = library.reader.store.recorded.get(one.id for one in done.outcomes if one.id)
    slug = slug_of(library)
    groups: dict[tuple[str, str, str], list[int]] = {}
    usual: tuple[str, str, str] | None = None
    for one in done.outcomes:
        if one.id in kept:
            body: Observation = kept[one.id].body
            place = (body.thread, body.task, body.subcortex)
            groups.setdefault(place, []).append(one.index)
            named = any(_place_kind(link) for link in asked[one.index].links)
            usual = usual if named else place
    if len(groups) == 1:
        usual = next(iter(groups))

    def row(place: tuple[str, str, str]) -> Row:
        return told({"thread": place[0], "task": place[1], "subcortex": slug(place[2])})

    others = [{"indexes": many, **row(place)} for place, many in groups.items() if place != usual]
    return {"where": row(usual) if usual else "", "elsewhere": others}


def _place_kind(link: str) -> str:
    """The kind of place that a link names, "" where it names none."""
    kind = "subcortex" if link.startswith(_SCOPE) else kind_of_id(link)
    return kind if kind in ("thread", "task", "subcortex") else ""


def _placed(body: Observation, way: Route) -> Observation:
    """An observation that says nothing of where it belongs goes where the project says."""
    if body.thread or body.task or body.subcortex:
        return body
    return replace(body, thread=way.thread, task=way.task, subcortex=way.subcortex)


# -- drafts ------------------------------------------------------------------------------------------------------------


def create_draft_tool(context: Team, arguments: CreateDraft, call: Call) -> Answer:
    """Keep a contribution for a person to decide about."""
    key, payload = key_of(arguments, "create_draft"), payload_of(arguments)
    about = arguments.metadata
    target = (arguments.target_ref or "").strip().removeprefix(_SCOPE)
    of_task = arguments.draft_type == "task_update"
    if about.type and arguments.draft_type in _TYPES:
        check_value("metadata.type", about.type, _TYPES[arguments.draft_type])
    patch = told(
        {"state": about.status, "blocked_reason": about.blocked_reason, "notes": arguments.body_md if of_task else ""}
    )
    draft = Draft(
        arguments.draft_type,
        about.title,
        arguments.body_md,
        target=target,
        target_kind=kind_of_id(target) if kind_of_id(target) in ("thread", "task", "subcortex") else "",
        patch=_patch(patch) if of_task else (),
        artifact_type=about.type if arguments.draft_type == "artifact" else "",
        thread_type=about.type if arguments.draft_type == "thread" else "",
        citations=about.citations,
        tags=about.tags,
        reason=about.reason,
        summary=about.summary_md,
        sensitivity=about.sensitivity,
        code_links=tuple(code_link(link) for link in about.links if link.strip()),
    )
    with context.writing() as library:
        return Answer(answers.whole_text(_drafted(context, library, draft, key, payload)))


def _patch(fields: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """The fields of a task that change. Raises: InputError RECORD_INVALID."""
    checked = checked_patch({name: str(value) for name, value in fields.items()})
    if "state" in checked:
        check_value("status", checked["state"], STATES[Task])
    return tuple(checked.items())


def _drafted(context: Team, library: Library, draft: Draft, key: str, payload: str) -> Row:
    """Keep a draft, and say where it will go."""
    texts, warnings = screened(
        context, {"title": draft.title, "body": draft.body, "summary": draft.summary, "reason": draft.reason}
    )
    if draft.patch:
        fields, said = screened(context, dict(draft.patch))
        draft, warnings = replace(draft, patch=tuple(fields.items())), warnings + said
    draft = replace(draft, code_links=cited(library, context.root, draft.code_links), **texts)
    warnings += [lost] if (lost := absent(context.root, draft.code_links)) else []
    way = route(library.reader.store.recorded, context.routes)
    record, replayed, following = create_draft(library, draft, actor=context.actor, key=key, payload=payload, where=way)
    place = destination(library.reader.store.recorded, record.body)
    lost = place.record is None
    if lost and not draft.target:
        warnings += [*way.missing, *([] if way.subcortex or way.thread or way.task else [NO_PLACE])]
    return told(
        {
            "draft_id": record.id,
            "draft_type": record.body.type,
            "state": record.body.state,
            "posts_to": ""
            if place.record is None
            else {"id": place.record.id, "title": cut(place.record.body.title, 120)},
            "routed_by": "" if draft.target or lost else way.why,
            "next_steps": [following],
            "risk_flags": list(record.body.risk_flags),
            "warnings": list(dict.fromkeys(warnings)),
            "replayed": replayed,
        }
    )


# -- comments and tasks ------------------------------------------------------------------------------------------------


def publish_comment_tool(context: Team, arguments: PublishComment, call: Call) -> Answer:
    """Comment in a thread, or draft it."""
    key, payload = key_of(arguments, "publish_comment"), payload_of(arguments)
    with context.writing() as library:
        before = done_before(library, context, key, payload, ("create_comment", "create_draft"))
        direct, thread = before == "create_comment", arguments.thread_id
        why = "agents don't publish comments here (team.agentTier 2 and team.publishComments let them)"
        if not before and may(context.actor, "comment") and context.settings.team.publish_comments:
            found = _thread(library, thread)
            direct, thread = found.body.sensitivity != SENSITIVE or may(context.actor, "sensitive"), found.id
            why = "the thread is sensitive: what is said there is drafted first"
        if direct:
            texts, warnings = screened(context, {"body": arguments.body_md})
            done = create_once(library, Comment(thread, texts["body"]), actor=context.actor, key=key, payload=payload)
            row: Row = {
                "published": True,
                "comment_id": done.record.id,
                "thread_id": done.record.body.thread,
                **told({"warnings": warnings, "replayed": done.replayed}),
            }
            return Answer(answers.whole_text(row, answers.call_text("get_thread", thread_id=done.record.body.thread)))
        draft = Draft("comment", "", arguments.body_md, target=arguments.thread_id, target_kind="thread")
        row = _drafted(context, library, draft, key, payload)
    return Answer(answers.whole_text({"published": False, "why": why, **row}))


def _thread(library: Library, thread_id: str) -> Record[Any]:
    """The thread that is written to. Raises: InputError TARGET_NOT_FOUND."""
    try:
        return resolve_ref(library.reader.store.recorded, thread_id, "thread")
    except InputError as error:
        raise InputError("TARGET_NOT_FOUND", error.message, context=error.context) from None


def update_task_tool(context: Team, arguments: UpdateTask, call: Call) -> Answer:
    """Change a task, or draft it."""
    key, payload = key_of(arguments, "update_task"), payload_of(arguments)
    fields = {"state": arguments.status, "blocked_reason": arguments.blocked_reason, "notes": arguments.notes}
    if not any(value is not None for value in fields.values()):
        raise refusal("status", "nothing would change: say a status, a blocked_reason or notes")
    patch = _patch({name: value for name, value in fields.items() if value is not None})
    with context.writing() as library:
        before = done_before(library, context, key, payload, ("update_task", "create_draft"))
        if before == "update_task" or (may(context.actor, "update_task") and before != "create_draft"):
            return Answer(answers.whole_text(_updated(context, library, arguments.task_id, patch, key, payload)))
        title = _change_title(library, arguments.task_id, patch)
        draft = Draft("task_update", title, "", target=arguments.task_id, target_kind="task", patch=patch)
        row = _drafted(context, library, draft, key, payload)
    return Answer(answers.whole_text({"updated": False, **row}))


def _change_title(library: Library, task_id: str, patch: Sequence[tuple[str, str]]) -> str:
    """What a change of a task is called: the task and the change in words; of a task that isn't there the change alone."""
    words = {"state": "state", "blocked_reason": "blocked by", "notes": "notes"}
    values = [(name, value.replace("_", " ") if name == "state" else value) for name, value in patch]
    change = ", ".join(f"{words.get(name, name)} {one_line(value, 60)}" for name, value in values)
    try:
        return f"{one_line(resolve_ref(library.reader.store.recorded, task_id, 'task').body.title, 150)}: {change}"
    except InputError:
        return change


def _updated(
    context: Team,
    library: Library,
    task_id: str,
    patch: Sequence[tuple[str, str]],
    key: str,
    payload: str,
) -> Row:
    texts, warnings = screened(context, dict(patch))
    try:
        done = update_task_once(library, task_id, texts, actor=context.actor, key=key, payload=payload)
    except InputError as error:
        if error.code != "RECORD_UNKNOWN":
            raise
        raise InputError("TARGET_NOT_FOUND", error.message, context=error.context) from None
    record = done.record
    return told(
        {
            "updated": True,
            "task_id": record.id,
            "title": cut(record.body.title, 120),
            "status": record.body.state,
            "blocked_reason": record.body.blocked_reason,
            "version": record.version,
            "warnings": warnings,
            "replayed": done.replayed,
        }
    )
