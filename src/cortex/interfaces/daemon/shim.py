"""`cortex mcp`: the thin front end that every agent window starts.

It carries JSON-RPC lines between the client and cortexd.

Standard library only. It knows of the protocol just what it needs to survive the death of cortexd:
which requests are not answered yet, the messages that made the session (`initialize`,
subscriptions), and which calls may be asked a second time. One answer per id, always: what is said
again for the session's sake has ids of our own, and the answers to those are dropped. A cortexd
that goes in peace says that it has answered all that it took, so that everything else can be asked
anew. When cortexd dies three times in a minute, doesn't answer or can't be started, a server of our
own takes its place.
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

TYPE_CHECKING = False  # as checkers know it: loading `typing` takes longer than all else here
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

ATTEMPTS = 3  # to be welcomed, where an older cortexd makes room or one was just about to end
WELCOME_SECONDS = 15.0
# So many deaths, or ends of any kind, within that time are too many
DEATHS, ENDS, DEATH_SECONDS = 3, 10, 60.0
# Without a word while an answer is due; then for a sign of life
QUIET_SECONDS, PING_SECONDS = 20.0, 10.0
ROOM_SECONDS = 0.5  # for whoever a cortexd made room for to be the first
SESSION_METHODS = (
    "initialize",
    "notifications/initialized",
    "logging/setLevel",
    "resources/subscribe",
)
ENDLESS_METHODS = (*SESSION_METHODS, "subscriptions/listen")  # asked as often as it takes
BYE = b'{"cortexd":"bye"}'  # cortexd has answered all that it was asked
# It has answered all that it took, and the rest is for the next one
LEAVING = b'{"cortexd":"leaving"}'
LOG_LINE = "cortexd:log"  # the one member of a line that is for people, on stderr
LOG_START = b'{"cortexd:log": "'
# How the ids begin with which the session is made once more
AGAIN = f"cortex mcp {os.urandom(8).hex()} "
LOST = "cortexd ended while it worked on this, and it isn't known whether it was done"


def main(arguments: Sequence[str]) -> int:
    """Serve the client at stdin and stdout until it ends; gives the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    try:
        meeting, variables = find(profile_of(arguments))
    except ValueError as error:
        say(f"error: {error.args[0]}")
        return 1
    except OSError as error:  # also a folder that somebody else has made to catch us
        say(f"warning: {error}; serving without cortexd")
        return alone(arguments)
    return Shim(meeting, list(arguments), variables).run()


def say(text: str) -> None:
    """A line for people, without what a terminal would obey; a client that closed stderr doesn't
    matter.
    """
    try:
        sys.stderr.write(
            "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)
            + "\n"
        )
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def alone(arguments: Sequence[str]) -> int:
    """Become a server that doesn't need cortexd; only on Windows, which can't do that, there is an
    exit code to give.
    """
    command = in_process(arguments)
    if sys.platform != "win32":
        os.execv(command[0], command)
    import subprocess

    return subprocess.run(command, check=False).returncode


