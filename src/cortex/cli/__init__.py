"""The commands: the top of the house. Each module is one command; this one puts them together and turns errors into exit codes.

Exit codes: 0 done, 1 an error that was explained, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

from cortex.cli import (
    chunks,
    config,
    daemon,
    doctor,
    embed,
    hook,
    index,
    install,
    kb,
    mcp,
    memory,
    models,
    qdrant,
    search,
    status,
)
from cortex.cli.show import PrintableFormatter, print_error, printable
from cortex.errors import CortexError, explained
from cortex.settings import environment

log = logging.getLogger(__name__)


class Commands(TyperGroup):
    """Knows commands of two words: `mcp` takes names of families, so `mcp status` can't be a command within it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = " ".join(args[:2])
        return (name, self.commands[name], args[2:]) if name in self.commands else super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    name="cortex",
    help="A local context engine for coding agents: index a folder, ask it questions, serve it over MCP.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("index")(index.index)
app.command("search")(search.search)
app.command("mcp")(mcp.mcp)
app.command("mcp status")(status.mcp_status)
app.command("mcp logs")(status.mcp_logs)
app.command("start")(daemon.start)
app.command("stop")(daemon.stop)
app.command("restart")(daemon.restart)
app.command("status")(status.status)
app.command("doctor")(doctor.doctor)
app.command("hook")(hook.hook)
app.command("install")(install.install_clients)
app.command("uninstall")(install.uninstall_clients)
app.add_typer(chunks.app, name="chunks")
app.add_typer(config.app, name="config")
app.add_typer(embed.app, name="embed")
app.add_typer(kb.app, name="kb")
app.add_typer(memory.app, name="memory")
app.add_typer(models.app, name="models")
app.add_typer(qdrant.app, name="qdrant")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    if version:
        from importlib.metadata import version as version_of

        print(f"cortex {version_of('cortex-context')}")
        raise typer.Exit


def run(arguments: Sequence[str]) -> int:
    """Run a command line; every error is one clear message."""
    stderr = logging.StreamHandler()
    stderr.setFormatter(PrintableFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[stderr])
    logging.getLogger().setLevel(logging.DEBUG if _debugging() else logging.WARNING)
    for stream in (sys.stdout, sys.stderr):  # a terminal that can't show a character shows another
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        outcome = app(args=list(arguments), standalone_mode=False)
        sys.stdout.flush()
    except CortexError as error:
        print_error(error, as_json="--json" in arguments)
        return error.exit_code
    except typer.Exit as leaving:
        return leaving.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except (BrokenPipeError, SystemExit):  # `cortex search … | head`; inside a command click turns it into the latter
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still to be written goes nowhere
        return 0
    except Exception as error:
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # click's own: wrong usage
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
