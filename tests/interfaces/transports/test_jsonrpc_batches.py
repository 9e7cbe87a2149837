"""Batches of JSON-RPC messages are judged member by member."""

import json

from cortex.interfaces.transports.jsonrpc import (
    MAX_MEMBERS,
    Refusal,
    RpcBatch,
    RpcNotification,
    RpcRequest,
    parse,
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
