"""`cortex profile create` and `list`: separate homes on one machine.

Each profile has its own records, server and cortexd. A profile exists if its folder does. This
module doesn't know which other commands may create one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import InputError
from cortex.base.paths import ensure_store_dir
from cortex.base.runtime.file_lock import is_held
from cortex.base.runtime.home import NAMES, PROFILES, is_profile, profile_names
from cortex.base.runtime.rendezvous import meet_at
from cortex.base.settings import environment, find_home
from cortex.families.team.commands.sync_status import server_of
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say

app = typer.Typer(
    name="profile",
    help="Homes of their own, for several teams on one machine.",
    no_args_is_help=True,
)


@app.command("create")
def create_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called.")],
    as_json: JsonFlag = False,
) -> int:
    """Begin a profile: a home of its own, with nothing in it."""
    if not is_profile(name):
        raise InputError("ARGUMENT_INVALID", f"{name!r} can't be a profile's name: that is {NAMES}")
    home = find_home({**environment(), "CORTEX_PROFILE": name}, Path.home())
    new = not home.is_dir()
    ensure_store_dir(home)
    if as_json:
        print_json({"name": name, "home": str(home), "created": new})
    else:
        say(f"✓ {'Began' if new else 'There is already'} the profile {name}: {home}")
        say(f"  It is used by `cortex --profile {name}` before a command.", error=True)
    return 0


@app.command("list")
def list_profiles(as_json: JsonFlag = False) -> int:
    """Show the profiles on this machine: where each is, which server it syncs with, and whether its
    cortexd runs.
    """
    variables = environment()
    current = variables.get("CORTEX_PROFILE", "")
    home = find_home({**variables, "CORTEX_PROFILE": ""}, Path.home())
    rows = [
        _row("", home, current),
        *(_row(name, home / PROFILES / name, current) for name in profile_names(str(home))),
    ]
    if as_json:
        print_json({"profiles": rows})
        return 0
    for row in rows:
        mark = "*" if row["current"] else " "
        runs = "cortexd runs" if row["running"] else "cortexd doesn't run"
        say(
            f"{mark} {row['name'] or '(no profile)'}: {row['server'] or 'no server'}, "
            f"{runs}, {row['home']}"
        )
    if len(rows) == 1:
        say("No profiles yet: `cortex profile create NAME` begins one.", error=True)
    return 0


def _row(name: str, home: Path, current: str) -> dict[str, object]:
    return {
        "name": name,
        "current": name == current,
        "home": str(home),
        "server": server_of(home),
        "running": is_held(meet_at(str(home)).lock),
    }
