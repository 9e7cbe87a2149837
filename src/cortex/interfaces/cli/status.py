"""`cortex status`, `cortex mcp status`, `cortex mcp logs`: state of cortexd and the index.

A running process is asked about its own state; the state on disk is read here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import ConfigError, CortexError, FileError
from cortex.base.paths import bytes_on_disk
from cortex.base.runtime.rendezvous import Rendezvous, find
from cortex.base.settings import Override, environment, load
from cortex.engine.engine import Engine
from cortex.engine.pool import CLOSED
from cortex.engine.store import STORE_NAME
from cortex.engine.store_folder import OWN_PATTERNS, find_store
from cortex.families.team.commands import sync_status
from cortex.interfaces.cli import person_status
from cortex.interfaces.daemon import control
from cortex.interfaces.daemon.control import State
from cortex.toolkit.terminal import workspace
from cortex.toolkit.terminal.options import JsonFlag, ProfileOption
from cortex.toolkit.terminal.output import print_json, rows, say

TURN_OFF = (
    "CORTEX_NO_SIDECAR=1 in the environment, or --no-sidecar in the client's entry: each client "
    "then serves itself"
)


def status(
    path: Annotated[
        Path | None,
        typer.Option("--path", metavar="PATH", help="The project; default: the one around here."),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show the state of this project's index and of cortexd, with its clients and projects."""
    meeting = meet(profile)
    state = control.look(meeting)
    body = {
        **describe(meeting, state),
        **_on_disk(meeting, state),
        **sync_status.described(profile),
    }
    body["team"] = person_status.records(profile)
    body["backups"] = person_status.backups(profile)
    body["project"] = _project(path, profile)
    if as_json:
        print_json(body)
    else:
        _print_project(body["project"])
        _print_status(body)
        sync_status.print_state(body)
        say(f"plugins      {', '.join(map(str, _list(body['plugins']))) or 'none'}")
        person_status.print_records(body["team"])
        person_status.print_backups(body["backups"])
        say(f"cache        {_megabytes(body['cacheBytes'])} on disk")
        _print_projects(body)
    return 1 if state.running and not state.answers else 0


def _project(path: Path | None, profile: str | None) -> dict[str, object] | None:
    """Return the state of a project's index; None where there is no project."""
    variables = environment() | ({"CORTEX_PROFILE": profile} if profile else {})
    try:
        target = workspace.find_for([path] if path else [], variables, Path.cwd())[0][0]
    except ConfigError as error:
        if path is not None or error.code != "WORKSPACE_MISSING":
            raise
        return None
    body: dict[str, object] = {"root": str(target.root), "lastIndexed": None}
    store = find_store(target.root, target.settings.home)
    if not (store / STORE_NAME).is_file():
        return body
    try:
        with Engine(target.root, target.settings) as engine:
            stats = engine.vitals()
            reasons = Counter(skip.reason for skip in stats.skipped)
            return body | {
                "status": stats.freshness.state,
                "lastIndexed": stats.freshness.last_indexed or None,
                "files": stats.indexed_files,
                "chunks": stats.chunks,
                "leftOut": dict(reasons.most_common()),
                "settings": engine.state.describe(),
                "notes": [*engine.state.shortcomings(), *engine.settings.warnings],
            }
    except CortexError as error:
        return body | {"notes": [f"{error.message} [{error.code}]; see `cortex doctor`"]}


