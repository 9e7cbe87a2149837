"""Whose vectors a store has, and whose answer: those of the wanted embedder once it has embedded
everything, a cheap one's until then.

Vectors of a cheap embedder are made within an index run. A costly one works here, in a thread of
the lease holder: the most useful files first, each batch kept in SQLite before the next begins, so
that nothing is paid for twice; searches go on meanwhile. A query is embedded by the one whose
vectors are searched: two models are never compared. Knows no tool and no file; how texts become
numbers is in `engine/embedders/`, where vectors are kept in `engine/store/`.
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

BATCH_SECONDS = 2.0  # of work that a kill can cost
FIRST_BATCH, LARGEST_BATCH = 16, 512  # texts
KNOWN_BATCH = 1_000  # texts that were paid for before
LOOK_SECONDS = 10.0  # between two looks whether a server still has the vectors
CLOSE_SECONDS = 5.0  # what a batch under way gets to end

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answering:
    """Whose vectors answer now; where it isn't the wanted ones', why."""

    embedder: CircuitBreaker | None
    stamp: Stamp | None
    why: str = ""


class EmbeddingCoordinator:
    """The vectors of one open store."""

    def __init__(
        self, store: Store, embedders: Embedders, settings: Callable[[], Settings]
    ) -> None:
        self._store = store
        self._embedders = embedders
        self._settings = settings
        self._turn = threading.Lock()  # one round of embedding at a time
        self._cancel = Cancel()
        self._thread: threading.Thread | None = None
        # Whose vectors have everything up to which `seq`
        self._settled: tuple[Stamp | None, int] | None = None
        self._resume = 0.0  # when to try again after a failure that was no embedder's
        self._look_again = 0.0
        self._batch = FIRST_BATCH
        # Whose vectors were complete when the store was opened
        self._earlier_stamps: list[Stamp] | None = None

    @property
    def wanted(self) -> CircuitBreaker | None:
        """The embedder that is wanted, None where words are enough."""
        return self._embedders.wanted

    # -- what answers
    # --------------------------------------------------------------------------------------------------

    def answering(self, *, ask: bool = True) -> Answering:
        """Whose vectors a search uses now; with `ask` an embedder may be asked which model it has,
        which may take its time.
        """
        wanted = self._embedders.wanted
        if wanted is None:
            return Answering(None, None)
        if ask:
            self._find_out(wanted)
        why = self._why_not(wanted)
        if not why and wanted.stamp is not None:
            self._store.indexes.sets.rest_but(wanted.stamp)
            return Answering(wanted, wanted.stamp)
        for one in (self._earlier(), self._embedders.standby):
            if one is not None:
                self._find_out(one)
                if not self._why_not(one):
                    return Answering(
                        one, one.stamp, f"answered by the vectors of {one.name}: {why}"
                    )
        return Answering(None, None, why)

    def _earlier(self) -> CircuitBreaker | None:
        """The embedder that was wanted before, while its vectors are there and it can be asked."""
        if self._earlier_stamps is None:
            complete = [stamp for stamp, complete, _ in self._store.paid.models() if complete]
            self._earlier_stamps = [
                stamp for stamp in complete if self._store.indexes.vectors(stamp).watermark >= 0
            ]
        wanted = self._embedders.wanted
        for stamp in self._earlier_stamps:
            if wanted is not None and stamp != wanted.stamp:
                one = self._embedders.earlier(stamp)
                if one is not None and not one.rests:
                    return one
        return None

    def state(self) -> tuple[object, ...]:
        """What an answer by meaning depends on: two equal states give equal answers."""
        now = self.answering()
        return (
            (now.stamp, self._store.indexes.vectors(now.stamp).state) if now.stamp else (now.why,)
        )

    def _why_not(self, one: CircuitBreaker) -> str:
        """Why an embedder's vectors can't be searched; empty where they can."""
        stamp = one.stamp
        if one.rests:
            return f"{one.name} can't be asked now ({one.problem})"
        if stamp is None:
            return f"nothing is embedded by {one.name} yet"
        if self._is_ready(stamp):
            return ""
        vectors, sets = self._store.indexes.vectors(stamp), self._store.indexes.sets
        if sets.away:
            return sets.away
        if 0 <= vectors.watermark < sets.least_mark:
            return "Qdrant still has to remove what was removed here"
        if vectors.memory > self._room or not sets.fits(stamp, self._room):
            return f"limits.memory.embeddings leaves no room for all vectors of {one.name}"
        if sets.damaged(stamp):
            return f"the vectors of {one.name} are damaged and are being made anew"
        # How much it is, `status` counts: every search would pay for that.
        return f"{'not everything' if vectors.memory else 'nothing'} is embedded by {one.name} yet"

    def _is_ready(self, stamp: Stamp) -> bool:
        """Whether vectors have everything, or had once, fit into memory, and can be asked."""
        vectors, sets = self._store.indexes.vectors(stamp), self._store.indexes.sets
        return (
            vectors.watermark >= sets.least_mark and vectors.memory <= self._room and not sets.away
        )

    def _find_out(self, one: CircuitBreaker) -> None:
        """Ask an embedder for its stamp where its vectors could answer."""
        if (
            one.stamp is None
            and not one.rests
            and (not one.costly or self._store.paid.is_complete())
        ):
            with suppress(CortexError):  # it rests then, and is asked again later
                # Connects, and gives up sooner than `connect`: somebody waits for an answer
                one.query("?")

    def try_out(self) -> None:
        """Ask the wanted embedder even where nothing is embedded yet: for somebody who asks once,
        and wants to know why it isn't.
        """
        wanted = self._embedders.wanted
        if wanted is None or wanted.rests or not wanted.costly:
            return
        vectors = self._store.indexes.vectors(wanted.stamp) if wanted.stamp is not None else None
        if vectors is None or (vectors.watermark < 0 and not vectors.memory):
            with suppress(CortexError):
                wanted.query("?")

    @property
    def _room(self) -> int:
        return self._settings().limits.memory.embeddings

    def status(self, *, ask: bool = True) -> EmbeddingState | None:
        """How far the wanted embedder is, None where none is wanted; `ask` is as above."""
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
        if stamp is not None and self._store.indexes.vectors(stamp).memory <= self._room:
            embedded = sets.embedded(stamp)
        if stamp is not None and not problem and not sets.fits(stamp, self._room):
            problem = self._why_not(wanted)
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

    # -- what is made
    # --------------------------------------------------------------------------------------------------

    def makings(self) -> tuple[EmbeddingJob, ...]:
        """Whose vectors an index run brings up to date."""
        wanted = self._embedders.wanted
        if wanted is None:
            return ()
        if not wanted.costly:
            return self._making_of(wanted)
        paid = (EmbeddingJob(wanted.stamp, None),) if wanted.stamp else ()
        if wanted.stamp is not None and self._is_ready(wanted.stamp):
            return paid
        return (*paid, *self._standing_in())

    def _standing_in(self) -> tuple[EmbeddingJob, ...]:
        """What answers until the wanted vectors are ready: those of the earlier embedder, else of
        the cheap one.
        """
        earlier, standby = self._earlier(), self._embedders.standby
        if earlier is not None and earlier.stamp is not None:
            return (EmbeddingJob(earlier.stamp, None),)
        return self._making_of(standby) if standby is not None else ()

    def _making_of(self, one: CircuitBreaker) -> tuple[EmbeddingJob, ...]:
        try:
            return (EmbeddingJob(one.stamp or one.connect(), one.passages),)
        except CortexError as error:  # words answer, and say why
            log.warning("%s embeds nothing: %s", one.name, error.message)
            return ()

    def catch_up(self) -> None:
        """Bring words and vectors up to date with what was just written."""
        try:
            self._store.indexes.catch_up(self.makings(), self._room)
        # The words have it, and an answer says that there are words only
        except LimitError as error:
            if error.code != "EMBEDDINGS_LIMIT":
                raise
            log.warning("%s", error.message)

    @property
    def damaged(self) -> bool:
        """Whether the files of the wanted vectors are there and can't be used."""
        wanted = self._embedders.wanted
        return (
            wanted is not None
            and wanted.stamp is not None
            and self._store.indexes.sets.damaged(wanted.stamp)
        )

    @property
    def lags(self) -> bool:
        """Whether vectors that are made with the words are behind, though they could be made."""
        wanted = self._embedders.wanted
        if wanted is None or wanted.costly or wanted.rests or wanted.stamp is None:
            return False
        sets = self._store.indexes.sets
        behind = not sets.away and sets.of(wanted.stamp).watermark < self._store.truth.seq()
        return behind and sets.fits(wanted.stamp, self._room)

    @property
    def working(self) -> bool:
        """Whether embedding is under way in the background."""
        return self._thread is not None and self._thread.is_alive()

    def work(self) -> None:
        """Have what waits embedded in the background, unless that is under way or done; returns at
        once. For the lease holder.
        """
        wanted = self._embedders.wanted
        if wanted is None or self.working:
            return
        if (
            wanted.rests
            or time.monotonic() < self._resume
            or self._is_settled(wanted)
            or self._store.indexes.sets.away
        ):
            return
        if not wanted.costly:
            if not self._settle(wanted) and self._store.indexes.sets.may_vanish:
                self.catch_up()  # their server was away, or has lost them
            return
        self._thread = threading.Thread(target=self._work, name="embedding", daemon=True)
        self._thread.start()

    def _is_settled(self, wanted: CircuitBreaker) -> bool:
        """Whether there is nothing to do; where a server keeps the vectors, it is asked now and
        then whether it still has them.
        """
        if self._settled != (wanted.stamp, self._store.truth.seq()):
            return False
        if (
            wanted.stamp is None
            or not self._store.indexes.sets.may_vanish
            or time.monotonic() < self._look_again
        ):
            return True
        self._look_again = time.monotonic() + LOOK_SECONDS
        return self._store.indexes.vectors(wanted.stamp).watermark == self._store.truth.seq()

    def _work(self) -> None:
        embedders = self._embedders
        try:
            self.embed(cancel=self._cancel)
        # A background thread's last line of defence: the next round starts afresh
        except Exception as error:
            # It was closed because nobody wants it any more
            if self._cancel or self._embedders is not embedders:
                return
            wanted = embedders.wanted
            if wanted is None or not wanted.rests:  # else it is known when to ask it again
                self._resume = time.monotonic() + REST_SECONDS
            known = isinstance(error, CortexError)
            log.warning(
                "embedding stopped for a while: %s",
                error.message if known else error,
                exc_info=not known,
            )

    def embed(self, *, progress: ProgressCallback = lambda progress: None, cancel: Cancel) -> bool:
        """Embed what waits, in this thread; true where everything is embedded then.

        Only for the lease holder.

        Raises: CortexError, where the embedder fails; what it has done is kept.
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
        sets, paid, truth = self._store.indexes.sets, self._store.paid, self._store.truth
        while not cancel and self._store.lease.held and not wanted.rests:
            seq = truth.seq()
            if not sets.fits(stamp, self._room):  # it is not paid for what can't be searched
                self._settled = (stamp, seq)
                return False
            sets.catch_up(EmbeddingJob(stamp, None), self._room)
            if not paid.is_complete(stamp):
                self._make_standby()
            model = paid.model(stamp)
            plan = paid.plan(model)
            if plan:
                self._embed_plan(wanted, stamp, model, plan, progress, cancel)
            elif truth.seq() == seq:
                if not paid.is_complete(stamp):
                    paid.set_complete(model, True)
                    sets.catch_up(EmbeddingJob(stamp, None), self._room)
                return self._settle(wanted)
        return False

    def _make_standby(self) -> None:
        """See to it that something answers: the cheap vectors were removed when the costly ones
        were complete.
        """
        for making in self._standing_in():
            try:
                self._store.indexes.sets.catch_up(making, self._room)
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
        """Embed the texts of these contents in batches, until the store has changed: then something
        else may be more useful.
        """
        sets, seq, total = (
            self._store.indexes.sets,
            self._store.truth.seq(),
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

        for one in self._store.paid.waiting(model, plan):
            if one.known:
                known.append(one.hash)
            else:
                batch[one.hash] = one.text
            if len(batch) >= self._batch or len(known) >= KNOWN_BATCH:
                flush()
                # It rests where a question found out that it fails, or has another model now.
                if (
                    cancel
                    or wanted.rests
                    or not self._store.lease.held
                    or self._store.truth.seq() != seq
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
        """Where the wanted vectors have everything, remove the others; false where they haven't."""
        stamp, seq = wanted.stamp, self._store.truth.seq()
        if stamp is None or self._store.indexes.vectors(stamp).watermark < seq:
            return False
        self._store.indexes.sets.keep_only((stamp,))
        self._settled, self._earlier_stamps = (stamp, seq), []
        return True

    def sweep(self, unused_before: int) -> None:
        """Drop paid vectors of models that nobody has wanted since that second, and of texts that
        are gone.
        """
        wanted = self._embedders.wanted
        if wanted is None or not wanted.costly:
            self._store.paid.sweep(unused_before, None)
        elif wanted.stamp is not None:  # else nobody knows yet which ones are wanted
            self._store.paid.sweep(unused_before, wanted.stamp)

    def use(self, embedders: Embedders) -> None:
        """Work with other embedders from now on."""
        self._embedders = embedders
        self._settled, self._resume, self._batch, self._earlier_stamps = (
            None,
            0.0,
            FIRST_BATCH,
            None,
        )

    def stop(self) -> None:
        """Let the work in the background end; whoever closes the embedder then ends its batch, too,
        and `close` needn't wait for it.
        """
        self._cancel.cancel()

    def close(self) -> None:
        """End the work in the background, after its batch."""
        self.stop()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
