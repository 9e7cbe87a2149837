"""What must hold when all is quiet again: replicas like the Core, every acknowledged write there
once, or refused where its writer sees it.
"""

from __future__ import annotations

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
from sync_faults.plan import Deed

ALERT = "system_alert"
# The first record that they write says something else
UNQUOTED = ("approve", "supersede", "done with", "reopen")
COLUMNS = "id, kind, body, author, created, updated, version"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a database has: its records, and how each was in every version."""

    records: dict[str, Record[Any]]
    history: dict[str, list[Record[Any]]]


@contextmanager
def opened(url: str) -> Iterator[Any]:
    """A database as it is, for reading: one view for all questions."""
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


def kept_in(database: Any) -> Kept:
    """All that a database has."""
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
    return Kept(records, history)


def _record(row: Sequence[Any]) -> Record[Any]:
    number, kind, body, *rest = row
    return Record(number, from_json(kind, body), *rest)


# -- every write
# -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusals:
    """What a member's writes were refused: by their keys the records that each was about, and what
    the inbox tells of which record.
    """

    records: Mapping[str, frozenset[str]]
    told: Sequence[tuple[str, str]]

    def text(self, key: str) -> str:
        """What the inbox says of a refused write."""
        return "\n".join(text for about, text in self.told if about in self.records[key])


def refusals_in(database: Any, told: Sequence[Sequence[str]]) -> Refusals:
    """The refused writes of a home; `told` is about what its inbox alerts, and how."""
    found: dict[str, set[str]] = defaultdict(set)
    ask = "SELECT key, record FROM outbox JOIN outbox_records ON outbox_records.entry = outbox.id WHERE state = 'refused'"
    for key, record in database.execute(ask):
        found[key.partition("@")[0]].add(record)  # behind it stands which machine sent it
    return Refusals(
        {key: frozenset(ids) for key, ids in found.items()}, [(about, text) for about, text in told]
    )


def check_deeds(core: Kept, deeds: Iterable[Deed], refusals: Mapping[str, Refusals]) -> set[str]:
    """Every deed is at the Core once, or not at all and told to who did it; gives the marks of
    those that were refused.
    """
    made, changed = _made(core), _changed(core)
    refused: set[str] = set()
    for deed in deeds:
        known = refusals[deed.member]
        is_refused = deed.key in known.records
        if is_refused:
            text = known.text(deed.key)
            assert deed.refusable, f"{deed} was refused: {text}"
            assert deed.mark in text or (text and deed.deed in UNQUOTED), (
                f"nobody is told of {deed}: {text}"
            )
            refused.add(deed.mark)
        if (
            deed.refused_here
            or not (deed.shape.makes or deed.shape.sets)
            or _was_linked(core, deed)
        ):
            continue
        wanted = 0 if is_refused else deed.shape.count
        there = _times(deed, made, changed)
        assert there == wanted or not (deed.acknowledged or there), (
            f"{deed} is there {there} times, refused: {is_refused}"
        )
    return refused


def _was_linked(core: Kept, deed: Deed) -> bool:
    """Whether a link was there already, made by another deed: then that is the one that is told."""
    versions = core.history.get(deed.made, ()) if deed.deed == "link" else ()
    return bool(versions) and deed.mark not in _own_text(versions[0])


def _times(
    deed: Deed,
    made: Mapping[tuple[str, str], Sequence[str]],
    changed: Counter[tuple[str, str, str]],
) -> int:
    if not deed.shape.makes:
        mark = deed.about if deed.deed == "pin" else deed.mark
        about = deed.made if deed.deed == "pin" else deed.about
        times = changed[about, deed.shape.sets, mark]
        return min(times, 1) if deed.deed == "pin" else times  # pinned by both, it is pinned
    ids = made.get((deed.shape.makes, deed.mark), ())
    if deed.acknowledged and deed.shape.makes != "link":
        assert set(ids) <= set(deed.made.split()), f"{deed} made {ids}"
    return len(ids)


class _Marks:
    """Finds the marks in a text, whatever else it says."""

    def __init__(self) -> None:
        import re

        self._pattern = re.compile(r"qz[a-z]{6}x")

    def __call__(self, text: str) -> list[str]:
        return self._pattern.findall(text)


marks_in = _Marks()


def _made(core: Kept) -> dict[tuple[str, str], list[str]]:
    """Which records of a kind were made with a mark."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for number, versions in core.history.items():
        for mark in set(marks_in(_own_text(versions[0]))):
            found[versions[0].kind, mark].append(number)
    return found


def _own_text(record: Record[Any]) -> str:
    """What a record says itself: a summary quotes others."""
    body = record.body
    return to_json(
        replace(body, summary="", summary_sources=()) if isinstance(body, Thread) else body
    )


def _changed(core: Kept) -> Counter[tuple[str, str, str]]:
    """How often a mark, or an id, came into a field of a record."""
    found: Counter[tuple[str, str, str]] = Counter()
    for number, versions in core.history.items():
        for before, after in zip([None, *versions], versions, strict=False):
            for name in FIELDS:
                new = _said(after, name) - (_said(before, name) if before else set())
                found.update((number, name, mark) for mark in new)
    return found


FIELDS = ("review_notes", "notes", "blocked_reason", "tags", "watchers", "title", "body", "evidence", "description", "glossary",
          "pinned_threads", "resolution")  # fmt: skip


def _said(record: Record[Any], name: str) -> set[str]:
    value = getattr(record.body, name, "")
    return set(value) if name == "pinned_threads" else set(marks_in(repr(value)))


def check_published(core: Kept) -> None:
    """A draft of a comment was published once, where somebody approved it, and else not."""
    said = Counter(
        mark
        for record in core.records.values()
        if isinstance(record.body, Comment)
        for mark in marks_in(record.body.body[:16])
        if record.body.body.startswith("Say ")
    )
    for record in core.records.values():
        if isinstance(record.body, Draft) and record.body.type == "comment":
            (mark,) = set(marks_in(record.body.body))
            assert said[mark] == (record.body.state == "published"), (
                f"{record.id} {record.body.state}: {said[mark]}"
            )


# -- the replicas
# ------------------------------------------------------------------------------------------------------


def check_replica(
    name: str,
    core: Kept,
    replica: Kept,
    sees: Callable[[Record[Any]], bool],
    translated: Callable[[Record[Any]], Record[Any]],
    refused: frozenset[str],
) -> None:
    """A replica has what its owner may see of the Core, word by word; besides that what it was told
    alone, and what was refused.
    """
    wanted = {number: translated(record) for number, record in core.records.items() if sees(record)}
    extra = set(replica.records) - set(wanted)
    strange = [
        replica.records[number]
        for number in sorted(extra)
        if not is_alert(replica.records[number]) and number not in refused
    ]
    assert not strange, f"only {name} has {strange[:3]}"
    missing = sorted(set(wanted) - set(replica.records))
    assert not missing, (
        f"{name} misses {len(missing)}: {[core.records[number] for number in missing[:3]]}"
    )
    for number, record in wanted.items():
        assert replica.records[number] == record, (
            f"{name} has {replica.records[number]}\nand the Core {record}"
        )


def is_alert(record: Record[Any]) -> bool:
    return isinstance(record.body, Notification) and record.body.type == ALERT


def subcortexes_of(core: Kept) -> list[Record[Subcortex]]:
    return [record for record in core.records.values() if isinstance(record.body, Subcortex)]
