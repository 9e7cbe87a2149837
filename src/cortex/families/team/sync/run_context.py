"""Where a home and its Core meet, in one sync: who is who there, what was learnt and counted, and
the one way in which it is kept.

Nothing is kept that belongs to another connection than the sync began with. What is sent and what
is fetched, and when, isn't known here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cortex.base.errors import Cancelled, ConfigError
from cortex.base.types import Cancel
from cortex.engine.library import Library
from cortex.engine.store import RecordChange, VersionedRecord
from cortex.engine.store.records.outbox import UPLOADED
from cortex.families.team.index_text import wording
from cortex.families.team.sync import state
from cortex.families.team.sync.client import Denied, Remote
from cortex.families.team.sync.overwritten import Replaced
from cortex.families.team.wire import identity, local_paths

FROM_THE_START = {state.CURSOR: "", state.VIEW: "", state.EPOCH: "", state.RESYNC: "1"}


@dataclass(slots=True)
class Tally:
    """What came of a sync so far."""

    flushed: int = 0  # entries; of an upload its records
    refused: int = 0
    pulled: int = 0  # records that are new here, or read otherwise now
    copied: int = 0  # records that were written, as they were or not
    erased: int = 0  # records that may no longer be seen
    forgets: bool = False  # whether something went that was found
    held: str = ""  # why the Core took something not yet
    reached: bool = False  # whether the Core answered anything
    queued: bool = False  # whether something is to be sent again


class SyncSession:
    """A home and its Core, while they sync."""

    def __init__(self, library: Library, remote: Remote, cancel: Cancel) -> None:
        self.library, self.remote, self._cancel = library, remote, cancel
        self.store = library.store
        self.tally = Tally()
        self.replaced = Replaced(library)
        self.expected = {
            fact: self.store.truth.get(fact) for fact in (state.URL, state.NAME, UPLOADED)
        }
        self._wording = wording(library.settings)
        principal = self.expected[state.NAME]
        self._outward, self._inward = identity.outward(principal), identity.inward(principal)

    def check_connected(self) -> None:
        """Raises: ConfigError CORE_MISSING, where the home isn't connected to this Core."""
        if self.expected[state.URL] != self.remote.url:
            raise ConfigError(
                "CORE_MISSING",
                "this home is not connected to that Core; nothing was sent or fetched",
            )

    def check_principal(self) -> str:
        """Gives which ledger it is.

        Raises: Denied, where the token is of somebody else than this home.
        """
        greeting, name = self.remote.bootstrap(), self.expected[state.NAME]
        self.tally.reached = True
        if greeting.name != name:
            raise Denied(
                "CORE_DENIED",
                f"the token is of {greeting.name}, and this home of {name}; nothing was changed",
            )
        if self.store.truth.get(state.TIER) != str(greeting.tier):
            self.store.truth.set({state.TIER: str(greeting.tier)})
        return greeting.epoch

    def go_on(self) -> None:
        """Raises: Cancelled, where nobody waits for this any more."""
        if self._cancel:
            raise Cancelled

    def outward(self, one: RecordChange) -> RecordChange:
        """A change with the names of the Core, and without places of this machine."""
        told = identity.renamed_changed(one, self._outward)
        return replace(
            told, before=local_paths.unplaced(told.before), after=local_paths.unplaced(told.after)
        )

    def inward(self, records: Sequence[VersionedRecord]) -> list[VersionedRecord]:
        """Records of the Core, with the names of this home and the places of this machine."""
        linked = [
            record.record.id for record in records if getattr(record.record.body, "code_links", ())
        ]
        here = self.store.recorded.get(linked) if linked else {}
        return [
            replace(
                one, record=local_paths.placed(identity.renamed(one.record, self._inward), here)
            )
            for one in records
        ]

    def apply(
        self,
        records: Sequence[VersionedRecord],
        erased: Sequence[str] = (),
        *,
        facts: Mapping[str, str] | None = None,
        settle: int | None = None,
        refuse: tuple[str, str] | None = None,
    ) -> int:
        """Keep what was learnt, in one transaction with what it settles; what waits to be sent is
        left alone.

        What was here in a later version is kept aside first.
        """
        self.replaced.keep(records, settle)
        return self.store.records.apply(
            records,
            erased,
            wording=self._wording,
            meta=facts or {},
            settle=settle,
            refuse=refuse,
            skip_waiting=True,
            expected=self.expected,
        )

    def begin_again(self, facts: Mapping[str, str], *, resend: bool) -> int:
        """Have everything compared with the Core, and with `resend` sent again; tells how many
        entries.
        """
        return self.store.outbox.begin_again(
            {**FROM_THE_START, **facts}, self.expected, resend=resend
        )


def now() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
