"""`cortex mcp`: the thin front end that every agent window starts. It carries JSON-RPC lines between the client and cortexd.

Standard library only. It knows of the protocol just what it needs to survive the death of cortexd: which requests are not answered
yet, the lines that made the session (`initialize`, subscriptions), and which calls may be asked a second time. One answer per id,
always: an answer that nobody waits for is dropped. When cortexd dies three times in a minute or can't be started, a server of our
own takes its place, in a child that ends with us.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time

from cortex.daemon.rendezvous import Rendezvous, find

TYPE_CHECKING = False  # as checkers know it: loading `typing` takes longer than all else here
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Sequence

MAX_LINE_BYTES = 10 * 1024 * 1024  # longer ones are passed on without a look: cortexd refuses them
CHUNK_BYTES = 65_536
DEATHS, DEATH_SECONDS = 3, 60.0
SESSION_METHODS = ("initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
UNSAFE_METHODS = ("tools/call",)  # that may be asked twice only where cortexd says so
BYE = b'{"cortexd":"bye"}'  # cortexd has answered all that it was asked
LOST = "cortexd ended while it worked on this call, and it isn't known whether it was done"


def main(arguments: Sequence[str]) -> int:
    """Serve the client at stdin and stdout until it ends; gives the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    try:
        meeting, variables = find()
    except (ValueError, OSError) as error:
        say(f"error: {error.args[0] if isinstance(error, ValueError) else error}")
        return 1
    return Shim(meeting, list(arguments), variables).run()


