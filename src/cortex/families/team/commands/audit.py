"""`cortex team audit`: the append-only audit log of the team's records, newest first."""

from __future__ import annotations

from typing import Annotated

import typer

from cortex.engine.store import AuditEntry
from cortex.families.team.commands.options import LimitOption, resolve_id, team
from cortex.families.team.commands.render import say_more, say_rows
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import moment, print_json, say

NOTHING = "Nothing was written yet."


def audit(
    about: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Only of this record, by its id, a beginning of it, or a slug."
        ),
    ] = "",
    limit: LimitOption = 30,
    as_json: JsonFlag = False,
) -> int:
    """Show who changed which record when, how (agent, terminal, command, server) and under which
    key, the newest first.
    """
    with team() as library:
        entries = library.store.records.deeds(resolve_id(library, about, ""), limit + 1)
    more, entries = len(entries) > limit, entries[:limit]
    if as_json:
        print_json({"audit": [_json(entry) for entry in entries], "more": more})
    elif not entries:
        say(NOTHING, error=True)
    else:
        say_rows([_row(entry) for entry in entries])
        say_more(more)
    return 0


def _row(entry: AuditEntry) -> tuple[str, ...]:
    what = (
        f"{entry.action.replace('_', ' ')}: {entry.record} version {entry.version}, key {entry.key}"
    )
    return moment(entry.at), f"{entry.actor} ({entry.tier})", entry.via or "-", what


def _json(entry: AuditEntry) -> dict[str, object]:
    return {
        "id": entry.id,
        "at": moment(entry.at),
        "actor": entry.actor,
        "tier": entry.tier,
        "via": entry.via,
        "action": entry.action,
        "record": entry.record,
        "version": entry.version,
        "key": entry.key,
    }
