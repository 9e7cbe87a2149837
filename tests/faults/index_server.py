"""One of several servers on a folder: an engine with background indexing that answers lines."""

import json
import sys
from pathlib import Path

import cortex.engine.auto_indexer
import cortex.engine.searcher
from cortex.base.errors import CortexError
from cortex.base.settings import load
from cortex.base.types import Mode, Query
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.engine import Engine

# The tests ask until the answer is there
cortex.engine.auto_indexer.RETRY_SECONDS = cortex.engine.searcher.FIRST_ANSWER_SECONDS = 0.5
root, home = Path(sys.argv[1]), Path(sys.argv[2])
settings = load(root, environment={"CORTEX_HOME": str(home)}, flags={"indexing.workers": 1})
with Engine(root, settings) as engine:
    indexer = AutoIndexer(engine)
    print("ready", flush=True)
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(" ")
        try:
            if verb == "search":
                page = engine.search(Query(rest, mode=Mode.WORDS))
                print(json.dumps([hit.path for hit in page.hits]), flush=True)
            elif verb == "holds":
                print(int(engine.store.lease.held), flush=True)
            elif verb == "index":
                print(engine.index(paths=[rest] if rest else None).status, flush=True)
        except CortexError as error:
            print(error.code, flush=True)
    indexer.close()
