"""A proxy between a team member and the Core that loses, delays, doubles and reorders.

It knows of HTTP only where a message ends. The accident of a request is drawn from a seeded
generator; `heal` ends all accidents and delivers the requests that were held back.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping

# The most that anything may take, or the test fails
SECONDS = 20.0
# How long a request is held back behind another one, or before it is dropped
HELD_SECONDS = 0.08
LATE_SECONDS = 0.06
PAGE = (
    b"Content-Type: text/html\r\nContent-Length: 15\r\nConnection: close\r\n\r\n<h1>wait</h1>\r\n"
)
# Answers of a gateway and of a login page in between
GATEWAY, PORTAL = b"HTTP/1.1 502 Bad Gateway\r\n" + PAGE, b"HTTP/1.1 200 OK\r\n" + PAGE

PASS, REFUSE, HOLE, CUT, HALF, LATE, SLOW = "pass", "refuse", "hole", "cut", "half", "late", "slow"
# Delivered twice, with the first or the second answer; the answer delivered twice
TWICE, SECOND, ANSWER_TWICE = "twice", "second", "answer twice"
STRAY, BEHIND, GATE, LOGIN = "stray", "behind", "gate", "login"
# Moments of a request: see `Proxy.hooks`
BEFORE, AFTER, DELIVERED = "before", "after", "delivered"
ACCIDENTS = (
    REFUSE,
    HOLE,
    CUT,
    HALF,
    LATE,
    SLOW,
    TWICE,
    SECOND,
    ANSWER_TWICE,
    STRAY,
    BEHIND,
    GATE,
    LOGIN,
)

# The probability of each accident
AccidentRates = Mapping[str, float]


class Proxy:
    """A listening port that forwards to a server, with accidents."""

    def __init__(self, seed: object) -> None:
        self.target: tuple[str, int] = ("127.0.0.1", 0)
        self.accident_rates: AccidentRates = {}
        # REFUSE or HOLE until it is healed
        self.partition = ""
        # Called once: BEFORE the server has the request, AFTER its answer, DELIVERED the answer
        self.hooks: dict[str, Callable[[], None]] = {}
        self.accidents: Counter[str] = Counter()
        self._chance = random.Random(f"proxy {seed}")
        self._lock = threading.Lock()
        self._passed = threading.Condition()
        self._stray: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._ended = False
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def heal(self) -> None:
        """End all accidents and deliver stray requests."""
        self.accident_rates, self.partition = {}, ""
        self.hooks.clear()
        self._deliver_stray()

    def close(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(SECONDS)

    # -- a connection

    def _accept(self) -> None:
        while not self._ended:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(connection,), name="proxy connection", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(SECONDS)
        unread = b""
        with connection, contextlib.suppress(OSError):
            while True:
                request, unread = read_message(connection, unread)
                if not request or not self._pass(connection, request):
                    return

    def _pass(self, connection: socket.socket, request: bytes) -> bool:
        """Forward a request, or have its accident; returns whether the connection goes on."""
        accident = self._draw()
        with self._lock:
            self.accidents[accident] += 1
        match accident:
            case "refuse":
                return False
            case "hole":
                self._wait(HELD_SECONDS)
                return False
            case "gate" | "login":
                connection.sendall(GATEWAY if accident == GATE else PORTAL)
                return False
            case "stray":
                with self._lock:
                    self._stray.append(request)
                return False
            case "behind":
                self._wait(HELD_SECONDS)
        self._call_hook(BEFORE)
        answers = [self._forward(request) for _ in range(2 if accident in (TWICE, SECOND) else 1)]
        with self._passed:
            self._passed.notify_all()
        if self._call_hook(AFTER):  # the receiver of the answer may have been killed
            return False
        goes_on = self._answer(connection, accident, answers[accident == SECOND])
        self._call_hook(DELIVERED)
        self._deliver_stray()
        return goes_on

    def _answer(self, connection: socket.socket, accident: str, answer: bytes) -> bool:
        match accident:
            case "cut":
                return False
            case "half":
                connection.sendall(answer[: self._chance.randrange(len(answer) or 1)])
                return False
            case "answer twice":
                connection.sendall(answer + answer)
                return False
            case "late":
                self._wait(LATE_SECONDS)
            case "slow":
                part = len(answer) // 3 + 1
                for start in range(0, len(answer), part):
                    connection.sendall(answer[start : start + part])
                    self._wait(LATE_SECONDS / 4)
                return bool(answer)
        connection.sendall(answer)
        return bool(answer)

    def _draw(self) -> str:
        if self.partition:
            return self.partition
        with self._lock:
            draw = self._chance.random()
        for accident, rate in self.accident_rates.items():
            if (draw := draw - rate) < 0:
                return accident
        return PASS

    def _wait(self, seconds: float) -> None:
        """Wait until another request has passed, at most so long."""
        with self._passed:
            self._passed.wait(seconds)

    def _call_hook(self, moment: str) -> bool:
        """Call the hook of a moment, once; returns whether there was one."""
        hook = self.hooks.pop(moment, None)
        if hook is not None:
            hook()
        return hook is not None

    # -- the server's side

    def _deliver_stray(self) -> None:
        """Forward requests that their sender has given up, behind later ones, without an answer."""
        with self._lock:
            requests, self._stray = self._stray, []
        for request in requests:
            self._forward(request)

    def _forward(self, request: bytes) -> bytes:
        """Forward a request and return the answer, b"" without one."""
        try:
            with socket.create_connection(self.target, SECONDS) as server:
                server.sendall(request)
                return read_message(server, b"")[0]
        except OSError:
            return b""


def read_message(connection: socket.socket, unread: bytes) -> tuple[bytes, bytes]:
    """Read an HTTP message with a length or in chunks, and the bytes behind it; b"" at the end."""
    while b"\r\n\r\n" not in unread:
        if not (more := connection.recv(65_536)):
            return b"", b""
        unread += more
    head, _, _ = unread.partition(b"\r\n\r\n")
    length = len(head) + 4 + _length_of(head)
    chunked = b"transfer-encoding: chunked" in head.lower()
    while len(unread) < length or (chunked and not unread.endswith(b"0\r\n\r\n")):
        if not (more := connection.recv(65_536)):
            return b"", b""
        unread += more
    return (unread, b"") if chunked else (unread[:length], unread[length:])


def _length_of(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
