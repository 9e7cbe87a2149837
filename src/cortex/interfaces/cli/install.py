"""`cortex install` and `cortex uninstall`: connect and disconnect clients.

Knows arguments, prompts and output; `cortex.interfaces.install` changes the files.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortex.base.errors import ConfigError, InputError, NetworkError
from cortex.base.paths import ensure_store_dir, find_project_root, known_projects
from cortex.base.runtime.home import PROFILES
from cortex.base.settings import environment, find_home
from cortex.interfaces.assembly.families import OF_PROJECTS, check_families
from cortex.toolkit.terminal.options import JsonFlag, check_profile
from cortex.toolkit.terminal.output import ask, decline, print_json, say

# Importing these takes 30 ms that no other command needs.
if TYPE_CHECKING:
    from cortex.interfaces.install.clients import Client, Machine
    from cortex.interfaces.install.plans import Edit, InstallOptions
    from cortex.interfaces.install.uninstall_scan import Traces

# Folders of uv's cache, which uv cleans up.
TEMPORARY = ("archive-v0", "environments-v2", "builds-v0")
DONE = {"created": "made", "updated": "changed", "removed": "removed", "unchanged": "as it was"}


class Scope(StrEnum):
    """Scope of an entry: one user in all projects, or all users of one project."""

    USER = "user"
    PROJECT = "project"


ScopeOption = Annotated[
    Scope, typer.Option("--scope", help="Your own files, or those of the project here.")
]
DryRunFlag = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
]
YesFlag = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


def install_clients(
    clients: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CLIENT", help="Clients by name; default: those that are found here."
        ),
    ] = None,
    scope: ScopeOption = Scope.USER,
    families: Annotated[
        str | None,
        typer.Option(
            "--families",
            metavar="A,B",
            help="Families of tools to serve; default: those of `cortex mcp`.",
        ),
    ] = None,
    workspaces: Annotated[
        list[Path] | None,
        typer.Option(
            "--workspace",
            metavar="PATH",
            help="A folder to serve; may be repeated. Default: the project that the client is in.",
        ),
    ] = None,
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Register hooks too, where the client has them.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="The profile for the client to use.",
            callback=check_profile,
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Overwrite a server called cortex that isn't this one."),
    ] = False,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Connect clients: add the server to their settings."""
    from cortex.interfaces.install.clients import find_client
    from cortex.interfaces.install.config_entries import ServerEntry
    from cortex.interfaces.install.plans import InstallOptions

    machine = _machine()
    root = _root(scope)
    chosen = [find_client(name) for name in clients or ()] or _installed_clients(machine, root)
    if scope is Scope.USER and not workspaces and _serve_projects(families or ""):
        chosen = _without_homeless(chosen)
    command, note = (
        (own_program(), "")
        if root is None
        else _project_command(chosen, machine, root, hooks=hooks)
    )
    name = _profile(profile)
    arguments = ("mcp", *_families(families or ""), *_workspaces(workspaces or [], scope))
    wish = InstallOptions(
        ServerEntry(command, (*arguments, *(("--profile", name) if name else ()))),
        hooks=hooks,
        replace=replace,
        profile=name,
    )
    edits = _planned(chosen, machine, root, wish, named=bool(clients))
    if note:
        say(f"note: {note}", error=True)
    if dry_run:
        _print_plan(edits, scope, as_json)
        return
    edits, backups = _write_entries(_choose(edits, yes), name)
    if as_json:
        print_json({"scope": scope.value, "dryRun": False, "changes": _rows(edits, backups)})
        return
    _print_rows(edits)
    without = ", ".join(client.title for client in chosen if client.hooks is None)
    if hooks and without:
        say(f"note: no hooks for {without}", error=True)
    say("Restart the clients that are open. `cortex uninstall` undoes this.", error=True)


def _planned(
    chosen: list[Client], machine: Machine, root: Path | None, wish: InstallOptions, *, named: bool
) -> list[Edit]:
    """Plan the edits; of several clients that were found, an error says how to name some."""
    from cortex.interfaces.install.plans import plan_install

    try:
        return plan_install(chosen, machine, root, wish)
    except ConfigError as error:
        if not named and len(chosen) > 1:
            names = ", ".join(client.name for client in chosen)
            others = f"Or name the clients to connect: {names}."
            error.suggestions = (*error.suggestions, others)
        raise


def _write_entries(edits: list[Edit], profile: str) -> tuple[list[Edit], list[Path | None]]:
    """Write the edits; returns them as they were written, and a backup of each."""
    from cortex.interfaces.install.plans import install, renew

    home = person_home()
    # All are renewed before the first is written, so that all are changed or none.
    edits = [renew(edit) for edit in edits]
    backups = [install(edit, home) for edit in edits]
    # The profile has to exist before the client starts.
    if profile:
        ensure_store_dir(home / PROFILES / profile)
    return edits, backups


