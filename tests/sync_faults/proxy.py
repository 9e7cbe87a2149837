"""What lies between a member of a team and its Core: a road on which requests and answers are lost,
late, doubled and out of order.

It knows HTTP as far as where a message ends, and what passes only as bytes. Which accident happens
to a request is drawn from a seeded die; `heal` ends all accidents, and lets what was held back
arrive.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping

SECONDS = 20.0  # that anything may take, or the test fails
# For which a request is held back behind another one, or in a hole that swallows it
HELD_SECONDS = 0.08
LATE_SECONDS = 0.06
PAGE = (
    b"Content-Type: text/html\r\nContent-Length: 15\r\nConnection: close\r\n\r\n<h1>wait</h1>\r\n"
)
# Of somebody in between
GATEWAY, PORTAL = b"HTTP/1.1 502 Bad Gateway\r\n" + PAGE, b"HTTP/1.1 200 OK\r\n" + PAGE

PASS, REFUSE, HOLE, CUT, HALF, LATE, SLOW = "pass", "refuse", "hole", "cut", "half", "late", "slow"
# Delivered twice, and which answer comes back
TWICE, SECOND, ANSWER_TWICE = "twice", "second", "answer twice"
STRAY, BEHIND, GATE, LOGIN = "stray", "behind", "gate", "login"
# Moments at which somebody may be killed: see `Proxy.at`
BEFORE, AFTER, TAKEN = "before", "after", "taken"
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

Weather = Mapping[str, float]  # accident -> how likely


class Proxy:
    """A listening port that leads to a server, with accidents."""

    def __init__(self, seed: object) -> None:
        self.target: tuple[str, int] = ("127.0.0.1", 0)
        self.weather: Weather = {}
        self.cut_off = ""  # REFUSE or HOLE: a partition, until it is healed
        self.at: dict[
            str, Callable[[], None]
        ] = {}  # done once: BEFORE the server gets it, AFTER it answered, TAKEN the answer
        self.happened: Counter[str] = Counter()
        self._chance = random.Random(f"proxy {seed}")
        self._turn = threading.Lock()
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
        """No accident from now on; what was lost on the way arrives first."""
        self.weather, self.cut_off = {}, ""
        self.at.clear()
        self._deliver_stray()

    def close(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(SECONDS)

    # -- a connection
    # --------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._ended:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(connection,), name="road", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(SECONDS)
        left = b""
        with connection, contextlib.suppress(OSError):
            while True:
                request, left = read_message(connection, left)
                if not request or not self._pass(connection, request):
                    return

    def _pass(self, connection: socket.socket, request: bytes) -> bool:
        """Let one request through, or not; gives whether the connection goes on."""
        accident = self._draw()
        with self._turn:
            self.happened[accident] += 1
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
                with self._turn:
                    self._stray.append(request)
                return False
            case "behind":
                self._wait(HELD_SECONDS)
        self._do(BEFORE)
        answers = [self._forward(request) for _ in range(2 if accident in (TWICE, SECOND) else 1)]
        with self._passed:
            self._passed.notify_all()
        if self._do(AFTER):  # whoever was to say it can't any more
            return False
        going_on = self._answer(connection, accident, answers[accident == SECOND])
        self._do(TAKEN)
        self._deliver_stray()
        return going_on

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
        if self.cut_off:
            return self.cut_off
        with self._turn:
            at = self._chance.random()
        for accident, share in self.weather.items():
            if (at := at - share) < 0:
                return accident
        return PASS

    def _wait(self, seconds: float) -> None:
        """Until another request has passed, or so long."""
        with self._passed:
            self._passed.wait(seconds)

    def _do(self, moment: str) -> bool:
        """What is to be done at a moment; gives whether there was something."""
        deed = self.at.pop(moment, None)
        if deed is not None:
            deed()
        return deed is not None

    # -- the server's side
    # ---------------------------------------------------------------------------------------------

    def _deliver_stray(self) -> None:
        """What the sender has given up arrives now, after what was sent later; nobody hears the
        answer.
        """
        with self._turn:
            some, self._stray = self._stray, []
        for request in some:
            self._forward(request)

    def _forward(self, request: bytes) -> bytes:
        """The answer of the server, b"" where it has none."""
        try:
            with socket.create_connection(self.target, SECONDS) as server:
                server.sendall(request)
                return read_message(server, b"")[0]
        except OSError:
            return b""


def read_message(connection: socket.socket, left: bytes) -> tuple[bytes, bytes]:
    """One message of HTTP with a length or in chunks, and what came behind it; b"" at the end."""
    while b"\r\n\r\n" not in left:
        if not (more := connection.recv(65_536)):
            return b"", b""
        left += more
    head, _, _ = left.partition(b"\r\n\r\n")
    length = len(head) + 4 + _length_of(head)
    chunked = b"transfer-encoding: chunked" in head.lower()
    while len(left) < length or (chunked and not left.endswith(b"0\r\n\r\n")):
        if not (more := connection.recv(65_536)):
            return b"", b""
        left += more
    return (left, b"") if chunked else (left[:length], left[length:])


def _length_of(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