def say(text: str) -> None:
    """A line for people; a client that closed stderr doesn't matter."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


class Shim:
    """One client's connection."""

    def __init__(self, meeting: Rendezvous, arguments: list[str], variables: dict[str, str]) -> None:
        self._meeting = meeting
        self._arguments = arguments
        self._variables = variables
        self._lock = threading.RLock()
        self._link: _Link | None = None
        self._open: dict[str, list[_Asked]] = {}  # by id, as JSON: 1 and "1" are two; a client may use one again
        self._session: list[_Asked] = []  # what makes the session, to be said again
        self._swallow: set[str] = set()  # ids whose next answer the client has already
        self._again: frozenset[str] = frozenset()  # tools that may be asked twice
        self._ended = False  # the client has closed its side
        self._deaths: list[float] = []
        self._reads_client = True  # false where others than the client are served

    def run(self) -> int:
        """Carry lines until the client is gone or all is answered."""
        outcome = self._connect()
        if outcome is not None:
            return outcome
        if self._reads_client:
            threading.Thread(target=self._read_client, name="stdin", daemon=True).start()
        while True:
            link = self._link
            assert link is not None
            for line, _ in _lines(link.read):
                if line == BYE or not self._deliver(line):
                    return 0
            with self._lock:
                if self._ended and not self._open:
                    return 0
                outcome = self._recover()
                if outcome is not None:
                    return outcome

    # -- to the client -------------------------------------------------------------------------------------------------

    def _deliver(self, line: bytes) -> bool:
        """Pass a line of cortexd's on, unless the client has that answer already; false once the client is gone."""
        message = _parse(line)
        answers = message if isinstance(message, list) else [message]
        ids = [_key(one["id"]) for one in answers if isinstance(one, dict) and "id" in one and "method" not in one]
        with self._lock:
            if ids and ids != ["null"]:
                if self._swallow.intersection(ids):
                    self._swallow.difference_update(ids)
                    return True
                if not any(self._close(one) for one in ids):
                    return True
        return self._write(line)

    def _close(self, key: str) -> bool:
        """Note that a request has its answer; false where nobody waits for one."""
        waiting = self._open.get(key)
        if not waiting:
            return False
        waiting.pop(0)
        if not waiting:
            del self._open[key]
        return True

    def _write(self, line: bytes) -> bool:
        try:
            _write_all(1, line + b"\n")
        except OSError:
            return False
        return True

    # -- from the client -----------------------------------------------------------------------------------------------

    def _read_client(self) -> None:
        for line, whole in _lines(lambda: os.read(0, CHUNK_BYTES)):
            message = _parse(line) if whole else None
            with self._lock:
                self._note(line, message)
                link = self._link
            # Not under the lock: who waits for cortexd to read must not keep its answers from being read. And to the link of
            # that moment: where it is gone, what is open is said again over the next one.
            _send(link, line + b"\n" if whole else line)
        with self._lock:
            self._ended = True
            if self._link is not None:
                self._link.end()
        _watch_for_nobody()

    def _note(self, line: bytes, message: object) -> None:
        """Remember what is asked, and what makes the session."""
        members = [one for one in (message if isinstance(message, list) else [message]) if isinstance(one, dict)]
        keys = [_key(one["id"]) for one in members if _wants_answer(one)]
        asked = _Asked(line, keys, members)
        for key in keys:
            self._open.setdefault(key, []).append(asked)
        for one in members:
            method = one.get("method")
            if method in SESSION_METHODS or method == "notifications/initialized":
                self._session.append(asked)
            if method == "notifications/cancelled" and isinstance(one.get("params"), dict):
                self._close(_key(one["params"].get("requestId")))  # nobody will answer that any more

    # -- cortexd -------------------------------------------------------------------------------------------------------

    def _connect(self) -> int | None:
        """Find or start cortexd and introduce ourselves; gives an exit code where that is refused."""
        for _ in range(3):  # more than once where an older cortexd makes room, or one was just about to end
            raw = self._meeting.obtain("cortex mcp")
            if raw is None:
                return self._fall_back("cortexd could not be started")
            welcome = self._introduce(raw)
            if welcome is not None and not welcome.get("leaving"):
                return self._welcomed(raw, welcome)
            raw.close()
            self._await_end()
        return self._fall_back("cortexd did not answer")

    def _introduce(self, raw: socket.socket) -> dict[str, object] | None:
        hello: dict[str, object] = {
            "arguments": self._arguments,
            "cwd": _cwd(),
            "variables": self._variables,
            "version": _version(),
            "pid": os.getpid(),
        }
        try:
            raw.settimeout(30)
            raw.sendall(self._meeting.encode(hello))
            line = b""
            while not line.endswith(b"\n"):
                part = raw.recv(1)
                if not part:
                    return None
                line += part
            raw.settimeout(None)
            welcome = json.loads(line)
        except (OSError, ValueError):
            return None
        return welcome if isinstance(welcome, dict) else None

    def _welcomed(self, raw: socket.socket, welcome: dict[str, object]) -> int | None:
        for text in _texts(welcome.get("messages")):
            say(text)
        if "exit" in welcome:
            raw.close()
            return int(str(welcome["exit"]))
        self._again = frozenset(_texts(welcome.get("again")))
        self._reads_client = welcome.get("reads") is not False
        self._link = _SocketLink(raw)
        return None

    def _await_end(self) -> None:
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline and (link := self._meeting.connect()) is not None:
            link.close()
            time.sleep(0.02)

    def _recover(self) -> int | None:
        """After the death of cortexd: connect again, say again what made the session and what may be asked twice."""
        if self._link is not None:
            self._link.close()
        now = time.monotonic()
        self._deaths = [at for at in self._deaths if now - at < DEATH_SECONDS] + [now]
        if isinstance(self._link, _ChildLink):
            say("error: the server ended unexpectedly")
            return 1
        if len(self._deaths) >= DEATHS:
            outcome = self._fall_back(f"cortexd ended {DEATHS} times within a minute")
        else:
            outcome = self._connect()
        if outcome is not None:
            return outcome
        self._say_again()
        if self._ended and self._link is not None:
            self._link.end()
        return None

    def _say_again(self) -> None:
        for asked in self._session:
            self._swallow.update(key for key in asked.keys if asked not in self._open.get(key, ()))
            _send(self._link, asked.line + b"\n")
        for asked in dict.fromkeys(one for waiting in self._open.values() for one in waiting):
            if asked in self._session:
                continue
            if asked.again or not asked.is_safe(self._again):
                self._give_up(asked)
            else:
                asked.again = True
                _send(self._link, asked.line + b"\n")

    def _give_up(self, asked: _Asked) -> None:
        for key in asked.keys:
            if asked in self._open.get(key, ()):
                self._close(key)
                self._write(_lost(key))

    def _fall_back(self, reason: str) -> int | None:
        say(f"warning: {reason}; serving in a process of its own")
        self._link = _ChildLink(self._arguments)
        self._again = frozenset()
        return None