def _serve_projects(families: str) -> bool:
    """True if an entry for these families needs a project to serve."""
    names = _families(families)
    return not names or not OF_PROJECTS.isdisjoint(names)


def _without_homeless(clients: Sequence[Client]) -> list[Client]:
    """Leave out clients that start servers outside of every project.

    Their entry would have nothing to serve.

    Raises: ConfigError WORKSPACE_MISSING, where no other client is left.
    """
    skipped = [client for client in clients if client.homeless]
    if not skipped:
        return list(clients)
    titles, names = (
        ", ".join(client.title for client in skipped),
        " ".join(client.name for client in skipped),
    )
    command = f"cortex install {names} --workspace FOLDER [--workspace FOLDER ...]"
    why = f"{titles} {'start' if len(skipped) > 1 else 'starts'} servers outside of your projects"
    left = [client for client in clients if not client.homeless]
    if not left:
        raise ConfigError(
            "WORKSPACE_MISSING", f"{why}: name the folders to serve", instead=(f"Run: {command}",)
        )
    say(f"note: {titles} skipped: {why}. Name the folders to serve:", error=True)
    say(f"      {command}", error=True)
    return left


def _choose(edits: Sequence[Edit], yes: bool) -> list[Edit]:
    """Let the user choose edits, each shown as a diff; all with `yes`.

    Raises: InputError without a terminal; typer.Exit where none is chosen.
    """
    changing = [edit for edit in edits if edit.action != "unchanged"]
    if yes or not changing:
        return list(edits)
    _need_terminal(changing)
    wanted: list[Edit] = []
    for edit in changing:
        say(edit.diff().rstrip("\n"), error=True, lines=True)
        if ask(f"Change {edit.file} for {_titles(edit)}?"):
            wanted.append(edit)
    if not wanted:
        decline()
    return [edit for edit in edits if edit in wanted or edit.action == "unchanged"]


def uninstall_clients(
    clients: Annotated[
        list[str] | None,
        typer.Argument(metavar="CLIENT", help="Clients by name; default: all that are connected."),
    ] = None,
    scope: ScopeOption = Scope.USER,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Remove everything of Cortex from this machine: entries, hooks, stores, settings.",
        ),
    ] = False,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Disconnect clients, or with --all remove everything."""
    from cortex.interfaces.install.clients import CLIENTS, find_client
    from cortex.interfaces.install.plans import plan_uninstall, renew, uninstall
    from cortex.interfaces.install.project_files import plan_ignore_removals

    machine, home = _machine(), person_home()
    if everything:
        if clients:
            raise InputError(
                "ARGUMENT_INVALID", "--all is for everything; leave the names of clients out"
            )
        return _remove_everything(machine, home, dry_run=dry_run, yes=yes, as_json=as_json)
    chosen = [find_client(name) for name in clients or ()] or list(CLIENTS)
    failed: list[str] = []
    root = _root(scope)
    edits = plan_uninstall(chosen, machine, root, home, failed)
    if root is not None and not clients:
        edits += plan_ignore_removals(home, failed, root)
    if not dry_run:
        _confirm_edits(edits, yes, as_json)
        edits = [renew(edit) for edit in edits]
        uninstall(edits, home)
    if as_json:
        body = {"scope": scope.value, "dryRun": dry_run, "changes": _rows(edits, diffs=dry_run)}
        print_json({**body, "failed": failed})
    elif dry_run:
        _print_plan(edits, scope, as_json)
    elif edits:
        _print_rows(edits)
    else:
        say("nothing to remove")
    return _print_failures(failed, as_json)


def _remove_everything(
    machine: Machine, home: Path, *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Show everything of ours, ask, stop cortexd, and remove it."""
    from cortex.interfaces.daemon import control
    from cortex.interfaces.install.uninstall_scan import find_profiles, find_traces, remove_traces

    here = find_project_root(Path.cwd(), machine.home)
    projects = [here] if here else []
    homes = (home, *find_profiles(home))
    # Before the search for traces, since reading the homes leaves files.
    warnings = _warnings(homes)
    # Every profile has projects of its own.
    for profile_home in homes:
        projects += [*known_projects(profile_home), *_open_projects(profile_home)]
    traces = find_traces(
        machine, home, projects, [Path(place) for place in control.places(str(home))]
    )
    if not as_json:
        _print_traces(traces)
        for warning in warnings:
            say(warning, error=True)
    failed = list(traces.failed)
    if not dry_run and (traces.edits or traces.places):
        _confirm("Remove all this?", yes)
        failed = remove_traces(traces, home, lambda: _stop_cortexd(home))
    if as_json:
        places = [
            {"kind": trace.kind, "path": str(trace.path), "bytes": trace.bytes}
            for trace in traces.places
        ]
        body = {"dryRun": dry_run, "changes": _rows(traces.edits), "removed": places}
        print_json({**body, "kept": [str(folder) for folder in traces.kept], "failed": failed})
    elif not dry_run:
        say(
            (
                "What is left is the program itself: pip uninstall cortex-context (or uv tool "
                "uninstall)."
            ),
            error=True,
        )
    return _print_failures(failed, as_json)


