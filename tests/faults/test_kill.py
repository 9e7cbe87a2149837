"""A process that is killed at any moment loses no acknowledged write."""

from __future__ import annotations

import random
import shutil
import threading

import pytest

from cortex.base.types import Mode, Query
from cortex.engine.embedders.circuit_breaker import Embedders
from faults.conftest import Program


@pytest.mark.soak
def test_killed_writer_loses_no_acknowledged_note_or_file(start, open_engine, campaign):
    chance = random.Random(20_240)
    acknowledged: list[list[str]] = []
    for _ in range(campaign(3, 200)):
        writer = start("note_writer.py")
        for _ in range(chance.randrange(1, 12)):
            acknowledged.append(writer.read().split())
        threading.Event().wait(chance.random() * 0.03)  # any moment, not only after a line
        acknowledged.extend(line.split() for line in writer.kill())
        acknowledged = [words for words in acknowledged if len(words) == 3]
        check(open_engine, acknowledged)


def check(open_engine, acknowledged: list[list[str]]) -> None:
    with open_engine() as engine:
        notes = engine.store.content.source("records", "notes", "")
        records = {doc.id for doc in engine.store.content.docs(notes.id)}
        files = {doc.path for doc in engine.store.content.docs(engine.source.id)}
        assert {int(words[1]) for words in acknowledged if words[0] == "put"} <= records
        assert {words[1] for words in acknowledged if words[0] == "file"} <= files
        assert engine.store.check() == []
        engine.index()
        for kind, name, word in acknowledged[-2:]:
            if kind == "put":
                hits = engine.search(Query(word, mode=Mode.WORDS), sources=[notes]).hits
                assert [hit.doc for hit in hits] == [int(name)]
            else:
                assert [hit.path for hit in engine.search(Query(word, mode=Mode.WORDS)).hits] == [
                    name
                ]
        assert engine.store.check() == []
        assert engine.store.indexes.words().watermark() == engine.store.content.seq()


@pytest.mark.soak
def test_text_with_a_stored_vector_is_not_embedded_again_after_a_kill(
    start, open_engine, root, campaign
):
    chance = random.Random(7)
    names = {f"function_{number}" for number in range(90)}
    for name in names:
        (root / f"{name}.py").write_text(f"def {name}():\n    return '{name}'\n", encoding="utf-8")
    for _ in range(campaign(1, 40)):
        shutil.rmtree(root / ".cortex", ignore_errors=True)
        kept: set[str] = set()
        lines: list[str] = []
        while "done" not in lines:
            lines = embed_until_killed(start("costly_indexer.py"), chance)
            asked: list[str] = []
            for line in lines:
                word, _, text = line.partition(" ")
                if word == "asks":
                    assert text not in kept, "it was paid for twice"
                    asked.append(text)
                elif word == "kept":
                    kept.update(asked)
            with open_engine(embedders=Embedders(None)) as engine:
                assert engine.store.check() == []
                assert sum(count for _, _, count in engine.store.paid.models()) >= len(kept)
        assert {f"def {name}():" for name in names} <= kept


def embed_until_killed(indexer: Program, chance: random.Random) -> list[str]:
    """Lines of a program until it is killed some batches after its start, or is done."""
    batches, lines = chance.randrange(1, 4), [indexer.read()]
    while batches and lines[-1] != "done":
        lines.append(indexer.read())
        batches -= lines[-1].startswith("kept")
    threading.Event().wait(chance.random() * 0.05)
    return lines + indexer.kill()