class Shim:
    """One client's connection."""

    def __init__(
        self, meeting: Rendezvous, arguments: list[str], variables: dict[str, str]
    ) -> None:
        self._meeting = meeting
        self._arguments = arguments
        self._variables = variables
        self._changed = threading.Condition()  # guards all that follows
        self._link: Channel | None = None
        # By id, as JSON: 1 and "1" are two; a client may use one again
        self._open: dict[str, list[_Asked]] = {}
        # What makes the session, to be said again
        self._session: dict[str, tuple[dict[str, object], _Asked]] = {}
        self._held: list[bytes] = []  # what came while there was no link and isn't a request
        self._again: frozenset[str] = frozenset()  # tools that may be asked twice
        self._ended = False  # the client has closed its side
        self._left = False  # cortexd has said that it goes
        # Of cortexds lately, and whether each was a death
        self._ends: list[tuple[float, bool]] = []
        self._reading = False  # something may have been taken from the client
        self._reads_client = True  # false where others than the client are served

    def run(self) -> int:
        """Carry lines until the client is gone or all is answered."""
        threading.Thread(target=self._watch_for_nobody, name="stdout", daemon=True).start()
        outcome = self._connect()
        if outcome is not None:
            return outcome
        if self._reads_client:
            self._reading = True
            threading.Thread(target=self._read_client, name="stdin", daemon=True).start()
        while True:
            assert self._link is not None
            if self._carry(self._link):
                return 0
            with self._changed:
                outcome = self._go_on(self._link)
            if outcome is not None:
                return outcome

    # -- to the client
    # -------------------------------------------------------------------------------------------------

    def _carry(self, link: Channel) -> bool:
        """Pass on what the server says until it ends; true where that was all, or nobody listens
        any more.
        """
        for line in server_lines(lambda: self._hear(link)):
            if line == BYE:
                break
            if line == LEAVING:
                self._left = True
            elif line.startswith(LOG_START):
                say(str(json.loads(line)[LOG_LINE]))
            elif not self._deliver(line):
                return True
        else:
            return False
        return self._ended

    def _hear(self, link: Channel) -> bytes:
        while not link.is_ready(QUIET_SECONDS):
            if self._open and self._is_stuck():
                say("warning: cortexd no longer answers")
                return b""
        return link.read()

    def _is_stuck(self) -> bool:
        """Whether somebody listens who says nothing: stopped, or hanging.

        One that is ending takes no more calls at all.
        """
        raw = self._meeting.connect()
        if raw is None:
            return False
        with raw:
            try:
                self._meeting.exchange(raw, {"control": "ping"}, PING_SECONDS)
            except TimeoutError:
                return True
            except (OSError, ValueError):
                pass  # it ends
        return False

    def _deliver(self, line: bytes) -> bool:
        """Pass a line of the server's on, unless only we have asked; false once the client is gone."""
        with self._changed:
            for member in _members(_parse(line)):
                if "id" not in member or "method" in member:
                    continue
                if str(member["id"]).startswith(AGAIN):
                    return True
                self._close(_key(member["id"]))
        return self._write(line)

    def _close(self, key: str) -> None:
        """Note that a request has its answer."""
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

    def _watch_for_nobody(self) -> None:
        """End when the client no longer listens, whatever is under way: it can't be told anything
        any more.
        """
        if not hasattr(select, "poll"):
            return
        watch = select.poll()
        watch.register(1, 0)
        events = watch.poll()[0][1]
        if self._reads_client and events & (select.POLLERR | select.POLLHUP):
            os._exit(0)

    # -- from the client
    # -----------------------------------------------------------------------------------------------

    def _read_client(self) -> None:
        for line, whole in client_lines(lambda: os.read(0, CHUNK_BYTES)):
            message = _parse(line) if whole else None
            raw = line + b"\n" if whole else line
            with self._changed:
                link = self._note(raw, message)
                self._changed.notify()
            # Not under the lock: who waits for cortexd to read must not keep its answers from being
            # read. And to the link of that moment: where it is gone, what is open is said again
            # over the next one.
            _send(link, raw)
        with self._changed:
            self._ended = True
            if self._link is not None:
                self._link.end()
            self._changed.notify()

    def _note(self, raw: bytes, message: object) -> Channel | None:
        """Remember what is asked, and what makes the session; gives the link to send it over."""
        members = _members(message)
        asked = _Asked(
            raw, [_key(one["id"]) for one in members if _wants_answer(one)], self._link is not None
        )
        for key in asked.keys:
            self._open.setdefault(key, []).append(asked)
        if self._link is None and not asked.keys:
            self._held.append(raw)
        for member in members:
            method, parameters = member.get("method"), member.get("params")
            parameters = parameters if isinstance(parameters, dict) else {}
            if method == "notifications/cancelled":
                self._close(_key(parameters.get("requestId")))  # nobody will answer that any more
            elif method == "resources/unsubscribe":
                self._session.pop(f"resources/subscribe {_key(parameters.get('uri'))}", None)
            elif method in SESSION_METHODS:
                place = f" {_key(parameters.get('uri'))}" if method == "resources/subscribe" else ""
                self._session[f"{method}{place}"] = (member, asked)
        return self._link

    # -- cortexd
    # -------------------------------------------------------------------------------------------------------

    def _connect(self) -> int | None:
        """Find or start cortexd and introduce ourselves; gives an exit code where that is refused."""
        hello: dict[str, object] = {
            "arguments": self._arguments,
            "cwd": _cwd(),
            "variables": self._variables,
        }
        hello |= {"version": VERSION, "pid": os.getpid(), "log": True}
        for _ in range(ATTEMPTS):
            raw = self._meeting.obtain("cortex mcp", patience=ROOM_SECONDS if self._left else 0.0)
            if raw is None:
                return self._fall_back("cortexd could not be started")
            try:
                welcome = self._meeting.exchange(raw, hello, WELCOME_SECONDS)
            except TimeoutError:
                return self._fall_back("cortexd does not answer")
            except (OSError, ValueError):
                welcome = None  # it was about to end, or died
            if welcome is not None and "refused" in welcome:
                return self._fall_back(str(welcome["refused"]))
            if welcome is not None and not welcome.get("leaving"):
                return self._welcomed(raw, welcome)
            raw.close()
            if welcome is not None:
                self._await_end()
        return self._fall_back("cortexd did not answer")

    def _welcomed(self, raw: socket.socket, welcome: dict[str, object]) -> int | None:
        for text in _texts(welcome.get("messages")):
            say(text)
        if "exit" in welcome:
            return int(str(welcome["exit"]))
        self._again = frozenset(_texts(welcome.get("again")))
        self._reads_client = welcome.get("reads") is not False
        # Any port was asked for: those who use it find the next server there, too
        if "port" in welcome:
            self._arguments = _keep_port(self._arguments, str(welcome["port"]))
        self._link = SocketLink(raw)
        return None

    def _await_end(self) -> None:
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline and (link := self._meeting.connect()) is not None:
            link.close()
            time.sleep(0.02)

    def _go_on(self, link: Channel) -> int | None:
        """After the end of a server: find the next one once there is something to ask; gives the
        exit code where all is done.
        """
        code = link.close()
        self._link = None
        if isinstance(link, ChildLink):
            if not self._ended:
                say("error: the server ended unexpectedly")
            self._give_all_up()
            return code if self._ended else 1
        now = time.monotonic()
        self._ends = [end for end in self._ends if now - end[0] < DEATH_SECONDS] + [
            (now, not self._left)
        ]
        if self._left:  # in peace: what isn't answered was never taken
            for asked in self._waiting():
                asked.times = 0
        while self._reads_client and not (self._ended or self._open or self._held):
            self._changed.wait()
        if self._ended and not self._open:
            return 0
        if sum(died for _, died in self._ends) >= DEATHS or len(self._ends) >= ENDS:
            outcome = self._fall_back(f"cortexd ended {len(self._ends)} times within a minute")
        else:
            outcome = self._connect()
        if outcome is not None:
            self._give_all_up()
            return outcome
        self._left = False
        self._say_again()
        if self._ended and self._link is not None:
            self._link.end()
        return None

    def _waiting(self) -> list[_Asked]:
        return list(dict.fromkeys(one for waiting in self._open.values() for one in waiting))

    def _say_again(self) -> None:
        """Make the session once more, then ask what may be asked; the rest is lost."""
        said: list[_Asked] = []
        for number, (message, asked) in enumerate(self._session.values()):
            if "id" not in message:  # a notification
                _send(self._link, json.dumps(message).encode() + b"\n")
            elif not any(asked in self._open.get(key, ()) for key in asked.keys):
                _send(
                    self._link, json.dumps({**message, "id": f"{AGAIN}{number}"}).encode() + b"\n"
                )
            # The client waits for it: in its place among what makes the session
            elif len(asked.keys) == 1:
                _send(self._link, asked.raw)
                said.append(asked)
        for asked in self._waiting():
            if asked in said:
                continue
            if asked.may_be_asked(self._again):
                asked.times += 1
                _send(self._link, asked.raw)
            else:
                self._give_up(asked)
        held, self._held = self._held, []
        for raw in held:
            _send(self._link, raw)

    def _give_up(self, asked: _Asked) -> None:
        message = _parse(asked.raw)
        lost: list[object] = []
        for member in _members(message):
            key = _key(member.get("id"))
            if _wants_answer(member) and asked in self._open.get(key, ()):
                self._open[key].remove(asked)
                if not self._open[key]:
                    del self._open[key]
                lost.append(_lost(json.loads(key), member.get("method") == "tools/call"))
        self._write(json.dumps(lost if isinstance(message, list) else lost[0]).encode())

    def _give_all_up(self) -> None:
        for asked in self._waiting():
            self._give_up(asked)

    def _fall_back(self, reason: str) -> int | None:
        say(f"warning: {reason}; serving in a process of its own")
        if not self._reading:
            return alone(self._arguments)
        self._link = ChildLink(in_process(self._arguments))
        return None


