"""Which reader a document gets, by its content and then its name."""

from __future__ import annotations

from dataclasses import dataclass

from cortex.readers.plain import read
from cortex.types import Refused


@dataclass(frozen=True, slots=True)
class Document:
    """What a reader made of a file: its text, with "\\f" between pages; `language` is "" where the name tells it."""

    text: str
    language: str


def read_document(raw: bytes, path: str) -> Document | Refused:
    """The text of a document, or why there is none."""
    text = read(raw, path)
    return text if isinstance(text, Refused) else Document(text, "")
