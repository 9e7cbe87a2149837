"""Check that the entries of clients lead to this program and to existing folders.

A wrong entry is the usual reason for a "server failed". Repairs work like `cortex install`:
planned, recorded with a backup, undone by `cortex uninstall`. Only entries that start `cortex mcp`
are touched, and only their program, arguments and folder. A working entry of another installation
is left alone: it can't be known which of two is wanted.
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from cortex.base.errors import ConfigError, CortexError
from cortex.interfaces.cli.checks import Finding, error, ok, warning
from cortex.interfaces.install import plans, safe_files, undo_log
from cortex.interfaces.install.clients import (
    CLIENTS,
    NAME,
    Client,
    Hooks,
    Machine,
    entry_file,
    hooks_file,
)
from cortex.interfaces.install.config_entries import (
    ServerEntry,
    add_hooks,
    change_entry,
    is_ours,
    read_entry,
    read_hook_programs,
    read_server,
    read_variables,
)
from cortex.interfaces.install.jsonc_edit import Broken
from cortex.interfaces.install.plans import WORKSPACE

VARIABLE = "CODEINDEX_WORKSPACE_PATH"
# The program in a project's file, which has no path of one machine.
SHARED = "cortex"
# Text that clients and shells expand.
_EXPANDED = re.compile(r"\$|^~|%[^%]+%")


@dataclass(frozen=True, slots=True)
class Spot:
    """Location of a client's entry: of the user, or of the project at `root`."""

    client: Client
    file: Path
    root: Path | None
    machine: Machine
    # The home with the undo log.
    home: Path

    @property
    def where(self) -> str:
        """The client and its file, for people."""
        return f"{self.client.title} ({self.file})"

    @property
    def again(self) -> str:
        """The command that creates the entry again."""
        return f"cortex install {self.client.name}{' --scope project' if self.root else ''}"

    def read(self) -> object:
        """Return the current entry.

        Raises: Broken, CortexError.
        """
        return read_entry(
            safe_files.read_text(self.file, safe_files.read(self.file, self.root) or b""),
            self.client,
        )

    def started(self) -> tuple[ServerEntry, str]:
        """Return the server of the entry, and the folder named by a variable.

        Raises: ConfigError, where it isn't ours any more.
        """
        entry = self.read()
        server = read_server(entry)
        if server is None or not is_ours(entry):
            raise ConfigError("CLIENT_FILE_INVALID", f"{self.file} has changed meanwhile")
        return server, str(read_variables(entry).get(VARIABLE, ""))

    def find(self, program: str) -> str | None:
        """Return the path of a program, None where it doesn't exist.

        A program that only the client can resolve is returned as it is written.
        """
        if _EXPANDED.search(program):
            return program
        # Relative to the project, or to the unknown working folder of the client.
        if os.path.dirname(program) and not os.path.isabs(program):
            return program if self.root is None else shutil.which(str(self.root / program))
        return shutil.which(program)

    def change(self, server: ServerEntry, without: str = "") -> None:
        """Change the server of the entry.

        Raises: CortexError; the file is unchanged then.
        """
        changed = partial(change_entry, client=self.client, server=server, without=without)
        plans.install(plans.plan_change(self.client, self.file, self.root, changed), self.home)

    def remove(self) -> None:
        """Remove the entry, as `cortex uninstall` does.

        Raises: CortexError.
        """
        failed: list[str] = []
        plans.uninstall(
            plans.plan_uninstall([self.client], self.machine, self.root, self.home, failed),
            self.home,
        )
        if failed:
            raise ConfigError("CLIENT_FILE_INVALID", failed[0])


def check_clients(machine: Machine, roots: list[Path], home: Path) -> Iterator[Finding]:
    """Check the entry called cortex in every client's file, of the user and of projects."""
    count = 0
    for root in (None, *roots):
        for client in CLIENTS:
            file = entry_file(client, machine, root)
            if file is None or not file.is_file():
                continue
            spot = Spot(client, file, root, machine, home)
            try:
                entry = spot.read()
            except (Broken, CortexError) as broken:
                yield warning(
                    "clients",
                    f"{client.title}: {file} can't be read: {broken}",
                    "Repair it in an editor.",
                )
                continue
            if entry is not None:
                count += 1
                yield from _check_entry(spot, entry)
    if not count:
        yield ok("clients", "no client has an entry for Cortex; `cortex install` makes them")
    for root in (None, *roots):
        # Some clients share a file.
        owners: dict[Path | None, list[Client]] = {}
        for client in CLIENTS:
            owners.setdefault(hooks_file(client, machine, root), []).append(client)
        for file, clients in owners.items():
            if file is not None and file.is_file():
                known = undo_log.read_record(home, file)
                owner = next(
                    (
                        candidate
                        for candidate in clients
                        if known and candidate.name in known.clients
                    ),
                    clients[0],
                )
                yield from _check_hooks(Spot(owner, file, root, machine, home))


def _check_entry(spot: Spot, entry: object) -> Iterator[Finding]:
    server = read_server(entry)
    if server is None or not is_ours(entry):
        fix = f"Rename it, or {spot.again} --replace."
        yield warning("clients", f"{spot.where} has another server called {NAME}", fix)
        return
    faults = [
        *_check_program(spot, server),
        *_check_folders(spot, server, str(read_variables(entry).get(VARIABLE, ""))),
    ]
    yield from faults or [_report_sound(spot, server)]


