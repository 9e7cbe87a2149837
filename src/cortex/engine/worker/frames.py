"""What parent and child say to each other: length-prefixed frames of plain tuples.

`marshal` because both ends are the same interpreter, it knows tuples, strings and bytes and is the
fastest; nothing else is sent.
"""

from __future__ import annotations

import marshal
from typing import BinaryIO

from cortex.base.types import Chunk, Cut, Leak, Symbol, UnreadableFile

_LENGTH_BYTES = 8
MAX_FRAME_BYTES = 1 << 30  # far above any batch; a length beyond it is no length
READY = "ready"  # what a child says first
Work = tuple[str, bytes]  # path, content
# target tokens, overlap tokens, seconds, whether documents, whether redacted, files
Request = tuple[int, int, float, bool, bool, list[Work]]
Rows = list[tuple[object, ...]]
Answer = tuple[str, str | None, Rows, Rows, Rows] | str  # a refusal is its reason


def write_frame(stream: BinaryIO, message: Request | list[Answer] | str) -> None:
    """Send one message."""
    body = marshal.dumps(message)  # pyright: ignore[reportArgumentType]
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "little") + body)
    stream.flush()


def read_frame(stream: BinaryIO) -> object | None:
    """The next message, or None at the end of the stream.

    Raises:
        EOFError: the stream ended within a frame.
        ValueError, TypeError: what came is no frame.
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
    """An answer as plain tuples; a text that is `raw` decoded is not sent back."""
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
    """The answers to these files.

    Raises:
        ValueError, TypeError: the reply is none to them.
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
    made = tuple(Chunk(*chunk) for chunk in chunks)  # pyright: ignore[reportArgumentType]
    defined = tuple(Symbol(*symbol) for symbol in symbols)  # pyright: ignore[reportArgumentType]
    found = tuple(Leak(*leak) for leak in leaks)  # pyright: ignore[reportArgumentType]
    return Cut(language, text, made, defined, found)
