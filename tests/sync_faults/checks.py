"""Invariants of a settled team.

Replicas equal the Core; each acknowledged write is there once, or refused with an alert to its
writer.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cortex.base.record_model import Comment, Draft, Notification, Record, Subcortex, Thread
from cortex.engine.store import STORE_NAME
from cortex.engine.store.records.json_codec import from_json, to_json
from sync_faults.plan import MemberWrite

ALERT = "system_alert"
MARK = re.compile(r"qz[a-z]{6}x")
# Actions whose first record doesn't contain the mark
UNQUOTED = ("approve", "supersede", "done with", "reopen")
COLUMNS = "id, kind, body, author, created, updated, version"


@dataclass(frozen=True, slots=True)
class Contents:
    """Records of a database, and every version of each."""

    records: dict[str, Record[Any]]
    history: dict[str, list[Record[Any]]]


@contextmanager
def opened(url: str) -> Iterator[Any]:
    """A database opened for reading, with one snapshot for all queries."""
    if url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection
            return
    file = Path(url.removeprefix("sqlite:///")) / STORE_NAME
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        yield connection


def read_contents(database: Any) -> Contents:
    """Read all records and versions of a database."""
    records = {
        row[0]: _record(row)
        for row in database.execute(f"SELECT {COLUMNS} FROM records").fetchall()
    }
    history: dict[str, list[Record[Any]]] = defaultdict(list)
    rows = database.execute(
        "SELECT record, kind, body, author, created, at, version FROM versions ORDER BY record, version"
    )
    for row in rows.fetchall():
        history[row[0]].append(_record(row))
    for number, record in records.items():
        history[number].append(record)
    return Contents(records, history)


def _record(row: Sequence[Any]) -> Record[Any]:
    number, kind, body, *rest = row
    return Record(number, from_json(kind, body), *rest)


# -- every write


@dataclass(frozen=True, slots=True)
class Refusals:
    """Refused writes of a member: the records of each by its key, and the alerts of the inbox."""

    records: Mapping[str, frozenset[str]]
    alerts: Sequence[tuple[str, str]]

    def text(self, key: str) -> str:
        """The alerts of the inbox about a refused write."""
        return "\n".join(text for about, text in self.alerts if about in self.records[key])


def read_refusals(database: Any, alerts: Sequence[Sequence[str]]) -> Refusals:
    """Read the refused writes of a home; `alerts` are the record and text of its inbox's alerts."""
    found: dict[str, set[str]] = defaultdict(set)
    ask = "SELECT key, record FROM outbox JOIN outbox_records ON outbox_records.entry = outbox.id WHERE state = 'refused'"
    for key, record in database.execute(ask):
        found[key.partition("@")[0]].add(record)  # the sending machine stands behind it
    return Refusals(
        {key: frozenset(ids) for key, ids in found.items()},
        [(about, text) for about, text in alerts],
    )


def check_writes(
    core: Contents, writes: Iterable[MemberWrite], refusals: Mapping[str, Refusals]
) -> set[str]:
    """Check that every write is at the Core once, or refused with an alert to its writer.

    Returns the marks of the refused writes.
    """
    made, changed = _made(core), _changed(core)
    refused: set[str] = set()
    for write in writes:
        known = refusals[write.member]
        is_refused = write.key in known.records
        if is_refused:
            text = known.text(write.key)
            assert write.refusable, f"{write} was refused: {text}"
            assert write.mark in text or (text and write.action in UNQUOTED), (
                f"no alert about {write}: {text}"
            )
            refused.add(write.mark)
        if (
            write.refused_here
            or not (write.shape.makes or write.shape.sets)
            or _was_linked(core, write)
        ):
            continue
        expected = 0 if is_refused else write.shape.count
        found = _times(write, made, changed)
        assert found == expected or not (write.acknowledged or found), (
            f"{write} is there {found} times, refused: {is_refused}"
        )
    return refused


def _was_linked(core: Contents, write: MemberWrite) -> bool:
    """True for a link that another write had made already: its id is the answer then."""
    versions = core.history.get(write.made, ()) if write.action == "link" else ()
    return bool(versions) and write.mark not in _own_text(versions[0])


