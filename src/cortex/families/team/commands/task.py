"""`cortex team task`: commands to create, assign and update tasks."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Annotated, Any

import typer

from cortex.base.actors import PERSON
from cortex.base.errors import InputError
from cortex.base.record_model import OPEN_TASK_STATES, PRIORITIES, Record, Task
from cortex.base.record_spec import spec_of
from cortex.families.team.commands.options import (
    AllFlag,
    BodyFileOption,
    BodyOption,
    CodeOption,
    EditFlag,
    IdArgument,
    InSubcortexOption,
    KeyOption,
    LimitOption,
    SensitiveFlag,
    StateOption,
    SubcortexOption,
    TagOption,
    TitleArgument,
    WithTagOption,
    changed,
    code_cited,
    code_told,
    one_of,
    people_told,
    resolve_id,
    sensitivity,
    tags_told,
    team,
    written,
)
from cortex.families.team.commands.record_context import (
    labels_of,
    list_records,
    look_around,
    say_around,
    say_strangers,
    tell_list,
    whole_json,
)
from cortex.families.team.commands.render import day, say_head, say_text, tell_record
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import actions
from cortex.families.team.writes.create import create
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json
from cortex.toolkit.terminal.prompts import writer

KIND = "task"
START = "There is no task yet: `cortex team task create TITLE` makes one"
STATES_HELP = ", ".join(spec_of(Task).states)

AssignOption = Annotated[
    list[str] | None,
    typer.Option("--assign", metavar="NAME", help="Who is to do it; me: you; may be repeated."),
]

app = typer.Typer(name=KIND, help="What is to be done.", no_args_is_help=True)


@app.command("list")
def list_tasks(
    state: StateOption = None,
    everything: AllFlag = False,
    mine: Annotated[
        bool, typer.Option("--mine", help="Only those that are assigned to you.")
    ] = False,
    assignee: Annotated[
        str, typer.Option("--assignee", metavar="NAME", help="Only those assigned to them.")
    ] = "",
    priority: Annotated[
        str,
        typer.Option(
            "--priority",
            metavar="PRIORITY",
            help=f"Only of this priority: {', '.join(PRIORITIES)}.",
        ),
    ] = "",
    subcortex: InSubcortexOption = "",
    tag: WithTagOption = None,
    limit: LimitOption = 30,
    as_json: JsonFlag = False,
) -> int:
    """List tasks that are open, the last changed first."""
    wanted_priority = one_of(priority, PRIORITIES, "--priority")
    with team() as library:
        names = (*((PERSON,) if mine else ()), *people_told(library, [assignee]))
        listing = list_records(
            library,
            KIND,
            limit,
            usual=OPEN_TASK_STATES,
            states=state,
            everything=everything,
            subcortex=subcortex,
            tags=tag,
            refs=[("assignee", name) for name in names],
            keep=(lambda body: body.priority == wanted_priority) if wanted_priority else None,
        )
    return tell_list(listing, "tasks", START, _row, as_json=as_json)


def _row(task: Record[Task]) -> tuple[str, ...]:
    body = task.body
    return (
        task.id,
        day(task.updated),
        body.state,
        body.priority,
        ", ".join(body.assignees),
        body.title,
    )


@app.command("show")
def show(ref: IdArgument, as_json: JsonFlag = False) -> int:
    """Show a task: what is to be done, by whom, and what stands in the way."""
    with team() as library:
        record = resolve_ref(library.store.records, ref, KIND)
        around = look_around(library, record)
    if as_json:
        print_json(whole_json(record, around))
        return 0
    body = record.body
    labels = (
        ("Priority", body.priority),
        ("Blocked", body.blocked_reason),
        ("Assigned", ", ".join(body.assignees)),
        ("Followed by", ", ".join(body.watchers)),
    )
    say_head(record, [*labels_of(record, around), *labels], around.warnings)
    say_text(body.body)
    say_text(body.notes, "Notes")
    say_around(record, around)
    return 0


@app.command("create")
def create_one(
    title: TitleArgument,
    body: BodyOption = None,
    body_file: BodyFileOption = None,
    edit: EditFlag = False,
    priority: Annotated[
        str, typer.Option("--priority", metavar="PRIORITY", help=f"One of {', '.join(PRIORITIES)}.")
    ] = "normal",
    assign: AssignOption = None,
    watch: Annotated[
        list[str] | None,
        typer.Option("--watcher", metavar="NAME", help="Who hears of changes; may be repeated."),
    ] = None,
    thread: Annotated[
        str, typer.Option("--thread", metavar="ID", help="The thread where it is discussed.")
    ] = "",
    subcortex: SubcortexOption = "",
    tag: TagOption = None,
    code: CodeOption = None,
    sensitive: SensitiveFlag = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Write down what is to be done; who is to do it hears of it."""
    links = code_told(code)
    with team() as library:
        about = resolve_id(library, thread, "thread")

        def keep(text: str) -> Record[Any]:
            task = Task(
                title,
                text,
                priority=priority.strip().lower(),
                assignees=people_told(library, assign),
                watchers=people_told(library, watch),
                thread=about,
                subcortex=subcortex.strip(),
                sensitivity=sensitivity(sensitive),
                tags=tags_told(tag),
                code_links=links,
            )
            stored = replace(task, code_links=code_cited(library, links))
            return create(library, stored, actor=writer(), key=key, payload=repr(task))

        again = f"cortex team task create {shlex.quote(title)} --body-file"
        instead = "give the text with --body"
        record = written(body, body_file, keep, edit=edit, name=KIND, again=again, instead=instead)
        say_strangers(library, record)
    return tell_record(record, f"✓ Made {record.id}: {record.body.title}", as_json=as_json)


