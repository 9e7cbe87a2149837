"""Process of cortexd: win the election, listen at once, then load everything and serve.

Shims that connect while it loads wait in the socket's backlog. Shims, `cortex start` and people
start it; it always ends by itself.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from cortex.base.paths import keep_private, make_private
from cortex.base.runtime.atomic_file import replace_file
from cortex.base.runtime.file_lock import lock_file
from cortex.base.runtime.home import VERSION
from cortex.base.runtime.rendezvous import ELECTED, Rendezvous, find

ReadArguments = Callable[[Sequence[str]], Mapping[str, Any]]
LOG_BYTES, LOGS = 2_000_000, 3
MANY_FILES = 8192
ELECTION_SECONDS = 8.0  # longer than another cortexd takes to end


def main(arguments: list[str], read_arguments: ReadArguments) -> int:
    """Serve until no client needs it and return the exit code.

    `read_arguments` parses a client's `cortex mcp` command line; the command itself is in a layer
    above this one.
    """
    rendezvous, _ = find()
    lock = elect(rendezvous)
    if lock is None:
        return ELECTED
    # All files are private to the person. Files for others get their mode where they are written.
    os.umask(0o077)
    started_by = _option("--started-by", arguments) or "a person"
    token = ""
    if sys.platform == "win32":
        import secrets

        token = secrets.token_urlsafe(32)
    # Before it serves, there is nothing to finish, so a signal ends it at once.
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: (_clean_up(rendezvous, lock), os._exit(0)))
    _allow_many_files()
    listener = _listen(rendezvous)
    _write_note(rendezvous, listener, started_by, token)
    _log_to(rendezvous.home, _option("--log-level", arguments) or "info")
    try:
        # Fewer collections while hundreds of modules load.
        gc.set_threshold(50_000)
        from cortex.interfaces.daemon.service import serve

        serve(
            listener,
            token,
            read_arguments,
            lambda: _is_at(lock, rendezvous.lock) and os.path.exists(rendezvous.socket),
            skip_sync="--skip-sync" in arguments,
        )
    except Exception:
        logging.getLogger(__name__).exception("cortexd failed")
        raise
    finally:
        _clean_up(rendezvous, lock)
    return 0


def _option(option: str, arguments: list[str]) -> str:
    return arguments[arguments.index(option) + 1] if option in arguments[:-1] else ""


def _allow_many_files() -> None:
    """Raise the limit of open files: each client and project has some; some systems allow 256."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def elect(rendezvous: Rendezvous) -> int | None:
    """Acquire cortexd's lock; None if another process holds it and listens.

    Children don't inherit the lock. A cortexd that is ending holds it without listening; waiting
    for it here is cheaper than being started many times.
    """
    deadline = time.monotonic() + ELECTION_SECONDS
    while time.monotonic() < deadline:
        lock = os.open(rendezvous.lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if lock_file(lock) and _is_at(lock, rendezvous.lock):
            return lock
        os.close(lock)
        if (link := rendezvous.connect()) is not None:
            link.close()
            return None
        time.sleep(0.02)
    return None


def _listen(rendezvous: Rendezvous) -> socket.socket:
    if sys.platform == "win32":
        return socket.create_server(("127.0.0.1", 0), backlog=128)
    with suppress(FileNotFoundError):
        # A killed cortexd leaves its socket behind.
        os.unlink(rendezvous.socket)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(rendezvous.socket)
    os.chmod(rendezvous.socket, 0o600)
    listener.listen(128)
    return listener


def _write_note(
    rendezvous: Rendezvous, listener: socket.socket, started_by: str, token: str
) -> None:
    note: dict[str, object] = {"pid": os.getpid(), "version": VERSION, "home": rendezvous.home}
    note |= {
        "python": sys.executable,
        "startedBy": started_by,
        "startedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    if sys.platform == "win32":
        note |= {"port": listener.getsockname()[1], "token": token}
    # Ignore a full disk: the note is for people. On Windows clients can't find us without it, and
    # start another cortexd.
    with suppress(OSError):
        replace_file(Path(rendezvous.note), json.dumps(note).encode())


def _log_to(home: str, level: str) -> None:
    """Log to a rotating file; nowhere if the home isn't writable."""
    handler: logging.Handler = logging.NullHandler()
    with suppress(OSError):
        folder = os.path.join(home, "logs")
        make_private(Path(folder))
        # An older version created it with the default umask.
        keep_private(Path(folder))
        handler = RotatingFileHandler(
            os.path.join(folder, "cortexd.log"),
            maxBytes=LOG_BYTES,
            backupCount=LOGS,
            encoding="utf-8",
        )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    known = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    logging.basicConfig(handlers=[handler], level=max(known, logging.INFO))
    # Only our own loggers: libraries would log the clients' messages.
    logging.getLogger("cortex").setLevel(known)


def _is_at(file: int, path: str) -> bool:
    """True if the open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


def _clean_up(rendezvous: Rendezvous, lock: int) -> None:
    # Otherwise these files belong to the next cortexd.
    if _is_at(lock, rendezvous.lock):
        for path in (rendezvous.socket, rendezvous.note):
            with suppress(OSError):
                os.unlink(path)
    os.close(lock)
