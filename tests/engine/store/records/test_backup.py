"""Ledger backups: a round trip into either database, and refused damaged files."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cortex.base.errors import CortexError
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Attachment,
    Body,
    Draft,
    Link,
    Observation,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.text import hash_bytes
from cortex.engine import chunkers
from cortex.engine.store import IndexedText, RecordTransaction, TransactionOptions
from cortex.engine.store.records import backup
from cortex.engine.store.records.backup import dump, load
from cortex.engine.store.records.ledger import Ledger
from cortex.families.team.ids import new_id

PERSON = Actor("person", 4)
TABLES = (
    "records",
    "refs",
    "versions",
    "keys",
    "audit",
    "principals",
    "grants",
    "tokens",
    "counters",
)
# Longer than a row of an index may be, however it is packed.
FAR = "https://wiki.example/" + "".join(
    Random(1).choices([chr(code) for code in range(0x4E00, 0x9FFF)], k=1_900)
)
keys = count()


def word(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> IndexedText | None:
    text = f"{record.body.title}\n"
    return IndexedText(hash_bytes(text.encode()), chunkers.cut(text, "a.md", "markdown"))


def make(ledger: Ledger, body: Body, key: str = "") -> Record[Any]:
    number = new_id(type(body))
    ledger.records.perform(
        lambda step: step.make(number, body).id,
        TransactionOptions(
            actor=PERSON, key=key or f"k{next(keys)}", action="write", payload="", wording=word
        ),
    )
    found = ledger.records.one(number)
    assert found is not None
    return found


def change(ledger: Ledger, record: Record[Any], title: str) -> None:
    def work(step: RecordTransaction) -> str:
        return step.put(replace(record, body=replace(record.body, title=title))).id

    ledger.records.perform(
        work,
        TransactionOptions(
            actor=PERSON, key=f"k{next(keys)}", action="change", payload="", wording=word
        ),
    )


def fill(ledger: Ledger) -> str:
    """Write records of every kind; gives a token."""
    topic = make(ledger, Subcortex("billing", "Billing – Abrechnung €"))
    thread = make(
        ledger, Thread('A "title"\n\twith 日本語 and 🐈', subcortex=topic.id, tags=("a b",))
    )
    change(ledger, thread, "another")
    make(ledger, Draft("comment", "d", "b", target=thread.id))
    make(ledger, Link(thread.id, "supports", topic.id))
    make(ledger, Task("salaries", sensitivity=SENSITIVE), key="known")
    make(ledger, Observation("far away", attachments=(Attachment("a", FAR),)))
    ledger.principals.add("principal_1", "ada", 4, True, {"*": True, topic.id: False})
    return ledger.principals.make_token("principal_1", "laptop")[1]


def content(ledger: Ledger) -> dict[str, list[list[Any]]]:
    """All rows, without those that belong to one database alone."""
    columns = {table.name: ", ".join(table.columns) for table in backup._TABLES}
    with ledger.connections.read() as connection:
        return {
            table: sorted(
                [
                    [bytes(value) if isinstance(value, memoryview) else value for value in row]
                    for row in connection.execute(
                        f"SELECT {columns[table]} FROM {table}"
                    ).fetchall()
                ]
            )
            for table in TABLES
        }


def refused(work: Callable[[], object]) -> CortexError:
    with pytest.raises(CortexError) as caught:
        work()
    return caught.value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "backup.gz"


@pytest.fixture
def empty(tmp_path: Path, open_one: Callable[[str], Ledger]) -> Ledger:
    return open_one(f"sqlite:///{tmp_path}/empty")


@pytest.mark.parametrize("into", ["sqlite", "postgresql"])
def test_ledger_backup_loads_whole_into_either_database(
    ledger: Ledger,
    into: str,
    file: Path,
    tmp_path: Path,
    open_one: Callable[[str], Ledger],
    postgres: str,
    make_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backup, "PAGE", 2)
    token = fill(ledger)
    counts = dump(ledger, file)
    other = open_one(f"sqlite:///{tmp_path}/other" if into == "sqlite" else make_database())
    assert (
        load(other, file, wording=word) == counts
        and counts["records"] == 6
        and counts["versions"] == 1
    )
    assert content(other) == content(ledger) and other.epoch() != ledger.epoch()
    found = other.principals.by_token(token)
    assert (
        found is not None
        and found.name == "ada"
        and found.grants == {"*": True, **{k: False for k in found.grants if k != "*"}}
    )
    assert other.records.known(PERSON, "known", "write", "") is not None
    last = other.records.last_change()
    make(other, Task("goes on"))
    assert [kept.record.body.title for kept in other.records.changes(last, 9)] == ["goes on"]
    assert other.records.deeds()[0].id == counts["audit"] + 1


def test_loaded_records_are_found(file: Path, empty: Ledger, ledger: Ledger) -> None:
    fill(ledger)
    dump(ledger, file)
    load(empty, file, wording=word)
    with empty.connections.read() as connection:
        paths = {row[0] for row in connection.execute("SELECT path FROM docs")}
        shelves = {row[0] for row in connection.execute("SELECT name FROM sources")}
    assert (
        paths == {record.id for record in empty.records.select(RecordFilter())}
        and "task@!" in shelves
    )


def test_backup_during_writes_is_of_one_moment(
    ledger: Ledger,
    ledger_url: str,
    file: Path,
    empty: Ledger,
    open_one: Callable[[str], Ledger],
    monkeypatch,
) -> None:
    """A step writes two tasks, so a backup must have both of them or none."""
    monkeypatch.setattr(backup, "PAGE", 3)
    writer = open_one(ledger_url)
    stop = False

    def pair(step: RecordTransaction) -> str:
        name = f"{next(keys)}"
        return step.make(new_id(Task), Task(name)).id + step.make(new_id(Task), Task(name)).id

    def write() -> None:
        while not stop:
            writer.records.perform(
                pair,
                TransactionOptions(
                    actor=PERSON, key=f"k{next(keys)}", action="w", payload="", wording=word
                ),
            )

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        try:
            while writer.records.last_change() < 20:
                pass
            dump(ledger, file)
            at_least = ledger.records.last_change()
            while writer.records.last_change() == at_least:
                pass  # it was going on
        finally:
            stop = True
        writing.result(30)
    counts = load(empty, file, wording=word)
    titles = [record.body.title for record in empty.records.select(RecordFilter(), 10_000)]
    assert (
        len(titles)
        == 2 * len(set(titles))
        == counts["records"]
        == counts["audit"]
        == empty.records.last_change()
    )
    assert counts["keys"] * 2 == counts["records"]


@pytest.mark.parametrize(
    ("place", "code"),
    [("/dev/full", "DISK_FULL"), ("nowhere/backup", "FILE_NOT_FOUND"), (".", "PERMISSION_DENIED")],
)
def test_unwritable_backup_file_is_named_in_the_error(
    ledger: Ledger, tmp_path: Path, place: str, code: str
) -> None:
    if place == "/dev/full" and not os.path.exists(place):
        pytest.skip("Linux has it")
    fill(ledger)
    error = refused(lambda: dump(ledger, tmp_path / place))
    assert (
        error.code == code
        and str(tmp_path / place) in error.message
        and "cortex.db" not in error.message
    )


def test_backup_is_synced_to_disk_before_it_is_reported(
    ledger: Ledger, file: Path, monkeypatch
) -> None:
    fill(ledger)
    real, synced = os.fsync, list[bytes]()

    def sync(number: int) -> None:
        real(number)
        synced.append(file.read_bytes())

    monkeypatch.setattr(os, "fsync", sync)
    dump(ledger, file)
    assert synced and synced[-1] == file.read_bytes()


@pytest.mark.parametrize("used", ["record", "principal"])
def test_loading_into_a_used_ledger_is_refused(ledger: Ledger, file: Path, used: str) -> None:
    dump(ledger, file)
    if used == "record":
        make(ledger, Task("one"))
    else:
        ledger.principals.add("principal_1", "ada", 4, True, {})
    before, epoch = content(ledger), ledger.epoch()
    assert refused(lambda: load(ledger, file, wording=word)).code == "ARGUMENT_INVALID"
    assert content(ledger) == before and ledger.epoch() == epoch


def _lines(file: Path) -> list[bytes]:
    return gzip.decompress(file.read_bytes()).splitlines(keepends=True)


def _without_a_row(file: Path) -> bytes:
    lines = _lines(file)
    return gzip.compress(b"".join(lines[:5] + lines[6:]))


def _with_another_title(file: Path) -> bytes:
    return gzip.compress(gzip.decompress(file.read_bytes()).replace(b"salaries", b"Salaries"))


def _without_its_end(file: Path) -> bytes:
    return gzip.compress(b"".join(_lines(file)[:-1]))


def _of_something_else(file: Path) -> bytes:
    return gzip.compress(b'{"format": "other"}\n{}\n')


DAMAGES: dict[str, Callable[[Path], bytes]] = {
    "empty": lambda file: b"",
    "empty gzip": lambda file: gzip.compress(b""),
    "no gzip": lambda file: b"SQLite format 3\0" * 100,
    "cut": lambda file: file.read_bytes()[:-40],
    "cut by a byte": lambda file: file.read_bytes()[:-1],
    "flipped": lambda file: (
        file.read_bytes()[:300] + bytes([file.read_bytes()[300] ^ 1]) + file.read_bytes()[301:]
    ),
    "a row is missing": _without_a_row,
    "a row says something else": _with_another_title,
    "the end is missing": _without_its_end,
    "a row is empty": lambda file: gzip.compress(
        _lines(file)[0] + b"[]\n" + b"".join(_lines(file)[1:])
    ),
    "something else": _of_something_else,
    "not JSON": lambda file: gzip.compress(b"hello\n"),
    "deep JSON": lambda file: gzip.compress(b"[" * 200_000),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_backup_is_refused_before_anything_is_written(
    file: Path, empty: Ledger, tmp_path: Path, open_one: Callable[[str], Ledger], damage: str
) -> None:
    whole = open_one(f"sqlite:///{tmp_path}/whole")
    fill(whole)
    dump(whole, file)
    file.write_bytes(DAMAGES[damage](file))
    before, epoch = content(empty), empty.epoch()
    error = refused(lambda: load(empty, file, wording=word))
    assert error.code == "IMPORT_UNREADABLE" and error.context == {"path": str(file)}
    assert content(empty) == before and empty.epoch() == epoch


def test_backup_of_a_newer_cortex_is_refused(file: Path, empty: Ledger) -> None:
    dump(empty, file)
    header, *rest = _lines(file)
    file.write_bytes(
        gzip.compress(
            json.dumps({**json.loads(header), "schema": 99}).encode() + b"\n" + b"".join(rest)
        )
    )
    assert refused(lambda: load(empty, file, wording=word)).code == "STORE_NEWER"


def test_failed_load_leaves_no_record(file: Path, ledger: Ledger, empty: Ledger) -> None:
    fill(ledger)
    dump(ledger, file)

    def fail(record: Record[Any], get: Callable[[str], Record[Any] | None]) -> IndexedText | None:
        raise RuntimeError("halfway")

    before, epoch = content(empty), empty.epoch()
    with pytest.raises(RuntimeError):
        load(empty, file, wording=fail)
    assert content(empty) == before and empty.epoch() == epoch
