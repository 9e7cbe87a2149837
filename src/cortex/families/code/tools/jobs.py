"""Background jobs for forced index runs, which outlive the call that started them."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Literal

from cortex.base.errors import Cancelled, CortexError, explained
from cortex.base.text import rfc3339
from cortex.base.types import Cancel, Progress, ProgressCallback
from cortex.families.code.tools.render import Json
from cortex.toolkit.tool import Call

POLL_SECONDS = 0.05
# Time for a run to end after its call was cancelled.
CANCEL_SECONDS = 10.0

Work = Callable[[ProgressCallback, Cancel], list[Json]]
log = logging.getLogger(__name__)


class Job:
    """One index run over the workspaces of a call."""

    def __init__(self, work: Work) -> None:
        self.id = uuid.uuid4().hex[:8]
        self.reports: list[Json] = []
        self.error: CortexError | None = None
        self._work = work
        self._started = int(time.time())
        self._step = Progress("waiting", 0, 0)
        self._cancel = Cancel()
        self._done = threading.Event()
        threading.Thread(target=self._run, name=f"reindex {self.id}", daemon=True).start()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait(self, seconds: float, call: Call, *, owned: bool) -> bool:
        """Wait for the end and report progress; cancelling the owning call cancels the job.

        Raises: Cancelled, or the error that the run ended with.
        """
        deadline = time.monotonic() + seconds
        while not self._done.wait(POLL_SECONDS) and time.monotonic() < deadline and not call.cancel:
            report_progress(call, self._step)
        if call.cancel and not self.done:
            if owned:
                self._cancel.cancel()
                self._done.wait(CANCEL_SECONDS)
            raise Cancelled()
        if self.error is not None:
            raise self.error
        # A run shorter than the poll interval reports its last step.
        report_progress(call, self._step)
        return self.done

    def as_json(self) -> Json:
        """Describe the job for an answer: state, progress and outcome."""
        out: Json = {"id": self.id, "status": self._status, "started": rfc3339(self._started)}
        if not self.done:
            return {
                **out,
                "stage": self._step.stage,
                "done": self._step.done,
                "total": self._step.total,
            }
        if self.error is not None:
            return {**out, "error": {"code": self.error.code, "message": self.error.message}}
        return {**out, "reports": self.reports}

    @property
    def _status(self) -> Literal["running", "failed", "completed"]:
        if not self.done:
            return "running"
        return "failed" if self.error else "completed"

    def _run(self) -> None:
        try:
            self.reports = self._work(self._record_progress, self._cancel)
        except Exception as failure:
            self.error = explained(failure, "reindexing")
            if self.error is not failure:
                log.error("reindexing failed", exc_info=failure)
        finally:
            self._done.set()

    def _record_progress(self, step: Progress) -> None:
        self._step = step


class Jobs:
    """Jobs of one connection; a repeated request joins the job that is already running."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[tuple[str | None, str | None], Job] = {}
        # The job that an answer mentioned last.
        self.last: Job | None = None

    def start(self, workspace: str | None, path: str | None, work: Work) -> tuple[Job, bool]:
        """Return the job for this workspace and path, and whether this call started it."""
        with self._lock:
            self._jobs = {key: job for key, job in self._jobs.items() if not job.done}
            running = self._jobs.get((workspace, path))
            if running is not None:
                return running, False
            started = self._jobs[workspace, path] = Job(work)
            return started, True


def report_progress(call: Call, step: Progress) -> None:
    """Report the progress of a run to the client."""
    if step.total:
        call.progress(step.done, step.total, f"{step.stage} {step.done} of {step.total} files")
    elif step.stage == "scanning":
        call.progress(0, None, "looking for files")
