"""Reasons why a document can't be read, and the check for one that may pass."""

from __future__ import annotations

import importlib.util

NO_PDF = 'PDF needs an extra: pip install "cortex-context[documents]"'


class Unreadable(Exception):
    """A document can't be read; the message is the reason, in words for people."""


def is_mended(reason: str) -> bool:
    """True if the reason no longer applies, because the missing extra is installed now."""
    return reason == NO_PDF and importlib.util.find_spec("pypdfium2") is not None
