"""Installations of our server into the files of a client."""

from __future__ import annotations

from pathlib import Path

from cortex.interfaces.install.clients import entry_file, find_client
from cortex.interfaces.install.config_entries import ServerEntry
from cortex.interfaces.install.plans import (
    InstallOptions,
    install,
    plan_install,
    plan_uninstall,
    uninstall,
)
from interfaces.install.machines import Place

SERVER = ServerEntry("/opt/cortex", ("mcp",))
WISH = InstallOptions(SERVER)


def written(place: Place, name: str, text: str) -> Path:
    file = entry_file(find_client(name), place.machine, None)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def connect(place: Place, name: str, wish: InstallOptions = WISH) -> None:
    for edit in plan_install([find_client(name)], place.machine, None, wish):
        install(edit, place.home)


def disconnect(place: Place, name: str) -> None:
    uninstall(plan_uninstall([find_client(name)], place.machine, None, place.home, []), place.home)
