"""`cortex memory approve|reject|promote|supersede|delete|undo|log`: curation commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from cortex.engine.library import Library
from cortex.engine.store import OWN, Decision, Remembered
from cortex.families.memory.commands.options import (
    AllFlag,
    DryFlag,
    IdArgument,
    IdsArgument,
    ReasonOption,
    Selection,
    StateName,
    chosen_by,
    memories,
)
from cortex.families.memory.commands.render import counted, decision_json, decision_line, say_rows
from cortex.families.memory.curation import ACTIONS, delete, judge, last_step, supersede, undo
from cortex.families.memory.databases import MemoryDatabase, databases
from cortex.families.memory.ids import display_id
from cortex.families.memory.selection import ANY, Filter, find_by_id_or_prefix
from cortex.toolkit.terminal.option_sets import option, with_option_sets
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import cut_to, print_json, say
from cortex.toolkit.terminal.prompts import decide

# Columns of a title in the log.
MAX_TITLE = 60
# Memories that are listed before the rest is counted.
SHOWN = 10
WAITING = (StateName.STAGING, StateName.UNCURATED)
DONE = {"approve": "Approved", "reject": "Rejected", "promote": "Promoted"}


def judging(action: str, meaning: str) -> Callable[..., int]:
    """Create the command that sets a state."""

    def command(
        *,
        ids: IdsArgument = None,
        everything: AllFlag = False,
        selection: Selection,
        reason: ReasonOption = "",
        dry_run: DryFlag = False,
        as_json: JsonFlag = False,
    ) -> int:
        wanted = selection.filter(*WAITING)
        with memories(whole=everything, quiet=as_json) as library:
            present = databases(library.settings)
            chosen = chosen_by(library, ids, wanted, Filter(WAITING), everything=everything)
            changing = [record for record in chosen if record.state is not ACTIONS[action]]
            if changing and not dry_run:
                lines = _memory_lines(changing, present)
                question = f"{action.capitalize()} {counted(len(changing))}?"
                decide(library.settings, "judge_memory", "\n".join([*lines, question]))
            changed = len(changing) if dry_run else judge(library, changing, action, reason=reason)
        if as_json:
            print_json(
                {
                    "action": action,
                    "chosen": len(chosen),
                    "changed": changed,
                    "dry_run": dry_run,
                    "memories": [display_id(record, present) for record in changing],
                }
            )
            return 0
        done = f"Would {action}" if dry_run else f"✓ {DONE[action]}"
        if not chosen:
            say("nothing found", error=True)
        elif len(changing) == 1:
            say(f"{done} {display_id(changing[0], present)}: {_title(changing[0])}")
        elif changing:
            say(f"{done} {counted(changed)}:")
            after = [replace(record, state=ACTIONS[action]) for record in changing]
            _say_some(changing if dry_run else after, present)
        if len(chosen) > len(changing):
            say(f"{counted(len(chosen) - len(changing))} had that state already")
        return 0

    command.__doc__ = meaning
    return with_option_sets(command)


approve = judging(
    "approve",
    "Approve memories: they count. With --all those without a decision, unless --state says "
    "otherwise.",
)
reject = judging(
    "reject",
    "Reject memories: nothing finds them, they open by their ids only. With --all as for approve.",
)
promote = judging(
    "promote", "Promote memories: they count in every project. With --all as for approve."
)


def supersede_one(
    old: IdArgument,
    by: Annotated[str, option("--by ID", "The memory that says it better.")],
    reason: ReasonOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Have one memory take the place of another, which is not found any more."""
    with memories() as library:
        before, after = find_by_id_or_prefix(library, old), find_by_id_or_prefix(library, by)
        question = f"Have “{after.memory.title}” take the place of “{before.memory.title}”?"
        decide(library.settings, "judge_memory", question)
        supersede(library, before, after, reason=reason)
        present = databases(library.settings)
    if as_json:
        print_json({"superseded": display_id(before, present), "by": display_id(after, present)})
        return 0
    before_id, after_id = display_id(before, present), display_id(after, present)
    say(f"✓ {after_id} takes the place of {before_id}: {_title(before)}")
    return 0


