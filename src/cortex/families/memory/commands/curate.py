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
    KindOption,
    MatchingOption,
    OlderOption,
    OriginOption,
    ProjectOption,
    ReasonOption,
    ScopeOption,
    StateName,
    StateOption,
    TagOption,
    chosen_by,
    filter_of,
    memories,
)
from cortex.families.memory.commands.render import counted, decision_json, decision_line, say_rows
from cortex.families.memory.curation import ACTIONS, delete, judge, last_step, supersede, undo
from cortex.families.memory.databases import MemoryDatabase, databases
from cortex.families.memory.ids import display_id
from cortex.families.memory.selection import Filter, find_by_id_or_prefix
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import cut_to, print_json, say
from cortex.toolkit.terminal.prompts import decide

# Columns of a title in the log.
MAX_TITLE = 60
# Memories that are listed before the rest is counted.
SHOWN = 10
WAITING = [StateName.STAGING, StateName.UNCURATED]
DONE = {"approve": "Approved", "reject": "Rejected", "promote": "Promoted"}


def judging(action: str, meaning: str) -> Callable[..., int]:
    """Create the command that sets a state."""

    def command(
        ids: IdsArgument = None,
        everything: AllFlag = False,
        state: StateOption = None,
        project: ProjectOption = "",
        scope: ScopeOption = "",
        tag: TagOption = None,
        kind: KindOption = "",
        origin: OriginOption = "",
        matching: MatchingOption = "",
        older_than: OlderOption = "",
        reason: ReasonOption = "",
        dry_run: DryFlag = False,
        as_json: JsonFlag = False,
    ) -> int:
        wanted = filter_of(
            state or WAITING,
            project=project,
            scope=scope,
            tag=tag,
            kind=kind,
            origin=origin,
            matching=matching,
            older_than=older_than,
        )
        return _judge(
            action, ids, wanted, reason, everything=everything, dry=dry_run, as_json=as_json
        )

    command.__doc__ = meaning
    return command


approve = judging(
    "approve",
    "Approve memories: they count. With --all those that nobody has judged, unless --state says "
    "otherwise.",
)
reject = judging(
    "reject",
    "Reject memories: nothing finds them, they open by their ids only. With --all as for approve.",
)
promote = judging(
    "promote", "Promote memories: they count in every project. With --all as for approve."
)


def _judge(
    action: str,
    ids: Sequence[str] | None,
    wanted: Filter,
    reason: str,
    *,
    everything: bool,
    dry: bool,
    as_json: bool,
) -> int:
    with memories(whole=everything, quiet=as_json) as library:
        present = databases(library.settings)
        chosen = chosen_by(library, ids, wanted, filter_of(WAITING), everything=everything)
        changing = [record for record in chosen if record.state is not ACTIONS[action]]
        if changing and not dry:
            question = f"{action.capitalize()} {counted(len(changing))}?"
            decide(
                library.settings,
                "judge_memory",
                "\n".join([*_memory_lines(changing, present), question]),
            )
        changed = len(changing) if dry else judge(library, changing, action, reason=reason)
    if as_json:
        ids_changed = [display_id(record, present) for record in changing]
        print_json(
            {
                "action": action,
                "chosen": len(chosen),
                "changed": changed,
                "dry_run": dry,
                "memories": ids_changed,
            }
        )
        return 0
    if not chosen:
        say("nothing found", error=True)
        return 0
    done = f"Would {action}" if dry else f"✓ {DONE[action]}"
    if len(changing) == 1:
        title = " ".join(changing[0].memory.title.split())
        say(f"{done} {display_id(changing[0], present)}: {title}")
    elif changing:
        say(f"{done} {counted(changed)}:")
        _say_some(
            changing if dry else [replace(record, state=ACTIONS[action]) for record in changing],
            present,
        )
    if len(chosen) > len(changing):
        say(f"{counted(len(chosen) - len(changing))} had that state already")
    return 0


