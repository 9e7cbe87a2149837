"""Read side of the Core: the ledger's records for search and reading, filtered per viewer.

Two libraries share one directory. `back` follows the ledger and indexes; it holds the lease of the
directory, so that no other process does the same. The replica itself is read-only and confined:
without a viewer it shows nothing. A ledger in SQLite is its own replica; a ledger in PostgreSQL is
copied into a directory that can be thrown away. Writes go to the ledger, through the write gateway.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortex.base.actors import PERSON
from cortex.base.errors import CortexError, StoreError
from cortex.base.paths import ensure_store_dir
from cortex.base.record_model import Record, RecordFilter, Subcortex
from cortex.base.settings import Settings
from cortex.base.visibility import EVERYWHERE, Viewer
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.index_repair import DISCARDED
from cortex.engine.library import Library
from cortex.engine.store import Store, set_aside
from cortex.engine.store.records.ledger import SQLITE, Ledger
from cortex.families.team.index_text import wording
from cortex.families.team.references import by_slug
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.writes.drafts import pages
from cortex.interfaces.team_server.access_policy import PRIVATE
from cortex.interfaces.team_server.live_access import LiveAccess
from cortex.interfaces.team_server.write_gateway import RequestScope, WriteGateway

if TYPE_CHECKING:
    from cortex.engine.store.index.vector_index import VectorServer

# Records that are copied in one transaction.
PAGE = 500
EPOCH, CURSOR, WITNESS = "core.epoch", "core.cursor", "core.witness"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaMark:
    """Position in the ledger: a history and the last change in it."""

    epoch: str = ""
    change: int = 0
    # Proof that the history is this one.
    witness: str = ""

    def covers(self, other: ReplicaMark) -> bool:
        """True if this position includes the other.

        The same change in a different history isn't included.
        """
        return self == other or (self.epoch == other.epoch and self.change > other.change)


class ReadReplica(Library):
    """Library that a Core's requests read, filtered by viewer."""

    has_files = False

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        directory: Path,
        *,
        embedders: Embedders | None = None,
    ) -> None:
        """Open the replica of a ledger in a directory.

        Raises: StoreError STORE_LOCKED where another process follows the same ledger into this
        directory.
        """
        own = settings.model_copy(
            update={"home": directory, "team": _server_team_settings(settings)}
        )
        ensure_store_dir(directory)
        self.ledger = ledger
        self.present = LiveAccess(ledger)
        self._gateway = WriteGateway(ledger, self.present, self.take_over)
        # One thread follows at a time.
        self._follow_lock = threading.RLock()
        # The position up to which changes are copied and indexed.
        self._indexed = ReplicaMark()
        # The position seen in a SQLite ledger; a replica of PostgreSQL stores its own.
        self._copied = ReplicaMark()
        # Pages erased because the ledger got another history.
        self._emptied = 0
        self._scopes: tuple[tuple[tuple[int, int], int], tuple[Record[Subcortex], ...]] | None = (
            None
        )
        self._once_open: tuple[tuple[tuple[str, int], ...], frozenset[str]] = ((), frozenset())
        # Follows and indexes the whole ledger.
        self.back = _open_or_refill(own, embedders, replica=ledger.kind != SQLITE)
        try:
            _check_own(self.back, directory, replica=ledger.kind != SQLITE)
            super().__init__(
                own, embedders=self.back.embedders, read_only=True, open_store=self._open_confined
            )
        except BaseException:
            self.back.close()
            raise

    def _open_confined(
        self, directory: Path, root: str, read_only: bool, vector_server: VectorServer | None
    ) -> Store:
        store = Store(
            directory, root, read_only=read_only, vector_server=vector_server, confined=True
        )
        self._gateway.read_from(store)
        return store

    @property
    def reader(self) -> Library:
        """This library, which is read-only already."""
        return self

    # -- viewers

    @contextmanager
    def viewed_by(self, viewer: Viewer) -> Iterator[RequestScope]:
        """Read and write with the permissions of a viewer in this thread, inside the block."""
        with self.store.viewed_by(viewer), self._gateway.visited_by(viewer) as visit:
            yield visit

    def subcortexes(self) -> tuple[Record[Subcortex], ...]:
        """Return all subcortexes, private ones included: access is computed from them."""
        lookup = self.back.store.records
        known, now = self._scopes, (lookup.last_of("subcortex"), self._emptied)
        if known is None or known[0] != now:
            known = self._scopes = (now, tuple(pages(lookup, RecordFilter(kinds=("subcortex",)))))
        return known[1]

    def whole(self, ref: str) -> Record[Any] | None:
        """Return a record by id, or a subcortex by slug, without access checks."""
        lookup = self.back.store.records
        return lookup.one(ref) if "_" in ref else by_slug(lookup, ref)

    def once_open(self) -> frozenset[str]:
        """Return the ids of private subcortexes that were visible in an earlier version.

        Clients may have seen their records.
        """
        changed = [
            subcortex
            for subcortex in self.subcortexes()
            if subcortex.body.visibility == PRIVATE and subcortex.version > 1
        ]
        key = tuple((subcortex.id, subcortex.version) for subcortex in changed)
        if self._once_open[0] != key:
            open_ids = (subcortex.id for subcortex in changed if self._was_open(subcortex.id))
            self._once_open = (key, frozenset(open_ids))
        return self._once_open[1]

    def _was_open(self, subcortex_id: str) -> bool:
        return any(
            version.body.visibility != PRIVATE
            for version in self.ledger.records.versions(subcortex_id).values()
        )

    # -- following the ledger

    def refresh(self) -> None:
        """Copy and index new changes of the ledger; without any, compare one position only.

        With SQLite the records are readable already, so a request doesn't wait while another thread
        indexes.
        """
        if (self._mark() == self._indexed and not self.damaged) or not self._follow_lock.acquire(
            blocking=self.ledger.kind != SQLITE
        ):
            return
        try:
            self.follow()
        finally:
            self._follow_lock.release()

    def warm(self) -> None:
        """Load the indexes that every search needs.

        Otherwise each of several first requests would load them for itself.
        """
        viewer = Viewer("", 0, sensitive=True, reads=frozenset({EVERYWHERE}))
        try:
            with self.store.viewed_by(viewer):
                find(self, RecordQuery("anything"))
        # A search reports the error to its client.
        except CortexError as error:
            log.warning("nothing can be searched yet: %s", error.message)

    def keep_up(self) -> None:
        """Make new changes readable, and index them once there are many.

        For clients that write much and don't search; a search waits for the indexing.
        """
        if self.lag() >= PAGE:
            self.follow()
            return
        try:
            self.take_over()
        except CortexError as error:
            log.warning("the replica doesn't follow the ledger: %s", error.message)

    def follow(self, *, forget: bool = False) -> bool:
        """Copy and index new changes; false if that fails, and the replica stays as it is.

        A thread that waited for the lock mostly finds its changes indexed by the thread before it.
        """
        before, wanted = self._indexed, self._mark_or_none()
        with self._follow_lock:
            rolled_back = wanted is not None and before.change > wanted.change
            up_to_date = wanted is not None and self._indexed.covers(wanted) and not rolled_back
            if up_to_date and not forget and not self.damaged:
                return True
            try:
                mark = self._copy_changes()
            except CortexError as error:
                log.warning("the replica doesn't follow the ledger: %s", error.message)
                return False
            followed = self.back.follow(forget=forget)
            self.store.content.drop_recent()
            if followed:
                self._indexed = mark
        return followed

    def take_over(self) -> None:
        """Make new changes readable here, though perhaps not searchable yet.

        Raises: CortexError where that fails.
        """
        with self._follow_lock:
            self._copy_changes()

    def check_history(self, epoch: str) -> None:
        """Check that the replica has this history of the ledger.

        Change numbers of one history mean nothing in another.

        Raises: StoreError STORE_LOCKED where that history isn't followed yet.
        """
        if self.ledger.kind != SQLITE and self.back.store.content.get(EPOCH) != epoch:
            raise StoreError(
                "STORE_LOCKED", "the database has another history now, which isn't followed yet"
            )

    def lag(self) -> int:
        """Return the number of ledger changes that aren't indexed yet."""
        now, done = self._mark(), self._indexed
        return (
            0 if done.covers(now) else now.change - (done.change if now.epoch == done.epoch else 0)
        )

    def _mark(self) -> ReplicaMark:
        return ReplicaMark(*self.ledger.mark())

    def _mark_or_none(self) -> ReplicaMark | None:
        """Return the position of the ledger, None where it can't be read."""
        try:
            return self._mark()
        except CortexError:
            return None

    def _copy_changes(self) -> ReplicaMark:
        """Copy new changes of a PostgreSQL ledger into the replica, page by page.

        Each page is stored with its position. A SQLite ledger is its own replica.
        """
        mark, store = self._mark(), self.back.store
        known = self._copied
        if self.ledger.kind != SQLITE:
            known = ReplicaMark(
                store.content.get(EPOCH),
                int(store.content.get(CURSOR, "0")),
                store.content.get(WITNESS),
            )
        if self._was_rolled_back(known, mark):
            log.warning(
                "the database was put back by other means than `cortex core restore`: "
                "everything is compared anew"
            )
            self.ledger.renew_epoch(mark.epoch)
            mark = self._mark()
        if self.ledger.kind == SQLITE:
            self._copied = mark
            return mark
        if known.epoch != mark.epoch:
            self._erase_history(store)
            known = ReplicaMark(mark.epoch)
            store.content.set({EPOCH: known.epoch, CURSOR: "0", WITNESS: ""})
        cursor = known.change
        while cursor < mark.change:
            page = self.ledger.records.changes(cursor, PAGE)
            cursor = page[-1].change if page else mark.change
            facts = {EPOCH: mark.epoch, CURSOR: str(cursor), WITNESS: mark.witness}
            store.records.apply(page, (), wording=wording(self.settings), meta=facts)
        # Changes of principals and tokens move the witness but are no records.
        if known.change == mark.change and known.witness != mark.witness:
            store.content.set({WITNESS: mark.witness})
        return ReplicaMark(mark.epoch, cursor, mark.witness)

    def _was_rolled_back(self, known: ReplicaMark, now: ReplicaMark) -> bool:
        """True if the ledger lost changes that were copied from it.

        Its position went backwards, or other changes took their place.
        """
        if known.epoch != now.epoch:
            return False
        return now.change < known.change or (
            known.witness != now.witness and not self.ledger.remembers(known.witness)
        )

    def _erase_history(self, store: Store) -> None:
        """Erase the records of another history."""
        store.content.set({EPOCH: "", CURSOR: "0", WITNESS: ""})
        while known := store.records.changes(0, PAGE):
            record_ids = [versioned.record.id for versioned in known]
            store.records.apply((), record_ids, wording=wording(self.settings), meta={CURSOR: "0"})
            self._emptied += 1

    def close(self) -> None:
        """Close both libraries; the ledger is closed by its owner."""
        super().close()
        self.back.close()


