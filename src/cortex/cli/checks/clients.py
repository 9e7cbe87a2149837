"""Whether the clients' entries lead to this program: a command that is gone is the most frequent reason for "server failed"."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

from cortex.cli.checks import Finding, error, ok, warning
from cortex.errors import CortexError
from cortex.install import files, plans
from cortex.install.clients import CLIENTS, NAME, Client, Machine, entry_file
from cortex.install.entries import Server, is_ours, read_entry
from cortex.install.jsonc import Broken


def check_clients(machine: Machine, roots: list[Path], home: Path) -> Iterator[Finding]:
    """Look at the entry called cortex in every client's file, the person's and the projects'."""
    found = 0
    for root in (None, *roots):
        for client in CLIENTS:
            file = entry_file(client, machine, root)
            if file is None or not file.is_file():
                continue
            try:
                content = files.read(file, root)
                entry = read_entry(files.read_text(file, content or b""), client)
            except (Broken, CortexError) as broken:
                yield warning("clients", f"{client.title}: {file} can't be read: {broken}", "Repair it in an editor.")
                continue
            if entry is not None:
                found += 1
                again = partial(_connect_again, client, entry, machine, home) if root is None else None
                yield _judge(client, file, entry, root, again)
    if not found:
        yield ok("clients", "no client has an entry for Cortex; `cortex install` makes them")


def _judge(client: Client, file: Path, entry: object, root: Path | None, repair: Callable[[], str] | None) -> Finding:
    where = f"{client.title} ({file})"
    again = f"cortex install {client.name}{' --scope project' if root else ''}"
    if not is_ours(entry):
        return warning("clients", f"{where} has another server called {NAME}", f"Rename it, or {again} --replace.")
    command, arguments = _command(entry)
    program = shutil.which(command)
    if program is None:
        if not os.path.dirname(command):
            fix = f"Put {sysconfig.get_path('scripts')} on the PATH, or connect it by its full path: cortex install {client.name}"
            return error("clients", f"{where} starts {command}, which is not on the PATH", fix, repair)
        return error("clients", f"{where} starts {command}, which isn't there or can't be run", again, repair)
    for path in _after("--workspace", arguments):
        if os.path.isabs(path) and not os.path.isdir(path):
            return error("clients", f"{where} serves {path}, which is no folder", f"{again} --workspace FOLDER")
    ours = Path(sysconfig.get_path("scripts"))
    name = os.path.basename(program).lower()
    if name.startswith("cortex") and os.path.realpath(os.path.dirname(program)) != os.path.realpath(ours):
        return warning("clients", f"{where} starts {program}, another installation than this one in {ours}", again)
    return ok("clients", f"{where} starts {program}")


def _connect_again(client: Client, entry: object, machine: Machine, home: Path) -> str:
    """Let a person's entry start this program; its arguments and all else of it stay. Raises: CortexError."""
    from cortex.cli.install import own_program

    program = own_program()
    wish = plans.Wish(Server(program, tuple(_command(entry)[1])))
    for edit in plans.plan_install([client], machine, None, wish):
        plans.install(edit, home)
    return f"{client.title} starts {program} now"


def _command(entry: object) -> tuple[str, list[str]]:
    """The program and its arguments, in whichever shape a client writes them down."""
    assert isinstance(entry, Mapping)
    inner = entry.get("transport")
    if isinstance(inner, Mapping):
        return _command(inner)
    command, arguments = entry.get("command"), entry.get("args", [])
    if isinstance(command, list):
        command, arguments = command[0], command[1:]
    return str(command), [str(one) for one in arguments]


def _after(option: str, arguments: list[str]) -> list[str]:
    return [value for word, value in pairwise(arguments) if word == option]
