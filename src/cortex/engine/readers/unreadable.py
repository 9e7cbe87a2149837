"""Why a document can't be read, and whether that has changed since."""

from __future__ import annotations

import importlib.util

NO_PDF = 'PDF needs an extra: pip install "cortex-context[documents]"'


class Unreadable(Exception):
    """A document that can't be read; the message is the reason, as a person understands it."""


def is_mended(reason: str) -> bool:
    """Whether a document that was refused for this reason can be read by now: the extra was
    installed since.
    """
    return reason == NO_PDF and importlib.util.find_spec("pypdfium2") is not None
