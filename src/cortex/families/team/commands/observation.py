"""`cortex team observation`: observations, mostly by agents and plugins.

They need no approval, so this is where people review them.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cortex.base.record_model import Observation
from cortex.families.team.commands.field_options import Parameter
from cortex.families.team.commands.options import resolve_id
from cortex.families.team.commands.record_commands import (
    ListFilter,
    RecordCommands,
    choice_filter,
    plain_show,
    record_app,
)
from cortex.families.team.commands.record_context import Condition

ThreadOption = Annotated[str, typer.Option("--thread", metavar="ID", help="Only of this thread.")]
IN_THREAD = ListFilter(
    Parameter("thread", ThreadOption, ""),
    lambda library, ref: Condition(refs=(("thread", resolve_id(library, ref, "thread")),)),
)

show = plain_show(
    Observation, "Show an observation: what was seen, where it belongs, and what contradicts it."
)
app = record_app(
    RecordCommands(
        Observation,
        start="There is no observation yet: agents make them with cortex_create_observations",
        columns=("id", "created", "type", "author", "title"),
        list_help="List observations, the newest first.",
        show=show,
        filters=(choice_filter(Observation, "type"), IN_THREAD),
    )
)
