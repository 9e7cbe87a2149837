"""cortexd: serve each connection its own families over shared engines, and end when idle.

A connection begins with one line, the hello: either a shim that introduces its client (command
line, folder, variables), or a control request such as status or stop. A hello's variables are never
logged, because they contain keys. The command line of a client and the events of a session are
interpreted elsewhere: `Opener` and `SessionEventHandler` are passed in.
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
from cortex.interfaces.assembly.families import SharedResources
from cortex.interfaces.daemon.shim import BYE, LEAVING, LOG_LINE
from cortex.interfaces.transports.http.gateway import Site
from cortex.interfaces.transports.http.mcp_site import listen, serve_http_within, serving
from cortex.interfaces.transports.jsonrpc import split_lines
from cortex.interfaces.transports.mcp.line_server import serve_lines
from cortex.interfaces.transports.mcp.server import Identity, make_server
from cortex.interfaces.transports.thread_pool import BoundedShare, ThreadPool
from cortex.toolkit.tool import Family, spell

log = logging.getLogger(__name__)

# Threads that run requests: of all connections, and of one.
THREADS, THREADS_EACH = 32, 8
# Sessions that are opened or closed at the same time.
OPENINGS = 64
# Time limit for the first line of a connection.
HELLO_SECONDS = 10.0
# Time that running requests get at shutdown.
DRAIN_SECONDS = 4.0
# Time from a signal to the exit, even if a thread hangs.
END_SECONDS = 4.8
# Time between two checks for idleness.
LOOK_SECONDS = 1.0
# Longest wait for the answer to a session event. A cortexd that has just started always waits so
# long, even if the client grants less.
FIRST_SECONDS = 1.5
CHUNK_BYTES = 65_536
MAX_CLIENTS = 512


@dataclass(frozen=True, slots=True)
class Hello:
    """Introduction of a client by its shim."""

    arguments: tuple[str, ...]
    cwd: str
    variables: Mapping[str, str] = field(repr=False)
    version: str
    pid: int
    protocol: int
    # The shim prints log lines on its stderr.
    takes_log: bool = False


class ClientMessages:
    """Log sink that forwards lines to a client's stderr once connected. Thread-safe."""

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
            # The loop may have ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(write, text)

        self.pass_on = pass_on


@dataclass(frozen=True, slots=True)
class ClientSession:
    """Families and identity that a client is served with."""

    families: Sequence[Family]
    identity: Identity
    # For people, on the shim's stderr.
    messages: tuple[str, ...] = ()
    # Address, if the client is served over HTTP instead of stdio.
    http: Site | None = None
    log_sink: ClientMessages | None = None


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """Event of a client's session: its start, the end of a turn, or a compaction."""

    # Name as in `cortex hook EVENT`.
    event: str
    cwd: str
    variables: Mapping[str, str] = field(repr=False)
    # Time that the client waits for an answer.
    seconds: float = 0.0


class ClientRefused(Exception):
    """Refusal to serve a client, with a message for its stderr and its exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


@dataclass(slots=True, eq=False)
class _Client:
    """Connected client."""

    pid: int
    cwd: str
    since: float
    arguments: tuple[str, ...]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    task: asyncio.Task[Any] | None

    def stop_reading(self) -> None:
        """Stop reading from the client; running requests are still answered."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]
        self.reader.feed_eof()


Opener = Callable[[Hello], ClientSession]
# Returns the text for the client, "" for none.
SessionEventHandler = Callable[[SessionEvent], str]