def _warnings(homes: Sequence[Path]) -> list[str]:
    """Return warnings about data that is removed with these homes."""
    from cortex.engine.home_store import has_own_memories, has_records, has_unsent
    from cortex.families.team.commands.sync_status import server_of

    warnings: list[str] = []
    if any(map(has_own_memories, homes)):
        warnings.append(
            "Your own memories are among this, and nothing brings them back: keep them first with "
            "`cortex memory export --state any -o FILE`."
        )
    if any(map(has_records, homes)):
        warnings.append(
            "What your team keeps (`cortex status` counts it) is among this, and nothing "
            "brings it back."
        )
    if any(map(has_unsent, homes)):
        warnings.append(
            "Not all of what you wrote there has reached the Core: `cortex sync` sends it."
        )
    servers = dict.fromkeys(server for home in homes if (server := server_of(home)))
    return warnings + [
        f"The token for {server} counts until it is revoked there." for server in servers
    ]


def _open_projects(home: Path) -> list[Path]:
    """Return the projects that a running cortexd has open."""
    from cortex.base.runtime.rendezvous import meet_at
    from cortex.interfaces.cli.status import rows
    from cortex.interfaces.daemon import control

    projects = rows(control.look(meet_at(str(home))).status.get("projects"))
    return [Path(str(project["root"])) for project in projects if project.get("root")]


def _stop_cortexd(home: Path) -> None:
    from cortex.interfaces.daemon import control

    try:
        control.stop_all(str(home))
    except (TimeoutError, OSError) as error:
        raise NetworkError("CORTEXD_UNAVAILABLE", f"{error}; nothing was removed") from error


def _print_failures(failed: Sequence[str], as_json: bool) -> int:
    for message in failed if not as_json else ():
        say(f"not changed: {message}", error=True)
    return 1 if failed else 0


def _machine() -> Machine:
    from cortex.base.settings.foreign_variables import variables_of_others
    from cortex.interfaces.install.clients import VARIABLES, Machine, this_system

    return Machine(Path.home(), this_system(), variables_of_others(VARIABLES))


def person_home() -> Path:
    """Return Cortex's home without a profile: clients are installed for the user."""
    return find_home({**environment(), "CORTEX_PROFILE": ""}, Path.home())


def _root(scope: Scope) -> Path | None:
    if scope is Scope.USER:
        return None
    root = find_project_root(Path.cwd(), Path.home())
    if root is None:
        raise ConfigError(
            "WORKSPACE_MISSING", f"{Path.cwd()} is not in a project; --scope project wants one"
        )
    return root


def _installed_clients(machine: Machine, root: Path | None) -> list[Client]:
    from cortex.interfaces.install.clients import CLIENTS, is_installed

    installed = [client for client in CLIENTS if is_installed(client, machine)]
    if root is not None:
        installed = [client for client in installed if client.project]
    if not installed:
        known = ", ".join(client.name for client in CLIENTS)
        raise InputError("ARGUMENT_INVALID", f"no client was found here; name one: {known}")
    return installed


def _profile(given: str | None) -> str:
    """Return the profile given here or for the whole command.

    Raises: ConfigError.
    """
    name = given if given is not None else environment().get("CORTEX_PROFILE", "")
    find_home({**environment(), "CORTEX_PROFILE": name}, Path.home())
    return name


