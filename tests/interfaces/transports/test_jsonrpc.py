"""Cutting bytes into lines and parsing their envelope."""

import itertools
import json

import anyio
from hypothesis import given
from hypothesis import strategies as st

from cortex.interfaces.transports.jsonrpc import (
    Refusal,
    RpcBatch,
    RpcNotification,
    RpcRequest,
    parse,
    split_lines,
)


def lines_of(chunks: list[bytes], limit: int = 100) -> list[bytes | None]:
    async def collect() -> list[bytes | None]:
        async def source():
            for chunk in chunks:
                yield chunk

        return [line async for line in split_lines(source(), limit)]

    return anyio.run(collect)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_lines_are_the_same_however_the_stream_is_cut(stream, cuts):
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    chunks = [stream[start:stop] for start, stop in itertools.pairwise(places)]
    expected = stream.split(b"\n")
    assert lines_of(chunks, 50) == [
        line if len(line) <= 50 else None for line in (expected if expected[-1] else expected[:-1])
    ]


def test_a_line_that_is_too_long_is_marked_and_the_next_is_whole():
    assert lines_of([b"x" * 60, b"x" * 60, b"\nnext\n"]) == [None, b"next"]


@given(st.binary(max_size=300))
def test_any_bytes_are_parsed_or_refused(line):
    assert parse(line) is None or isinstance(
        parse(line), RpcRequest | RpcNotification | Refusal | RpcBatch
    )


def test_requests_and_notifications_are_distinguished():
    assert parse(b'{"jsonrpc":"2.0","id":"a","method":"m"}') == RpcRequest("a", "m", None)
    assert parse(b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"m","params":{}}\r') == RpcNotification(
        "m", {}
    )


def test_nesting_is_allowed_up_to_a_hundred_levels():
    def nested(depth: int) -> bytes:
        return (
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":'
            + b"[" * depth
            + b"]" * depth
            + b"}}"
        )

    assert isinstance(parse(nested(98)), RpcRequest)
    assert isinstance(parse(nested(99)), Refusal)
    assert isinstance(
        parse(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":[' + b"[]," * 500 + b"1]}}"),
        RpcRequest,
    )


def test_overlong_integer_refuses_only_its_own_message():
    digits = b"9" * 5_000
    message = parse(b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"limit":-%s}}' % digits)
    assert (
        isinstance(message, RpcRequest)
        and message.id == 7
        and message.params == {"limit": -(10**300)}
    )
    refused = parse(b'{"jsonrpc":"2.0","id":7,"method":%s}' % digits)
    assert isinstance(refused, Refusal) and json.loads(refused.line)["id"] == 7
    refused = parse(b'{"jsonrpc":"2.0","id":%s,"method":"m"}' % digits)
    assert (
        isinstance(refused, Refusal)
        and "at most 4300 digits" in json.loads(refused.line)["error"]["message"]
    )
