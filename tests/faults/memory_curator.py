"""Write, judge, edit, delete and copy memories for ever; prints states after each step."""

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cortex.base.types import Memory
from cortex.engine.library import Library
from cortex.engine.store import MemoryFilter
from cortex.families.memory import curation
from cortex.families.memory.curation import delete, edit, judge, supersede, undo
from cortex.families.memory.mirror import sync
from cortex.families.memory.writer import add
from families.memory.libraries import open_library, settings_of

root, home = Path(sys.argv[1]), Path(sys.argv[2])
# So that a step is more than one transaction
curation.BATCH = 3


def print_last_step(library: Library) -> None:
    """Print the state of each memory that the last step touched."""
    lookup = library.store.memories
    last = lookup.decisions(1)
    states = []
    for decision in [
        decision for decision in lookup.decisions(50) if last and decision.batch == last[0].batch
    ]:
        found = lookup.by_key(decision.key, {decision.origin})
        state = "deleted" if not found else found[0].state.value if found[0].state else ""
        states.append(
            [
                decision.batch,
                decision.origin,
                decision.key,
                state,
                found[0].memory.title if found else "",
            ]
        )
    # A single write, so that a kill leaves no half of a step
    print(json.dumps(states), flush=True)


def step(library: Library, chance: random.Random, number: int) -> None:
    known = library.store.memories.select(MemoryFilter())
    chosen = chance.sample(known, min(len(known), chance.choice((1, 2, 7))))
    match chance.choice(
        ("add", "add", "judge", "judge", "judge", "edit", "supersede", "undo", "delete", "copy")
    ):
        case "judge" if chosen:
            judge(library, chosen, chance.choice(("approve", "promote", "reject")))
        case "edit" if chosen:
            edit(
                library,
                chosen[0],
                Memory("", f"Lamp {number} is green", project="shop", facts=(f"fact {number}",)),
            )
        case "supersede" if len(chosen) > 1 and not curation._leads_to(
            library, chosen[1], chosen[0]
        ):
            supersede(library, chosen[0], chosen[1])
        case "undo":
            undo(library)
        case "delete" if len(known) > 10:
            delete(library, chosen[:1])
        case "copy":
            sync(library, seconds=1)
            return
        case _:
            add(library, Memory("", f"Lamp {number} is blue", project="shop"))
    print_last_step(library)


with open_library(settings_of(home, ACK_MEM_DB=str(root / "mem" / "claude-mem.db"))) as library:
    first = library.store.content.seq()
    chance = random.Random(first)
    print("[]", flush=True)
    for number in range(first * 1000, first * 1000 + 10**6):
        step(library, chance, number)
