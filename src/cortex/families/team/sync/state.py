"""How a home stands to its Core: the facts that its store keeps about that, and what status tells
of them. No network.
"""

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
URL = "core.url"  # "" for none
PLAIN = "core.plain"  # "1" where http:// beyond this machine was allowed
NAME = "core.name"  # of the principal there
EPOCH = "core.epoch"  # which ledger it is
VIEW = "core.view"  # which rights the replica was made by
CURSOR = "core.cursor"  # how far it came
# When all was last sent again, in milliseconds since 1970: which time of that it is
RESENT = "core.resent"
PLACE = "core.place"  # where the store lay when it was last synced
SYNCED = "core.synced"  # when all was last there, in milliseconds since 1970
ERROR = "core.error"  # why not since, "" where nothing is wrong
CODE = "core.error_code"  # of that


@dataclass(frozen=True, slots=True)
class SyncState:
    """What there is to know about syncing."""

    server: str  # "" where this home has no Core
    name: str  # of the person there
    last_sync: int  # milliseconds since 1970, 0 for never
    error: str
    code: str  # of the error
    waiting: int  # writes that aren't sent yet
    refused: int  # that the Core didn't take
    records: int  # of the Core that are here
    bytes: int  # of what they say
    cursor: str


def device_of(library: Library) -> dict[str, str]:
    """Facts of a home that is another one than all before: where its store lies, and what it is
    called in keys.
    """
    home = library.settings.home
    number = os.stat(home / STORE_NAME).st_ino
    place = hash_bytes(
        platform.node().encode(), str(home.resolve()).encode(), str(number).encode()
    ).hex()
    return {PLACE: place[:32], DEVICE: new_ulid()}


def keep_device(library: Library) -> None:
    """Have a store that lies elsewhere than before be another one: of two copies each has keys of
    its own from then on.

    What is queued already keeps its keys, so that it is taken once.
    """
    facts = device_of(library)
    if library.store.truth.get(PLACE) != facts[PLACE]:
        library.store.truth.set(facts)


def of(library: Library) -> SyncState:
    """How a home stands to its Core."""
    store = library.store
    told = store.truth.get
    waiting, refused = store.outbox.count()
    records, size = store.outbox.size()
    return SyncState(
        told(URL),
        told(NAME),
        int(told(SYNCED) or 0),
        told(ERROR),
        told(CODE),
        waiting,
        refused,
        records,
        size,
        told(CURSOR),
    )
