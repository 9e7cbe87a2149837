"""Command line of Cortex: assembles the commands and turns errors into exit codes.

Each module is one command or group. A command line loads only the module that it names: loading all
of them takes longer than most commands. `app` has them all, for `--help`. Exit codes: 0 done, 1 an
explained error or a question answered with no, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from cortex.base.errors import CortexError, explained
from cortex.base.settings import choose_profile, environment
from cortex.toolkit.terminal.options import check_profile
from cortex.toolkit.terminal.output import PrintableFormatter, print_error, printable

if TYPE_CHECKING:
    app: typer.Typer

log = logging.getLogger(__name__)

# The module and function of each command, and the module of each group, in the order of the help.
COMMANDS = {
    "index": "cortex.interfaces.cli.index:index",
    "search": "cortex.interfaces.cli.search:search",
    "mcp": "cortex.interfaces.cli.mcp:mcp",
    "mcp status": "cortex.interfaces.cli.status:mcp_status",
    "mcp logs": "cortex.interfaces.cli.status:mcp_logs",
    "start": "cortex.interfaces.cli.daemon:start",
    "stop": "cortex.interfaces.cli.daemon:stop",
    "restart": "cortex.interfaces.cli.daemon:restart",
    "status": "cortex.interfaces.cli.status:status",
    "connect": "cortex.families.team.commands.connect:connect",
    "disconnect": "cortex.families.team.commands.connect:disconnect",
    "sync": "cortex.families.team.commands.sync:sync",
    "doctor": "cortex.interfaces.cli.doctor:doctor",
    "hook": "cortex.interfaces.cli.hook:hook",
    "inbox": "cortex.families.team.commands.inbox:inbox",
    "inbox done": "cortex.families.team.commands.inbox:done",
    "show": "cortex.families.team.commands.permalink:show",
    "audit": "cortex.families.team.commands.audit:audit",
    "install": "cortex.interfaces.cli.install:install_clients",
    "uninstall": "cortex.interfaces.cli.install:uninstall_clients",
}
GROUPS = {
    "artifact": "cortex.families.team.commands.artifact",
    "backup": "cortex.interfaces.cli.backup",
    "chunks": "cortex.families.chunkfiles.commands",
    "config": "cortex.interfaces.cli.config",
    "context": "cortex.families.team.commands.context",
    "core": "cortex.interfaces.team_server.commands.core",
    "drafts": "cortex.families.team.commands.drafts",
    "embed": "cortex.interfaces.cli.embed",
    "kb": "cortex.families.documents.commands.kb",
    "link": "cortex.families.team.commands.link",
    "memory": "cortex.families.memory.commands.memory",
    "models": "cortex.interfaces.cli.models",
    "observation": "cortex.families.team.commands.observation",
    "pack": "cortex.families.team.commands.packs",
    "profile": "cortex.interfaces.cli.profile",
    "qdrant": "cortex.families.documents.commands.qdrant",
    "subcortex": "cortex.families.team.commands.subcortex",
    "task": "cortex.families.team.commands.task",
    "thread": "cortex.families.team.commands.thread",
}


class Commands(TyperGroup):
    """Command group that also has commands of two words.

    `mcp` takes names of families, so `mcp status` can't be a command within it.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = " ".join(args[:2])
        return (
            (name, self.commands[name], args[2:])
            if name in self.commands
            else super().resolve_command(ctx, args)
        )


def __getattr__(name: str) -> Any:
    if name == "app":
        return _app("")
    raise AttributeError(name)


@cache
def _app(first: str) -> typer.Typer:
    """Build the app with the commands that begin with this word; with all if there are none."""
    alone = {name: place for name, place in COMMANDS.items() if name.split()[0] == first}
    groups = {name: module for name, module in GROUPS.items() if name == first}
    if not alone and not groups:
        alone, groups = COMMANDS, GROUPS
    built = typer.Typer(
        cls=Commands,
        name="cortex",
        help=(
            "A local context engine for coding agents: index a folder, ask it questions, serve "
            "it over MCP."
        ),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    built.callback(invoke_without_command=True)(_root)
    for name, place in alone.items():
        module, _, function = place.partition(":")
        built.command(name)(getattr(import_module(module), function))
    for name, module in groups.items():
        built.add_typer(import_module(module).app, name=name)
    return built


@cache
def _command(first: str) -> Any:
    """Return the click command for a command line that begins with this word."""
    return typer.main.get_command(_app(first))


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
        from importlib.metadata import version as version_of

        print(f"cortex {version_of('cortex-context')}")
        raise typer.Exit


def _skips_profile_check(context: typer.Context) -> bool:
    """True for a command with its own --profile, which takes precedence, or with --help."""
    given, command = list(context.obj or ()), context.invoked_subcommand
    rest = given[given.index(command) + 1 :] if command in given else []
    return any(
        argument == "--help" or argument.partition("=")[0] == "--profile" for argument in rest
    )


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
        outcome = _command(next(iter(arguments), ""))(
            args=list(arguments), obj=list(arguments), standalone_mode=False
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
    except (BrokenPipeError, SystemExit):
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
