"""`cortex drafts`: contributions of agents that wait for a person, who looks at them and has them
published or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import Actor, Draft, Record
from cortex.engine.library import Library
from cortex.families.team.commands.options import (
    IdArgument,
    IdsArgument,
    KeyOption,
    LimitOption,
    NotesOption,
    StateOption,
    decide,
    number_of,
    one_of,
    suggested,
    team,
)
from cortex.families.team.commands.record_context import marked_json, marked_row
from cortex.families.team.commands.render import (
    beginning_of,
    brief_json,
    day,
    record_json,
    say_head,
    say_list,
    say_more,
    say_rows,
    say_text,
    told_code,
)
from cortex.families.team.references import resolve_ref
from cortex.families.team.validation import STATES
from cortex.families.team.writes import drafts
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import moment, print_json, say

KIND = "draft"
PART = 2  # what a command ends with that did some of what it was told

app = typer.Typer(
    name="drafts", help="What agents wrote and a person decides about.", no_args_is_help=True
)


@dataclass(frozen=True, slots=True)
class _Decided:
    """What became of one of several drafts."""

    id: str
    draft: Record[Draft] | None = None
    record: Record[Any] | None = None  # what it was published as
    error: CortexError | None = None


Act = Callable[[Library, str, Actor], _Decided]


@app.command("list")
def list_drafts(
    state: StateOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Those that were decided about, too.")
    ] = False,
    limit: LimitOption = 30,
    as_json: JsonFlag = False,
) -> int:
    """List drafts that wait for you, newest first."""
    told = tuple(one_of(one, STATES[Draft], "--state") for one in state or ())
    states = told or (() if everything else (drafts.PENDING,))
    with team() as library:
        rows = drafts.listed(library, states, limit + 1)
        absent = library.store.outbox.absent()
    now = _now()
    shown = rows[:limit]
    if as_json:
        print_json(
            {
                "drafts": [
                    {**marked_json(one, absent), "state": drafts.state_of(one.body, now)}
                    for one in shown
                ],
                "more": len(rows) > limit,
            }
        )
    elif not shown:
        say("nothing found" if told else "No draft waits for you.", error=True)
    else:
        say_rows([marked_row(one, _row(one, now), absent) for one in shown])
        say_more(len(rows) > limit)
    return 0


def _row(one: Record[Draft], now: int) -> tuple[str, ...]:
    state = drafts.state_of(one.body, now)
    return one.id, day(one.created), state, one.body.type, one.author, one.body.title


@app.command("show")
def show(told: IdArgument, as_json: JsonFlag = False) -> int:
    """Show a draft, where it would be posted, and what to look at twice."""
    with team() as library:
        lookup = library.store.recorded
        record = resolve_ref(lookup, told, KIND)
        now = _now()
        after = drafts.next_step(lookup, record, now)
    if as_json:
        print_json({**_draft_json(record, now), "next_step": after})
    else:
        _say(record, now, after)
    return 0


def _say(record: Record[Draft], now: int, after: str) -> None:
    body = record.body
    reviewed = f"{body.reviewed_by} at {moment(body.reviewed_at)}" if body.reviewed_by else ""
    labels = (
        ("State", drafts.state_of(body, now)),
        ("Type", body.artifact_type or body.thread_type or body.type),
        ("Target", body.target),
        ("Why", body.reason),
        ("Tags", ", ".join(body.tags)),
        ("Look at", ", ".join(flag.replace("_", " ") for flag in body.risk_flags)),
        ("Decided by", reviewed),
        ("Notes", body.review_notes),
    )
    say_head(record, labels)
    say_text(body.summary, "In short")
    say_text(body.body)
    say_list("Changes", [f"{name}: {value}" for name, value in body.patch])
    say_list(
        "Rests on", [f"{one.ref}{f' ({one.note})' if one.note else ''}" for one in body.evidence]
    )
    say_list("Cites", body.citations)
    say_list("Code", [told_code(link) for link in body.code_links])
    say_text(after)
    if drafts.state_of(body, now) in (drafts.PENDING, drafts.EXPIRED):
        say(f"`cortex drafts approve {record.id}` or `reject` asks you here, on a terminal.")


@app.command("approve")
def approve(
    ids: IdsArgument,
    target: Annotated[
        str,
        typer.Option(
            "--to",
            "--target",
            metavar="ID",
            help="Where to post it, instead of where it was meant for.",
        ),
    ] = "",
    notes: NotesOption = "",
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Approve drafts: they are published at once, in the name of who wrote them, who hears of it."""

    def act(library: Library, number: str, actor: Actor) -> _Decided:
        done = drafts.approve(library, number, actor=actor, key=key, target=target, notes=notes)
        return _Decided(number, done.draft, done.record)

    return _decide("approve_draft", ids, key, act, target=target, as_json=as_json)


