"""`cortex connect` and `cortex disconnect`: join a team's Core with all that is here, and leave it with all that is here.

A token is never an argument: command lines are seen by everybody on a machine, and kept by shells.
"""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from cortex.cli.library import open_library
from cortex.cli.options import JsonFlag, ProfileOption
from cortex.cli.show import print_json, say
from cortex.cli.sync import EXITS, as_rows, given_up_row, run_sync, tell, tell_given_up
from cortex.errors import FileError, InputError, explained
from cortex.settings import environment
from cortex.sync import connecting, giving_up, state
from cortex.sync.connecting import MAX_TOKEN, TOKEN_VARIABLE


def connect(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The Core's address; default: the setting team.server.")
    ] = "",
    token_file: Annotated[
        str,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help=f"A file that has the token; -: stdin. Default: ${TOKEN_VARIABLE}, or else it is asked for.",
        ),
    ] = "",
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Allow http:// beyond this machine: everybody in between can read all.")
    ] = False,
    moved: Annotated[
        bool, typer.Option("--moved", help="It is the same team's Core, restored or renewed at another address.")
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Join a team's Core: what is here is sent there, once, and what you may see of it comes here; then sync for a first time."""
    with open_library(profile) as library:
        address = url or library.settings.team.server
        if not address:
            raise InputError("ARGUMENT_INVALID", "which Core? Name its address, such as https://core.example.org")
        before = library.store.truth.get(state.URL)
        joined = connecting.connect(library, address, _token(token_file), plain=plain_http, moved=moved)
        elsewhere = joined.again and joined.url != before
        if not as_json:
            begin = f"Moved from {before}" if elsewhere else "Still connected" if joined.again else "Connected"
            say(f"✓ {begin} to {joined.url} as {joined.name} (tier {joined.tier})")
        done = run_sync(library)
    if as_json:
        about = {"server": joined.url, "name": joined.name, "tier": joined.tier, "again": joined.again}
        moved_from = before if elsewhere else None
        print_json({**about, "movedFrom": moved_from, "queued": joined.queued, "sync": as_rows(done)})
    else:
        tell(done)
    return EXITS[done.outcome.status]


def disconnect(
    force: Annotated[
        bool,
        typer.Option("--force", help="Also where writes wait or were refused: they are never sent, but stay here."),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Leave the Core: all records stay here, the token goes, and nothing is sent or fetched any more."""
    with open_library(profile) as library:
        count, file = giving_up.give_up(library) if force else (0, None)
        url = connecting.disconnect(library, force=force)
    if as_json:
        print_json({"server": url or None, "givenUp": given_up_row(count, file)})
    else:
        tell_given_up(count, file)
        say(f"✓ Left {url}; all records stay here" if url else "no Core was connected")
    return 0


def _token(told: str) -> str:
    """The token, from wherever nobody else reads along. Raises: InputError, FileError."""
    if told == "-":
        return sys.stdin.readline(MAX_TOKEN + 1)
    if told:
        try:
            with open(Path(told), encoding="utf-8", errors="replace") as file:
                return file.readline(MAX_TOKEN + 1)
        except FileNotFoundError:
            message = f"there is no file {told} to read the token from"
            raise FileError("FILE_NOT_FOUND", message, instead=("Check the name after --token-file.",)) from None
        except OSError as error:
            raise explained(error, f"reading {told}") from error
    if token := environment().get(TOKEN_VARIABLE):
        return token
    if not sys.stdin.isatty():
        raise InputError(
            "ARGUMENT_INVALID",
            "there is no terminal to ask for the token on",
            suggestions=(f"Take --token-file FILE, --token-file - for stdin, or {TOKEN_VARIABLE}.",),
        )
    return getpass.getpass("Token: ", stream=sys.stderr)
