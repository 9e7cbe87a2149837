"""`cortex core token …`: what lets somebody in.

A token is shown once, when it is made; the Core keeps a hash.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from cortex.base.errors import InputError
from cortex.engine.store.records.principals import Token
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.commands.options import DbOption, NameArgument, ledger
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import moment, print_json, say

DAY_MS = 86_400_000
MOST_LABEL = 100

app = typer.Typer(
    name="token", help="What lets somebody in: made, revoked, listed.", no_args_is_help=True
)


@app.command()
def create(
    name: NameArgument,
    label: Annotated[
        str, typer.Option("--label", metavar="TEXT", help="What it is for, such as a machine.")
    ] = "",
    days: Annotated[
        int,
        typer.Option(
            "--days",
            min=0,
            max=3650,
            metavar="N",
            help="How long it counts; 0: until it is revoked.",
        ),
    ] = 0,
    db: DbOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Make a token for somebody and show it, this once."""
    if len(label) > MOST_LABEL or not label.isprintable():
        raise InputError(
            "ARGUMENT_INVALID", f"a label is one line of at most {MOST_LABEL} characters"
        )
    with ledger(db) as opened:
        whose = principals.find(opened, name)
        expires = int(time.time() * 1000) + days * DAY_MS if days else 0
        made, secret = opened.principals.make_token(whose.id, label, expires)
    if as_json:
        print_json({**_as_json(made, whose.name), "token": secret})
    else:
        say(secret)
        say(
            f"A token of {whose.name}, shown this once. On their machine: cortex connect URL",
            error=True,
        )
    return 0


@app.command()
def revoke(
    number: Annotated[
        str,
        typer.Argument(metavar="ID", help="The token's id, as `cortex core token list` shows it."),
    ],
    db: DbOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Let a token count no more, at once."""
    with ledger(db) as opened:
        if not opened.principals.revoke(number):
            known = any(token.id == number for token in opened.principals.tokens())
            raise InputError(
                "RECORD_UNKNOWN",
                f"the token {number!r} was revoked before"
                if known
                else f"there is no token {number!r}",
                context={"type": "token", "id": number},
                instead=("`cortex core token list` shows them.",),
            )
    if as_json:
        print_json({"id": number, "revoked": True})
    else:
        say(f"✓ Revoked {number}")
    return 0


@app.command("list")
def list_tokens(db: DbOption = "", as_json: JsonFlag = False) -> int:
    """Show all tokens, without what makes them tokens."""
    with ledger(db) as opened:
        names = {one.id: one.name for one in opened.principals.all()}
        found = opened.principals.tokens()
    if as_json:
        print_json({"tokens": [_as_json(one, names.get(one.principal, "")) for one in found]})
        return 0
    for one in found:
        say(
            f"{one.id}  {names.get(one.principal, '')}{f' ({one.label})' if one.label else ''}: {_state(one)}"
        )
    if not found:
        say("No tokens yet: `cortex core token create NAME` makes one.", error=True)
    return 0


def _as_json(one: Token, name: str) -> dict[str, object]:
    return {
        "id": one.id,
        "principal": name,
        "label": one.label,
        "created_at": moment(one.created),
        "expires_at": moment(one.expires) or None,
        "used_at": moment(one.used) or None,
        "revoked_at": moment(one.revoked) or None,
    }


def _state(one: Token) -> str:
    if one.revoked:
        return f"revoked {moment(one.revoked)}"
    if one.expires and one.expires <= time.time() * 1000:
        return f"over since {moment(one.expires)}"
    until = f", until {moment(one.expires)}" if one.expires else ""
    return f"made {moment(one.created)}, {f'used {moment(one.used)}' if one.used else 'never used'}{until}"
