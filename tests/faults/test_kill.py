"""Killed at any moment, a process has lost nothing that it had said was done."""

from __future__ import annotations

import random
import shutil
import threading

import pytest

from cortex.base.types import Mode, Query
from cortex.engine.embedders.circuit_breaker import Embedders


@pytest.mark.soak
def test_a_killed_writer_has_lost_nothing_that_it_acknowledged(start, open_engine, campaign):
    chance = random.Random(20_240)
    said: list[list[str]] = []
    for _ in range(campaign(3, 200)):
        writer = start("writer.py")
        for _ in range(chance.randrange(1, 12)):
            said.append(writer.read().split())
        threading.Event().wait(chance.random() * 0.03)  # any moment, not only the one after a line
        said.extend(line.split() for line in writer.kill())
        said = [words for words in said if len(words) == 3]
        check(open_engine, said)


def check(open_engine, said: list[list[str]]) -> None:
    with open_engine() as engine:
        notes = engine.store.content.source("records", "notes", "")
        records = {doc.id for doc in engine.store.content.docs(notes.id)}
        files = {doc.path for doc in engine.store.content.docs(engine.source.id)}
        assert {int(words[1]) for words in said if words[0] == "put"} <= records
        assert {words[1] for words in said if words[0] == "file"} <= files
        assert engine.store.check() == []
        engine.index()
        for kind, what, word in said[-2:]:
            if kind == "put":
                hits = engine.search(Query(word, mode=Mode.WORDS), sources=[notes]).hits
                assert [hit.doc for hit in hits] == [int(what)]
            else:
                assert [hit.path for hit in engine.search(Query(word, mode=Mode.WORDS)).hits] == [
                    what
                ]
        assert engine.store.check() == []
        assert engine.store.indexes.words().watermark() == engine.store.content.seq()


@pytest.mark.soak
def test_a_killed_embedder_pays_for_nothing_again_that_was_kept(start, open_engine, root, campaign):
    chance = random.Random(7)
    names = {f"function_{number}" for number in range(90)}
    for name in names:
        (root / f"{name}.py").write_text(f"def {name}():\n    return '{name}'\n", encoding="utf-8")
    for _ in range(campaign(1, 40)):
        shutil.rmtree(root / ".cortex", ignore_errors=True)
        kept: set[str] = set()
        lines: list[str] = []
        while "done" not in lines:
            lines = embed_until_killed(start("payer.py"), chance)
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


def embed_until_killed(payer, chance: random.Random) -> list[str]:
    """What it said until it was killed, some batches after its start, or was done."""
    batches, lines = chance.randrange(1, 4), [payer.read()]
    while batches and lines[-1] != "done":
        lines.append(payer.read())
        batches -= lines[-1].startswith("kept")
    threading.Event().wait(chance.random() * 0.05)
    return lines + payer.kill()