def _report_sound(spot: Spot, server: ServerEntry) -> Finding:
    program = str(spot.find(server.command))
    ours = sysconfig.get_path("scripts")
    text = f"{spot.where} starts {program}"
    name = os.path.basename(program).lower()
    known = os.path.isabs(program) and not _EXPANDED.search(program)
    if (
        known
        and name.startswith("cortex")
        and os.path.realpath(os.path.dirname(program)) != os.path.realpath(ours)
    ):
        text += f", another installation than this one in {ours}; that works, and is left as it is"
    return ok("clients", text)


def _check_program(spot: Spot, server: ServerEntry) -> Iterator[Finding]:
    if spot.find(server.command) is not None:
        return
    if os.path.dirname(server.command):
        text = f"{spot.where} starts {server.command}, which isn't there or can't be run"
        yield error("clients", text, spot.again, lambda: _start_this(spot))
        return
    text = f"{spot.where} starts {server.command}, which is not on the PATH"
    fix = f"Put {sysconfig.get_path('scripts')} on the PATH"
    if spot.root is None:
        yield error(
            "clients",
            text,
            f"{fix}, or connect it by its full path: {spot.again}",
            lambda: _start_this(spot),
        )
    else:
        yield error("clients", text, f"{fix}.")


def _start_this(spot: Spot) -> str:
    """Let an entry start this program; its arguments and all other settings stay."""
    from cortex.interfaces.cli.install import own_program

    server, _ = spot.started()
    program = own_program() if spot.root is None else SHARED
    spot.change(ServerEntry(program, server.arguments[server.arguments.index("mcp") :]))
    return f"{spot.client.title} starts {program} now"


def _check_hooks(spot: Spot) -> Iterator[Finding]:
    hooks = spot.client.hooks
    assert hooks is not None
    try:
        text = safe_files.read_text(spot.file, safe_files.read(spot.file, spot.root) or b"")
        programs = read_hook_programs(text, hooks)
    # A broken file of hooks is ignored: no hook of ours runs from it.
    except (Broken, CortexError):
        return
    for program in programs:
        if spot.find(program) is None:
            text = f"the hooks of {spot.where} run {program}, which isn't there or can't be run"
            fixable = spot.root is None or os.path.dirname(program)
            yield error(
                "hooks",
                text,
                f"{spot.again} --hooks",
                (lambda: _run_this(spot, hooks)) if fixable else None,
            )
            return


def _run_this(spot: Spot, hooks: Hooks) -> str:
    """Let the present hooks run this program."""
    from cortex.interfaces.cli.install import own_program

    program = own_program() if spot.root is None else SHARED
    change = partial(
        add_hooks, hooks=hooks, program=program, system=spot.machine.system, present=True
    )
    plans.install(plans.plan_change(spot.client, spot.file, spot.root, change), spot.home)
    return f"the hooks of {spot.client.title} run {program} now"


def _check_folders(spot: Spot, server: ServerEntry, variable: str) -> Iterator[Finding]:
    named, lost = _folders(server.arguments), _is_missing(variable)
    missing = [*([variable] if lost else ()), *(folder for folder in named if _is_missing(folder))]
    placed = spot.root is not None or named or variable
    if missing:
        text = f"{spot.where} serves {', '.join(missing)}, which is no folder"
        fix = spot.again if spot.root else f"{spot.again} {WORKSPACE} FOLDER"
        yield error("clients", text, fix, lambda: _drop_missing(spot))
    elif not placed and spot.client.homeless:
        text = (
            f"{spot.where} names no folder, and {spot.client.title} starts servers outside of "
            "your projects"
        )
        yield warning("clients", text, f"{spot.again} {WORKSPACE} FOLDER")
    elif not placed and spot.client.arguments:
        text = (
            f"{spot.where} doesn't say in which project, and {spot.client.title} starts servers "
            "outside of them"
        )
        yield warning("clients", text, spot.again, lambda: _drop_missing(spot))


def _drop_missing(spot: Spot) -> str:
    """Remove missing folders from an entry.

    Without any folder left, the client's project is served, or the entry is removed.
    """
    server, variable = spot.started()
    left = _without_missing(server.arguments)
    placed = _folders(left) or (variable and not _is_missing(variable))
    if not placed and spot.root is None and spot.client.homeless:
        spot.remove()
        return (
            f"{spot.client.title} has no folder of yours to serve any more: its entry was removed"
        )
    if not placed:
        left = (*left, *spot.client.arguments)
    spot.change(ServerEntry(server.command, left), VARIABLE if _is_missing(variable) else "")
    serves = ", ".join(_folders(left)) if placed else "the project that it is in"
    return f"{spot.client.title} serves {serves or variable} now"


def _folders(arguments: tuple[str, ...]) -> list[str]:
    """Return the folders that a command line names."""
    after = [value for word, value in pairwise(arguments) if word == WORKSPACE]
    return after + [
        word.partition("=")[2] for word in arguments if word.startswith(f"{WORKSPACE}=")
    ]


def _without_missing(arguments: tuple[str, ...]) -> tuple[str, ...]:
    left: list[str] = []
    for word in arguments:
        if left[-1:] == [WORKSPACE] and _is_missing(word):
            left.pop()
        elif not (word.startswith(f"{WORKSPACE}=") and _is_missing(word.partition("=")[2])):
            left.append(word)
    return tuple(left)


def _is_missing(folder: str) -> bool:
    """True for a missing absolute folder; a relative one depends on the client's folder."""
    return os.path.isabs(folder) and not os.path.isdir(folder)
