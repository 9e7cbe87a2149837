"""`cortex start`, `stop` and `restart`: control cortexd by hand.

That is optional: clients start it and it ends by itself. Only an explicit `cortex start` writes
into the project; the shim never does.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import ConfigError, CortexError, NetworkError
from cortex.base.paths import find_project_root
from cortex.base.runtime.rendezvous import Rendezvous
from cortex.base.settings import Key, environment, find_home, known_key, load, write_setting
from cortex.interfaces.cli.status import TURN_OFF, in_words, meet, read_log, rows, who_runs
from cortex.interfaces.daemon import control
from cortex.interfaces.daemon.control import State
from cortex.plugins.registry import check_known
from cortex.toolkit.terminal.options import JsonFlag, ProfileOption
from cortex.toolkit.terminal.output import many, print_json, say


class LogLevel(StrEnum):
    """Log level of cortexd."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LevelOption = Annotated[
    LogLevel | None,
    typer.Option(
        "--log-level", metavar="LEVEL", help="debug, info, warning or error; default: info."
    ),
]


def start(
    skip_sync: Annotated[
        bool,
        typer.Option(
            "--skip-sync", help="Start from what is here; the first sync is the next that is due."
        ),
    ] = False,
    no_mcp_write: Annotated[
        bool, typer.Option("--no-mcp-write", help="Don't write the project's .mcp.json.")
    ] = False,
    no_gitignore_write: Annotated[
        bool, typer.Option("--no-gitignore-write", help="Don't write the project's .gitignore.")
    ] = False,
    profile: ProfileOption = None,
    plugins: Annotated[
        str | None,
        typer.Option(
            "--plugins", metavar="A,B", help="Plugins to enable from now on (setting team.plugins)."
        ),
    ] = None,
    log_level: LevelOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Start cortexd, and connect the project here."""
    meeting = meet(profile)
    enabled = _enable(Path(meeting.home), plugins) if plugins else ""
    state = control.look(meeting)
    started = not state.running
    if started:
        state, started = _start(meeting, "cortex start", log_level, skip_sync=skip_sync)
    notes = _notes(state, started, skip_sync=skip_sync, enabled=enabled, log_level=log_level)
    written, more, failure = _write_project(
        mcp=not no_mcp_write,
        gitignore=not no_gitignore_write,
        profile=profile or environment().get("CORTEX_PROFILE", ""),
    )
    notes += more
    body = {"started": started, **who_runs(meeting, state), "written": written, "notes": notes}
    if as_json:
        print_json({**body, "error": failure})
    else:
        say(f"cortexd {'started' if started else 'is running already'}: {in_words(body)}")
        for file in written:
            say(f"written: {file}")
        for note in notes:
            say(f"note: {note}", error=True)
        if failure:
            say(f"error: {failure}", error=True)
    return 1 if failure else 0


def stop(profile: ProfileOption = None, as_json: JsonFlag = False) -> int:
    """End cortexd after what is under way."""
    meeting = meet(profile)
    state = control.look(meeting)
    clients = len(rows(state.status.get("clients")))
    pid = _stop(meeting, state)
    if as_json:
        print_json(
            {"stopped": bool(pid), "pid": pid or None, "home": meeting.home, "clients": clients}
        )
        return 0
    say(f"cortexd ended (process {pid})" if pid else "cortexd is not running")
    if clients:
        say(
            (
                f"note: it starts again for {many(clients, 'connected client')}. Off for good: "
                f"{TURN_OFF}"
            ),
            error=True,
        )
    return 0


def restart(
    profile: ProfileOption = None, log_level: LevelOption = None, as_json: JsonFlag = False
) -> int:
    """End cortexd and start it again; clients stay connected."""
    meeting = meet(profile)
    before = _stop(meeting, control.look(meeting))
    state, _ = _start(meeting, "cortex restart", log_level)
    body = {"ended": before or None, **who_runs(meeting, state)}
    if as_json:
        print_json(body)
    else:
        say(f"cortexd {'restarted' if before else 'started'}: {in_words(body)}")
    return 0


def _start(
    meeting: Rendezvous, by: str, level: LogLevel | None, *, skip_sync: bool = False
) -> tuple[State, bool]:
    options = (("--log-level", level.value) if level else ()) + (
        ("--skip-sync",) if skip_sync else ()
    )
    state, ours = control.start(meeting, by, options)
    if not state.answers:
        raise NetworkError(
            "CORTEXD_UNAVAILABLE",
            f"cortexd could not be started{_log_end(meeting.home)}",
            context={"log": control.log_file(meeting.home)},
        )
    return state, ours


def _stop(meeting: Rendezvous, state: State) -> int:
    try:
        return control.stop(meeting, state)
    except TimeoutError as error:
        raise NetworkError("CORTEXD_UNAVAILABLE", str(error)) from None


def _log_end(home: str) -> str:
    lines = read_log(home, 1)
    return f"; its log ends with: {lines[0].strip()}" if lines else ""


def _notes(
    state: State, started: bool, *, skip_sync: bool, enabled: str, log_level: LogLevel | None
) -> list[str]:
    notes = []
    if skip_sync and not started:
        notes.append("--skip-sync has no effect on a cortexd that runs already")
    if enabled:
        notes.append(enabled)
    if log_level and not started:
        notes.append(
            "--log-level has no effect on a cortexd that runs already: use `cortex restart "
            "--log-level`"
        )
    if state.running and not state.answers:
        notes.append("it doesn't answer: `cortex restart` ends it and starts another")
    if environment().get("CORTEX_NO_SIDECAR", "") not in ("", "0"):
        notes.append("CORTEX_NO_SIDECAR is set here: clients with it serve themselves")
    return notes


def _enable(home: Path, names: str) -> str:
    """Add plugins to the user's settings; return a note about it.

    Raises: ConfigError.
    """
    file, key = home / "config.yml", known_key("team.plugins")
    assert isinstance(key, Key)
    own = load(None, environment={**environment(), "CORTEX_HOME": str(home), "CORTEX_PROFILE": ""})
    more = [
        name for item in names.split(",") if (name := item.strip()) and name not in own.team.plugins
    ]
    check_known(more)
    if not more:
        return f"--plugins: {names} {'are' if ',' in names else 'is'} on already"
    new = own.check(key, [*own.team.plugins, *dict.fromkeys(more)], project=None)
    write_setting(file, key, new, private=True, within=None)
    return (
        f"--plugins: team.plugins = {key.show(new)} in {file}; clients that are connected keep "
        "theirs"
    )


def _write_project(*, mcp: bool, gitignore: bool, profile: str) -> tuple[list[str], list[str], str]:
    """Write the project's files; return their paths, notes for the user, and an error."""
    if not (mcp or gitignore):
        return [], [], ""
    here = Path.cwd().resolve()
    root = find_project_root(here, Path.home()) or here
    if root in (Path.home().resolve(), Path(root.anchor)):
        return (
            [],
            [
                (
                    f"{root} is no project: .mcp.json and .gitignore were not written. Run it "
                    "in a project's folder."
                )
            ],
            "",
        )
    from cortex.interfaces.cli.install import own_program
    from cortex.interfaces.install.project_files import write_project_files

    home = find_home({**environment(), "CORTEX_PROFILE": ""}, Path.home())
    try:
        program = own_program()
    # The running program is in a cache that will be cleaned up.
    except ConfigError:
        program = ""
    try:
        written = write_project_files(
            root, mcp=mcp, gitignore=gitignore, home=home, program=program, profile=profile
        )
    except CortexError as error:
        return [], [], f"the project's files were not written: {error.message}"
    return [str(root / name) for name in written.files], list(written.notes), ""
