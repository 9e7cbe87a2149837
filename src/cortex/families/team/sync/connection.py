"""Connect a home to a team's Core, and disconnect it.

Connecting asks the Core for the principal first and then queues the chosen local records, once.
The connection is kept in the store, because each write needs it in its own transaction; the token
is in a file that only the person can read, or in CORTEX_CORE_TOKEN. The sync schedule is not known
here. Road not taken: several Cores for one home, because a record would have no clear owner. A
profile is a home of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortex.base.actors import COMMAND, person
from cortex.base.errors import ConfigError, InputError, NetworkError, explained
from cortex.base.record_model import Record
from cortex.base.runtime.atomic_file import replace_file
from cortex.base.runtime.http_client import shown
from cortex.base.settings import environment, stays_here
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.families.team.ids import new_ulid
from cortex.families.team.sync import discard, saved_files, state
from cortex.families.team.sync.client import CoreGreeting, Remote
from cortex.families.team.sync.cycle import sync_lock
from cortex.families.team.sync.overwritten import FOLDER as REPLACED
from cortex.families.team.sync.upload import MINE, NONE, Plan, plan, records_to_send

TOKEN_FILE = "core-token"
TOKEN_VARIABLE = "CORTEX_CORE_TOKEN"
# Most characters of a token.
MAX_TOKEN = 1_000


@dataclass(frozen=True, slots=True)
class Joined:
    """Result of connecting a home to a Core."""

    url: str
    # Name of the principal.
    name: str
    tier: int
    # Number of local records that were queued for upload.
    queued: int
    # File with local changes of the Core's records that aren't sent.
    kept_aside: Path | None
    # The home was already connected to this Core.
    again: bool


@dataclass(frozen=True, slots=True)
class Preview:
    """Principal at a Core, and the upload that connecting would queue."""

    url: str
    name: str
    tier: int
    plan: Plan


def preview(
    library: Library, url: str, token: str, *, plain: bool = False, moved: bool = False
) -> Preview:
    """Plan the upload of connecting to a Core, without sending or changing anything.

    Raises: as `connect`.
    """
    address, greeting = _greet(library, url, token, plain)
    _check_single_core(library, address, greeting, moved)
    outbox = library.store.outbox
    changes = len(outbox.changed_since(greeting.epoch))
    upload = plan(outbox.candidates(greeting.epoch), greeting.tier, changes)
    return Preview(address, greeting.name, greeting.tier, upload)


def connect(
    library: Library,
    url: str,
    token: str,
    *,
    plain: bool = False,
    moved: bool = False,
    choice: str | None = None,
    cancel: Cancel | None = None,
) -> Joined:
    """Connect to a Core and queue the local records that `choice` selects, "mine" by default.

    `plain` permits http:// beyond this machine. `moved` confirms that a Core with another address
    and another history is the same team's. A home that is connected already queues records only if
    a choice is given.

    Raises: ConfigError CORE_CONNECTED for another Core or principal than before; InputError,
    NetworkError; FileError.
    """
    address, greeting = _greet(library, url, token, plain)
    with sync_lock(library, "try again", cancel=cancel):
        return _store_connection(library, address, token, plain, moved, greeting, choice)


def _greet(library: Library, url: str, token: str, plain: bool) -> tuple[str, CoreGreeting]:
    """Return the Core's address and greeting. Raises: InputError, NetworkError."""
    if library.settings.server.local_only and not stays_here(url):
        raise NetworkError(
            "ADDRESS_REFUSED",
            f"server.localOnly: {shown(url)} is beyond this machine, and nothing is sent there",
        )
    remote = Remote(url, _check_token(token), plain=plain)
    try:
        return remote.url, remote.bootstrap()
    finally:
        remote.close()


def disconnect(library: Library, *, force: bool = False) -> str:
    """Disconnect from the Core and return its address, "" if there was none.

    All records stay here; the token is deleted.

    Raises: ConfigError CORE_CONNECTED if the outbox has waiting or refused entries, unless `force`.
    """
    with sync_lock(library, "try again"):
        url = library.store.content.get(state.URL)
        waiting, refused = library.store.outbox.count()
        if url and (waiting or refused) and not force:
            raise ConfigError(
                "CORE_CONNECTED",
                f"{waiting} changes wait to be sent to {shown(url)}, and {refused} were refused "
                "there; they would not be sent any more",
                context={"waiting": waiting, "refused": refused},
                instead=(
                    "Send what waits with `cortex sync`, and look at what was refused with "
                    "`cortex sync --refused`.",
                    "Or leave with --force: what was refused is written to a file, "
                    "and all records stay here.",
                ),
            )
        discard.drop_refused(library)
        library.store.outbox.forget(library.store.content.get(state.EPOCH), url)
        with suppress(FileNotFoundError):
            (library.settings.home / TOKEN_FILE).unlink()
    return url