def _print_project(project: Mapping[str, object] | None) -> None:
    if project is None:
        return
    if "files" not in project:
        say(
            f"project      {project['root']}: "
            f"{'can not be read' if 'notes' in project else 'not indexed yet'}"
        )
    else:
        indexed = (
            f"indexed {project['lastIndexed']}"
            if project["lastIndexed"]
            else "not completely indexed yet"
        )
        say(
            f"project      {project['root']}: {project['files']} files, {project['chunks']} "
            f"chunks, {indexed}"
        )
        left_out, settings = _mapping(project["leftOut"]), _mapping(project["settings"])
        if left_out:
            say(
                "left out     "
                f"{', '.join(f'{count} {reason}' for reason, count in left_out.items())}"
            )
        for name, value in _mapping(settings.get("madeWith", {})).items():
            say(f"made with    {name} = {value}")
        if override := _mapping(settings.get("override", {})):
            changed = Override(
                _mapping(override["settings"]), str(override["by"]), str(override["since"])
            )
            say(f"override     {changed.in_words()}; `{override['end']}` ends it")
    for note in _list(project.get("notes")):
        say(f"note         {note}")


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def mcp_status(profile: ProfileOption = None, as_json: JsonFlag = False) -> int:
    """Show the state of cortexd, its clients, and the documents, memories and records that can be
    searched.
    """
    meeting = meet(profile)
    state = control.look(meeting)
    body = {
        **describe(meeting, state),
        "documents": person_status.documents(profile),
        "memories": person_status.memories(profile),
        "team": person_status.records(profile),
    }
    if as_json:
        print_json(body)
    else:
        _print_status(body)
        person_status.print_documents(body["documents"])
        person_status.print_memories(body["memories"])
        person_status.print_records(body["team"])
    return 1 if state.running and not state.answers else 0


def mcp_logs(
    tail: Annotated[
        int, typer.Option("--tail", "-n", min=1, metavar="N", help="How many lines.")
    ] = 50,
    profile: ProfileOption = None,
) -> None:
    """Show the end of cortexd's log."""
    home = meet(profile).home
    lines = read_log(home, tail)
    for line in lines:
        say(line)
    if not lines:
        say(f"nothing was logged yet: {control.log_file(home)}", error=True)


def meet(profile: str | None) -> Rendezvous:
    """Return the rendezvous of this user's cortexd.

    Raises: ConfigError, FileError.
    """
    try:
        return find(profile or "")[0]
    except ValueError as error:
        message, variable = str(error.args[0]), str(error.args[-1])
        raise ConfigError("CONFIG_INVALID", message, instead=(f"Correct {variable}.",)) from None
    except OSError as error:
        raise FileError(
            "PERMISSION_DENIED", str(error), suggestions=("Run `cortex doctor --fix`.",)
        ) from None


def describe(meeting: Rendezvous, state: State) -> dict[str, object]:
    """Describe the process and its clients."""
    reported = state.status
    return {
        "running": state.running,
        "answers": state.answers,
        **who_runs(meeting, state),
        "startedBy": state.note.get("startedBy") if state.running else None,
        "startedAt": state.note.get("startedAt") if state.running else None,
        "python": state.note.get("python") if state.running else None,
        "uptime": reported.get("uptime"),
        "memoryBytes": reported.get("memory"),
        "endsIn": reported.get("endsIn"),
        "idleTimeout": reported.get("idle"),
        "turnOff": TURN_OFF,
        "clients": rows(reported.get("clients")),
    }


