"""One MCP connection over lines: any source and sink, both protocol eras, orderly shutdown.

The SDK's dispatcher does correlation, cancellation and revisions. This module routes each request
to its protocol era: the session of the handshake, the stateless envelope of 2026-07-28, or (without
either, as a shell pipe sends it) the latest handshake revision. The answers to a batch are sent
together. When the source ends, pending requests are answered first. It knows neither stdin nor
sockets.

Roads not taken: the SDK's own loop, which cancels running requests when the source ends and refuses
requests without a handshake; memory streams between lines and dispatcher, which cost a task switch
per message.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import mcp_types as wire
from anyio.abc import ObjectReceiveStream, ObjectSendStream
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

from cortex.interfaces.transports.jsonrpc import (
    NO_BATCH,
    Refusal,
    RpcBatch,
    RpcNotification,
    RpcRequest,
    array,
    parse,
)
from cortex.interfaces.transports.mcp.server import BATCH_VERSION
from cortex.toolkit.tool import unforeseen

log = logging.getLogger(__name__)

# Pending requests of one connection; reading pauses above.
MAX_WAITING = 1000
# Time for pending answers after the source has ended.
DRAIN_SECONDS = 60.0

# Writes one line, given without its newline, in the order of the calls; raises OSError once the
# peer is gone. Cancelling the wait doesn't cancel the write.
Sink = Callable[[bytes], Awaitable[None]]
Params = Mapping[str, Any] | None


async def serve_lines(server: Server[Any], source: AsyncIterable[bytes | None], sink: Sink) -> None:
    """Serve one connection until the source ends or the sink breaks.

    None in the source stands for a line that was too long.
    """
    with anyio.CancelScope() as connection:

        async def say(line: bytes) -> None:
            try:
                await sink(line)
            except OSError:
                log.debug("the peer is gone")
                connection.cancel()

        await _dispatch(server, source, _Owed(say))


@dataclass(slots=True, eq=False)
class _Reply:
    """Answer to a line, sent once all of its requests are answered."""

    waiting: int
    answers: list[bytes]
    batch: bool

    def line(self) -> bytes:
        return array(self.answers) if self.batch else self.answers[0]


class _Owed(ObjectSendStream[SessionMessage]):
    """Send stream to the peer that holds back answers until their whole line is answered.

    Everything else is sent at once.
    """

    def __init__(self, say: Sink) -> None:
        self.say = say
        # By request id; a peer may use an id several times.
        self._replies: dict[int | str, list[_Reply]] = {}
        self._count = 0
        self._fewer = anyio.Event()

    async def add(self, id: int | str, reply: _Reply) -> None:
        """Register a request; wait while too many are pending."""
        await self._below(MAX_WAITING)
        self._count += 1
        self._replies.setdefault(id, []).append(reply)

    async def settled(self) -> None:
        """Wait until no answer is pending."""
        await self._below(1)

    async def settle(self, id: int | str, reply: _Reply, answer: bytes = b"") -> None:
        """Complete a request with its answer, or with none if the peer cancelled it."""
        self._replies[id].remove(reply)
        if not self._replies[id]:
            del self._replies[id]
        reply.waiting -= 1
        if answer:
            reply.answers.append(answer)
        try:
            if not reply.waiting and reply.answers:
                await self.say(reply.line())
        finally:
            self._count -= 1
            self._fewer.set()

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        line = _encode(message)
        if (
            isinstance(message, wire.JSONRPCResponse | wire.JSONRPCError)
            and message.id in self._replies
        ):
            await self.settle(message.id, self._replies[message.id][0], line)
        elif line:
            await self.say(line)

    async def aclose(self) -> None:
        pass

    async def _below(self, limit: int) -> None:
        while self._count >= limit:
            self._fewer = anyio.Event()
            await self._fewer.wait()


class _Incoming(ObjectReceiveStream[SessionMessage | Exception]):
    """Receive stream of messages for the dispatcher."""

    def __init__(self, messages: AsyncGenerator[SessionMessage, None]) -> None:
        self._messages = messages

    async def receive(self) -> SessionMessage:
        try:
            return await anext(self._messages)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        await self._messages.aclose()


async def _messages(
    source: AsyncIterable[bytes | None], owed: _Owed, batches: Callable[[], bool]
) -> AsyncGenerator[SessionMessage, None]:
    """Parse every line: yield messages, answer invalid input; end when all is answered."""
    async for line in source:
        message = parse(line)
        if isinstance(message, RpcBatch) and not batches():
            message = NO_BATCH
        whole = (
            message
            if isinstance(message, RpcBatch)
            else RpcBatch(() if message is None else (message,))
        )
        reply = _Reply(whole.requests, whole.refusals, whole is message)
        if not reply.waiting and reply.answers:
            await owed.say(reply.line())
        for member in whole.members:
            match member:
                case RpcRequest(id, method, params):
                    await owed.add(id, reply)
                    request = wire.JSONRPCRequest(
                        jsonrpc="2.0", id=id, method=method, params=_dict(params)
                    )
                    unanswered = partial(owed.settle, id, reply)
                    yield SessionMessage(
                        request, ServerMessageMetadata(on_request_unanswered=unanswered)
                    )
                case RpcNotification(method, params):
                    yield SessionMessage(
                        wire.JSONRPCNotification(jsonrpc="2.0", method=method, params=_dict(params))
                    )
                case Refusal():
                    pass
    # The peer may not read its answers.
    with anyio.move_on_after(DRAIN_SECONDS):
        await owed.settled()


async def _dispatch(server: Server[Any], source: AsyncIterable[bytes | None], owed: _Owed) -> None:
    """Run the SDK's dispatcher and route each request to its protocol era."""
    async with server.lifespan(server) as state:
        messages = _messages(source, owed, lambda: session.protocol_version == BATCH_VERSION)
        # `initialize` in line: a client may send its next request without waiting for the answer.
        dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
            _Incoming(messages), owed, inline_methods=frozenset({"initialize"})
        )
        session = Connection.for_loop(dispatcher, session_id=None)
        runner = ServerRunner(server, session, state)

        async def on_request(
            context: DispatchContext[TransportContext], method: str, params: Params
        ) -> dict[str, Any]:
            stateless = method != "initialize" and _has_envelope(params)
            if not stateless and (method == "initialize" or session.initialize_accepted):
                return await runner.on_request(context, method, params)
            outbound = NotifyOnlyOutbound(dispatcher)
            if stateless:
                route = classify_inbound_request({"method": method, "params": params})
                if isinstance(route, InboundLadderRejection):
                    raise MCPError(route.code, route.message, route.data)
                connection = Connection.from_envelope(
                    route.protocol_version,
                    route.client_info,
                    route.client_capabilities,
                    outbound=outbound,
                )
            else:
                connection = Connection.from_envelope(
                    LATEST_HANDSHAKE_VERSION, None, None, outbound=outbound
                )
            return await serve_one(
                server, context, method, params, connection=connection, lifespan_state=state
            )

        try:
            await dispatcher.run(on_request, runner.on_notify)
        finally:
            await aclose_shielded(session)


def _has_envelope(params: Params) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and wire.PROTOCOL_VERSION_META_KEY in meta


def _encode(message: wire.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    # An answer that can't be encoded must not end the connection.
    except Exception as error:
        failure = unforeseen(error, "writing an answer")
        if isinstance(message, wire.JSONRPCNotification | wire.JSONRPCRequest):
            return b""
        reply = wire.ErrorData(code=wire.INTERNAL_ERROR, message=failure.message)
        return _encode(wire.JSONRPCError(jsonrpc="2.0", id=message.id, error=reply))


def _dict(params: Params) -> dict[str, Any] | None:
    return None if params is None else dict(params)
