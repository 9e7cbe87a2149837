"""Sync status of a home for `cortex status`, `cortex doctor` and after writes. Read-only."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import CortexError
from cortex.base.settings import environment
from cortex.engine.store import STORE_NAME, Store
from cortex.toolkit.terminal.library import settings_of
from cortex.toolkit.terminal.output import many, moment, say

if TYPE_CHECKING:
    from cortex.engine.library import Library

NOTHING: Mapping[str, object] = {
    "server": None,
    "name": None,
    "lastSync": None,
    "syncError": None,
    "syncErrorCode": None,
    "queue": 0,
    "refused": 0,
    "replica": {"records": 0, "bytes": 0},
}
BY_COMMAND = "they are sent by `cortex sync`"
# Error codes of a sync with an invalid or missing token.
WITHOUT_TOKEN = ("CORE_DENIED", "CORE_MISSING")


def described(profile: str | None = None) -> dict[str, object]:
    """Sync status of a profile's home as JSON."""
    from cortex.engine.library import Library
    from cortex.families.team.sync import state

    settings = settings_of(profile)
    body = {**NOTHING, "syncSeconds": settings.team.sync_seconds}
    if not (settings.home / STORE_NAME).is_file():
        return body
    try:
        with Library(settings, read_only=True) as library:
            # Also for a store of an older version, which has no outbox.
            if not library.store.content.get(state.URL):
                return body
            status = state.of(library)
    except CortexError as error:
        return {**body, "syncError": error.message, "syncErrorCode": error.code}
    return {
        **body,
        "server": status.server or None,
        "name": status.name or None,
        "lastSync": moment(status.last_sync) or None,
        "syncError": status.error or None,
        "syncErrorCode": status.code or None,
        "queue": status.waiting,
        "refused": status.refused,
        "replica": {"records": status.records, "bytes": status.bytes},
    }


def server_of(home: Path) -> str | None:
    """Address of a home's Core, None if it has none."""
    from cortex.families.team.sync.state import URL

    if not (home / STORE_NAME).is_file():
        return None
    try:
        with closing(Store(home, read_only=True)) as store:
            return store.content.get(URL) or None
    # The error is reported by the commands that use the store.
    except CortexError:
        return None


def print_state(body: Mapping[str, object]) -> None:
    """Print the status from `described`, to which the caller adds `running` for cortexd."""
    if not body["server"]:
        say("server       none; `cortex connect URL` joins a team's Core")
        if body["syncError"]:
            say(f"             {body['syncError']}")
        return
    name = f" as {body['name']}" if body["name"] else ""
    problem = f"; since then: {body['syncError']}" if body["syncError"] else ""
    say(f"server       {body['server']}{name}")
    say(f"last sync    {body['lastSync'] or 'never'}{problem}")
    waiting = f"; {reason}" if body["queue"] and (reason := why_waiting(body)) else ""
    say(f"queue        {body['queue']} waiting{waiting}")
    if body["refused"]:
        say(
            f"refused      {body['refused']}, `cortex sync --refused` shows them, "
            "--retry sends them again"
        )
    replica = body["replica"]
    assert isinstance(replica, Mapping)
    say(f"replica      {many(replica['records'], 'record')} of the Core, {_size(replica['bytes'])}")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


def waits_for(library: Library) -> str:
    """Describe the next step to get waiting writes sent, without a request to the Core."""
    from cortex.base.runtime.file_lock import is_held
    from cortex.base.runtime.rendezvous import meet_at
    from cortex.families.team.sync import state

    fact = library.store.content.get
    body = {
        "server": fact(state.URL),
        "syncErrorCode": fact(state.CODE),
        "syncSeconds": library.settings.team.sync_seconds,
    }
    runs = is_held(meet_at(str(library.settings.home)).lock)
    if why := why_waiting({**body, "running": runs}):
        return why
    error = fact(state.ERROR)
    return (
        f"the last sync failed: {error}; cortexd tries again, or `cortex sync`"
        if error
        else "cortexd sends what waits as soon as the team server answers"
    )


def is_denied(body: Mapping[str, object]) -> bool:
    """True if the last sync had no valid token: sending needs a new one first."""
    return body["syncErrorCode"] in WITHOUT_TOKEN


def why_waiting(body: Mapping[str, object]) -> str:
    """Reason why waiting writes aren't sent automatically, "" if they are."""
    if is_denied(body):
        return f"with a new token `cortex connect {body['server']}` sends them"
    if not body.get("syncSeconds"):
        return f"team.sync_seconds is 0: {BY_COMMAND}"
    if body.get("running"):
        return ""
    if environment().get("CORTEX_NO_SIDECAR", "") not in ("", "0"):
        return f"CORTEX_NO_SIDECAR is set here: {BY_COMMAND}"
    return f"cortexd doesn't run: {BY_COMMAND}, or by the next cortexd"
