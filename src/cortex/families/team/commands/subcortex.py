"""`cortex team subcortex`: a team's topics with charter, glossary, naming rules and pins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import OPEN_TASK_STATES, Record, RecordFilter, Subcortex
from cortex.families.team.commands.options import (
    IdsArgument,
    KeyOption,
    SlugArgument,
    resolve_id,
    team,
)
from cortex.families.team.commands.record_commands import RecordCommands, record_app
from cortex.families.team.commands.record_context import look_around, say_record
from cortex.families.team.commands.render import (
    brief_json,
    print_record,
    record_json,
    say_list,
    title_with_id,
)
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import actions
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say
from cortex.toolkit.terminal.prompts import writer

KIND = "subcortex"
RECENT = 10  # threads shown per subcortex


def show(ref: SlugArgument, as_json: JsonFlag = False) -> int:
    """Show a subcortex: its charter, its words and rules, what is pinned there, and what is going
    on.
    """
    with team() as library:
        lookup = library.store.records
        record = resolve_ref(lookup, ref, KIND)
        pins = lookup.get(_pinned(record.body))
        within = ((KIND, record.id),)
        threads = lookup.select(
            RecordFilter(kinds=("thread",), states=("open",), refs=within, by_change=True), RECENT
        )
        tasks = lookup.count(RecordFilter(kinds=("task",), states=OPEN_TASK_STATES, refs=within))
        counts = {
            kind: lookup.count(RecordFilter(kinds=(kind,), refs=within))
            for kind in ("thread", "artifact", "task")
        }
        around = look_around(library, record)
    if as_json:
        shown = {
            "pinned": [brief_json(pin) for pin in pins.values()],
            "threads": [brief_json(thread) for thread in threads],
        }
        print_json({**record_json(record), **shown, "open_tasks": tasks, "counts": counts})
        return 0
    say_record(record, around, labels=(("Open tasks", str(tasks)),))
    say_list("Pinned", [title_with_id(record_id, pins) for record_id in pins])
    say_list("Open threads", [f"{thread.id}: {thread.body.title}" for thread in threads])
    return 0


def _pinned(body: Subcortex) -> tuple[str, ...]:
    return (*body.pinned_artifacts, *body.pinned_threads, *body.pinned_tasks)


def _pin_count(record: Record[Subcortex]) -> str:
    count = len(_pinned(record.body))
    return f"{count} pinned" if count else ""


app = record_app(
    RecordCommands(
        Subcortex,
        start="There is no subcortex yet: `cortex team subcortex create SLUG --name NAME` "
        "makes one",
        columns=("slug", "state", _pin_count, "name"),
        list_help="List the subcortexes, the last changed first; archived ones with --all.",
        show=show,
        create_help="Make a subcortex.",
        edit_help="Change a subcortex; without options its charter, in your editor ($VISUAL or "
        "$EDITOR).",
        limit=100,
        text="charter",
        not_edited=("sensitivity",),
        edit_action="edit_subcortex",
    )
)


@app.command("pin")
def pin(
    slug: SlugArgument, ids: IdsArgument, key: KeyOption = "", as_json: JsonFlag = False
) -> int:
    """Pin threads, artifacts or tasks: packs begin with them."""
    return _act_on_each(slug, ids, actions.pin, "✓ Pinned", key, as_json=as_json)


@app.command("unpin")
def unpin(
    slug: SlugArgument, ids: IdsArgument, key: KeyOption = "", as_json: JsonFlag = False
) -> int:
    """Take pins away."""
    return _act_on_each(slug, ids, actions.unpin, "✓ Unpinned", key, as_json=as_json)


def _act_on_each(
    slug: str, ids: Sequence[str], act: Any, done: str, key: str, *, as_json: bool
) -> int:
    if key and len(ids) > 1:
        raise InputError("ARGUMENT_INVALID", "a key is for one write: name one record with --key")
    with team() as library:
        subcortex = resolve_id(library, slug, KIND)
        targets = [resolve_ref(library.store.records, ref, "") for ref in ids]
        record = None
        for target in targets:
            record = act(library, subcortex, target.id, actor=writer(), key=key)
    assert record is not None
    if as_json:
        print_json(record_json(record))
        return 0
    for target in targets:
        say(f"{done} {target.id}: {target.body.title}")
    return 0


@app.command("archive")
def archive(ref: SlugArgument, key: KeyOption = "", as_json: JsonFlag = False) -> int:
    """Archive a subcortex: it is in no pack and no search any more; `edit --state active` brings it
    back.
    """
    with team() as library:
        record = actions.archive(
            library, resolve_id(library, ref, KIND), actor=writer(), key=key, kind=KIND
        )
    return print_record(record, f"✓ Archived {record.body.slug}", as_json=as_json)