def _open_back(settings: Settings, embedders: Embedders | None) -> Library:
    """Open the library that follows a ledger.

    It makes no snapshots: operators back up a Core with `cortex core backup`.
    """

    def open_store(
        directory: Path, root: str, read_only: bool, vector_server: VectorServer | None
    ) -> Store:
        return Store(directory, root, vector_server=vector_server, shelved=True)

    return Library(settings, embedders=embedders, open_store=open_store, snapshots=False)


def _open_or_refill(settings: Settings, embedders: Embedders | None, *, replica: bool) -> Library:
    """Open the library that follows a ledger; replace a damaged one.

    A replica can be rebuilt from its database, a SQLite ledger can't.
    """
    try:
        return _open_back(settings, embedders)
    except StoreError as error:
        if not replica or error.code not in DISCARDED:
            raise
        log.warning(
            "%s; it is filled anew, and the old one kept as %s",
            error.message,
            set_aside(settings.home, replica=True),
        )
        return _open_back(settings, embedders)


def _check_own(library: Library, directory: Path, *, replica: bool) -> None:
    """Check that a directory belongs to this Core alone: following would erase other content.

    Raises: StoreError STORE_LOCKED, STORE_UNWRITABLE.
    """
    if not library.holds_lease():
        raise StoreError(
            "STORE_LOCKED",
            f"another process uses {directory}: each Core needs its own",
            instead=(
                "A second Core on the same PostgreSQL takes --data DIR; "
                "records in SQLite are served by one process.",
            ),
        )
    store = library.store
    foreign = (
        replica and not store.content.get(EPOCH) and (store.records.has() or store.folders.all())
    )
    if foreign or store.content.get("core.url"):
        raise StoreError(
            "STORE_UNWRITABLE",
            f"{directory} holds something else already: choose an empty directory",
        )


def _server_team_settings(settings: Settings) -> Any:
    """Return the team settings of a server, where no name refers to a local user."""
    return settings.team.model_copy(update={"name": PERSON})