@app.command("reject")
def reject(
    ids: IdsArgument, notes: NotesOption = "", key: KeyOption = "", as_json: JsonFlag = False
) -> int:
    """Reject drafts: they stay as they are, and who wrote them hears why."""

    def act(library: Library, number: str, actor: Actor) -> _Decided:
        return _Decided(number, drafts.reject(library, number, actor=actor, key=key, notes=notes))

    return _decide("reject_draft", ids, key, act, as_json=as_json)


def _decide(
    action: str, ids: Sequence[str], key: str, act: Act, *, target: str = "", as_json: bool
) -> int:
    """Decide about each of these; where one can't be, the others are, and the exit code says so."""
    if key and len(ids) > 1:
        raise InputError("ARGUMENT_INVALID", "a key is for one write: name one draft with --key")
    with team() as library:
        numbers = list(dict.fromkeys(number_of(library, id_, KIND) for id_ in ids))
        actor = decide(library, action, _question(library, action, numbers, target))
        done = [_try(library, number, actor, act, alone=len(numbers) == 1) for number in numbers]
    failed = [one for one in done if one.error]
    if as_json:
        print_json(
            {
                "drafts": [_decided_json(one) for one in done if one.draft],
                "failed": [_failed_json(one) for one in failed],
            }
        )
    else:
        for one in done:
            _tell(one)
    return 0 if not failed else 1 if len(failed) == len(done) else PART


def _question(library: Library, action: str, numbers: Sequence[str], target: str) -> str:
    """What a person decides about: every draft with where it goes, what to look at and how it
    begins.
    """
    lines = []
    for record in library.store.recorded.get(numbers).values():
        body = record.body
        place = target or body.target or "nowhere yet"
        lines.append(f"{record.id}: {body.title}")
        lines.append(f"  {body.type} by {record.author}, for {place}")
        lines += [f"  look at: {flag.replace('_', ' ')}" for flag in body.risk_flags]
        lines += [f"  {name}: {value}" for name, value in body.patch]
        lines += beginning_of(body.body, 30 if len(numbers) == 1 else 5)
    verb = "Publish" if action == "approve_draft" else "Reject"
    what = "it" if len(numbers) == 1 else f"these {len(numbers)}"
    return "\n".join([*lines, f"{verb} {what}?"])


def _try(library: Library, number: str, actor: Actor, act: Act, *, alone: bool) -> _Decided:
    try:
        return act(library, number, actor)
    except CortexError as error:
        if alone:
            raise
        if isinstance(error, InputError):
            error.suggestions = suggested(error)
        return _Decided(number, error=error)


def _tell(one: _Decided) -> None:
    if one.error:
        say(f"error: {one.id}: {one.error.message} [{one.error.code}]", error=True)
        for suggestion in one.error.suggestions:
            say(f"  - {suggestion}", error=True)
    elif one.record:
        done = "Changed" if one.record.kind == "task" else "Published"
        say(f"✓ {done} {one.record.id}: {one.record.body.title}")
    elif one.draft:
        say(f"✓ Rejected {one.id}: {one.draft.body.title}")


def _draft_json(record: Record[Draft], now: int) -> dict[str, object]:
    return {**record_json(record), "state": drafts.state_of(record.body, now)}


def _decided_json(one: _Decided) -> dict[str, object]:
    assert one.draft is not None
    return {**record_json(one.draft), "record": brief_json(one.record) if one.record else None}


def _failed_json(one: _Decided) -> dict[str, object]:
    assert one.error is not None
    return {"id": one.id, "code": one.error.code, "message": one.error.message}


def _now() -> int:
    return int(time.time() * 1000)
