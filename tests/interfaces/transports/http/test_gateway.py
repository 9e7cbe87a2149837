"""Rate limits over HTTP: by address and token, bounded in memory, with a time to wait."""

import json
import sys
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cortex.interfaces.transports.http.gateway import Rates, is_loopback, network_of
from protocol import http_client
from protocol.client import FAMILY
from protocol.code_server import check_envelope

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def serving(*arguments: str):
    with http_client.serving(
        [sys.executable, str(FAMILY), "http", "0", "127.0.0.1", *arguments]
    ) as server:
        yield server


def test_rate_allows_a_minute_of_requests_at_once_and_then_evenly():
    clock = Clock()
    rates = Rates(6, clock=clock)
    assert [rates.wait("a") for _ in range(6)] == [0] * 6
    assert rates.wait("a") == pytest.approx(10)
    assert rates.wait("b") == 0
    clock.now += 4
    assert rates.wait("a") == pytest.approx(6)
    clock.now += 6
    assert rates.wait("a") == 0
    assert rates.wait("a") == pytest.approx(10)


def test_without_a_rate_nothing_is_counted():
    rates = Rates(0)
    assert all(rates.wait(number) == 0 for number in range(100))
    assert len(rates) == 0


def test_several_requests_are_counted_whole_or_not_at_all():
    rates = Rates(10, clock=Clock())
    assert rates.wait("a", 8) == 0
    assert rates.wait("a", 5) == pytest.approx(18)
    assert rates.wait("a", 2) == 0
    assert rates.wait("b", 1000) == 0  # more than there can ever be is a whole minute


def test_rates_forget_the_clients_unseen_for_longest():
    rates = Rates(1, most=10, clock=Clock())
    assert rates.wait("busy") == 0
    for number in range(1000):
        assert rates.wait(number) == 0
        assert rates.wait("busy") > 0
    assert len(rates) == 10


@given(
    some.integers(1, 50),
    some.lists(some.tuples(some.floats(0, 20), some.integers(1, 3)), max_size=200),
)
def test_no_minute_exceeds_twice_the_rate_and_the_given_wait_always_suffices(rate, steps):
    clock = Clock()
    rates = Rates(rate, clock=clock)
    taken: list[float] = []
    for seconds, requests in steps:
        clock.now += seconds
        requests = min(requests, rate)
        if wait := rates.wait("a", requests):
            clock.now += wait
            assert rates.wait("a", requests) == 0
        taken += [clock.now] * requests
        assert sum(moment > clock.now - 59.9 for moment in taken) <= 2 * rate


@pytest.mark.parametrize(
    ("client", "network"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("2001:db8::1", 5), "2001:db8::/64"),
        (("2001:db8::ffff:1", 5), "2001:db8::/64"),
        (("::ffff:10.0.0.1", 5), "10.0.0.1"),
        (("fe80::1%eth0", 5), "fe80::/64"),
        (("x" * 60_000, 5), ""),
        (None, ""),
    ],
)
def test_client_is_counted_by_ipv4_address_or_ipv6_network(client, network):
    assert network_of({"client": client}) == network


def test_too_many_requests_are_refused_on_every_path_with_the_time_to_wait():
    with serving("", "5") as server:
        assert [server.api("echo", {"text": "a"})[0] for _ in range(4)] == [200] * 4
        assert server.modern("tools/list", {})[0] == 200
        response, text = server.send("POST", b'{"text": "a"}', path="/api/echo")
        error = check_envelope(json.loads(text))
        assert (response.status, error["code"], error["retryable"]) == (429, "RATE_LIMITED", True)
        seconds = int(response.getheader("retry-after"))
        assert 1 <= seconds <= 12
        assert error["context"] == {"retry_after_seconds": seconds, "requests_per_minute": 5}
        status, body = server.modern("tools/list", {})
        assert (status, body["error"]["data"]["error"]["code"]) == (429, "RATE_LIMITED")
        assert server.send("GET", path="/api")[0].status == 429
        assert server.send("GET", path="/nowhere")[0].status == 429
        assert server.modern("tools/list", {}, origin="http://evil.example")[0] == 403
        assert server.modern("tools/list", {}, x_forwarded_for="10.9.9.9")[0] == 429


def test_refused_cross_site_requests_are_not_counted():
    with serving("", "3") as server:
        for _ in range(10):
            assert server.api("echo", {"text": "a"}, origin="http://evil.example")[0] == 403
            assert server.api("echo", {"text": "a"}, host="evil.example")[0] == 421
        assert server.api("echo", {"text": "a"})[0] == 200


def test_token_guesses_are_limited_without_locking_out_the_token():
    with serving("secret", "5") as server:
        guesses = [
            server.api("echo", {"text": "a"}, authorization=f"Bearer {number}")[0]
            for number in range(8)
        ]
        assert guesses == [401] * 5 + [429] * 3
        assert server.api("echo", {"text": "a"}, authorization="Bearer secret") == (
            200,
            {"text": "a"},
        )


def test_local_proxy_with_the_token_names_the_client(monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    with serving("secret", "2") as server:
        for client in ("10.0.0.1", "10.0.0.2", "10.9.9.9, 10.0.0.3", "10.8.8.8, 10.0.0.3"):
            answers = [
                server.api(
                    "echo", {"text": "a"}, authorization="Bearer secret", x_forwarded_for=client
                )[0]
            ]
            assert answers == [200], client
        # An address from beyond the proxy proves nothing.
        last = server.api(
            "echo",
            {"text": "a"},
            authorization="Bearer secret",
            x_forwarded_for="10.7.7.7, 10.0.0.3",
        )
        assert last[0] == 429


def test_batch_counts_as_many_requests_as_it_has():
    hello = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    with serving("", "20") as server:
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        response, _ = server.send("POST", json.dumps(opening).encode())
        session = response.getheader("mcp-session-id")
        batch = [PING | {"id": number} for number in range(15)]
        assert (
            server.send("POST", json.dumps(batch).encode(), mcp_session_id=session)[0].status == 200
        )
        assert (
            server.send("POST", json.dumps(batch).encode(), mcp_session_id=session)[0].status == 429
        )


def test_loopback_hosts_are_recognized():
    assert all(
        is_loopback(host)
        for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST")
    )
    assert not any(
        is_loopback(host) for host in ("", "0.0.0.0", "::", "localhost.evil.example", "10.0.0.1")
    )
