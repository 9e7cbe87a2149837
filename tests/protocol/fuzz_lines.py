"""Hostile JSON-RPC lines, seeded: the same seed gives the same lines.

Any server on stdio can be fed with them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence

METHODS = (
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "prompts/list",
    "prompts/get",
    "server/discover",
    "subscriptions/listen",
    "logging/setLevel",
    "completion/complete",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "rpc.discover",
    "__class__",
    "x" * 5000,
    "\u0000",
    "",
)
IDS = (
    1, 0, -1, 2**53, 10**30, 1.5, 1e300, True, False, None, "", "a", "\u0000", "x" * 10_000, [], [1], {}, {"id": 1},
    "\ud800", "☃",
)  # fmt: skip
WORDS = (
    "", " ", "a", "../../etc/passwd", "%2e%2e%2f", "\ud800", "\udfff\ud800", "\u0000", "🦀" * 50, "x" * 3000, "{{x}}",
    "' OR 1=1 --", "((((a+)+)+)+)+$", "/(.*)*$(/", "/((((a+)+)+)+)+$/", "-32602", "NaN", "\u202e", "\r\n", "null",
)  # fmt: skip
ADDRESSES = (
    "",
    "box://search/",
    "box://file/",
    "codeindex://search/",
    "codeindex://file/",
    "codeindex://workspace/",
)

ARGUMENTS = {  # of the tools that we know; the first one is required
    "echo": ("text", "howOften", "voice"),
    "count": ("to",),
    "search_code": (
        "query",
        "maxResults",
        "strategy",
        "threshold",
        "fileTypes",
        "workspace",
        "budget",
        "cursor",
    ),
    "reindex_workspace": ("path", "force", "strategy", "workspace"),
    "update_config": ("settings", "restart", "workspace"),
    "get_file_context": ("path", "lineRange", "contextLines", "workspace", "budget"),
    "find_similar_code": ("code", "language", "maxResults", "workspace", "budget", "cursor"),
}
STRAYS = ("text", "query", "path", "to", "howOften", "x")  # which most tools don't know


def hostile_lines(
    seed: int, count: int, tools: Sequence[str] = ("echo", "count"), large: int = 0
) -> Iterator[bytes]:
    """`count` lines without newlines in them; `large` of them are longer than 10 MB."""
    dice = random.Random(seed)
    makers = (
        _garbage,
        _bytes,
        _json,
        _envelope,
        _envelope,
        _request,
        _request,
        _call,
        _call,
        _batch,
        _cut,
        _deep,
    )
    oversized = set(dice.sample(range(count), min(large, count)))
    for number in range(count):
        if number in oversized:
            yield (
                b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"'
                + b"y" * 10_500_000
                + b'"}}'
            )
        else:
            yield dice.choice(makers)(dice, tools).replace(b"\n", b" ")


def _value(dice: random.Random, depth: int = 3) -> object:
    kind = dice.randrange(9 if depth else 6)
    match kind:
        case 0:
            return dice.choice(WORDS)
        case 1:
            return dice.choice((0, 1, -1, 5, 2**63, -(2**63), 10**400, 0.5, 1e308, -0.0))
        case 2:
            return dice.choice((None, True, False))
        case 3 | 4 | 5:
            return dice.choice(("echo", "count", "hi", 3, "plain"))
        case 6:
            return [_value(dice, depth - 1) for _ in range(dice.randrange(4))]
        case _:
            return {
                dice.choice((*WORDS, "_meta", "name", "uri")): _value(dice, depth - 1)
                for _ in range(3)
            }


def _dump(value: object) -> bytes:
    return json.dumps(value).encode()


def _garbage(dice: random.Random, tools: Sequence[str]) -> bytes:
    return dice.choice(
        (b"", b"   ", b"\r", b"}", b"{", b"]", b"[]", b"[[]]", b"null", b"true", b"0", b'""', b"NaN", b"Infinity",
         b"-Infinity", b"1e999", b"9" * 5000, b'{"a":}', b"\xef\xbb\xbf{}", b"Content-Length: 10", b"GET / HTTP/1.1",
         b'{"jsonrpc":"2.0","id":1,"method":"ping"}garbage', b"\x00" * 100, b"// comment", b"{'a': 1}")
    )  # fmt: skip


def _bytes(dice: random.Random, tools: Sequence[str]) -> bytes:
    return dice.randbytes(dice.randrange(1, 300))


def _json(dice: random.Random, tools: Sequence[str]) -> bytes:
    return _dump(_value(dice))


def _envelope(dice: random.Random, tools: Sequence[str]) -> bytes:
    """A message whose parts are each right, wrong or missing."""
    message: dict[str, object] = {}
    if dice.random() < 0.9:
        message["jsonrpc"] = dice.choice(("2.0", "2.0", "2.0", "1.0", 2.0, None, [], "2"))
    if dice.random() < 0.8:
        message["id"] = dice.choice(IDS)
    if dice.random() < 0.8:
        message["method"] = dice.choice((*METHODS, None, 5, [], {}))
    if dice.random() < 0.6:
        message["params"] = _value(dice)
    if dice.random() < 0.2:
        message[dice.choice(("result", "error"))] = _value(dice)
    return _dump([message] * dice.choice((1, 2)) if dice.random() < 0.1 else message)


def _request(dice: random.Random, tools: Sequence[str]) -> bytes:
    """A good envelope around params that may be anything."""
    params = dice.choice(
        (
            _value(dice),
            {
                "uri": dice.choice(ADDRESSES)
                + dice.choice(WORDS)
                + dice.choice(("", "/chunks", "?limit=x"))
            },
            {"cursor": dice.choice(WORDS)},
            {"name": dice.choice(WORDS), "arguments": _value(dice)},
            {"requestId": dice.choice(IDS), "reason": _value(dice)},
            {
                "protocolVersion": dice.choice(
                    (*WORDS, "2024-11-05", "2025-03-26", "2025-03-26", 5)
                ),
                "capabilities": _value(dice),
            },
            {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": dice.choice(
                        (*WORDS, "2026-07-28", 7, None)
                    )
                }
            },
            {"_meta": {"progressToken": _value(dice)}},
        )
    )
    return _dump(
        {"jsonrpc": "2.0", "id": dice.choice(IDS), "method": dice.choice(METHODS), "params": params}
    )


def _call(dice: random.Random, tools: Sequence[str]) -> bytes:
    """A call of a real tool with arguments that may be anything."""
    name = dice.choice(tools)
    names = (*ARGUMENTS.get(name, ()), dice.choice(STRAYS))
    arguments = {dice.choice(names): _value(dice) for _ in range(dice.randrange(3))}
    if dice.random() < 0.7:  # past the schema, into the tool
        arguments = {names[0]: dice.choice(WORDS)} | arguments
    params: dict[str, object] = {"name": name, "arguments": arguments}
    if dice.random() < 0.3:
        params["_meta"] = _value(dice)
    return _dump(
        {"jsonrpc": "2.0", "id": dice.randrange(50), "method": "tools/call", "params": params}
    )


def _batch(dice: random.Random, tools: Sequence[str]) -> bytes:
    """An array of messages, good and bad; now and then of far too many."""
    count = dice.choice((1, 2, 3, 5)) if dice.random() < 0.97 else 101
    makers = (_json, _envelope, _request, _call, _call)
    return b"[" + b",".join(dice.choice(makers)(dice, tools) for _ in range(count)) + b"]"


def _cut(dice: random.Random, tools: Sequence[str]) -> bytes:
    """A good line that was cut, doubled or has a byte changed."""
    line = bytearray(_call(dice, tools))
    at = dice.randrange(len(line))
    match dice.randrange(3):
        case 0:
            return bytes(line[:at])
        case 1:
            return bytes(line + line)
        case _:
            line[at] = dice.randrange(256)
            return bytes(line)


def _deep(dice: random.Random, tools: Sequence[str]) -> bytes:
    depth = dice.choice((50, 99, 101, 500, 5000, 100_000)) if dice.random() < 0.2 else 50
    inner = dice.choice(
        (b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth)
    )
    return dice.choice(
        (inner, b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + inner + b"}}")
    )
