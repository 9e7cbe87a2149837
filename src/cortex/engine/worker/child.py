"""Child process that reads and chunks files, with frames on stdin and stdout.

Started as `python -m cortex.engine.worker.child MEMORY_BYTES`. It ends when its stdin ends, so it
dies with its parent; if it hangs then, its own alarm ends it. A failure in one file is that file's
answer. Grammars load with the first file of their language.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import BinaryIO, cast

from cortex.base.redaction import redact_cut
from cortex.base.runtime.child_main import apply_limits, take_streams, time_limit
from cortex.base.secret_scanner import find_leaks_by_line
from cortex.base.types import Cut, UnreadableFile
from cortex.engine.chunkers import HEAD_CHARACTERS, cut, language_of
from cortex.engine.readers import read, read_document, unpacked_name
from cortex.engine.worker.frames import READY, Answer, Request, pack_answer, read_frame, write_frame

# Slightly lower priority than the user's programs.
NICENESS = 5
# The parent's own timeout comes first.
GRACE_SECONDS = 5.0
MAX_REASON_CHARACTERS = 200
Cutter = Callable[[str, bytes, int, int, bool, bool], Cut | UnreadableFile]


def main(arguments: list[str]) -> int:
    """Answer requests until stdin ends."""
    requests, answers = take_streams()
    settle(int(arguments[0]) if arguments else 0)
    serve(requests, answers, cut_file)
    return 0


def serve(requests: BinaryIO, answers: BinaryIO, cutter: Cutter) -> None:
    """Send the ready frame, then answer every frame of `requests` with one frame."""
    with contextlib.suppress(BrokenPipeError, EOFError):
        write_frame(answers, READY)
        while (message := read_frame(requests)) is not None:
            target, overlap, seconds, documents, redacted, files = cast(Request, message)
            with time_limit(seconds + GRACE_SECONDS):
                reply = [
                    _answer(partial(cutter, path, raw, target, overlap, documents, redacted), raw)
                    for path, raw in files
                ]
            write_frame(answers, reply)


def cut_file(
    path: str,
    raw: bytes,
    target_tokens: int,
    overlap_tokens: int,
    documents: bool = False,
    redacted: bool = False,
) -> Cut | UnreadableFile:
    """Read and chunk one file, as a document or as it is, and find its secrets.

    With `redacted` the secrets are also removed.
    """
    outcome = _cut(path, raw, target_tokens, overlap_tokens, documents)
    if isinstance(outcome, UnreadableFile):
        return outcome
    outcome = replace(outcome, leaks=find_leaks_by_line(outcome.text))
    return redact_cut(outcome) if redacted else outcome


def _cut(
    path: str, raw: bytes, target_tokens: int, overlap_tokens: int, documents: bool
) -> Cut | UnreadableFile:
    if documents:
        document = read_document(raw, path)
        if isinstance(document, UnreadableFile):
            return document
        path = unpacked_name(path)
        language = document.language or language_of(path, document.text[:HEAD_CHARACTERS])
        return cut(document.text, path, language, target_tokens, overlap_tokens, document=True)
    text = read(raw, path)
    if isinstance(text, UnreadableFile):
        return text
    return cut(text, path, language_of(path, text[:HEAD_CHARACTERS]), target_tokens, overlap_tokens)


def _answer(cut: Callable[[], Cut | UnreadableFile], raw: bytes) -> Answer:
    try:
        return pack_answer(cut(), raw)
    except MemoryError:
        gc.collect()
        return "memory"
    except Exception as error:
        # Any error of a reader or grammar costs this file only.
        return f"failed: {type(error).__name__}: {error}"[:MAX_REASON_CHARACTERS]


def settle(memory_bytes: int) -> None:
    """Limit memory, lower the priority, and collect garbage rarely."""
    apply_limits(memory_bytes)
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
    gc.freeze()
    # Chunking makes no reference cycles; a collection only costs time.
    gc.set_threshold(20_000, 20, 50)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
