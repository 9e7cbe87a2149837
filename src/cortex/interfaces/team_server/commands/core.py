"""`cortex core …`: create, serve, migrate, back up and restore a team server."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from cortex.base.errors import FileError, InputError, explained
from cortex.base.runtime.atomic_file import atomic_write
from cortex.base.visibility import EVERYWHERE
from cortex.engine.store.records.ledger import Ledger
from cortex.interfaces.team_server import principals as people
from cortex.interfaces.team_server.commands import principals as core_people
from cortex.interfaces.team_server.commands import tokens
from cortex.interfaces.team_server.commands.options import (
    DataOption,
    DbOption,
    core_settings,
    database,
    index_folder,
    ledger,
    report,
    shown,
)
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import many, print_json, say

FIRST_LABEL = "first"
FALLBACK = "admin"

app = typer.Typer(
    name="core", help="A team's server: make it, run it, say who may use it.", no_args_is_help=True
)
app.add_typer(core_people.app)
app.add_typer(tokens.app)


@app.command()
def init(
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="NAME", help="The first principal's name; default: your login name."
        ),
    ] = "",
    db: DbOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Make a Core: its tables, and a first principal who may do everything, with a token that is
    shown once.
    """
    url = database(db)
    with ledger(db, new=True) as opened:
        known = opened.principals.all()
        if known:
            raise InputError(
                "ARGUMENT_INVALID",
                (
                    f"there is a Core at {shown(url)} already; it knows "
                    f"{', '.join(principal.name for principal in known[:5])}"
                ),
                suggestions=(
                    "`cortex core token create NAME` creates a token for a known principal.",
                ),
            )
        first = people.add(opened, name or _own_name(), people.HIGHEST, True, {EVERYWHERE: True})
        made, secret = opened.principals.make_token(first.id, FIRST_LABEL)
    if as_json:
        print_json(
            {"database": shown(url), "principal": first.name, "tokenId": made.id, "token": secret}
        )
        return 0
    say(f"✓ Made a Core: {shown(url)}", error=True)
    say(f"  {first.name} may do everything there. The token, shown this once:", error=True)
    say(secret)
    say("  Next: cortex core serve; then, on each machine: cortex connect URL", error=True)
    return 0


@app.command()
def serve(
    db: DbOption = "",
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help=(
                "Where to listen; default: core.host, this machine alone. Any other wants TLS "
                "or --behind-proxy."
            ),
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_535,
            metavar="PORT",
            help="The port; default: core.port; 0: any.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-cert", metavar="FILE", help="The certificate with its chain, as PEM."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, as PEM.")
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy", help="A proxy does TLS, and only the proxy reaches this port."
        ),
    ] = False,
    data: DataOption = None,
) -> int:
    """Serve the Core until it is stopped: REST at /api/v2, /health and /metrics."""
    settings = core_settings()
    url = database(db)
    folder = index_folder(url, data)
    with ledger(db) as opened:
        if not opened.principals.all():
            say("warning: there is no principal yet; `cortex core init` adds the first", error=True)
        # Imported here, since it loads all of the server.
        from cortex.interfaces.team_server.runner import serve_core

        return serve_core(
            opened,
            settings,
            folder,
            host=host,
            port=port,
            tls_cert=tls_cert,
            tls_key=tls_key,
            behind_proxy=behind_proxy,
            ready=lambda address: say(
                f"serving {shown(url)} at {address}; press Ctrl-C to stop", error=True
            ),
        )


@app.command()
def migrate(db: DbOption = "", as_json: JsonFlag = False) -> int:
    """Bring the tables of a Core up to date with this version; every other command does so, too."""
    url = database(db)
    with ledger(db) as opened:
        body = {"database": shown(url), **_counts(opened)}
    return report(as_json, body, f"✓ {shown(url)} is up to date: {_counted(body)}")


@app.command()
def backup(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it; a file that is there stays.")
    ],
    db: DbOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Save everything of a Core into one file, while it is served: records, versions, audit log,
    principals, hashes of tokens.
    """
    from cortex.engine.store.records.backup import dump

    if os.path.lexists(file):
        raise InputError("ARGUMENT_INVALID", f"{file} is there already; nothing was written")
    with ledger(db) as opened, atomic_write(file) as temporary:
        dump(opened, temporary)
    size = file.stat().st_size
    return report(
        as_json,
        {"file": str(file.absolute()), "bytes": size},
        f"✓ Wrote {file}: {size:,} bytes. It holds all that the team wrote: keep it as private as "
        "that.",
    )


@app.command()
def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that `cortex core backup` wrote.")
    ],
    db: DbOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Make a Core of a backup, in a database that is empty; clients notice it, and send again what
    the backup doesn't have.
    """
    from cortex.engine.store.records.backup import check, load
    from cortex.families.team.index_text import wording

    if not file.is_file():
        raise FileError(
            "FILE_NOT_FOUND",
            f"{file} is no file",
            instead=("Name a file that `cortex core backup` wrote.",),
        )
    url = database(db)
    try:
        counts = check(file)
    except OSError as error:
        raise explained(error, f"reading {file}") from error
    with ledger(db, new=True) as opened:
        try:
            load(opened, file, wording=wording(core_settings()), counts=counts)
        # The database isn't empty.
        except InputError as error:
            error.suggestions = (
                "Name an empty database with --db, or set CORTEX_HOME to another folder.",
            )
            raise
        body = {"database": shown(url), **_counts(opened)}
    report(as_json, body, f"✓ Restored {file} into {shown(url)}: {_counted(body)}")
    if not as_json:
        say(
            "  Tokens and grants are those of the backup: revoke again what was revoked "
            "since (cortex core token list)."
        )
    return 0


@app.command()
def renew(db: DbOption = "", as_json: JsonFlag = False) -> int:
    """Say that the database was put back by other means than restore: every replica compares
    everything with it.
    """
    url = database(db)
    with ledger(db) as opened:
        opened.renew_epoch()
        body = {"database": shown(url), **_counts(opened)}
    return report(
        as_json,
        body,
        f"✓ {shown(url)} begins another history at change {body['change']:,}: all replicas compare "
        "everything",
    )


def _counted(body: Mapping[str, Any]) -> str:
    return f"change {body['change']:,}, {many(body['principals'], 'principal')}"


def _counts(opened: Ledger) -> dict[str, object]:
    return {
        "change": opened.records.last_change(),
        "principals": len(opened.principals.all()),
        "tokens": sum(not token.revoked for token in opened.principals.tokens()),
    }


def _own_name() -> str:
    """Derive a principal name from the login name."""
    # The user of a container may have no name.
    with suppress(OSError, KeyError, ImportError):
        name = re.sub(r"[^a-z0-9._-]", "", getpass.getuser().lower())
        if people.NAME.fullmatch(name) and name not in people.TAKEN:
            return name
    return FALLBACK