def supersede_one(
    old: IdArgument,
    by: Annotated[str, typer.Option("--by", metavar="ID", help="The memory that says it better.")],
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
    title = " ".join(before.memory.title.split())
    say(f"✓ {display_id(after, present)} takes the place of {display_id(before, present)}: {title}")
    return 0


def delete_some(
    ids: IdsArgument = None,
    everything: AllFlag = False,
    state: StateOption = None,
    project: ProjectOption = "",
    scope: ScopeOption = "",
    tag: TagOption = None,
    kind: KindOption = "",
    origin: OriginOption = "",
    matching: MatchingOption = "",
    older_than: OlderOption = "",
    dry_run: DryFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Forget memories for good, in whatever state, with their history. It can't be undone."""
    wanted = filter_of(
        state or [StateName.ANY],
        project=project,
        scope=scope,
        tag=tag,
        kind=kind,
        origin=origin,
        matching=matching,
        older_than=older_than,
    )
    with memories(whole=everything, quiet=as_json) as library:
        present = databases(library.settings)
        chosen = chosen_by(library, ids, wanted, filter_of([StateName.ANY]), everything=everything)
        if dry_run or not chosen:
            return _print_deletion(chosen, present, as_json=as_json)
        question = f"Forget {counted(len(chosen))} for good?"
        decide(
            library.settings,
            "delete_memory",
            "\n".join([*_memory_lines(chosen, present), *_remaining_notes(chosen), question]),
        )
        done = delete(library, chosen)
    if as_json:
        ids_deleted = [display_id(record, present) for record in chosen]
        print_json(
            {
                "deleted": done.own,
                "copies": done.copies,
                "stay_in": _files_of(chosen),
                "memories": ids_deleted,
            }
        )
        return 0
    say(f"✓ Forgot {counted(len(chosen))} for good")
    for note in _remaining_notes(chosen):
        say(note, error=True)
    if not done.complete:
        say(
            "note: nothing finds them any more; another process still drops them from its index",
            error=True,
        )
    return 0


def _print_deletion(
    chosen: Sequence[Remembered], present: Sequence[MemoryDatabase], *, as_json: bool
) -> int:
    """Print what would be deleted."""
    if as_json:
        ids = [display_id(record, present) for record in chosen]
        print_json(
            {
                "deleted": 0,
                "copies": 0,
                "stay_in": _files_of(chosen),
                "memories": ids,
                "dry_run": True,
            }
        )
    elif not chosen:
        say("nothing found", error=True)
    else:
        say(f"Would forget {counted(len(chosen))}:")
        _say_some(chosen, present)
        for note in _remaining_notes(chosen):
            say(note, error=True)
    return 0


def undo_last(as_json: JsonFlag = False) -> int:
    """Take the last step back: every memory of it is as it was. What was added is rejected, not
    forgotten; a deletion stays.
    """
    with memories() as library:
        step = last_step(library)
        if step:
            question = f"Take the last step ({step[-1].action}, {counted(len(step))}) back?"
            decide(
                library.settings, "judge_memory", "\n".join([*_step_lines(library, step), question])
            )
        count = undo(library, batch=step[0].batch) if step else 0
        steps = (
            [
                decision
                for decision in library.store.memories.decisions(count)
                if decision.action == "undo"
            ]
            if count
            else []
        )
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
        state = step.after or "unjudged"
        outcome = (
            "is as it was before"
            if step.before == step.after
            else f"is {state} {'now' if added else 'again'}"
        )
        say(f"  {row['id']} {outcome}: {row['title']}")
    _say_more(len(steps))
    if added:
        say("  They are kept as rejected; `cortex memory delete` forgets them for good")
    return 0


def show_log(
    memory_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Only about this memory.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="How many decisions.")
    ] = 30,
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
    more = [f"… and {len(step) - SHOWN:,} more"] if len(step) > SHOWN else []
    return [*(f"{row['id']}: {row['title']}" for row in rows), *more]


def _memory_lines(chosen: Sequence[Remembered], present: Sequence[MemoryDatabase]) -> list[str]:
    """Lines that list the first memories of a selection."""
    more = [f"… and {len(chosen) - SHOWN:,} more"] if len(chosen) > SHOWN else []
    return [
        *(f"{display_id(record, present)}: {record.memory.title}" for record in chosen[:SHOWN]),
        *more,
    ]


def _say_some(chosen: Sequence[Remembered], present: Sequence[MemoryDatabase]) -> None:
    say_rows(chosen[:SHOWN], present)
    _say_more(len(chosen))


def _say_more(count: int) -> None:
    if count > SHOWN:
        say(f"… and {count - SHOWN:,} more")


def _remaining_notes(chosen: Sequence[Remembered]) -> Iterator[str]:
    """Notes about rows that stay in other products' databases."""
    for file in _files_of(chosen):
        count = sum(1 for record in chosen if record.origin == file)
        rows = "1 row stays" if count == 1 else f"{count:,} rows stay"
        yield f"note: {rows} in {file}, which is never written to; here nothing reads them again"


def _files_of(chosen: Sequence[Remembered]) -> list[str]:
    return sorted({record.origin for record in chosen if record.origin != OWN})
