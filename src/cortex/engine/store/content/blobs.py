"""Codec of the compressed text of a blob."""

from __future__ import annotations

import zlib

from cortex.base.errors import StoreError

# Files above limits.processing.max_file_size are never read, so a larger text isn't one of ours.
MAX_TEXT_BYTES = 64 << 20


def unpack(packed: bytes) -> str:
    """Decompress the text of a blob.

    Raises: StoreError STORE_CORRUPT if it is not a text that we could have written.
    """
    try:
        stream = zlib.decompressobj()
        raw = stream.decompress(packed, MAX_TEXT_BYTES)
        if stream.eof:
            return raw.decode("utf-8")
    except (zlib.error, UnicodeDecodeError) as error:
        raise StoreError("STORE_CORRUPT", f"a text in the store is damaged: {error}") from error
    raise StoreError(
        "STORE_CORRUPT", "a text in the store is damaged or larger than any that is indexed"
    )
