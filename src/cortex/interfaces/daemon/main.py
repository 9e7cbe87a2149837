"""cortexd as a process: wins the election, listens at once, then loads what it needs and serves.

Front ends that come while it loads wait in the queue of the socket. Started by them, by `cortex
start` or by a person; however it was started, it ends by itself.
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
REST_SECONDS = 3.0  # unused, after which a project with windows is closed where memory is short
ELECTION_SECONDS = 8.0  # more than another one takes to end


def main(arguments: list[str], read_arguments: ReadArguments) -> int:
    """Serve until no client needs it and return the exit code.

    `read_arguments` parses a client's `cortex mcp` command line; the command itself is in a layer
    above this one.
    """
    meeting, _ = find()
    lock = elect(meeting)
    if lock is None:
        return ELECTED
    # What it writes is one person's; files for others get their mode where they are written
    os.umask(0o077)
    started_by = _after("--started-by", arguments) or "a person"
    token = ""
    if sys.platform == "win32":
        import secrets

        token = secrets.token_urlsafe(32)
    for number in (signal.SIGTERM, signal.SIGINT):  # until it serves, there is nothing to finish
        signal.signal(number, lambda *_: (_leave(meeting, lock), os._exit(0)))
    _allow_many_files()
    listener = _listen(meeting)
    _note(meeting, listener, started_by, token)
    _log_to(meeting.home, _after("--log-level", arguments) or "info")
    try:
        _serve(meeting, listener, lock, token, read_arguments, skip_sync="--skip-sync" in arguments)
    except Exception:
        logging.getLogger(__name__).exception("cortexd failed")
        raise
    finally:
        _leave(meeting, lock)
    return 0


def _after(option: str, arguments: list[str]) -> str:
    return arguments[arguments.index(option) + 1] if option in arguments[:-1] else ""


def _allow_many_files() -> None:
    """Every client and every project has files open, and some systems allow 256."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def elect(meeting: Rendezvous) -> int | None:
    """Become cortexd: the lock, None where somebody has it and listens. Children don't inherit it.

    One that is ending has the lock, too, but no longer listens: waiting for it here is cheaper than
    to be started many times.
    """
    deadline = time.monotonic() + ELECTION_SECONDS
    while time.monotonic() < deadline:
        lock = os.open(meeting.lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if lock_file(lock) and _is_at(lock, meeting.lock):
            return lock
        os.close(lock)
        if (link := meeting.connect()) is not None:
            link.close()
            return None
        time.sleep(0.02)
    return None


def _listen(meeting: Rendezvous) -> socket.socket:
    if sys.platform == "win32":
        return socket.create_server(("127.0.0.1", 0), backlog=128)
    with suppress(FileNotFoundError):
        os.unlink(meeting.socket)  # of one that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(meeting.socket)
    os.chmod(meeting.socket, 0o600)
    listener.listen(128)
    return listener


def _note(meeting: Rendezvous, listener: socket.socket, started_by: str, token: str) -> None:
    note: dict[str, object] = {"pid": os.getpid(), "version": VERSION, "home": meeting.home}
    note |= {
        "python": sys.executable,
        "startedBy": started_by,
        "startedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    if sys.platform == "win32":
        note |= {"port": listener.getsockname()[1], "token": token}
    temporary = f"{meeting.note}.{os.getpid()}"
    # A full disk: it is for people; on Windows nobody finds us and the next one tries
    with suppress(OSError):
        with open(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(note, file)
        os.replace(temporary, meeting.note)


def _log_to(home: str, level: str) -> None:
    """Logs go to a file of limited size; where the home can't be written, nowhere."""
    handler: logging.Handler = logging.NullHandler()
    with suppress(OSError):
        folder = os.path.join(home, "logs")
        make_private(Path(folder))
        keep_private(Path(folder))  # an older version wrote it as the umask said
        handler = RotatingFileHandler(
            os.path.join(folder, "cortexd.log"),
            maxBytes=LOG_BYTES,
            backupCount=LOGS,
            encoding="utf-8",
        )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    known = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    logging.basicConfig(handlers=[handler], level=max(known, logging.INFO))
    logging.getLogger("cortex").setLevel(known)  # libraries would log what clients say


def _serve(
    meeting: Rendezvous,
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
    from cortex.engine.library import back_up_soon
    from cortex.families.chunkfiles.pool import ChunkIndexPool
    from cortex.interfaces.assembly.families import SharedResources
    from cortex.interfaces.assembly.pool import engine_pool
    from cortex.interfaces.daemon.server import Daemon
    from cortex.interfaces.daemon.session_events import moments, take_in_soon
    from cortex.interfaces.daemon.sync_worker import Syncing

    own = load(
        None,
        environment={
            k: v for k, v in environment().items() if k in ("CORTEX_HOME", "CORTEX_PROFILE")
        },
    )
    engines = engine_pool(keep=True, linger=LINGER_SECONDS, rest=REST_SECONDS)
    lenders = SharedResources(engines, ChunkIndexPool(linger=LINGER_SECONDS))
    logging.getLogger(__name__).info("cortexd %s at %s", VERSION, meeting.home)

    back_up_soon(own.home)  # one that ends soon makes a day's snapshot, too
    take_in_soon(engines, own)  # what hooks brought while there was no cortexd
    syncing = Syncing(engines, own.home, skip_first=skip_sync)
    syncing.start()

    async def run() -> None:
        daemon = Daemon(
            listener,
            opener(lenders, read_arguments),
            moments(engines),
            engines,
            idle=own.server.idle_timeout,
            memory=own.server.memory,
            token=token,
            has_work=syncing.has_work,
        )
        await daemon.run(lambda: _is_at(lock, meeting.lock) and os.path.exists(meeting.socket))

    asyncio.run(run())
    syncing.close()
    lenders.close()
    logging.getLogger(__name__).info("cortexd ends")
    logging.shutdown()


def opener(
    lenders: SharedResources, read_arguments: ReadArguments
) -> Callable[[Hello], ClientSession]:
    """What cortexd gives to a client: what its command line says, with the settings of its folder
    and variables.
    """
    from cortex.interfaces.assembly import families, mcp_server
    from cortex.interfaces.daemon.server import ClientMessages, ClientRefused, ClientSession

    def open_served(hello: Hello) -> ClientSession:
        try:
            given = read_arguments(hello.arguments)
        except Exception as error:
            if not hasattr(error, "format_message"):  # typer has had click's errors and its own
                raise
            said = io.StringIO()
            error.show(said)  # type: ignore[attr-defined]
            raise ClientRefused(said.getvalue().strip(), 2) from None
        named = given["families"] or (), given["workspaces"] or ()
        asked = families.ask(*named, hello.variables, Path(hello.cwd), shared=True)
        address = mcp_server.http_site(given["http"], asked)
        opened, left_out = families.open_families(
            asked, lenders, read_only=bool(given["read_only"])
        )
        warnings = tuple(f"warning: {warning}" for warning in (*asked.warnings, *left_out))
        told = ClientMessages()
        return ClientSession(
            opened,
            mcp_server.identity_of(asked, given["tool_names"], told),
            warnings,
            address,
            told,
        )

    return open_served


def _is_at(file: int, path: str) -> bool:
    """Whether the open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


def _leave(meeting: Rendezvous, lock: int) -> None:
    if _is_at(lock, meeting.lock):  # else these belong to the next one
        for path in (meeting.socket, meeting.note):
            with suppress(OSError):
                os.unlink(path)
    os.close(lock)
