"""Child process of one plugin: `python -m cortex.plugins.child_process NAME MEMORY_BYTES`.

Messages on stdin and stdout are one line of JSON each. The child first sends the plugin's
declaration, then answers calls until stdin ends; so it dies with its parent however that dies, and
takes along all processes that the plugin started. An exception in a hook is the answer to that
call. Nothing beyond the standard library is imported here: a plugin brings its own dependencies,
and the child starts in a tenth of a second.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
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

from cortex.base.runtime.child_main import apply_limits, take_streams, time_limit
from cortex.plugins.api import GROUP, HOOKS, Context, Line, Section, Subject

MAX_ANSWER_BYTES = 64 * 1024
MAX_REASON_CHARACTERS = 300
# The parent's own limit is shorter, so it kills first.
LOAD_SECONDS = 30.0
# Time that the plugin has to end after stdin is closed or a call's time is up.
GRACE_SECONDS = 1.0
Message = Mapping[str, object]


def main(arguments: list[str]) -> int:
    """Send the declaration, then answer calls until stdin ends."""
    requests, answers = take_streams()
    apply_limits(int(arguments[1]))
    # Registered first, so it runs last.
    atexit.register(_end_all)
    calls: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, calls), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        with time_limit(LOAD_SECONDS):
            plugin_class = _load(arguments[0], answers)
        plugin: object = None
        while plugin_class is not None and (call := calls.get()) is not None:
            with time_limit(cast(float, call["seconds"]) + GRACE_SECONDS):
                try:
                    if call["hook"] == "load":
                        plugin = plugin_class(_context(call))
                        reply = encode({"answer": None})
                    else:
                        reply = encode({"answer": _perform(plugin, call)})
                # Any exception of a plugin is the answer to the call.
                except Exception as error:
                    reply = encode({"error": _describe(error)})
            _send(answers, reply)
    return 0


def encode(message: Message) -> bytes:
    """Encode a message as JSON; dataclasses become objects, other iterables become lists.

    Raises:
        ValueError, TypeError: the plugin's value can't be encoded, or is too large.
    """
    encoded = json.dumps(message, default=plain).encode("ascii")
    if len(encoded) > MAX_ANSWER_BYTES:
        raise ValueError(f"an answer of {len(encoded):,} bytes; at most {MAX_ANSWER_BYTES:,}")
    return encoded


def plain(value: object) -> object:
    """Convert a value that JSON doesn't support.

    Raises:
        TypeError: there is no conversion.
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
    """Load the plugin's class and send its declaration; None after sending why it failed."""
    try:
        points = {entry.name: entry for entry in entry_points(group=GROUP)}
        if name not in points:
            raise LookupError(
                f"it isn't installed; installed: {', '.join(sorted(points)) or 'none'}"
            )
        plugin_class = points[name].load()
        declared = {
            "name": getattr(plugin_class, "name", ""),
            "category": getattr(plugin_class, "category", "context"),
            "permissions": getattr(plugin_class, "permissions", ()),
            "schema": getattr(plugin_class, "config_schema", {}),
            "hooks": [hook for hook in HOOKS if callable(getattr(plugin_class, hook, None))],
        }
        declaration = encode({"declares": declared})
    # An import may raise anything.
    except Exception as error:
        _send(
            answers,
            encode({"refused": str(error) if isinstance(error, LookupError) else _describe(error)}),
        )
        return None
    _send(answers, declaration)
    return plugin_class


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


def _subject(fields: dict[str, object]) -> Subject:
    lines = cast("list[int] | None", fields.pop("lines"))
    return Subject(**fields, lines=(lines[0], lines[1]) if lines else None)  # pyright: ignore[reportArgumentType]


def _sections(value: object) -> tuple[Section, ...]:
    sections = cast(list[dict[str, list[dict[str, str]]]], value)
    return tuple(
        Section(**{**section, "lines": tuple(Line(**line) for line in section["lines"])})
        for section in sections
    )  # pyright: ignore[reportArgumentType]


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:MAX_REASON_CHARACTERS]


def _send(answers: BinaryIO, message: bytes) -> None:
    answers.write(message + b"\n")
    answers.flush()


def _listen(requests: BinaryIO, calls: queue.SimpleQueue[Message | None]) -> None:
    """Pass on the calls; after the last one make sure that this process ends."""
    with contextlib.suppress(OSError, ValueError):
        for line in requests:
            calls.put(json.loads(line))
    calls.put(None)
    time.sleep(GRACE_SECONDS)
    _end_all()


def _end_all() -> None:
    """End this process and all processes that the plugin started."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