@with_option_sets
def delete_some(
    *,
    ids: IdsArgument = None,
    everything: AllFlag = False,
    selection: Selection,
    dry_run: DryFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Forget memories for good, in any state, with their history. It can't be undone."""
    wanted, done = selection.filter(StateName.ANY), None
    with memories(whole=everything, quiet=as_json) as library:
        present = databases(library.settings)
        chosen = chosen_by(library, ids, wanted, Filter((ANY,)), everything=everything)
        if chosen and not dry_run:
            lines = [*_memory_lines(chosen, present), *_remaining_notes(chosen)]
            question = f"Forget {counted(len(chosen))} for good?"
            decide(library.settings, "delete_memory", "\n".join([*lines, question]))
            done = delete(library, chosen)
    if as_json:
        body = {
            "deleted": done.own if done else 0,
            "copies": done.copies if done else 0,
            "stay_in": _files_of(chosen),
            "memories": [display_id(record, present) for record in chosen],
        }
        print_json(body if done else {**body, "dry_run": True})
        return 0
    if not chosen:
        say("nothing found", error=True)
    elif done:
        say(f"✓ Forgot {counted(len(chosen))} for good")
    else:
        say(f"Would forget {counted(len(chosen))}:")
        _say_some(chosen, present)
    for note in _remaining_notes(chosen):
        say(note, error=True)
    if done and not done.complete:
        say(
            "note: nothing finds them any more; another process still drops them from its index",
            error=True,
        )
    return 0


def undo_last(as_json: JsonFlag = False) -> int:
    """Take the last step back: every memory of it is as it was. What was added is rejected, not
    forgotten; a deletion stays.
    """
    with memories() as library:
        step = last_step(library)
        if step:
            question = f"Take the last step ({step[-1].action}, {counted(len(step))}) back?"
            lines = _step_lines(library, step)
            decide(library.settings, "judge_memory", "\n".join([*lines, question]))
        count = undo(library, batch=step[0].batch) if step else 0
        latest = library.store.memories.decisions(count) if count else []
        steps = [decision for decision in latest if decision.action == "undo"]
        rows = [_decision_row(library, decision) for decision in steps]
    if as_json:
        print_json({"undone": count, "decisions": rows})
        return 0
    if not count:
        say("There is nothing to undo.", error=True)
        return 0
    added = steps[0].reason.endswith("add")
    say(f"✓ {steps[0].reason.capitalize()}, {counted(count)}:")
    for row, step in list(zip(rows, steps, strict=True))[:SHOWN]:
        outcome = f"is {step.after or 'unjudged'} {'now' if added else 'again'}"
        outcome = "is as it was before" if step.before == step.after else outcome
        say(f"  {row['id']} {outcome}: {row['title']}")
    for line in _more(len(steps)):
        say(line)
    if added:
        say("  They are kept as rejected; `cortex memory delete` forgets them for good")
    return 0


def show_log(
    memory_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Only about this memory.")
    ] = None,
    limit: Annotated[int, option("--limit -n N", "How many decisions.", min=1)] = 30,
    as_json: JsonFlag = False,
) -> int:
    """Show what was decided about memories, newest first."""
    with memories() as library:
        ref = find_by_id_or_prefix(library, memory_id).ref if memory_id is not None else None
        decisions = library.store.memories.decisions(limit, ref)
        rows = [_decision_row(library, decision) for decision in decisions]
    if as_json:
        print_json({"decisions": rows})
        return 0
    if not rows:
        say("Nothing has been decided yet.", error=True)
    for row, decision in zip(rows, decisions, strict=True):
        title = f" “{cut_to(str(row['title']), MAX_TITLE)}”" if row["title"] else ""
        say(decision_line(decision, f"{row['id']}{title}"))
    return 0


# -- output


def _decision_row(library: Library, decision: Decision) -> dict[str, object]:
    """Row of a decision with its memory; of a deleted memory only the key is known."""
    matches = library.store.memories.by_key(decision.key, (decision.origin,))
    memory_id = display_id(matches[0], databases(library.settings)) if matches else decision.key
    title = matches[0].memory.title if matches else ""
    return {
        "id": memory_id,
        "title": title,
        "origin": decision.origin or "own",
        **decision_json(decision),
    }


def _step_lines(library: Library, step: Sequence[Decision]) -> list[str]:
    """Lines that list the first memories of a step."""
    rows = [_decision_row(library, decision) for decision in step[:SHOWN]]
    return [*(f"{row['id']}: {row['title']}" for row in rows), *_more(len(step))]


def _memory_lines(chosen: Sequence[Remembered], present: Sequence[MemoryDatabase]) -> list[str]:
    """Lines that list the first memories of a selection."""
    first = [f"{display_id(record, present)}: {record.memory.title}" for record in chosen[:SHOWN]]
    return [*first, *_more(len(chosen))]


def _more(count: int) -> list[str]:
    return [f"… and {count - SHOWN:,} more"] if count > SHOWN else []


def _say_some(chosen: Sequence[Remembered], present: Sequence[MemoryDatabase]) -> None:
    say_rows(chosen[:SHOWN], present)
    for line in _more(len(chosen)):
        say(line)


def _title(record: Remembered) -> str:
    return " ".join(record.memory.title.split())


def _remaining_notes(chosen: Sequence[Remembered]) -> Iterator[str]:
    """Notes about rows that stay in other products' databases."""
    for file in _files_of(chosen):
        count = sum(1 for record in chosen if record.origin == file)
        rows = "1 row stays" if count == 1 else f"{count:,} rows stay"
        yield f"note: {rows} in {file}, which is never written to; here nothing reads them again"


def _files_of(chosen: Sequence[Remembered]) -> list[str]:
    return sorted({record.origin for record in chosen if record.origin != OWN})
