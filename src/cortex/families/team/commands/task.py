"""`cortex team task`: commands to create, assign and update tasks."""

from __future__ import annotations

from typing import Annotated

import typer

from cortex.base.actors import PERSON
from cortex.base.errors import InputError
from cortex.base.record_model import PRIORITIES, Task
from cortex.base.record_spec import choices_of, fields_of
from cortex.families.team.commands.field_options import (
    Parameter,
    Values,
    add_command,
    field_parameters,
)
from cortex.families.team.commands.options import IdArgument, changed, one_of, parse_people, team
from cortex.families.team.commands.record_commands import (
    JSON,
    KEY,
    ListFilter,
    RecordCommands,
    choice_filter,
    flag_filter,
    plain_show,
    record_app,
)
from cortex.families.team.commands.record_context import Condition, say_strangers
from cortex.families.team.commands.render import print_record
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import actions
from cortex.toolkit.terminal.prompts import writer

# What `update` changes; all else is said once, when a task is created.
UPDATED = ("state", "priority", "assignees", "blocked_reason", "notes")

AssigneeOption = Annotated[
    str, typer.Option("--assignee", metavar="NAME", help="Only those assigned to them.")
]
ASSIGNED_TO = ListFilter(
    Parameter("assignee", AssigneeOption, ""),
    lambda library, name: Condition(
        refs=tuple(("assignee", person) for person in parse_people(library, [name]))
    ),
)

show = plain_show(Task, "Show a task: what is to be done, its assignees, and what blocks it.")
app = record_app(
    RecordCommands(
        Task,
        start="There is no task yet: `cortex team task create TITLE` makes one",
        columns=("id", "updated", "state", "priority", "assignees", "title"),
        list_help="List tasks that are open, the last changed first.",
        show=show,
        create_help="Write down what is to be done; who is to do it hears of it.",
        filters=(
            flag_filter(
                "mine",
                "Only those that are assigned to you.",
                lambda: Condition(refs=(("assignee", PERSON),)),
            ),
            ASSIGNED_TO,
            choice_filter(Task, "priority"),
        ),
        not_created=("state", "blocked_reason", "notes"),
        notes=(say_strangers,),
    )
)


def _update(given: Values) -> int:
    changes = {name: given[name] for name in (*UPDATED, "remove_assignees")}
    with team() as library:
        before = resolve_ref(library.store.records, given["ref"], "task")
        if all(value is None for value in changes.values()):
            raise InputError("ARGUMENT_INVALID", "say what to change, with --state for example")
        plain = _patch(changes)
        more, fewer = (
            parse_people(library, changes[name]) for name in ("assignees", "remove_assignees")
        )

        def patch(body: Task) -> dict[str, str]:
            """Build the patch for the task's current body."""
            added = {}
            if changes["notes"] is not None:
                added["notes"] = f"{body.notes}\n\n{changes['notes'].strip()}".strip()
            if more or fewer:
                assignees = changed(body.assignees, more, fewer, "assignee", str)
                added["assignees"] = ", ".join(assignees)
            _check_blocked(plain, body)
            return plain | added

        payload = repr((before.id, list(changes.values())))
        record = actions.update_task(
            library, before.id, patch, actor=writer(), key=given["key"], payload=payload
        )
        if more:
            say_strangers(library, record)
    same = record.version == before.version
    done = f"✓ Changed {record.id}: {record.body.state}, {record.body.priority}"
    return print_record(record, "Nothing was changed." if same else done, as_json=given["as_json"])


def _patch(changes: Values) -> dict[str, str]:
    """Build the part of the patch that doesn't depend on the task.

    Raises: InputError ARGUMENT_INVALID.
    """
    patch: dict[str, str] = {}
    if changes["state"] is not None:
        patch["status"] = one_of(changes["state"], choices_of(Task, "state"), "--state")
    if changes["priority"] is not None:
        patch["priority"] = one_of(changes["priority"], PRIORITIES, "--priority")
    if changes["blocked_reason"] is not None:
        patch["blocked_reason"] = changes["blocked_reason"]
        patch.setdefault("status", "blocked")
    return patch


def _check_blocked(patch: dict[str, str], body: Task) -> None:
    """Refuse to block a task without a reason. Raises: InputError ARGUMENT_INVALID."""
    reason = patch.get("blocked_reason", body.blocked_reason)
    if patch.get("status") == "blocked" and not reason.strip():
        raise InputError(
            "ARGUMENT_INVALID", "say what stands in the way: --blocked REASON, instead of --state"
        )


add_command(
    app,
    "update",
    [
        Parameter("ref", IdArgument, ...),
        *field_parameters((fields_of(Task)[name] for name in UPDATED), editing=True),
        KEY,
        JSON,
    ],
    _update,
    "Move a task on; who follows it hears of it.",
)
