"""`cortex hook EVENT`, run by a client when a session starts, stops or is compacted.

Standard library only. It always exits with 0 within a few seconds, so that a session never waits
longer or fails because of it. At the start of a session it prints cortexd's brief about the
project, in the client's format. At the end of a turn it saves marked lines to a file in the inbox
and then notifies cortexd, starting it if needed; `families/memory/hook_inbox.py` reads the files.
Road not taken: sending candidates to cortexd over the socket, where a crash would lose them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time

from cortex.base.runtime.home import INBOX, find_home, own_variables
from cortex.base.runtime.rendezvous import Rendezvous, find, profile_of

# Type checkers know the name. Importing `typing` takes longer than everything else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START, STOPS = "session-start", ("stop", "pre-compact")
READ_SECONDS = 0.5  # for the client to write its event to stdin
READ_BYTES = 8 << 20
# For starting cortexd, if needed, and its answer at the start of a session.
START_SECONDS = 1.8
# For the answer of a running cortexd. A later one is used in the next session.
ANSWER_SECONDS = 0.2
HARD_SECONDS = 2.5  # for the whole hook
# Extra time at the end of a turn for a client that hasn't written the last message yet.
TRANSCRIPT_SECONDS = 3.0
MOST_CHARACTERS = 10_000  # of context, the clients' limit
BY = "cortex hook"


def main(arguments: Sequence[str]) -> int:
    """Handle the event within the time limit; the exit code is always 0."""
    work = threading.Thread(target=_run, args=(arguments,), name="hook", daemon=True)
    work.start()
    with contextlib.suppress(KeyboardInterrupt):
        work.join(
            HARD_SECONDS + (TRANSCRIPT_SECONDS if arguments and arguments[0] == STOPS[0] else 0.0)
        )
    return 0


def _run(arguments: Sequence[str]) -> None:
    try:
        event = arguments[0] if arguments else ""
        if profile := profile_of(arguments):
            # `cortex install --profile` wrote it into the client's hook command.
            os.environ["CORTEX_PROFILE"] = profile
        if event == START:
            _start(_read())
        elif event in STOPS:
            _stop(event, _read())
        else:
            # An unknown event of a newer client: read it, so that the client doesn't write to a
            # closed pipe.
            _read()
    # A failure here must not disturb the session. `cortex doctor` finds the cause.
    except Exception:
        return


def _start(payload: Mapping[str, object]) -> None:
    """Print cortexd's brief about the project, starting a new cortexd if the current one ends."""
    deadline = time.monotonic() + START_SECONDS
    rendezvous, variables = find()
    hello = _hello(START, payload, variables)
    while (left := deadline - time.monotonic()) > 0:
        link = rendezvous.connect() if _is_cortexd_off() else rendezvous.obtain(BY, left)
        if link is None:
            return
        # A running cortexd keeps to the time in the hello; one that is starting may need all of it.
        with link:
            answer = rendezvous.exchange(link, hello, max(0.01, deadline - time.monotonic()))
        if answer is not None and not answer.get("leaving"):
            text = answer.get("text")
            if isinstance(text, str) and text.strip() and len(text) <= MOST_CHARACTERS:
                _print(render(text, payload))
            return
        time.sleep(0.02)


def _stop(event: str, payload: Mapping[str, object]) -> None:
    """Save marked lines to the inbox and notify cortexd; do nothing if there are none."""
    from cortex.interfaces.daemon.transcript_marks import find_candidates

    seconds = TRANSCRIPT_SECONDS if event == STOPS[0] and client_of(payload) == "copilot" else 0.0
    candidates = [
        candidate for candidate in find_candidates(payload, seconds) if not _has_secret(candidate)
    ]
    if not candidates:
        return
    note = {
        "format": 1,
        "at": time.time(),
        "event": event,
        "client": client_of(payload),
        "session": _session(payload),
    }
    home = find_home(own_variables(os.environ), os.path.expanduser("~"))
    keep(home, {**note, "cwd": _cwd(payload), "candidates": candidates})
    # Only after saving, so that a failing rendezvous doesn't lose the candidates.
    rendezvous, variables = find()
    if not _notify(rendezvous, _hello(event, payload, variables)) and not _is_cortexd_off():
        rendezvous.start(BY)


def _has_secret(candidate: Mapping[str, object]) -> bool:
    """True if a candidate contains a secret, which must not be written to a file."""
    # Imported only for a candidate: the import takes as long as everything else here.
    from cortex.base.secret_scanner import find_leaks

    texts = [part if isinstance(part, list) else [part] for part in candidate.values()]
    return bool(find_leaks("\n".join(str(text) for some in texts for text in some)))


def keep(home: str, note: Mapping[str, object]) -> str:
    """Write a file durably to the inbox of a home and return its name.

    Raises: OSError.
    """
    folder = os.path.join(home, INBOX)
    os.makedirs(home, 0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        _sync(home)
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}.json"
    # The reader of the inbox also accepts a complete file that wasn't renamed.
    temporary = os.path.join(folder, f".{name}")
    try:
        _write(temporary, json.dumps(note).encode())
        os.rename(temporary, os.path.join(folder, name))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync(folder)
    return name


