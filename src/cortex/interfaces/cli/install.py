"""`cortex install` and `cortex uninstall`: connect clients, disconnect them, and remove everything
of ours from a machine.

Knows argv, questions and what is printed; which files change, and how, is in
`cortex.interfaces.install`.
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

if TYPE_CHECKING:  # 30 ms that no other command needs
    from cortex.interfaces.install.clients import Client, Machine
    from cortex.interfaces.install.plans import Edit
    from cortex.interfaces.install.uninstall_scan import Traces

# Folders of uv's cache, which it empties
TEMPORARY = ("archive-v0", "environments-v2", "builds-v0")
DONE = {"created": "made", "updated": "changed", "removed": "removed", "unchanged": "as it was"}


class Scope(StrEnum):
    """For whom an entry counts: a person in all projects, or all people in one project."""

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
            help="The profile whose home the client is to use.",
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
    from cortex.interfaces.install.plans import InstallOptions, install, plan_install, renew

    machine, home = _machine(), person_home()
    root = _root(scope)
    chosen = [find_client(name) for name in clients or ()] or _found(machine, root)
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
    try:
        edits = plan_install(chosen, machine, root, wish)
    except ConfigError as error:
        if not clients and len(chosen) > 1:
            others = (
                f"Or name the clients to connect: {', '.join(client.name for client in chosen)}."
            )
            error.suggestions = (*error.suggestions, others)
        raise
    if note:
        say(f"note: {note}", error=True)
    if dry_run:
        _print_plan(edits, scope, as_json)
        return
    # All before the first is written: all are changed or none
    edits = [renew(edit) for edit in _choose(edits, yes)]
    backups = [install(edit, home) for edit in edits]
    if name:  # so that it is there before the client is
        ensure_store_dir(home / PROFILES / name)
    if as_json:
        print_json({"scope": scope.value, "dryRun": False, "changes": _rows(edits, backups)})
        return
    _print_rows(edits)
    without = ", ".join(client.title for client in chosen if client.hooks is None)
    if hooks and without:
        say(f"note: no hooks for {without}", error=True)
    say("Restart the clients that are open. `cortex uninstall` undoes this.", error=True)


def _serve_projects(families: str) -> bool:
    """Whether an entry for these families needs a project to serve."""
    names = _families(families)
    return not names or not OF_PROJECTS.isdisjoint(names)


def _without_homeless(clients: Sequence[Client]) -> list[Client]:
    """The clients without those that start servers outside of every project: their entry would have
    nothing to serve.

    Raises: ConfigError WORKSPACE_MISSING, where no other is left.
    """
    skipped = [client for client in clients if client.homeless]
    if not skipped:
        return list(clients)
    titles, names = ", ".join(one.title for one in skipped), " ".join(one.name for one in skipped)
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
    """The edits that a person wants, each shown as a diff; all with `yes`.

    Raises: InputError, where there is no terminal; typer.Exit, where none is wanted.
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
        _ask(edits, yes, as_json)
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
    return _tell_failures(failed, as_json)


