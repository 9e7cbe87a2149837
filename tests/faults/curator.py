"""Writes, judges, edits, deletes and copies memories for ever, and says what became of each after
that is done.
"""

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cortex.base.types import Memory
from cortex.engine.store import MemoryFilter
from cortex.families.memory import curation
from cortex.families.memory.curation import delete, edit, judge, supersede, undo
from cortex.families.memory.mirror import sync
from cortex.families.memory.writer import add
from families.memory.libraries import open_library, settings_of

root, home = Path(sys.argv[1]), Path(sys.argv[2])
curation.BATCH = 3  # so that a step is more than one transaction


def tell(library) -> None:
    """What the last step made of its memories."""
    lookup = library.store.memories
    last = lookup.decisions(1)
    told = []
    for line in [
        decision for decision in lookup.decisions(50) if last and decision.batch == last[0].batch
    ]:
        found = lookup.by_key(line.key, {line.origin})
        state = "deleted" if not found else found[0].state.value if found[0].state else ""
        told.append(
            [line.batch, line.origin, line.key, state, found[0].memory.title if found else ""]
        )
    print(json.dumps(told), flush=True)  # in one breath


def step(library, chance: random.Random, number: int) -> None:
    known = library.store.memories.select(MemoryFilter())
    some = chance.sample(known, min(len(known), chance.choice((1, 2, 7))))
    match chance.choice(
        ("add", "add", "judge", "judge", "judge", "edit", "supersede", "undo", "delete", "copy")
    ):
        case "judge" if some:
            judge(library, some, chance.choice(("approve", "promote", "reject")))
        case "edit" if some:
            edit(
                library,
                some[0],
                Memory("", f"Lamp {number} is green", project="shop", facts=(f"fact {number}",)),
            )
        case "supersede" if len(some) > 1 and not curation._leads_to(library, some[1], some[0]):
            supersede(library, some[0], some[1])
        case "undo":
            undo(library)
        case "delete" if len(known) > 10:
            delete(library, some[:1])
        case "copy":
            sync(library, seconds=1)
            return
        case _:
            add(library, Memory("", f"Lamp {number} is blue", project="shop"))
    tell(library)


with open_library(settings_of(home, ACK_MEM_DB=str(root / "mem" / "claude-mem.db"))) as library:
    first = library.store.content.seq()
    chance = random.Random(first)
    print("[]", flush=True)
    for number in range(first * 1000, first * 1000 + 10**6):
        step(library, chance, number)
