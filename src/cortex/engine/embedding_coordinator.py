"""Coordinator of a store's vectors: the embedder that answers, and those that embed.

The wanted embedder answers once it has embedded everything; until then an earlier or a cheap one
does. A cheap embedder works within an index run. A costly one works here, in a thread of the lease
holder: the most useful files first, each batch stored in SQLite before the next begins, so that
nothing is paid for twice; searches go on meanwhile. A query is embedded by the model of the vectors
that are searched: two models are never compared. Knows no tool and no file; embedders are in
`engine/embedders/`, vectors in `engine/store/`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cortex.base.errors import CortexError, LimitError
from cortex.base.settings import Settings
from cortex.base.types import Cancel, EmbeddingState, Progress, ProgressCallback, Stamp
from cortex.engine.embedders.circuit_breaker import REST_SECONDS, CircuitBreaker, Embedders, name_of
from cortex.engine.store import EmbeddingJob, Store

if TYPE_CHECKING:
    import numpy as np

# Work that a kill can cost.
BATCH_SECONDS = 2.0
# Texts in a batch.
FIRST_BATCH, LARGEST_BATCH = 16, 512
# Texts in a batch that were embedded and paid for before.
KNOWN_BATCH = 1_000
# Time between two checks that a server still has the vectors.
LOOK_SECONDS = 10.0
# Time for a batch under way to end on close.
CLOSE_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answering:
    """Embedder and vectors that answer now; `why` explains a stand-in."""

    embedder: CircuitBreaker | None
    stamp: Stamp | None
    why: str = ""


class EmbeddingCoordinator:
    """Vectors of one open store."""

    def __init__(
        self, store: Store, embedders: Embedders, settings: Callable[[], Settings]
    ) -> None:
        self._store = store
        self._embedders = embedders
        self._settings = settings
        # One round of embedding at a time.
        self._turn = threading.Lock()
        self._cancel = Cancel()
        self._thread: threading.Thread | None = None
        # Model that has embedded everything, and the `seq` it reaches.
        self._settled: tuple[Stamp | None, int] | None = None
        # Time of the next attempt after a failure outside the embedder.
        self._retry_at = 0.0
        self._next_check = 0.0
        self._batch = FIRST_BATCH
        # Models with complete vectors when the store was opened.
        self._earlier_stamps: list[Stamp] | None = None

    @property
    def wanted(self) -> CircuitBreaker | None:
        """Configured embedder; None where lexical search is enough."""
        return self._embedders.wanted

    # -- answering

    def answering(self, *, ask: bool = True) -> Answering:
        """Embedder and vectors that a search uses now.

        With `ask` an embedder may be asked for its model, which may take its time.
        """
        wanted = self._embedders.wanted
        if wanted is None:
            return Answering(None, None)
        if ask:
            self._identify(wanted)
        why = self._problem_of(wanted)
        if not why and wanted.stamp is not None:
            self._store.indexes.sets.rest_but(wanted.stamp)
            return Answering(wanted, wanted.stamp)
        for embedder in (self._earlier(), self._embedders.standby):
            if embedder is not None:
                self._identify(embedder)
                if not self._problem_of(embedder):
                    return Answering(
                        embedder,
                        embedder.stamp,
                        f"answered by the vectors of {embedder.name}: {why}",
                    )
        return Answering(None, None, why)

    def _earlier(self) -> CircuitBreaker | None:
        """Embedder wanted before, while its vectors exist and it can be asked."""
        if self._earlier_stamps is None:
            complete = [stamp for stamp, complete, _ in self._store.paid.models() if complete]
            self._earlier_stamps = [
                stamp for stamp in complete if self._store.indexes.sets.state(stamp).watermark >= 0
            ]
        wanted = self._embedders.wanted
        for stamp in self._earlier_stamps:
            if wanted is not None and stamp != wanted.stamp:
                embedder = self._embedders.earlier(stamp)
                if embedder is not None and not embedder.rests:
                    return embedder
        return None

    def state(self) -> tuple[object, ...]:
        """State that semantic answers depend on; equal states give equal answers."""
        now = self.answering()
        return (now.stamp, self._store.indexes.sets.state(now.stamp)) if now.stamp else (now.why,)

    def _problem_of(self, embedder: CircuitBreaker) -> str:
        """Reason that an embedder's vectors can't be searched; empty if they can."""
        stamp = embedder.stamp
        if embedder.rests:
            return f"{embedder.name} can't be asked now ({embedder.problem})"
        if stamp is None:
            return f"nothing is embedded by {embedder.name} yet"
        if self._is_ready(stamp):
            return ""
        sets = self._store.indexes.sets
        state = sets.state(stamp)
        if sets.away:
            return sets.away
        if 0 <= state.watermark < sets.least_mark:
            return "the vector server still has to remove what was removed here"
        if state.memory > self._memory_limit or not sets.fits(stamp, self._memory_limit):
            return f"limits.memory.embeddings leaves no room for all vectors of {embedder.name}"
        if sets.damaged(stamp):
            return f"the vectors of {embedder.name} are damaged and are being made anew"
        # `status` counts how much; here every search would pay for that.
        return (
            f"{'not everything' if state.memory else 'nothing'} is embedded by {embedder.name} yet"
        )

    def _is_ready(self, stamp: Stamp) -> bool:
        """True if vectors are, or once were, complete, fit into memory and are reachable."""
        sets = self._store.indexes.sets
        state = sets.state(stamp)
        return (
            state.watermark >= sets.least_mark
            and state.memory <= self._memory_limit
            and not sets.away
        )

    def _identify(self, embedder: CircuitBreaker) -> None:
        """Ask an embedder for its model where its vectors could answer."""
        if (
            embedder.stamp is None
            and not embedder.rests
            and (not embedder.costly or self._store.paid.is_complete())
        ):
            # After a failure it rests, and is asked again later.
            with suppress(CortexError):
                # A query connects, too, and gives up sooner than `connect`: a caller is waiting.
                embedder.query("?")

    def try_out(self) -> None:
        """Query the wanted embedder even where nothing is embedded yet.

        For commands that run once and report why nothing is.
        """
        wanted = self._embedders.wanted
        if wanted is None or wanted.rests or not wanted.costly:
            return
        state = self._store.indexes.sets.state(wanted.stamp) if wanted.stamp is not None else None
        if state is None or (state.watermark < 0 and not state.memory):
            with suppress(CortexError):
                wanted.query("?")

    @property
    def _memory_limit(self) -> int:
        return self._settings().limits.memory.embeddings

    def status(self, *, ask: bool = True) -> EmbeddingState | None:
        """Progress of the wanted embedder, None without one; `ask` as in `answering`."""
        wanted = self._embedders.wanted
        if wanted is None:
            return None
        now, sets = self.answering(ask=ask), self._store.indexes.sets
        stamp, chunks, embedded, problem = (
            wanted.stamp,
            sets.count(),
            0,
            wanted.problem or sets.away,
        )
        if stamp is not None and self._store.indexes.sets.state(stamp).memory <= self._memory_limit:
            embedded = sets.embedded(stamp)
        if stamp is not None and not problem and not sets.fits(stamp, self._memory_limit):
            problem = self._problem_of(wanted)
        return EmbeddingState(
            provider=stamp.provider if stamp else wanted.name,
            model=stamp.model if stamp else "",
            dimensions=stamp.dimensions if stamp else 0,
            costly=wanted.costly,
            chunks=chunks,
            embedded=embedded,
            answering=name_of(now.stamp) if now.stamp else "",
            problem=problem,
        )

    # -- embedding

    def jobs(self) -> tuple[EmbeddingJob, ...]:
        """Embedding jobs of an index run."""
        wanted = self._embedders.wanted
        if wanted is None:
            return ()
        if not wanted.costly:
            return self._job_of(wanted)
        paid = (EmbeddingJob(wanted.stamp, None),) if wanted.stamp else ()
        if wanted.stamp is not None and self._is_ready(wanted.stamp):
            return paid
        return (*paid, *self._standby_jobs())

    def _standby_jobs(self) -> tuple[EmbeddingJob, ...]:
        """Jobs for stand-in vectors: the earlier embedder's, else the cheap one's."""
        earlier, standby = self._earlier(), self._embedders.standby
        if earlier is not None and earlier.stamp is not None:
            return (EmbeddingJob(earlier.stamp, None),)
        return self._job_of(standby) if standby is not None else ()

    def _job_of(self, embedder: CircuitBreaker) -> tuple[EmbeddingJob, ...]:
        try:
            return (EmbeddingJob(embedder.stamp or embedder.connect(), embedder.passages),)
        except CortexError as error:
            # Lexical search answers, with a note that gives the reason.
            log.warning("%s embeds nothing: %s", embedder.name, error.message)
            return ()

    def catch_up(self) -> None:
        """Bring the lexical and the vector index up to date with the last write."""
        try:
            self._store.indexes.catch_up(self.jobs(), self._memory_limit)
        except LimitError as error:
            # The lexical index is up to date, and answers note the missing vectors.
            if error.code != "EMBEDDINGS_LIMIT":
                raise
            log.warning("%s", error.message)

    @property
    def damaged(self) -> bool:
        """True if the files of the wanted vectors exist and can't be used."""
        wanted = self._embedders.wanted
        return (
            wanted is not None
            and wanted.stamp is not None
            and self._store.indexes.sets.damaged(wanted.stamp)
        )

    @property
    def lags(self) -> bool:
        """True if cheap vectors are behind although they could be made."""
        wanted = self._embedders.wanted
        if wanted is None or wanted.costly or wanted.rests or wanted.stamp is None:
            return False
        sets = self._store.indexes.sets
        behind = not sets.away and sets.state(wanted.stamp).watermark < self._store.content.seq()
        return behind and sets.fits(wanted.stamp, self._memory_limit)

    @property
    def working(self) -> bool:
        """True while embedding is under way in the background."""
        return self._thread is not None and self._thread.is_alive()

    def work(self) -> None:
        """As the lease holder, start embedding in the background; returns at once.

        Does nothing where it is under way or done.
        """
        wanted = self._embedders.wanted
        if wanted is None or self.working:
            return
        if (
            wanted.rests
            or time.monotonic() < self._retry_at
            or self._is_settled(wanted)
            or self._store.indexes.sets.away
        ):
            return
        if not wanted.costly:
            if not self._settle(wanted) and self._store.indexes.sets.may_vanish:
                # The server was away, or has lost the vectors.
                self.catch_up()
            return
        self._thread = threading.Thread(target=self._work, name="embedding", daemon=True)
        self._thread.start()

    def _is_settled(self, wanted: CircuitBreaker) -> bool:
        """True if there is nothing to embed.

        A server that keeps the vectors is asked now and then if it still has them.
        """
        if self._settled != (wanted.stamp, self._store.content.seq()):
            return False
        if (
            wanted.stamp is None
            or not self._store.indexes.sets.may_vanish
            or time.monotonic() < self._next_check
        ):
            return True
        self._next_check = time.monotonic() + LOOK_SECONDS
        return self._store.indexes.sets.state(wanted.stamp).watermark == self._store.content.seq()

    def _work(self) -> None:
        embedders = self._embedders
        try:
            self.embed(cancel=self._cancel)
        except Exception as error:
            # Last handler of a background thread: the next round starts afresh.
            # The embedder was closed because it is no longer wanted.
            if self._cancel or self._embedders is not embedders:
                return
            wanted = embedders.wanted
            # A resting embedder has its own time for the next attempt.
            if wanted is None or not wanted.rests:
                self._retry_at = time.monotonic() + REST_SECONDS
            known = isinstance(error, CortexError)
            log.warning(
                "embedding stopped for a while: %s",
                error.message if known else error,
                exc_info=not known,
            )

    def embed(self, *, progress: ProgressCallback = lambda progress: None, cancel: Cancel) -> bool:
        """Embed all that waits, in this thread; true if everything is embedded then.

        Only for the lease holder.

        Raises: CortexError where the embedder fails; finished batches are kept.
        """
        wanted = self._embedders.wanted
        if wanted is None:
            return True
        if not wanted.costly:
            return self._settle(wanted)
        with self._turn:
            return self._embed_all(wanted, wanted.connect(), progress, cancel)

    def _embed_all(
        self, wanted: CircuitBreaker, stamp: Stamp, progress: ProgressCallback, cancel: Cancel
    ) -> bool:
        sets, paid, content = self._store.indexes.sets, self._store.paid, self._store.content
        while not cancel and self._store.lease.held and not wanted.rests:
            seq = content.seq()
            # Vectors that don't fit into memory can't be searched, so they aren't paid for.
            if not sets.fits(stamp, self._memory_limit):
                self._settled = (stamp, seq)
                return False
            sets.catch_up(EmbeddingJob(stamp, None), self._memory_limit)
            if not paid.is_complete(stamp):
                self._make_standby()
            model = paid.model(stamp)
            plan = paid.plan(model)
            if plan:
                self._embed_plan(wanted, stamp, model, plan, progress, cancel)
            elif content.seq() == seq:
                if not paid.is_complete(stamp):
                    paid.set_complete(model, True)
                    sets.catch_up(EmbeddingJob(stamp, None), self._memory_limit)
                return self._settle(wanted)
        return False

    def _make_standby(self) -> None:
        """Remake stand-in vectors, which were removed once the costly ones were complete."""
        for job in self._standby_jobs():
            try:
                self._store.indexes.sets.catch_up(job, self._memory_limit)
            except LimitError as error:
                log.warning("%s", error.message)

    def _embed_plan(
        self,
        wanted: CircuitBreaker,
        stamp: Stamp,
        model: int,
        plan: list[int],
        progress: ProgressCallback,
        cancel: Cancel,
    ) -> None:
        """Embed the texts of these contents in batches.

        Stops when the store has changed: then another content may be more useful.
        """
        sets, seq, total = (
            self._store.indexes.sets,
            self._store.content.seq(),
            self._store.indexes.sets.count(),
        )
        batch: dict[bytes, str] = {}
        known: list[bytes] = []

        def flush() -> None:
            rows = self._embed_batch(wanted, list(batch.values())) if batch else None
            if rows is not None:
                sets.pay(stamp, model, list(batch), rows, known)
            elif known:
                sets.copy(stamp, known)
            batch.clear()
            known.clear()
            progress(Progress("embedding", min(total, sets.size(stamp)), total))

        for content in self._store.paid.waiting(model, plan):
            if content.known:
                known.append(content.hash)
            else:
                batch[content.hash] = content.text
            if len(batch) >= self._batch or len(known) >= KNOWN_BATCH:
                flush()
                # It rests where a query found that it fails, or has another model now.
                if (
                    cancel
                    or wanted.rests
                    or not self._store.lease.held
                    or self._store.content.seq() != seq
                ):
                    return
        flush()

    def _embed_batch(self, wanted: CircuitBreaker, texts: list[str]) -> np.ndarray:
        started = time.monotonic()
        rows = wanted.passages(texts)
        fitting = int(len(texts) * BATCH_SECONDS / max(0.001, time.monotonic() - started))
        self._batch = max(1, min(2 * self._batch, fitting, LARGEST_BATCH))
        return rows

    def _settle(self, wanted: CircuitBreaker) -> bool:
        """Remove the other vectors once the wanted ones are complete; false before that."""
        stamp, seq = wanted.stamp, self._store.content.seq()
        if stamp is None or self._store.indexes.sets.state(stamp).watermark < seq:
            return False
        self._store.indexes.sets.keep_only((stamp,))
        self._settled, self._earlier_stamps = (stamp, seq), []
        return True

    def sweep(self, unused_before: int) -> None:
        """Drop paid vectors of removed texts, and of models unused since that second."""
        wanted = self._embedders.wanted
        if wanted is None or not wanted.costly:
            self._store.paid.sweep(unused_before, None)
        elif wanted.stamp is not None:
            # Without a stamp the wanted model isn't known yet.
            self._store.paid.sweep(unused_before, wanted.stamp)

    def use(self, embedders: Embedders) -> None:
        """Switch to other embedders."""
        self._embedders = embedders
        self._settled, self._retry_at, self._batch, self._earlier_stamps = (
            None,
            0.0,
            FIRST_BATCH,
            None,
        )

    def stop(self) -> None:
        """Signal the background work to end.

        Closing the embedder then ends its batch, too, and `close` needn't wait for it.
        """
        self._cancel.cancel()

    def close(self) -> None:
        """End the background work after its batch."""
        self.stop()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