def render(text: str, payload: Mapping[str, object]) -> str:
    """Render the text in the client's format.

    Only one format is printed, because some clients take a second one for an error or more text.
    """
    match client_of(payload):
        case "cursor":
            return json.dumps({"additional_context": text})
        case "copilot":
            return json.dumps({"additionalContext": text})
    # Run by a person, or by a client without an event on stdin.
    if not payload:
        return text
    name = payload.get("hook_event_name")
    output = {
        "hookEventName": name if isinstance(name, str) and name else "SessionStart",
        "additionalContext": text,
    }
    return json.dumps({"hookSpecificOutput": output})


def client_of(payload: Mapping[str, object]) -> str:
    """Identify the client from its event, "" if unknown."""
    if "cursor_version" in payload:
        return "cursor"
    if os.environ.get("COPILOT_CLI") or (
        "sessionId" in payload and "hook_event_name" not in payload
    ):
        return "copilot"
    if payload.get("hook_event_name") in ("AfterAgent", "PreCompress"):
        return "gemini"
    path = str(payload.get("transcript_path") or "").replace("\\", "/")
    known = {
        "/.claude/": "claude-code",
        "/.codex/": "codex",
        "/.gemini/": "gemini",
        "/.copilot/": "copilot",
    }
    return next((name for folder, name in known.items() if folder in path), "")


def _read() -> dict[str, object]:
    """Read the client's JSON event from stdin; empty at a terminal or for anything else."""
    if sys.stdin is None or os.isatty(0):
        return {}
    reader = _Heard()
    threading.Thread(target=reader.listen, name="stdin", daemon=True).start()
    reader.done.wait(READ_SECONDS)
    return reader.payload


class _Heard:
    """Reader of stdin in its own thread, because not every client closes it."""

    def __init__(self) -> None:
        self.payload: dict[str, object] = {}
        self.done = threading.Event()

    def listen(self) -> None:
        """Read to the end of the JSON object or of stdin.

        Input beyond the limit is read and dropped, so that the client doesn't write to a closed
        pipe.
        """
        parts: list[bytes] = []
        size = 0
        try:
            while part := os.read(0, 65_536):
                size += len(part)
                if size > READ_BYTES:
                    parts.clear()
                    continue
                parts.append(part)
                if part.rstrip().endswith(b"}") and self._parse(b"".join(parts)):
                    break
        # There is no stdin.
        except OSError:
            pass
        if not self.payload:
            self._parse(b"".join(parts))
        self.done.set()

    def _parse(self, raw: bytes) -> bool:
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            return False
        self.payload = event if isinstance(event, dict) else {}
        return True


def _hello(
    event: str, payload: Mapping[str, object], variables: Mapping[str, str]
) -> dict[str, object]:
    """Build the request for cortexd, with the seconds in which it has to answer."""
    hello: dict[str, object] = {
        "control": "hook",
        "event": event,
        "cwd": _cwd(payload),
        "variables": dict(variables),
    }
    return {**hello, "seconds": ANSWER_SECONDS if event == START else 0.0}


def _notify(rendezvous: Rendezvous, hello: dict[str, object]) -> bool:
    """Notify cortexd of a new file; false if none runs or it is about to end."""
    link = rendezvous.connect()
    if link is None:
        return False
    with link:
        try:
            answer = rendezvous.exchange(link, hello, ANSWER_SECONDS)
        # It is busy, and will find the file.
        except TimeoutError:
            return True
        except (OSError, ValueError):
            return False
    return answer is not None and not answer.get("leaving")


def _is_cortexd_off() -> bool:
    """True if the person has turned cortexd off."""
    return os.environ.get("CORTEX_NO_SIDECAR", "") not in ("", "0")


def _session(payload: Mapping[str, object]) -> str:
    for name in ("session_id", "conversation_id", "sessionId"):
        value = payload.get(name)
        if isinstance(value, str) and value:
            return value[:200]
    return ""


def _cwd(payload: Mapping[str, object]) -> str:
    """Folder of the session."""
    roots = payload.get("workspace_roots")
    for value in (payload.get("cwd"), roots[0] if isinstance(roots, list) and roots else None):
        if isinstance(value, str) and value and "\0" not in value:
            # Such as "/c:/work".
            drive = sys.platform == "win32" and value[:1] == "/" and value[2:3] == ":"
            return value[1:] if drive else value
    try:
        return os.getcwd()
    # The folder was removed.
    except OSError:
        return os.path.abspath(os.sep)


def _write(path: str, raw: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        while raw:
            raw = raw[os.write(file, raw) :]
        os.fsync(file)
    finally:
        os.close(file)


def _sync(folder: str) -> None:
    # Windows can't fsync a folder.
    if sys.platform == "win32":
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _print(text: str) -> None:
    raw = text.encode("utf-8", "replace") + b"\n"
    while raw:
        raw = raw[os.write(1, raw) :]
