"""Execution of one plugin: in a child process, or in this process for built-in plugins.

`Host` starts the child with the first call, keeps it while it is used and ends it when it is idle.
A call that leaves the child unusable ends it too, and after three failed calls in a row the plugin
is disabled. Each call writes and reads in a thread of its own, which the caller abandons when time
is up: a pipe that some process still holds can't block Cortex. `InProcessPlugin` is for the plugins
that come with Cortex: their work is done by programs that have timeouts already, and a process
would add a tenth of a second to the first pack.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, TypeVar, cast

from cortex.base.runtime.child_process import END_SECONDS, KILL_SECONDS, ChildProcess, python_module
from cortex.plugins.api import HOOKS, Context, Plugin
from cortex.plugins.child_process import MAX_ANSWER_BYTES, encode, plain
from cortex.plugins.configuration import misfit
from cortex.plugins.results import Declared, declared_of

# Consecutive failures that disable a plugin.
MOST_FAILURES = 3
# Address space on Linux; numeric libraries reserve hundreds of megabytes that they never touch.
MEMORY_BYTES = 2 << 30

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Time limits of a plugin."""

    answer_seconds: float = 2.0  # for a section or a verdict: a caller waits
    event_seconds: float = 10.0  # for on_start, on_periodic and on_stop
    start_seconds: float = 10.0  # until it is loaded, generous for a busy machine
    idle_seconds: float = 60.0


class Failed(Exception):
    """A plugin gave no valid answer; the message is the reason."""

    def __init__(self, why: str, *, lost: bool = False, final: bool = False) -> None:
        super().__init__(why)
        self.lost = lost  # its process can't be used any more
        self.final = final  # a retry would fail the same way


class Breaker:
    """Circuit breaker: disables a plugin after consecutive failures."""

    def __init__(self) -> None:
        self.resting = ""  # the reason while the plugin is disabled
        self._failures = 0

    def allow(self) -> None:
        """Let a call pass.

        Raises:
            Failed: the plugin is disabled.
        """
        if self.resting:
            raise Failed(self.resting, final=True)

    def good(self) -> None:
        """Record a successful call."""
        self._failures = 0

    def bad(self, failed: Failed) -> None:
        """Record a failed call."""
        self._failures += 1
        if failed.final:
            self.resting = str(failed)
        elif self._failures >= MOST_FAILURES:
            self.resting = (
                f"it failed {self._failures} times in a row and rests until Cortex is restarted; "
                f"last: {failed}"
            )


class InProcessPlugin:
    """A built-in plugin, run in this process."""

    def __init__(self, kind: type[Plugin], config: object, root: str | None) -> None:
        self.name = kind.name
        self.breaker = Breaker()
        self.known = Declared(
            kind.category, frozenset(kind.permissions), frozenset(HOOKS), dict(kind.config_schema)
        )
        problem = misfit(config, kind.config_schema)
        if problem:
            self.breaker.bad(Failed(problem, final=True))
        valid_config = {} if problem else cast(Mapping[str, object], config)
        self._plugin = kind(Context(valid_config, root if "files" in kind.permissions else None))

    def declared(self) -> Declared:
        """Return the plugin's declaration."""
        return self.known

    def call(
        self,
        hook: str,
        arguments: Mapping[str, object],
        seconds: float,
        read: Callable[[object], Answer],
    ) -> Answer:
        """Call a hook and return its answer as parsed by `read`.

        Raises:
            Failed: there is no valid answer.
        """
        self.breaker.allow()
        try:
            result = getattr(self._plugin, hook)(*(arguments.values() or (self._plugin.context,)))
            answer = read(json.loads(encode({"answer": result}))["answer"])
        # As for a third-party plugin: the pack is built without it.
        except Exception as error:
            log.exception("the plugin %s failed", self.name)
            failed = Failed(f"{type(error).__name__}: {error}")
            self.breaker.bad(failed)
            raise failed from error
        self.breaker.good()
        return answer

    def close(self) -> None:
        """Do nothing: there is no process to end."""


