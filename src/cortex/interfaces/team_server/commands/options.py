"""Shared options of the `cortex core` commands: the choice and opening of the database.

The address of a database may hold a password: it is never printed, and can come from the
environment, where no process list shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote

import typer

from cortex.base.errors import CODES, ConfigError, CortexError, InputError
from cortex.base.paths import ensure_store_dir
from cortex.base.settings import Settings, environment, load
from cortex.engine.store.records.ledger import Ledger, folder_of, open_ledger
from cortex.toolkit.terminal.output import print_json, say

VARIABLE = "CORTEX_CORE_DB"
# Folders in the home: a ledger in SQLite, and the replica of one in PostgreSQL.
FOLDER, REPLICA = "core", "core-replica"
HIDDEN = "***"
# Suggestions for the operator in place of the general ones: unlike an index, the records of a Core
# can't be rebuilt, and an unknown record here is a principal.
FOR_OPERATOR = {
    "STORE_CORRUPT": (
        "Restore the last backup into an empty database: `cortex core restore FILE --db URL`."
    ),
    "RECORD_UNKNOWN": (
        "`cortex core principal list` shows all principals, and where each may read and write."
    ),
}

DbOption = Annotated[
    str,
    typer.Option(
        "--db",
        metavar="URL",
        help=(
            f"sqlite:///DIRECTORY or postgresql://…; default: ${VARIABLE}, or else SQLite in "
            "your home."
        ),
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help=(
            "Where the index of records in PostgreSQL is kept; default: core-replica in your "
            "home. SQLite has it beside them."
        ),
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The principal's name.")]


def core_settings() -> Settings:
    """Load the settings of the operator, without those of any project."""
    return load(None, environment=environment())


def database(given: str) -> str:
    """Return the database address: as given, from the environment, or SQLite in the home."""
    if known := given or environment().get(VARIABLE):
        return known
    folder = (core_settings().home / FOLDER).absolute()
    return f"sqlite:///{quote(str(folder), safe='/:' + chr(92))}"


def index_folder(url: str, data: Path | None) -> Path:
    """Return the folder of the search index.

    Raises: InputError where a folder is given for records in SQLite, which keep their index beside
    them.
    """
    folder = folder_of(url)
    if folder is not None and data is not None:
        raise InputError(
            "ARGUMENT_INVALID",
            (
                f"--data is only for records in PostgreSQL; those in SQLite are in {folder}, with "
                "their index"
            ),
            instead=(
                (
                    f"Name the directory with --db sqlite:///DIRECTORY or {VARIABLE}, in each "
                    "command of this Core."
                ),
            ),
        )
    return folder or (data or core_settings().home / REPLICA).absolute()


def shown(url: str) -> str:
    """Return an address without its password."""
    return _hide(url, url)


def report(as_json: bool, body: Mapping[str, object], text: str) -> int:
    """Print what was done, as JSON or for a person; return the exit code."""
    if as_json:
        print_json(body)
    else:
        say(text)
    return 0


@contextmanager
def ledger(given: str, *, new: bool = False) -> Iterator[Ledger]:
    """Open the ledger while a command runs; errors are reported without a password.

    Raises: ConfigError where there is no Core and `new` is false; FileError, InputError,
    StoreError.
    """
    url = database(given)
    folder = folder_of(url)
    if new and folder is not None:
        ensure_store_dir(folder)
    with _operator_errors(url), _opened(url, new, "--db" if given else VARIABLE) as opened:
        yield opened


def _opened(url: str, new: bool, source: str) -> Ledger:
    try:
        return open_ledger(url, new=new)
    except FileNotFoundError:
        raise ConfigError(
            "CONFIG_INVALID",
            f"there is no Core at {shown(url)}",
            instead=(
                (
                    f"Set CORTEX_HOME and {VARIABLE} as they were at `cortex core init`, or "
                    "name its database with --db."
                ),
                "If there is none yet, create it with `cortex core init`.",
            ),
        ) from None
    # The address is invalid.
    except InputError as error:
        error.message = f"{source}: {error.message}"
        raise


@contextmanager
def _operator_errors(url: str) -> Iterator[None]:
    """Rewrite errors for the operator: one line, no password, fitting suggestions."""
    try:
        yield
    except CortexError as error:
        general = CODES[error.code].suggestion
        own = FOR_OPERATOR.get(error.code, general)
        error.suggestions = tuple(
            own if suggestion == general else suggestion for suggestion in error.suggestions
        )
        # Messages of a database have several lines.
        error.message = re.sub(r"\s*\n\s*", " ", _hide(error.message, url))
        error.context = {
            name: _hide(value, url) if isinstance(value, str) else value
            for name, value in error.context.items()
        }
        error.args = (error.message,)
        raise


def _hide(text: str, url: str) -> str:
    """Replace the password of an address in a text, in any spelling."""
    secrets = {
        parameter.partition("=")[2]
        for parameter in url.partition("?")[2].split("&")
        if "passw" in parameter
    }
    # Also in a text that is no valid address.
    if "@" in url:
        password = (url.partition("://")[2] or url).rpartition("@")[0].partition(":")[2]
        # Unquoted separators in a password make a part of it look like a host.
        read = re.split("[@:/?#]", password)
        secrets |= {password, *(part for part in read if len(part) > 1)}
    for secret in sorted(
        {spelled for secret_ in secrets if secret_ for spelled in (secret_, unquote(secret_))},
        key=len,
        reverse=True,
    ):
        text = text.replace(secret, HIDDEN)
    return text
