"""Bytes to text: `read` for text files, `read_document` for documents of any format.

Runs in the worker process, where start-up time matters: the reader of a format is imported with the
first file of that format.
"""

from __future__ import annotations

from cortex.engine.readers.plain import read
from cortex.engine.readers.registry import DocumentText, read_document, unpacked_name
from cortex.engine.readers.unreadable import is_mended

__all__ = ["VERSION", "DocumentText", "is_mended", "read", "read_document", "unpacked_name"]

# Of the readers: incremented whenever the same document would be read differently.
VERSION = 1