class _Asked:
    """A line of the client's with its requests."""

    def __init__(self, raw: bytes, keys: list[str], sent: bool) -> None:
        self.raw = raw
        self.keys = keys
        self.times = int(sent)  # that it was asked

    def may_be_asked(self, tools: frozenset[str]) -> bool:
        """Whether it may be asked (again): never a third time, and a second time what reads only or
        has a key that makes it one.
        """
        if not self.times:
            return True
        members = [member for member in _members(_parse(self.raw)) if _wants_answer(member)]
        if all(one.get("method") in ENDLESS_METHODS for one in members):
            return True
        return self.times == 1 and all(_is_safe(one, tools) for one in members)


def _is_safe(member: dict[str, object], tools: frozenset[str]) -> bool:
    parameters = member.get("params")
    if member.get("method") != "tools/call" or not isinstance(parameters, dict):
        return True  # it reads only, or can only be refused
    arguments = parameters.get("arguments")
    keyed = isinstance(arguments, dict) and bool(arguments.get("idempotency_key"))
    return keyed or parameters.get("name") in tools


def _members(message: object) -> list[dict[str, object]]:
    return [
        one
        for one in (message if isinstance(message, list) else [message])
        if isinstance(one, dict)
    ]


def _parse(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _wants_answer(message: dict[str, object]) -> bool:
    """Whether cortexd will answer this with its id, be it with a refusal."""
    id = message.get("id")
    known = isinstance(id, int | str) and not isinstance(id, bool)
    is_answer = message.get("jsonrpc") == "2.0" and message.get("method") is None
    return known and not (is_answer and ("result" in message or "error" in message))


def _send(link: Channel | None, raw: bytes) -> None:
    try:
        if link is not None:
            link.write(raw)
    except (OSError, ValueError):
        pass  # gone: the other thread notices it, too, and sees to what is open


def _key(id: object) -> str:
    """An id as JSON, as cortexd gives it back: half of a surrogate pair can't be."""
    return json.dumps(id.encode("utf-8", "replace").decode() if isinstance(id, str) else id)


def _lost(id: object, call: bool) -> dict[str, object]:
    """The answer to what is lost: a tool's error, in the form that errors of tools have, or one of
    the protocol.
    """
    body: dict[str, object] = {
        "code": "SERVER_LOST",
        "message": LOST,
        "category": "network",
        "severity": "error",
    }
    body |= {
        "retryable": True,
        "context": {},
        "suggestions": ["Look whether it was done, then call it again."],
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
    """A command line that asks for this port where it asked for any."""
    kept = list(arguments)
    for number, word in enumerate(arguments):
        if word.endswith(":0") and (
            word.startswith("--http=") or arguments[number - 1 : number] == ["--http"]
        ):
            kept[number] = f"{word[:-1]}{port}"
    return kept


def _texts(found: object) -> list[str]:
    return [str(one) for one in found] if isinstance(found, list) else []


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return os.path.abspath(os.sep)
