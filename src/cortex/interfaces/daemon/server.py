"""cortexd: accepts connections, gives each its own families over shared engines, and ends when
nobody needs it.

A connection begins with one line, the hello: either a front end that introduces its client (command
line, folder, variables), or somebody who asks for the status or for the end. What a command line
means is not known here; `Opener` is given. Nothing of a hello's variables is ever logged: keys are
among them. What a moment of a session asks for isn't known here either; `SessionEventHandler` is
given.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cortex.base.errors import CortexError
from cortex.base.runtime.home import VERSION, version_parts
from cortex.base.runtime.process_stats import memory_bytes
from cortex.base.runtime.rendezvous import MAX_HELLO_BYTES, PROTOCOL, is_own
from cortex.engine.pool import EnginePool
from cortex.interfaces.daemon.shim import BYE, LEAVING, LOG_LINE
from cortex.interfaces.transports.http.gateway import Site
from cortex.interfaces.transports.http.mcp_site import listen, serve_http_within, serving
from cortex.interfaces.transports.jsonrpc import split_lines
from cortex.interfaces.transports.mcp.line_server import serve_lines
from cortex.interfaces.transports.mcp.server import Identity, make_server
from cortex.interfaces.transports.thread_pool import BoundedShare, ThreadPool
from cortex.toolkit.tool import Family, spell

log = logging.getLogger(__name__)

THREADS = 32
THREADS_EACH = 8  # of one connection
OPENINGS = 64  # at once, closings too
HELLO_SECONDS = 10.0
DRAIN_SECONDS = 4.0  # for what is under way when the end comes
END_SECONDS = 4.8  # from a signal to the end, whatever hangs
LOOK_SECONDS = 1.0  # between two looks at who is there
# For an answer at a session's start while all is still to be opened, and after our own start
FIRST_SECONDS = 1.5
CHUNK_BYTES = 65_536
MAX_CLIENTS = 512


@dataclass(frozen=True, slots=True)
class Hello:
    """How a front end introduces its client."""

    arguments: tuple[str, ...]
    cwd: str
    variables: Mapping[str, str] = field(repr=False)
    version: str
    pid: int
    protocol: int
    takes_log: bool = False  # the front end shows lines for people on its stderr


class ClientMessages:
    """Passes lines on to the stderr of a client, once it is connected; any thread may call it."""

    def __init__(self) -> None:
        self.pass_on: Callable[[str], None] | None = None

    def __call__(self, text: str) -> None:
        if self.pass_on is not None:
            self.pass_on(text)

    def reach(self, loop: asyncio.AbstractEventLoop, writer: asyncio.StreamWriter) -> None:
        """Write to this connection from now on."""

        def write(text: str) -> None:
            if not writer.is_closing():
                writer.write(json.dumps({LOG_LINE: text}).encode() + b"\n")

        def pass_on(text: str) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(write, text)

        self.pass_on = pass_on


@dataclass(frozen=True, slots=True)
class ClientSession:
    """What a client gets."""

    families: Sequence[Family]
    identity: Identity
    messages: tuple[str, ...] = ()  # for people, on the front end's stderr
    http: Site | None = None  # where it is served over HTTP instead of its own lines
    told: ClientMessages | None = None


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A moment of a client's session: its start, the end of a turn, the time before it is
    compacted.
    """

    event: str  # as `cortex hook` calls it
    cwd: str
    variables: Mapping[str, str] = field(repr=False)
    seconds: float = 0.0  # for which the client waits for an answer


class ClientRefused(Exception):
    """Why a client gets nothing: what to say on its stderr, and with what to exit."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


@dataclass(slots=True, eq=False)
class _Client:
    """A connection."""

    pid: int
    cwd: str
    since: float
    arguments: tuple[str, ...]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    task: asyncio.Task[Any] | None

    def take_no_more(self) -> None:
        """Let it be as if nothing more came: what is under way is answered."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]
        self.reader.feed_eof()


Opener = Callable[[Hello], ClientSession]
# What there is to say at a moment, "" for nothing
SessionEventHandler = Callable[[SessionEvent], str]


