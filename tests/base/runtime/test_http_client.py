"""A request ends at its deadline, and at once when its connections are closed."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from cortex.base.runtime.http_client import Closed, HttpConnections, HttpResponse, Late, NoAnswer

SECONDS = 0.3
# The most that a request with a deadline of SECONDS takes; without one it takes 10 s at least
SOON = 5.0
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"

Serve = Callable[..., str]


class Server:
    """A loopback server that handles each connection in a thread until the test is over."""

    def __init__(
        self,
        handle: Callable[[socket.socket], None],
        over: threading.Event,
        context: ssl.SSLContext | None,
    ):
        self._handle, self._over = handle, over
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._context = context
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._over.is_set():
                connection.close()
                return
            self._threads.append(
                threading.Thread(target=self._serve, args=(connection,), daemon=True)
            )
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):  # the client is gone
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            connection.recv(65536)
            self._handle(connection)
        connection.close()

    def close(self) -> None:
        self._over.set()
        socket.create_connection(self._listener.getsockname()).close()
        for thread in self._threads:
            thread.join(20)
        self._listener.close()


@pytest.fixture
def over() -> threading.Event:
    return threading.Event()


@pytest.fixture
def serve(over: threading.Event) -> Iterator[Serve]:
    servers: list[Server] = []

    def start(
        handle: Callable[[socket.socket], None], context: ssl.SSLContext | None = None
    ) -> str:
        servers.append(Server(handle, over, context))
        return servers[-1].url

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def drip(over: threading.Event) -> Callable[[socket.socket, bytes, bytes], None]:
    """`drip(connection, first, again)`: 10 s of it, or until the test is over."""

    def send(connection: socket.socket, first: bytes, again: bytes) -> None:
        connection.sendall(first)
        for _ in range(500):
            connection.sendall(again)
            if over.wait(0.02):
                return

    return send


def failure(
    connections: HttpConnections, seconds: float, content: bytes | None = None
) -> tuple[NoAnswer, float]:
    started = time.monotonic()
    with pytest.raises(NoAnswer) as caught:
        connections.ask("GET" if content is None else "POST", "/", content, seconds)
    return caught.value, time.monotonic() - started


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"", CONTINUE),
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X-Line: 1\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Line: 1\r\n"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 100000\r\n\r\n",
            b"\x1f\x8b\x08\x08" + b"x",
        ),
    ],
    ids=["interim responses", "a first line", "a head", "a body", "trailers", "a packed body"],
)
def test_dripping_answer_is_abandoned_at_the_deadline(serve, drip, first, again):
    with closing(
        HttpConnections(serve(lambda connection: drip(connection, first, again)), max_bytes=10**6)
    ) as asked:
        error, took = failure(asked, SECONDS)
    assert isinstance(error, Late) and error.slow and took < SOON
    assert str(error) == "did not answer within 0.3 s"


def test_slow_reader_is_abandoned_at_the_deadline(serve, over):
    def read_slowly(connection: socket.socket) -> None:
        while connection.recv(262_144) and not over.wait(0.01):  # 64 MB in some 3 s
            pass

    with closing(HttpConnections(serve(read_slowly), max_bytes=1_000)) as asked:
        error, took = failure(asked, SECONDS, bytes(64_000_000))
    assert isinstance(error, Late) and not error.slow and took < SOON


def test_endless_interim_responses_are_an_error(serve, over):
    def send(connection: socket.socket) -> None:
        while not over.is_set():
            connection.sendall(CONTINUE * 1_000)

    with closing(HttpConnections(serve(send), max_bytes=1_000)) as asked:
        error, _ = failure(asked, 60.0)
    assert not isinstance(error, Late) and "its head has more than 256 KB" in str(error)


def test_interim_responses_are_skipped(serve):
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
    url = serve(lambda connection: connection.sendall(CONTINUE + early * 20 + HEAD + b"\r\n{}"))
    with closing(HttpConnections(url, max_bytes=1_000)) as asked:
        assert asked.ask("GET", "/", None, 20.0) == HttpResponse(200, b"{}", 0.0)


def test_large_body_does_not_count_as_a_large_head(serve):
    body = b"x" * 3_000_000
    url = serve(
        lambda connection: connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + body
        )
    )
    with closing(HttpConnections(url, max_bytes=3_000_000)) as asked:
        assert asked.ask("GET", "/", None, 20.0).body == body


def test_deadline_applies_to_its_own_request_only(serve, drip, over):
    """It holds neither for the next request of the connection, nor for those of another thread."""
    late, arrived = threading.Event(), threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"\r\n{}")
        connection.recv(65536)
        arrived.set()
        if late.wait(20):
            connection.sendall(HEAD + b"\r\n[]")
            connection.recv(65536)
            drip(connection, HEAD, b"X-Line: 1\r\n")

    responses: list[HttpResponse] = []
    with closing(HttpConnections(serve(answer), max_bytes=1_000)) as asked:
        assert asked.ask("GET", "/", None, SECONDS * 10).body == b"{}"
        # On the same connection
        other = threading.Thread(target=lambda: responses.append(asked.ask("GET", "/", None, 20.0)))
        other.start()
        assert arrived.wait(20)
        with closing(
            HttpConnections(serve(lambda connection: drip(connection, b"", b"H")), max_bytes=1_000)
        ) as dripping:
            assert isinstance(failure(dripping, SECONDS)[0], Late)
        late.set()
        other.join(20)
        assert [response.body for response in responses] == [b"[]"]
        error, took = failure(asked, SECONDS)
        assert isinstance(error, Late) and took < SOON
        assert asked.ask("GET", "/", None, 20.0).body == b"{}"  # on a new connection


@pytest.mark.parametrize("again", [b"", b"X-Line: 1\r\n"], ids=["silent", "drips"])
def test_closing_connections_ends_a_running_request(serve, drip, over, again):
    check_closing(serve, drip, over, again, None)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate")
def test_deadlines_and_closing_work_over_tls(serve, drip, over, tmp_path, monkeypatch):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ]
    names = ["-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*make, *names, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    url = serve(lambda connection: drip(connection, HEAD, b"X-Line: 1\r\n"), context)
    with closing(HttpConnections(url, max_bytes=1_000, own_certificates=True)) as asked:
        error, took = failure(asked, SECONDS)
    assert isinstance(error, Late) and error.slow and took < SOON
    silent = serve(lambda connection: over.wait(20))  # never shakes hands
    with closing(HttpConnections(silent.replace("http:", "https:"), max_bytes=1_000)) as asked:
        error, took = failure(asked, SECONDS)
    assert isinstance(error, Late) and took < SOON
    for again in (b"", b"X-Line: 1\r\n"):
        check_closing(serve, drip, over, again, context)


def check_closing(serve, drip, over, again: bytes, context: ssl.SSLContext | None) -> None:
    arrived, errors = threading.Event(), []

    def hold(connection: socket.socket) -> None:
        arrived.set()
        drip(connection, HEAD, again) if again else over.wait(20)

    asked = HttpConnections(serve(hold, context), max_bytes=1_000, own_certificates=True)
    asking = threading.Thread(target=lambda: errors.append(failure(asked, 60.0)[0]))
    asking.start()
    assert arrived.wait(20)
    asked.close()
    asking.join(SOON)
    assert [type(error) for error in errors] == [Closed]
    assert isinstance(failure(asked, SECONDS)[0], Closed)


@pytest.mark.parametrize("how", ["refused", "never"])
@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2, and what a full queue does")
def test_unreachable_address_falls_back_to_the_next_of_its_name(serve, monkeypatch, how):
    url = serve(lambda connection: connection.sendall(HEAD + b"\r\n{}"))
    port = int(url.rpartition(":")[2])
    with ExitStack() as sockets:
        taken = sockets.enter_context(socket.socket())
        taken.bind(("127.0.0.2", port))
        if how == "never":  # its queue is full: further connections get no answer
            taken.listen(0)
            sockets.enter_context(socket.create_connection(("127.0.0.2", port)))
        addresses = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))
            for host in ("127.0.0.2", "127.0.0.1")
        ]
        look_up = socket.getaddrinfo
        names = {"core.example": lambda *_, **__: addresses}
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *more, **kw: names.get(host, look_up)(host, *more, **kw),
        )
        with closing(
            HttpConnections(f"http://core.example:{port}", "", max_bytes=1_000)
        ) as connections:
            assert connections.ask("GET", "/", None, SOON).status == 200
