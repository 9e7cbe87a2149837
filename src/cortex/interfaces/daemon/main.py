"""Process of cortexd: win the election, listen at once, then load everything and serve.

Shims that connect while it loads wait in the socket's backlog. Shims, `cortex start` and people
start it; it always ends by itself.
"""

from __future__ import annotations

import io
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
from typing import TYPE_CHECKING, Any

from cortex.base.paths import keep_private, make_private
from cortex.base.runtime.file_lock import lock_file
from cortex.base.runtime.home import VERSION
from cortex.base.runtime.rendezvous import ELECTED, Rendezvous, find

if TYPE_CHECKING:
    from cortex.interfaces.assembly.families import SharedResources
    from cortex.interfaces.daemon.server import ClientSession, Hello

ReadArguments = Callable[[Sequence[str]], Mapping[str, Any]]
LOG_BYTES, LOGS = 2_000_000, 3
MANY_FILES = 8192
LINGER_SECONDS = 600.0  # for which a project stays open after its last window
# Idle time after which a project with windows is closed when memory is short.
REST_SECONDS = 3.0
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
        _serve(
            rendezvous, listener, lock, token, read_arguments, skip_sync="--skip-sync" in arguments
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
    temporary = f"{rendezvous.note}.{os.getpid()}"
    # Ignore a full disk: the note is for people. On Windows clients can't find us without it, and
    # start another cortexd.
    with suppress(OSError):
        with open(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(note, file)
        os.replace(temporary, rendezvous.note)


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


def _serve(
    rendezvous: Rendezvous,
    listener: socket.socket,
    lock: int,
    token: str,
    read_arguments: ReadArguments,
    *,
    skip_sync: bool,
) -> None:
    import asyncio
    import gc

    gc.set_threshold(50_000)
    from cortex.base.settings import environment, load
    from cortex.engine.daily_snapshot import back_up_soon
    from cortex.families.chunkfiles.pool import ChunkIndexPool
    from cortex.interfaces.assembly.families import SharedResources
    from cortex.interfaces.assembly.pool import engine_pool
    from cortex.interfaces.daemon.server import Daemon
    from cortex.interfaces.daemon.session_events import session_event_handler, take_in_soon
    from cortex.interfaces.daemon.sync_worker import Syncing

    own = load(
        None,
        environment={
            k: v for k, v in environment().items() if k in ("CORTEX_HOME", "CORTEX_PROFILE")
        },
    )
    engines = engine_pool(keep=True, linger=LINGER_SECONDS, rest=REST_SECONDS)
    lenders = SharedResources(engines, ChunkIndexPool(linger=LINGER_SECONDS))
    logging.getLogger(__name__).info("cortexd %s at %s", VERSION, rendezvous.home)

    # At the start, so that a short-lived cortexd makes the daily snapshot as well.
    back_up_soon(own.home)
    # Files that hooks wrote while no cortexd ran.
    take_in_soon(engines, own)
    syncing = Syncing(engines, own.home, skip_first=skip_sync)
    syncing.start()

    async def run() -> None:
        daemon = Daemon(
            listener,
            opener(lenders, read_arguments),
            session_event_handler(engines),
            engines,
            idle=own.server.idle_timeout,
            memory=own.server.memory,
            token=token,
            has_work=syncing.has_work,
        )
        await daemon.run(
            lambda: _is_at(lock, rendezvous.lock) and os.path.exists(rendezvous.socket)
        )

    asyncio.run(run())
    syncing.close()
    lenders.close()
    logging.getLogger(__name__).info("cortexd ends")
    logging.shutdown()


def opener(
    lenders: SharedResources, read_arguments: ReadArguments
) -> Callable[[Hello], ClientSession]:
    """Make the function that opens a client's session.

    It follows the client's command line and the settings of its folder and variables.
    """
    from cortex.interfaces.assembly import families, mcp_server
    from cortex.interfaces.daemon.server import ClientMessages, ClientRefused, ClientSession

    def open_served(hello: Hello) -> ClientSession:
        try:
            given = read_arguments(hello.arguments)
        except Exception as error:
            # Typer raises click's errors or its own, depending on the version.
            if not hasattr(error, "format_message"):
                raise
            message = io.StringIO()
            error.show(message)  # type: ignore[attr-defined]
            raise ClientRefused(message.getvalue().strip(), 2) from None
        named = given["families"] or (), given["workspaces"] or ()
        asked = families.resolve_request(*named, hello.variables, Path(hello.cwd), shared=True)
        address = mcp_server.http_site(given["http"], asked)
        opened, left_out = families.open_families(
            asked, lenders, read_only=bool(given["read_only"])
        )
        warnings = tuple(f"warning: {warning}" for warning in (*asked.warnings, *left_out))
        log_sink = ClientMessages()
        return ClientSession(
            opened,
            mcp_server.identity_of(asked, given["tool_names"], log_sink),
            warnings,
            address,
            log_sink,
        )

    return open_served


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
