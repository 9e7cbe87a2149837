"""`cortex inbox` and `cortex done`: the person's notifications, tasks and pending decisions."""

from __future__ import annotations

from typing import Annotated

import typer

from cortex.base.actors import PERSON
from cortex.base.errors import InputError
from cortex.engine.store import kind_of_id
from cortex.families.team.commands.options import KeyOption, one_of, resolve_id, team
from cortex.families.team.commands.render import day, say_more, say_rows
from cortex.families.team.inbox import EVERYTHING, LIMIT, NOTIFICATIONS, InboxEntry, acknowledge
from cortex.families.team.inbox import inbox as inbox_of
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import many, moment, print_json, say
from cortex.toolkit.terminal.prompts import writer

MOST = 1000  # notifications closed at once
SHOWN_BY = {
    "thread": "cortex team thread show {}",
    "task": "cortex team task show {}",
    "artifact": "cortex team artifact show {}",
    "observation": "cortex team observation show {}",
    "subcortex": "cortex team subcortex show {}",
    "draft": "cortex team drafts show {}",
    "link": "cortex team link confirm {0}, or cortex team link dismiss {0}",
}
DONE_BY = {
    "task": "`cortex team task update ID --state done`",
    "draft": "`cortex team drafts approve ID` or `reject ID`",
    "artifact": "`cortex team artifact edit ID --reviewed --review-by DATE`",
    "link": "`cortex team link confirm ID` or `dismiss ID`",
}


def inbox(
    everything: Annotated[
        bool, typer.Option("--all", help="What waits for others and for agents, too.")
    ] = False,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--include", metavar="WHAT", help=f"Only {', '.join(EVERYTHING)}; may be repeated."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, metavar="N", help="How many.")
    ] = LIMIT,
    as_json: JsonFlag = False,
) -> int:
    """Show what waits for you: notifications, your tasks and what is blocked, drafts and
    contradictions to judge.
    """
    wanted = tuple(one_of(kind, EVERYTHING, "--include") for kind in kinds or EVERYTHING)
    with team() as library:
        page = inbox_of(library, None if everything else PERSON, wanted, limit)
    if as_json:
        print_json({"entries": [_entry_json(entry) for entry in page.entries], "more": page.more})
        return 0
    if not page.entries:
        say("Nothing waits for you.", error=True)
        return 0
    for entry in page.entries:
        say_rows([(entry.id, day(entry.at), entry.type, entry.title)])
        say(f"  {entry.why}")
        if command := next_command(entry):
            say(f"  {command}")
    say_more(page.more)
    return 0


def done(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID...", help="Notifications, by their ids or beginnings of them."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every notification that is for you.")
    ] = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Be done with notifications: they don't come again."""
    if bool(ids) == everything:
        raise InputError(
            "ARGUMENT_INVALID", "name notifications by their ids, or take --all, one of both"
        )
    for ref in ids or ():
        _check_notification(ref)
    with team() as library:
        if everything:
            entries = inbox_of(library, PERSON, (NOTIFICATIONS,), MOST).entries
            notification_ids = [entry.id for entry in entries]
        else:
            notification_ids = [resolve_id(library, ref, "notification") for ref in ids or ()]
        gone = (
            acknowledge(library, notification_ids, actor=writer(), key=key)
            if notification_ids
            else ()
        )
    if as_json:
        print_json({"done": list(gone)})
    else:
        say(f"✓ Done with {many(len(gone), 'notification')}")
    return 0


def _check_notification(ref: str) -> None:
    """Reject other records, with the command for them. Raises: InputError ARGUMENT_INVALID."""
    kind = kind_of_id(ref.strip())
    if kind in DONE_BY:
        raise InputError(
            "ARGUMENT_INVALID", f"{ref} is no notification but a {kind}: {DONE_BY[kind]} does that"
        )


def next_command(entry: InboxEntry) -> str:
    """Command that shows the subject of an entry, "" if there is none."""
    return SHOWN_BY.get(kind_of_id(entry.next), "").format(entry.next)


def _entry_json(entry: InboxEntry) -> dict[str, object]:
    return {
        "id": entry.id,
        "kind": entry.kind,
        "type": entry.type,
        "about": entry.about,
        "title": entry.title,
        "why": entry.why,
        "at": moment(entry.at),
        "next": next_command(entry),
        "sensitive": entry.sensitive,
    }
