"""One plugin at a time: the process that a stranger's runs in, and the same interface for ours,
which needs none.

`Host` is started by its first call, kept while it is used, ended when it is idle; a call that fails
in any way that costs the answer ends it too, and after three such calls in a row the plugin rests.
Written and read in a thread of each call's own, which the caller leaves behind when time is up: a
pipe that something still holds can't hold Cortex. `Inside` is for the plugins that come with
Cortex: they do their work in programs that have timeouts already, and a process would add a tenth
of a second to the first pack.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, TypeVar, cast

from cortex.plugins.api import HOOKS, Context, Plugin
from cortex.plugins.child_process import MAX_ANSWER_BYTES, encode, plain
from cortex.plugins.configuration import misfit
from cortex.plugins.results import Declared, declared_of

MOST_FAILURES = 3  # in a row
# On Linux; libraries for numbers reserve hundreds of megabytes that they never touch
MEMORY_BYTES = 2 << 30
END_SECONDS = 0.5  # what a process gets to end by itself
KILL_SECONDS = 5.0  # what the system gets to end a process that was killed

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """How long a plugin may take."""

    answer_seconds: float = 2.0  # for a section or a verdict: somebody waits
    event_seconds: float = 10.0  # at start, now and then, at the end
    start_seconds: float = 10.0  # until it is loaded: a busy machine is no plugin's fault
    idle_seconds: float = 60.0


class Failed(Exception):
    """A plugin didn't answer, or not as it should; the message is why."""

    def __init__(self, why: str, *, lost: bool = False, final: bool = False) -> None:
        super().__init__(why)
        self.lost = lost  # its process is no good any more
        self.final = final  # asking again gives the same


class Breaker:
    """How often in a row a plugin failed, and whether it rests."""

    def __init__(self) -> None:
        self.resting = ""  # why
        self._failures = 0

    def allow(self) -> None:
        """Let a call pass.

        Raises:
            Failed: the plugin rests.
        """
        if self.resting:
            raise Failed(self.resting, final=True)

    def good(self) -> None:
        """A call was answered."""
        self._failures = 0

    def bad(self, failed: Failed) -> None:
        """A call failed."""
        self._failures += 1
        if failed.final:
            self.resting = str(failed)
        elif self._failures >= MOST_FAILURES:
            self.resting = f"it failed {self._failures} times in a row and rests until Cortex is restarted; last: {failed}"


class Inside:
    """A plugin that comes with Cortex, in this process."""

    def __init__(self, kind: type[Plugin], config: object, root: str | None) -> None:
        self.name = kind.name
        self.breaker = Breaker()
        self.known = Declared(
            kind.category, frozenset(kind.permissions), frozenset(HOOKS), dict(kind.config_schema)
        )
        wrong = misfit(config, kind.config_schema)
        if wrong:
            self.breaker.bad(Failed(wrong, final=True))
        own = {} if wrong else cast(Mapping[str, object], config)
        self._plugin = kind(Context(own, root if "files" in kind.permissions else None))

    def declared(self) -> Declared:
        """What it declares."""
        return self.known

    def call(
        self,
        hook: str,
        arguments: Mapping[str, object],
        seconds: float,
        read: Callable[[object], Answer],
    ) -> Answer:
        """What `read` makes of the hook's answer.

        Raises:
            Failed: it has none.
        """
        self.breaker.allow()
        try:
            told = getattr(self._plugin, hook)(*(arguments.values() or (self._plugin.context,)))
            answer = read(json.loads(encode({"answer": told}))["answer"])
        except Exception as error:  # as for a stranger's plugin: a pack goes on without it
            log.exception("the plugin %s failed", self.name)
            failed = Failed(f"{type(error).__name__}: {error}")
            self.breaker.bad(failed)
            raise failed from error
        self.breaker.good()
        return answer

    def close(self) -> None:
        """Nothing is held."""


