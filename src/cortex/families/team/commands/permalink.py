"""`cortex show`: the record of a permalink or an id, shown by the command of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated

import typer

from cortex.families.team.commands.options import team
from cortex.families.team.commands.render import record_json, say_head, say_text
from cortex.families.team.permalinks import permalink
from cortex.families.team.references import resolve_ref
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json

# Module with the `show` command of each kind; other kinds are shown here.
MODULES: Mapping[str, str] = {
    **{kind: kind for kind in ("subcortex", "thread", "observation", "artifact", "task")},
    "draft": "drafts",
}


def show(
    ref: Annotated[
        str,
        typer.Argument(metavar="LINK", help="A link such as cortex://thread/ID, an id, or a slug."),
    ],
    as_json: JsonFlag = False,
) -> int:
    """Show the record that a link or an id names, of whichever kind."""
    with team() as library:
        record = resolve_ref(library.store.records, ref)
    if record.kind in MODULES:
        module = import_module(f"cortex.families.team.commands.{MODULES[record.kind]}")
        shows: Callable[..., int] = module.show
        return shows(record.id, as_json=as_json)
    if as_json:
        print_json(record_json(record))
        return 0
    parent = getattr(record.body, "thread", "") or getattr(record.body, "about", "")
    say_head(record, [("Belongs to", permalink(parent) if parent else "")])
    say_text(
        getattr(record.body, "body", "")
        or getattr(record.body, "reason", "")
        or getattr(record.body, "note", "")
    )
    return 0
