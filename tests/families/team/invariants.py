"""Checks of a ledger that hold at any moment, also after a process was killed.

They read the database itself, statement by statement.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

from cortex.base.record_model import (
    FOUND_KINDS,
    SENSITIVE,
    Comment,
    Draft,
    Link,
    Notification,
    Record,
    Thread,
    refs_of,
)
from cortex.base.settings import Settings
from cortex.engine.store import STORE_NAME, kind_of_id
from cortex.engine.store.records.json_codec import from_json
from cortex.families.team.index_text import wording
from cortex.families.team.writes.discussion import _summarized

OPEN = ("new", "seen")
_CITED = re.compile(r"\[(comment_\w+|thread_\w+)\]")


def check_records(home: Path, settings: Settings) -> dict[str, Record[Any]]:
    """Check all invariants of a store and return its records by id."""
    with closing(
        sqlite3.connect(f"{(home / STORE_NAME).absolute().as_uri()}?mode=ro", uri=True)
    ) as database:
        database.execute("BEGIN")  # one view for all questions
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        records = check_ledger(database)
        _check_docs(database, records, settings)
    return records


def check_replica(database: sqlite3.Connection, settings: Settings) -> None:
    """Check records taken over from another store: indexed by their texts and references."""
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    records = _records(database)
    assert _refs(database) == _refs_of(records)
    _check_docs(database, records, settings)


def check_ledger(database: Any) -> dict[str, Record[Any]]:
    """Check records in SQLite or PostgreSQL and return them by id."""
    records = _records(database)
    _check_versions(database, records)
    _check_keys(database, records)
    _check_refs(database, records)
    _check_threads(records)
    _check_drafts_and_notices(records)
    _check_superseded(database, records)
    return records


def _records(database: Any) -> dict[str, Record[Any]]:
    rows = database.execute(
        "SELECT id, kind, body, author, created, updated, version, state, sensitivity FROM records"
    )
    found: dict[str, Record[Any]] = {}
    for number, kind, body, author, created, updated, version, state, sensitivity in rows:
        record = found[number] = Record(
            number, from_json(kind, body), author, created, updated, version
        )
        assert (record.kind, record.body.state, record.body.sensitivity) == (
            kind,
            state,
            sensitivity,
        )
        assert kind_of_id(number) == kind and author and 0 < created <= updated
    return found


def _check_versions(database: Any, records: dict[str, Record[Any]]) -> None:
    """Versions 1 to the last, each once, and one line of the audit log for each."""
    kept: dict[str, list[int]] = defaultdict(list)
    for number, version in database.execute(
        "SELECT record, version FROM versions ORDER BY record, version"
    ):
        kept[number].append(version)
    audit: dict[str, list[int]] = defaultdict(list)
    for number, version in database.execute(
        "SELECT record, version FROM audit WHERE version > 0 ORDER BY id"
    ):
        audit[number].append(version)
    assert set(kept) <= set(records) and set(audit) == set(records)
    for number, record in records.items():
        assert kept[number] == list(range(1, record.version)), number
        assert audit[number] == list(range(1, record.version + 1)), number


def _check_keys(database: Any, records: dict[str, Record[Any]]) -> None:
    """Every action has a stored key, and the result of a key exists."""
    keys = {
        (actor, key): result
        for actor, key, result in database.execute("SELECT actor, key, result FROM keys")
    }
    deeds = database.execute(
        "SELECT actor, key, count(DISTINCT at) FROM audit WHERE version > 0 GROUP BY actor, key"
    ).fetchall()
    assert {(actor, key) for actor, key, _ in deeds} <= set(keys)
    assert all(moments == 1 for _, _, moments in deeds), (
        "one step has one moment: a key was used for two"
    )
    for result in keys.values():
        rows = json.loads(result) if result.startswith("[") else [result]
        ids = [row if isinstance(row, str) else row["id"] for row in rows]
        assert {number for number in ids if number} <= set(records), result


def _check_refs(database: Any, records: dict[str, Record[Any]]) -> None:
    """References are those of the bodies; only citations and drafts may point to nothing."""
    rows = _refs(database)
    assert rows == _refs_of(records)
    for number, role, target in rows:
        free = role == "citation" or kind_of_id(number) == "draft"
        assert free or not kind_of_id(target) or target in records, (number, role, target)


def _refs(database: Any) -> set[tuple[str, str, str]]:
    return set(database.execute("SELECT record, role, target FROM refs"))


def _refs_of(records: dict[str, Record[Any]]) -> set[tuple[str, str, str]]:
    return {(number, *ref) for number, record in records.items() for ref in refs_of(record.body)}


def _check_docs(
    database: sqlite3.Connection, records: dict[str, Record[Any]], settings: Settings
) -> None:
    """Each findable record has one doc, in the source of its kind, with its current text."""
    word = wording(settings)
    expected: set[tuple[str, str, bytes]] = set()
    for number, record in records.items():
        worded = word(record, records.get)
        assert worded is None or record.kind in FOUND_KINDS
        if worded is not None:
            expected.add((record.kind + ("" if worded.meaning else "!"), number, worded.hash))
    docs = database.execute(
        "SELECT sources.name, docs.path, blobs.hash FROM docs JOIN sources ON sources.id = docs.source "
        "JOIN blobs ON blobs.id = docs.blob WHERE sources.kind = 'records' AND sources.name != 'person'"
    ).fetchall()
    assert len(docs) == len(expected) and set(docs) == expected
    named = database.execute(
        "SELECT sources.name, records.id FROM records JOIN sources ON sources.id = records.source"
    )
    assert set(named) == {(name, number) for name, number, _ in expected}


def _check_threads(records: dict[str, Record[Any]]) -> None:
    """A summary cites its own thread only, and is the one that its comments make."""
    comments: dict[str, list[Record[Comment]]] = defaultdict(list)
    for number in sorted(records):
        if isinstance(records[number].body, Comment):
            comments[records[number].body.thread].append(records[number])
    for number, record in records.items():
        if isinstance(record.body, Thread):
            body, own = record.body, {number, *(comment.id for comment in comments[number])}
            assert set(body.summary_sources) <= own, number
            assert set(_CITED.findall(body.summary)) <= own & set(body.summary_sources), number
            supplied = bool(body.summary_by)
            if supplied and body.sensitivity != SENSITIVE:
                assert records[body.summary_sources[0]].body.sensitivity != SENSITIVE, number
            assert (
                not comments[number] or _summarized(record, comments[number], supplied) == body
            ), "the summary is of another day"


def _check_drafts_and_notices(records: dict[str, Record[Any]]) -> None:
    """A published draft has one record by its author; one notification is open per event."""
    became = Counter(
        record.body.published for record in records.values() if isinstance(record.body, Draft)
    )
    del became[""]
    assert set(became) <= set(records) and all(
        times == 1 or kind_of_id(number) == "task" for number, times in became.items()
    )
    opened: Counter[tuple[str, str, str]] = Counter()
    for record in records.values():
        body = record.body
        if isinstance(body, Draft):
            assert bool(body.published) == (body.state == "published"), record.id
            assert (
                kind_of_id(body.published) in ("", "task")
                or records[body.published].author == record.author
            )
        if isinstance(body, Notification) and body.state in OPEN:
            opened[body.type, body.recipient, body.about] += 1
            about = records[body.about]
            if body.type == "review_needed" and isinstance(about.body, Draft):
                assert about.body.state == "pending_review", "decided, and still to be reviewed"
    assert all(times == 1 for times in opened.values()), opened.most_common(1)


def _check_superseded(database: Any, records: dict[str, Record[Any]]) -> None:
    """Supersession is in both artifacts and in a link; the last of several is named."""
    links = {
        (record.body.source, record.body.target)
        for record in records.values()
        if isinstance(record.body, Link) and record.body.relation == "supersedes"
    }
    earlier = database.execute(
        "SELECT record, body FROM versions WHERE kind = 'artifact'"
    ).fetchall()
    said = {
        (number, getattr(from_json("artifact", body), "supersedes", "")) for number, body in earlier
    }
    said |= {(number, getattr(record.body, "supersedes", "")) for number, record in records.items()}
    for number, record in records.items():
        if by := getattr(record.body, "superseded_by", ""):
            assert record.body.state == "superseded" and (by, number) in said & links