def _remove_everything(
    machine: Machine, home: Path, *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Show everything of ours, ask, end cortexd, and remove it."""
    from cortex.interfaces.daemon import control
    from cortex.interfaces.install.uninstall_scan import find_profiles, find_traces, remove_traces

    here = find_project_root(Path.cwd(), machine.home)
    projects = [here] if here else []
    homes = (home, *find_profiles(home))
    warnings = _warnings(homes)  # first: reading leaves files
    for one in homes:  # a profile knows projects of its own
        projects += [*known_projects(one), *_open_projects(one)]
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
            {"kind": one.kind, "path": str(one.path), "bytes": one.bytes} for one in traces.places
        ]
        body = {"dryRun": dry_run, "changes": _rows(traces.edits), "removed": places}
        print_json({**body, "kept": [str(one) for one in traces.kept], "failed": failed})
    elif not dry_run:
        say(
            "What is left is the program itself: pip uninstall cortex-context (or uv tool uninstall).",
            error=True,
        )
    return _tell_failures(failed, as_json)


def _warnings(homes: Sequence[Path]) -> list[str]:
    """What a person should know of these homes before they go."""
    from cortex.engine.library import has_own_memories, has_records, has_unsent
    from cortex.families.team.commands.sync_status import server_of

    told: list[str] = []
    if any(map(has_own_memories, homes)):
        told.append(
            "Your own memories are among this, and nothing brings them back: keep them first with "
            "`cortex memory export --state any -o FILE`."
        )
    if any(map(has_records, homes)):
        told.append(
            "What your team keeps (`cortex status` counts it) is among this, and nothing brings it back."
        )
    if any(map(has_unsent, homes)):
        told.append("Not all of what you wrote there has reached the Core: `cortex sync` sends it.")
    servers = dict.fromkeys(server for home in homes if (server := server_of(home)))
    return told + [
        f"The token for {server} counts until it is revoked there." for server in servers
    ]


def _open_projects(home: Path) -> list[Path]:
    """The projects that cortexd has open, where one runs."""
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


def _tell_failures(failed: Sequence[str], as_json: bool) -> int:
    for one in failed if not as_json else ():
        say(f"not changed: {one}", error=True)
    return 1 if failed else 0


def _machine() -> Machine:
    from cortex.base.settings.foreign_variables import variables_of_others
    from cortex.interfaces.install.clients import VARIABLES, Machine, this_system

    return Machine(Path.home(), this_system(), variables_of_others(VARIABLES))


def person_home() -> Path:
    """Cortex's home, that of no profile: what was installed was installed for the person."""
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


def _found(machine: Machine, root: Path | None) -> list[Client]:
    from cortex.interfaces.install.clients import CLIENTS, is_installed

    found = [client for client in CLIENTS if is_installed(client, machine)]
    if root is not None:
        found = [client for client in found if client.project]
    if not found:
        known = ", ".join(client.name for client in CLIENTS)
        raise InputError("ARGUMENT_INVALID", f"no client was found here; name one: {known}")
    return found


def _profile(told: str | None) -> str:
    """The profile that was named, here or for the whole command. Raises: ConfigError."""
    name = told if told is not None else environment().get("CORTEX_PROFILE", "")
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
    """The command for a project's entries, and what a person should know about it."""
    from cortex.interfaces.install.clients import entry_file, hooks_file
    from cortex.interfaces.install.project_files import project_command

    found = [entry_file(client, machine, root) for client in clients]
    found += [hooks_file(client, machine, root) for client in clients] if hooks else []
    try:
        program = own_program()
    except ConfigError:  # what starts this is in a cache, and will be gone
        program = ""
    return project_command(
        root, list(dict.fromkeys(file for file in found if file is not None)), program
    )


def own_program() -> str:
    """The full path of the command: programs with windows don't have a terminal's PATH."""
    name = "cortex.exe" if os.name == "nt" else "cortex"
    beside = Path(sysconfig.get_path("scripts"), name)
    found = str(beside) if beside.is_file() else shutil.which("cortex")
    if found is None:
        raise ConfigError(
            "CONFIG_INVALID",
            "the command cortex was not found",
            instead=(
                "Install the package for good: uv tool install cortex-context. Then run cortex install.",
            ),
        )
    if any(part in TEMPORARY for part in Path(found).parts):
        raise ConfigError(
            "CONFIG_INVALID",
            f"{found} is in a cache and will be gone",
            instead=(
                "Install it for good: uv tool install cortex-context. Then run cortex install.",
            ),
        )
    return os.path.abspath(found)


def _ask(edits: Sequence[Edit], yes: bool, as_json: bool) -> None:
    changing = [edit for edit in edits if edit.action != "unchanged"]
    if not changing:
        return
    if not yes and not as_json:
        for edit in changing:
            say(f"change: {_titles(edit)}: {edit.file}", error=True)
    _confirm("Go on?", yes)


def _confirm(question: str, yes: bool) -> None:
    """Ask on a terminal.

    Raises: InputError, where there is none; typer.Exit for a no.
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
    """For programs; a diff only where it was asked for, since the lines around ours may hold other
    programs' keys.
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
            f"{_titles(edit)}: {edit.file}: {'goes' if edit.after is None else 'without what is ours'}"
        )
    for place in traces.places:
        say(f"{place.kind}: {place.path} ({place.bytes:,} bytes)")
    if not (traces.edits or traces.places or traces.kept):
        say("nothing of Cortex is here")
    for folder in traces.kept:
        say(
            f"stays: {folder}, of a Core that is served from here; once its team has a backup, delete it by hand"
        )
