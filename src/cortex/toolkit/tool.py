"""Definitions of tools, resources and prompts, which every transport serves.

A family module builds a `Family` around the context that it opened; transports list its tools, bind
arguments and run them. This module knows neither JSON-RPC nor HTTP nor command lines. Road not
taken: deriving a tool from a function's signature with a decorator. A pydantic model states ranges,
aliases and descriptions in one readable place, and gives both the schema and the validation.
"""

from __future__ import annotations

import difflib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema

from cortex.base.errors import CortexError, InputError, shortage_of
from cortex.base.types import Cancel
from cortex.engine.search.federated import SearchTarget

log = logging.getLogger(__name__)

# Characters of a rejected value in a message.
ECHO_CHARS = 80
PROBLEMS_SHOWN = 5


class Arguments(BaseModel):
    """Base of every tool's arguments: values aren't converted, and unknown names are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, slots=True)
class Call:
    """The request that a tool answers: cancellation, progress and facts about the client."""

    cancel: Cancel = field(default_factory=Cancel)
    report: Callable[[float, float | None, str], None] = lambda done, total, message: None
    # Metadata of the request.
    meta: Mapping[str, object] = field(default_factory=dict)
    # Name of the client.
    client: str = ""
    # Writes a line about a call of a family's tool to the log, never the call's content.
    trace: Callable[[str, str], None] | None = None

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report progress; may be called often and from any thread."""
        self.report(done, total, message)


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a tool; with `failed` the text is a rendered error, and `error` the original.

    `notes` are shown to people if the text can't contain them; `meta` has the same for programs.
    With a `fault`, the request is answered by that error instead of a result.
    """

    text: str
    structured: Mapping[str, object] | None = None
    failed: bool = False
    error: CortexError | None = None
    notes: tuple[str, ...] = ()
    meta: Mapping[str, object] | None = None
    fault: Fault | None = None
    # Number of hits of a search.
    hits: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Error that answers a request in place of a result, with a code of the family's contract."""

    number: int
    message: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A callable tool.

    `run(context, arguments, call)` may block; it runs in a thread.
    """

    family: str
    name: str
    title: str
    # Its first sentence says when to use the tool.
    description: str
    arguments: type[BaseModel]
    run: Callable[[Any, Any, Call], Answer]
    writes: bool
    idempotent: bool
    destructive: bool = False
    open_world: bool = False
    # Takes an idempotency key, so a repeated call has no second effect.
    keyed: bool = False
    output_schema: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """A text with a URI.

    `uri` is fixed, or an RFC 6570 template; its variables are passed to `read(context, variables,
    call)`.
    """

    uri: str
    name: str
    title: str
    description: str
    read: Callable[[Any, Mapping[str, str], Call], str]
    mime_type: str = "application/json"

    @property
    def template(self) -> bool:
        return "{" in self.uri


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """A placeholder in a prompt."""

    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prepared text that starts a conversation."""

    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...]
    render: Callable[[Mapping[str, str]], str]


