"""Where cortexd and those who want it meet: a socket and a lock in a private folder, one pair for
each home.

Standard library only, and little of it: every agent window pays for these imports. The lock is the
election: whoever has it is cortexd, and it ends with its process. The socket's name says nothing
about who listens. On Windows, which has no such sockets for Python, it is a port on loopback, and a
token that only the person can read.
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

TYPE_CHECKING = False  # as checkers know it: loading `typing` takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import Popen

PROTOCOL = 1  # of hello and welcome
MAX_SOCKET_BYTES = 104  # of a socket's path, on macOS
TEMPORARY = "/tmp"  # not what TMPDIR says, which differs between clients
START_SECONDS = 15.0  # for cortexd to listen after it was started
ELECTED = 2  # exit code of a cortexd that found another one
CONNECT_SECONDS = 5.0
MAX_HELLO_BYTES = 4 << 20


def find(profile: str = "") -> tuple[Rendezvous, dict[str, str]]:
    """The meeting place of this process's home, or of a profile's, and its own variables.

    Raises: ValueError, with a sentence for people first, where they are wrong; OSError, where there
    can't be a private folder.
    """
    variables = own_variables(os.environ)
    if profile:
        variables["CORTEX_PROFILE"] = profile
    return meet_at(find_home(variables, os.path.expanduser("~"))), variables


def meet_at(home: str) -> Rendezvous:
    """The meeting place of a home. Raises: OSError, where there can't be a private folder."""
    return Rendezvous(home, os.environ)


def profile_of(arguments: Sequence[str]) -> str:
    """What a command line says after --profile, "" for nothing."""
    for number, word in enumerate(arguments):
        if word.startswith("--profile="):
            return word[10:]
        if word == "--profile":
            return "".join(arguments[number + 1 : number + 2])
    return ""


class Rendezvous:
    """The meeting place of one home."""

    def __init__(self, home: str, variables: Mapping[str, str]) -> None:
        self.home = home
        known = os.fsencode(os.path.realpath(home))  # by whatever name it was reached
        name = f"cortexd-{zlib.crc32(known):08x}{zlib.crc32(known[::-1]):08x}"
        folder = _private_folder(variables, home, len(name) + 6)
        self.socket = os.path.join(folder, f"{name}.sock")
        self.lock = os.path.join(folder, f"{name}.lock")
        self.note = os.path.join(folder, f"{name}.json")  # who listens, for people and for Windows

    def connect(self) -> socket.socket | None:
        """A connection to cortexd, None where nobody listens."""
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
            time.sleep(0.02)  # so many want to connect at once that the queue is full

    def read_note(self) -> dict[str, object]:
        """What the last cortexd said of itself: pid, version, port and token where it has them."""
        with contextlib.suppress(OSError, ValueError), open(self.note, encoding="utf-8") as file:
            found = json.load(file)
            return found if isinstance(found, dict) else {}
        return {}

    def ask(
        self, hello: dict[str, object], wait: float = CONNECT_SECONDS
    ) -> dict[str, object] | None:
        """Say one thing to cortexd and hear the answer; None where nobody listens or nobody answers
        in time.
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
        """Say one thing over a connection and hear the answer, a line, no more; None where it ends
        first.

        Raises: TimeoutError; OSError and ValueError, where the connection breaks or the answer is
        none.
        """
        link.settimeout(wait)
        link.sendall(self.encode(hello))
        line = b""
        while not line.endswith(b"\n"):
            waiting = link.recv(65_536, socket.MSG_PEEK)
            if not waiting:
                return None
            line += link.recv(waiting.find(b"\n") + 1 or len(waiting))
        link.settimeout(None)
        found = json.loads(line)
        return found if isinstance(found, dict) else None

    def encode(self, hello: dict[str, object]) -> bytes:
        """A first line for cortexd."""
        if sys.platform == "win32":
            hello = {**hello, "token": self.read_note().get("token", "")}
        return json.dumps({"protocol": PROTOCOL, **hello}).encode() + b"\n"

    def start(self, by: str, arguments: Sequence[str] = ()) -> Popen[bytes]:
        """Start a cortexd for this home that outlives this process and has none of its settings."""
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
        """A connection to cortexd, which is started where there is none, after some patience; None
        where that fails.
        """
        began = time.monotonic()
        process: Popen[bytes] | None = None
        failures = 0
        while time.monotonic() < began + seconds and failures < 2:
            link = self.connect()
            if link is not None:
                if process is not None:
                    _forget(process)
                return link
            if time.monotonic() >= began + patience and (
                process is None or process.poll() is not None
            ):
                failures += process is not None and process.returncode not in (0, ELECTED)
                try:
                    process = self.start(by, arguments)
                except OSError:  # no memory, no interpreter any more
                    return None
            time.sleep(0.02)
        return None


def _forget(process: Popen[bytes]) -> None:
    """Let the child be: it lives on. Whoever lost the election has ended or is about to."""
    import threading

    threading.Thread(target=process.wait, name="child", daemon=True).start()


def is_own(link: socket.socket) -> bool:
    """Whether the process at the other end of a unix socket is this user's, as far as the system
    says it.
    """
    if sys.platform == "linux":
        # struct ucred: pid, uid, gid.
        size, option, level, at = 12, socket.SO_PEERCRED, socket.SOL_SOCKET, 4
    elif sys.platform == "darwin":
        # struct xucred: version, uid, groups; LOCAL_PEERCRED at the level SOL_LOCAL.
        size, option, level, at = 76, 1, 0, 4
    else:
        return True
    try:
        told = link.getsockopt(level, option, size)
    except OSError:
        return False
    return int.from_bytes(told[at : at + 4], sys.byteorder) == os.getuid()


def _private_folder(variables: Mapping[str, str], home: str, name_bytes: int) -> str:
    """A folder that only this user can enter, with room for a socket's name: the system's, a
    temporary one, the home's.

    Raises: OSError, where each of these is another user's or open to others.
    """
    given = variables.get("XDG_RUNTIME_DIR", "")
    # Clients hand on few variables: without it the place must be the same
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
        # It can't be made, or another user made it first. Ours that is open to others is for the
        # person to close.
        inside = os.path.join(home, "run")
        if _is_ours(temporary) or len(os.fsencode(inside)) + name_bytes + 1 > MAX_SOCKET_BYTES:
            raise
        os.makedirs(home, 0o700, exist_ok=True)
        return _make_private(inside)


def _is_ours(folder: str) -> bool:
    try:
        status = os.lstat(folder)
    except OSError:  # nothing is there
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