def _families(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    check_families(names)
    return names


def _workspaces(paths: Sequence[Path], scope: Scope) -> list[str]:
    if paths and scope is Scope.PROJECT:
        raise InputError(
            "ARGUMENT_INVALID",
            "a project's file is for all its people: --workspace is for --scope user",
        )
    missing = [path for path in paths if not path.is_dir()]
    if missing:
        raise ConfigError(
            "WORKSPACE_UNKNOWN",
            f"{str(missing[0])!r} is not a folder",
            suggestions=("Correct --workspace.",),
        )
    return [word for path in paths for word in ("--workspace", str(path.resolve()))]


def _project_command(
    clients: Sequence[Client], machine: Machine, root: Path, *, hooks: bool
) -> tuple[str, str]:
    """Return the command for a project's entries, and a note for the user."""
    from cortex.interfaces.install.clients import entry_file, hooks_file
    from cortex.interfaces.install.project_files import project_command

    files = [entry_file(client, machine, root) for client in clients]
    files += [hooks_file(client, machine, root) for client in clients] if hooks else []
    try:
        program = own_program()
    # The running program is in a cache that will be cleaned up.
    except ConfigError:
        program = ""
    return project_command(
        root, list(dict.fromkeys(file for file in files if file is not None)), program
    )


def own_program() -> str:
    """Return the full path of the command: graphical programs lack a terminal's PATH."""
    name = "cortex.exe" if os.name == "nt" else "cortex"
    beside = Path(sysconfig.get_path("scripts"), name)
    program = str(beside) if beside.is_file() else shutil.which("cortex")
    if program is None:
        raise ConfigError(
            "CONFIG_INVALID",
            "the command cortex was not found",
            instead=(
                (
                    "Install the package for good: uv tool install cortex-context. Then run "
                    "cortex install."
                ),
            ),
        )
    if any(part in TEMPORARY for part in Path(program).parts):
        raise ConfigError(
            "CONFIG_INVALID",
            f"{program} is in a cache and will be gone",
            instead=(
                "Install it for good: uv tool install cortex-context. Then run cortex install.",
            ),
        )
    return os.path.abspath(program)


def _confirm_edits(edits: Sequence[Edit], yes: bool, as_json: bool) -> None:
    changing = [edit for edit in edits if edit.action != "unchanged"]
    if not changing:
        return
    if not yes and not as_json:
        for edit in changing:
            say(f"change: {_titles(edit)}: {edit.file}", error=True)
    _confirm("Go on?", yes)


def _confirm(question: str, yes: bool) -> None:
    """Ask on a terminal.

    Raises: InputError without a terminal; typer.Exit for a no.
    """
    if yes:
        return
    _need_terminal()
    if not ask(question):
        decline()


def _need_terminal(edits: Sequence[Edit] = ()) -> None:
    if not sys.stdin.isatty():
        files = "".join(f"; {_titles(edit)}: {edit.file}" for edit in edits)
        raise InputError(
            "ARGUMENT_INVALID",
            f"this changes files, and there is no terminal to ask on; nothing was changed{files}",
            instead=("Repeat it with --yes, or look at it first with --dry-run.",),
        )


def _titles(edit: Edit) -> str:
    return ", ".join(client.title for client in edit.clients) or "the project"


def _print_plan(edits: Sequence[Edit], scope: Scope, as_json: bool) -> None:
    if as_json:
        print_json({"scope": scope.value, "dryRun": True, "changes": _rows(edits, diffs=True)})
        return
    for edit in edits:
        if edit.action == "unchanged":
            say(f"{_titles(edit)}: {edit.file}: nothing to change", error=True)
        else:
            say(edit.diff().rstrip("\n"), lines=True)


def _print_rows(edits: Sequence[Edit]) -> None:
    for edit in edits:
        kept = f" (kept for {', '.join(edit.kept_for)})" if edit.kept_for else ""
        say(f"{_titles(edit)}: {edit.file}: {DONE[edit.action]}{kept}")


def _rows(
    edits: Sequence[Edit], backups: Sequence[Path | None] = (), *, diffs: bool = False
) -> list[dict[str, object]]:
    """Return the changes for JSON output.

    Diffs are included only on request, since the lines around ours may hold keys of other programs.
    """
    padded = [*backups, *([None] * (len(edits) - len(backups)))]
    return [
        {
            "clients": [client.name for client in edit.clients],
            "file": str(edit.file),
            "action": edit.action,
            "backup": str(backup) if backup else None,
            **({"diff": edit.diff()} if diffs else {}),
        }
        for edit, backup in zip(edits, padded, strict=True)
    ]


def _print_traces(traces: Traces) -> None:
    for edit in traces.edits:
        say(
            f"{_titles(edit)}: {edit.file}: "
            f"{'goes' if edit.after is None else 'without what is ours'}"
        )
    for place in traces.places:
        say(f"{place.kind}: {place.path} ({place.bytes:,} bytes)")
    if not (traces.edits or traces.places or traces.kept):
        say("nothing of Cortex is here")
    for folder in traces.kept:
        say(
            f"stays: {folder}, of a Core that is served from here; once its team has a "
            "backup, delete it by hand"
        )
