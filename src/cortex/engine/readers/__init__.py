"""Bytes to text: `read` for files whose text is their own, `read_document` for documents of any
form.

Runs in the worker process, where start-up counts: the reader of a form loads with the first file of
that form.
"""

from __future__ import annotations

from cortex.engine.readers.plain import read
from cortex.engine.readers.registry import DocumentText, read_document, unpacked_name
from cortex.engine.readers.unreadable import is_mended

__all__ = ["VERSION", "DocumentText", "is_mended", "read", "read_document", "unpacked_name"]

VERSION = 1  # of documents: grows whenever the same file would be read differently