def remote_of(library: Library) -> Remote:
    """Open a home's Core. Raises: ConfigError CORE_MISSING; NetworkError ADDRESS_REFUSED."""
    fact = library.store.content.get
    url = fact(state.URL)
    if not url:
        raise ConfigError("CORE_MISSING", "this home is connected to no Core")
    if library.settings.server.local_only and not stays_here(url):
        raise NetworkError("ADDRESS_REFUSED", f"server.localOnly: nothing is sent to {shown(url)}")
    token = token_of(library.settings.home)
    if not token:
        raise ConfigError(
            "CORE_MISSING",
            f"there is no token for the Core at {shown(url)}: {TOKEN_FILE} is missing or empty",
        )
    return Remote(url, token, plain=fact(state.PLAIN) == "1")


def token_of(home: Path) -> str:
    """Token of a home, "" if it has none; the environment wins over the file."""
    if token := environment().get(TOKEN_VARIABLE, "").strip():
        return token
    try:
        return (home / TOKEN_FILE).read_text(encoding="utf-8", errors="replace")[:MAX_TOKEN].strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise explained(error, f"reading {home / TOKEN_FILE}") from error


def has_token(home: Path) -> bool:
    """True if the environment or a file has a token; the file isn't read."""
    return bool(environment().get(TOKEN_VARIABLE, "").strip()) or (home / TOKEN_FILE).is_file()


def _store_connection(
    library: Library,
    url: str,
    token: str,
    plain: bool,
    moved: bool,
    greeting: CoreGreeting,
    choice: str | None,
) -> Joined:
    """Store the connection and queue the chosen records. The caller holds the sync lock."""
    _check_single_core(library, url, greeting, moved)
    before = library.store.content.get(state.URL)
    _write_token(library.settings.home, token)
    facts = {state.URL: url, state.PLAIN: "1" if plain else "", state.NAME: greeting.name}
    facts |= {state.TIER: str(greeting.tier), state.ERROR: "", state.CODE: ""}
    outbox, mark = library.store.outbox, f"{greeting.epoch}/{new_ulid()}"
    # Only the token or the address changed. The next sync detects another history.
    if before and choice is None:
        library.store.content.set(facts)
        return Joined(url, greeting.name, greeting.tier, 0, None, again=True)
    choice, file = choice or MINE, None
    if not before:
        outbox.forget()
        facts |= {
            state.EPOCH: greeting.epoch,
            state.VIEW: greeting.view,
            state.CURSOR: "",
            state.RESYNC: "",
        }
        facts |= state.device_of(library)
        if choice == NONE:
            file = _save_changes(library, outbox.changed_since(greeting.epoch))
    queued = outbox.upload(
        person(COMMAND),
        mark,
        greeting.epoch,
        facts,
        lambda candidates: records_to_send(candidates, choice, greeting.tier),
        changes=choice != NONE,
    )
    return Joined(url, greeting.name, greeting.tier, queued, file, again=bool(before))


def _check_single_core(library: Library, url: str, greeting: CoreGreeting, moved: bool) -> None:
    """Check that the home isn't connected to another Core or as another principal.

    Raises: ConfigError CORE_CONNECTED.
    """
    fact = library.store.content.get
    before, name, epoch = fact(state.URL), fact(state.NAME), fact(state.EPOCH)
    if before and (
        name != greeting.name or (before != url and epoch != greeting.epoch and not moved)
    ):
        raise ConfigError(
            "CORE_CONNECTED",
            f"this home is connected to {shown(before)} as {name}, "
            f"and not to {shown(url)} as {greeting.name}",
            context={"server": shown(before), "name": name},
            suggestions=(
                "If it is the same team's Core, moved from a backup: connect with --moved.",
            )
            if name == greeting.name
            else (),
        )


def _save_changes(library: Library, records: Sequence[Record[Any]]) -> Path | None:
    """Save local records that the Core's versions will replace. Raises: FileError."""
    if not records:
        return None
    folder = library.settings.home / REPLACED
    return saved_files.write_new(folder, ".jsonl", saved_files.record_lines(records))


def _check_token(token: str) -> str:
    token = token.strip()
    if (
        not token
        or len(token) > MAX_TOKEN
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise InputError(
            "ARGUMENT_INVALID", "a token is one word, as `cortex core token create` shows it"
        )
    return token


def _write_token(home: Path, token: str) -> None:
    """Write the token to a file that only the person can read. Raises: FileError."""
    target = home / TOKEN_FILE
    try:
        replace_file(target, f"{token.strip()}\n".encode())
    except OSError as error:
        raise explained(error, f"writing {target}") from error
