"""Placement of a contribution: named by the caller, else by the project, else a draft.

A place that the caller named and that doesn't exist is never replaced by another: nothing is posted
elsewhere than intended. A place that the project's files name and that no longer exists is ignored
and reported. Knows nothing about drafts and writes no record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import Record
from cortex.base.text import one_line
from cortex.engine.store import RecordQueries, RecordTransaction
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
# States of a task that no longer takes contributions from the project's default.
ENDED = ("done", "cancelled")
_ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class Placement:
    """Ids of the records that contributions go to; "" where there is none."""

    thread: str = ""
    task: str = ""
    subcortex: str = ""
    why: str = DRAFTS_ONLY
    # One sentence for each named place that can't be used.
    missing: tuple[str, ...] = ()


def route(
    lookup: RecordQueries,
    families: Mapping[str, object],
    *,
    thread: str = "",
    task: str = "",
    subcortex: str = "",
) -> Placement:
    """Choose the place of contributions: named by argument, else by the project's files.

    `families` is `Settings.families`.
    """
    named = {"thread": thread, "task": task, "subcortex": subcortex}
    if any(named.values()):
        return _place(
            lookup, named, {name: f"the {name} that was named" for name in named}, strict=True
        )
    mapped = {name: families.get(key, "") for name, key in NAMES.items()}
    return _place(
        lookup,
        mapped,
        {name: f"the project's {name} ({key})" for name, key in NAMES.items()},
        strict=False,
    )


def find(
    records: RecordQueries | RecordTransaction, ref: str, kind: str
) -> tuple[Record[Any] | None, str]:
    """Find a record that is open for contributions; otherwise None and the reason."""
    try:
        record = resolve_ref(records, ref, kind)
    except InputError as error:
        return None, error.message
    return (None, _describe_state(record)) if record.body.state == _ARCHIVED else (record, "")


def _describe_state(record: Record[Any]) -> str:
    """Describe the state of a record that can't be used."""
    return f"{record.id} ({one_line(record.body.title, 80)}) is {record.body.state}"


def _place(
    lookup: RecordQueries, named: Mapping[str, object], whys: Mapping[str, str], *, strict: bool
) -> Placement:
    """Resolve the named places; if `strict`, a name that fails isn't replaced by another."""
    records: dict[str, Record[Any]] = {}
    missing: list[str] = []
    for kind, ref in named.items():
        if not ref:
            continue
        record, why = (
            find(lookup, ref.strip(), kind) if isinstance(ref, str) else (None, "it isn't a text")
        )
        if record is not None and record.body.state in ENDED and not strict:
            record, why = None, _describe_state(record)
        if record is None:
            missing.append(f"{whys[kind]}: {why}")
        else:
            records[kind] = record
    thread, task, why = _thread_of(
        lookup, records, whys, missing, strict=strict and bool(named["thread"])
    )
    subcortex = records["subcortex"].id if "subcortex" in records else ""
    if not subcortex and not (strict and named["subcortex"]):
        subcortex = next(
            (
                parent.body.subcortex
                for parent in (thread, task)
                if parent and parent.body.subcortex
            ),
            "",
        )
    if not thread:
        why = whys["subcortex"] if "subcortex" in records else whys["task"] if task else DRAFTS_ONLY
    return Placement(
        thread.id if thread else "", task.id if task else "", subcortex, why, tuple(missing)
    )


def _thread_of(
    lookup: RecordQueries,
    records: Mapping[str, Record[Any]],
    whys: Mapping[str, str],
    missing: list[str],
    *,
    strict: bool,
) -> tuple[Record[Any] | None, Record[Any] | None, str]:
    """Return the named thread, else the task's; the task; and the reason for the choice."""
    task = records.get("task")
    if "thread" in records or strict or task is None or not task.body.thread:
        return records.get("thread"), task, whys["thread"]
    thread, why = find(lookup, task.body.thread, "thread")
    if thread is None:
        missing.append(f"the thread of {whys['task']}: {why}")
    return thread, task, f"the thread of {whys['task']}"
