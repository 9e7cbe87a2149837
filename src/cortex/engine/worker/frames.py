"""Protocol of parent and child: length-prefixed frames of plain tuples.

`marshal` is the fastest codec, and both ends are the same interpreter. Only tuples, strings,
numbers and bytes are sent.
"""

from __future__ import annotations

import marshal
from typing import BinaryIO

from cortex.base.types import Chunk, Cut, Leak, Symbol, UnreadableFile

_LENGTH_BYTES = 8
# Far above any batch; a longer frame is invalid.
MAX_FRAME_BYTES = 1 << 30
# First message of a child.
READY = "ready"
# Path and content.
Work = tuple[str, bytes]
# Target tokens, overlap tokens, seconds, documents, redacted, files.
Request = tuple[int, int, float, bool, bool, list[Work]]
Rows = list[tuple[object, ...]]
# A cut as plain tuples, or the reason for an unreadable file.
Answer = tuple[str, str | None, Rows, Rows, Rows] | str


def write_frame(stream: BinaryIO, message: Request | list[Answer] | str) -> None:
    """Send one message."""
    body = marshal.dumps(message)  # pyright: ignore[reportArgumentType]
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "little") + body)
    stream.flush()


def read_frame(stream: BinaryIO) -> object | None:
    """Read the next message; None at the end of the stream.

    Raises:
        EOFError: the stream ended within a frame.
        ValueError, TypeError: the data is no frame.
    """
    head = stream.read(_LENGTH_BYTES)
    if not head:
        return None
    size = int.from_bytes(head, "little")
    if size > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {size} bytes")
    body = stream.read(size)
    if len(head) < _LENGTH_BYTES or len(body) < size:
        raise EOFError("the stream ended within a frame")
    return marshal.loads(body)


def pack_answer(answer: Cut | UnreadableFile, raw: bytes) -> Answer:
    """Pack an answer as plain tuples; a text that is `raw` decoded is not sent back."""
    if isinstance(answer, UnreadableFile):
        return answer.reason
    same = len(answer.text) <= len(raw) and answer.text.encode("utf-8", "surrogatepass") == raw
    chunks: Rows = [
        (
            c.ordinal,
            c.start,
            c.end,
            c.start_line,
            c.end_line,
            c.kind,
            c.name,
            c.qualified,
            c.signature,
            c.doc,
        )
        for c in answer.chunks
    ]
    symbols: Rows = [
        (s.name, s.qualified, s.kind, s.start_line, s.end_line, s.parent) for s in answer.symbols
    ]
    leaks: Rows = [(leak.name, leak.start, leak.end) for leak in answer.leaks or ()]
    return answer.language, None if same else answer.text, chunks, symbols, leaks


def unpack_reply(reply: object, files: list[Work]) -> list[Cut | UnreadableFile]:
    """Unpack the answers to these files.

    Raises:
        ValueError, TypeError: the reply doesn't match the files.
    """
    if not isinstance(reply, list):
        raise TypeError(f"a reply of type {type(reply).__name__}")
    return [_unpack(answer, raw) for answer, (_, raw) in zip(reply, files, strict=True)]


def _unpack(answer: Answer, raw: bytes) -> Cut | UnreadableFile:
    if isinstance(answer, str):
        return UnreadableFile(answer)
    language, text, chunks, symbols, leaks = answer
    if text is None:
        text = raw.decode("utf-8")
    cut_chunks = tuple(Chunk(*row) for row in chunks)  # pyright: ignore[reportArgumentType]
    cut_symbols = tuple(Symbol(*row) for row in symbols)  # pyright: ignore[reportArgumentType]
    cut_leaks = tuple(Leak(*row) for row in leaks)  # pyright: ignore[reportArgumentType]
    return Cut(language, text, cut_chunks, cut_symbols, cut_leaks)
