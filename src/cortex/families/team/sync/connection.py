"""Joining a team's Core and leaving it: who one is there is asked first, then what the person chose
of what is here is queued, once.

The store says whether a home is connected, because each write has to know in its own transaction;
the token is in a file that only the person can read, or in CORTEX_CORE_TOKEN. When something is
sent isn't known here. Road not taken: several Cores for one home; whose record would it be? A
profile is a home of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortex.base.actors import COMMAND, person
from cortex.base.errors import (
    Cancelled,
    ConfigError,
    InputError,
    LimitError,
    NetworkError,
    explained,
)
from cortex.base.record_model import Record
from cortex.base.runtime.file_lock import turn
from cortex.base.runtime.http_client import shown
from cortex.base.settings import environment, stays_here
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.engine.store import VersionedRecord
from cortex.families.team.ids import new_ulid
from cortex.families.team.sync import discard, saved_files, state
from cortex.families.team.sync.client import CoreGreeting, Remote
from cortex.families.team.sync.cycle import LOCK, TURN_SECONDS
from cortex.families.team.sync.overwritten import FOLDER as REPLACED
from cortex.families.team.sync.upload import MINE, NONE, Plan, plan, records_to_send
from cortex.families.team.wire.codec import record_to

TOKEN_FILE = "core-token"
TOKEN_VARIABLE = "CORTEX_CORE_TOKEN"
MAX_TOKEN = 1_000  # characters


@dataclass(frozen=True, slots=True)
class Joined:
    """A Core that a home is connected to now."""

    url: str
    name: str  # of the principal
    tier: int
    queued: int  # records that were here before, and are sent now
    kept_aside: Path | None  # a file with changes of the Core's records that aren't sent
    again: bool  # it was connected to this Core already


@dataclass(frozen=True, slots=True)
class Preview:
    """A Core that a home could join, and what would be sent there."""

    url: str
    name: str
    tier: int
    plan: Plan


def preview(
    library: Library, url: str, token: str, *, plain: bool = False, moved: bool = False
) -> Preview:
    """Tell what joining a Core would send there; nothing of it is sent, and nothing is changed.

    Raises: as `connect`.
    """
    address, greeting = _greeted(library, url, token, plain)
    _check_alone(library, address, greeting, moved)
    outbox = library.store.outbox
    changes = len(outbox.changed_since(greeting.epoch))
    found = plan(outbox.candidates(greeting.epoch), greeting.tier, changes)
    return Preview(address, greeting.name, greeting.tier, found)


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
    """Join a Core, and queue what the `choice` says of what is here: "mine" unless another is
    given.

    `plain` allows http:// beyond this machine; `moved` says that another address with another
    history is the same team's. A home that is connected already queues only by a choice. Raises:
    ConfigError CORE_CONNECTED for another Core or name than before; InputError, NetworkError;
    FileError.
    """
    address, greeting = _greeted(library, url, token, plain)
    cancel = Cancel() if cancel is None else cancel
    with turn(str(library.settings.home / LOCK), TURN_SECONDS, lambda: bool(cancel)) as mine:
        if not mine:
            raise (
                Cancelled
                if cancel
                else LimitError("INDEX_BUSY", "another process is syncing this home; try again")
            )
        return _join(library, address, token, plain, moved, greeting, choice)


def _greeted(library: Library, url: str, token: str, plain: bool) -> tuple[str, CoreGreeting]:
    """The Core's address, and who one is there. Raises: InputError, NetworkError."""
    if library.settings.server.local_only and not stays_here(url):
        raise NetworkError(
            "ADDRESS_REFUSED",
            f"server.localOnly: {shown(url)} is beyond this machine, and nothing is sent there",
        )
    remote = Remote(url, _checked(token), plain=plain)
    try:
        return remote.url, remote.bootstrap()
    finally:
        remote.close()


def disconnect(library: Library, *, force: bool = False) -> str:
    """Leave the Core, and tell which it was, "" where there was none; all records stay here, and
    the Core's token goes.

    Raises: ConfigError CORE_CONNECTED, where something waits or was refused that would no longer be
    sent, unless by `force`.
    """
    with turn(str(library.settings.home / LOCK), TURN_SECONDS, lambda: False) as mine:
        if not mine:
            raise LimitError("INDEX_BUSY", "another process is syncing this home; try again")
        url = library.store.truth.get(state.URL)
        waiting, refused = library.store.outbox.count()
        if url and (waiting or refused) and not force:
            raise ConfigError(
                "CORE_CONNECTED",
                f"waiting to be sent to {shown(url)}: {waiting}, refused there: {refused}; none of it would be sent any more",
                context={"waiting": waiting, "refused": refused},
                instead=(
                    "Send what waits with `cortex sync`, and look at what was refused with `cortex sync --refused`.",
                    "Or leave with --force: what was refused is written to a file, and all records stay here.",
                ),
            )
        discard.drop_refused(library)
        told = library.store.truth.get
        library.store.outbox.forget(told(state.EPOCH), url)
        with suppress(FileNotFoundError):
            (library.settings.home / TOKEN_FILE).unlink()
    return url


