"""One MCP connection over lines: any source of lines, any sink for them, both protocol eras, and an orderly end.

The SDK's dispatcher does correlation, cancellation and revisions; here each request is led to the era that it speaks: the
handshake's session, the stateless envelope of 2026-07-28, or (without either, as a shell pipe sends it) the latest handshake
revision. At the end of the source, what was asked is answered first. It knows neither stdin nor sockets. Road not taken: the
SDK's own loop, which cancels what runs when the source ends and refuses requests without a handshake.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import Any

import anyio
import mcp_types as wire
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.lowlevel.server import Server
from mcp.server.runner import ServerRunner, aclose_shielded, serve_one
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from cortex.surfaces.lines import Notification, Refusal, Request, parse
from cortex.tools import unforeseen

log = logging.getLogger(__name__)

MAX_WAITING = 1000  # requests of one connection that are not answered yet; reading pauses above
DRAIN_SECONDS = 60.0  # for answers still owed when the source has ended

Sink = Callable[[bytes], Awaitable[None]]  # one line without its newline; raises OSError once the peer is gone
Params = Mapping[str, Any] | None


async def serve_lines(server: Server[Any], source: AsyncIterable[bytes | None], sink: Sink) -> None:
    """Serve one connection until the source ends or the sink breaks; None in the source is a line that was too long."""
    to_session, session_in = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    session_out, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    owed, one_at_a_time = _Owed(), anyio.Lock()

    async def send(line: bytes) -> None:
        async with one_at_a_time:
            try:
                await sink(line)
            except OSError:
                log.debug("the peer is gone")
                tasks.cancel_scope.cancel()

    with to_session, session_in, session_out, from_session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_write, from_session, send, owed)
            tasks.start_soon(_converse, server, session_in, session_out)
            await _read(source, to_session, send, owed)
            with anyio.move_on_after(DRAIN_SECONDS) as drain:
                await owed.settled()
            if drain.cancelled_caught:  # perhaps the peer doesn't read: nothing that waits for it may go on waiting
                tasks.cancel_scope.cancel()
            to_session.close()


class _Owed:
    """Counts the requests that went in and have not come out."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = anyio.Condition()

    async def add(self) -> None:
        async with self._changed:
            while self._count >= MAX_WAITING:
                await self._changed.wait()
            self._count += 1

    async def remove(self) -> None:
        async with self._changed:
            self._count -= 1
            self._changed.notify_all()

    async def settled(self) -> None:
        async with self._changed:
            while self._count > 0:
                await self._changed.wait()


async def _read(
    source: AsyncIterable[bytes | None],
    session: MemoryObjectSendStream[SessionMessage | Exception],
    send: Sink,
    owed: _Owed,
) -> None:
    """Judge every line: hand on what is a message, answer what is none."""
    async for line in source:
        match parse(line):
            case Request(id, method, params):
                await owed.add()
                request = wire.JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params=_dict(params))
                await session.send(SessionMessage(request, ServerMessageMetadata(on_request_unanswered=owed.remove)))
            case Notification(method, params):
                notification = wire.JSONRPCNotification(jsonrpc="2.0", method=method, params=_dict(params))
                await session.send(SessionMessage(notification))
            case Refusal(refusal):
                await send(refusal)
            case None:
                pass


async def _write(session: MemoryObjectReceiveStream[SessionMessage], send: Sink, owed: _Owed) -> None:
    """Send what the session says and note which request is answered by it."""
    with session:  # closed with this task: nobody shall wait to hand over what can't be sent any more
        async for message in session:
            if line := _line(message.message):
                await send(line)
            if isinstance(message.message, wire.JSONRPCResponse | wire.JSONRPCError):
                await owed.remove()


async def _converse(
    server: Server[Any],
    incoming: MemoryObjectReceiveStream[SessionMessage | Exception],
    outgoing: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Run the SDK's dispatcher, leading each request to the era that it speaks."""
    # `initialize` in line: a client may send its next request without waiting for the answer.
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
        incoming, outgoing, inline_methods=frozenset({"initialize"})
    )
    async with server.lifespan(server) as state:
        session = Connection.for_loop(dispatcher, session_id=None)
        runner = ServerRunner(server, session, state)

        async def on_request(context: DispatchContext[TransportContext], method: str, params: Params) -> dict[str, Any]:
            stateless = method != "initialize" and _has_envelope(params)
            if not stateless and (method == "initialize" or session.initialize_accepted):
                return await runner.on_request(context, method, params)
            outbound = NotifyOnlyOutbound(dispatcher)
            if stateless:
                route = classify_inbound_request({"method": method, "params": params})
                if isinstance(route, InboundLadderRejection):
                    raise MCPError(route.code, route.message, route.data)
                connection = Connection.from_envelope(
                    route.protocol_version, route.client_info, route.client_capabilities, outbound=outbound
                )
            else:
                connection = Connection.from_envelope(LATEST_HANDSHAKE_VERSION, None, None, outbound=outbound)
            return await serve_one(server, context, method, params, connection=connection, lifespan_state=state)

        try:
            await dispatcher.run(on_request, runner.on_notify)
        finally:
            await aclose_shielded(session)


def _has_envelope(params: Params) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and wire.PROTOCOL_VERSION_META_KEY in meta


def _line(message: wire.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except Exception as error:  # one answer that can't be written must not end the connection
        failure = unforeseen(error, "writing an answer")
        if isinstance(message, wire.JSONRPCNotification | wire.JSONRPCRequest):
            return b""
        reply = wire.ErrorData(code=wire.INTERNAL_ERROR, message=failure.message)
        return _line(wire.JSONRPCError(jsonrpc="2.0", id=message.id, error=reply))


def _dict(params: Params) -> dict[str, Any] | None:
    return None if params is None else dict(params)
