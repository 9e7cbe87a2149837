"""The Core's library: what its ledger has, to be read and searched, and never more of it than
whoever asks may see.

Two libraries in one directory. `back` follows the ledger and indexes; it holds the directory's
lease, so that no other process does the same. The hall itself reads what is there, confined:
without a visitor it shows nothing. Where the ledger is a directory that is the same one; of a
database a replica is kept beside, which can be thrown away. Writes go to the ledger, through the
desk.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

PAGE = 500  # records that are taken over in one transaction
EPOCH, CURSOR, WITNESS = "core.epoch", "core.cursor", "core.witness"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaMark:
    """How far something is: which history, and up to which change."""

    epoch: str = ""
    change: int = 0
    witness: str = ""  # that the history was this one

    def covers(self, other: ReplicaMark) -> bool:
        """Whether whoever is here has been there; who is at the same change in another history
        hasn't.
        """
        return self == other or (self.epoch == other.epoch and self.change > other.change)


class ReplicaIndexer(Library):
    """What the ledger has, whole, as it is found."""

    def _open_store(self, directory: Path | None, root: str) -> Store:
        return Store(directory, root, qdrant=self._qdrant, shelved=True)

    def back_up(self, wait_seconds: float = 0.0) -> None:
        """Make no snapshot: who runs a Core backs it up with `cortex core backup`."""

    @property
    def embedders(self) -> Embedders:
        return self._embedders


class ReadReplica(Library):
    """What visitors read."""

    has_files = False

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        directory: Path,
        *,
        embedders: Embedders | None = None,
    ) -> None:
        """Raises: StoreError STORE_LOCKED, where another process follows the same ledger into this
        directory.
        """
        own = settings.model_copy(update={"home": directory, "team": _nobody(settings)})
        ensure_store_dir(directory)
        self.ledger = ledger
        self.present = LiveAccess(ledger)
        self._desk = WriteGateway(ledger, self.present, self.take_over)
        self._turn = threading.RLock()  # one follows at a time
        self._done = ReplicaMark()  # that is followed, and found
        # That is taken over of a directory; of a database the replica knows it
        self._taken = ReplicaMark()
        self._emptied = 0  # how often another history began
        self._scopes: tuple[tuple[tuple[int, int], int], tuple[Record[Subcortex], ...]] | None = (
            None
        )
        self._once_open: tuple[tuple[tuple[str, int], ...], frozenset[str]] = ((), frozenset())
        try:
            self.back = ReplicaIndexer(own, embedders=embedders)
        except StoreError as error:
            # A replica has nothing that its database hasn't.
            if ledger.kind == SQLITE or error.code not in DISCARDED:
                raise
            log.warning(
                "%s; it is filled anew, and the old one kept as %s",
                error.message,
                set_aside(directory, replica=True),
            )
            self.back = ReplicaIndexer(own, embedders=embedders)
        try:
            if not self.back.holds():
                raise StoreError(
                    "STORE_LOCKED",
                    f"another process uses {directory}: each Core needs its own",
                    instead=(
                        "A second Core on the same PostgreSQL takes --data DIR; records in SQLite are served by one process.",
                    ),
                )
            _check_own(self.back.store, directory, replica=ledger.kind != SQLITE)
            super().__init__(own, embedders=self.back.embedders, read_only=True)
        except BaseException:
            self.back.close()
            raise

    def _open_store(self, directory: Path | None, root: str) -> Store:
        store = Store(directory, root, read_only=True, qdrant=self._qdrant, confined=True)
        store.records = self._desk
        return store

    @property
    def reader(self) -> Library:
        """The hall is for reading already."""
        return self

    # -- who is there
    # --------------------------------------------------------------------------------------------------

    @contextmanager
    def as_(self, viewer: Viewer) -> Iterator[RequestScope]:
        """Have this thread see what a viewer may see, and write as far as they may, inside the
        block.
        """
        with self.store.viewed_by(viewer), self._desk.visited_by(viewer) as visit:
            yield visit

    def subcortexes(self) -> tuple[Record[Subcortex], ...]:
        """All of them, private ones too: what somebody may see depends on them."""
        lookup = self.back.store.recorded
        known, now = self._scopes, (lookup.last_of("subcortex"), self._emptied)
        if known is None or known[0] != now:
            known = self._scopes = (now, tuple(pages(lookup, RecordFilter(kinds=("subcortex",)))))
        return known[1]

    def whole(self, ref: str) -> Record[Any] | None:
        """A record by its id, or a subcortex by its slug, whoever may see it."""
        lookup = self.back.store.recorded
        return lookup.one(ref) if "_" in ref else by_slug(lookup, ref)

    def once_open(self) -> frozenset[str]:
        """The subcortexes that are private now and were not always: what is in them may have been
        seen.
        """
        changed = [
            subcortex
            for subcortex in self.subcortexes()
            if subcortex.body.visibility == PRIVATE and subcortex.version > 1
        ]
        key = tuple((one.id, one.version) for one in changed)
        if self._once_open[0] != key:
            found = (one.id for one in changed if self._was_open(one.id))
            self._once_open = (key, frozenset(found))
        return self._once_open[1]

    def _was_open(self, number: str) -> bool:
        return any(
            version.body.visibility != PRIVATE
            for version in self.ledger.recorded.versions(number).values()
        )

    # -- following
    # -----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Follow what anybody wrote; one number is compared where nobody did.

        What is in the same directory can be read as it is: nobody waits until what others wrote
        just now is found, too.
        """
        if (self._mark() == self._done and not self._is_damaged()) or not self._turn.acquire(
            blocking=self.ledger.kind != SQLITE
        ):
            return
        try:
            self.follow()
        finally:
            self._turn.release()

    def warm(self) -> None:
        """Have in memory what every search needs: of many who ask first at the same time each would
        fetch it for itself.
        """
        whoever = Viewer("", 0, sensitive=True, reads=frozenset({EVERYWHERE}))
        try:
            with self.store.viewed_by(whoever):
                find(self, RecordQuery("anything"))
        except CortexError as error:  # whoever asks is told
            log.warning("nothing can be searched yet: %s", error.message)

    def keep_up(self) -> None:
        """Have what anybody wrote readable, and found once it is much: for whoever writes much and
        doesn't search. Whoever does waits for it.
        """
        if self.lag() >= PAGE:
            self.follow()
            return
        try:
            self.take_over()
        except CortexError as error:
            log.warning("the replica doesn't follow the ledger: %s", error.message)

    def follow(self, *, forget: bool = False) -> bool:
        """Have what was written read and found here; false where that can't be now, and what is
        there is gone on with.

        Whoever waits for their turn is mostly followed when it comes, with all others who wait:
        then nothing is left to do.
        """
        before, wanted = self._done, self._last()
        with self._turn:
            put_back = wanted is not None and before.change > wanted.change
            done = wanted is not None and self._done.covers(wanted) and not put_back
            if done and not forget and not self._is_damaged():
                return True
            try:
                mark = self._take_over()
            except CortexError as error:
                log.warning("the replica doesn't follow the ledger: %s", error.message)
                return False
            followed = self.back.follow(forget=forget)
            self.store.lookup.drop_recent()
            if followed:
                self._done = mark
        return followed

    def take_over(self) -> None:
        """Have what was written readable here, though perhaps not found yet.

        Raises: CortexError, where that can't be.
        """
        with self._turn:
            self._take_over()

    def check_history(self, epoch: str) -> None:
        """Whether what is read here is of this history of the ledger: of another one no change may
        be told by the numbers of this one.

        Raises: StoreError STORE_LOCKED, where that isn't followed yet.
        """
        if self.ledger.kind != SQLITE and self.back.store.truth.get(EPOCH) != epoch:
            raise StoreError(
                "STORE_LOCKED", "the database has another history now, which isn't followed yet"
            )

    def lag(self) -> int:
        """How many changes of the ledger aren't followed yet."""
        now, done = self._mark(), self._done
        return (
            0 if done.covers(now) else now.change - (done.change if now.epoch == done.epoch else 0)
        )

    def _mark(self) -> ReplicaMark:
        return ReplicaMark(*self.ledger.mark())

    def _last(self) -> ReplicaMark | None:
        """How far the ledger is, None where it doesn't say."""
        try:
            return self._mark()
        except CortexError:
            return None

    def _take_over(self) -> ReplicaMark:
        """Copy what is new in a database into the replica, each page with its place; a directory is
        its own replica.
        """
        mark, store = self._mark(), self.back.store
        known = self._taken
        if self.ledger.kind != SQLITE:
            known = ReplicaMark(
                store.truth.get(EPOCH), int(store.truth.get(CURSOR, "0")), store.truth.get(WITNESS)
            )
        if self._was_put_back(known, mark):
            log.warning(
                "the database was put back by other means than `cortex core restore`: everything is compared anew"
            )
            self.ledger.renew_epoch(mark.epoch)
            mark = self._mark()
        if self.ledger.kind == SQLITE:
            self._taken = mark
            return mark
        if known.epoch != mark.epoch:
            self._empty(store)
            known = ReplicaMark(mark.epoch)
            store.truth.set({EPOCH: known.epoch, CURSOR: "0", WITNESS: ""})
        cursor = known.change
        while cursor < mark.change:
            page = self.ledger.recorded.changes(cursor, PAGE)
            cursor = page[-1].change if page else mark.change
            facts = {EPOCH: mark.epoch, CURSOR: str(cursor), WITNESS: mark.witness}
            store.records.apply(page, (), wording=wording(self.settings), meta=facts)
        # Of what is no record: who may come in
        if known.change == mark.change and known.witness != mark.witness:
            store.truth.set({WITNESS: mark.witness})
        return ReplicaMark(mark.epoch, cursor, mark.witness)

    def _was_put_back(self, known: ReplicaMark, now: ReplicaMark) -> bool:
        """Whether the ledger has lost what was taken over of it: it went backwards, or others have
        written there since in its place.
        """
        if known.epoch != now.epoch:
            return False
        return now.change < known.change or (
            known.witness != now.witness and not self.ledger.remembers(known.witness)
        )

    def _empty(self, store: Store) -> None:
        """Forget another history."""
        store.truth.set({EPOCH: "", CURSOR: "0", WITNESS: ""})
        while known := store.recorded.changes(0, PAGE):
            gone = [one.record.id for one in known]
            store.records.apply((), gone, wording=wording(self.settings), meta={CURSOR: "0"})
            self._emptied += 1

    def close(self) -> None:
        """Close both; the ledger is whoever's who opened it."""
        super().close()
        self.back.close()


def _check_own(store: Store, directory: Path, *, replica: bool) -> None:
    """A directory that is somebody's home, or holds what a replica wouldn't, is not followed into:
    it would be emptied.

    Raises: StoreError STORE_UNWRITABLE.
    """
    foreign = (
        replica and not store.truth.get(EPOCH) and (store.recorded.has() or store.folders.all())
    )
    if foreign or store.truth.get("core.url"):
        raise StoreError(
            "STORE_UNWRITABLE",
            f"{directory} holds something else already: choose an empty directory",
        )


def _nobody(settings: Settings) -> Any:
    """The team's settings of a server: nobody is at home there, so that no name means "the person"."""
    return settings.team.model_copy(update={"name": PERSON})
