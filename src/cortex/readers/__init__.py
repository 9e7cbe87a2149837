"""Bytes to text: one reader for each form of document; so far plain text.

Runs in the worker process, where start-up counts: standard library only.
"""

from __future__ import annotations

from cortex.readers.plain import read

__all__ = ["read"]