class _Asked:
    """A line of the client's with its requests."""

    def __init__(self, line: bytes, keys: list[str], members: list[dict[str, object]]) -> None:
        self.line = line
        self.keys = keys
        self.again = False  # asked a second time already
        self._members = members if keys else []

    def is_safe(self, tools: frozenset[str]) -> bool:
        """Whether all of its requests may be asked twice: they read only, or carry a key that makes them one."""
        return all(_is_safe(member, tools) for member in self._members)


def _is_safe(member: dict[str, object], tools: frozenset[str]) -> bool:
    if member.get("method") not in UNSAFE_METHODS:
        return True
    parameters = member.get("params")
    if not isinstance(parameters, dict):
        return True  # which can only be refused
    arguments = parameters.get("arguments")
    keyed = isinstance(arguments, dict) and bool(arguments.get("idempotency_key"))
    return keyed or parameters.get("name") in tools


class _Link:
    """A way to a server."""

    read: Callable[[], bytes]
    write: Callable[[bytes], None]

    def end(self) -> None:
        """Say that nothing more will be asked."""

    def close(self) -> None:
        """Let go of it."""


class _SocketLink(_Link):
    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self.write = raw.sendall

    def read(self) -> bytes:
        try:
            return self._raw.recv(CHUNK_BYTES)
        except OSError:
            return b""

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._raw.shutdown(1)

    def close(self) -> None:
        self._raw.close()


class _ChildLink(_Link):
    """A server of our own in a child, which ends when we do: it reads from a pipe that only we hold."""

    def __init__(self, arguments: Iterable[str]) -> None:
        import subprocess

        command = [sys.executable, "-m", "cortex", "mcp", "--no-sidecar", *arguments]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._child.stdin is not None and self._child.stdout is not None
        self._in, self._out = self._child.stdin.fileno(), self._child.stdout.fileno()

    def read(self) -> bytes:
        return os.read(self._out, CHUNK_BYTES)

    def write(self, line: bytes) -> None:
        _write_all(self._in, line)

    def end(self) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()

    def close(self) -> None:
        self.end()
        self._child.wait()


def _lines(read: Callable[[], bytes]) -> Iterable[tuple[bytes, bool]]:
    """The lines that `read` gives until its end, and whether each is whole: one that is too long comes in parts."""
    parts: list[bytes] = []
    size, cut = 0, False
    while True:
        try:
            chunk = read()
        except OSError:
            chunk = b""
        if not chunk:
            break
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield (b"".join((*parts, line)), True) if not cut else (b"".join((*parts, line, b"\n")), False)
            parts, size, cut = [], 0, False
        parts.append(rest)
        size += len(rest)
        if size > MAX_LINE_BYTES:
            yield b"".join(parts), False
            parts, size, cut = [], 0, True
    if any(parts):
        yield b"".join(parts), not cut


def _parse(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _wants_answer(message: dict[str, object]) -> bool:
    id = message.get("id")
    known = isinstance(id, int | str) and not isinstance(id, bool)
    return known and "result" not in message and "error" not in message


def _send(link: _Link | None, raw: bytes) -> None:
    try:
        if link is not None:
            link.write(raw)
    except (OSError, ValueError):
        pass  # gone: the other thread notices it, too, and sees to what is open


def _key(id: object) -> str:
    return json.dumps(id)


def _lost(key: str) -> bytes:
    body = {"code": "SERVER_LOST", "message": LOST, "category": "system", "severity": "medium", "retryable": True}
    body["suggestions"] = ["Look whether it was done, then call it again."]  # type: ignore[assignment]
    result = {"content": [{"type": "text", "text": json.dumps({"error": body})}], "isError": True}
    return json.dumps({"jsonrpc": "2.0", "id": json.loads(key), "result": result}).encode()


def _write_all(descriptor: int, rest: bytes) -> None:
    view = memoryview(rest)
    while view:
        view = view[os.write(descriptor, view) :]


def _watch_for_nobody() -> None:
    """End when the client no longer listens: it can't be told anything any more."""
    if not hasattr(select, "poll"):
        return
    watch = select.poll()
    watch.register(1, 0)
    while not any(events & (select.POLLERR | select.POLLNVAL) for _, events in watch.poll()):
        time.sleep(0.05)
    os._exit(0)


def _texts(found: object) -> list[str]:
    return [str(one) for one in found] if isinstance(found, list) else []


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return os.path.abspath(os.sep)


def _version() -> str:
    from cortex.home import VERSION

    return VERSION
