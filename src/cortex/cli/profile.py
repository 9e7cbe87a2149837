"""`cortex profile list`: the homes of their own that there are on this machine, each with its records, server and cortexd.

There is no command that makes one: a profile is there once something was written in it.
"""

from __future__ import annotations

from pathlib import Path

import typer

from cortex.cli.options import JsonFlag
from cortex.cli.show import print_json, say
from cortex.cli.syncing import server_of
from cortex.daemon import control
from cortex.daemon.rendezvous import meet_at
from cortex.home import PROFILES, is_profile
from cortex.settings import environment, find_home

app = typer.Typer(name="profile", help="Homes of their own, for several teams on one machine.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Has `list` be a command of its own although it is the only one."""


@app.command("list")
def list_profiles(as_json: JsonFlag = False) -> int:
    """Show the profiles on this machine: where each is, which server it syncs with, and whether its cortexd runs."""
    variables = environment()
    current = variables.get("CORTEX_PROFILE", "")
    home = find_home({**variables, "CORTEX_PROFILE": ""}, Path.home())
    rows = [_row("", home, current), *(_row(name, home / PROFILES / name, current) for name in _names(home))]
    if as_json:
        print_json({"profiles": rows})
        return 0
    for one in rows:
        mark = "*" if one["current"] else " "
        runs = "cortexd runs" if one["running"] else "cortexd doesn't run"
        say(f"{mark} {one['name'] or '(no profile)'}: {one['server'] or 'no server'}, {runs}, {one['home']}")
    if len(rows) == 1:
        say("No profiles yet: any command with `cortex --profile NAME` begins one.", error=True)
    return 0


def _names(home: Path) -> list[str]:
    try:
        return sorted(one.name for one in (home / PROFILES).iterdir() if one.is_dir() and is_profile(one.name))
    except OSError:  # there are none
        return []


def _row(name: str, home: Path, current: str) -> dict[str, object]:
    return {
        "name": name,
        "current": name == current,
        "home": str(home),
        "server": server_of(home),
        "running": control.is_held(meet_at(str(home)).lock),
    }