def in_time(seconds: object) -> str:
    """Format a duration for people."""
    whole = int(seconds) if isinstance(seconds, int | float) else 0
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h {whole % 3600 // 60} min"


def read_log(home: str, count: int) -> list[str]:
    """Return the last lines of cortexd's log, including the rotated file if needed."""
    file = control.log_file(home)
    lines: list[str] = []
    for path in (file, f"{file}.1"):
        if len(lines) >= count:
            break
        try:
            with open(path, encoding="utf-8", errors="replace") as source:
                lines = [*source.read().splitlines(), *lines]
        except OSError:
            continue
    return lines[-count:] if count else []


def who_runs(meeting: Rendezvous, state: State) -> dict[str, object]:
    """Describe the process and the location of its files."""
    return {
        "pid": state.pid or None,
        "version": state.status.get("version") or state.note.get("version")
        if state.running
        else None,
        "home": meeting.home,
        "socket": meeting.socket,
        "log": control.log_file(meeting.home),
    }


def in_words(body: Mapping[str, object]) -> str:
    """Describe the process in one line for people."""
    return f"process {body['pid']}, version {body['version']}, home {body['home']}"


def _on_disk(meeting: Rendezvous, state: State) -> dict[str, object]:
    """Return the projects and plugins, and their size on disk."""
    home = Path(meeting.home)
    projects = []
    for project in rows(state.status.get("projects")):
        store = find_store(Path(str(project["root"])), home)
        projects.append(
            {**project, "diskBytes": 0 if store.is_relative_to(home) else bytes_on_disk(store)}
        )
    own = sum(
        bytes_on_disk(path)
        for pattern in (*OWN_PATTERNS, "projects")
        for path in home.glob(pattern)
    )
    elsewhere = {str(project["root"]): project["diskBytes"] for project in projects}
    cache = own + sum(size for size in elsewhere.values() if isinstance(size, int))
    plugins = list(
        load(
            None, environment={**environment(), "CORTEX_HOME": str(home), "CORTEX_PROFILE": ""}
        ).team.plugins
    )
    return {"plugins": plugins, "cacheBytes": cache, "projects": projects}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _print_status(body: Mapping[str, object]) -> None:
    if not body["running"]:
        say(
            "cortexd      not running; it starts with the next client, or with `cortex "
            f"start` (home {body['home']})"
        )
        return
    if not body["answers"]:
        say(
            f"cortexd      process {body['pid']} doesn't answer: `cortex restart` ends it "
            "and starts another"
        )
        return
    say(f"cortexd      {in_words(body)}")
    say(f"started      {body['startedAt']} by {body['startedBy']}, {in_time(body['uptime'])} ago")
    say(f"memory       {_megabytes(body['memoryBytes']) if body['memoryBytes'] else 'unknown'}")
    say(f"ends         {_end(body)}")
    say(f"turn it off  {TURN_OFF}")
    say(f"log          {body['log']}")
    clients = rows(body["clients"])
    say(f"clients      {len(clients)}")
    for client in clients:
        words = " ".join(str(text) for text in _texts(client.get("arguments")))
        say(
            f"  process {client['pid']}, for {in_time(client['seconds'])}: cortex mcp "
            f"{words} in {client['cwd']}"
        )


def _print_projects(body: Mapping[str, object]) -> None:
    projects = rows(body["projects"])
    say(f"projects     {sum(project['status'] != CLOSED for project in projects)} open")
    for project in projects:
        indexed = (
            f"indexed {project['lastIndexed']}" if project["lastIndexed"] else "not indexed yet"
        )
        state = "closed until its next call" if project["status"] == CLOSED else project["status"]
        say(
            f"  {project['root']}: {state}, {indexed}, "
            f"{_embedded(project.get('embedding'))}{project['users']} clients"
        )
        if project.get("secrets"):
            say(
                f"    {project['secrets']} files are left out as secrets: `cortex doctor` "
                "names them"
            )
        embedding = project.get("embedding")
        if isinstance(embedding, Mapping) and embedding.get("problem"):
            say(f"    {embedding['problem']}")


def _embedded(state: object) -> str:
    if not isinstance(state, Mapping):
        return ""
    name = " ".join(str(state[key]) for key in ("provider", "model") if state.get(key))
    share = state.get("share")
    return f"{share:.0%} embedded by {name}, " if isinstance(share, int | float) else ""


def _end(body: Mapping[str, object]) -> str:
    idle = body["idleTimeout"]
    if not idle:
        return "never by itself (server.idleTimeout is 0)"
    if body["endsIn"] is None:
        return f"{in_time(idle)} after the last client has left (server.idleTimeout)"
    return f"in {in_time(body['endsIn'])}, unless a client comes (server.idleTimeout)"


def _megabytes(size: object) -> str:
    return f"{size / 1e6:.1f} MB" if isinstance(size, int | float) else "unknown"


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
