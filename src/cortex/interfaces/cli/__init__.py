"""Command line of Cortex: assembles the commands and turns errors into exit codes.

Each module is one command or group, and a command line loads only the one that it names. Exit
codes: 0 done, 1 an explained error or a question answered with no, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import ClassVar

import typer

from cortex.base.errors import CortexError, explained
from cortex.base.runtime.home import VERSION
from cortex.base.settings import choose_profile, environment
from cortex.toolkit.terminal.lazy_group import CommandRow, LazyGroup, Sections
from cortex.toolkit.terminal.options import check_profile
from cortex.toolkit.terminal.output import PrintableFormatter, print_error, printable

log = logging.getLogger(__name__)

HELP = ("-h", "--help")
CLI = "cortex.interfaces.cli"
TEAM = "cortex.families.team.commands"
SECTIONS: Sections = {
    "Every day": {
        "search": CommandRow(f"{CLI}.search:search", "Search what is here, by words and meaning."),
        "index": CommandRow(f"{CLI}.index:index", "Bring a folder's index up to date."),
        "install": CommandRow(f"{CLI}.install:install_clients", "Connect your agents' clients."),
        "status": CommandRow(f"{CLI}.status:status", "Show the state of index, server and sync."),
        "inbox": CommandRow(f"{TEAM}.inbox:inbox", "Show what waits for you."),
        "doctor": CommandRow(f"{CLI}.doctor:doctor", "Find problems and say what to do."),
    },
    "Search and index": {
        "chunks": CommandRow(
            "cortex.families.chunkfiles.commands:app", "Chunk files for other programs."
        ),
        "models": CommandRow(f"{CLI}.models:app", "Choose and serve the embedding model."),
    },
    "Connect": {
        "mcp": CommandRow(f"{CLI}.mcp:mcp", "Serve tools over the Model Context Protocol."),
        "mcp status": CommandRow(f"{CLI}.status:mcp_status", "Show cortexd and its clients."),
        "mcp logs": CommandRow(f"{CLI}.status:mcp_logs", "Show the end of cortexd's log."),
        "uninstall": CommandRow(f"{CLI}.install:uninstall_clients", "Disconnect clients."),
        "hook": CommandRow(f"{CLI}.hook:hook", "Run at the events of a client's session."),
    },
    "Documents": {
        "kb": CommandRow(
            "cortex.families.documents.commands.kb:app", "Your documents: add, sync, search."
        ),
        "qdrant": CommandRow(
            "cortex.families.documents.commands.qdrant:app", "A Qdrant server for their vectors."
        ),
    },
    "Memories": {
        "memory": CommandRow(
            "cortex.families.memory.commands.memory:app", "Memories: add, search, curate."
        )
    },
    "Team": {
        "team": CommandRow(f"{TEAM}.team:app", "Subcortexes, threads, artifacts, tasks, drafts."),
        "show": CommandRow(f"{TEAM}.permalink:show", "Show the record of a link or an id."),
        "inbox done": CommandRow(f"{TEAM}.inbox:done", "Acknowledge notifications."),
        "pack": CommandRow(f"{TEAM}.packs:app", "A file with what a newcomer should know."),
        "sync": CommandRow(f"{TEAM}.sync:sync", "Exchange changes with the team's Core."),
        "connect": CommandRow(f"{TEAM}.connect:connect", "Join a team's Core."),
        "disconnect": CommandRow(f"{TEAM}.connect:disconnect", "Leave the team's Core."),
    },
    "Team server": {
        "core": CommandRow(
            "cortex.interfaces.team_server.commands.core:app", "Run a Core, and say who may use it."
        )
    },
    "Maintenance": {
        "config": CommandRow(f"{CLI}.config:app", "Show and change settings."),
        "start": CommandRow(f"{CLI}.daemon:start", "Start cortexd, and connect the project here."),
        "stop": CommandRow(f"{CLI}.daemon:stop", "Stop cortexd."),
        "restart": CommandRow(f"{CLI}.daemon:restart", "Restart cortexd; clients stay connected."),
        "backup": CommandRow(f"{CLI}.backup:app", "Snapshots of memories, records and settings."),
        "profile": CommandRow(f"{CLI}.profile:app", "Separate homes for several teams."),
    },
}


class Commands(LazyGroup):
    """Commands of `cortex`."""

    sections: ClassVar[Sections] = SECTIONS


app = typer.Typer(
    cls=Commands,
    name="cortex",
    help=(
        "A local context engine for coding agents: index a folder, ask it questions, serve "
        "it over MCP."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": list(HELP)},
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
    profile: str = typer.Option(
        "",
        "--profile",
        metavar="NAME",
        help="Use the home of this profile: its records, documents, memories and server.",
    ),
) -> None:
    if profile:
        choose_profile(profile)
    if not _skips_profile_check(context):
        check_profile(context, environment().get("CORTEX_PROFILE"))
    if version:
        print(f"cortex {VERSION}")
        raise typer.Exit


def _skips_profile_check(context: typer.Context) -> bool:
    """True for a command with its own --profile, which takes precedence, or with --help."""
    given, command = list(context.obj or ()), context.invoked_subcommand
    rest = given[given.index(command) + 1 :] if command in given else []
    return any(argument in HELP or argument.partition("=")[0] == "--profile" for argument in rest)


def run(arguments: Sequence[str]) -> int:
    """Run a command line; every error becomes one clear message."""
    stderr = logging.StreamHandler()
    stderr.setFormatter(PrintableFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[stderr])
    logging.getLogger().setLevel(logging.DEBUG if _debugging() else logging.WARNING)
    # A terminal that can't show a character shows a replacement.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        command = typer.main.get_command(app)
        outcome = command(
            args=list(arguments), prog_name="cortex", obj=list(arguments), standalone_mode=False
        )
        sys.stdout.flush()
    except CortexError as error:
        print_error(error, as_json="--json" in arguments)
        return error.exit_code
    except typer.Exit as leaving:
        return leaving.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    # `cortex search … | head`; inside a command click turns it into SystemExit.
    except (BrokenPipeError, SystemExit) as leaving:
        if isinstance(leaving, SystemExit) and not isinstance(leaving.__context__, OSError):
            # Completion ends the process with an answer for the shell.
            return int(leaving.code or 0)
        # Discards the rest of the output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:
        # An exception of click: wrong usage.
        if hasattr(error, "show") and hasattr(error, "exit_code"):
            error.message = printable(error.message, lines=True)  # type: ignore[attr-defined]
            error.show()  # type: ignore[attr-defined]
            return int(error.exit_code)  # type: ignore[attr-defined]
        log.debug("unforeseen error", exc_info=error)
        hint = "Repeat it with CORTEX_LOG_LEVEL=debug to see where it happened."
        print_error(explained(error, f"cortex {arguments[0]}", hint), as_json="--json" in arguments)
        return 1
    return outcome if isinstance(outcome, int) else 0


def _debugging() -> bool:
    return environment().get("CORTEX_LOG_LEVEL", "").lower() == "debug"
