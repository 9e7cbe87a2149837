"""A worker process with accidents named by its files, over the real protocol."""

import ctypes
import os
import sys

from cortex.base.types import Chunk, Cut, UnreadableFile
from cortex.engine.worker import child


def misbehave(
    path: str, raw: bytes, target_tokens: int, overlap_tokens: int, documents: bool, redacted: bool
) -> Cut | UnreadableFile:
    if "dies" in path:
        os._exit(3)
    if "crashes" in path:
        ctypes.string_at(0)
    if "hangs" in path:
        while True:
            pass
    if "eats" in path:
        hoard = []
        while True:
            hoard.append(bytearray(64 << 20))
    if "raises" in path:
        raise RuntimeError("no such thing")
    if "prints" in path:
        print("to stdout")
        os.write(1, b"to file descriptor 1")
    text = raw.decode("utf-8")
    return Cut("text", text, (Chunk(0, 0, len(text), 1, 1, "block"),), ())


if __name__ == "__main__":
    requests, answers = child.take_streams()
    child.settle(int(sys.argv[1]))
    child.serve(requests, answers, misbehave)
