"""Holds the lease of a library and copies what there is to copy, until its stdin says otherwise."""

import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cortex.memories.mirror import is_work, sync
from memories.desk import hold, open_library, settings_of

ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
with open_library(settings_of(Path(sys.argv[1]))) as library:
    hold(library)
    print("holds", flush=True)
    while not ended.is_set():
        if is_work(library):
            sync(library, seconds=5)
        time.sleep(0.01)
