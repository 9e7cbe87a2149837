"""MCP server for families: lists, calls, reads and prompts, the same for every transport.

Translation only, on the SDK's low-level server: `families` implement the tools and `toolkit.tool`
describes them. Errors take two ways. An invalid request (unknown tool, arguments outside the
schema) is a JSON-RPC error; a failure inside a tool is an answer with `isError`, in the family's
own form, unless the family's contract has a JSON-RPC error for it.

Road not taken: the SDK's MCPServer, which answers bad arguments with `isError` too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mcp_types as wire
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from cortex.base.errors import ConfigError, CortexError, FileError, InputError
from cortex.base.runtime.home import VERSION
from cortex.interfaces.transports.jsonrpc import well_formed
from cortex.interfaces.transports.mcp.uri_templates import find_resource, fixed_uri
from cortex.interfaces.transports.thread_pool import ThreadPool, progress_report
from cortex.toolkit import instructions
from cortex.toolkit.tool import (
    Call,
    Family,
    Prompt,
    Resource,
    Tool,
    bind,
    find_tool,
    input_schema,
    perform,
    spell,
    unforeseen,
)

log = logging.getLogger(__name__)

# The only revision with batches.
BATCH_VERSION = "2025-03-26"
# Characters of a client's name and version.
CLIENT_CHARACTERS = 80
# In revisions with a handshake; later ones use INVALID_PARAMS.
RESOURCE_NOT_FOUND = -32002

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Identity:
    """Name of a server and spelling of its tools; an empty version is the installed one."""

    name: str = "cortex"
    version: str = ""
    # True to list tools with the dots of their names.
    dotted: bool = False
    # The trace function of `Call`.
    trace: Callable[[str, str], None] | None = None


CORTEX = Identity()


def make_server(
    families: Sequence[Family], threads: ThreadPool, identity: Identity = CORTEX
) -> Server[Any]:
    """Build an SDK server that offers the contents of the families, in their order."""
    # The SDK warns of every odd message; a client that doesn't read our stderr would block us with
    # a full pipe.
    logging.getLogger("mcp").setLevel(logging.ERROR)
    surface = _Surface(families, threads, identity)
    resources = any(family.resources for family in families)
    prompts = any(family.prompts for family in families)
    server: Server[Any] = Server(
        well_formed(identity.name),
        version=well_formed(identity.version) or VERSION,
        title="Cortex",
        instructions=instructions.instructions([family.instructions for family in families]),
        get_tool_input_schema=surface.schema,
        on_list_tools=surface.list_tools,
        on_call_tool=surface.call_tool,
        on_list_resources=surface.list_resources if resources else None,
        on_list_resource_templates=surface.list_templates if resources else None,
        on_read_resource=surface.read_resource if resources else None,
        on_list_prompts=surface.list_prompts if prompts else None,
        on_get_prompt=surface.get_prompt if prompts else None,
    )
    # Replaces the SDK's tracing: there is no telemetry.
    server.middleware[:] = [_translate_errors]
    return server


class _Surface:
    """The callbacks of one server."""

    def __init__(self, families: Sequence[Family], threads: ThreadPool, identity: Identity) -> None:
        self._families = tuple(families)
        self._threads = threads
        self._trace = identity.trace
        everything = [resource for family in families for resource in family.resources]
        self._tools = [_tool(tool, identity.dotted) for family in families for tool in family.tools]
        self._resources = [
            _resource(resource, uri) for resource in everything if (uri := fixed_uri(resource))
        ]
        self._templates = [_template(resource) for resource in everything if resource.template]
        self._prompts = {prompt.name: prompt for family in families for prompt in family.prompts}

    def schema(self, name: str) -> Mapping[str, Any] | None:
        try:
            return input_schema(find_tool(self._families, name)[1])
        except InputError:
            return None

    async def list_tools(
        self, context: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListToolsResult:
        _first_page(params)
        return wire.ListToolsResult(tools=self._tools)

    async def call_tool(
        self, context: Context, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult:
        try:
            family, tool = find_tool(self._families, params.name)
            arguments = bind(tool, params.arguments)
        except InputError as error:
            raise MCPError(wire.INVALID_PARAMS, well_formed(error.message)) from None
        call = replace(_call(context), trace=self._trace)
        answer = await self._threads.run(partial(perform, family, tool, arguments, call), call)
        if (fault := answer.fault) is not None:
            raise MCPError(fault.number, well_formed(fault.message), _detail(answer.text))
        texts = [answer.text, *(["\n".join(answer.notes)] if answer.notes else ())]
        return wire.CallToolResult(
            content=[wire.TextContent(type="text", text=well_formed(text)) for text in texts],
            structured_content=None if answer.structured is None else dict(answer.structured),
            is_error=answer.failed,
            _meta=None if answer.meta is None else dict(answer.meta),
        )

    async def list_resources(
        self, context: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourcesResult:
        _first_page(params)
        return wire.ListResourcesResult(resources=self._resources)

    async def list_templates(
        self, context: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourceTemplatesResult:
        _first_page(params)
        return wire.ListResourceTemplatesResult(resource_templates=self._templates)

    async def read_resource(
        self, context: Context, params: wire.ReadResourceRequestParams
    ) -> wire.ReadResourceResult:
        uri = str(params.uri)
        try:
            match = find_resource(self._families, uri)
        except InputError as error:
            raise MCPError(wire.INVALID_PARAMS, well_formed(error.message), {"uri": uri}) from None
        if match is None:
            raise MCPError(
                _not_found(context), f"no resource has the address {uri[:200]!r}", {"uri": uri}
            )
        family, resource, variables = match
        call = _call(context)
        try:
            text = await self._threads.run(
                partial(resource.read, family.context, variables, call), call
            )
        except CortexError as error:
            raise _read_error(context, family, error) from None
        except Exception as error:
            raise _read_error(context, family, unforeseen(error, resource.name)) from None
        contents = wire.TextResourceContents(
            uri=uri, mime_type=resource.mime_type, text=well_formed(text)
        )
        return wire.ReadResourceResult(contents=[contents])

    async def list_prompts(
        self, context: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListPromptsResult:
        _first_page(params)
        return wire.ListPromptsResult(
            prompts=[_prompt(prompt) for prompt in self._prompts.values()]
        )

    async def get_prompt(
        self, context: Context, params: wire.GetPromptRequestParams
    ) -> wire.GetPromptResult:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            known = ", ".join(self._prompts)
            raise MCPError(
                wire.INVALID_PARAMS, f"unknown prompt {params.name[:80]!r}; known: {known}"
            )
        values = params.arguments or {}
        if unknown := sorted(set(values) - {argument.name for argument in prompt.arguments}):
            raise MCPError(
                wire.INVALID_PARAMS, f"{prompt.name}: unknown argument {unknown[0][:80]!r}"
            )
        for argument in prompt.arguments:
            if argument.required and not values.get(argument.name, "").strip():
                raise MCPError(wire.INVALID_PARAMS, f"{prompt.name}: `{argument.name}` is required")
        message = wire.PromptMessage(
            role="user",
            content=wire.TextContent(type="text", text=well_formed(prompt.render(values))),
        )
        return wire.GetPromptResult(description=prompt.description, messages=[message])


async def _translate_errors(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Explain params that don't fit a method, and hide unexpected errors."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # The SDK validates against the revision's message types: their names come first in the
        # place of the error.
        where = (
            ".".join(str(part) for part in first["loc"] if not str(part)[:1].isupper()) or "params"
        )
        raise MCPError(
            wire.INVALID_PARAMS, well_formed(f"{ctx.method}: `{where}`: {first['msg']}")[:300]
        ) from None
    except MCPError:
        raise
    except Exception as error:
        raise MCPError(wire.INTERNAL_ERROR, unforeseen(error, ctx.method).message) from None


def _call(context: Context) -> Call:
    meta = (context.params or {}).get("_meta")
    meta = meta if isinstance(meta, Mapping) else {}
    client = _client(context)
    if "progressToken" not in meta:
        return Call(meta=meta, client=client)
    return Call(report=progress_report(context.session.report_progress), meta=meta, client=client)


def _client(context: Context) -> str:
    """Return name and version of the client as one short, printable line."""
    params = context.session.client_params
    text = f"{params.client_info.name} {params.client_info.version}".strip() if params else ""
    return "".join(letter for letter in well_formed(text) if letter.isprintable())[
        :CLIENT_CHARACTERS
    ]


def _tool(tool: Tool, dotted: bool) -> wire.Tool:
    return wire.Tool(
        name=spell(tool.name, dotted=dotted),
        title=tool.title,
        description=tool.description,
        input_schema=dict(input_schema(tool)),
        output_schema=None if tool.output_schema is None else dict(tool.output_schema),
        annotations=wire.ToolAnnotations(
            title=tool.title,
            read_only_hint=not tool.writes,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def _resource(resource: Resource, uri: str) -> wire.Resource:
    return wire.Resource(
        uri=uri,
        name=resource.name,
        title=resource.title,
        description=resource.description,
        mime_type=resource.mime_type,
    )


def _template(resource: Resource) -> wire.ResourceTemplate:
    return wire.ResourceTemplate(
        uri_template=resource.uri,
        name=resource.name,
        title=resource.title,
        description=resource.description,
        mime_type=resource.mime_type,
    )


def _prompt(prompt: Prompt) -> wire.Prompt:
    arguments = [
        wire.PromptArgument(
            name=argument.name, description=argument.description, required=argument.required
        )
        for argument in prompt.arguments
    ]
    return wire.Prompt(
        name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments
    )


def _first_page(params: wire.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(
            wire.INVALID_PARAMS, "unknown cursor: every list here is one page, ask without `cursor`"
        )


def _not_found(context: Context) -> int:
    return (
        wire.INVALID_PARAMS
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS
        else RESOURCE_NOT_FOUND
    )


def _read_error(context: Context, family: Family, error: CortexError) -> MCPError:
    """Build the JSON-RPC error for a failed resource read, with the family's form as data.

    A resource has no `isError`.
    """
    match error:
        case FileError(code="FILE_NOT_FOUND"):
            code = _not_found(context)
        # An unknown workspace is a wrong parameter, too.
        case InputError() | FileError() | ConfigError():
            code = wire.INVALID_PARAMS
        case _:
            code = wire.INTERNAL_ERROR
    return MCPError(code, well_formed(error.message), _detail(family.render_error(error)))


def _detail(rendered: str) -> object:
    """A rendered error as the data of a JSON-RPC error."""
    try:
        return json.loads(well_formed(rendered))
    except ValueError:
        return well_formed(rendered)