class Daemon:
    """One running cortexd."""

    def __init__(
        self,
        listener: socket.socket,
        opener: Opener,
        hooked: SessionEventHandler,
        engines: EnginePool,
        *,
        idle: float,
        memory: int,
        token: str = "",
        has_work: Callable[[], bool] = lambda: False,
    ) -> None:
        """It ends after `idle` seconds without clients, unless there is work that nobody else would
        do.
        """
        self._listener = listener
        self._opener = opener
        self._hooked = hooked
        self._engines = engines
        self._idle = idle
        self._memory = memory
        self._token = token
        self._has_work = has_work
        self._threads = ThreadPool(THREADS)
        self._clients: set[_Client] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._alone_since = time.monotonic()
        self._leaving = asyncio.Event()
        self.started = time.time()

    async def run(self, still_elected: Callable[[], bool]) -> None:
        """Serve until it is told to end, nobody has come for long, or the place was taken by
        another.
        """
        loop = asyncio.get_running_loop()
        # Openings that wait for a drive which doesn't answer must not be all that there are threads
        # for.
        loop.set_default_executor(ThreadPoolExecutor(OPENINGS, "opening"))
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, self.leave)
        server = await asyncio.start_server(
            self._accept, sock=self._listener, limit=MAX_HELLO_BYTES
        )
        while not self._leaving.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), LOOK_SECONDS)
                break
            await loop.run_in_executor(None, self._engines.close_idle, self._memory)
            alone = not self._clients and time.monotonic() - self._alone_since
            is_over = self._idle and alone and alone > self._idle and not self._has_work()
            if not still_elected() or is_over:
                self.leave()
        server.close()
        for client in self._clients:
            client.take_no_more()
        under_way = [client.task for client in self._clients if client.task]
        if under_way:
            await asyncio.wait(under_way, timeout=DRAIN_SECONDS)

    def leave(self) -> None:
        """Take no more clients, finish what is under way, and end."""
        if not self._leaving.is_set():
            self._leaving.set()
            end_soon()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._meet(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # The folder keeps others out; where the system says who connects, that is looked at,
            # too.
            if sys.platform != "win32" and not is_own(writer.get_extra_info("socket")):
                raise PermissionError("the connection is another user's")
            line = await asyncio.wait_for(reader.readline(), HELLO_SECONDS)
            hello = json.loads(line)
            if not isinstance(hello, dict) or not self._knows(hello):
                return
            if hello.get("control") == "hook":
                await _say(writer, await self._answer(_read_moment(hello)))
            elif "control" in hello:
                await _say(writer, await self._control(str(hello["control"])))
            else:
                await self._welcome(_read_hello(hello), reader, writer)
        except (OSError, ValueError, TimeoutError, KeyError, TypeError) as error:
            log.info("a connection ended at its hello: %s", type(error).__name__)
        except Exception as error:  # not its text: it may hold what the hello held
            log.error("a connection failed: %s", _place_of(error))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _knows(self, hello: Mapping[str, object]) -> bool:
        return isinstance(hello.get("protocol"), int) and (
            not self._token or hello.get("token") == self._token
        )

    async def _control(self, wanted: str) -> dict[str, object]:
        if wanted == "stop":
            self.leave()
            return {"pid": os.getpid(), "leaving": True}
        if wanted == "ping":
            return {"pid": os.getpid()}
        return await asyncio.get_running_loop().run_in_executor(None, self.status)  # it asks disks

    async def _answer(self, moment: SessionEvent) -> dict[str, object]:
        """What there is to say at a moment of a session; it never waits long, and what fails says
        nothing.
        """
        if self._leaving.is_set():
            return {"text": "", "leaving": True}
        self._alone_since = time.monotonic()
        work = asyncio.get_running_loop().run_in_executor(None, self._hooked, moment)
        try:  # the work goes on where nobody waits for it any more
            young = time.time() - self.started < FIRST_SECONDS
            patience = (
                FIRST_SECONDS
                if young and moment.seconds > 0
                else min(moment.seconds, FIRST_SECONDS)
            )
            return {"text": await asyncio.wait_for(asyncio.shield(work), patience)}
        except TimeoutError:
            work.add_done_callback(_forget)
            return {"text": ""}
        except Exception as error:  # not its text: it may hold what the hello held
            log.warning("nothing to say at %s: %s", moment.event, _place_of(error))
            return {"text": ""}

    def status(self) -> dict[str, object]:
        """What there is to know of this process."""
        alone = time.monotonic() - self._alone_since
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "uptime": round(time.time() - self.started),
            "memory": memory_bytes(),
            "endsIn": None
            if self._clients or not self._idle
            else max(0, round(self._idle - alone)),
            "idle": self._idle,
            "clients": [
                {
                    "pid": one.pid,
                    "cwd": one.cwd,
                    "arguments": list(one.arguments),
                    "seconds": round(time.time() - one.since),
                }
                for one in sorted(self._clients, key=lambda one: one.since)
            ],
            "projects": [
                {
                    "root": str(project.root),
                    "users": project.windows,
                    "status": project.freshness.state,
                    "lastIndexed": project.freshness.last_indexed,
                    "embedding": project.embedding.as_json() if project.embedding else None,
                    "secrets": project.secrets,
                }
                for project in self._engines.projects()
            ],
        }

    async def _welcome(
        self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if version_parts(hello.version) > version_parts(VERSION) or hello.protocol > PROTOCOL:
            log.info("a newer version, %.40r, takes over", hello.version)
            self.leave()
        if self._leaving.is_set():
            await _say(writer, {"leaving": True})
            return
        if len(self._clients) >= MAX_CLIENTS or hello.protocol < PROTOCOL:
            await _say(writer, {"refused": "cortexd can't serve this client"})
            return
        client = _Client(
            hello.pid,
            hello.cwd,
            time.time(),
            hello.arguments,
            reader,
            writer,
            asyncio.current_task(),
        )
        self._clients.add(client)
        families: Sequence[Family] = ()
        try:
            served = await asyncio.get_running_loop().run_in_executor(None, self._opener, hello)
            families = served.families
            if served.told is not None and hello.takes_log and served.http is None:
                served.told.reach(asyncio.get_running_loop(), writer)
            await self._serve(served, reader, writer)
        except ClientRefused as refused:
            await _say(writer, {"messages": [refused.message], "exit": refused.exit_code})
        except CortexError as error:
            lines = [
                f"error: {error.message} [{error.code}]",
                *(f"  - {fromkey}" for fromkey in dict.fromkeys(error.suggestions)),
            ]
            await _say(writer, {"messages": lines, "exit": error.exit_code})
        finally:
            self._clients.discard(client)
            self._alone_since = time.monotonic()
            await asyncio.get_running_loop().run_in_executor(None, _close, families)

    async def _taken(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes | None]:
        """The lines of a front end until it ends or we do; the rest is for the next cortexd."""
        async for line in split_lines(_chunks(reader)):
            if self._leaving.is_set():
                return
            yield line

    async def _serve(
        self, served: ClientSession, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        reads = [
            tool.name
            for family in served.families
            for tool in family.tools
            if not tool.writes or tool.keyed
        ]
        again = sorted({*reads, *(spell(name) for name in reads)})
        welcome: dict[str, object] = {
            "version": VERSION,
            "again": again,
            "messages": list(served.messages),
        }
        threads = BoundedShare(self._threads, THREADS_EACH)
        if served.http is None:
            server = make_server(served.families, threads, served.identity)
            await _say(writer, welcome)
            await serve_lines(server, self._taken(reader), _sink(writer))
            await _say(writer, LEAVING if self._leaving.is_set() else BYE)
            return
        # Not on the loop: a name may have to be looked up.
        with await asyncio.get_running_loop().run_in_executor(
            None, listen, served.http
        ) as listener:
            port = listener.getsockname()[1]
            said = [*served.messages, serving(served.http, port)]
            await _say(writer, {**welcome, "messages": said, "reads": False, "port": port})
            stop = asyncio.Event()
            watch = asyncio.get_running_loop().create_task(_until_gone(reader, stop))
            await serve_http_within(
                served.families, threads, listener, served.http, stop, served.identity
            )
            watch.cancel()
        await _say(writer, LEAVING if self._leaving.is_set() else BYE)


def _read_hello(hello: Mapping[str, Any]) -> Hello:
    variables = {str(name): str(value) for name, value in dict(hello["variables"]).items()}
    arguments = tuple(str(one) for one in hello["arguments"])
    return Hello(
        arguments,
        str(hello["cwd"]),
        variables,
        str(hello["version"]),
        int(hello["pid"]),
        int(hello["protocol"]),
        hello.get("log") is True,
    )


def _read_moment(hello: Mapping[str, Any]) -> SessionEvent:
    variables = {str(name): str(value) for name, value in dict(hello["variables"]).items()}
    return SessionEvent(str(hello["event"]), str(hello["cwd"]), variables, float(hello["seconds"]))


def _forget(work: asyncio.Future[str]) -> None:
    """Take note of how a late answer ended, so that nobody complains that nobody did."""
    if not work.cancelled() and (error := work.exception()) is not None:
        log.warning("a moment that nobody waited for failed: %s", _place_of(error))


def _place_of(error: BaseException) -> str:
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}"


async def _say(writer: asyncio.StreamWriter, body: bytes | dict[str, object]) -> None:
    writer.write((body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n")
    with suppress(OSError):
        await writer.drain()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What the front end sends, until it says that nothing more comes."""
    with suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            yield chunk


def _sink(writer: asyncio.StreamWriter) -> Callable[[bytes], Any]:
    async def write(line: bytes) -> None:
        if writer.is_closing():
            raise BrokenPipeError("the front end is gone")
        writer.write(line + b"\n")
        await writer.drain()

    return write


async def _until_gone(reader: asyncio.StreamReader, stop: asyncio.Event) -> None:
    async for _ in _chunks(reader):
        pass
    stop.set()


def _close(families: Sequence[Family]) -> None:
    for family in families:
        try:
            family.close()
        except Exception:
            log.exception("closing family %s failed", family.name)


def end_soon() -> None:
    """See to it that the process ends within END_SECONDS, whatever hangs."""
    import threading

    timer = threading.Timer(END_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