@app.command("update")
def update(
    ref: IdArgument,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help=f"One of {STATES_HELP}.")
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option("--priority", metavar="PRIORITY", help=f"One of {', '.join(PRIORITIES)}."),
    ] = None,
    assign: AssignOption = None,
    unassign: Annotated[
        list[str] | None,
        typer.Option("--unassign", metavar="NAME", help="Who no longer does it; may be repeated."),
    ] = None,
    blocked: Annotated[
        str | None,
        typer.Option("--blocked", metavar="REASON", help="What stands in the way: it is blocked."),
    ] = None,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="What to add to its notes.")
    ] = None,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Move a task on; who follows it hears of it."""
    with team() as library:
        before = resolve_ref(library.store.records, ref, KIND)
        more, fewer = people_told(library, assign), people_told(library, unassign)
        options = (state, priority, assign, unassign, blocked, note)
        if all(option is None for option in options):
            raise InputError("ARGUMENT_INVALID", "say what to change, with --state for example")
        plain = _patch(state, priority, blocked)

        def patch(body: Task) -> dict[str, str]:
            """Build the patch for the task's current body."""
            added = {"notes": f"{body.notes}\n\n{note.strip()}".strip()} if note is not None else {}
            if assign is not None or unassign is not None:
                added["assignees"] = ", ".join(
                    changed(body.assignees, more, fewer, "assignee", str)
                )
            if (
                plain.get("status") == "blocked"
                and not plain.get("blocked_reason", body.blocked_reason).strip()
            ):
                raise InputError(
                    "ARGUMENT_INVALID",
                    "say what stands in the way: --blocked REASON, instead of --state",
                )
            return plain | added

        payload = repr((before.id, options))
        record = actions.update_task(
            library, before.id, patch, actor=writer(), key=key, payload=payload
        )
        if assign:
            say_strangers(library, record)
    same = record.version == before.version
    text = (
        "Nothing was changed."
        if same
        else f"✓ Changed {record.id}: {record.body.state}, {record.body.priority}"
    )
    return tell_record(record, text, as_json=as_json)


def _patch(state: str | None, priority: str | None, blocked: str | None) -> dict[str, str]:
    """Build the part of the patch that doesn't depend on the task.

    Raises: InputError ARGUMENT_INVALID.
    """
    patch: dict[str, str] = {}
    if state is not None:
        patch["status"] = one_of(state, spec_of(Task).states, "--state")
    if priority is not None:
        patch["priority"] = one_of(priority, PRIORITIES, "--priority")
    if blocked is not None:
        patch["blocked_reason"] = blocked
        patch.setdefault("status", "blocked")
    return patch
