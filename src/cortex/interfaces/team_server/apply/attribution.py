"""Who is said to have said something inside of a record: nobody has others speak.

The author of a record is the step's matter. Others whom a record names (who is to do it, who stands
for it, who hears of it) say nothing by that. Road not taken: refusing a record for what it says in
the name of others; whoever has it back after a Core was put back would keep it for themselves, and
they say it again themselves. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cortex.base.record_model import Draft, Thread

BYLINES: Mapping[type, Mapping[str, tuple[str, ...]]] = {  # who says it, and what
    Thread: {"summary_by": ("summary", "summary_sources")},
    Draft: {"reviewed_by": ("reviewed_at", "review_notes")},
}


def without_bylines(body: Any, may_name: Callable[[str], bool]) -> Any:
    """What a record says that is new here, as it was; but for what it says in the name of those who
    may not be named.
    """
    for by, what in BYLINES.get(type(body), {}).items():
        name = getattr(body, by)
        if name and not may_name(name):
            body = replace(body, **{field: type(getattr(body, field))() for field in (by, *what)})
    return body


def reviewed(before: Draft, after: Draft, name: str, now: int) -> Draft:
    """A draft that somebody changes: whoever decides about it, or says something to that, is who
    reviewed it.
    """
    decided = after.state != before.state or (after.reviewed_by and not before.reviewed_by)
    if decided or after.review_notes != before.review_notes:
        return replace(after, reviewed_by=name, reviewed_at=min(after.reviewed_at or now, now))
    return replace(after, reviewed_by=before.reviewed_by, reviewed_at=before.reviewed_at)
