"""The process of one plugin: `python -m cortex.plugins.child_process NAME MEMORY_BYTES`, a line of JSON for
each message on stdin and stdout.

First it says what the plugin declares, then it answers calls until stdin ends; so it dies with its
parent however that dies, and takes with it whatever the plugin started. What a hook raises is the
answer to that call. Only the standard library is imported here: what a plugin needs it brings, and
it starts in a tenth of a second.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import faulthandler
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import BinaryIO, cast

from cortex.plugins.api import GROUP, HOOKS, Context, Line, Section, Subject

MAX_ANSWER_BYTES = 64 * 1024
MAX_REASON_CHARACTERS = 300
LOAD_SECONDS = 30.0  # the parent kills first
# What the plugin gets to end when nobody wants it any more, or nobody kills it in time
GRACE_SECONDS = 1.0
Message = Mapping[str, object]


def main(arguments: list[str]) -> int:
    """Declare, then answer calls until stdin ends."""
    requests, answers = _take_streams()
    _settle(int(arguments[1]))
    atexit.register(_end_all)  # the first to be registered is the last to run
    calls: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, calls), daemon=True).start()
    with open(os.devnull, "wb") as nowhere, contextlib.suppress(BrokenPipeError):
        # A thread in C: it also ends a plugin that holds Python's lock while the parent is gone.
        faulthandler.dump_traceback_later(LOAD_SECONDS, exit=True, file=nowhere)
        kind = _load(arguments[0], answers)
        faulthandler.cancel_dump_traceback_later()
        plugin: object = None
        while kind is not None and (call := calls.get()) is not None:
            faulthandler.dump_traceback_later(
                cast(float, call["seconds"]) + GRACE_SECONDS, exit=True, file=nowhere
            )
            try:
                if call["hook"] == "load":
                    plugin = kind(_context(call))
                    said = encode({"answer": None})
                else:
                    said = encode({"answer": _perform(plugin, call)})
            except Exception as error:  # whatever a plugin raises is its answer
                said = encode({"error": _told(error)})
            faulthandler.cancel_dump_traceback_later()
            _say(answers, said)
    return 0


def encode(message: Message) -> bytes:
    """One line of JSON; dataclasses are objects, any other iterable is a list.

    Raises:
        ValueError, TypeError: the plugin gave what JSON can't say, or too much of it.
    """
    said = json.dumps(message, default=plain).encode("ascii")
    if len(said) > MAX_ANSWER_BYTES:
        raise ValueError(f"an answer of {len(said):,} bytes; at most {MAX_ANSWER_BYTES:,}")
    return said


def plain(value: object) -> object:
    """What JSON can say instead of a value that it can't.

    Raises:
        TypeError: there is nothing.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    try:
        return list(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise TypeError(f"{type(value).__name__} can't be said in JSON") from None


def _load(name: str, answers: BinaryIO) -> Callable[[Context], object] | None:
    """The plugin's class, when it has been said what it declares; None when it has been said why
    there is none.
    """
    try:
        found = {entry.name: entry for entry in entry_points(group=GROUP)}
        if name not in found:
            raise LookupError(
                f"it isn't installed; installed: {', '.join(sorted(found)) or 'none'}"
            )
        kind = found[name].load()
        declared = {
            "name": getattr(kind, "name", ""),
            "category": getattr(kind, "category", "context"),
            "permissions": getattr(kind, "permissions", ()),
            "schema": getattr(kind, "config_schema", {}),
            "hooks": [hook for hook in HOOKS if callable(getattr(kind, hook, None))],
        }
        said = encode({"declares": declared})
    except Exception as error:  # an import may raise anything
        _say(
            answers,
            encode({"refused": str(error) if isinstance(error, LookupError) else _told(error)}),
        )
        return None
    _say(answers, said)
    return kind


def _context(call: Message) -> Context:
    return Context(cast(Mapping[str, object], call["config"]), cast("str | None", call["root"]))


def _perform(plugin: object, call: Message) -> object:
    hook = cast(str, call["hook"])
    method = getattr(plugin, hook)
    if hook == "preflight_upload":
        return method(call["text"])
    if hook == "enrich_context_pack":
        return method(
            _subject(cast(dict[str, object], call["subject"])), _sections(call["partial"])
        )
    return method(_context(call))


def _subject(told: dict[str, object]) -> Subject:
    lines = cast("list[int] | None", told.pop("lines"))
    return Subject(**told, lines=(lines[0], lines[1]) if lines else None)  # pyright: ignore[reportArgumentType]


def _sections(told: object) -> tuple[Section, ...]:
    sections = cast(list[dict[str, list[dict[str, str]]]], told)
    return tuple(
        Section(**{**section, "lines": tuple(Line(**line) for line in section["lines"])})
        for section in sections
    )  # pyright: ignore[reportArgumentType]


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:MAX_REASON_CHARACTERS]


def _say(answers: BinaryIO, said: bytes) -> None:
    answers.write(said + b"\n")
    answers.flush()


def _listen(requests: BinaryIO, calls: queue.SimpleQueue[Message | None]) -> None:
    """Pass on the calls; when there are no more, see to it that this process ends."""
    with contextlib.suppress(OSError, ValueError):
        for line in requests:
            calls.put(json.loads(line))
    calls.put(None)
    time.sleep(GRACE_SECONDS)
    _end_all()


def _end_all() -> None:
    """End this process and whatever the plugin started."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """The real stdin and stdout; from now on whatever prints, prints to stderr, and whatever reads,
    reads nothing.
    """
    requests = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    return requests, answers


def _settle(memory_bytes: int) -> None:
    """Limit memory, leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if memory_bytes and sys.platform != "win32":
        import resource

        with contextlib.suppress(ValueError, OSError):  # macOS refuses some values
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
