"""JSON-RPC messages from bytes: cut a stream into bounded lines and check each envelope.

Any input becomes a message of known shape, a batch, a refusal to send back, or nothing. This module
doesn't know the source of the bytes, and of MCP only that `initialize` stands alone.

Road not taken: the SDK's own reader, which holds a line of any length in memory and drops a bad one
without an answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_LINE_BYTES = 10 * 1024 * 1024
# Levels of nested arrays and objects.
MAX_DEPTH = 100
MAX_METHOD_CHARS = 200
# Messages of a batch.
MAX_MEMBERS = 100
# Digits of an integer. Python's own limit, since parsing takes quadratic time.
MAX_DIGITS = 4_300
# Stands for an integer with more digits; a float can still hold it.
TOO_LARGE = 10**300

_HALF = re.compile("[\ud800-\udfff]")
# An escape that may be half of a surrogate pair.
_SURROGATE = re.compile(rb"\\u[dD]")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """A message that expects an answer."""

    id: int | str
    method: str
    params: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RpcNotification:
    """A message that expects no answer."""

    method: str
    params: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that can't be processed; `line` is the error to send back."""

    line: bytes


Message = RpcRequest | RpcNotification | Refusal


@dataclass(frozen=True, slots=True)
class RpcBatch:
    """Several messages in one array, without responses that match no request."""

    members: tuple[Message, ...]

    @property
    def requests(self) -> int:
        """The number of answers that it expects."""
        return sum(isinstance(member, RpcRequest) for member in self.members)

    @property
    def refusals(self) -> list[bytes]:
        """The errors to send back for invalid members."""
        return [member.line for member in self.members if isinstance(member, Refusal)]


# None where there is nothing to do: a blank line, or a response that matches no request.
Incoming = Message | RpcBatch | None


async def split_lines(
    chunks: AsyncIterable[bytes], limit: int = MAX_LINE_BYTES
) -> AsyncIterator[bytes | None]:
    """Yield the lines of a stream; None stands for a line longer than `limit`.

    The last line may come without its newline.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            yield b"".join((*parts, piece)) if size + len(piece) <= limit else None
            parts, size = [], 0
        size += len(rest)
        # Over the limit only the size goes on counting: the rest of such a line is never held.
        parts = [*parts, rest] if size <= limit else []
    if size:
        yield b"".join(parts) if size <= limit else None


def parse(line: bytes | None) -> Incoming:
    """Parse a line into a message, or into the refusal to send back."""
    if line is None:
        return _refuse(
            None, INVALID_REQUEST, f"the line is longer than {MAX_LINE_BYTES} bytes and was skipped"
        )
    if not line.strip():
        return None
    try:
        message = _decode(line)
    except (ValueError, RecursionError) as error:
        return _refuse(None, PARSE_ERROR, f"not a line of JSON: {_brief(error)}")
    if _too_deep(line, message):
        return _refuse(None, INVALID_REQUEST, f"nested deeper than {MAX_DEPTH} levels")
    return _parse_batch(message) if isinstance(message, list) else _parse_envelope(message)


def read_object(body: bytes, *, halves: bool = True) -> Mapping[str, Any]:
    """Parse a body that has to be a JSON object.

    Without `halves` it may have no lone surrogates.

    Raises: ValueError with the reason.
    """
    try:
        value = _decode(body, halves=halves)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {_brief(error)}") from None
    if _too_deep(body, value):
        raise ValueError(f"the body is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(value, dict):
        raise ValueError("the body must be a JSON object")
    return value


def well_formed(text: str) -> str:
    """The text without lone surrogates (from file names in odd encodings), which can't be sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def array(answers: Sequence[bytes]) -> bytes:
    """Join the answers to a batch into one array."""
    return b"[" + b",".join(answers) + b"]"


def without_surrogates(body: bytes) -> bytes:
    """Return a body that `parse` accepted, without lone surrogates."""
    return json.dumps(_decode(body)).encode() if _SURROGATE.search(body) else body