class Daemon:
    """One running cortexd."""

    def __init__(
        self,
        listener: socket.socket,
        opener: Opener,
        event_handler: SessionEventHandler,
        resources: SharedResources,
        *,
        idle: float,
        memory: int,
        token: str = "",
        has_work: Callable[[], bool] = lambda: False,
    ) -> None:
        """Serve on `listener`; end after `idle` seconds without clients, unless `has_work`."""
        self._listener = listener
        self._opener = opener
        self._event_handler = event_handler
        self._resources = resources
        self._idle = idle
        self._memory = memory
        self._token = token
        self._has_work = has_work
        self._threads = ThreadPool(THREADS)
        self._clients: set[_Client] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle_since = time.monotonic()
        self._leaving = asyncio.Event()
        self.started = time.time()

    async def run(self, still_elected: Callable[[], bool]) -> None:
        """Serve until stopped, idle for too long, or replaced by another cortexd."""
        loop = asyncio.get_running_loop()
        # Many threads, so that sessions waiting for an unresponsive drive don't block all others.
        loop.set_default_executor(ThreadPoolExecutor(OPENINGS, "opening"))
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            # Windows has no signal handlers in an event loop.
            with suppress(NotImplementedError):
                loop.add_signal_handler(signal_number, self.leave)
        server = await asyncio.start_server(
            self._accept, sock=self._listener, limit=MAX_HELLO_BYTES
        )
        while not self._leaving.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), LOOK_SECONDS)
                break
            await loop.run_in_executor(None, self._resources.close_idle, self._memory)
            alone = not self._clients and time.monotonic() - self._idle_since
            is_over = self._idle and alone and alone > self._idle and not self._has_work()
            if not still_elected() or is_over:
                self.leave()
        server.close()
        for client in self._clients:
            client.stop_reading()
        running = [client.task for client in self._clients if client.task]
        if running:
            await asyncio.wait(running, timeout=DRAIN_SECONDS)

    def leave(self) -> None:
        """Accept no more clients, finish running requests, and end."""
        if not self._leaving.is_set():
            self._leaving.set()
            end_soon()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._handle_connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            # The folder's mode keeps other users out. The peer's user id is checked as well where
            # the system provides it.
            if sys.platform != "win32" and not is_own(writer.get_extra_info("socket")):
                raise PermissionError("the connection is another user's")
            line = await asyncio.wait_for(reader.readline(), HELLO_SECONDS)
            hello = json.loads(line)
            if not isinstance(hello, dict) or not self._is_valid(hello):
                return
            if hello.get("control") == "hook":
                await _send(writer, await self._answer_event(_read_event(hello)))
            elif "control" in hello:
                await _send(writer, await self._control(str(hello["control"])))
            else:
                await self._serve_client(_read_hello(hello), reader, writer)
        except (OSError, ValueError, TimeoutError, KeyError, TypeError) as error:
            log.info("a connection ended at its hello: %s", type(error).__name__)
        # Without the error's text, which may contain variables of the hello.
        except Exception as error:
            log.error("a connection failed: %s", _traceback_of(error))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _is_valid(self, hello: Mapping[str, object]) -> bool:
        return isinstance(hello.get("protocol"), int) and (
            not self._token or hello.get("token") == self._token
        )

    async def _control(self, wanted: str) -> dict[str, object]:
        if wanted == "stop":
            self.leave()
            return {"pid": os.getpid(), "leaving": True}
        if wanted == "ping":
            return {"pid": os.getpid()}
        # The status reads from disk, so it doesn't run on the event loop.
        return await asyncio.get_running_loop().run_in_executor(None, self.status)

    async def _answer_event(self, event: SessionEvent) -> dict[str, object]:
        """Answer a session event within its time limit; the text is empty on failure or timeout."""
        if self._leaving.is_set():
            return {"text": "", "leaving": True}
        self._idle_since = time.monotonic()
        work = asyncio.get_running_loop().run_in_executor(None, self._event_handler, event)
        # After a timeout the work continues, although no client waits for it.
        try:
            young = time.time() - self.started < FIRST_SECONDS
            timeout = (
                FIRST_SECONDS if young and event.seconds > 0 else min(event.seconds, FIRST_SECONDS)
            )
            return {"text": await asyncio.wait_for(asyncio.shield(work), timeout)}
        except TimeoutError:
            work.add_done_callback(_log_late_failure)
            return {"text": ""}
        # Without the error's text, which may contain variables of the hello.
        except Exception as error:
            log.warning("session event %s failed: %s", event.event, _traceback_of(error))
            return {"text": ""}

    def status(self) -> dict[str, object]:
        """Status of this process, its clients and its projects."""
        alone = time.monotonic() - self._idle_since
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
                    "pid": client.pid,
                    "cwd": client.cwd,
                    "arguments": list(client.arguments),
                    "seconds": round(time.time() - client.since),
                }
                for client in sorted(self._clients, key=lambda client: client.since)
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
                for project in self._resources.engines.projects()
            ],
        }

    async def _serve_client(
        self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if version_parts(hello.version) > version_parts(VERSION) or hello.protocol > PROTOCOL:
            log.info("ending, because a client has the newer version %.40r", hello.version)
            self.leave()
        if self._leaving.is_set():
            await _send(writer, {"leaving": True})
            return
        if len(self._clients) >= MAX_CLIENTS or hello.protocol < PROTOCOL:
            await _send(writer, {"refused": "cortexd can't serve this client"})
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
            session = await asyncio.get_running_loop().run_in_executor(None, self._opener, hello)
            families = session.families
            if session.log_sink is not None and hello.takes_log and session.http is None:
                session.log_sink.reach(asyncio.get_running_loop(), writer)
            await self._serve_session(session, reader, writer)
        except ClientRefused as refused:
            await _send(writer, {"messages": [refused.message], "exit": refused.exit_code})
        except CortexError as error:
            lines = [
                f"error: {error.message} [{error.code}]",
                *(f"  - {suggestion}" for suggestion in dict.fromkeys(error.suggestions)),
            ]
            await _send(writer, {"messages": lines, "exit": error.exit_code})
        finally:
            self._clients.discard(client)
            self._idle_since = time.monotonic()
            await asyncio.get_running_loop().run_in_executor(None, _close_families, families)

    async def _lines_until_leaving(
        self, reader: asyncio.StreamReader
    ) -> AsyncIterator[bytes | None]:
        """Yield a shim's lines until it ends or this cortexd leaves; the next one gets the rest."""
        async for line in split_lines(_chunks(reader)):
            if self._leaving.is_set():
                return
            yield line

    async def _serve_session(
        self, session: ClientSession, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        safe_tools = [
            tool.name
            for family in session.families
            for tool in family.tools
            if not tool.writes or tool.keyed
        ]
        repeatable = sorted({*safe_tools, *(spell(name) for name in safe_tools)})
        welcome: dict[str, object] = {
            "version": VERSION,
            "again": repeatable,
            "messages": list(session.messages),
        }
        threads = BoundedShare(self._threads, THREADS_EACH)
        if session.http is None:
            server = make_server(session.families, threads, session.identity)
            await _send(writer, welcome)
            await serve_lines(server, self._lines_until_leaving(reader), _sink(writer))
            await _send(writer, LEAVING if self._leaving.is_set() else BYE)
            return
        # Not on the event loop, because the host name may need a DNS lookup.
        with await asyncio.get_running_loop().run_in_executor(
            None, listen, session.http
        ) as listener:
            port = listener.getsockname()[1]
            messages = [*session.messages, serving(session.http, port)]
            await _send(writer, {**welcome, "messages": messages, "reads": False, "port": port})
            stop = asyncio.Event()
            watch = asyncio.get_running_loop().create_task(_stop_at_end(reader, stop))
            await serve_http_within(
                session.families, threads, listener, session.http, stop, session.identity
            )
            watch.cancel()
        await _send(writer, LEAVING if self._leaving.is_set() else BYE)


def _read_hello(hello: Mapping[str, Any]) -> Hello:
    variables = {str(name): str(value) for name, value in dict(hello["variables"]).items()}
    arguments = tuple(str(argument) for argument in hello["arguments"])
    return Hello(
        arguments,
        str(hello["cwd"]),
        variables,
        str(hello["version"]),
        int(hello["pid"]),
        int(hello["protocol"]),
        hello.get("log") is True,
    )


def _read_event(hello: Mapping[str, Any]) -> SessionEvent:
    variables = {str(name): str(value) for name, value in dict(hello["variables"]).items()}
    return SessionEvent(str(hello["event"]), str(hello["cwd"]), variables, float(hello["seconds"]))


def _log_late_failure(future: asyncio.Future[str]) -> None:
    """Retrieve a late result, so that asyncio doesn't warn about an unhandled exception."""
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("a late session event failed: %s", _traceback_of(error))


def _traceback_of(error: BaseException) -> str:
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}"


async def _send(writer: asyncio.StreamWriter, body: bytes | dict[str, object]) -> None:
    writer.write((body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n")
    with suppress(OSError):
        await writer.drain()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the shim's bytes until it closes its side."""
    with suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            yield chunk


def _sink(writer: asyncio.StreamWriter) -> Callable[[bytes], Any]:
    async def write(line: bytes) -> None:
        if writer.is_closing():
            raise BrokenPipeError("the shim is gone")
        writer.write(line + b"\n")
        await writer.drain()

    return write


async def _stop_at_end(reader: asyncio.StreamReader, stop: asyncio.Event) -> None:
    async for _ in _chunks(reader):
        pass
    stop.set()


def _close_families(families: Sequence[Family]) -> None:
    for family in families:
        try:
            family.close()
        except Exception:
            log.exception("closing family %s failed", family.name)


def end_soon() -> None:
    """Exit the process after END_SECONDS, even if a thread hangs."""
    import threading

    timer = threading.Timer(END_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
