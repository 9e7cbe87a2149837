"""Where a contribution belongs: what somebody said, else what the project says, else nowhere: then
it waits as a draft.

What was said and isn't there is never replaced by something that is: nothing is posted elsewhere
than it was meant for. What the project's files name and isn't there any more doesn't count, and is
told. Knows no draft and writes no record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import Record
from cortex.base.text import one_line
from cortex.engine.store import RecordLookup, RecordTransaction
from cortex.families.team.project_context import (
    NAMES,
    ProjectContext,
    clear_context,
    context_file,
    read_context,
    write_context,
)
from cortex.families.team.references import resolve_ref

__all__ = [
    "Placement",
    "ProjectContext",
    "clear_context",
    "context_file",
    "find",
    "read_context",
    "route",
    "write_context",
]

DRAFTS_ONLY = "nothing says where it belongs: drafts only"
ENDED = ("done", "cancelled")  # of a task: nobody is at it any more
_CLOSED = "archived"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where contributions go, by id; "" where there is no such place."""

    thread: str = ""
    task: str = ""
    subcortex: str = ""
    why: str = DRAFTS_ONLY
    missing: tuple[str, ...] = ()  # what was named and doesn't count, a sentence each


def route(
    lookup: RecordLookup,
    families: Mapping[str, object],
    *,
    thread: str = "",
    task: str = "",
    subcortex: str = "",
) -> Placement:
    """Where contributions go: what is named here, else what the project's files name
    (`Settings.families`).
    """
    told = {"thread": thread, "task": task, "subcortex": subcortex}
    if any(told.values()):
        return _to(lookup, told, {name: f"the {name} that was named" for name in told}, strict=True)
    mapped = {name: families.get(key, "") for name, key in NAMES.items()}
    return _to(
        lookup,
        mapped,
        {name: f"the project's {name} ({key})" for name, key in NAMES.items()},
        strict=False,
    )


def find(
    records: RecordLookup | RecordTransaction, ref: str, kind: str
) -> tuple[Record[Any] | None, str]:
    """The record of a kind that is named, where something new may belong to it; else None and why."""
    try:
        record = resolve_ref(records, ref, kind)
    except InputError as error:
        return None, error.message
    return (None, _is_so(record)) if record.body.state == _CLOSED else (record, "")


def _is_so(record: Record[Any]) -> str:
    return f"{record.id} ({one_line(record.body.title, 80)}) is {record.body.state}"


def _to(
    lookup: RecordLookup, named: Mapping[str, object], whys: Mapping[str, str], *, strict: bool
) -> Placement:
    """The way to what is named; where `strict`, a name that leads nowhere isn't made up for by
    another one.
    """
    found: dict[str, Record[Any]] = {}
    missing: list[str] = []
    for kind, ref in named.items():
        if not ref:
            continue
        record, why = (
            find(lookup, ref.strip(), kind) if isinstance(ref, str) else (None, "it isn't a text")
        )
        if record is not None and record.body.state in ENDED and not strict:
            record, why = None, _is_so(record)
        if record is None:
            missing.append(f"{whys[kind]}: {why}")
        else:
            found[kind] = record
    thread, task, why = _thread_of(
        lookup, found, whys, missing, strict=strict and bool(named["thread"])
    )
    subcortex = found["subcortex"].id if "subcortex" in found else ""
    if not subcortex and not (strict and named["subcortex"]):
        subcortex = next(
            (one.body.subcortex for one in (thread, task) if one and one.body.subcortex), ""
        )
    if not thread:
        why = whys["subcortex"] if "subcortex" in found else whys["task"] if task else DRAFTS_ONLY
    return Placement(
        thread.id if thread else "", task.id if task else "", subcortex, why, tuple(missing)
    )


def _thread_of(
    lookup: RecordLookup,
    found: Mapping[str, Record[Any]],
    whys: Mapping[str, str],
    missing: list[str],
    *,
    strict: bool,
) -> tuple[Record[Any] | None, Record[Any] | None, str]:
    """The thread that is named, else the task's; the task; and why it is that thread."""
    task = found.get("task")
    if "thread" in found or strict or task is None or not task.body.thread:
        return found.get("thread"), task, whys["thread"]
    thread, why = find(lookup, task.body.thread, "thread")
    if thread is None:
        missing.append(f"the thread of {whys['task']}: {why}")
    return thread, task, f"the thread of {whys['task']}"