def _parse_batch(messages: list[Any]) -> RpcBatch | Refusal:
    if not messages:
        return _refuse(None, INVALID_REQUEST, "the batch is empty")
    if len(messages) > MAX_MEMBERS:
        return _refuse(
            None,
            INVALID_REQUEST,
            f"a batch holds {MAX_MEMBERS} messages at most, not {len(messages)}",
        )
    members: list[Message] = []
    # As text, because some clients take 1 and "1" for the same id.
    ids: set[str] = set()
    for message in messages:
        member = _parse_envelope(message)
        if isinstance(member, RpcRequest):
            if member.method == "initialize":
                member = _refuse(
                    member.id, INVALID_REQUEST, "`initialize` must not be part of a batch"
                )
            elif str(member.id) in ids:
                member = _refuse(
                    member.id, INVALID_REQUEST, "another request of the batch has the same `id`"
                )
            else:
                ids.add(str(member.id))
        if member is not None:
            members.append(member)
    return RpcBatch(tuple(members))


def _parse_envelope(message: object) -> Message | None:
    if not isinstance(message, dict):
        return _refuse(None, INVALID_REQUEST, "a message is a JSON object")
    id = message.get("id")
    known = id if isinstance(id, int | str) and not isinstance(id, bool | _TooLong) else None
    if message.get("jsonrpc") != "2.0":
        return _refuse(known, INVALID_REQUEST, '`jsonrpc` must be "2.0"')
    method, params = message.get("method"), message.get("params")
    if method is None and ("result" in message or "error" in message):
        return None
    if not isinstance(method, str) or not 0 < len(method) <= MAX_METHOD_CHARS:
        return _refuse(
            known,
            INVALID_REQUEST,
            f"`method` must be a string of 1 to {MAX_METHOD_CHARS} characters",
        )
    if "id" not in message:
        return (
            RpcNotification(method, params) if params is None or isinstance(params, dict) else None
        )
    if known is None:
        return _refuse(
            None,
            INVALID_REQUEST,
            f"`id` must be a string or a whole number of at most {MAX_DIGITS} digits",
        )
    if params is not None and not isinstance(params, dict):
        return _refuse(known, INVALID_PARAMS, "`params` must be an object")
    return RpcRequest(known, method, params)


def _decode(line: bytes, *, halves: bool = True) -> Any:
    # utf-8-sig: a Windows shell may put a byte order mark in front of what it pipes.
    text = line.decode("utf-8-sig")
    message = json.loads(
        text, parse_constant=_reject_constant, parse_float=_parse_float, parse_int=_parse_int
    )
    if _SURROGATE.search(line):
        if not halves and _HALF.search(json.dumps(message, ensure_ascii=False)):
            raise ValueError(
                "a text holds half of a character (a lone surrogate), which is no text"
            )
        # Half of a surrogate pair, as clients make by cutting a text inside an emoji, has no UTF-8:
        # it becomes "?".
        message = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
    return message


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


class _TooLong(int):
    """An integer with too many digits: larger than any allowed value."""


def _parse_int(digits: str) -> int:
    if len(digits) <= MAX_DIGITS:
        return int(digits)
    return _TooLong(-TOO_LARGE if digits.startswith("-") else TOO_LARGE)


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _too_deep(line: bytes, message: object) -> bool:
    """True for nesting deeper than MAX_DEPTH; counted only if there are enough brackets."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    level: list[object] = [message]
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        inner: list[object] = []
        for node in level:
            if isinstance(node, dict):
                inner.extend(node.values())
            elif isinstance(node, list):
                inner.extend(node)
        level = [node for node in inner if isinstance(node, dict | list)]
    return bool(level)


def _refuse(id: int | str | None, code: int, message: str) -> Refusal:
    body = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
    return Refusal(json.dumps(body).encode())


NO_BATCH = _refuse(
    None,
    INVALID_REQUEST,
    "batches are for sessions of revision 2025-03-26 alone: send one message at a time",
)


def _brief(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start}"
    return str(error)[:200]
