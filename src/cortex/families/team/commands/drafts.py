"""`cortex team drafts`: review of agents' contributions, which a person approves or rejects."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import Actor, Draft, Record
from cortex.base.record_spec import spec_of
from cortex.engine.library import Library
from cortex.families.team.commands.options import (
    IdArgument,
    IdsArgument,
    KeyOption,
    LimitOption,
    NotesOption,
    StateOption,
    decide,
    one_of,
    resolve_id,
    suggested,
    team,
)
from cortex.families.team.commands.record_context import marked_json, marked_row
from cortex.families.team.commands.render import (
    beginning_of,
    brief_json,
    code_name,
    day,
    record_json,
    say_head,
    say_list,
    say_more,
    say_rows,
    say_text,
)
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import drafts
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import moment, print_json, say

KIND = "draft"
PART = 2  # exit code of a command that succeeded for some drafts only

app = typer.Typer(
    name="drafts", help="What agents wrote and a person decides about.", no_args_is_help=True
)


@dataclass(frozen=True, slots=True)
class _Decided:
    """Result of the decision about one draft."""

    id: str
    draft: Record[Draft] | None = None
    record: Record[Any] | None = None  # the published record
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
    chosen = tuple(one_of(word, spec_of(Draft).states, "--state") for word in state or ())
    states = chosen or (() if everything else (drafts.PENDING,))
    with team() as library:
        rows = drafts.listed(library, states, limit + 1)
        absent = library.store.outbox.absent()
    now = _now()
    shown = rows[:limit]
    if as_json:
        print_json(
            {
                "drafts": [
                    {**marked_json(draft, absent), "state": drafts.state_of(draft.body, now)}
                    for draft in shown
                ],
                "more": len(rows) > limit,
            }
        )
    elif not shown:
        say("nothing found" if chosen else "No draft waits for you.", error=True)
    else:
        say_rows([marked_row(draft, _row(draft, now), absent) for draft in shown])
        say_more(len(rows) > limit)
    return 0


def _row(draft: Record[Draft], now: int) -> tuple[str, ...]:
    state = drafts.state_of(draft.body, now)
    return draft.id, day(draft.created), state, draft.body.type, draft.author, draft.body.title


@app.command("show")
def show(ref: IdArgument, as_json: JsonFlag = False) -> int:
    """Show a draft, where it would be posted, and what to look at twice."""
    with team() as library:
        lookup = library.store.records
        record = resolve_ref(lookup, ref, KIND)
        now = _now()
        after = drafts.next_step(lookup, record, now)
    if as_json:
        print_json({**_draft_json(record, now), "next_step": after})
    else:
        _print_draft(record, now, after)
    return 0


def _print_draft(record: Record[Draft], now: int, after: str) -> None:
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
        "Rests on",
        [f"{source.ref}{f' ({source.note})' if source.note else ''}" for source in body.evidence],
    )
    say_list("Cites", body.citations)
    say_list("Code", [code_name(link) for link in body.code_links])
    say_text(after)
    if drafts.state_of(body, now) in (drafts.PENDING, drafts.EXPIRED):
        say(f"`cortex team drafts approve {record.id}` or `reject` asks you here, on a terminal.")


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
    """Approve drafts: they are published at once, in the name of who wrote them, who hears of
    it.
    """

    def act(library: Library, draft_id: str, actor: Actor) -> _Decided:
        done = drafts.approve(library, draft_id, actor=actor, key=key, target=target, notes=notes)
        return _Decided(draft_id, done.draft, done.record)

    return _decide("approve_draft", ids, key, act, target=target, as_json=as_json)


@app.command("reject")
def reject(
    ids: IdsArgument, notes: NotesOption = "", key: KeyOption = "", as_json: JsonFlag = False
) -> int:
    """Reject drafts: they stay as they are, and who wrote them hears why."""

    def act(library: Library, draft_id: str, actor: Actor) -> _Decided:
        return _Decided(
            draft_id, drafts.reject(library, draft_id, actor=actor, key=key, notes=notes)
        )

    return _decide("reject_draft", ids, key, act, as_json=as_json)


def _decide(
    action: str, ids: Sequence[str], key: str, act: Act, *, target: str = "", as_json: bool
) -> int:
    """Decide about each draft; a failure doesn't stop the others, but sets the exit code."""
    if key and len(ids) > 1:
        raise InputError("ARGUMENT_INVALID", "a key is for one write: name one draft with --key")
    with team() as library:
        draft_ids = list(dict.fromkeys(resolve_id(library, ref, KIND) for ref in ids))
        actor = decide(library, action, _question(library, action, draft_ids, target))
        alone = len(draft_ids) == 1
        done = [_decide_one(library, draft_id, actor, act, alone=alone) for draft_id in draft_ids]
    failed = [decision for decision in done if decision.error]
    if as_json:
        print_json(
            {
                "drafts": [_decided_json(decision) for decision in done if decision.draft],
                "failed": [_failed_json(decision) for decision in failed],
            }
        )
    else:
        for decision in done:
            _print_decision(decision)
    return 0 if not failed else 1 if len(failed) == len(done) else PART


def _question(library: Library, action: str, draft_ids: Sequence[str], target: str) -> str:
    """Build the question: each draft with its target, risk flags and first lines."""
    lines = []
    for record in library.store.records.get(draft_ids).values():
        body = record.body
        destination = target or body.target or "nowhere yet"
        lines.append(f"{record.id}: {body.title}")
        lines.append(f"  {body.type} by {record.author}, for {destination}")
        lines += [f"  look at: {flag.replace('_', ' ')}" for flag in body.risk_flags]
        lines += [f"  {name}: {value}" for name, value in body.patch]
        lines += beginning_of(body.body, 30 if len(draft_ids) == 1 else 5)
    verb = "Publish" if action == "approve_draft" else "Reject"
    subject = "it" if len(draft_ids) == 1 else f"these {len(draft_ids)}"
    return "\n".join([*lines, f"{verb} {subject}?"])


def _decide_one(
    library: Library, draft_id: str, actor: Actor, act: Act, *, alone: bool
) -> _Decided:
    try:
        return act(library, draft_id, actor)
    except CortexError as error:
        if alone:
            raise
        if isinstance(error, InputError):
            error.suggestions = suggested(error)
        return _Decided(draft_id, error=error)


def _print_decision(decision: _Decided) -> None:
    if decision.error:
        say(f"error: {decision.id}: {decision.error.message} [{decision.error.code}]", error=True)
        for suggestion in decision.error.suggestions:
            say(f"  - {suggestion}", error=True)
    elif decision.record:
        done = "Changed" if decision.record.kind == "task" else "Published"
        say(f"✓ {done} {decision.record.id}: {decision.record.body.title}")
    elif decision.draft:
        say(f"✓ Rejected {decision.id}: {decision.draft.body.title}")


def _draft_json(record: Record[Draft], now: int) -> dict[str, object]:
    return {**record_json(record), "state": drafts.state_of(record.body, now)}


def _decided_json(decision: _Decided) -> dict[str, object]:
    assert decision.draft is not None
    return {
        **record_json(decision.draft),
        "record": brief_json(decision.record) if decision.record else None,
    }


def _failed_json(decision: _Decided) -> dict[str, object]:
    assert decision.error is not None
    return {"id": decision.id, "code": decision.error.code, "message": decision.error.message}


def _now() -> int:
    return int(time.time() * 1000)
