"""One task around a running Core, in a process of its own; JSON on stdout.

`python -m bench.core.tasks fill|restore|join|sync|fresh '{...}'`

`fill` makes the records, the people and their tokens; the others are a home that joins, writes and
syncs, and writes past the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.core.clients import Client
from bench.memories.generated import words
from bench.team.generated import YEAR, make, questions
from cortex.base.actors import person
from cortex.base.record_model import Actor, Observation, Record, Subcortex
from cortex.base.settings import Settings, load
from cortex.base.visibility import EVERYWHERE
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction, TransactionOptions
from cortex.engine.store.records.backup import dump
from cortex.engine.store.records.backup import load as load_backup
from cortex.engine.store.records.ledger import Ledger, open_ledger
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.index_text import wording
from cortex.families.team.sync import connection, cycle
from cortex.families.team.wire.identity import outward, renamed
from cortex.interfaces.team_server import principals

STEP = 2_000  # records of one transaction
ASKED_FROM = 20_000  # records that questions are made from
OWNER = "ada"
PART = 10  # the few see every tenth scope
EDITOR = 3  # a tier


def fill(
    settings: Settings, url: str, file: str, count: int, seed: int, clients: int, asked: int
) -> dict[str, object]:
    """Write records, principals and tokens, and a backup for the other database."""
    words()
    with open_ledger(url) as ledger:
        wall, cpu = time.perf_counter(), time.process_time()
        scopes = _put(settings, ledger, count, seed)
        filled = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        half, few = scopes[::2], scopes[::PART]
        tokens = {
            "all": [
                _token(ledger, f"all-{number:02d}", {EVERYWHERE: True}) for number in range(clients)
            ],
            "half": [
                _token(ledger, f"half-{number:02d}", dict.fromkeys(half, True))
                for number in range(clients)
            ],
            "few": [
                _token(ledger, f"few-{number:02d}", dict.fromkeys(few, True)) for number in range(2)
            ],
            "mover": [_token(ledger, "mover", {"": True})],
        }
        wall = time.perf_counter()
        dump(ledger, Path(file))
        dumped = time.perf_counter() - wall
    texts = questions(
        asked, islice(make(min(count, ASKED_FROM), seed), min(count, ASKED_FROM)), seed
    )
    return {
        **filled,
        "dump": dumped,
        "tokens": tokens,
        "few": few,
        "scopes": scopes,
        "questions": texts,
    }


def _put(settings: Settings, ledger: Ledger, count: int, seed: int) -> list[str]:
    """Write a year of records and return the ids of the subcortexes."""
    began, rename = int(time.time() * 1000) - YEAR, outward(OWNER)
    made, scopes = make(count, seed), list[str]()
    while part := list(islice(made, STEP)):

        def work(step: RecordTransaction, part: list = part) -> str:
            for number, body, at in part:
                step.now = began + at
                step.put(renamed(Record(number, body, OWNER), rename))
            return ""

        key, texts = fresh_key(), wording(settings)
        ledger.records.perform(
            work,
            TransactionOptions(
                actor=_owner(), key=key, action="import", payload=key, wording=texts
            ),
        )
        scopes += [number for number, body, _ in part if isinstance(body, Subcortex)]
    return scopes


def _owner() -> Actor:
    return replace(person(), name=OWNER)


def _token(ledger: Ledger, name: str, grants: dict[str, bool]) -> str:
    principal = principals.add(ledger, name, EDITOR, False, grants)
    return ledger.principals.make_token(principal.id)[1]


def restore(settings: Settings, url: str, file: str) -> dict[str, object]:
    """Make a ledger of the backup."""
    with open_ledger(url) as ledger:
        wall, cpu = time.perf_counter(), time.process_time()
        load_backup(ledger, Path(file), wording=wording(settings))
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


# -- a home


def join(settings: Settings, address: str, token: str, before: int = 0) -> dict[str, object]:
    """Connect a home and sync it for the first time, after `before` unfiled observations."""
    library = _library(settings)
    try:
        wrote = _write(library, before, [""])
        connection.connect(library, address, token)
        return {"wrote": wrote, **_sync(library)}
    finally:
        library.close()


def sync(settings: Settings, count: int = 0, scopes: Sequence[str] = ()) -> dict[str, object]:
    """Sync a home, after so many observations were written there."""
    library = _library(settings)
    try:
        wrote = _write(library, count, scopes)
        return {"wrote": wrote, **_sync(library)}
    finally:
        library.close()


def _write(library: Library, count: int, scopes: Sequence[str]) -> float:
    """Write observations, each in a transaction and in the next scope; returns the seconds.

    They are indexed at the end, which would take most of the time otherwise.
    """
    sentences = _sentences(count)
    start = time.perf_counter()
    for number, text in enumerate(sentences):
        body = Observation(
            text[:60], text, "research_note", ("bench",), scopes[number % len(scopes)]
        )
        _write_one(library, body)
    took = time.perf_counter() - start
    if sentences:
        library.follow()
    return took


def _write_one(library: Library, body: Observation) -> None:
    def work(step: RecordTransaction) -> str:
        return step.make(new_id(Observation), body).id

    key, texts = fresh_key(), wording(library.settings)
    library.store.records.perform(
        work,
        TransactionOptions(
            actor=person(), key=key, action="create_observations", payload=key, wording=texts
        ),
    )


def _sync(library: Library) -> dict[str, object]:
    remote = connection.remote_of(library)
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = cycle.sync(library, remote)
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    if outcome.status != cycle.OK:
        raise SystemExit(f"the sync ended as {outcome}")
    return {**took, "flushed": outcome.flushed, "pulled": outcome.pulled}


def _library(settings: Settings) -> Library:
    library = Library(settings)
    library.store.lease.take()
    return library


def _sentences(count: int) -> list[str]:
    draw, known = random.Random(fresh_key()), words()
    return [" ".join(draw.choices(known, k=60)) for _ in range(count)]


# -- writes past the server


def fresh(
    settings: Settings, url: str, address: str, token: str, scopes: Sequence[str], rounds: int
) -> dict[str, object]:
    """Write into the ledger from this process and search for it at the Core at once.

    Returns the milliseconds of each answer, and the number of answers with the record.
    """
    with open_ledger(url) as ledger:
        return asyncio.run(_fresh(settings, ledger, Client(address, token), scopes, rounds))


async def _fresh(
    settings: Settings, ledger: Ledger, client: Client, scopes: Sequence[str], rounds: int
) -> dict[str, object]:
    took, found = list[float](), 0
    await client.ask("POST", "/search", {"query": "warm"})
    for number in range(rounds):
        word = f"zq{random.randrange(1 << 40):x}"
        made = Record(
            new_id(Observation),
            Observation(word, f"The word is {word}.", "other", (), scopes[number % len(scopes)]),
        )

        def work(step: RecordTransaction, made: Record[Observation] = made) -> str:
            return step.put(made).id

        ledger.records.perform(
            work,
            TransactionOptions(
                actor=_owner(), key=word, action="bench", payload=word, wording=wording(settings)
            ),
        )
        start = time.perf_counter()
        answer = await client.ask("POST", "/search", {"query": word})
        took.append((time.perf_counter() - start) * 1000)
        found += made.id.encode() in answer
    await client.close()
    return {"took": took, "found": found}


def main() -> None:
    task, given = sys.argv[1], json.loads(sys.argv[2])
    settings = load(None, environment=dict(os.environ))
    tasks = {"fill": fill, "restore": restore, "join": join, "sync": sync, "fresh": fresh}
    print(json.dumps(tasks[task](settings, **given)))


if __name__ == "__main__":
    main()