def envelope(error: CortexError) -> str:
    """Render an error as JSON text, with all that a caller needs to continue."""
    body = {
        "code": error.code,
        "message": error.message,
        "category": error.category,
        "severity": error.severity,
        "retryable": error.retryable,
        "context": error.context,
        "suggestions": list(dict.fromkeys(error.suggestions)),
        "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return json.dumps({"error": body}, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class Family:
    """Tools, resources and prompts that belong together, and the context that they run on."""

    name: str
    # When to use which tool, in a few sentences.
    instructions: str
    context: Any
    tools: tuple[Tool, ...]
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    render_error: Callable[[CortexError], str] = envelope
    # Returns the fault for an error, or None to answer with the rendered error.
    fault: Callable[[CortexError], Fault | None] = lambda error: None
    # For the person who starts the server.
    warnings: tuple[str, ...] = ()
    close: Callable[[], None] = lambda: None
    # The family's search targets, opened for one call.
    places: Callable[[], AbstractContextManager[Sequence[SearchTarget]]] = lambda: nullcontext(())


def perform(family: Family, tool: Tool, arguments: BaseModel, call: Call) -> Answer:
    """Run a tool; every exception becomes an answer, and unexpected ones are logged."""
    started = time.perf_counter()
    answer = _run(family, tool, arguments, call)
    if call.trace is not None:
        hits = "" if answer.hits is None else f", {answer.hits} hits"
        failed = f", failed with {answer.error.code}" if answer.error else ""
        client = call.client or "a client"
        milliseconds = 1000 * (time.perf_counter() - started)
        call.trace(
            family.name, f"{client}: {spell(tool.name)}: {milliseconds:.1f} ms{hits}{failed}"
        )
    return answer


def _run(family: Family, tool: Tool, arguments: BaseModel, call: Call) -> Answer:
    try:
        return tool.run(family.context, arguments, call)
    except CortexError as error:
        return _failure(family, error)
    # A transport must answer every call.
    except Exception as error:
        return _failure(family, unforeseen(error, spell(tool.name)))


def _failure(family: Family, error: CortexError) -> Answer:
    return Answer(family.render_error(error), failed=True, error=error, fault=family.fault(error))


def unforeseen(error: Exception, where: str) -> CortexError:
    """Log an unexpected exception and return the error for the caller."""
    if shortage := shortage_of(error, where):
        log.warning("%s", shortage.message)
        return shortage
    log.error("unforeseen error in %s", where, exc_info=error)
    return CortexError(
        "INTERNAL_ERROR",
        f"{where} failed unexpectedly ({type(error).__name__})",
        context={"operation": where},
    )


def spell(name: str, *, dotted: bool = False) -> str:
    """Return a tool's name as clients see it: with `_` for dots, which many clients reject."""
    return name if dotted else name.replace(".", "_")


def list_once(families: Sequence[Family]) -> list[Family]:
    """Return the families with each tool name listed once, in the last family that has it."""
    listed: set[str] = set()
    kept: list[Family] = []
    for family in reversed(families):
        tools = tuple(tool for tool in family.tools if spell(tool.name) not in listed)
        listed |= {spell(tool.name) for tool in tools}
        kept.append(replace(family, tools=tools))
    return kept[::-1]


def find_tool(families: Sequence[Family], name: str) -> tuple[Family, Tool]:
    """Find a tool by name, in either spelling, and its family.

    Raises: InputError ARGUMENT_INVALID; its message suggests the most similar name.
    """
    tools = [(family, tool) for family in families for tool in family.tools]
    # An exact match takes precedence over one in the other spelling.
    for dotted in (True, False):
        for family, tool in tools:
            if spell(tool.name, dotted=dotted) == name:
                return family, tool
    # The spelling that every client can call.
    known = [spell(tool.name) for _, tool in tools]
    raise InputError("ARGUMENT_INVALID", f"unknown tool {_echo(name)}{_nearest(name, known)}")


def bind(tool: Tool, arguments: Mapping[str, object] | None) -> BaseModel:
    """Validate arguments with the tool's model.

    Raises: InputError ARGUMENT_INVALID; its message lists the problems.
    """
    try:
        # Via JSON, because strict mode then means the types of JSON: a list is valid for a tuple
        # and a string for an enum, but "5" isn't a number.
        return tool.arguments.model_validate_json(json.dumps(arguments or {}), strict=True)
    except ValidationError as error:
        problems = [_problem(tool, detail) for detail in error.errors(include_url=False)]
        more = (
            f" (and {len(problems) - PROBLEMS_SHOWN} more)"
            if len(problems) > PROBLEMS_SHOWN
            else ""
        )
        message = f"{spell(tool.name)}: {'; '.join(problems[:PROBLEMS_SHOWN])}{more}"
        raise InputError("ARGUMENT_INVALID", message, context={"tool": spell(tool.name)}) from None


def _problem(tool: Tool, detail: ErrorDetails) -> str:
    where = ".".join(str(part) for part in detail["loc"]) or "arguments"
    match detail["type"]:
        case "missing":
            return f"`{where}` is required"
        case "extra_forbidden":
            known = _names_beside(input_schema(tool), detail["loc"])
            return (
                f"unknown argument `{where[:ECHO_CHARS]}`{_nearest(str(detail['loc'][-1]), known)}"
            )
        case "json_invalid":
            return "the arguments hold text that is not valid Unicode; leave out lone surrogates"
        case _:
            return f"`{where[:ECHO_CHARS]}`: {detail['msg']}, got {_echo(detail['input'])}"


def _names_beside(schema: Mapping[str, Any], loc: tuple[int | str, ...]) -> list[str]:
    """Return the names that are valid where `loc` has an unknown one."""
    for part in loc[:-1]:
        schema = (
            schema.get("items", {})
            if isinstance(part, int)
            else schema.get("properties", {}).get(part, {})
        )
    return list(schema.get("properties", {}))


def _nearest(name: str, known: Mapping[str, object] | Sequence[str]) -> str:
    lowered = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name[:ECHO_CHARS].lower(), lowered, n=1, cutoff=0.6)
    if near:
        return f"; did you mean `{lowered[near[0]]}`?"
    return f"; known: {', '.join(known)}" if known else ""


def _echo(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= ECHO_CHARS else text[:ECHO_CHARS] + "…"


class _AnyNumber:
    """Annotation that gives a whole number the schema type "number"."""

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, render: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**render(schema), "type": "number"}


def _whole(value: object) -> object:
    """Convert 50.0 to 50; 50.7 and non-finite numbers are left for pydantic to reject."""
    return (
        int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**63
        else value
    )


def nearest_within(least: int, most: int) -> BeforeValidator:
    """Build a validator that clamps a number to a range."""

    def clamp(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            # pydantic rejects it.
            return value
        return int(max(least, min(most, value)))

    return BeforeValidator(clamp)


# A count with the schema type "number", because programs write 50 as well as 50.0.
Whole = Annotated[int, BeforeValidator(_whole), _AnyNumber()]
# Optional arguments that every tool with long answers adds to its contract.
Budget = Annotated[
    Whole | None,
    Field(description="Most tokens that the answer may cost (characters / 4)", ge=1, le=100_000),
]
Cursor = Annotated[
    str | None, Field(description="Where to go on, from the end of an earlier answer")
]


# JSON schema names of the range keywords that pydantic leaves in the schema of a nullable field.
_RANGES = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


def input_schema(tool: Tool) -> Mapping[str, Any]:
    """Return the JSON schema of a tool's arguments.

    It has no titles, no references, and no null for arguments that may be left out.
    """
    return schema_of(tool.arguments)


@cache
def schema_of(arguments: type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON schema of a model, in the form of `input_schema`."""
    schema = arguments.model_json_schema(by_alias=True, schema_generator=_Plain)
    inlined = _inline(schema, schema.get("$defs", {}))
    return {
        "type": "object",
        **{key: value for key, value in inlined.items() if key not in ("$defs", "description")},
    }


class _Plain(GenerateJsonSchema):
    """Schema generator without titles and nullable types; a default of None is left out."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace every `$ref` by its definition, drop model titles, and rename range keywords."""
    if isinstance(node, list):
        return [_inline(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        node = {
            **definitions[node["$ref"].rpartition("/")[2]],
            **{key: node[key] for key in node if key != "$ref"},
        }
    return {
        _RANGES.get(key, key): {name: _inline(part, definitions) for name, part in value.items()}
        if key == "properties"
        else _inline(value, definitions)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }
