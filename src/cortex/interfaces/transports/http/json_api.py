"""JSON API of the tools: `POST /api/<tool>`, `GET /api` for the list, an OpenAPI document.

Derived from the same table as MCP, with the same names, arguments and answers; resources and
prompts are MCP only. The gateway has checked Host, Origin, token, rate and size. A client that
disconnects cancels its call.

Road not taken: reads by GET with query parameters; they would be a second spelling of every
argument (lists, numbers, objects) for nothing that POST can't do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cortex.base.errors import CODES, CortexError, InputError
from cortex.base.runtime.home import VERSION
from cortex.interfaces.transports.http.gateway import API_PATH, BODY, HttpError, json_response
from cortex.interfaces.transports.http.openapi import describe, list_tools
from cortex.interfaces.transports.jsonrpc import read_object, well_formed
from cortex.interfaces.transports.mcp.server import Identity
from cortex.interfaces.transports.thread_pool import ThreadPool
from cortex.toolkit.tool import (
    Answer,
    Call,
    Family,
    Tool,
    bind,
    envelope,
    find_tool,
    perform,
    spell,
    unforeseen,
)

DOCUMENT = "openapi.json"
# Response header with the metadata of an answer, as JSON.
META = "Cortex-Meta"
MAX_META_CHARACTERS = 4_000


class Api:
    """ASGI application that serves the tools of the families below /api."""

    def __init__(
        self, families: Sequence[Family], threads: ThreadPool, identity: Identity, *, guarded: bool
    ) -> None:
        self._families = tuple(families)
        self._threads = threads
        self._trace = identity.trace
        version = identity.version or VERSION
        tools = list_tools(self._families, dotted=identity.dotted)
        about = {
            "name": identity.name,
            "version": version,
            "openapi": f"{API_PATH}/{DOCUMENT}",
            "tools": tools,
        }
        document = describe(
            self._families, version, dotted=identity.dotted, guarded=guarded, document=DOCUMENT
        )
        self._pages = {"": _dump(about), DOCUMENT: _dump(document)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = scope["path"][len(API_PATH) :].strip("/")
        try:
            response = await self._respond(scope, wanted, receive)
        except HttpError as refused:
            response = refused.response(is_api=True)
        except Exception as error:
            failure = unforeseen(error, wanted[:200])
            response = _failure(envelope(failure), failure)
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, scope: Scope, wanted: str, receive: Receive) -> Response | None:
        if wanted in self._pages:
            if scope["method"] not in ("GET", "HEAD"):
                raise HttpError(
                    405, f"request {scope['path'][:200]} with GET", {"Allow": "GET, HEAD"}
                )
            return _json(self._pages[wanted])
        try:
            family, tool = find_tool(self._families, wanted)
        except InputError as error:
            return _json(envelope(error), 404)
        if scope["method"] != "POST":
            raise HttpError(
                405,
                f"call {spell(tool.name)} with POST and its arguments as a JSON object",
                {"Allow": "POST"},
            )
        return await self._call(family, tool, scope[BODY], receive)

    async def _call(
        self, family: Family, tool: Tool, body: bytes, receive: Receive
    ) -> Response | None:
        """Call a tool; None if the client has disconnected."""
        try:
            arguments = bind(tool, _arguments(tool, body))
        except InputError as error:
            return _failure(family.render_error(error), error)
        call = Call(client="HTTP", trace=self._trace)
        answer: Answer | None = None

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            answer = await self._threads.run(partial(perform, family, tool, arguments, call), call)
            tasks.cancel_scope.cancel()
        if answer is None:
            return None
        if answer.failed:
            return _failure(answer.text, answer.error)
        meta = (
            {}
            if answer.meta is None
            else {META: json.dumps(answer.meta, default=str)[:MAX_META_CHARACTERS]}
        )
        return _json(_content(answer), headers=meta)


def _arguments(tool: Tool, body: bytes) -> Mapping[str, object]:
    try:
        return read_object(body)
    except ValueError as error:
        raise InputError(
            "ARGUMENT_INVALID", f"{spell(tool.name)}: {error}", context={"tool": spell(tool.name)}
        ) from None


def _content(answer: Answer) -> str:
    """Render an answer as a JSON object: its structure, its JSON text, or `text`."""
    return _dump(answer.structured) if answer.structured is not None else _object(answer.text)


def _object(text: str) -> str:
    try:
        if text.startswith("{"):
            read_object(text.encode("utf-8", "replace"))
            return text
    except ValueError:
        # The text only looks like an object.
        pass
    return _dump({"text": text})


def _failure(text: str, error: CortexError | None) -> Response:
    """Build the response for an error rendered by its family, with a fitting status."""
    status = CODES[error.code].api_status if error is not None else 500
    seconds = error.context.get("retry_after_seconds") if error is not None else None
    return _json(_object(text), status, {} if seconds is None else {"Retry-After": str(seconds)})


def _json(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return json_response(well_formed(text), status, headers)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