def _times(
    write: MemberWrite,
    made: Mapping[tuple[str, str], Sequence[str]],
    changed: Counter[tuple[str, str, str]],
) -> int:
    if not write.shape.makes:
        mark = write.about if write.action == "pin" else write.mark
        about = write.made if write.action == "pin" else write.about
        times = changed[about, write.shape.sets, mark]
        return min(times, 1) if write.action == "pin" else times  # pinned by both, it is pinned
    ids = made.get((write.shape.makes, write.mark), ())
    if write.acknowledged and write.shape.makes != "link":
        assert set(ids) <= set(write.made.split()), f"{write} made {ids}"
    return len(ids)


def marks_in(text: str) -> list[str]:
    return MARK.findall(text)


def _made(core: Contents) -> dict[tuple[str, str], list[str]]:
    """Ids of the records that were made with a mark, by kind and mark."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for number, versions in core.history.items():
        for mark in set(marks_in(_own_text(versions[0]))):
            found[versions[0].kind, mark].append(number)
    return found


def _own_text(record: Record[Any]) -> str:
    """The record's own text: a summary quotes others."""
    body = record.body
    return to_json(
        replace(body, summary="", summary_sources=()) if isinstance(body, Thread) else body
    )


def _changed(core: Contents) -> Counter[tuple[str, str, str]]:
    """Number of times that a mark, or an id, was added to a field of a record."""
    found: Counter[tuple[str, str, str]] = Counter()
    for number, versions in core.history.items():
        for before, after in zip([None, *versions], versions, strict=False):
            for name in FIELDS:
                new = _values(after, name) - (_values(before, name) if before else set())
                found.update((number, name, mark) for mark in new)
    return found


FIELDS = ("review_notes", "notes", "blocked_reason", "tags", "watchers", "title", "body", "evidence", "description", "glossary",
          "pinned_threads", "resolution")  # fmt: skip


def _values(record: Record[Any], name: str) -> set[str]:
    value = getattr(record.body, name, "")
    return set(value) if name == "pinned_threads" else set(marks_in(repr(value)))


def check_published(core: Contents) -> None:
    """Check that a comment's draft was published once if it was approved, and never otherwise."""
    published = Counter(
        mark
        for record in core.records.values()
        if isinstance(record.body, Comment)
        for mark in marks_in(record.body.body[:16])
        if record.body.body.startswith("Say ")
    )
    for record in core.records.values():
        if isinstance(record.body, Draft) and record.body.type == "comment":
            (mark,) = set(marks_in(record.body.body))
            assert published[mark] == (record.body.state == "published"), (
                f"{record.id} {record.body.state}: {published[mark]}"
            )


# -- the replicas


def check_replica(
    name: str,
    core: Contents,
    replica: Contents,
    sees: Callable[[Record[Any]], bool],
    translated: Callable[[Record[Any]], Record[Any]],
    refused: frozenset[str],
) -> None:
    """Check that a replica has exactly the records that its owner may see.

    Alerts and refused records are its own.
    """
    expected = {
        number: translated(record) for number, record in core.records.items() if sees(record)
    }
    extra = set(replica.records) - set(expected)
    unexpected = [
        replica.records[number]
        for number in sorted(extra)
        if not is_alert(replica.records[number]) and number not in refused
    ]
    assert not unexpected, f"only {name} has {unexpected[:3]}"
    missing = sorted(set(expected) - set(replica.records))
    assert not missing, (
        f"{name} misses {len(missing)}: {[core.records[number] for number in missing[:3]]}"
    )
    for number, record in expected.items():
        assert replica.records[number] == record, (
            f"{name} has {replica.records[number]}\nand the Core {record}"
        )


def is_alert(record: Record[Any]) -> bool:
    return isinstance(record.body, Notification) and record.body.type == ALERT


def subcortexes_of(core: Contents) -> list[Record[Subcortex]]:
    return [record for record in core.records.values() if isinstance(record.body, Subcortex)]
