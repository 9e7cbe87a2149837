"""Memories survive the kill of their writer, and concurrent readers see each of them whole."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path

import pytest

from cortex.engine.library import Library
from cortex.engine.store import OWN, SHOWN, STAGED, MemoryFilter
from cortex.families.memory.states import name_of
from families.memory.adapters.claude_mem_databases import START, make_claude_mem
from families.memory.libraries import open_library, settings_of

READERS = 8


def variables(root: Path) -> dict[str, str]:
    return {"ACK_MEM_DB": str(root / "mem" / "claude-mem.db")}


@pytest.mark.soak
def test_killed_curator_loses_no_acknowledged_decision(start, root, home, campaign):
    made = make_claude_mem(root / "mem" / "claude-mem.db")
    made.many(12)
    made.close()
    chance = random.Random(20_261)
    acknowledged: dict[tuple[str, str], tuple[int, str, str]] = {}
    for _ in range(campaign(5, 200)):
        curator = start("memory_curator.py")
        lines = [curator.read() for _ in range(chance.randrange(2, 25))]
        threading.Event().wait(chance.random() * 0.05)  # any moment, not only after a line
        lines += curator.kill()
        for line in lines:
            for batch, origin, key, state, title in json.loads(line) if line.endswith("]") else ():
                acknowledged[origin, key] = (batch, state, title)
        with open_library(settings_of(home, **variables(root))) as library:
            check(library, acknowledged)


def check(library: Library, acknowledged: dict[tuple[str, str], tuple[int, str, str]]) -> None:
    lookup = library.store.memories
    log = lookup.decisions(100_000)
    last_batch = max((batch for batch, _, _ in acknowledged.values()), default=0)
    late = {decision.batch for decision in log if decision.batch > last_batch}
    assert len(late) <= 1, "only the interrupted step may be there without acknowledgement"
    touched = {(decision.origin, decision.key) for decision in log if decision.batch in late}
    memories = {record.ref: record for record in lookup.select(MemoryFilter())}
    for ref in touched:  # its outcome is known from now on
        record = memories.get(ref)
        state = "deleted" if record is None else record.state.value if record.state else ""
        acknowledged[ref] = (max(late), state, record.memory.title if record else "")
    for ref, (_, state, title) in acknowledged.items():
        if state == "deleted":
            assert ref not in memories
            assert ref[0] == OWN or ref[1] in lookup.forgotten(ref[0])
        else:
            assert (
                memories[ref].state.value if memories[ref].state else "",
                memories[ref].memory.title,
            ) == (state, title)
    sources = {
        source.id: source
        for source in lookup.sources({ref[0] for ref in memories} | {OWN}, (SHOWN, STAGED))
    }
    docs = {
        (source.root, doc.path, source.id)
        for source in sources.values()
        for doc in library.store.content.docs(source.id)
    }
    assert docs == {
        (*ref, record.source) for ref, record in memories.items() if record.source is not None
    }
    for ref, record in memories.items():
        name = sources[record.source].name if record.source else None
        assert name == name_of(record.state, "approved")
        last = next((entry for entry in log if (entry.origin, entry.key) == ref), None)
        assert (last.after if last else "") == (record.state.value if record.state else ""), (
            "the log and the states differ"
        )
    assert library.holds_lease() and library.follow()
    assert library.store.check() == []
    assert library.store.indexes.words().watermark() == library.store.content.seq()


@pytest.mark.soak
def test_readers_see_whole_memories_during_writes(start, root, home, campaign):
    seconds = campaign(2, 60)
    made = make_claude_mem(root / "mem" / "claude-mem.db")
    session = made.session("s1", root.name)
    row(made, session, 0)
    writer = start("memory_writer.py")
    assert writer.read() == "ready"
    readers = [start("memory_reader.py") for _ in range(READERS)]
    for reader in readers:
        reader.write(str(seconds))
    ended = threading.Event()
    answers: list[str] = []

    def wait() -> None:
        answers.extend(reader.read() for reader in readers)
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    number, deadline = 1, time.monotonic() + seconds + 60
    while not ended.wait(0.02) and time.monotonic() < deadline:
        row(made, session, number)
        if number % 7 == 0:
            mark = f"{number - 5} 2"
            values = (
                f"Row {mark} seen",
                json.dumps([f"fact {mark} of it"]),
                f"story {mark} told",
                number - 4,
            )
            made.connection.execute(
                "UPDATE observations SET title = ?, facts = ?, narrative = ? WHERE id = ?", values
            )
            made.connection.commit()
        number += 1
    waiting.join(10)
    assert writer.end() == 0 and [reader.end() for reader in readers] == [0] * READERS
    assert len(answers) == READERS and all(
        int(line.split()[1]) > 0 and int(line.split()[2]) > 0 for line in answers
    ), answers
    made.close()


def row(made, session: str, number: int) -> None:
    mark = f"{number} 1"
    made.observation(session, f"Row {mark} seen", made.path.parent.parent.name, facts=[f"fact {mark} of it"], narrative=f"story {mark} told", created_at_epoch=START + number)  # fmt: skip
