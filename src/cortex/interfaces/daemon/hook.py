"""`cortex hook EVENT`: what a client runs when a session starts, stops or is about to be compacted.

Standard library only. Whatever happens, it ends with 0 in a few seconds: a session never waits for
us longer, and never fails because of us. At the start of a session it prints what cortexd has to
say about the project, in the form that the client reads. At the end of a turn it writes what was
marked to a file of the inbox, so that it is safe, and then tells cortexd; one that isn't there is
started and finds the file. What a file holds is read again in `families/memory/hook_inbox.py`. Not
taken: handing candidates to cortexd over the socket, where they would be lost with it.
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

TYPE_CHECKING = False  # as checkers know it: loading `typing` takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START, STOPS = "session-start", ("stop", "pre-compact")
READ_SECONDS = 0.5  # for the client to say what it has to say
READ_BYTES = 8 << 20
# For a cortexd that isn't there to be started, and to answer, at the start of a session
START_SECONDS = 1.8
ANSWER_SECONDS = 0.2  # for one that is there: what takes longer is said in the next session
HARD_SECONDS = 2.5  # for all of it
# More, at the end of a turn, for a client that hasn't written the last message yet
TRANSCRIPT_SECONDS = 3.0
MOST_CHARACTERS = 10_000  # of context; clients take no more
BY = "cortex hook"


def main(arguments: Sequence[str]) -> int:
    """Do what the event asks for, as far as time allows; the exit code is always 0."""
    work = threading.Thread(target=_work, args=(arguments,), name="hook", daemon=True)
    work.start()
    with contextlib.suppress(KeyboardInterrupt):
        work.join(
            HARD_SECONDS + (TRANSCRIPT_SECONDS if arguments and arguments[0] == STOPS[0] else 0.0)
        )
    return 0


def _work(arguments: Sequence[str]) -> None:
    try:
        event = arguments[0] if arguments else ""
        if profile := profile_of(arguments):
            # For whom `cortex install --profile` wrote it down
            os.environ["CORTEX_PROFILE"] = profile
        if event == START:
            _start(_read())
        elif event in STOPS:
            _stop(event, _read())
        else:  # of a client that is newer than we are: it shall not write into a closed pipe
            _read()
    # Nothing that goes wrong here is the session's business; `cortex doctor` finds causes
    except Exception:
        return


def _start(said: Mapping[str, object]) -> None:
    """Print what cortexd says about the project; one that is about to end is waited for, and
    another one started.
    """
    deadline = time.monotonic() + START_SECONDS
    meeting, variables = find()
    hello = _hello(START, said, variables)
    while (left := deadline - time.monotonic()) > 0:
        link = meeting.connect() if _is_alone() else meeting.obtain(BY, left)
        if link is None:
            return
        # One that is just being started takes its time, any other keeps to what it is told
        with link:
            answer = meeting.exchange(link, hello, max(0.01, deadline - time.monotonic()))
        if answer is not None and not answer.get("leaving"):
            text = answer.get("text")
            if isinstance(text, str) and text.strip() and len(text) <= MOST_CHARACTERS:
                _print(render(text, said))
            return
        time.sleep(0.02)


def _stop(event: str, said: Mapping[str, object]) -> None:
    """Keep what was marked, and tell cortexd; nothing at all where nothing was marked."""
    from cortex.interfaces.daemon.transcript_marks import find_candidates

    seconds = TRANSCRIPT_SECONDS if event == STOPS[0] and client_of(said) == "copilot" else 0.0
    candidates = [
        candidate for candidate in find_candidates(said, seconds) if not _leaks(candidate)
    ]
    if not candidates:
        return
    note = {
        "format": 1,
        "at": time.time(),
        "event": event,
        "client": client_of(said),
        "session": _session(said),
    }
    home = find_home(own_variables(os.environ), os.path.expanduser("~"))
    keep(home, {**note, "cwd": _cwd(said), "candidates": candidates})
    # Only now: where there can't be a meeting place, what was marked is kept all the same
    meeting, variables = find()
    if not _nudge(meeting, _hello(event, said, variables)) and not _is_alone():
        meeting.start(BY)


def _leaks(candidate: Mapping[str, object]) -> bool:
    """Whether a candidate holds a secret: it would be refused, and until then it would lie in a
    file.
    """
    from cortex.base.secret_scanner import (
        find_leaks,  # only where there is a candidate: it takes as long as all else here
    )

    texts = [part if isinstance(part, list) else [part] for part in candidate.values()]
    return bool(find_leaks("\n".join(str(text) for some in texts for text in some)))


def keep(home: str, note: Mapping[str, object]) -> str:
    """Write a file to the inbox of a home so that it outlives a power cut; gives its name.

    Raises: OSError.
    """
    folder = os.path.join(home, INBOX)
    os.makedirs(home, 0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        _sync(home)
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}.json"
    # One that stays like this is taken in, too, if it is whole
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


def render(text: str, said: Mapping[str, object]) -> str:
    """The text as the client wants it: each reads one form, and some take a second one for an error
    or for more text.
    """
    match client_of(said):
        case "cursor":
            return json.dumps({"additional_context": text})
        case "copilot":
            return json.dumps({"additionalContext": text})
    if not said:  # a person, or a client that says nothing of itself
        return text
    name = said.get("hook_event_name")
    output = {
        "hookEventName": name if isinstance(name, str) and name else "SessionStart",
        "additionalContext": text,
    }
    return json.dumps({"hookSpecificOutput": output})


def client_of(said: Mapping[str, object]) -> str:
    """Which client speaks, "" where that can't be told."""
    if "cursor_version" in said:
        return "cursor"
    if os.environ.get("COPILOT_CLI") or ("sessionId" in said and "hook_event_name" not in said):
        return "copilot"
    if said.get("hook_event_name") in ("AfterAgent", "PreCompress"):
        return "gemini"
    path = str(said.get("transcript_path") or "").replace("\\", "/")
    known = {
        "/.claude/": "claude-code",
        "/.codex/": "codex",
        "/.gemini/": "gemini",
        "/.copilot/": "copilot",
    }
    return next((name for folder, name in known.items() if folder in path), "")