def remote_of(library: Library) -> Remote:
    """The Core of a home. Raises: ConfigError CORE_MISSING; NetworkError ADDRESS_REFUSED."""
    told = library.store.truth.get
    url = told(state.URL)
    if not url:
        raise ConfigError("CORE_MISSING", "this home is connected to no Core")
    if library.settings.server.local_only and not stays_here(url):
        raise NetworkError("ADDRESS_REFUSED", f"server.localOnly: nothing is sent to {shown(url)}")
    token = token_of(library.settings.home)
    if not token:
        raise ConfigError(
            "CORE_MISSING",
            f"there is no token for the Core at {shown(url)}: {TOKEN_FILE} is gone, or empty",
        )
    return Remote(url, token, plain=told(state.PLAIN) == "1")


def token_of(home: Path) -> str:
    """The token of a home, "" where it has none; the environment's before the file's."""
    if token := environment().get(TOKEN_VARIABLE, "").strip():
        return token
    try:
        return (home / TOKEN_FILE).read_text(encoding="utf-8", errors="replace")[:MAX_TOKEN].strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise explained(error, f"reading {home / TOKEN_FILE}") from error


def has_token(home: Path) -> bool:
    """Whether there is a token to sync with: in the environment, or in a file, which isn't read for
    that.
    """
    return bool(environment().get(TOKEN_VARIABLE, "").strip()) or (home / TOKEN_FILE).is_file()


def _join(
    library: Library,
    url: str,
    token: str,
    plain: bool,
    moved: bool,
    greeting: CoreGreeting,
    choice: str | None,
) -> Joined:
    """Keep where the home belongs now, with what the choice says queued; in the turn of a sync."""
    _check_alone(library, url, greeting, moved)
    before = library.store.truth.get(state.URL)
    _keep_token(library.settings.home, token)
    facts = {state.URL: url, state.PLAIN: "1" if plain else "", state.NAME: greeting.name}
    facts |= {state.TIER: str(greeting.tier), state.ERROR: "", state.CODE: ""}
    outbox, mark = library.store.outbox, f"{greeting.epoch}/{new_ulid()}"
    # A new token, or another address of the same Core; another history is found by the next sync
    if before and choice is None:
        library.store.truth.set(facts)
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
            file = _keep_changes(library, outbox.changed_since(greeting.epoch))
    queued = outbox.upload(
        person(COMMAND),
        mark,
        greeting.epoch,
        facts,
        lambda found: records_to_send(found, choice, greeting.tier),
        changes=choice != NONE,
    )
    return Joined(url, greeting.name, greeting.tier, queued, file, again=bool(before))


def _check_alone(library: Library, url: str, greeting: CoreGreeting, moved: bool) -> None:
    """Raises: ConfigError CORE_CONNECTED, where the home belongs to another Core, or to another
    name there.
    """
    told = library.store.truth.get
    before, name, epoch = told(state.URL), told(state.NAME), told(state.EPOCH)
    if before and (
        name != greeting.name or (before != url and epoch != greeting.epoch and not moved)
    ):
        raise ConfigError(
            "CORE_CONNECTED",
            f"this home is connected to {shown(before)} as {name}, and not to {shown(url)} as {greeting.name}",
            context={"server": shown(before), "name": name},
            suggestions=(
                "If it is the same team's Core, moved from a backup: connect with --moved.",
            )
            if name == greeting.name
            else (),
        )


def _keep_changes(library: Library, records: Sequence[Record[Any]]) -> Path | None:
    """Write to a file what the Core's own versions of these records replace. Raises: FileError."""
    if not records:
        return None
    text = "".join(
        json.dumps(record_to(VersionedRecord(record, 0)), ensure_ascii=False) + "\n"
        for record in records
    )
    return saved_files.write_new(library.settings.home / REPLACED, ".jsonl", text)


def _checked(token: str) -> str:
    token = token.strip()
    if (
        not token
        or len(token) > MAX_TOKEN
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise InputError(
            "ARGUMENT_INVALID", "a token is one word, as `cortex core token create` told it"
        )
    return token


def _keep_token(home: Path, token: str) -> None:
    """Put the token where only the person can read it. Raises: FileError."""
    target, beside = home / TOKEN_FILE, home / f"{TOKEN_FILE}.new"
    try:
        beside.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with open(os.open(beside, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(token.strip() + "\n")
        os.replace(beside, target)
    except OSError as error:
        raise explained(error, f"writing {target}") from error
