"""`cortex core token …`: access tokens of principals.

A token is shown once, when it is created; the Core keeps a hash.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from cortex.base.errors import InputError
from cortex.engine.store.records.principals import Token
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.commands.options import DbOption, NameArgument, ledger, report
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import moment, print_json, say

DAY_MS = 86_400_000
MOST_LABEL = 100

app = typer.Typer(name="token", help="Tokens: create, revoke, list.", no_args_is_help=True)


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
    """Create a token for a principal and show it, only this once."""
    if len(label) > MOST_LABEL or not label.isprintable():
        raise InputError(
            "ARGUMENT_INVALID", f"a label is one line of at most {MOST_LABEL} characters"
        )
    with ledger(db) as opened:
        principal = principals.find(opened, name)
        expires = int(time.time() * 1000) + days * DAY_MS if days else 0
        token, secret = opened.principals.make_token(principal.id, label, expires)
    if as_json:
        print_json({**_as_json(token, principal.name), "token": secret})
    else:
        say(secret)
        say(
            f"A token of {principal.name}, shown this once. On their machine: cortex connect URL",
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
    return report(as_json, {"id": number, "revoked": True}, f"✓ Revoked {number}")


@app.command("list")
def list_tokens(db: DbOption = "", as_json: JsonFlag = False) -> int:
    """Show all tokens, without what makes them tokens."""
    with ledger(db) as opened:
        names = {principal.id: principal.name for principal in opened.principals.all()}
        tokens = opened.principals.tokens()
    if as_json:
        print_json(
            {"tokens": [_as_json(token, names.get(token.principal, "")) for token in tokens]}
        )
        return 0
    for token in tokens:
        say(
            f"{token.id}  "
            f"{names.get(token.principal, '')}{f' ({token.label})' if token.label else ''}: "
            f"{_state(token)}"
        )
    if not tokens:
        say("No tokens yet: `cortex core token create NAME` makes one.", error=True)
    return 0


def _as_json(token: Token, name: str) -> dict[str, object]:
    return {
        "id": token.id,
        "principal": name,
        "label": token.label,
        "created_at": moment(token.created),
        "expires_at": moment(token.expires) or None,
        "used_at": moment(token.used) or None,
        "revoked_at": moment(token.revoked) or None,
    }


def _state(token: Token) -> str:
    if token.revoked:
        return f"revoked {moment(token.revoked)}"
    if token.expires and token.expires <= time.time() * 1000:
        return f"over since {moment(token.expires)}"
    until = f", until {moment(token.expires)}" if token.expires else ""
    return (
        f"made {moment(token.created)}, "
        f"{f'used {moment(token.used)}' if token.used else 'never used'}{until}"
    )
