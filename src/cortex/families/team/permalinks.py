"""Links to records that stay true: `cortex://thread/thread_01…`, for people to keep and send;
`cortex show` opens them.
"""

from __future__ import annotations

from cortex.engine.store import kind_of_id

SCHEME = "cortex://"


def permalink(record_id: str) -> str:
    """The link to the record of this id."""
    return f"{SCHEME}{kind_of_id(record_id)}/{record_id}"


def named_in(ref: str) -> str:
    """The id or slug that a link names; what is no link is itself."""
    return ref.removeprefix(SCHEME).rpartition("/")[2] if ref.startswith(SCHEME) else ref
