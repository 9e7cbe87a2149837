"""`cortex core principal …`: principals, their permissions and their scopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cortex.base.errors import InputError
from cortex.base.visibility import EVERYWHERE
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.principals import Principal
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.commands.options import DbOption, NameArgument, ledger, report
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import moment, print_json, say

TIERS = (
    "0 reads; 1 observes and drafts; 2 writes threads, comments, tasks; 3 approves and accepts; "
    "4 everything."
)
SLUG = "A subcortex by its slug or id; *: all that aren't private."

ScopeArgument = Annotated[str, typer.Argument(metavar="SLUG", help=SLUG)]

app = typer.Typer(
    name="principal",
    help="Who may use the Core, and what each may see and do.",
    no_args_is_help=True,
)


@app.command()
def add(
    name: NameArgument,
    tier: Annotated[int, typer.Option("--tier", min=0, max=4, metavar="N", help=TIERS)] = 2,
    read: Annotated[
        list[str] | None,
        typer.Option("--read", metavar="SLUG", help=f"Reads there. {SLUG} May be repeated."),
    ] = None,
    write: Annotated[
        list[str] | None,
        typer.Option(
            "--write",
            metavar="SLUG",
            help="Reads and writes there; may be repeated. Without --read and --write: *.",
        ),
    ] = None,
    sensitive: Annotated[
        bool, typer.Option("--sensitive", help="Sees what is sensitive, too.")
    ] = False,
    db: DbOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Add a person or agent to the Core; `cortex core token create NAME` gives them access."""
    with ledger(db) as opened:
        if opened.principals.named(name):
            raise InputError(
                "RECORD_INVALID",
                f"there is a principal {name!r} already",
                context={"field": "name"},
                instead=(
                    f"`cortex core principal change {name}` changes what they may do, "
                    f"`cortex core token create {name}` lets them in.",
                ),
            )
        grants = _grants(opened, read or (), write or ())
        principal = principals.add(opened, name, tier, sensitive, grants)
        slugs = _slugs(opened)
    if as_json:
        print_json(_as_json(principal, slugs))
    else:
        say(f"✓ Added {_line(principal, slugs)}")
        say(f"  Let them in: cortex core token create {principal.name}")
    return 0


@app.command("list")
def list_principals(db: DbOption = "", as_json: JsonFlag = False) -> int:
    """List the principals of the Core."""
    with ledger(db) as opened:
        known, slugs = opened.principals.all(), _slugs(opened)
    if as_json:
        print_json({"principals": [_as_json(principal, slugs) for principal in known]})
        return 0
    for principal in known:
        say(_line(principal, slugs))
    if not known:
        say("None yet: `cortex core init` adds the first.", error=True)
    return 0


@app.command()
def change(
    name: NameArgument,
    tier: Annotated[
        int | None, typer.Option("--tier", min=0, max=4, metavar="N", help=TIERS)
    ] = None,
    sensitive: Annotated[
        bool | None,
        typer.Option("--sensitive/--no-sensitive", help="Whether they see what is sensitive."),
    ] = None,
    revoke: Annotated[
        bool | None,
        typer.Option(
            "--revoke/--restore", help="Lock them out, with all their tokens, or let them in again."
        ),
    ] = None,
    db: DbOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Change what a principal may do; what they wrote stays."""
    if tier is None and sensitive is None and revoke is None:
        raise InputError(
            "ARGUMENT_INVALID",
            "nothing to change: say --tier, --sensitive, --revoke or their opposites",
        )
    state = None if revoke is None else principals.REVOKED if revoke else principals.ACTIVE
    with ledger(db) as opened:
        known = principals.find(opened, name)
        return _print_principal(
            opened,
            principals.change(opened, known, tier=tier, sensitive=sensitive, state=state),
            as_json,
        )


@app.command()
def grant(
    name: NameArgument,
    scope: ScopeArgument,
    write: Annotated[bool, typer.Option("--write", help="They may write there, too.")] = False,
    db: DbOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Let a principal read in a subcortex, or also write; a private one has to be named."""
    with ledger(db) as opened:
        return _print_principal(
            opened,
            principals.grant(opened, principals.find(opened, name), scope, writes=write),
            as_json,
        )


@app.command()
def ungrant(
    name: NameArgument, scope: ScopeArgument, db: DbOption = "", as_json: JsonFlag = False
) -> int:
    """Revoke a principal's access to a subcortex; it leaves their machine with the next sync."""
    with ledger(db) as opened:
        return _print_principal(
            opened, principals.ungrant(opened, principals.find(opened, name), scope), as_json
        )


def _print_principal(opened: Ledger, principal: Principal, as_json: bool) -> int:
    slugs = _slugs(opened)
    return report(as_json, _as_json(principal, slugs), f"✓ {_line(principal, slugs)}")


def _grants(opened: Ledger, read: Sequence[str], write: Sequence[str]) -> dict[str, bool]:
    if not read and not write:
        return {EVERYWHERE: True}
    grants = {principals.scope_named(opened, scope): False for scope in read}
    return grants | {principals.scope_named(opened, scope): True for scope in write}


def _slugs(opened: Ledger) -> dict[str, str]:
    """Return the slugs of all granted subcortexes by id."""
    scopes = {
        scope
        for principal in opened.principals.all()
        for scope in principal.grants
        if scope != EVERYWHERE
    }
    subcortexes = opened.records.get(sorted(scopes))
    return {scope_id: record.body.slug for scope_id, record in subcortexes.items()}


def _as_json(principal: Principal, slugs: dict[str, str]) -> dict[str, object]:
    return {
        "id": principal.id,
        "name": principal.name,
        "tier": principal.tier,
        "sensitive": principal.sensitive,
        "state": principal.state,
        "created_at": moment(principal.created),
        "grants": [
            {"subcortex": scope, "slug": slugs.get(scope, scope), "writes": writes}
            for scope, writes in principal.grants.items()
        ],
    }


def _line(principal: Principal, slugs: dict[str, str]) -> str:
    places = [
        f"{slugs.get(scope, scope)}{'' if writes else ' (reads)'}"
        for scope, writes in principal.grants.items()
    ]
    more = [
        *(["sensitive too"] if principal.sensitive else ()),
        *([principal.state] if principal.state != principals.ACTIVE else ()),
    ]
    return ", ".join(
        [f"{principal.name}: tier {principal.tier}", f"in {', '.join(places) or 'nothing'}", *more]
    )
