"""A process that keeps a library as a server does, until a line comes on its stdin."""

import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from cortex.engine.auto_indexer import AutoIndexer
from cortex.families.memory.background import tend
from families.memory.libraries import open_library, settings_of

with open_library(settings_of(Path(sys.argv[1]))) as library:
    library.chores.append(partial(tend, library))
    keeper = AutoIndexer(library)
    while not library.store.lease.held:
        time.sleep(0.01)
    print("holds", flush=True)
    sys.stdin.readline()
    keeper.close()
