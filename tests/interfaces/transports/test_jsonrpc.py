"""Cutting bytes into lines and judging their envelope."""

import itertools
import json

import anyio
from hypothesis import given
from hypothesis import strategies as st

from cortex.interfaces.transports.jsonrpc import (
    MAX_MEMBERS,
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
def test_any_bytes_are_judged(line):
    assert parse(line) is None or isinstance(
        parse(line), RpcRequest | RpcNotification | Refusal | RpcBatch
    )


def test_requests_and_notifications_are_told_apart():
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


def test_an_integer_of_any_length_costs_its_message_nothing_but_itself():
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


def ping(id: object) -> dict:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def batch(*messages: object) -> RpcBatch | Refusal:
    judged = parse(json.dumps(messages).encode())
    assert isinstance(judged, RpcBatch | Refusal)
    return judged


def test_a_batch_is_judged_member_by_member():
    judged = batch(
        ping(1),
        {"jsonrpc": "2.0", "method": "m"},
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        5,
        [],
        ping(None),
    )
    assert isinstance(judged, RpcBatch)
    assert judged.members[:2] == (RpcRequest(1, "ping", None), RpcNotification("m", None))
    assert [json.loads(line)["error"]["code"] for line in judged.refusals] == [-32600] * 3
    assert judged.requests == 1


def test_an_empty_batch_and_one_of_too_many_are_refused_whole():
    assert isinstance(batch(), Refusal)
    assert isinstance(batch(*[ping(number) for number in range(MAX_MEMBERS + 1)]), Refusal)
    assert isinstance(batch(*[ping(number) for number in range(MAX_MEMBERS)]), RpcBatch)


def test_a_handshake_and_a_repeated_id_are_refused_inside_a_batch():
    judged = batch(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}, ping(2), ping("2")
    )
    assert isinstance(judged, RpcBatch)
    assert [json.loads(line)["id"] for line in judged.refusals] == [1, "2"]
