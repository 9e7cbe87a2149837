"""Memories outlive whatever happens to those who write them, and are whole for whoever reads them
meanwhile.
"""

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
from families.memory.adapters.claude_bases import START, make_claude_mem
from families.memory.desk import open_library, settings_of

READERS = 8


def variables(root: Path) -> dict[str, str]:
    return {"ACK_MEM_DB": str(root / "mem" / "claude-mem.db")}


@pytest.mark.soak
def test_a_killed_curator_has_lost_no_decision_that_it_acknowledged(start, root, home, campaign):
    made = make_claude_mem(root / "mem" / "claude-mem.db")
    made.many(12)
    made.close()
    chance = random.Random(20_261)
    said: dict[tuple[str, str], tuple[int, str, str]] = {}
    for _ in range(campaign(5, 200)):
        curator = start("curator.py")
        lines = [curator.read() for _ in range(chance.randrange(2, 25))]
        threading.Event().wait(chance.random() * 0.05)  # any moment, not only the one after a line
        lines += curator.kill()
        for line in lines:
            for batch, origin, key, state, title in json.loads(line) if line.endswith("]") else ():
                said[origin, key] = (batch, state, title)
        with open_library(settings_of(home, **variables(root))) as library:
            check(library, said)


def check(library: Library, said: dict[tuple[str, str], tuple[int, str, str]]) -> None:
    lookup = library.store.memories
    log = lookup.decisions(100_000)
    acknowledged = max((batch for batch, _, _ in said.values()), default=0)
    late = {one.batch for one in log if one.batch > acknowledged}
    assert len(late) <= 1, "only the step that was under way may be there without having been told"
    touched = {(one.origin, one.key) for one in log if one.batch in late}
    memories = {one.ref: one for one in lookup.select(MemoryFilter())}
    for ref in touched:  # it is known from now on
        one = memories.get(ref)
        state = "deleted" if one is None else one.state.value if one.state else ""
        said[ref] = (max(late), state, one.memory.title if one else "")
    for ref, (_, state, title) in said.items():
        if state == "deleted":
            assert ref not in memories
            assert ref[0] == OWN or ref[1] in lookup.forgotten(ref[0])
        else:
            assert (
                memories[ref].state.value if memories[ref].state else "",
                memories[ref].memory.title,
            ) == (state, title)
    sources = {
        one.id: one for one in lookup.sources({ref[0] for ref in memories} | {OWN}, (SHOWN, STAGED))
    }
    docs = {
        (source.root, doc.path, source.id)
        for source in sources.values()
        for doc in library.store.content.docs(source.id)
    }
    assert docs == {(*ref, one.source) for ref, one in memories.items() if one.source is not None}
    for ref, one in memories.items():
        assert (sources[one.source].name if one.source else None) == name_of(one.state, "approved")
        last = next((line for line in log if (line.origin, line.key) == ref), None)
        assert (last.after if last else "") == (one.state.value if one.state else ""), (
            "the log and the states differ"
        )
    assert library.holds_lease() and library.follow()
    assert library.store.check() == []
    assert library.store.indexes.words().watermark() == library.store.content.seq()


@pytest.mark.soak
def test_readers_get_whole_memories_while_others_write(start, root, home, campaign):
    seconds = campaign(2, 60)
    made = make_claude_mem(root / "mem" / "claude-mem.db")
    session = made.session("s1", root.name)
    row(made, session, 0)
    writer = start("judge.py")
    assert writer.read() == "ready"
    readers = [start("asker.py") for _ in range(READERS)]
    for reader in readers:
        reader.tell(str(seconds))
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
