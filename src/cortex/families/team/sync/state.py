"""Connection state of a home: facts in its store and the status from them. No network."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from cortex.base.text import hash_bytes
from cortex.engine.library import Library
from cortex.engine.store import STORE_NAME
from cortex.engine.store.records.outbox import RESYNC as RESYNC
from cortex.engine.store.records.outbox_rows import DEVICE
from cortex.engine.store.records.outbox_rows import TIER as TIER
from cortex.families.team.ids import new_ulid

# Facts of the store, set by connecting and by each sync.
URL = "core.url"  # address of the Core, "" for none
PLAIN = "core.plain"  # "1" if http:// beyond this machine was permitted
NAME = "core.name"  # principal at the Core
EPOCH = "core.epoch"  # id of the ledger
VIEW = "core.view"  # access rights that the replica was made with
CURSOR = "core.cursor"  # position in the change feed
# Time of the last full resend, in milliseconds since 1970. It also identifies that resend.
RESENT = "core.resent"
PLACE = "core.place"  # hash of the store's location at the last sync
SYNCED = "core.synced"  # last complete sync, in milliseconds since 1970
ERROR = "core.error"  # error of the last sync, "" for none
CODE = "core.error_code"  # code of that error


@dataclass(frozen=True, slots=True)
class SyncState:
    """Sync status of a home."""

    server: str  # "" if this home has no Core
    name: str  # principal at the Core
    last_sync: int  # milliseconds since 1970, 0 for never
    error: str
    code: str  # error code
    waiting: int  # writes that aren't sent yet
    refused: int  # writes that the Core refused
    records: int  # replicated records
    bytes: int  # size of their content
    cursor: str


def device_of(library: Library) -> dict[str, str]:
    """Make the facts of a new device: the store's location, and a fresh id for its keys."""
    home = library.settings.home
    inode = os.stat(home / STORE_NAME).st_ino
    location = hash_bytes(
        platform.node().encode(), str(home.resolve()).encode(), str(inode).encode()
    ).hex()
    return {PLACE: location[:32], DEVICE: new_ulid()}


def keep_device(library: Library) -> None:
    """Give a moved or copied store a new device id, so that two copies never share keys.

    Queued entries keep their keys, so that the Core applies them once.
    """
    facts = device_of(library)
    if library.store.content.get(PLACE) != facts[PLACE]:
        library.store.content.set(facts)


def of(library: Library) -> SyncState:
    """Read the sync status of a home."""
    store = library.store
    fact = store.content.get
    waiting, refused = store.outbox.count()
    records, size = store.outbox.size()
    return SyncState(
        fact(URL),
        fact(NAME),
        int(fact(SYNCED) or 0),
        fact(ERROR),
        fact(CODE),
        waiting,
        refused,
        records,
        size,
        fact(CURSOR),
    )
