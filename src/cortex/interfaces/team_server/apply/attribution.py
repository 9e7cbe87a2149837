"""Attribution inside a record: a principal can't put words into the mouth of another.

The transaction checks the author of a record. Naming others in a record (assignee, owner, watcher)
attributes no statement to them.

Road not taken: rejecting a record because of a foreign byline. After a restore, a client that still
has such a record would keep it to itself; the named principals upload their own statements anyway.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cortex.base.record_model import Draft, Thread

# Byline field of each record kind, and the fields that it attributes.
BYLINES: Mapping[type, Mapping[str, tuple[str, ...]]] = {
    Thread: {"summary_by": ("summary", "summary_sources")},
    Draft: {"reviewed_by": ("reviewed_at", "review_notes")},
}


def without_bylines(body: Any, may_name: Callable[[str], bool]) -> Any:
    """Clear the attributed fields of a new record where `may_name` rejects the byline."""
    for byline, attributed in BYLINES.get(type(body), {}).items():
        name = getattr(body, byline)
        if name and not may_name(name):
            body = replace(
                body, **{field: type(getattr(body, field))() for field in (byline, *attributed)}
            )
    return body


def reviewed(before: Draft, after: Draft, name: str, now: int) -> Draft:
    """Set the reviewer of a changed draft.

    The actor becomes the reviewer by deciding about the draft or by editing the review notes; else
    the review stays as it was.
    """
    decided = after.state != before.state or (after.reviewed_by and not before.reviewed_by)
    if decided or after.review_notes != before.review_notes:
        return replace(after, reviewed_by=name, reviewed_at=min(after.reviewed_at or now, now))
    return replace(after, reviewed_by=before.reviewed_by, reviewed_at=before.reviewed_at)
