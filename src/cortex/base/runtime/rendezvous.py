"""Rendezvous of cortexd and its clients: a socket and a lock in a private folder, per home.

Standard library only, and little of it: every agent window pays for these imports. The lock is the
election: the process that holds it is cortexd, and the lock ends with the process. The socket's
name doesn't say who listens. Windows has no unix sockets for Python; there it is a port on
loopback, and a token that only this user can read.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import zlib

from cortex.base.runtime.home import find_home, own_variables

# Type checkers treat this name like typing.TYPE_CHECKING; importing `typing` would take longer
# than everything else in this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import Popen

# Version of the hello and welcome messages.
PROTOCOL = 1
# Longest path of a socket on macOS.
MAX_SOCKET_BYTES = 104
# Not TMPDIR, which differs between clients.
TEMPORARY = "/tmp"
# Time that cortexd has to listen after it was started.
START_SECONDS = 15.0
# Exit code of a cortexd that lost the election to a running one.
ELECTED = 2
CONNECT_SECONDS = 5.0
MAX_HELLO_BYTES = 4 << 20


def find(profile: str = "") -> tuple[Rendezvous, dict[str, str]]:
    """Return the rendezvous of this process's home (or a profile's) and Cortex's own variables.

    Raises: ValueError, with a message for people first, where a variable is wrong; OSError, where
    no private folder is possible.
    """
    variables = own_variables(os.environ)
    if profile:
        variables["CORTEX_PROFILE"] = profile
    return meet_at(find_home(variables, os.path.expanduser("~"))), variables


def meet_at(home: str) -> Rendezvous:
    """Return the rendezvous of a home. Raises: OSError, where no private folder is possible."""
    return Rendezvous(home, os.environ)


def profile_of(arguments: Sequence[str]) -> str:
    """Return the value of --profile in a command line, "" without one."""
    for index, word in enumerate(arguments):
        if word.startswith("--profile="):
            return word[10:]
        if word == "--profile":
            return "".join(arguments[index + 1 : index + 2])
    return ""


class Rendezvous:
    """Paths of one home's socket, lock and note, and the ways to reach its cortexd."""

    def __init__(self, home: str, variables: Mapping[str, str]) -> None:
        self.home = home
        # The real path, so that every spelling of the home leads to the same socket.
        real_home = os.fsencode(os.path.realpath(home))
        name = f"cortexd-{zlib.crc32(real_home):08x}{zlib.crc32(real_home[::-1]):08x}"
        folder = _private_folder(variables, home, len(name) + 6)
        self.socket = os.path.join(folder, f"{name}.sock")
        self.lock = os.path.join(folder, f"{name}.lock")
        # Describes the running cortexd, for people and for clients on Windows.
        self.note = os.path.join(folder, f"{name}.json")

    def connect(self) -> socket.socket | None:
        """Connect to cortexd; None where none is listening."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            link: socket.socket | None = None
            try:
                if sys.platform != "win32":
                    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                    link.settimeout(CONNECT_SECONDS)
                    link.connect(self.socket)
                    if not is_own(link):
                        raise PermissionError(f"{self.socket} is another user's")
                else:
                    link = socket.create_connection(
                        ("127.0.0.1", int(self.read_note()["port"])), CONNECT_SECONDS
                    )
                link.settimeout(None)
                return link
            except (OSError, KeyError, ValueError) as error:
                if link is not None:
                    link.close()
                if not isinstance(error, BlockingIOError) or time.monotonic() > deadline:
                    return None
            # The listen queue is full because many clients connect at once.
            time.sleep(0.02)

    def read_note(self) -> dict[str, object]:
        """Return the note of the last cortexd: pid, version, port and token where it has them."""
        with contextlib.suppress(OSError, ValueError), open(self.note, encoding="utf-8") as file:
            note = json.load(file)
            return note if isinstance(note, dict) else {}
        return {}

    def ask(
        self, hello: dict[str, object], wait: float = CONNECT_SECONDS
    ) -> dict[str, object] | None:
        """Send one message to cortexd and return its answer.

        None where cortexd isn't listening or doesn't answer in time.
        """
        link = self.connect()
        if link is None:
            return None
        with link:
            try:
                return self.exchange(link, hello, wait)
            except (OSError, ValueError):
                return None

    def exchange(
        self, link: socket.socket, hello: dict[str, object], wait: float
    ) -> dict[str, object] | None:
        """Send one message over a connection and read exactly one line as the answer.

        Returns None where the connection ends first.

        Raises: TimeoutError; OSError and ValueError, where the connection breaks or the answer
        isn't JSON.
        """
        link.settimeout(wait)
        link.sendall(self.encode(hello))
        line = b""
        while not line.endswith(b"\n"):
            available = link.recv(65_536, socket.MSG_PEEK)
            if not available:
                return None
            line += link.recv(available.find(b"\n") + 1 or len(available))
        link.settimeout(None)
        answer = json.loads(line)
        return answer if isinstance(answer, dict) else None

    def encode(self, hello: dict[str, object]) -> bytes:
        """Encode the first line that a client sends to cortexd."""
        if sys.platform == "win32":
            hello = {**hello, "token": self.read_note().get("token", "")}
        return json.dumps({"protocol": PROTOCOL, **hello}).encode() + b"\n"

    def start(self, by: str, arguments: Sequence[str] = ()) -> Popen[bytes]:
        """Start a cortexd for this home that outlives this process.

        It inherits none of this process's settings.
        """
        import subprocess

        own = own_variables(os.environ)
        variables = {name: value for name, value in os.environ.items() if name not in own}
        variables["CORTEX_HOME"] = self.home
        command = [sys.executable, "-m", "cortex.cortexd", "--started-by", by, *arguments]
        windows = sys.platform == "win32"
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.path.abspath(os.sep),
            env=variables,
            start_new_session=not windows,
            # DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP
            creationflags=0x00000208 if windows else 0,
        )

    def obtain(
        self,
        by: str,
        seconds: float = START_SECONDS,
        arguments: Sequence[str] = (),
        patience: float = 0.0,
    ) -> socket.socket | None:
        """Connect to cortexd; start one where none listens within `patience` seconds.

        Returns None where that fails.
        """
        began = time.monotonic()
        process: Popen[bytes] | None = None
        failures = 0
        while time.monotonic() < began + seconds and failures < 2:
            link = self.connect()
            if link is not None:
                if process is not None:
                    _reap_in_background(process)
                return link
            if time.monotonic() >= began + patience and (
                process is None or process.poll() is not None
            ):
                failures += process is not None and process.returncode not in (0, ELECTED)
                try:
                    process = self.start(by, arguments)
                # No memory, or the interpreter is gone.
                except OSError:
                    return None
            time.sleep(0.02)
        return None


def _reap_in_background(process: Popen[bytes]) -> None:
    """Wait for a started child in a thread, so that one that lost the election leaves no zombie."""
    import threading

    threading.Thread(target=process.wait, name="child", daemon=True).start()


def is_own(link: socket.socket) -> bool:
    """Return whether the peer of a unix socket runs as this user, where the system reports it."""
    if sys.platform == "linux":
        # struct ucred: pid, uid, gid.
        size, option, level, at = 12, socket.SO_PEERCRED, socket.SOL_SOCKET, 4
    elif sys.platform == "darwin":
        # struct xucred: version, uid, groups; LOCAL_PEERCRED at the level SOL_LOCAL.
        size, option, level, at = 76, 1, 0, 4
    else:
        return True
    try:
        credentials = link.getsockopt(level, option, size)
    except OSError:
        return False
    return int.from_bytes(credentials[at : at + 4], sys.byteorder) == os.getuid()


def _private_folder(variables: Mapping[str, str], home: str, name_bytes: int) -> str:
    """Return a folder that only this user can enter, with room for a socket's name.

    Candidates: the system's runtime folder, a temporary one, one in the home.

    Raises: OSError, where each of these is another user's or open to others.
    """
    given = variables.get("XDG_RUNTIME_DIR", "")
    # Some clients pass on few variables; the folder must be the same without this one.
    if not given and sys.platform == "linux":
        given = f"/run/user/{os.getuid()}" if os.path.isdir(f"/run/user/{os.getuid()}") else ""
    if (
        given
        and os.path.isabs(given)
        and len(os.fsencode(given)) + name_bytes + 8 <= MAX_SOCKET_BYTES
    ):
        folder = os.path.join(given, "cortex")
        with contextlib.suppress(OSError):
            return _make_private(folder)
    if sys.platform == "win32":
        return _make_private(
            os.path.join(variables.get("LOCALAPPDATA") or os.path.expanduser("~"), "cortex")
        )
    temporary = f"{TEMPORARY}/cortex-{os.getuid()}"
    try:
        return _make_private(temporary)
    except OSError:
        # It can't be created, or another user created it first. Where it is ours but open to
        # others, the user has to fix its mode.
        inside = os.path.join(home, "run")
        if _is_ours(temporary) or len(os.fsencode(inside)) + name_bytes + 1 > MAX_SOCKET_BYTES:
            raise
        os.makedirs(home, 0o700, exist_ok=True)
        return _make_private(inside)


def _is_ours(folder: str) -> bool:
    try:
        status = os.lstat(folder)
    # It doesn't exist.
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_mode & 0o170000 == 0o040000


def _make_private(folder: str) -> str:
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if sys.platform != "win32":
        status = os.lstat(folder)
        if status.st_uid != os.getuid() or status.st_mode & 0o170077 != 0o040000:
            raise PermissionError(
                f"{folder} is not a folder that only this user can enter: remove it"
            )
    return folder
