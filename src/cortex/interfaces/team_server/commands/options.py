"""What the commands for whoever runs a Core have in common: which database is meant, and opening
it.

Its address may hold a password: it is never printed with it, and comes from the environment where
the command line would show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote

import typer

from cortex.base.errors import CODES, ConfigError, CortexError, InputError
from cortex.base.paths import ensure_store_dir
from cortex.base.settings import Settings, environment, load
from cortex.engine.store.records.ledger import Ledger, folder_of, open_ledger

VARIABLE = "CORTEX_CORE_DB"
# In the home: a ledger in SQLite; what is read of one in PostgreSQL
FOLDER, REPLICA = "core", "core-replica"
HIDDEN = "***"
# In place of what the codes say in general: an index can be built anew, a Core's records can't; and
# who is asked for here is no record.
FOR_ITS_KEEPER = {
    "STORE_CORRUPT": "Restore the last backup into an empty database: `cortex core restore FILE --db URL`.",
    "RECORD_UNKNOWN": "`cortex core principal list` shows everybody, and where each may read and write.",
}

DbOption = Annotated[
    str,
    typer.Option(
        "--db",
        metavar="URL",
        help=f"sqlite:///DIRECTORY or postgresql://…; default: ${VARIABLE}, or else SQLite in your home.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Where the index of records in PostgreSQL is kept; default: core-replica in your home. SQLite has it beside them.",
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The principal's name.")]


def core_settings() -> Settings:
    """The settings of whoever runs the Core, without any project's."""
    return load(None, environment=environment())


def database(told: str) -> str:
    """The address that is meant: as it was told, as the environment says, or SQLite in the home."""
    if known := told or environment().get(VARIABLE):
        return known
    folder = (core_settings().home / FOLDER).absolute()
    return f"sqlite:///{quote(str(folder), safe='/:' + chr(92))}"


def index_folder(url: str, data: Path | None) -> Path:
    """Where what is searched is kept.

    Raises: InputError, where somebody wants it elsewhere than beside records in SQLite.
    """
    folder = folder_of(url)
    if folder is not None and data is not None:
        raise InputError(
            "ARGUMENT_INVALID",
            f"--data is for records in PostgreSQL; those in SQLite are in {folder}, with their index",
            instead=(
                f"Name the directory with --db sqlite:///DIRECTORY or {VARIABLE}, in each command of this Core.",
            ),
        )
    return folder or (data or core_settings().home / REPLICA).absolute()


def shown(url: str) -> str:
    """An address as people may see it."""
    return _hide(url, url)


@contextmanager
def ledger(told: str, *, new: bool = False) -> Iterator[Ledger]:
    """The ledger, open while a command runs; what goes wrong is told without a password.

    Raises: ConfigError, where there is none and none shall be made; FileError, InputError,
    StoreError.
    """
    url = database(told)
    folder = folder_of(url)
    if new and folder is not None:
        ensure_store_dir(folder)
    with _for_its_keeper(url), _opened(url, new, "--db" if told else VARIABLE) as opened:
        yield opened


def _opened(url: str, new: bool, told_by: str) -> Ledger:
    try:
        return open_ledger(url, new=new)
    except FileNotFoundError:
        raise ConfigError(
            "CONFIG_INVALID",
            f"there is no Core at {shown(url)}",
            instead=(
                f"Set CORTEX_HOME and {VARIABLE} as they were at `cortex core init`, or name its database with --db.",
                "Where there is none yet, `cortex core init` makes one.",
            ),
        ) from None
    except InputError as error:  # of the address
        error.message = f"{told_by}: {error.message}"
        raise


@contextmanager
def _for_its_keeper(url: str) -> Iterator[None]:
    """Have what goes wrong told without a password, in one line, and with what helps whoever runs a
    Core.
    """
    try:
        yield
    except CortexError as error:
        general = CODES[error.code].suggestion
        own = FOR_ITS_KEEPER.get(error.code, general)
        error.suggestions = tuple(
            own if suggestion == general else suggestion for suggestion in error.suggestions
        )
        # A database says it in lines
        error.message = re.sub(r"\s*\n\s*", " ", _hide(error.message, url))
        error.context = {
            name: _hide(one, url) if isinstance(one, str) else one
            for name, one in error.context.items()
        }
        error.args = (error.message,)
        raise


def _hide(text: str, url: str) -> str:
    """A text without the password of an address, in whichever spelling."""
    secrets = {one.partition("=")[2] for one in url.partition("?")[2].split("&") if "passw" in one}
    if "@" in url:  # also of what is no address at all
        password = (url.partition("://")[2] or url).rpartition("@")[0].partition(":")[2]
        # Where these aren't spelled out, a part of it is taken for a host
        read = re.split("[@:/?#]", password)
        secrets |= {password, *(one for one in read if len(one) > 1)}
    for secret in sorted(
        {spelled for one in secrets if one for spelled in (one, unquote(one))},
        key=len,
        reverse=True,
    ):
        text = text.replace(secret, HIDDEN)
    return text
