"""Write, edit, judge and delete memories, with background work, until stdin ends."""

import random
import sys
import threading
from functools import partial
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cortex.base.types import Memory
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.store import OWN, MemoryFilter
from cortex.families.memory.background import tend
from cortex.families.memory.curation import delete, edit, judge
from cortex.families.memory.writer import add
from families.memory.libraries import open_library, settings_of

root, home = Path(sys.argv[1]), Path(sys.argv[2])
ended = threading.Event()


def lamp(number: int, version: int) -> Memory:
    mark = f"{number} {version}"
    return Memory(
        "",
        f"Lamp {mark} lit",
        facts=(f"fact {mark} of it",),
        text=f"story {mark} told",
        project=root.name,
    )


with open_library(settings_of(home, ACK_MEM_DB=str(root / "mem" / "claude-mem.db"))) as library:
    library.chores.append(partial(tend, library))
    indexer = AutoIndexer(library)
    add(library, lamp(1, 1))
    print("ready", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    chance = random.Random(1)
    for number in count(2):
        add(library, lamp(number, 1))
        known = library.store.memories.select(MemoryFilter(origins=(OWN,)), 20)
        edit(library, known[0], lamp(number, 2))
        judge(library, chance.sample(known, 1), chance.choice(("approve", "reject", "promote")))
        if number % 5 == 0:
            delete(library, known[-1:])
        if ended.is_set():
            break
    indexer.close()
    print("done", number, flush=True)
