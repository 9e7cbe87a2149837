"""`cortex audit`: who changed what of a team's records, and when: the log that nobody can change,
the newest line first.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cortex.engine.store import AuditEntry
from cortex.families.team.commands.options import LimitOption, number_of, team
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
        deeds = library.store.recorded.deeds(number_of(library, about, ""), limit + 1)
    more, deeds = len(deeds) > limit, deeds[:limit]
    if as_json:
        print_json({"audit": [_json(deed) for deed in deeds], "more": more})
    elif not deeds:
        say(NOTHING, error=True)
    else:
        say_rows([_row(one) for one in deeds])
        say_more(more)
    return 0


def _row(one: AuditEntry) -> tuple[str, ...]:
    what = f"{one.action.replace('_', ' ')}: {one.record} version {one.version}, key {one.key}"
    return moment(one.at), f"{one.actor} ({one.tier})", one.via or "-", what


def _json(one: AuditEntry) -> dict[str, object]:
    return {
        "id": one.id,
        "at": moment(one.at),
        "actor": one.actor,
        "tier": one.tier,
        "via": one.via,
        "action": one.action,
        "record": one.record,
        "version": one.version,
        "key": one.key,
    }