class Host:
    """A third-party plugin, run in a process of its own."""

    def __init__(self, name: str, config: object, root: str | None, limits: ProcessLimits) -> None:
        self.name = name
        self.breaker = Breaker()
        self._config = config
        self._root = root
        self._limits = limits
        self.known: Declared | None = None  # the declaration, after the first start
        self._process: ChildProcess | None = None
        self._idle: threading.Timer | None = None
        self._used = 0.0
        self._lock = threading.Lock()  # one call at a time
        self._closed = False

    def declared(self) -> Declared:
        """Return the plugin's declaration; starts the plugin if that isn't known.

        Raises:
            Failed: it can't be loaded.
        """
        if self.known is None:
            with self._exclusive(self._limits.start_seconds):
                if self.known is None:
                    self._tracked(self._ensure_loaded)
        return cast(Declared, self.known)

    def call(
        self,
        hook: str,
        arguments: Mapping[str, object],
        seconds: float,
        read: Callable[[object], Answer],
    ) -> Answer:
        """Call a hook and return its answer as parsed by `read`.

        Raises:
            Failed: there is no answer in time, or it isn't valid.
        """

        def work() -> Answer:
            self._ensure_loaded()
            message = {"hook": hook, "seconds": seconds, **arguments, **self._context()}
            reply = self._exchange(message, seconds)
            if "answer" not in reply:
                raise Failed(_why(reply))
            try:
                return read(reply["answer"])
            except ValueError as error:
                raise Failed(f"a wrong answer: {error}") from error

        with self._exclusive(seconds + self._limits.start_seconds):
            return self._tracked(work)

    def close(self) -> None:
        """End the process; a call under way fails."""
        self._closed = True
        free = self._lock.acquire(timeout=END_SECONDS / 2)
        if not free and (process := self._process) is not None:
            process.kill()
            free = self._lock.acquire(timeout=KILL_SECONDS)
        try:
            self._end(END_SECONDS)
        finally:
            if free:
                self._lock.release()

    @contextlib.contextmanager
    def _exclusive(self, seconds: float) -> Iterator[None]:
        """Hold the lock for one call."""
        if not self._lock.acquire(timeout=seconds):
            raise Failed("it is busy")
        try:
            if self._closed:
                raise Failed("Cortex is ending", final=True)
            self.breaker.allow()
            yield
        finally:
            self._used = time.monotonic()
            self._lock.release()

    def _tracked(self, work: Callable[[], Answer]) -> Answer:
        """Run a call and record its outcome in the circuit breaker."""
        try:
            answer = work()
        except Failed as failed:
            log.debug("the plugin %s failed: %s", self.name, failed)
            if failed.lost or failed.final:
                self._end()
            self.breaker.bad(failed)
            raise
        self.breaker.good()
        return answer

    def _ensure_loaded(self) -> None:
        """Start the process and load the plugin, unless it is loaded."""
        if self._process is not None:
            if self._process.alive:
                return
            # It ended between two calls, so no answer was lost.
            self._end()
        self._process = self._start()
        hello = self._exchange(None, self._limits.start_seconds)
        if "declares" not in hello:
            raise Failed(_why(hello), final=True)
        try:
            declared = declared_of(hello["declares"], self.name)
        except ValueError as error:
            raise Failed(str(error), final=True) from error
        self.known = declared
        if problem := misfit(self._config, declared.schema):
            raise Failed(problem, final=True)
        seconds = self._limits.start_seconds
        loaded = self._exchange({"hook": "load", "seconds": seconds, **self._context()}, seconds)
        if "answer" not in loaded:
            raise Failed(_why(loaded), final=True)
        self._watch_idle(self._limits.idle_seconds)

    def _context(self) -> dict[str, object]:
        files = self.known is not None and "files" in self.known.permissions
        return {"config": self._config, "root": self._root if files else None}

    def _start(self) -> ChildProcess:
        command = python_module("cortex.plugins.child_process", self.name, str(MEMORY_BYTES))
        try:
            return ChildProcess(command, group=True)
        except (OSError, ValueError) as error:
            raise Failed(f"its process can't be started: {error}") from error

    def _exchange(
        self, message: Mapping[str, object] | None, seconds: float
    ) -> Mapping[str, object]:
        """Send a message, if there is one, and return the next answer.

        Raises:
            Failed: there is none.
        """
        process = cast(ChildProcess, self._process)
        try:
            body = (
                b""
                if message is None
                else json.dumps(message, default=plain).encode("ascii") + b"\n"
            )
        except (TypeError, ValueError) as error:
            raise Failed(f"it can't be sent: {error}") from error
        try:
            line = process.exchange(partial(_write_and_read, body), seconds)
        except TimeoutError:
            raise Failed(f"it took longer than {seconds:g} s", lost=True) from None
        except (OSError, ValueError):
            line = b""
        if len(line) > MAX_ANSWER_BYTES + 1:
            raise Failed(f"it answered with more than {MAX_ANSWER_BYTES:,} bytes", lost=True)
        if not line.endswith(b"\n"):
            raise Failed("its process ended", lost=True)
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Failed("its answer isn't JSON", lost=True) from error
        if not isinstance(reply, dict):
            raise Failed("its answer isn't JSON of the right form", lost=True)
        return cast(Mapping[str, object], reply)

    def _watch_idle(self, seconds: float) -> None:
        self._idle = threading.Timer(seconds, self._end_if_idle)
        self._idle.daemon = True
        self._idle.start()

    def _end_if_idle(self) -> None:
        with self._lock:
            left = self._used + self._limits.idle_seconds - time.monotonic()
            if self._process is None:
                return
            if left > 0:
                self._watch_idle(left)
            else:
                self._end(END_SECONDS)

    def _end(self, grace_seconds: float = 0.0) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if self._idle is not None:
            self._idle.cancel()
        if process is not None:
            process.end(grace_seconds)


def _write_and_read(body: bytes, requests: BinaryIO, answers: BinaryIO) -> bytes:
    """Write a message and read a line; an incomplete line means that the process ended."""
    if body:
        requests.write(body)
        requests.flush()
    return answers.readline(MAX_ANSWER_BYTES + 2)


def _why(reply: Mapping[str, object]) -> str:
    return str(
        reply.get("refused") or reply.get("error") or "its answer isn't JSON of the right form"
    )[:300]