def _read() -> dict[str, object]:
    """What the client says, as far as it is an object; nothing at a terminal."""
    if sys.stdin is None or os.isatty(0):
        return {}
    heard = _Heard()
    reader = threading.Thread(target=heard.listen, name="stdin", daemon=True)
    reader.start()
    heard.done.wait(READ_SECONDS)
    return heard.said


class _Heard:
    """Reads stdin in a thread of its own, since not every client closes it."""

    def __init__(self) -> None:
        self.said: dict[str, object] = {}
        self.done = threading.Event()

    def listen(self) -> None:
        """Read to the end of the object, or to the end; also what is too much, so that nobody
        writes into a closed pipe.
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
                if part.rstrip().endswith(b"}") and self._take(b"".join(parts)):
                    break
        except OSError:  # there is no stdin
            pass
        if not self.said:
            self._take(b"".join(parts))
        self.done.set()

    def _take(self, raw: bytes) -> bool:
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            return False
        self.said = found if isinstance(found, dict) else {}
        return True


def _hello(
    event: str, said: Mapping[str, object], variables: Mapping[str, str]
) -> dict[str, object]:
    """What cortexd is told; it answers in so many seconds, and goes on with its work."""
    told: dict[str, object] = {
        "control": "hook",
        "event": event,
        "cwd": _cwd(said),
        "variables": dict(variables),
    }
    return {**told, "seconds": ANSWER_SECONDS if event == START else 0.0}


def _nudge(meeting: Rendezvous, hello: dict[str, object]) -> bool:
    """Tell cortexd that there is something; false where none is there, or it is about to end."""
    link = meeting.connect()
    if link is None:
        return False
    with link:
        try:
            answer = meeting.exchange(link, hello, ANSWER_SECONDS)
        except TimeoutError:  # it is at it, or will be
            return True
        except (OSError, ValueError):
            return False
    return answer is not None and not answer.get("leaving")


def _is_alone() -> bool:
    """Whether the person wants no cortexd."""
    return os.environ.get("CORTEX_NO_SIDECAR", "") not in ("", "0")


def _session(said: Mapping[str, object]) -> str:
    for name in ("session_id", "conversation_id", "sessionId"):
        value = said.get(name)
        if isinstance(value, str) and value:
            return value[:200]
    return ""


def _cwd(said: Mapping[str, object]) -> str:
    """The folder of the session."""
    roots = said.get("workspace_roots")
    for value in (said.get("cwd"), roots[0] if isinstance(roots, list) and roots else None):
        if isinstance(value, str) and value and "\0" not in value:
            drive = sys.platform == "win32" and value[:1] == "/" and value[2:3] == ":"  # "/c:/work"
            return value[1:] if drive else value
    try:
        return os.getcwd()
    except OSError:  # it was removed
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
    if sys.platform == "win32":  # which has no such thing
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
