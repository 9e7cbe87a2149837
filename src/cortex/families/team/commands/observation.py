"""`cortex team observation`: observations, mostly by agents and plugins.

They need no approval, so this is where people review them.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cortex.base.record_model import OBSERVATION_TYPES
from cortex.families.team.commands.options import (
    IdArgument,
    InSubcortexOption,
    LimitOption,
    WithTagOption,
    one_of,
    resolve_id,
    team,
)
from cortex.families.team.commands.record_context import (
    labels_of,
    list_records,
    look_around,
    say_around,
    tell_list,
    whole_json,
)
from cortex.families.team.commands.render import day, say_head, say_list, say_text
from cortex.families.team.references import resolve_ref
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json

KIND = "observation"
START = "There is no observation yet: agents make them with cortex_create_observations"
TYPES_HELP = ", ".join(OBSERVATION_TYPES)

app = typer.Typer(name=KIND, help="What agents saw and kept.", no_args_is_help=True)


@app.command("list")
def list_observations(
    type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help=f"Only of this type: {TYPES_HELP}.")
    ] = "",
    subcortex: InSubcortexOption = "",
    thread: Annotated[
        str, typer.Option("--thread", metavar="ID", help="Only of this thread.")
    ] = "",
    tag: WithTagOption = None,
    limit: LimitOption = 30,
    as_json: JsonFlag = False,
) -> int:
    """List observations, the newest first."""
    wanted_type = one_of(type, OBSERVATION_TYPES, "--type")
    with team() as library:
        listing = list_records(
            library,
            KIND,
            limit,
            usual=(),
            subcortex=subcortex,
            tags=tag,
            refs=[("thread", resolve_id(library, thread, "thread"))] if thread else (),
            keep=(lambda body: body.type == wanted_type) if wanted_type else None,
        )
    return tell_list(
        listing,
        "observations",
        START,
        lambda observation: (
            observation.id,
            day(observation.created),
            observation.body.type,
            observation.author,
            observation.body.title,
        ),
        as_json=as_json,
    )


@app.command("show")
def show(ref: IdArgument, as_json: JsonFlag = False) -> int:
    """Show an observation: what was seen, where it belongs, and what contradicts it."""
    with team() as library:
        record = resolve_ref(library.store.records, ref, KIND)
        around = look_around(library, record)
    if as_json:
        print_json(whole_json(record, around))
        return 0
    say_head(record, labels_of(record, around), around.warnings)
    say_text(record.body.summary)
    say_list(
        "Attachments",
        [f"{attachment.name}: {attachment.ref}" for attachment in record.body.attachments],
    )
    say_around(record, around)
    return 0
