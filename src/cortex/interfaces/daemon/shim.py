"""`cortex mcp`: the thin front end that every agent window starts.

It forwards JSON-RPC lines between the client and cortexd, and imports the standard library only.

To survive the death of cortexd it keeps the unanswered requests, the messages that set up the
session (`initialize`, subscriptions), and the names of tools that are safe to call twice. The
client gets exactly one answer per id: requests that restore the session have ids of the shim's own,
and their answers are dropped. A cortexd that shuts down cleanly announces that it has answered
every request it accepted, so all others can be sent to the next one. When cortexd dies three times
in a minute, doesn't answer or can't be started, the shim starts a server process of its own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time

from cortex.base.runtime.home import VERSION
from cortex.base.runtime.rendezvous import Rendezvous, find, profile_of
from cortex.interfaces.daemon.channels import (
    CHUNK_BYTES,
    Channel,
    ChildLink,
    SocketLink,
    client_lines,
    in_process,
    server_lines,
    write_all,
)

# Type checkers know the name. Importing `typing` takes longer than everything else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

# Attempts to connect: an older cortexd may make way for a newer one, or one may be about to end.
ATTEMPTS = 3
WELCOME_SECONDS = 15.0
# Number of deaths, or of ends of any kind, within DEATH_SECONDS after which cortexd is given up.
DEATHS, ENDS, DEATH_SECONDS = 3, 10, 60.0
# Time without a line, while an answer is due, after which cortexd is pinged; limit of the ping.
QUIET_SECONDS, PING_SECONDS = 20.0, 10.0
# Delay before starting cortexd, so that a newer client for which it has ended starts its own first.
GIVE_WAY_SECONDS = 0.5
SESSION_METHODS = (
    "initialize",
    "notifications/initialized",
    "logging/setLevel",
    "resources/subscribe",
)
# Methods that may be sent any number of times.
REPEATABLE_METHODS = (*SESSION_METHODS, "subscriptions/listen")
# Last line of a cortexd that has answered every request.
BYE = b'{"cortexd":"bye"}'
# Last line of a cortexd that has answered the requests it accepted; the next one gets the rest.
LEAVING = b'{"cortexd":"leaving"}'
# Only key of a line that is a log message for stderr.
LOG_LINE = "cortexd:log"
LOG_START = b'{"cortexd:log": "'
# Prefix of the ids of requests that restore the session.
RESTORE_ID = f"cortex mcp {os.urandom(8).hex()} "
LOST = "cortexd ended during this call; it may or may not have been carried out"


def main(arguments: Sequence[str]) -> int:
    """Serve the client at stdin and stdout until it ends, and return the exit code."""
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: os._exit(0))
    try:
        rendezvous, variables = find(profile_of(arguments))
    except ValueError as error:
        say(f"error: {error.args[0]}")
        return 1
    # Among others for a folder that another user made to intercept connections.
    except OSError as error:
        say(f"warning: {error}; serving without cortexd")
        return serve_alone(arguments)
    return Shim(rendezvous, list(arguments), variables).run()


def say(text: str) -> None:
    """Print a line to stderr, with control characters escaped; ignore a closed stderr."""
    try:
        sys.stderr.write(
            "".join(
                char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
            )
            + "\n"
        )
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def serve_alone(arguments: Sequence[str]) -> int:
    """Replace this process by a server that doesn't need cortexd.

    Windows has no exec: there the server is a child, and its exit code is returned.
    """
    command = in_process(arguments)
    if sys.platform != "win32":
        os.execv(command[0], command)
    import subprocess

    return subprocess.run(command, check=False).returncode


class Shim:
    """Bridge between one client and the current cortexd."""

    def __init__(
        self, rendezvous: Rendezvous, arguments: list[str], variables: dict[str, str]
    ) -> None:
        self._rendezvous = rendezvous
        self._arguments = arguments
        self._variables = variables
        # Guards all the attributes below.
        self._changed = threading.Condition()
        self._link: Channel | None = None
        # Unanswered requests by id. The id is JSON, because 1 and "1" differ; a client may reuse
        # an id.
        self._open: dict[str, list[_SentLine]] = {}
        # Messages that set up the session and are sent again to the next cortexd.
        self._session: dict[str, tuple[dict[str, object], _SentLine]] = {}
        # Lines without a request, such as notifications, that came while there was no connection.
        self._held: list[bytes] = []
        # Names of tools that may be called twice.
        self._repeatable: frozenset[str] = frozenset()
        # The client has closed its side.
        self._client_ended = False
        # cortexd has announced a clean shutdown.
        self._server_left = False
        # Recent ends of cortexd: the time, and True if it died.
        self._ends: list[tuple[float, bool]] = []
        # True once lines may have been read from the client: this process can't be replaced then.
        self._reading = False
        # False if the session is served over HTTP, so that the client's lines aren't needed.
        self._reads_client = True

    def run(self) -> int:
        """Forward lines until the client is gone or every request is answered."""
        threading.Thread(target=self._exit_when_unread, name="stdout", daemon=True).start()
        outcome = self._connect()
        if outcome is not None:
            return outcome
        if self._reads_client:
            self._reading = True
            threading.Thread(target=self._read_client, name="stdin", daemon=True).start()
        while True:
            assert self._link is not None
            if self._forward(self._link):
                return 0
            with self._changed:
                outcome = self._reconnect(self._link)
            if outcome is not None:
                return outcome

    # -- to the client

    def _forward(self, link: Channel) -> bool:
        """Forward the server's lines until it ends; true if the shim may end, too.

        It may after a BYE if the client has ended, or once the client no longer reads.
        """
        for line in server_lines(lambda: self._read_link(link)):
            if line == BYE:
                break
            if line == LEAVING:
                self._server_left = True
            elif line.startswith(LOG_START):
                say(str(json.loads(line)[LOG_LINE]))
            elif not self._deliver(line):
                return True
        else:
            return False
        return self._client_ended

    def _read_link(self, link: Channel) -> bytes:
        while not link.is_ready(QUIET_SECONDS):
            if self._open and self._is_stuck():
                say("warning: cortexd no longer answers")
                return b""
        return link.read()

    def _is_stuck(self) -> bool:
        """True if cortexd accepts connections but doesn't answer: it is stopped or hangs.

        A cortexd that is ending accepts no connections.
        """
        raw = self._rendezvous.connect()
        if raw is None:
            return False
        with raw:
            try:
                self._rendezvous.exchange(raw, {"control": "ping"}, PING_SECONDS)
            except TimeoutError:
                return True
            except (OSError, ValueError):
                # It is ending.
                pass
        return False

    def _deliver(self, line: bytes) -> bool:
        """Forward a line to the client; false once the client is gone.

        Answers to our own requests are dropped.
        """
        with self._changed:
            for member in _members(_parse(line)):
                if "id" not in member or "method" in member:
                    continue
                if str(member["id"]).startswith(RESTORE_ID):
                    return True
                self._mark_answered(_key(member["id"]))
        return self._write(line)

    def _mark_answered(self, key: str) -> None:
        """Mark a request as answered."""
        waiting = self._open.get(key)
        if waiting:
            waiting.pop(0)
            if not waiting:
                del self._open[key]

    def _write(self, line: bytes) -> bool:
        try:
            write_all(1, line + b"\n")
        except OSError:
            return False
        return True

    def _exit_when_unread(self) -> None:
        """Exit as soon as the client closes its end of stdout, even during requests."""
        if not hasattr(select, "poll"):
            return
        watch = select.poll()
        watch.register(1, 0)
        events = watch.poll()[0][1]
        if self._reads_client and events & (select.POLLERR | select.POLLHUP):
            os._exit(0)

    # -- from the client

    def _read_client(self) -> None:
        for line, whole in client_lines(lambda: os.read(0, CHUNK_BYTES)):
            message = _parse(line) if whole else None
            raw = line + b"\n" if whole else line
            with self._changed:
                link = self._record(raw, message)
                self._changed.notify()
            # Not under the lock: waiting for cortexd to read must not block reading its answers.
            # If this link is gone by now, unanswered requests are sent again over the next one.
            _send(link, raw)
        with self._changed:
            self._client_ended = True
            if self._link is not None:
                self._link.end()
            self._changed.notify()

    def _record(self, raw: bytes, message: object) -> Channel | None:
        """Record requests and session messages; return the link to send the line over."""
        members = _members(message)
        request = _SentLine(
            raw,
            [_key(member["id"]) for member in members if _wants_answer(member)],
            self._link is not None,
        )
        for key in request.keys:
            self._open.setdefault(key, []).append(request)
        if self._link is None and not request.keys:
            self._held.append(raw)
        for member in members:
            method, parameters = member.get("method"), member.get("params")
            parameters = parameters if isinstance(parameters, dict) else {}
            if method == "notifications/cancelled":
                # A cancelled request gets no answer.
                self._mark_answered(_key(parameters.get("requestId")))
            elif method == "resources/unsubscribe":
                self._session.pop(f"resources/subscribe {_key(parameters.get('uri'))}", None)
            elif method in SESSION_METHODS:
                uri = f" {_key(parameters.get('uri'))}" if method == "resources/subscribe" else ""
                self._session[f"{method}{uri}"] = (member, request)
        return self._link

    # -- cortexd

    def _connect(self) -> int | None:
        """Connect to cortexd, starting it if needed; return an exit code if it refuses us."""
        hello: dict[str, object] = {
            "arguments": self._arguments,
            "cwd": _cwd(),
            "variables": self._variables,
        }
        hello |= {"version": VERSION, "pid": os.getpid(), "log": True}
        for _ in range(ATTEMPTS):
            raw = self._rendezvous.obtain(
                "cortex mcp", patience=GIVE_WAY_SECONDS if self._server_left else 0.0
            )
            if raw is None:
                return self._fall_back("cortexd could not be started")
            try:
                welcome = self._rendezvous.exchange(raw, hello, WELCOME_SECONDS)
            except TimeoutError:
                return self._fall_back("cortexd does not answer")
            except (OSError, ValueError):
                # It was about to end, or died.
                welcome = None
            if welcome is not None and "refused" in welcome:
                return self._fall_back(str(welcome["refused"]))
            if welcome is not None and not welcome.get("leaving"):
                return self._accept_welcome(raw, welcome)
            raw.close()
            if welcome is not None:
                self._wait_for_end()
        return self._fall_back("cortexd did not answer")

    def _accept_welcome(self, raw: socket.socket, welcome: dict[str, object]) -> int | None:
        for text in _texts(welcome.get("messages")):
            say(text)
        if "exit" in welcome:
            return int(str(welcome["exit"]))
        self._repeatable = frozenset(_texts(welcome.get("again")))
        self._reads_client = welcome.get("reads") is not False
        # The system chose this port. Keep it, so that its users find the next server.
        if "port" in welcome:
            self._arguments = _keep_port(self._arguments, str(welcome["port"]))
        self._link = SocketLink(raw)
        return None

    def _wait_for_end(self) -> None:
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline and (link := self._rendezvous.connect()) is not None:
            link.close()
            time.sleep(0.02)

    def _reconnect(self, link: Channel) -> int | None:
        """After the end of a server, connect to the next one once there is something to send.

        Returns the exit code if the shim is done.
        """
        code = link.close()
        self._link = None
        if isinstance(link, ChildLink):
            if not self._client_ended:
                say("error: the server ended unexpectedly")
            self._fail_all()
            return code if self._client_ended else 1
        now = time.monotonic()
        self._ends = [end for end in self._ends if now - end[0] < DEATH_SECONDS] + [
            (now, not self._server_left)
        ]
        # After a clean shutdown, unanswered requests were never accepted.
        if self._server_left:
            for request in self._waiting():
                request.times = 0
        while self._reads_client and not (self._client_ended or self._open or self._held):
            self._changed.wait()
        if self._client_ended and not self._open:
            return 0
        if sum(died for _, died in self._ends) >= DEATHS or len(self._ends) >= ENDS:
            outcome = self._fall_back(f"cortexd ended {len(self._ends)} times within a minute")
        else:
            outcome = self._connect()
        if outcome is not None:
            self._fail_all()
            return outcome
        self._server_left = False
        self._replay()
        if self._client_ended and self._link is not None:
            self._link.end()
        return None

    def _waiting(self) -> list[_SentLine]:
        return list(
            dict.fromkeys(request for waiting in self._open.values() for request in waiting)
        )

    def _replay(self) -> None:
        """Restore the session, then repeat requests that are safe; the others fail."""
        sent: list[_SentLine] = []
        for index, (message, request) in enumerate(self._session.values()):
            # Notifications have no id.
            if "id" not in message:
                _send(self._link, json.dumps(message).encode() + b"\n")
            elif not any(request in self._open.get(key, ()) for key in request.keys):
                _send(
                    self._link,
                    json.dumps({**message, "id": f"{RESTORE_ID}{index}"}).encode() + b"\n",
                )
            # The client still waits for it: send it with its own id, in its place in the session.
            elif len(request.keys) == 1:
                _send(self._link, request.raw)
                sent.append(request)
        for request in self._waiting():
            if request in sent:
                continue
            if request.may_be_sent(self._repeatable):
                request.times += 1
                _send(self._link, request.raw)
            else:
                self._fail(request)
        held, self._held = self._held, []
        for raw in held:
            _send(self._link, raw)

    def _fail(self, request: _SentLine) -> None:
        message = _parse(request.raw)
        lost: list[object] = []
        for member in _members(message):
            key = _key(member.get("id"))
            if _wants_answer(member) and request in self._open.get(key, ()):
                self._open[key].remove(request)
                if not self._open[key]:
                    del self._open[key]
                lost.append(_lost(json.loads(key), member.get("method") == "tools/call"))
        self._write(json.dumps(lost if isinstance(message, list) else lost[0]).encode())

    def _fail_all(self) -> None:
        for request in self._waiting():
            self._fail(request)

    def _fall_back(self, reason: str) -> int | None:
        say(f"warning: {reason}; serving in a process of its own")
        if not self._reading:
            return serve_alone(self._arguments)
        self._link = ChildLink(in_process(self._arguments))
        return None


class _SentLine:
    """Line from the client with the ids of its requests."""

    def __init__(self, raw: bytes, keys: list[str], sent: bool) -> None:
        self.raw = raw
        self.keys = keys
        # Number of times it was sent.
        self.times = int(sent)

    def may_be_sent(self, tools: frozenset[str]) -> bool:
        """True if it was never sent, or was sent once and is safe to repeat.

        Safe requests only read, or have an idempotency key. Some methods may be sent any number of
        times.
        """
        if not self.times:
            return True
        members = [member for member in _members(_parse(self.raw)) if _wants_answer(member)]
        if all(member.get("method") in REPEATABLE_METHODS for member in members):
            return True
        return self.times == 1 and all(_is_safe(member, tools) for member in members)


def _is_safe(member: dict[str, object], tools: frozenset[str]) -> bool:
    parameters = member.get("params")
    if member.get("method") != "tools/call" or not isinstance(parameters, dict):
        # It only reads, or is malformed and will be rejected.
        return True
    arguments = parameters.get("arguments")
    keyed = isinstance(arguments, dict) and bool(arguments.get("idempotency_key"))
    return keyed or parameters.get("name") in tools


def _members(message: object) -> list[dict[str, object]]:
    return [
        member
        for member in (message if isinstance(message, list) else [message])
        if isinstance(member, dict)
    ]


def _parse(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _wants_answer(message: dict[str, object]) -> bool:
    """True if cortexd will answer this message with its id, if only with an error."""
    id = message.get("id")
    known = isinstance(id, int | str) and not isinstance(id, bool)
    is_answer = message.get("jsonrpc") == "2.0" and message.get("method") is None
    return known and not (is_answer and ("result" in message or "error" in message))


def _send(link: Channel | None, raw: bytes) -> None:
    try:
        if link is not None:
            link.write(raw)
    except (OSError, ValueError):
        # The link is gone. The other thread notices that as well and handles open requests.
        pass


def _key(id: object) -> str:
    """Return an id as JSON, as cortexd returns it, with lone surrogates replaced."""
    return json.dumps(id.encode("utf-8", "replace").decode() if isinstance(id, str) else id)


def _lost(id: object, call: bool) -> dict[str, object]:
    """Build the answer to a lost request: a tool error for a call, else a JSON-RPC error."""
    body: dict[str, object] = {
        "code": "SERVER_LOST",
        "message": LOST,
        "category": "network",
        "severity": "error",
    }
    body |= {
        "retryable": True,
        "context": {},
        "suggestions": ["Check whether it was done, then call it again."],
    }
    body["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if not call:
        return {
            "jsonrpc": "2.0",
            "id": id,
            "error": {"code": -32603, "message": LOST, "data": {"error": body}},
        }
    result = {"content": [{"type": "text", "text": json.dumps({"error": body})}], "isError": True}
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _keep_port(arguments: Sequence[str], port: str) -> list[str]:
    """Return the command line with this port in place of port 0."""
    words = list(arguments)
    for index, word in enumerate(arguments):
        if word.endswith(":0") and (
            word.startswith("--http=") or arguments[index - 1 : index] == ["--http"]
        ):
            words[index] = f"{word[:-1]}{port}"
    return words


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _cwd() -> str:
    try:
        return os.getcwd()
    # The folder was removed.
    except OSError:
        return os.path.abspath(os.sep)
