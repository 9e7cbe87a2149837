"""Permanent links to records: `cortex://thread/thread_01…`, opened by `cortex show`."""

from __future__ import annotations

from cortex.engine.store import kind_of_id

SCHEME = "cortex://"


def permalink(record_id: str) -> str:
    """Return the permalink of a record id."""
    return f"{SCHEME}{kind_of_id(record_id)}/{record_id}"


def named_in(ref: str) -> str:
    """Return the id or slug in a permalink; any other text is returned as it is."""
    return ref.removeprefix(SCHEME).rpartition("/")[2] if ref.startswith(SCHEME) else ref
