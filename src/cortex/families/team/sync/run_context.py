"""Session of one sync: identity mapping, counters, and the only way to store what arrives.

A transaction writes nothing unless the home still has the connection that the sync began with. The
order of push and pull is not known here.
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
from cortex.families.team.sync.overwritten import OverwrittenVersions
from cortex.families.team.wire import identity, local_paths

FROM_THE_START = {state.CURSOR: "", state.VIEW: "", state.EPOCH: "", state.RESYNC: "1"}


@dataclass(slots=True)
class Tally:
    """Counters of a running sync."""

    flushed: int = 0  # accepted entries; an upload counts its records
    refused: int = 0
    pulled: int = 0  # records that are new or changed here
    copied: int = 0  # records that were written, changed or not
    erased: int = 0  # records that are no longer visible
    forgets: bool = False  # true if an indexed record was erased
    held: str = ""  # reason why the Core deferred an entry
    reached: bool = False  # true once the Core has responded
    queued: bool = False  # true if entries were queued again


class SyncSession:
    """Connection of a home to its Core for the duration of one sync."""

    def __init__(self, library: Library, remote: Remote, cancel: Cancel) -> None:
        self.library, self.remote, self._cancel = library, remote, cancel
        self.store = library.store
        self.tally = Tally()
        self.overwritten = OverwrittenVersions(library)
        self.expected = {
            fact: self.store.content.get(fact) for fact in (state.URL, state.NAME, UPLOADED)
        }
        self._wording = wording(library.settings)
        principal = self.expected[state.NAME]
        self._outward, self._inward = identity.outward(principal), identity.inward(principal)

    def check_connected(self) -> None:
        """Check that the home is connected to this Core. Raises: ConfigError CORE_MISSING."""
        if self.expected[state.URL] != self.remote.url:
            raise ConfigError(
                "CORE_MISSING",
                "this home is not connected to that Core; nothing was sent or fetched",
            )

    def check_principal(self) -> str:
        """Check the token's principal and return the epoch of the ledger.

        Raises: Denied, if the token belongs to another principal than this home.
        """
        greeting, name = self.remote.bootstrap(), self.expected[state.NAME]
        self.tally.reached = True
        if greeting.name != name:
            raise Denied(
                "CORE_DENIED",
                f"the token is of {greeting.name}, and this home of {name}; nothing was changed",
            )
        if self.store.content.get(state.TIER) != str(greeting.tier):
            self.store.content.set({state.TIER: str(greeting.tier)})
        return greeting.epoch

    def check_cancelled(self) -> None:
        """Check for cancellation. Raises: Cancelled."""
        if self._cancel:
            raise Cancelled

    def outward(self, change: RecordChange) -> RecordChange:
        """Return a change with the Core's principals and without local paths."""
        renamed = identity.renamed_changed(change, self._outward)
        return replace(
            renamed,
            before=local_paths.without_roots(renamed.before),
            after=local_paths.without_roots(renamed.after),
        )

    def inward(self, records: Sequence[VersionedRecord]) -> list[VersionedRecord]:
        """Return the Core's records with the principals and paths of this home."""
        linked = [
            record.record.id for record in records if getattr(record.record.body, "code_links", ())
        ]
        here = self.store.records.get(linked) if linked else {}
        return [
            replace(
                record,
                record=local_paths.placed(identity.renamed(record.record, self._inward), here),
            )
            for record in records
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
        """Store records, erasures and facts, and settle an entry, in one transaction.

        Records with waiting outbox entries are skipped. Newer local versions are saved to a file
        first.
        """
        self.overwritten.keep(records, settle)
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
        """Start a resync; with `resend`, queue accepted entries again and return their count."""
        return self.store.outbox.begin_again(
            {**FROM_THE_START, **facts}, self.expected, resend=resend
        )


def now() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