class Host:
    """A stranger's plugin, in a process of its own."""

    def __init__(self, name: str, config: object, root: str | None, limits: ProcessLimits) -> None:
        self.name = name
        self.breaker = Breaker()
        self._config = config
        self._root = root
        self._limits = limits
        self.known: Declared | None = None  # what it declared, when it was first asked
        self._process: subprocess.Popen[bytes] | None = None
        self._talking: threading.Thread | None = None
        self._idle: threading.Timer | None = None
        self._used = 0.0
        self._lock = threading.Lock()  # one call at a time
        self._closed = False

    def declared(self) -> Declared:
        """What the plugin declares; starts it if that isn't known.

        Raises:
            Failed: it can't be known.
        """
        if self.known is None:
            with self._turn(self._limits.start_seconds):
                if self.known is None:
                    self._kept(self._ready)
        return cast(Declared, self.known)

    def call(
        self,
        hook: str,
        arguments: Mapping[str, object],
        seconds: float,
        read: Callable[[object], Answer],
    ) -> Answer:
        """What `read` makes of the hook's answer.

        Raises:
            Failed: there is none in time, or `read` can't make anything of it.
        """

        def work() -> Answer:
            self._ready()
            message = {"hook": hook, "seconds": seconds, **arguments, **self._context()}
            reply = self._exchange(message, seconds)
            if "answer" not in reply:
                raise Failed(_why(reply))
            try:
                return read(reply["answer"])
            except ValueError as error:
                raise Failed(f"a wrong answer: {error}") from error

        with self._turn(seconds + self._limits.start_seconds):
            return self._kept(work)

    def close(self) -> None:
        """End the process; a call under way fails."""
        self._closed = True
        free = self._lock.acquire(timeout=END_SECONDS / 2)
        if not free and (process := self._process) is not None:
            with contextlib.suppress(OSError):
                process.kill()
            free = self._lock.acquire(timeout=KILL_SECONDS)
        try:
            self._end(END_SECONDS)
        finally:
            if free:
                self._lock.release()

    @contextlib.contextmanager
    def _turn(self, seconds: float) -> Iterator[None]:
        """The time in which nobody else asks."""
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

    def _kept(self, work: Callable[[], Answer]) -> Answer:
        """Do it and remember how it went."""
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

    def _ready(self) -> None:
        """Start the process and have the plugin loaded, unless it is."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._end()  # it ended while nobody asked it, which costs nobody an answer
        self._process = self._start()
        hello = self._exchange(None, self._limits.start_seconds)
        if "declares" not in hello:
            raise Failed(_why(hello), final=True)
        try:
            declared = declared_of(hello["declares"], self.name)
        except ValueError as error:
            raise Failed(str(error), final=True) from error
        self.known = declared
        if wrong := misfit(self._config, declared.schema):
            raise Failed(wrong, final=True)
        seconds = self._limits.start_seconds
        loaded = self._exchange({"hook": "load", "seconds": seconds, **self._context()}, seconds)
        if "answer" not in loaded:
            raise Failed(_why(loaded), final=True)
        self._watch_idle(self._limits.idle_seconds)

    def _context(self) -> dict[str, object]:
        files = self.known is not None and "files" in self.known.permissions
        return {"config": self._config, "root": self._root if files else None}

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                # -P: the folder that a workspace happens to be must not shadow modules.
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "cortex.plugins.child_process",
                    self.name,
                    str(MEMORY_BYTES),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # No folder of the user's, or it couldn't be removed.
                cwd=os.path.dirname(os.path.abspath(sys.executable)),
                start_new_session=True,  # so that what it starts ends with it
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, ValueError) as error:
            raise Failed(f"its process can't be started: {error}") from error

    def _exchange(
        self, message: Mapping[str, object] | None, seconds: float
    ) -> Mapping[str, object]:
        """Send a message, if there is one, and take the next answer.

        Raises:
            Failed: there is none.
        """
        process = cast("subprocess.Popen[bytes]", self._process)
        try:
            body = (
                b""
                if message is None
                else json.dumps(message, default=plain).encode("ascii") + b"\n"
            )
        except (TypeError, ValueError) as error:
            raise Failed(f"it can't be told: {error}") from error
        heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._talking = threading.Thread(target=_talk, args=(process, body, heard), daemon=True)
        self._talking.start()
        try:
            line = heard.get(timeout=seconds)
        except queue.Empty:
            raise Failed(f"it took longer than {seconds:g} s", lost=True) from None
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
        """End the process: by closing its stdin, then by force, with all that it started."""
        process, self._process = self._process, None
        if self._idle is not None:
            self._idle.cancel()
        if process is None:
            return
        if grace_seconds:
            with contextlib.suppress(OSError):
                cast(BinaryIO, process.stdin).close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace_seconds)
        _kill(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_SECONDS)
        if self._talking is not None:
            self._talking.join(END_SECONDS)
            if self._talking.is_alive():  # something that left its group still holds the pipe
                return
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                cast(BinaryIO, stream).close()


def _talk(process: subprocess.Popen[bytes], body: bytes, heard: queue.SimpleQueue[bytes]) -> None:
    """Write a message and read a line; what is no whole line stands for the end of the process."""
    line = b""
    with contextlib.suppress(OSError, ValueError):
        if body:
            cast(BinaryIO, process.stdin).write(body)
            cast(BinaryIO, process.stdin).flush()
        line = cast(BinaryIO, process.stdout).readline(MAX_ANSWER_BYTES + 2)
    heard.put(line)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group; one that nobody has waited for yet still has its number."""
    with contextlib.suppress(OSError):
        if process.returncode is None and sys.platform != "win32":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _why(reply: Mapping[str, object]) -> str:
    return str(
        reply.get("refused") or reply.get("error") or "its answer isn't JSON of the right form"
    )[:300]
